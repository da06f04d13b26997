"""Moves and splits bundles of a running cluster of Barycenter or Apache Pulsar by its admin REST.

With Barycenter, `ownedNamespaces` of a broker shows which bundles it serves. With Apache Pulsar, a look-up shows the
owner. The reason: a broker of Pulsar's modular load manager that gets the request `ownedNamespaces` while it acquires a
bundle can deadlock in the thread that receives notifications of its metadata store; the broker then serves no new
bundles until it is restarted (seen with Pulsar 4.2.4). A look-up assigns a bundle without an owner. If that is not
wanted, Apache Pulsar is asked to list the non-persistent topics of the bundle: the owner returns them, other brokers
redirect to the owner, and all report it if there is no owner.

A bundle without an owner gets one with the next look-up of one of its topics. That look-up is made here: of a topic
that exists, else of a generated name that falls into the bundle and that a look-up does not create.

Source: Pulsar's `NamespacesBase.internalUnloadNamespaceBundleAsync`, `BrokersBase.getOwnedNamespaces`,
`NamespaceService.getOwnedNameSpacesStatusAsync`, `NonPersistentTopics.getListFromBundle`,
`PersistentTopicsBase.internalGetListAsync`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
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
"""Status codes that mean "try again": 0 is no answer; Pulsar returns 500 for a bundle that is being moved."""
_NO_ANSWER, _OK, _NO_CONTENT, _MOVED, _NOT_FOUND = 0, 200, 204, 307, 404
_NOT_ACTIVE: Final = "inactive destination"
_MAX_TRIED_NAMES: Final = 1 << 20
_AT_ONCE: Final = 16
_TIMEOUT_S: Final = 60.0
_READ_S: Final = 5.0
"""The time limit of a GET request. After it, the request fails with NotNowError, and the caller may repeat the request.
"""


class AdminCluster:
    """A running cluster whose bundles can be moved, reached by the admin REST of its brokers. Implements
    `executor.Cluster`.

    `url` is the web address of any broker; with `https:` all requests use TLS. `headers_of` returns additional headers
    for the request that unloads a bundle. If that broker does not answer a request, the next requests are sent to
    another broker that `turn_to` has named, so that a repeated request does not wait for a broker that was killed.
    """

    def __init__(
        self, client: AdminClient, url: str, *, headers_of: Callable[[str], Mapping[str, str]] = lambda _: {}
    ) -> None:
        self._client = client
        self._headers_of = headers_of
        self._url = url
        self._others: tuple[str, ...] = ()
        self._cluster = ""
        self._known_drains: bool | None = None
        self._addresses: dict[str, str] = {}
        self._topics: dict[str, TopicName | None] = {}
        self._listed: dict[str, list[TopicName]] = {}

    @property
    def url(self) -> str:
        """The web address of the broker to which requests are sent."""
        return self._url

    def turn_to(self, url: str, others: Iterable[str] = ()) -> None:
        """Send requests to the broker at the web address `url` from now on; after a request without an answer, to the
        next one of `others`, in turn. All these brokers must belong to the same cluster.
        """
        self._url = url
        self._others = tuple(other for other in dict.fromkeys(others) if other != url)

    def _turn_away(self, url: str) -> None:
        """Send requests to the next known broker if they are sent to the one at `url`, which did not answer."""
        if url == self._url and self._others:
            self._url, self._others = self._others[0], (*self._others[1:], url)

    async def brokers(self) -> list[str]:
        """Return the ids of the registered brokers, sorted.

        Raises:
            NotNowError, RefusedError: the list cannot be read.
        """
        return sorted(msgspec.convert(await self._call("GET", self._url, "/admin/v2/brokers"), list[str]))

    async def leader(self) -> str:
        """Return the id of the broker that is the leader.

        Raises:
            NotNowError, RefusedError: it is not known, or no broker leads now.
        """
        answer: Mapping[str, Any] | None = await self._call_or_none("/admin/v2/brokers/leaderBroker")
        if answer is None:
            raise NotNowError(f"{self._url} names no leader, because an election is under way; try again")
        return str(answer.get("brokerId") or urlsplit(str(answer.get("serviceUrl", ""))).netloc)

    async def cluster_name(self) -> str:
        """Return the name of the cluster.

        Raises:
            NotNowError, RefusedError: the broker does not return it.
        """
        return await self._name()

    async def address(self, broker: str) -> str:
        """Return the web address of a broker."""
        return await self._address(broker)

    async def is_apache_pulsar(self) -> bool:
        """Return whether the brokers are Apache Pulsar's.

        Raises:
            NotNowError, RefusedError: the broker does not return its settings.
        """
        return await self._is_apache_pulsar()

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
        """Return the bundles that a broker says it serves.

        Raises:
            NotNowError, RefusedError: the broker does not return them.
        """
        path = f"/admin/v2/brokers/{quote(await self._name(), safe='')}/{quote(broker, safe=':')}/ownedNamespaces"
        owned: Mapping[str, Any] = await self._call("GET", await self._address(broker), path) or {}
        return frozenset(bundle for bundle, state in owned.items() if state.get("is_active", False))

    async def owners(self, bundles: Collection[str]) -> dict[str, str]:
        """Return for each of `bundles` the broker that serves it, blank if no broker does. No bundle gets an owner by
        this.

        Raises:
            NotNowError, RefusedError: an owner cannot be read. RefusedError also if a bundle that no broker serves does
                not exist.
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
                await self._topic_in(bundle)  # raises RefusedError if the bundle does not exist
        return {bundle: owners.get(bundle, "") for bundle in bundles}

    async def settings(self, broker: str = "") -> dict[str, str]:
        """Return the values in force of all keys of broker.conf on `broker`; if `broker` is blank, on the broker to
        which requests are sent (`url`).

        Raises:
            NotNowError, RefusedError: the broker does not return them.
        """
        url = await self._address(broker) if broker else self._url
        answer = await self._call("GET", url, "/admin/v2/brokers/configuration/runtime")
        return msgspec.convert(answer, dict[str, str], strict=False)

    async def set_dynamic(self, key: str, value: str, *, expected: str) -> None:
        """Store a new value of a dynamic key if the stored value is `expected`. Return when it is stored; each broker
        uses the value a little later, when the store has notified it.

        Raises:
            NotNowError: the value was not stored, perhaps because another client changed it: read the stored value
                again.
            RefusedError: the value cannot be stored.
        """
        path = f"/admin/v2/brokers/configuration/{quote(key)}/{quote(value, safe='')}"
        await self._call("POST", self._url, path, params={"expected": expected})

    async def overrides(self) -> dict[str, str]:
        """Return the overrides, that is, the values of dynamic keys that are stored in the metadata store, by key.

        Raises:
            NotNowError, RefusedError: they cannot be read.
        """
        answer = await self._call("GET", self._url, "/admin/v2/brokers/configuration/values")
        return msgspec.convert(answer or {}, dict[str, str], strict=False)

    async def set_override(self, key: str, value: str) -> None:
        """Store a value of a dynamic key for all brokers, whatever its present value is. Return when it is stored; each
        broker uses it a little later. Raises what `set_dynamic` does.
        """
        path = f"/admin/v2/brokers/configuration/{quote(key)}/{quote(value, safe='')}"
        await self._call("POST", self._url, path)

    async def delete_override(self, key: str) -> None:
        """Remove the override of a dynamic key; brokers keep its value until they restart. Raises what `set_dynamic`
        does.
        """
        await self._call("DELETE", self._url, f"/admin/v2/brokers/configuration/{quote(key)}")

    async def stores(self) -> dict[str, Any]:
        """Return the addresses of the cluster's metadata stores and of its ledgers' storage, as a broker returns them.

        Raises:
            NotNowError, RefusedError: they cannot be read.
        """
        return msgspec.convert(
            await self._call("GET", self._url, "/admin/v2/brokers/internal-configuration"), dict[str, Any]
        )

    async def isolation(self) -> Mapping[str, Any]:
        """Return the stored isolation policies of the cluster: a mapping from the name of a policy to its content.

        Raises:
            NotNowError, RefusedError: the policies cannot be read.
        """
        path = f"/admin/v2/clusters/{quote(await self._name(), safe='')}/namespaceIsolationPolicies"
        return await self._call_or_none(path) or {}

    async def failure_domains(self) -> Mapping[str, Any]:
        """Return the stored failure domains of the cluster: a mapping from the name of a domain to its content.

        Raises:
            NotNowError, RefusedError: the domains cannot be read.
        """
        path = f"/admin/v2/clusters/{quote(await self._name(), safe='')}/failureDomains"
        return await self._call_or_none(path) or {}

    async def anti_affinity_group(self, namespace: str) -> str:
        """Return the anti-affinity group of a namespace; blank if it has none, or does not exist.

        Raises:
            NotNowError, RefusedError: the group cannot be read.
        """
        return str(await self._call_or_none(f"/admin/v2/namespaces/{quote(namespace)}/antiAffinity", text=True) or "")

    async def _call_or_none(self, path: str, *, text: bool = False) -> Any:
        """Return the answer to a GET request for `path`, None if the broker answers that the object does not exist. If
        `text` is True, an answer that is not JSON is returned as text.
        """
        return await self._call("GET", self._url, path, or_text=text, or_none=True)

    async def unload(self, bundle: str, destination: str) -> None:
        path = f"/admin/v2/namespaces/{quote(bundle)}/unload"
        await self._call(
            "PUT", self._url, path, params={"destinationBroker": destination}, headers=self._headers_of(bundle)
        )

    async def bundles_of(self, namespace: str) -> frozenset[str]:
        """Return the bundles of a namespace.

        Raises:
            NotNowError, RefusedError: they cannot be read.
        """
        answer = await self._call("GET", self._url, f"/admin/v2/namespaces/{quote(namespace)}/bundles")
        boundaries = msgspec.convert(answer["boundaries"], list[str])
        return frozenset(f"{namespace}/{lower}_{upper}" for lower, upper in pairwise(boundaries))

    async def split(self, bundle: str) -> None:
        """Ask the owner to split a bundle by the owner's own algorithm; the parts stay on the owner. If the owner finds
        no hash at which to split, the bundle is not split, and this method may return without an error.

        Raises:
            NotNowError, RefusedError: the request was not answered, or is refused.
        """
        path = f"/admin/v2/namespaces/{quote(bundle)}/split"
        await self._call("PUT", self._url, path, params={"unload": "false"}, headers=self._headers_of(bundle))

    async def look_up(self, bundle: str) -> str:
        topic = await self._topic_in(bundle)
        if topic is None:
            return ""
        try:
            found = await self._call("GET", self._url, f"/lookup/v2/topic/{topic.lookup_name}")
        except RefusedError:  # topics are not created automatically there, and this one does not exist
            return ""
        address = found.get("httpUrl") or found.get("httpUrlTls") or ""
        return next((broker for broker, known in self._addresses.items() if known == address), urlsplit(address).netloc)

    async def _owner_of_apache_pulsar(self, bundle: str, addresses: Mapping[str, str]) -> str:
        """Return the id of a bundle's owner in a cluster of Apache Pulsar, "" if the bundle has no owner. A broker that
        does not own the bundle redirects a request for its topics to the owner. `addresses` maps web addresses to
        broker ids.
        """
        await self._topic_in(bundle)  # raises RefusedError if the bundle does not exist
        path = f"/admin/v2/non-persistent/{quote(bundle)}"
        url = self._url.rstrip("/") if self._url.rstrip("/") in addresses else min(addresses, key=addresses.__getitem__)
        answer = await self._client.ask(url, path)
        if answer.status == _NO_CONTENT:
            return ""
        if answer.status == _OK:
            return addresses[url]
        if answer.status != _MOVED:
            raise translated(AdminRequestError("GET", url, answer.status, reason_of(answer.body)))
        there = urlsplit(answer.headers.get("location", ""))
        return addresses.get(f"{there.scheme}://{there.netloc}", there.netloc)

    async def _is_apache_pulsar(self) -> bool:
        if self._known_drains is None:
            self._known_drains = DRAINED_KEY in await self.settings()
        return not self._known_drains

    async def _name(self) -> str:
        if not self._cluster:
            settings = await self.settings()
            if "clusterName" not in settings:
                raise RefusedError(
                    f"the settings that {self._url} returned do not include the name of the cluster (clusterName)"
                )
            self._cluster = settings["clusterName"]
        return self._cluster

    async def _topic_in(self, bundle: str) -> TopicName | None:
        """Return the name of a topic whose hash is in the bundle's range: of an existing topic if there is one, else a
        generated name. None if no such name is found.

        Raises:
            NotNowError, RefusedError: topics cannot be listed, or the bundle does not exist.
        """
        if bundle not in self._topics:
            parsed = Bundle.parse(bundle)
            if await self._is_apache_pulsar():
                topic = await self._topic_of_apache_pulsar(parsed)
            else:
                path, params = f"/admin/v2/persistent/{parsed.namespace}", {"bundle": str(parsed.range)}
                there = await self._call("GET", self._url, path, params=params)
                topic = TopicName.parse(there[0]) if there else None
            self._topics[bundle] = topic or _generated_topic(parsed)
        return self._topics[bundle]

    async def _topic_of_apache_pulsar(self, bundle: Bundle) -> TopicName | None:
        """Return a topic of the bundle that exists; None if there is none.

        This method lists all topics of the namespace and searches the list. It does not request the topics of one
        bundle: an Apache Pulsar broker that has not read the bundles of the namespace yet would then block for ever,
        together with all requests that need its metadata store.
        """
        namespace = str(bundle.namespace)
        if str(bundle) not in await self.bundles_of(namespace):
            raise RefusedError(
                f"{bundle} does not exist: no bundle of {namespace} has this range; the bundle was perhaps split"
            )
        if namespace not in self._listed:
            names: list[str] = await self._call("GET", self._url, f"/admin/v2/persistent/{namespace}")
            self._listed[namespace] = [TopicName.parse(name) for name in names]
        return next((topic for topic in self._listed[namespace] if bundle.range.contains(topic.hash32)), None)

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
        or_text: bool = False,
        or_none: bool = False,
    ) -> Any:
        """Send a request, and return its answer. If there is none, turn to another broker. With `or_none` the answer
        that the object does not exist is None.

        Raises:
            NotNowError, RefusedError: there is no answer within the time, or it is an error.
        """
        try:
            # a request that changes something has no time limit here: a repeated request would act twice
            async with asyncio.timeout(_READ_S if method == "GET" else None):
                return await self._client.call(method, url, path, params=params, headers=headers, or_text=or_text)
        except AdminRequestError as error:
            if error.status == _NO_ANSWER:
                self._turn_away(url)
            if or_none and error.status == _NOT_FOUND:
                return None
            raise translated(error) from error
        except TimeoutError:
            self._turn_away(url)
            raise NotNowError(f"{method} {url}{path}: no answer within {_READ_S:g} s") from None


