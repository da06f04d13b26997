"""Real brokers with the simple load manager: bundles are placed, shed and split over their REST servers."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, decode_load_report
from pulsar_barycenter.naming.bundle import Bundle
from support.rest_cluster import RestCluster, rest_cluster

STATS = "/admin/v2/broker-stats"


class Machines:
    """The load of the brokers' machines and bundles, as the test sets it."""

    def __init__(self) -> None:
        self.meters: list[FixedUsage] = []
        self.stats: dict[str, NamespaceBundleStats] = {}

    def factory(self, context: LoadManagerContext) -> SimpleLoadManager:
        meter = FixedUsage(usage(10))
        self.meters.append(meter)
        context = LoadManagerContext(
            **{name: getattr(context, name) for name in context.__dataclass_fields__ if name != "bundle_stats"},
            bundle_stats=lambda: self.stats,
        )
        return SimpleLoadManager(context, LoadManagerEnvironment.in_memory(context, meter=meter))


def usage(cpu: float) -> SystemResourceUsage:
    return SystemResourceUsage(cpu=ResourceUsage(cpu, 100))


@asynccontextmanager
async def cluster_of(brokers: int) -> AsyncIterator[tuple[RestCluster, Machines]]:
    machines = Machines()
    async with rest_cluster(0) as cluster:
        for _ in range(brokers):
            await cluster.add(
                machines.factory,
                broker_shutdown_timeout_ms=0,
                load_manager_class_name="SimpleLoadManagerImpl",
                load_balancer_host_usage_check_interval_minutes=1e-9,
            )
        yield cluster, machines


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def manager_of(broker: Broker) -> SimpleLoadManager:
    manager = broker.load_manager
    assert isinstance(manager, SimpleLoadManager)
    return manager


async def report_all(cluster: RestCluster) -> None:
    """Have all brokers report, and all see it."""
    for broker in cluster.brokers:
        await broker.load_manager.write_report(force=True)
    newest = {broker.broker_id: manager_of(broker).reporter.written for broker in cluster.brokers}

    def seen() -> bool:
        return all(
            {name: report.sequence for name, report in manager_of(broker).load_data.reports.items()}
            == {name: report.sequence for name, report in newest.items() if report is not None}
            for broker in cluster.brokers
        )

    await until(seen)


def bundles_of(broker: Broker, namespace: str = "public/ns") -> list[Bundle]:
    return sorted(bundle for bundle in broker.ownership.owned_bundles() if str(bundle.namespace) == namespace)


async def test_bundles_are_placed_shed_and_split_over_rest() -> None:
    async with cluster_of(3) as (cluster, machines):
        await cluster.create_namespace(bundles=7)
        await report_all(cluster)
        for number in range(80):
            await cluster.owner(f"persistent/public/ns/t{number}", at=random.Random(number).choice(cluster.brokers))
        assert sorted(len(bundles_of(broker)) for broker in cluster.brokers) == [2, 2, 3]

        hot = max(cluster.brokers, key=lambda broker: len(bundles_of(broker)))
        heavy, *light = bundles_of(hot)
        machines.stats = {
            str(heavy): NamespaceBundleStats(msg_rate_in=9000, topics=3),
            str(light[0]): NamespaceBundleStats(msg_rate_in=100, topics=3),
        }
        machines.meters[cluster.brokers.index(hot)].usage = usage(95)
        await report_all(cluster)
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        await leader.load_manager.shed()
        assert bundles_of(hot) == light
        (unload,) = [each for each in manager_of(leader).decisions.recent() if each.kind == "unload"]
        assert (unload.bundle, unload.source, unload.destination) == (str(heavy), hot.broker_id, "")

        machines.meters[cluster.brokers.index(hot)].usage = usage(80)
        machines.stats = {}
        await report_all(cluster)
        answers = [
            await cluster.expect(200, "GET", f"/lookup/v2/topic/persistent/public/ns/t{number}/bundle")
            for number in range(80)
        ]
        moved = next(number for number, answer in enumerate(answers) if answer.body.decode() == str(heavy.range))
        owner = await cluster.owner(f"persistent/public/ns/t{moved}", at=cluster.brokers[2])
        assert owner is not hot, "the others have as few bundles of the namespace, and less load"

        parent = bundles_of(owner)[0]
        machines.stats = {str(parent): NamespaceBundleStats(msg_rate_in=40_000, topics=3)}
        await owner.load_manager.write_report(force=True)
        (split,) = [each for each in manager_of(owner).decisions.recent() if each.kind == "split"]
        assert (split.bundle, split.reason.code) == (str(parent), Code.BUNDLE_TOO_LARGE)
        answer = await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ns/bundles")
        assert answer.json["numBundles"] == 8


async def test_the_load_report_the_snapshot_and_the_hottest_bundle_are_those_of_the_simple_manager() -> None:
    async with cluster_of(1) as (cluster, machines):
        await cluster.create_namespace(bundles=2)
        for number in range(20):
            await cluster.owner(f"persistent/public/ns/t{number}")
        _, second = bundles_of(cluster.brokers[0])
        machines.stats = {str(second): NamespaceBundleStats(msg_throughput_in=5e6, msg_rate_in=70, topics=4)}
        await report_all(cluster)
        answer = await cluster.expect(200, "GET", f"{STATS}/load-report")
        shown = msgspec.json.decode(answer.body, type=LoadReport)
        stored = await cluster.store.get(f"/loadbalance/brokers/{cluster.brokers[0].broker_id}")
        assert stored is not None
        assert shown.bundle_stats == decode_load_report(stored.value).bundle_stats
        assert (shown.load_report_type, shown.msg_throughput_in) == ("LoadReport", 70)
        snapshot = (await cluster.expect(200, "GET", "/barycenter/v1/snapshot")).json
        (held,) = snapshot["brokers"].values()
        assert held["lastStats"][str(second)]["msgRateIn"] == 70
        assert snapshot["configuration"]["loadManagerClassName"] == "SimpleLoadManagerImpl"
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/HOT/split")
        answer = await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ns/bundles")
        assert answer.json["boundaries"] == ["0x00000000", "0x80000000", "0xbfffffff", "0xffffffff"]


async def test_the_brokers_that_may_serve_a_namespace_are_shown_by_their_rank() -> None:
    async with cluster_of(3) as (cluster, machines):
        for meter, cpu in zip(machines.meters, (40, 20, 40), strict=True):
            meter.usage = usage(cpu)
        await report_all(cluster)
        path = f"{STATS}/broker-resource-availability"
        units = [{"resourceId": f"http://{broker.broker_id}"} for broker in cluster.brokers]
        shown = (await cluster.expect(200, "GET", f"{path}/public/ns")).json
        assert list(shown.items()) == [("20", [units[1]]), ("40", sorted((units[0], units[2]), key=str))]
        port = cluster.brokers[0].broker_id.rpartition(":")[2]
        failover = {"policy_type": "min_available", "parameters": {"min_limit": "0", "usage_threshold": "100"}}
        policy = {"namespaces": ["public/kept"], "primary": [f".*:{port}"], "auto_failover_policy": failover}
        clusters = f"/admin/v2/clusters/{cluster.brokers[0].control.config.current.cluster_name}"
        await cluster.expect(204, "POST", f"{clusters}/namespaceIsolationPolicies/p", policy)
        assert (await cluster.expect(200, "GET", f"{path}/public/kept")).json == {"40": [units[0]]}
        await cluster.expect(412, "GET", f"{path}/public/no%20name")
