"""The extensible load manager with the pipeline's windows: which values it uses, when, and how it reports that."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.extensible.load_stores import LocalLoadStore
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BundleLoadData,
    TopBundlesLoadData,
    decode_broker_load,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, encode_without_none
from pulsar_barycenter.load.reports.publication import PipelinePublication
from pulsar_barycenter.load.snapshot.document import decode_snapshot, encode_snapshot
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import FixedPipeline
from support.control_cluster import ControlBroker, ControlCluster, channel_of, on_virtual_time, topic
from support.report_log import MemoryReportLog
from support.snapshot_cases import assert_same_snapshot

MEGA = 1e6
WINDOWS_OF_TRAFFIC = "based on the pipeline's short-term traffic windows"
LATE = "based on the newest traffic values, because the pipeline is late"


class Brokers:
    """Brokers that share the two tables and a pipeline, whose publication is set by hand."""

    def __init__(self) -> None:
        self.loads = LocalLoadStore()
        self.tops = LocalLoadStore()
        self.pipeline = FixedPipeline()
        self.logs: dict[str, MemoryReportLog] = {}
        self.managers: dict[str, ExtensibleLoadManager] = {}
        self.all: list[ControlBroker] = []

    def factory(self, context: LoadManagerContext) -> ExtensibleLoadManager:
        log = self.logs[context.urls.broker_id] = MemoryReportLog()
        environment = LoadManagerEnvironment.in_memory(context, report_log=log, pipeline=self.pipeline)
        made = ExtensibleLoadManager(context, environment, loads=self.loads, tops=self.tops)
        self.managers[context.urls.broker_id] = made
        return made

    async def start(self, cluster: ControlCluster, count: int, **settings: Any) -> None:
        await cluster.create_namespace(4)
        self.all = [
            cluster.make(
                8081 + number,
                self.factory,
                load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
                load_manager_service_unit_state_table_view_class_name="ServiceUnitStateMetadataStoreTableViewImpl",
                load_balancer_report_update_min_interval_millis=3_600_000,
                load_balancer_shedding_interval_minutes=600.0,
                load_balancer_shedding_condition_hit_count_threshold=0,
                **settings,
            )
            for number in range(count)
        ]
        await asyncio.gather(*(broker.start() for broker in self.all))

    @property
    def leader(self) -> ControlBroker:
        return next(broker for broker in self.all if broker.plane.leadership.is_leader())

    @property
    def deciding(self) -> ExtensibleLoadManager:
        return self.managers[self.leader.broker_id]

    async def lead(self, call: Callable[[ExtensibleLoadManager], Awaitable[Any]]) -> Any:
        return await self.leader.run(call(self.deciding))  # type: ignore[arg-type]

    async def tell(
        self, broker: ControlBroker, usage: float, bundles: Mapping[Bundle, float], now_ms: int, report: int | None
    ) -> None:
        """Publish a load as a broker would; `report` is the sequence of the report that the pipeline should have."""
        load = BrokerLoadData(
            weighted_max_ema=usage,
            msg_throughput_in=sum(bundles.values()),
            updated_at=now_ms,
            reported_at=now_ms,
            incarnation=None if report is None else "life",
            sequence=report,
        )
        listed = sorted(bundles.items(), key=lambda item: item[1])
        top = TopBundlesLoadData(
            tuple(BundleLoadData(str(each), NamespaceBundleStats(msg_throughput_in=rate)) for each, rate in listed)
        )
        await self.loads.publish(broker.broker_id, encode_without_none(load))
        await self.tops.publish(broker.broker_id, encode_without_none(top))

    def publish(self, number: int, windows: Mapping[Bundle, float]) -> None:
        """Publish windows of bundles, bytes/s, that include every broker's reports up to that sequence."""
        names = sorted(windows, key=str)
        zeros, figures = [0.0] * len(names), [windows[name] for name in names]
        self.pipeline.publication = PipelinePublication(
            batch_id=number,
            published_at=0,
            as_of=0,
            last_sequence={broker.broker_id: ("life", number) for broker in self.all},
            bundle=[str(name) for name in names],
            topics=[1] * len(names),
            short_num_samples=[10] * len(names),
            short_msg_rate_in=zeros,
            short_msg_rate_out=zeros,
            short_msg_throughput_in=figures,
            short_msg_throughput_out=zeros,
            long_num_samples=[10] * len(names),
            long_msg_rate_in=zeros,
            long_msg_rate_out=zeros,
            long_msg_throughput_in=figures,
            long_msg_throughput_out=zeros,
        )


