"""The extensible load manager in brokers on virtual time: its reports, its choices, the leader's moves."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, Leadership
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.extensible.load_stores import LocalLoadStore
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BundleLoadData,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, encode_without_none
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, channel_of, on_virtual_time, topic

IN_STORE = "ServiceUnitStateMetadataStoreTableViewImpl"


class Tables:
    """The two tables of a cluster, and the managers that share them."""

    def __init__(self) -> None:
        self.loads = LocalLoadStore()
        self.tops = LocalLoadStore()
        self.managers: dict[str, ExtensibleLoadManager] = {}

    def factory(self, context: LoadManagerContext) -> ExtensibleLoadManager:
        environment = LoadManagerEnvironment.in_memory(context)
        made = ExtensibleLoadManager(context, environment, loads=self.loads, tops=self.tops)
        self.managers[context.urls.broker_id] = made
        return made

    async def tell(self, broker: str, usage: float, bundles: Mapping[Bundle, float], now_ms: int) -> None:
        """Put a load in a broker's place: its usage as a fraction, its bundles with their bytes/s."""
        total = sum(bundles.values())
        load = BrokerLoadData(
            weighted_max_ema=usage,
            max_resource_usage=usage,
            msg_throughput_ema=total,
            msg_throughput_in=total,
            bundle_count=len(bundles),
            updated_at=now_ms,
            reported_at=now_ms,
        )
        top = TopBundlesLoadData(
            tuple(
                BundleLoadData(str(bundle), NamespaceBundleStats(msg_throughput_in=each, topics=2))
                for bundle, each in sorted(bundles.items(), key=lambda item: item[1])
            )
        )
        await self.loads.publish(broker, encode_without_none(load))
        await self.tops.publish(broker, encode_without_none(top))


async def cluster_of(
    cluster: ControlCluster, count: int, bundles: int, **settings: Any
) -> tuple[Tables, list[ControlBroker]]:
    tables = Tables()
    await cluster.create_namespace(bundles)
    made = [
        cluster.make(
            8081 + number,
            tables.factory,
            load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
            load_manager_service_unit_state_table_view_class_name=IN_STORE,
            load_balancer_report_update_min_interval_millis=3_600_000,
            load_balancer_shedding_interval_minutes=600.0,
            **settings,
        )
        for number in range(count)
    ]
    await asyncio.gather(*(broker.start() for broker in made))
    return tables, made


async def own_all(broker: ControlBroker, bundles: int) -> list[Bundle]:
    """Have one broker own every bundle of the namespace."""
    await broker.lookup(topic("t"))
    found = await broker.plane.bundles.get(topic("t").namespace)
    for bundle in found.bundles:
        owner = broker.plane.ownership.owner_cached(bundle)
        if owner is None:
            await broker.run(broker.plane.ownership.acquire(bundle, reason="test"))
        elif not owner.is_local:
            await broker.run(channel_of(broker.plane).ownership.move(bundle, owner.broker_id, broker.broker_id))
    return list(found.bundles)


def leader_of(brokers: list[ControlBroker]) -> ControlBroker:
    (leader,) = (broker for broker in brokers if broker.plane.leadership.is_leader())
    return leader


def test_the_leader_hands_bundles_of_a_loaded_broker_to_an_idle_one_once_the_gap_has_lasted() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 4)
        loaded, idle = brokers
        bundles = await own_all(loaded, 4)
        await cluster.until(lambda: len(loaded.owned) == 4, "one broker owns all")
        leader = leader_of(brokers)
        for _ in range(4):
            now_ms = round(cluster.loop.time() * 1000)
            await tables.tell(loaded.broker_id, 0.9, dict.fromkeys(bundles, 25e6), now_ms)
            await tables.tell(idle.broker_id, 0.1, {}, now_ms)
            assert idle.owned == []
            await leader.run(tables.managers[leader.broker_id].shed())
        await cluster.until(lambda: bool(idle.owned), "the idle one serves what was handed over")
        assert len(idle.owned) <= 2
        assert loaded.topics.sent_to == [(bundle, idle.broker_id) for bundle, _ in loaded.topics.sent_to]
        unloads = [each for each in tables.managers[leader.broker_id].decisions.recent() if each.kind == "unload"]
        assert {(each.source, each.destination) for each in unloads} == {(loaded.broker_id, idle.broker_id)}

    on_virtual_time(scenario)


