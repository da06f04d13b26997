"""The modular load manager among several brokers, on virtual time: reports, assignment, shedding, splitting."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.modular import leader as leader_module
from pulsar_barycenter.broker.load_manager.modular import snapshots as snapshots_module
from pulsar_barycenter.broker.load_manager.modular.load_data import SAME_ANSWER_MS
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.balanced_cluster import Balanced, balanced, own, settled, shed_scenario, traffic
from support.control_cluster import NAMESPACE, ControlCluster, on_virtual_time, topic

T = TypeVar("T")


def test_a_broker_registers_with_a_whole_report_and_numbers_its_reports() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await balanced(cluster, 1)
        await b0.report(35)
        record = await cluster.admin.get(f"/loadbalance/brokers/{b0.id}")
        assert record is not None
        stored = msgspec.json.decode(record.value, type=LocalBrokerData)
        assert stored == b0.report_log.reports[-1]
        assert [each.sequence for each in b0.report_log.reports] == [1, 2]
        assert (stored.broker_id, stored.cpu.usage, stored.max_resource_usage) == (b0.id, 35, pytest.approx(0.35))
        assert stored.incarnation == b0.broker.plane.incarnation
        assert stored.web_service_url == f"http://{b0.id}"
        assert len(stored.last_stats) == 2, "its own heartbeat namespaces, without topics"
        assert await cluster.admin.exists(f"/loadbalance/broker-time-average/{b0.id}")

    on_virtual_time(scenario)


def test_bundles_without_reports_in_between_spread_over_the_brokers() -> None:
    """Each assignment counts for its broker at once, so eight lookups in a row give four bundles to each of two."""

    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(8)
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        chosen = [
            (await b0.do(lambda manager, bundle=bundle: manager.select_broker(bundle))) for bundle in made.bundles
        ]
        assert sorted(placement.broker for placement in chosen) == [b0.id] * 4 + [b1.id] * 4
        assert [record.destination for record in b0.told("assign")] == [placement.broker for placement in chosen]
        assert "LeastLongTermMessageRate" in b0.told("assign")[0].sentence

    on_virtual_time(scenario)


def test_all_who_ask_while_a_leaders_code_is_loaded_ask_one_leader() -> None:
    """Or each would choose, and remember, without the others."""

    class SlowlyLoaded(Balanced):
        def make(self, context: LoadManagerContext, environment: LoadManagerEnvironment) -> ModularLoadManager:
            async def offload(work: Callable[[], T]) -> T:
                await asyncio.sleep(1)
                return work()

            return super().make(context, dataclasses.replace(environment, offload=offload))

    async def scenario(cluster: ControlCluster) -> None:
        b0 = await SlowlyLoaded(cluster, 8080).start()
        leaders = await asyncio.gather(*(b0.do(lambda manager: manager.leader()) for _ in range(3)))
        assert all(each is leaders[0] for each in [*leaders, await b0.do(lambda manager: manager.leader())])

    on_virtual_time(scenario)


def test_a_second_question_gets_the_first_answer_for_a_while() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        first = await b0.do(lambda manager: manager.select_broker(bundle))
        assert (await b0.do(lambda manager: manager.select_broker(bundle))).reason.code is Code.PREALLOCATED
        await asyncio.sleep(SAME_ANSWER_MS / 1000 + 1)
        again = await b0.do(lambda manager: manager.select_broker(bundle))
        assert again.reason.code is not Code.PREALLOCATED
        assert again.broker != first.broker, "the broker that did not take it counts as having it"

    on_virtual_time(scenario)


def test_a_drained_broker_gets_nothing_not_even_what_was_on_its_way_there() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        first, *others = (await cluster.create_namespace(4)).bundles
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        chosen = await b0.do(lambda manager: manager.select_broker(first))
        other = b1 if chosen.broker == b0.id else b0
        b0.configure(barycenter_drained_brokers=(chosen.broker,))
        for bundle in (first, *others):
            placement = await b0.do(lambda manager, bundle=bundle: manager.select_broker(bundle))
            assert placement.broker == other.id
        assert Code.DRAINED in {each.code for each in placement.reason.alternatives}
        b0.configure(barycenter_drained_brokers=(b0.id, b1.id))
        assert await b0.do(lambda manager: manager.select_broker(first)) is not None

    on_virtual_time(scenario)


def test_a_lookup_goes_to_whom_the_manager_chose() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(4)
        brokers = await balanced(cluster, 2)
        await settled(brokers)
        for number in range(12):
            await cluster.follow(topic(f"t{number}"), brokers[1].broker)
        cluster.check_one_server()
        assert sorted(len(each.broker.owned) for each in brokers) == [2, 2]

    on_virtual_time(scenario)


def test_a_bundle_with_a_non_persistent_topic_goes_to_a_broker_that_serves_such_topics() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(4)
        b0, b1 = await balanced(cluster, 2, enable_non_persistent_topics=False)
        await settled([b0, b1])
        for number in range(12):
            name = TopicName.parse(f"non-persistent://{NAMESPACE}/t{number}")
            assert (await cluster.follow(name, b1.broker)).broker_id == b0.id
        assert len(b0.broker.owned) == 4

    on_virtual_time(scenario)


def test_nobody_qualifies_without_registered_brokers() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        (b0,) = await balanced(cluster, 1)
        await b0.do(lambda manager: manager.disable())
        await cluster.until(lambda: not b0.manager.available_brokers(), "unregistered")
        assert await b0.do(lambda manager: manager.select_broker(bundle)) is None
        assert b0.told("refuse")[-1].reason.code is Code.NO_CANDIDATE

    on_virtual_time(scenario)


def test_an_overloaded_broker_gives_bundles_to_those_with_room() -> None:
    """Usages 90, 10, 20, mean 40: (0.9 - 0.4 - 0.1 + 0.05) of 400 MB/s are 180, four bundles."""

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, b2 = brokers
        await b0.do(lambda manager: manager.shed())
        assert [(owner, bundle) for owner, bundle, _ in b0.peers.unloads] == [
            (b0.id, str(bundle)) for bundle in bundles[:4]
        ]
        destinations = [destination for _, _, destination in b0.peers.unloads]
        assert sorted(destinations) == [b1.id] * 2 + [b2.id] * 2, "each counts for its destination at once"
        assert [record.destination for record in b0.told("unload")] == destinations
        assert "smoothed usage 90 % >= mean + threshold = 50 %" in b0.told("unload")[0].sentence
        assert len(b0.broker.owned) == 4

    shed_scenario(scenario)


def test_a_bundle_is_not_shed_to_a_broker_that_does_not_serve_its_non_persistent_topic() -> None:
    """The topic came when the bundle had its owner."""

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        for number in range(60):
            await cluster.follow(TopicName.parse(f"non-persistent://{NAMESPACE}/t{number}"), b0.broker)
        await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        assert Code.POLICIES_FORBID in {record.reason.code for record in b0.told("refuse")}

    shed_scenario(scenario, enable_non_persistent_topics=False)


def test_a_bundle_just_moved_stays_for_the_grace_period() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        b0.configure(load_balancer_shedding_grace_period_minutes=1.0)
        await b0.do(lambda manager: manager.shed())
        moved = [bundle for _, bundle, _ in b0.peers.unloads]
        await own(cluster, b0, *map(Bundle.parse, moved))  # an administrator brings them back
        await b0.report(90)
        await settled(brokers)
        b0.peers.unloads.clear()
        await b0.do(lambda manager: manager.shed())
        assert not set(moved) & {bundle for _, bundle, _ in b0.peers.unloads}
        await cluster.until(
            lambda: bool(set(moved) & {bundle for _, bundle, _ in b0.peers.unloads}), "shed again", within_s=150
        )

    shed_scenario(scenario)


def test_only_the_leader_sheds_and_only_while_it_is_switched_on() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, _ = brokers
        await b1.do(lambda manager: manager.shed())
        b0.configure(load_balancer_shedding_enabled=False)
        await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        assert not b1.peers.unloads

    shed_scenario(scenario)


def test_excluded_namespaces_are_left_alone_and_the_refusal_is_told_once() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        b0.configure(load_balancer_shedding_excluded_namespaces=(str(NAMESPACE),))
        await b0.do(lambda manager: manager.shed())
        await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        assert [record.reason.code for record in b0.told("refuse")] == [Code.EXCLUDED_NAMESPACE] * 4
        assert "loadBalancerSheddingExcludedNamespaces" in b0.told("refuse")[0].sentence

    shed_scenario(scenario)


def test_an_unload_that_fails_is_told_and_does_not_stop_the_others() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        b0.peers.error = RuntimeError("409 bundle is busy")
        await b0.do(lambda manager: manager.shed())
        assert [record.reason.detail for record in b0.told("refuse")] == ["409 bundle is busy"] * 4
        assert len(b0.broker.owned) == 8
        b0.peers.error = None
        await b0.do(lambda manager: manager.shed())
        assert len(b0.peers.unloads) == 4, "a failed unload starts no grace period"

    shed_scenario(scenario)


def test_one_broker_alone_sheds_nothing_and_says_why() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await balanced(cluster, 1)
        await b0.report(99)
        await b0.do(lambda manager: manager.shed())
        await b0.do(lambda manager: manager.shed())
        assert [record.reason.code for record in b0.told("shed")] == [Code.TOO_FEW_BROKERS]

    on_virtual_time(scenario)


def test_a_bundle_with_too_many_topics_is_split_where_it_is_owned() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await own(cluster, b1, *made)
        b1.carries(traffic(0, topics=1001), traffic(0, topics=1000))
        await b1.report()
        await settled(brokers)
        await b0.do(lambda manager: manager.check_splits())
        assert b0.peers.splits == [(b1.id, str(made[0]), "range_equally_divide", True)]
        assert await cluster.boundaries() == ["0x00000000", "0x40000000", "0x80000000", "0xffffffff"]
        assert "loadBalancerNamespaceBundleMaxTopics" in b0.told("split")[0].sentence
        await b0.do(lambda manager: manager.check_splits())
        assert len(b0.peers.splits) == 1, "the report still lists it, but it is no bundle any more"

    on_virtual_time(scenario)


def test_a_namespace_with_as_many_bundles_as_allowed_is_not_split() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(4)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        b0.configure(load_balancer_namespace_maximum_bundles=4)
        await own(cluster, b1, made[0])
        b1.carries(traffic(0, topics=5000))
        await b1.report()
        await settled(brokers)
        for _ in range(2):
            await b0.do(lambda manager: manager.check_splits())
        assert not b0.peers.splits
        assert [record.reason.code for record in b0.told("refuse")] == [Code.NAMESPACE_FULL]

    on_virtual_time(scenario)


def test_a_namespace_that_comes_in_for_a_full_one_is_counted_before_it_is_split() -> None:
    """One split a check: of both namespaces a part is reported, so that they look as if they had room."""

    async def scenario(cluster: ControlCluster) -> None:
        first = list((await cluster.create_namespace(4, NamespaceName.parse("t/a"))).bundles)
        second = list((await cluster.create_namespace(4, NamespaceName.parse("t/b"))).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        b0.configure(load_balancer_namespace_maximum_bundles=4, barycenter_max_bundles_per_round=1)
        await own(cluster, b1, first[0], second[0])
        b1.carries(traffic(0, topics=5000), traffic(0, topics=5000))
        await b1.report()
        await settled(brokers)
        await b0.do(lambda manager: manager.check_splits())
        assert not b0.peers.splits
        assert [record.reason.code for record in b0.told("refuse")] == [Code.NAMESPACE_FULL] * 2

    on_virtual_time(scenario)


def test_windows_are_stored_and_a_new_leader_goes_on_with_them() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(1)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await own(cluster, b1, made[0])
        for rate in (10, 20, 30):
            b1.carries(traffic(0, rate=rate))
            await b1.report()
        await settled(brokers)
        await b0.do(lambda manager: manager.write_resource_quotas())
        record = await cluster.admin.get(f"/loadbalance/bundle-data/{made[0]}")
        assert record is not None
        data = msgspec.json.decode(record.value, type=BundleData)
        assert (data.long_term_data.num_samples, data.long_term_data.msg_rate_in) == (3, pytest.approx(20))
        late = await Balanced(cluster, 8090).start()
        await settled([*brokers, late])
        known = late.manager.load_data.fold.bundles[str(made[0])].long_term_data
        assert (known.num_samples, known.msg_rate_in) == (4, pytest.approx(22.5)), "stored data and one more sample"

    on_virtual_time(scenario)


@pytest.mark.parametrize("at_once", [1, 2, 1_000])
def test_of_more_bundles_than_are_stored_the_heaviest_are(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "_RANKED_IN_ONE_STEP", at_once)

    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(4)).bundles)
        (b0,) = await balanced(cluster, 1)
        await own(cluster, b0, *made)
        b0.configure(load_balancer_max_number_of_bundles_in_bundle_load_report=2)
        b0.carries(*(traffic(rate * 1e6) for rate in (1, 7, 3, 7)))
        await b0.report()
        await settled([b0])
        await b0.do(lambda manager: manager.write_resource_quotas())
        stored = [bundle for bundle in made if await cluster.admin.exists(f"/loadbalance/bundle-data/{bundle}")]
        assert stored == [made[1], made[3]]

    on_virtual_time(scenario)


def test_what_a_snapshot_takes_is_made_broker_by_broker_while_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        snapshots, turns = (await brokers[0].manager.leader()).snapshots, 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(count_turns())
        await asyncio.sleep(0)
        turns = 0
        await snapshots.current()
        assert turns >= len(brokers), "one for each broker's report"
        turns = 0
        await snapshots.current()
        assert turns == 0, "nothing changed"
        for rows, is_long in ((1, True), (1_000, False)):
            monkeypatch.setattr(snapshots_module, "_KEPT_ROWS_IN_ONE_STEP", rows)
            brokers[0].manager.load_data.changed()
            turns = 0
            await snapshots.current()
            assert (turns >= len(brokers) + 3) is is_long, "what was kept is many rows, or few"
        other.cancel()

    shed_scenario(run)


def test_the_leader_cleans_up_after_a_dead_broker() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        b0, b1 = brokers = await balanced(cluster, 2)
        await settled(brokers)
        b1.broker.crash()
        await cluster.until(lambda: b0.manager.available_brokers() == {b0.id}, "session expired")
        await cluster.until(lambda: b0.manager.load_data.brokers == {b0.id}, "picture refreshed")
        await asyncio.sleep(1)
        assert not await cluster.admin.exists(f"/loadbalance/broker-time-average/{b1.id}")

    on_virtual_time(scenario)


def test_decisions_count_in_metrics_of_pulsars_names() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        await b0.do(lambda manager: manager.shed())
        await b0.report()
        registry = b0.manager.metrics.registry
        labels = {"cluster": "standalone", "broker": b0.id}
        unloading = {**labels, "metric": "bundleUnloading"}
        assert registry.get_sample_value("pulsar_lb_unload_bundle_total", unloading) == 4
        assert registry.get_sample_value("pulsar_lb_unload_broker_total", unloading) == 1
        assert registry.get_sample_value("pulsar_lb_cpu_usage", {**labels, "metric": "loadBalancing"}) == 90

    shed_scenario(scenario)


def test_a_broker_that_came_back_after_it_lost_its_session_reports_anew() -> None:
    """The others may have dropped its load in between, and under steady load it would be silent for long."""

    async def scenario(cluster: ControlCluster) -> None:
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        before = b1.report_log.reports[-1].sequence
        await asyncio.sleep(20)
        assert b1.report_log.reports[-1].sequence == before, "nothing changed"
        cluster.backend.expire_session(b1.broker.store)
        await cluster.until(lambda: b1.report_log.reports[-1].sequence == before + 1, "a new report", within_s=30)
        await settled([b0, b1])
        await asyncio.sleep(20)
        assert b1.report_log.reports[-1].sequence == before + 1, "one is enough"

    on_virtual_time(scenario)


def test_where_no_report_is_known_bundles_go_to_whoever_is_registered() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(4)
        b0, b1 = await balanced(cluster, 2)
        await settled([b0, b1])
        data_of = b0.broker.plane.registration.data_of

        async def nothing(_: str) -> LocalBrokerData | None:
            return None

        b0.broker.plane.registration.data_of = nothing
        with capture_logs() as logs:
            await b0.do(lambda manager: manager.watch.refresh())
            await b0.do(lambda manager: manager.watch.refresh())
            chosen = [
                await b0.do(lambda manager, bundle=bundle: manager.select_broker(bundle)) for bundle in made.bundles
            ]
        assert {placement.broker for placement in chosen} <= {b0.id, b1.id}
        assert "all registered brokers count as idle" in chosen[0].reason.flags[0]
        told = [each for each in logs if each["event"] == "no_load_report_known"]
        assert [(each["log_level"], each["brokers"]) for each in told] == [("error", [b0.id, b1.id])]
        labels = {"cluster": b0.broker.config.current.cluster_name, "broker": b0.id}
        unreported = "barycenter_brokers_without_load_report"
        assert b0.manager.metrics.registry.get_sample_value(unreported, labels) == 2
        b0.broker.plane.registration.data_of = data_of
        await b0.do(lambda manager: manager.watch.refresh())
        assert b0.manager.metrics.registry.get_sample_value(unreported, labels) == 0

    on_virtual_time(scenario)