async def one_owns_all(cluster: ControlCluster, owner: ControlBroker) -> list[Bundle]:
    await owner.lookup(topic("t"))
    bundles = list((await owner.plane.bundles.get(topic("t").namespace)).bundles)
    for bundle in bundles:
        known = owner.plane.ownership.owner_cached(bundle)
        if known is None:
            await owner.run(owner.plane.ownership.acquire(bundle, reason="test"))
        elif not known.is_local:
            await owner.run(channel_of(owner.plane).ownership.move(bundle, known.broker_id, owner.broker_id))
    await cluster.until(lambda: len(owner.owned) == len(bundles), "one broker owns all")
    return bundles


def now_ms(cluster: ControlCluster) -> int:
    return round(cluster.loop.time() * 1000)


def configure(broker: ControlBroker, **changes: Any) -> None:
    broker.config.current = msgspec.structs.replace(broker.config.current, **changes)


def metric(brokers: Brokers, name: str) -> float | None:
    labels = {"cluster": "standalone", "broker": brokers.leader.broker_id}
    return brokers.deciding.metrics.registry.get_sample_value(name, labels)


BY_NEWEST = (1.0, 11.0, 12.0, 76.0)
BY_WINDOWS = (76.0, 12.0, 11.0, 1.0)
"""MB/s of the four bundles of the loaded broker; 44 may leave, so that the lightest three would, each way."""


@pytest.mark.parametrize(
    ("enabled", "publishes", "moved", "words"),
    [
        (True, True, {1, 2, 3}, WINDOWS_OF_TRAFFIC),
        (True, False, {0, 1, 2}, LATE),
        (False, True, {0, 1, 2}, ""),
    ],
)
def test_the_leader_moves_bundles_by_windows_where_it_is_told_to_and_there_are_any(
    enabled: bool, publishes: bool, moved: set[int], words: str
) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(cluster, 2, barycenter_extensible_pipeline_enabled=enabled)
        loaded, idle = brokers.all
        bundles = await one_owns_all(cluster, loaded)
        newest = {bundle: rate * MEGA for bundle, rate in zip(bundles, BY_NEWEST, strict=True)}
        await brokers.tell(loaded, 0.9, newest, now_ms(cluster), 1)
        await brokers.tell(idle, 0.1, {}, now_ms(cluster), 1)
        if publishes:
            brokers.publish(1, {bundle: rate * MEGA for bundle, rate in zip(bundles, BY_WINDOWS, strict=True)})
        await brokers.lead(lambda manager: manager.shed())
        unloads = [each for each in brokers.deciding.decisions.recent() if each.kind == "unload"]
        assert {bundles.index(Bundle.parse(each.bundle)) for each in unloads} == moved
        assert all(words in each.sentence for each in unloads)
        rounds = [each for each in brokers.deciding.decisions.recent() if each.kind == "shed"]
        assert f"based on {rounds[-1].reason.upon}" == words if words else not rounds[-1].reason.upon

    on_virtual_time(scenario)


def test_a_pipeline_that_is_late_by_the_limit_of_the_modular_one_is_not_decided_by_until_it_is_back() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(
            cluster, 1, barycenter_extensible_pipeline_enabled=True, load_balancer_pipeline_max_lag_seconds=60.0
        )
        (one,) = brokers.all
        bundles = await one_owns_all(cluster, one)

        async def traffic() -> tuple[str, float]:
            document = await brokers.lead(lambda manager: manager.snapshot_document())
            snapshot = document.snapshot()
            row = list(snapshot.bundles.names).index(str(bundles[0]))
            return document.extensible.traffic, float(snapshot.bundles.short.throughput_in[row])

        await brokers.tell(one, 0.5, {bundles[0]: 3.0}, now_ms(cluster), 1)
        assert await traffic() == (TrafficFigures.LATE, 3.0), "nothing is published yet"
        brokers.publish(1, {bundles[0]: 700.0})
        assert await traffic() == (TrafficFigures.WINDOWS, 700.0)
        await asyncio.sleep(1_800)
        assert await traffic() == (TrafficFigures.WINDOWS, 700.0), "nothing came since, so that nothing is missing"
        await brokers.tell(one, 0.5, {bundles[0]: 4.0}, now_ms(cluster), 2)
        assert await traffic() == (TrafficFigures.WINDOWS, 700.0), "a report waits, but not for too long"
        await asyncio.sleep(61)
        assert await traffic() == (TrafficFigures.LATE, 4.0)
        brokers.publish(2, {bundles[0]: 900.0})
        assert await traffic() == (TrafficFigures.WINDOWS, 900.0)
        await brokers.tell(one, 0.5, {bundles[0]: 4.0}, now_ms(cluster), None)
        assert await traffic() == (TrafficFigures.WINDOWS, 900.0)
        await asyncio.sleep(61)
        assert await traffic() == (TrafficFigures.LATE, 4.0), "whose reports are not known of, the pipeline may lack"

    on_virtual_time(scenario)