def test_the_leader_shows_how_usages_spread_although_nothing_moves_yet() -> None:
    """Like Pulsar's gauge, which keeps the last values while loads cannot be used."""

    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 4)
        leader, follower = leader_of(brokers), next(broker for broker in brokers if broker is not leader_of(brokers))

        def shown(broker: ControlBroker) -> list[float | None]:
            labels = {"cluster": "standalone", "broker": broker.broker_id, "metric": "bundleUnloading"}
            registry = tables.managers[broker.broker_id].metrics.registry
            return [
                registry.get_sample_value(
                    "pulsar_lb_resource_usage_stats", {**labels, "feature": "max_ema", "stat": stat}
                )
                for stat in ("avg", "std")
            ]

        now_ms = round(cluster.loop.time() * 1000)
        await tables.tell(leader.broker_id, 0.9, {}, now_ms)
        await tables.tell(follower.broker_id, 0.1, {}, now_ms)
        assert shown(leader) == [None, None]
        await leader.run(tables.managers[leader.broker_id].shed())
        assert shown(leader) == [pytest.approx(0.5), pytest.approx(0.4)]
        assert shown(follower) == [None, None]
        await tables.tell(follower.broker_id, 0.3, {}, now_ms - 86_400_000)
        await tables.tell(leader.broker_id, 0.3, {}, now_ms - 86_400_000)
        await leader.run(tables.managers[leader.broker_id].shed())
        assert shown(leader) == [pytest.approx(0.5), pytest.approx(0.4)]

    on_virtual_time(scenario)


def test_a_leader_that_was_passed_and_does_not_know_moves_nothing() -> None:
    """The record of the bundle is as it knows it; only the epoch is another."""

    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 4)
        loaded, idle = brokers
        bundles = await own_all(loaded, 4)
        await cluster.until(lambda: len(loaded.owned) == 4, "one broker owns all")
        leader = leader_of(brokers)
        await cluster.pass_by(leader, CHANNEL_LEADER_PATH)
        for _ in range(4):
            now_ms = round(cluster.loop.time() * 1000)
            await tables.tell(loaded.broker_id, 0.9, dict.fromkeys(bundles, 25e6), now_ms)
            await tables.tell(idle.broker_id, 0.1, {}, now_ms)
            await leader.run(tables.managers[leader.broker_id].shed())
        told = tables.managers[leader.broker_id].decisions.recent()
        assert [each.kind for each in told if each.kind == "unload"] == []
        assert any("leader-epoch: expected version 0, found 1" in each.sentence for each in told)
        assert loaded.owned == bundles

    on_virtual_time(scenario)


def test_a_leader_that_was_passed_and_does_not_know_takes_nothing_from_lost_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def blind(self: Leadership) -> None:
        return

    monkeypatch.setattr(Leadership, "_check_epoch", blind)

    async def scenario(cluster: ControlCluster) -> None:
        _, brokers = await cluster_of(cluster, 3, 4)
        leader = leader_of(brokers)
        owner = next(broker for broker in brokers if broker is not leader)
        await own_all(owner, 4)
        await cluster.until(lambda: len(owner.owned) == 4, "one broker owns all")
        await cluster.pass_by(leader, CHANNEL_LEADER_PATH)
        owner.crash()
        await asyncio.sleep(300)
        assert leader.plane.leadership.is_leader()
        drawn = await leader.run(next_counter_value(leader.store, EPOCH_COUNTER))
        looks = drawn / 6  # it draws a number for each of four bundles, and two of the lost broker's own
        assert 10 < looks < 300 / 0.8 + 10, "it tries again and again, and leaves the store in peace in between"
        assert [broker.owned for broker in brokers if broker is not owner] == [[], []]

    on_virtual_time(scenario)


