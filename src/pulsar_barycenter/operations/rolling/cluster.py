"""A running cluster of Barycenter or Apache Pulsar, as a roll needs it: each of its brokers may be away.

Requests go to one broker; if that broker does not answer, requests go to another known broker from then on.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import urlsplit

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.load.policies import DRAINED_KEY, IsolationPolicies, drained_names, group_key
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.draining import allowed_brokers
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.rolling.plan import MayServe
from pulsar_barycenter.operations.rolling.report_sources import (
    LeaderReports,
    PublishedReports,
    ReportSource,
    UnseenReports,
    life_of,
    report_of,
    unseen_reports,
)
from pulsar_barycenter.operations.rolling.reports import SeenReport

_PROBE_S: Final = 5.0
_HEALTH_S: Final = 30.0
_AT_ONCE: Final = 8
_OK: Final = 200
_STARTED: Final = re.compile(rb"^process_start_time_seconds(?:\{[^}]*\})? ([0-9.eE+]+)", re.MULTILINE)

T = TypeVar("T")


class RunningCluster:
    """Implements `contract.RolledCluster` for a running cluster. `urls` are web addresses of its brokers, at least
    one. If the brokers are Apache Pulsar's with the extensible load manager, `extensible_reports` is called to get the
    source of their reports.
    """

    def __init__(
        self,
        client: AdminClient,
        urls: Sequence[str],
        *,
        extensible_reports: Callable[[], Awaitable[ReportSource]] = unseen_reports,
    ) -> None:
        self._client = client
        self._extensible_reports = extensible_reports
        self._given = tuple(urls)
        self._known: dict[str, str] = {}
        self._groups: dict[str, str] = {}
        """Maps a namespace to its anti-affinity group, blank if it has none. Each group is read once by this process.
        """
        self._source: ReportSource = UnseenReports()
        self._has_source = False
        self._turn_to(urls[0])

    def _turn_to(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._cluster = AdminCluster(self._client, self._url)
        self._has_source = False

    async def _on(self, ask: Callable[[AdminCluster], Awaitable[T]]) -> T:
        try:
            return await ask(self._cluster)
        except NotNowError:
            await self._look_elsewhere()
            raise

    async def _look_elsewhere(self) -> None:
        """If the broker to which requests are sent does not answer, send requests from now on to another known broker
        that answers; if none answers, change nothing.
        """
        if await self._answers(self._url):
            return
        for address in dict.fromkeys((*self._known.values(), *self._given)):
            if address != self._url and await self._answers(address):
                self._turn_to(address)
                return

    async def _answers(self, address: str) -> bool:
        try:
            async with asyncio.timeout(_PROBE_S):
                return (await self._client.ask(address, "/admin/v2/brokers/ready")).status == _OK
        except (AdminRequestError, TimeoutError):
            return False

    # ---- brokers ----

    async def name(self) -> str:
        return await self._on(lambda cluster: cluster.cluster_name())

    async def brokers(self) -> list[str]:
        brokers = await self._on(lambda cluster: cluster.brokers())
        for broker in brokers:
            if broker not in self._known:
                self._known[broker] = await self._cluster.address(broker)
        return brokers

    @property
    def addresses(self) -> tuple[str, ...]:
        """The web addresses of all brokers that were registered at any time since the start of this program."""
        return tuple(self._known.values())

    async def leader(self) -> str:
        return await self._on(lambda cluster: cluster.leader())

    async def owned(self, broker: str) -> frozenset[str]:
        return await self._on(lambda cluster: cluster.owned(broker))

    async def may_serve(self, brokers: Collection[str]) -> MayServe:
        isolation, _ = IsolationPolicies.decode(await self._on(lambda cluster: cluster.isolation()))
        drained = drained_names((await self.settings()).get(DRAINED_KEY, ""))  # Apache Pulsar does not have the key
        live, known = tuple(sorted(brokers)), dict[str, frozenset[str]]()

        def allowed(bundle: str) -> frozenset[str]:
            namespace = bundle.rpartition("/")[0]
            if namespace not in known:
                known[namespace] = frozenset(allowed_brokers(namespace, live, isolation)).difference(drained)
            return known[namespace]

        return allowed

    async def primaries(self, policy: str) -> tuple[str, ...]:
        """Return the registered brokers that are primary in an isolation policy.

        Raises:
            NotNowError, RefusedError: the policy cannot be read, does not exist, or names no broker.
        """
        isolation, _ = IsolationPolicies.decode(await self._on(lambda cluster: cluster.isolation()))
        found = next((one for one in isolation.policies if one.name == policy), None)
        if found is None:
            names = ", ".join(sorted(one.name for one in isolation.policies)) or "none"
            raise RefusedError(f"there is no isolation policy {policy}; the isolation policies of the cluster: {names}")
        brokers = tuple(await self.brokers())
        rows = isolation.hosts(brokers).matching(found.primary)
        if not rows:
            raise RefusedError(
                f"none of the registered brokers is a primary broker of the isolation policy {policy}; the registered"
                f" brokers: {', '.join(brokers)}"
            )
        return tuple(brokers[row] for row in sorted(rows))

    async def groups(self, namespaces: Collection[str]) -> Mapping[str, str]:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def read(namespace: str) -> None:
            async with gate:
                group = await self._on(lambda cluster: cluster.anti_affinity_group(namespace))
            self._groups[namespace] = group_key(group) or ""

        await asyncio.gather(*(read(namespace) for namespace in namespaces if namespace not in self._groups))
        return {namespace: group for namespace in namespaces if (group := self._groups[namespace])}

    async def is_healthy(self, broker: str) -> bool:
        address = await self._address(broker)
        try:
            async with asyncio.timeout(_HEALTH_S):
                answer = await self._client.ask(address, "/admin/v2/brokers/health")
        except (AdminRequestError, TimeoutError):
            return False
        return answer.status == _OK

    async def resolves(self, broker: str) -> bool:
        host = urlsplit(await self._address(broker)).hostname or ""
        try:
            return bool(await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM))
        except OSError:
            return False

    async def identity(self, broker: str) -> str:
        address = await self._address(broker)
        try:
            report = await report_of(self._client, address, broker)
            if found := life_of(report):
                return found
        except RefusedError:  # the extensible load manager
            pass
        try:
            async with asyncio.timeout(_HEALTH_S):
                answer = await self._client.read(address, "/metrics/")
        except (AdminRequestError, TimeoutError):
            return ""
        started = _STARTED.search(answer.body)
        return started[1].decode() if started else ""

    async def _address(self, broker: str) -> str:
        if broker not in self._known:
            self._known[broker] = await self._on(lambda cluster: cluster.address(broker))
        return self._known[broker]

    # ---- reports ----

    async def report(self, broker: str) -> SeenReport:
        return await self._of_source(lambda source: source.report(broker))

    async def loads(self) -> Mapping[str, float]:
        brokers = await self.brokers()
        return await self._of_source(lambda source: source.loads(brokers))

    async def _of_source(self, ask: Callable[[ReportSource], Awaitable[T]]) -> T:
        if not self._has_source:
            self._source = await self._on(self._source_at)
            self._has_source = True
        return await self._on(lambda _: ask(self._source))

    async def _source_at(self, cluster: AdminCluster) -> ReportSource:
        if not await cluster.is_apache_pulsar():
            return LeaderReports(self._client, self._url)
        try:
            await report_of(self._client, self._url, self._url)
        except RefusedError:
            return await self._extensible_reports()
        return PublishedReports(self._client, cluster)

    # ---- moves ----

    async def serves(self, broker: str, bundle: str) -> bool:
        return await self._on(lambda cluster: cluster.serves(broker, bundle))

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        return await self._on(lambda cluster: cluster.still_served(broker, bundles))

    async def unload(self, bundle: str, destination: str) -> None:
        await self._on(lambda cluster: cluster.unload(bundle, destination))

    async def look_up(self, bundle: str) -> str:
        return await self._on(lambda cluster: cluster.look_up(bundle))

    # ---- settings ----

    async def settings(self, broker: str = "") -> dict[str, str]:
        return await self._on(lambda cluster: cluster.settings(broker))

    async def overrides(self) -> dict[str, str]:
        return await self._on(lambda cluster: cluster.overrides())

    async def set_override(self, key: str, value: str) -> None:
        await self._on(lambda cluster: cluster.set_override(key, value))

    async def delete_override(self, key: str) -> None:
        await self._on(lambda cluster: cluster.delete_override(key))