def test_what_is_decided_upon_windows_can_be_decided_upon_elsewhere() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(cluster, 2, barycenter_extensible_pipeline_enabled=True)
        bundles = await one_owns_all(cluster, brokers.all[0])
        await brokers.tell(brokers.all[0], 0.5, dict.fromkeys(bundles[:2], 3.0), now_ms(cluster), 1)
        brokers.publish(1, dict.fromkeys(bundles, 700.0))
        document = await brokers.lead(lambda manager: manager.snapshot_document())
        assert set(document.bundle_data) == {str(bundle) for bundle in bundles}
        assert document.broker_data[brokers.all[0].broker_id].short_term_msg_throughput_in == 2800
        decisions = await brokers.leader.run(brokers.deciding.deciding())
        known = await brokers.leader.run(decisions.snapshot())
        assert_same_snapshot(decode_snapshot(encode_snapshot(document)).snapshot(), known)

    on_virtual_time(scenario)


def test_placement_sees_the_averages_that_the_pipeline_published() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(cluster, 1, barycenter_extensible_pipeline_enabled=True)
        (one,) = brokers.all
        await brokers.tell(one, 0.5, {}, now_ms(cluster), 1)
        decisions = await one.run(brokers.deciding.deciding())

        async def throughput() -> float:
            snapshot = await one.run(decisions.snapshot_to_place("public/default"))
            return float(snapshot.brokers.short.throughput[0])

        assert await throughput() == 0
        columns = ("msg_throughput_in", "msg_throughput_out", "msg_rate_in", "msg_rate_out")
        averages = {f"{window}_term_{figure}": [5.0] for window in ("short", "long") for figure in columns}
        brokers.pipeline.publication = PipelinePublication(
            batch_id=1,
            published_at=0,
            as_of=0,
            last_sequence={one.broker_id: ("life", 1)},
            broker=[one.broker_id],
            **averages,  # type: ignore[arg-type]
        )
        assert await throughput() == 10, "at once, though no broker told anything since"

    on_virtual_time(scenario)


def test_a_broker_tells_which_report_the_pipeline_should_have_only_where_windows_are_decided_by() -> None:
    """With the key it publishes its load after each report that it logs, otherwise by Pulsar's rule and in Pulsar's
    format."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(cluster, 1)
        (one,) = brokers.all
        log, manager = brokers.logs[one.broker_id], brokers.managers[one.broker_id]
        await one.run(manager.write_report(force=True))
        told = brokers.loads.values()[one.broker_id]
        assert b"incarnation" not in told
        assert metric(brokers, "barycenter_pipeline_in_use") == 0
        assert metric(brokers, "barycenter_pipeline_lag_seconds") is None
        configure(one, barycenter_extensible_pipeline_enabled=True)
        await one.run(manager.write_report())
        load = decode_broker_load(brokers.loads.values()[one.broker_id])
        assert (load.incarnation, load.sequence) == (log.reports[-1].incarnation, log.reports[-1].sequence)
        before = brokers.loads.values()[one.broker_id]
        await one.run(manager.write_report())
        assert brokers.loads.values()[one.broker_id] == before, "nothing was logged since"
        await asyncio.sleep(2)
        assert metric(brokers, "barycenter_pipeline_lag_seconds") == 0
        await one.run(manager.write_report())
        assert metric(brokers, "barycenter_pipeline_lag_seconds") == 2
        configure(one, barycenter_extensible_pipeline_enabled=False)
        await one.run(manager.write_report(force=True))
        assert b"incarnation" not in brokers.loads.values()[one.broker_id]
        assert metric(brokers, "barycenter_pipeline_lag_seconds") is None

    on_virtual_time(scenario)


def test_the_log_says_once_that_the_pipeline_is_late_and_once_that_it_is_back() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = Brokers()
        await brokers.start(
            cluster, 1, barycenter_extensible_pipeline_enabled=True, load_balancer_pipeline_max_lag_seconds=10.0
        )
        (one,) = brokers.all
        manager, log = brokers.deciding, brokers.logs[one.broker_id]
        with capture_logs() as events:
            for _ in range(3):
                await one.run(manager.write_report())
                await asyncio.sleep(11)
            assert metric(brokers, "barycenter_pipeline_in_use") == 0
            newest = log.reports[-1]
            brokers.pipeline.publication = PipelinePublication(
                batch_id=1,
                published_at=0,
                as_of=0,
                last_sequence={one.broker_id: (newest.incarnation, newest.sequence)},
            )
            for _ in range(2):
                await one.run(manager.write_report())
            assert metric(brokers, "barycenter_pipeline_in_use") == 1
        told = [
            (event["event"], event.get("decides_with")) for event in events if event["event"].startswith("pipeline_")
        ]
        assert told == [("pipeline_late", "the newest traffic values"), ("pipeline_back", None)]

    on_virtual_time(scenario)
