"""A running cluster of Barycenter or Apache Pulsar, asked by its admin REST to move bundles.

An owner is told by `ownedNamespaces` of the broker itself. A bundle that nobody serves gets its owner with the next
look-up of one of its topics, which is made here: of a topic that exists, else of a name that falls into the bundle and
that no look-up creates.

Source: Pulsar's `NamespacesBase.internalUnloadNamespaceBundleAsync`, `BrokersBase.getOwnedNamespaces`.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from barycenter.admin.client import AdminClient
from barycenter.admin.errors import AdminRequestError
from barycenter.attach.addresses import address_of
from barycenter.attach.answers import without_report
from barycenter.naming.bundle import Bundle
from barycenter.naming.topic import TopicName
from barycenter.operations.executor import NotNowError, RefusedError

_IN_TRANSIT: Final = (0, 307, 409, 429, 500, 503)
"""What a broker answers while it cannot tell: 0 is no answer, 500 what Pulsar says of a bundle that is being moved."""
_NOT_ACTIVE: Final = "inactive destination"
_MOST_TRIED: Final = 1 << 20


class AdminCluster:
    """`url` is the web address of any broker; with `https:` all are asked by TLS."""

    def __init__(self, client: AdminClient, url: str) -> None:
        self._client = client
        self._url = url
        self._cluster = ""
        self._addresses: dict[str, str] = {}
        self._topics: dict[str, TopicName | None] = {}

    async def brokers(self) -> list[str]:
        """Return the brokers that are registered, by name.

        Raises:
            NotNowError, RefusedError: they cannot be had.
        """
        return sorted(msgspec.convert(await self._call("GET", self._url, "/admin/v2/brokers"), list[str]))

    async def serves(self, broker: str, bundle: str) -> bool:
        if not self._cluster:
            told = await self._call("GET", self._url, "/admin/v2/brokers/configuration/runtime")
            self._cluster = str(told["clusterName"])
        path = f"/admin/v2/brokers/{quote(self._cluster, safe='')}/{quote(broker, safe=':')}/ownedNamespaces"
        owned: Mapping[str, Any] = await self._call("GET", await self._address(broker), path) or {}
        return bool(owned.get(bundle, {}).get("is_active", False))

    async def unload(self, bundle: str, destination: str) -> None:
        path = f"/admin/v2/namespaces/{quote(bundle)}/unload"
        await self._call("PUT", self._url, path, params={"destinationBroker": destination})

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

    async def _call(self, method: str, url: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        try:
            return await self._client.call(method, url, path, params=params)
        except AdminRequestError as error:
            told = without_report(error)
            is_passing = error.status in _IN_TRANSIT or (error.status == 412 and _NOT_ACTIVE not in error.reason)
            raise (NotNowError(told) if is_passing else RefusedError(told)) from error


def _made_up(bundle: Bundle) -> TopicName | None:
    """Return a name that falls into the bundle, None if too few do."""
    for number in range(_MOST_TRIED):
        topic = TopicName.parse(f"persistent://{bundle.namespace}/barycenter-look-up-{number}")
        if bundle.range.contains(topic.hash32):
            return topic
    return None
