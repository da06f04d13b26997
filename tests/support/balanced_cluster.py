"""Brokers with a real load manager on virtual time, whose load the test sets."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.load_manager.pipeline_feed import Published, published
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.load.reports.publication import PipelinePublication
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.control_cluster import ControlBroker, ControlCluster, on_virtual_time
from support.report_log import MemoryReportLog

HEAVY = 50e6
"""Bytes/s of a bundle worth moving and too light to be split."""


class FixedPipeline:
    """A feed whose publication is set by hand."""

    is_expected = True
    publication: PipelinePublication | None = None
    looked_at_ms: int | None = None
    _read: PipelinePublication | None = None
    _published: Published | None = None

    async def read(self) -> None:
        pass

    def latest(self) -> Published | None:
        if self.publication is not self._read:
            self._read = self.publication
            self._published = None if self.publication is None else published(self.publication)
        return self._published

    def last_look_ms(self) -> int | None:
        return self.looked_at_ms


class ClusterPeers:
    """Carries out a leader's commands at the owner, as the REST layer does, and records them."""

    def __init__(self, cluster: ControlCluster, by: str) -> None:
        self._cluster = cluster
        self._by = by
        self.unloads: list[tuple[str, str, str | None]] = []
        self.splits: list[tuple[str, str, str, bool]] = []
        self.error: Exception | None = None

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        if self.error is not None:
            raise self.error
        owner = broker_url.removeprefix("http://")
        self.unloads.append((owner, str(bundle), destination))
        if destination is not None:
            self._cluster.brokers[self._by].plane.namespaces.set_destination(bundle, destination)
        plane = self._cluster.brokers[owner].plane
        await self._cluster.brokers[owner].run(plane.namespaces.unload_bundle(bundle, leader_epoch=epoch))

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        if self.error is not None:
            raise self.error
        owner = broker_url.removeprefix("http://")
        self.splits.append((owner, str(bundle), algorithm, unload))
        plane = self._cluster.brokers[owner].plane
        split = plane.namespaces.split_bundle(bundle, algorithm=algorithm, leader_epoch=epoch)
        await self._cluster.brokers[owner].run(split)

    async def write_by_leader(self, broker_url: str, secret: str, request: bytes) -> bytes:
        raise NotImplementedError

    async def change_partition(self, broker_url: str, request: bytes) -> bytes:
        raise NotImplementedError

    async def owner_urls(self, broker_url: str, topic: TopicName) -> tuple[str | None, str | None]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


M = TypeVar("M", ModularLoadManager, SimpleLoadManager)


class ManagedBroker(Generic[M]):
    """A broker of the cluster with everything that its load manager uses."""

    def __init__(self, cluster: ControlCluster, port: int) -> None:
        self.meter = FixedUsage(usage(0))
        self.report_log = MemoryReportLog()
        self.pipeline = FixedPipeline()
        self.stats: dict[str, NamespaceBundleStats] = {}
        self.peers = ClusterPeers(cluster, f"127.0.0.1:{port}")
        self.cluster = cluster
        self.port = port
        self.manager: M
        self.broker: ControlBroker

    def make(self, context: LoadManagerContext, environment: LoadManagerEnvironment) -> M:
        raise NotImplementedError

    def factory(self, context: LoadManagerContext) -> M:
        env = dataclasses.replace(context.env, peers=self.peers)
        context = dataclasses.replace(context, env=env, bundle_stats=lambda: self.stats)
        environment = LoadManagerEnvironment.in_memory(
            context, meter=self.meter, report_log=self.report_log, pipeline=self.pipeline
        )
        self.manager = self.make(context, environment)
        return self.manager

    async def start(self, **settings: Any) -> Self:
        """Start as Pulsar 4.x, whose default strategies decide by values alone, so that outcomes can be computed."""
        self.broker = self.cluster.make(self.port, self.factory)
        self.broker.config.current = with_overrides(self.broker.config.current, {COMPATIBILITY_KEY: "4.x"})
        self.configure(**settings)
        await self.broker.start()
        return self

    @property
    def id(self) -> str:
        return self.broker.broker_id

    def configure(self, **changes: Any) -> None:
        self.broker.config.current = msgspec.structs.replace(self.broker.config.current, **changes)

    async def report(self, cpu: float | None = None) -> bool:
        """Write a report with new measurements."""
        if cpu is not None:
            self.meter.usage = usage(cpu)
        self.configure(load_balancer_host_usage_check_interval_minutes=1e-9)
        await asyncio.sleep(0.01)
        return await self.broker.run(self.manager.write_report(force=True))

    def carries(self, *figures: NamespaceBundleStats) -> None:
        """Give the bundles owned here this load, in the order of their names."""
        self.stats = {str(bundle): each for bundle, each in zip(sorted(self.broker.owned), figures, strict=False)}

    async def do(self, work: Callable[[M], Any]) -> Any:
        return await self.broker.run(work(self.manager))

    def told(self, kind: str) -> list[Any]:
        return [record for record in self.manager.decisions.recent() if record.kind == kind]


