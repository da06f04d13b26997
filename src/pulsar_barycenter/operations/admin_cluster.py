"""A running cluster of Barycenter or Apache Pulsar, asked by its admin REST to move bundles.

An owner of Barycenter is told by `ownedNamespaces` of the broker itself, one of Apache Pulsar by a look-up: a broker of
its modular load manager that is asked for `ownedNamespaces` while it takes a bundle can wait for itself for ever, in
the thread by which it hears of its metadata store, and then serves no new bundle until it is restarted (seen with
4.2.4). A look-up gives a bundle that nobody serves an owner. Where that is not wanted, Apache Pulsar is asked to list
the non-persistent topics of the bundle: its owner does, other brokers redirect to the owner, and all say so if there is
none.

A bundle that nobody serves gets its owner with the next look-up of one of its topics, which is made here: of a topic
that exists, else of a name that falls into the bundle and that no look-up creates.

Source: Pulsar's `NamespacesBase.internalUnloadNamespaceBundleAsync`, `BrokersBase.getOwnedNamespaces`,
`NamespaceService.getOwnedNameSpacesStatusAsync`, `NonPersistentTopics.getListFromBundle`.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient, reason_of
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.operations.executor import NotNowError, RefusedError

_IN_TRANSIT: Final = (0, 307, 409, 429, 500, 503)
"""What a broker answers while it cannot tell: 0 is no answer, 500 what Pulsar says of a bundle that is being moved."""
_OK, _NO_CONTENT, _MOVED = 200, 204, 307
_NOT_ACTIVE: Final = "inactive destination"
_MOST_TRIED: Final = 1 << 20
_AT_ONCE: Final = 16
_TIMEOUT_S: Final = 60.0
_READ_S: Final = 5.0
"""After which a question is put again."""


class AdminCluster:
    """`url` is the web address of any broker; with `https:` all are asked by TLS. `headers_of` returns the headers that
    go with the request to unload a bundle."""

    def __init__(
        self, client: AdminClient, url: str, *, headers_of: Callable[[str], Mapping[str, str]] = lambda _: {}
    ) -> None:
        self._client = client
        self._headers_of = headers_of
        self._url = url
        self._cluster = ""
        self._known_drains: bool | None = None
        self._addresses: dict[str, str] = {}
        self._topics: dict[str, TopicName | None] = {}

    async def brokers(self) -> list[str]:
        """Return the brokers that are registered, by name.

        Raises:
            NotNowError, RefusedError: they cannot be had.
        """
        return sorted(msgspec.convert(await self._call("GET", self._url, "/admin/v2/brokers"), list[str]))

    async def serves(self, broker: str, bundle: str) -> bool:
        if await self._is_apache_pulsar() and (owner := await self.look_up(bundle)):
            return owner == broker
        return bundle in await self.owned(broker)

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        if not await self._is_apache_pulsar():
            return frozenset(bundles) & await self.owned(broker)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def owner(bundle: str) -> str:
            async with gate:
                return await self.look_up(bundle)

        owners = await asyncio.gather(*map(owner, bundles))
        return frozenset(bundle for bundle, found in zip(bundles, owners, strict=True) if found in (broker, ""))

    async def owned(self, broker: str) -> frozenset[str]:
        """Return the bundles that a broker serves, by its own word.

        Raises:
            NotNowError, RefusedError: it does not tell.
        """
        path = f"/admin/v2/brokers/{quote(await self._name(), safe='')}/{quote(broker, safe=':')}/ownedNamespaces"
        owned: Mapping[str, Any] = await self._call("GET", await self._address(broker), path) or {}
        return frozenset(bundle for bundle, told in owned.items() if told.get("is_active", False))

    async def owners(self, bundles: Collection[str]) -> dict[str, str]:
        """Return the broker that serves each bundle, blank if nobody does. Nothing is changed by that.

        Raises:
            NotNowError, RefusedError: it cannot be told, or a bundle that nobody serves does not exist.
        """
        gate = asyncio.Semaphore(_AT_ONCE)
        if await self._is_apache_pulsar():
            addresses = {await self._address(broker): broker for broker in await self.brokers()}

            async def owner(bundle: str) -> str:
                async with gate:
                    return await self._owner_of_apache_pulsar(bundle, addresses)

            found = await asyncio.gather(*map(owner, bundles))
            return dict(zip(bundles, found, strict=True))

        async def owned(broker: str) -> tuple[str, frozenset[str]]:
            async with gate:
                return broker, await self.owned(broker)

        held = await asyncio.gather(*map(owned, await self.brokers()))
        owners = {bundle: broker for broker, served in held for bundle in served}
        for bundle in bundles:
            if bundle not in owners:
                await self._topic_in(bundle)  # refused if there is no such bundle
        return {bundle: owners.get(bundle, "") for bundle in bundles}

    async def settings(self, broker: str = "") -> dict[str, str]:
        """Return every key with the value in force on a broker, or on the one at the address that was given.

        Raises:
            NotNowError, RefusedError: it does not tell.
        """
        url = await self._address(broker) if broker else self._url
        told = await self._call("GET", url, "/admin/v2/brokers/configuration/runtime")
        return msgspec.convert(told, dict[str, str], strict=False)

    async def set_dynamic(self, key: str, value: str, *, expected: str) -> None:
        """Change a key that is `expected` on all brokers; each goes by it when it hears of it.

        Raises:
            NotNowError: it was not stored, perhaps because somebody else changed it meanwhile: read it again.
            RefusedError: it cannot be stored.
        """
        path = f"/admin/v2/brokers/configuration/{quote(key)}/{quote(value, safe='')}"
        await self._call("POST", self._url, path, params={"expected": expected})

    async def isolation(self) -> Mapping[str, Any]:
        """Return the isolation policies of the cluster by name, as they are stored.

        Raises:
            NotNowError, RefusedError: they cannot be had.
        """
        path = f"/admin/v2/clusters/{quote(await self._name(), safe='')}/namespaceIsolationPolicies"
        try:
            found: Mapping[str, Any] = await self._client.call("GET", self._url, path) or {}
        except AdminRequestError as error:
            if error.status == 404:  # there are none
                return {}
            raise _translated(error) from error
        return found

    async def unload(self, bundle: str, destination: str) -> None:
        path = f"/admin/v2/namespaces/{quote(bundle)}/unload"
        await self._call(
            "PUT", self._url, path, params={"destinationBroker": destination}, headers=self._headers_of(bundle)
        )

    async def look_up(self, bundle: str) -> str:
        topic = await self._topic_in(bundle)
        if topic is None:
            return ""
        try:
            found = await self._call("GET", self._url, f"/lookup/v2/topic/{topic.lookup_name}")
        except RefusedError:  # topics are made by hand there, and this one is not
            return ""
        address = found.get("httpUrl") or found.get("httpUrlTls") or ""
        return next((broker for broker, known in self._addresses.items() if known == address), urlsplit(address).netloc)

    async def _owner_of_apache_pulsar(self, bundle: str, addresses: Mapping[str, str]) -> str:
        """Return who serves a bundle by whom its non-persistent topics are listed; `addresses` map to brokers."""
        await self._topic_in(bundle)  # refused if there is no such bundle
        path = f"/admin/v2/non-persistent/{quote(bundle)}"
        url = self._url.rstrip("/") if self._url.rstrip("/") in addresses else min(addresses, key=addresses.__getitem__)
        answer = await self._client.ask(url, path)
        if answer.status == _NO_CONTENT:
            return ""
        if answer.status == _OK:
            return addresses[url]
        if answer.status != _MOVED:
            raise _translated(AdminRequestError("GET", url, answer.status, reason_of(answer.body)))
        there = urlsplit(answer.headers.get("location", ""))
        return addresses.get(f"{there.scheme}://{there.netloc}", there.netloc)

    async def _is_apache_pulsar(self) -> bool:
        if self._known_drains is None:
            self._known_drains = DRAINED_KEY in await self.settings()
        return not self._known_drains

    async def _name(self) -> str:
        if not self._cluster:
            self._cluster = (await self.settings())["clusterName"]
        return self._cluster

    async def _topic_in(self, bundle: str) -> TopicName | None:
        """Return a topic of the bundle, None if no name is found that falls into it."""
        if bundle not in self._topics:
            parsed = Bundle.parse(bundle)
            there = await self._call(
                "GET", self._url, f"/admin/v2/persistent/{parsed.namespace}", params={"bundle": str(parsed.range)}
            )
            self._topics[bundle] = TopicName.parse(there[0]) if there else _made_up(parsed)
        return self._topics[bundle]

    async def _address(self, broker: str) -> str:
        if broker not in self._addresses:
            self._addresses[broker] = await address_of(self._client, broker, self._url)
        return self._addresses[broker]

    async def _call(
        self,
        method: str,
        url: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        try:
            # what changes something is awaited as long as the client does: asked twice, it would be done twice
            async with asyncio.timeout(_READ_S if method == "GET" else None):
                return await self._client.call(method, url, path, params=params, headers=headers)
        except AdminRequestError as error:
            raise _translated(error) from error
        except TimeoutError:
            raise NotNowError(f"{method} {url}{path}: no answer within {_READ_S:g} s") from None


def _translated(error: AdminRequestError) -> NotNowError | RefusedError:
    told = without_report(error)
    is_passing = error.status in _IN_TRANSIT or (error.status == 412 and _NOT_ACTIVE not in error.reason)
    return NotNowError(told) if is_passing else RefusedError(told)


def _made_up(bundle: Bundle) -> TopicName | None:
    """Return a name that falls into the bundle, None if too few do."""
    for number in range(_MOST_TRIED):
        topic = TopicName.parse(f"persistent://{bundle.namespace}/barycenter-look-up-{number}")
        if bundle.range.contains(topic.hash32):
            return topic
    return None


async def nobody_serves(new_client: NewClient, url: str, bundle: str) -> bool:
    """Tell whether a bundle of Barycenter exists and no broker serves it, by their own word; it gets no owner by this.

    False also if a broker does not tell. `url` is the web address of any broker.
    """
    client = new_client(timeout_s=_TIMEOUT_S)
    try:
        return not (await AdminCluster(client, url).owners([bundle]))[bundle]
    except (NotNowError, RefusedError):
        return False
    finally:
        await client.close()