def translated(error: AdminRequestError) -> NotNowError | RefusedError:
    """Convert the error of a request: return a NotNowError if a repeated request may succeed, else a RefusedError."""
    text = without_report(error)
    is_passing = error.status in _IN_TRANSIT or (error.status == 412 and _NOT_ACTIVE not in error.reason)
    return NotNowError(text) if is_passing else RefusedError(text)


def _generated_topic(bundle: Bundle) -> TopicName | None:
    """Return the name of a topic, not necessarily an existing one, whose hash is in the bundle's range; None if none of
    the generated names has such a hash.
    """
    for number in range(_MAX_TRIED_NAMES):
        topic = TopicName.parse(f"persistent://{bundle.namespace}/barycenter-look-up-{number}")
        if bundle.range.contains(topic.hash32):
            return topic
    return None


async def nobody_serves(new_client: NewClient, url: str, bundle: str) -> bool:
    """Return True if a bundle of a Barycenter cluster exists and no broker serves it. The requests assign no owner.

    Return False if a broker serves the bundle, the bundle does not exist, or a broker does not answer. `url` is the web
    address of any broker.
    """
    client = new_client(timeout_s=_TIMEOUT_S)
    try:
        return not (await AdminCluster(client, url).owners([bundle]))[bundle]
    except (NotNowError, RefusedError):
        return False
    finally:
        await client.close()