class Balanced(ManagedBroker[ModularLoadManager]):
    """A broker with the modular load manager."""

    def make(self, context: LoadManagerContext, environment: LoadManagerEnvironment) -> ModularLoadManager:
        return ModularLoadManager(context, environment)


class SimplyBalanced(ManagedBroker[SimpleLoadManager]):
    """A broker with the simple load manager."""

    def make(self, context: LoadManagerContext, environment: LoadManagerEnvironment) -> SimpleLoadManager:
        return SimpleLoadManager(context, environment)

    @property
    def newest(self) -> int:
        """The sequence of the last written report."""
        return self.report_log.reports[-1].sequence


def usage(cpu: float) -> SystemResourceUsage:
    return SystemResourceUsage(cpu=ResourceUsage(cpu, 100.0))


def traffic(throughput: float, *, rate: float = 0.0, topics: int = 2) -> NamespaceBundleStats:
    return NamespaceBundleStats(msg_throughput_in=throughput, msg_rate_in=rate, topics=topics)


async def balanced(cluster: ControlCluster, count: int, **others: Any) -> list[Balanced]:
    """Start `count` brokers; the first leads, and all others are configured with `others`."""
    return [await Balanced(cluster, 8080 + index).start(**(others if index else {})) for index in range(count)]


async def simply_balanced(cluster: ControlCluster, count: int, **settings: Any) -> list[SimplyBalanced]:
    """Start brokers with these settings; the first leads."""
    settings = {"load_manager_class_name": "SimpleLoadManagerImpl", **settings}
    return [await SimplyBalanced(cluster, 8080 + index).start(**settings) for index in range(count)]


async def simply_settled(brokers: list[SimplyBalanced]) -> None:
    """Wait until every broker has the newest reports of all."""

    def all_seen() -> bool:
        newest = {each.id: each.newest for each in brokers}
        return all(
            {name: report.sequence for name, report in each.manager.load_data.reports.items()} == newest
            for each in brokers
        )

    await brokers[0].cluster.until(all_seen, "reports seen")


async def own(cluster: ControlCluster, broker: Balanced | SimplyBalanced, *bundles: Bundle) -> None:
    for bundle in bundles:
        await broker.broker.run(broker.broker.plane.ownership.acquire(bundle, reason="test"))


async def settled(brokers: list[Balanced]) -> None:
    """Wait until every broker has the newest reports of all."""

    def all_seen() -> bool:
        newest = {each.id: each.report_log.reports[-1].sequence for each in brokers}
        return all(
            {name: report.sequence for name, report in each.manager.load_data.fold.reports.items()} == newest
            for each in brokers
        )

    await brokers[0].cluster.until(all_seen, "reports seen")


def shed_scenario(
    scenario: Callable[[ControlCluster, list[Balanced], list[Bundle]], Any], bundles: int = 8, **others: Any
) -> None:
    """Run `scenario` with b0 at 90 % owning all bundles of 50 MB/s each, b1 at 10 % and b2 at 20 %."""

    async def run(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(bundles)).bundles)
        brokers = await balanced(cluster, 3, **others)
        await own(cluster, brokers[0], *made)
        brokers[0].carries(*[traffic(HEAVY)] * bundles)
        for each, cpu in zip(brokers, (90, 10, 20), strict=True):
            await each.report(cpu)
        await settled(brokers)
        await scenario(cluster, brokers, made)

    on_virtual_time(run)