def test_what_a_broker_told_that_is_gone_counts_for_nothing() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 4)
        loaded, idle = brokers
        bundles = await own_all(loaded, 4)
        await cluster.until(lambda: len(loaded.owned) == 4, "one broker owns all")
        leader = leader_of(brokers)
        for _ in range(4):
            now_ms = round(cluster.loop.time() * 1000)
            await tables.tell(loaded.broker_id, 0.9, dict.fromkeys(bundles, 25e6), now_ms)
            await tables.tell(idle.broker_id, 0.1, {}, now_ms)
            await tables.tell("127.0.0.1:9999", 0.0, {}, now_ms)
            await leader.run(tables.managers[leader.broker_id].shed())
        await cluster.until(lambda: bool(idle.owned), "a broker that runs takes over")
        document = await leader.run(tables.managers[leader.broker_id].snapshot_document())
        assert set(document.extensible.loads) == {loaded.broker_id, idle.broker_id}

    on_virtual_time(scenario)


def test_a_broker_tells_its_load_and_takes_it_back_when_a_bundle_comes() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, (broker,) = await cluster_of(cluster, 1, 1)
        manager = tables.managers[broker.broker_id]
        await asyncio.sleep(60)  # what the start took back is long ago
        assert await broker.run(manager.write_report(force=True))
        assert decode_broker_load(tables.loads.values()[broker.broker_id]).reported_at > 0
        assert decode_top_bundles(tables.tops.values()[broker.broker_id]).top_bundles_load_data == ()
        await broker.lookup(topic("t"))
        await cluster.until(lambda: not tables.loads.values() and not tables.tops.values(), "both are taken back")

    on_virtual_time(scenario)


def test_prometheus_is_told_of_how_many_brokers_no_load_is_known() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 3, 1)
        first, second, _ = brokers
        leader = leader_of(brokers)
        now_ms = round(cluster.loop.time() * 1000)
        for broker, usage in ((first, 0.2), (second, 0.6)):
            await tables.tell(broker.broker_id, usage, {}, now_ms)
        silent = 3 - len({first.broker_id, second.broker_id, leader.broker_id})
        await leader.run(tables.managers[leader.broker_id].write_report(force=True))
        own = {"cluster": "standalone", "broker": leader.broker_id}
        registry = tables.managers[leader.broker_id].metrics.registry
        assert registry.get_sample_value("barycenter_brokers_without_load_report", own) == silent

    on_virtual_time(scenario)


def test_a_broker_that_is_leaving_is_given_nothing() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 16)
        staying, leaving = brokers
        await leaving.run(tables.managers[leaving.broker_id].announce_leaving())
        for number in range(40):
            assert (await staying.lookup(topic(f"t{number}"))).broker_id == staying.broker_id

    on_virtual_time(scenario)


def test_a_broker_that_is_drained_is_given_nothing() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        _, brokers = await cluster_of(cluster, 2, 16)
        staying, drained = brokers
        for broker in brokers:
            broker.plane.config.apply({"barycenterDrainedBrokers": drained.broker_id})
        for number in range(40):
            assert (await drained.lookup(topic(f"t{number}"))).broker_id == staying.broker_id

    on_virtual_time(scenario)


def test_load_data_that_cannot_be_read_stop_nobody() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 4)
        for document in (b"", b"{", b'{"cpu":3}', b'{"topBundlesLoadData":[{}]}', b"[" * 5_000):
            for table in (tables.loads, tables.tops):
                await table.publish("127.0.0.1:9999", document)
            assert (await brokers[0].lookup(topic("t"))).broker_id in {broker.broker_id for broker in brokers}
            leader = leader_of(brokers)
            await leader.run(tables.managers[leader.broker_id].shed())

    on_virtual_time(scenario)


def test_what_the_leader_knows_is_a_snapshot_that_can_be_decided_upon_elsewhere() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        tables, brokers = await cluster_of(cluster, 2, 2)
        bundles = await own_all(brokers[0], 2)
        await tables.tell(brokers[0].broker_id, 0.5, dict.fromkeys(bundles, 1e6), 1_000)
        document = await brokers[0].run(tables.managers[brokers[0].broker_id].snapshot_document())
        assert document.extensible is not None
        assert {document.extensible.owners[str(bundle)] for bundle in bundles} == {brokers[0].broker_id}
        snapshot = document.snapshot()
        assert snapshot.brokers.names == tuple(sorted(broker.broker_id for broker in brokers))
        assert msgspec.json.encode(document)

    on_virtual_time(scenario)
