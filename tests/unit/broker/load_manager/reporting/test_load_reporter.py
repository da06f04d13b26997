"""When a load report is written."""

import dataclasses
import math

import pytest

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.load_manager.reporting.host_usage import (
    Capacity,
    FixedUsage,
    ProcessUsage,
    UsageMeter,
)
from pulsar_barycenter.broker.load_manager.reporting.load_reporter import ReportRule, is_due, largest_change
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    ResourceWeights,
    SystemResourceUsage,
    percent_change,
)
from support.control_cluster import ControlBroker, ControlCluster, on_virtual_time
from support.report_log import MemoryReportLog

MINUTE_MS = 60_000


def load(
    rate: float = 0, throughput: float = 0, bundles: int = 0, cpu: float = 0, memory: float = 0, at_ms: int = 0
) -> LocalBrokerData:
    return LocalBrokerData(
        msg_rate_in=rate / 2,
        msg_rate_out=rate / 2,
        msg_throughput_out=throughput,
        num_bundles=bundles,
        cpu=ResourceUsage(cpu, 100),
        memory=ResourceUsage(memory, 100),
        last_update=at_ms,
    )


@pytest.mark.parametrize(
    ("old", "new", "percent"),
    [(100, 110, 10), (100, 90, 10), (-100, -150, 50), (0, 0, 0), (0, 1, math.inf), (5, 0, 100)],
)
def test_changes_are_in_percent_of_what_was(old: float, new: float, percent: float) -> None:
    assert percent_change(old, new) == percent


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [
        (load(rate=100), load(rate=110), False),
        (load(rate=100), load(rate=111), True),
        (load(throughput=1000), load(throughput=1111), True),
        (load(bundles=10), load(bundles=11), False),
        (load(bundles=9), load(bundles=10), True),
        (load(cpu=20), load(cpu=29), False),
        (load(cpu=20), load(cpu=32), True),
        (load(memory=20), load(memory=90), False),
        (load(), load(rate=0.001), True),
    ],
)
def test_a_report_is_due_above_the_threshold_of_change_not_at_it(
    before: LocalBrokerData, after: LocalBrokerData, due: bool
) -> None:
    assert is_due(before, after, 1000, ReportRule()) is due


def test_a_report_is_due_when_the_last_one_is_older_than_the_longest_interval() -> None:
    assert not is_due(load(at_ms=0), load(), 15 * MINUTE_MS, ReportRule())
    assert is_due(load(at_ms=0), load(), 15 * MINUTE_MS + 1, ReportRule())


def test_usage_counts_in_points_by_its_weights() -> None:
    weights = ResourceWeights(cpu=0.5)
    assert largest_change(load(cpu=20), load(cpu=40), weights) == pytest.approx(10)


class Reporting:
    """One broker with its load manager, whose usage the test sets."""

    def __init__(self, meter: UsageMeter) -> None:
        self.meter = meter
        self.stats: dict[str, NamespaceBundleStats] = {}
        self.report_log = MemoryReportLog()
        self.manager: ModularLoadManager
        self.broker: ControlBroker

    def factory(self, context: LoadManagerContext) -> ModularLoadManager:
        context = dataclasses.replace(context, bundle_stats=lambda: self.stats)
        environment = LoadManagerEnvironment.in_memory(context, meter=self.meter, report_log=self.report_log)
        self.manager = ModularLoadManager(context, environment)
        return self.manager

    @property
    def sequences(self) -> list[int]:
        return [report.sequence for report in self.report_log.reports]

    async def write(self, *, force: bool = False) -> bool:
        return await self.broker.run(self.manager.write_report(force=force))


async def reporting(cluster: ControlCluster, meter: UsageMeter | None = None) -> Reporting:
    it = Reporting(meter or FixedUsage())
    it.broker = await cluster.add(8080, it.factory)
    return it


def test_nothing_changed_so_nothing_is_written_unless_forced() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        it = await reporting(cluster)
        assert not await it.write()
        assert await it.write(force=True)
        assert it.sequences == [1, 2]

    on_virtual_time(scenario)


def test_gains_are_told_by_one_report_and_then_forgotten() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(2)
        it = await reporting(cluster)
        await it.broker.run(it.broker.plane.ownership.acquire(made.bundles[0], reason="test"))
        assert await it.write()
        assert await it.write(force=True)
        bundle = str(made.bundles[0])
        assert [bundle in report.last_bundle_gains for report in it.report_log.reports] == [False, True, False]
        await it.broker.run(it.broker.plane.ownership.release(made.bundles[0], reason="test"))
        assert await it.write()
        assert it.report_log.reports[-1].last_bundle_losses == (bundle,)

    on_virtual_time(scenario)


def test_the_machine_is_measured_no_more_often_than_configured() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        meter = FixedUsage()
        it = await reporting(cluster, meter)
        meter.usage = SystemResourceUsage(cpu=ResourceUsage(50, 100))
        assert it.manager.load_report().cpu.usage == -1
        deadline = cluster.loop.time() + 60
        await cluster.until(lambda: cluster.loop.time() >= deadline, "a minute", within_s=61)
        assert it.manager.load_report().cpu.usage == 50

    on_virtual_time(scenario)


def test_a_report_has_the_bandwidth_of_the_same_moment_as_its_bundles() -> None:
    """The rates change right after the machine was measured, and the next measurement is a minute away."""

    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(1)
        it = await reporting(cluster, ProcessUsage(Capacity(100.0, 1000.0, 80_000.0)))
        (bundle,) = made.bundles
        await it.broker.run(it.broker.plane.ownership.acquire(bundle, reason="test"))
        assert await it.write()
        it.stats = {str(bundle): NamespaceBundleStats(msg_rate_in=5, msg_throughput_in=5e6, topics=1)}
        assert await it.write()
        report = it.report_log.reports[-1]
        assert report.msg_throughput_in == 5e6
        assert report.bandwidth_in.usage == 40_000
        assert report.max_resource_usage == 0.5

    on_virtual_time(scenario)


def test_without_a_connection_nothing_is_written_and_no_number_is_lost() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        it = await reporting(cluster)
        cluster.backend.partition(it.broker.store)
        await cluster.until(lambda: not it.manager.reporter.load.may_write, "the broker knows")
        assert not await it.write(force=True)
        cluster.backend.heal(it.broker.store)
        await cluster.until(lambda: it.manager.reporter.load.may_write, "registered")
        assert await it.write(force=True)
        assert it.sequences[-1] == len(it.sequences)

    on_virtual_time(scenario)


def test_a_broker_that_left_the_list_writes_no_report() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        it = await reporting(cluster)
        await it.broker.run(it.manager.disable())
        assert not await it.write(force=True)

    on_virtual_time(scenario)
