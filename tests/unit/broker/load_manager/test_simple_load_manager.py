"""The simple load manager among several brokers, on virtual time: reports and placement."""

import asyncio
from functools import partial
from operator import methodcaller

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager, load_manager_factory
from pulsar_barycenter.broker.load_manager.modular.load_data import PREALLOCATION_MS
from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import ResourceUsage, SystemResourceUsage
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.balanced_cluster import Balanced, SimplyBalanced, own, simply_balanced, simply_settled, traffic
from support.control_cluster import NAMESPACE, ControlBroker, ControlCluster, on_virtual_time, topic
from support.simple_managers import setting, shed_scenario, stored_report

# ---- reports ----


def test_a_broker_registers_with_a_load_report_of_what_it_carries() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        (b0,) = await simply_balanced(cluster, 1)
        first = await stored_report(cluster, b0)
        assert first.bundle_stats == {}, "its own heartbeat namespaces are left out"
        assert (first.under_loaded, first.over_loaded) == (True, False)
        await own(cluster, b0, *made)
        b0.carries(traffic(7, rate=3))
        await b0.report(90)
        report = await stored_report(cluster, b0)
        assert (report.name, report.web_service_url) == (b0.id, f"http://{b0.id}")
        assert list(report.bundle_stats) == list(map(str, made)), "also one without topics"
        assert (report.msg_rate_in, report.num_topics, report.num_bundles) == (3, 2, 2)
        assert report.bundle_gains == tuple(map(str, made))
        assert (report.over_loaded, report.under_loaded) == (True, False)
        assert report.load_manager_class_name.endswith(".SimpleLoadManagerImpl")  # type: ignore[union-attr]
        assert (report.incarnation, report.sequence) == (b0.broker.plane.incarnation, 2)
        assert report.allocated_memory == 160, "twice the default quota"
        assert b0.manager.load_report().bundle_stats == report.bundle_stats
        assert [each.sequence for each in b0.report_log.reports] == [1, 2], "and the log has them, too"

    on_virtual_time(scenario)


def test_a_report_is_written_when_bundles_or_usage_change_and_when_it_is_old() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(1)).bundles)
        (b0,) = await simply_balanced(cluster, 1, load_balancer_enabled=False)

        async def written_after(seconds: float) -> bool:
            await asyncio.sleep(seconds)
            return bool(await b0.do(lambda manager: manager.write_report()))

        assert not await written_after(6)
        await own(cluster, b0, *made)
        assert await written_after(6)
        b0.meter.usage = SystemResourceUsage(cpu=ResourceUsage(10.9, 100))
        assert not await written_after(61), "10.9 points"
        b0.meter.usage = SystemResourceUsage(cpu=ResourceUsage(90, 100))
        assert not await written_after(20), "compared just now"
        b0.meter.usage = SystemResourceUsage(cpu=ResourceUsage(11, 100))
        assert await written_after(61)
        assert not await written_after(800)
        assert await written_after(101), "fifteen minutes"

    on_virtual_time(scenario)


def test_memory_in_reports_is_averaged_over_two_minutes() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await simply_balanced(cluster, 1)
        for used in (100, 340):
            b0.meter.usage = SystemResourceUsage(memory=ResourceUsage(used, 4000))
            await b0.report()
        assert (await stored_report(cluster, b0)).memory == ResourceUsage(110, 4000)

    on_virtual_time(scenario)


def test_a_lost_registration_is_regained_by_the_same_process() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await simply_balanced(cluster, 1)
        await cluster.admin.delete(f"/loadbalance/brokers/{b0.id}")
        await cluster.until(lambda: b0.broker.plane.registration.is_registered, "registered again")
        assert await b0.report(12)
        assert (await stored_report(cluster, b0)).cpu.usage == 12

    on_virtual_time(scenario)


def test_a_stopped_manager_writes_nothing_and_may_be_stopped_again() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await simply_balanced(cluster, 1)
        for _ in range(2):
            await b0.do(lambda manager: manager.stop())
            assert not await cluster.admin.exists(f"/loadbalance/brokers/{b0.id}")
            assert not await b0.do(lambda manager: manager.write_report(force=True))

    on_virtual_time(scenario)


# ---- placement ----


def test_the_leader_fills_a_broker_before_it_takes_an_idle_one_into_use() -> None:
    """The first bundle makes b0 busy; the evenness within a namespace is what spreads the others."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await simply_balanced(cluster, 3)
        await simply_settled(brokers)
        chosen = []
        for number in range(4):
            bundle = Bundle.parse(f"public/n{number}/0x00000000_0xffffffff")
            chosen.append(await brokers[0].do(methodcaller("select_broker", bundle)))
        assert [placement.broker for placement in chosen] == [brokers[0].id] * 4
        assert [placement.reason.code for placement in chosen] == [Code.IDLE_BROKER, *[Code.LEAST_LOADED] * 3]
        assert [record.destination for record in brokers[0].told("assign")] == [brokers[0].id] * 4
        again = await brokers[0].do(lambda manager: manager.select_broker(bundle))
        assert again.reason.code is Code.PREALLOCATED
        assert len(brokers[0].told("assign")) == 4

    on_virtual_time(scenario)


def test_topics_of_one_namespace_spread_and_are_served_by_whom_the_leader_chose() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(6)
        brokers = await simply_balanced(cluster, 3)
        await simply_settled(brokers)
        for number in range(40):
            await cluster.follow(topic(f"t{number}"), brokers[2].broker)
        cluster.check_one_server()
        assert [len(each.broker.owned) for each in brokers] == [2, 2, 2]
        assert not brokers[2].told("assign"), "only the leader places"

    on_virtual_time(scenario)


def test_with_the_weighted_draw_every_broker_places() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(6)
        brokers = await simply_balanced(cluster, 3, load_balancer_placement_strategy="weightedRandomSelection")
        full = SystemResourceUsage(
            cpu=ResourceUsage(100, 100),
            memory=ResourceUsage(0, 4000),
            bandwidth_in=ResourceUsage(0, 1e6),
            bandwidth_out=ResourceUsage(0, 1e6),
        )
        free = msgspec.structs.replace(full, cpu=ResourceUsage(0, 100))
        for each, usage in zip(brokers, (full, free, full), strict=True):
            each.meter.usage = usage
            await each.report()
        await simply_settled(brokers)
        assert not brokers[2].manager.is_centralized
        for number in range(40):
            await cluster.follow(TopicName.parse(f"persistent://public/default/t{number}"), brokers[2].broker)
        told = brokers[2].told("assign")
        assert len(told) == 6
        assert told[0].destination == brokers[1].id, "the one with room, while all have as few bundles"
        assert not brokers[0].told("assign"), "it was not asked"

    on_virtual_time(scenario)


def test_a_bundle_on_its_way_to_a_broker_that_is_drained_meanwhile_goes_to_another() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (bundle,) = (await cluster.create_namespace(1)).bundles
        b0, b1 = brokers = await simply_balanced(cluster, 2)
        await simply_settled(brokers)
        first = (await b0.do(methodcaller("select_broker", bundle))).broker
        assert (await b0.do(methodcaller("select_broker", bundle))).reason.code is Code.PREALLOCATED
        b0.configure(barycenter_drained_brokers=(first,))
        (other,) = {b0.id, b1.id} - {first}
        assert (await b0.do(methodcaller("select_broker", bundle))).broker == other

    on_virtual_time(scenario)


@pytest.mark.parametrize("strategy", ["leastLoadedServer", "weightedRandomSelection"])
def test_a_drained_broker_is_given_nothing_with_reports_or_without(strategy: str) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundles = (await cluster.create_namespace(6)).bundles
        brokers = await simply_balanced(cluster, 3, load_balancer_placement_strategy=strategy)
        b0, *drained = brokers
        b0.configure(barycenter_drained_brokers=tuple(each.id for each in drained))
        assert {(await b0.do(methodcaller("select_broker", each))).broker for each in bundles[:3]} == {b0.id}
        await simply_settled(brokers)
        assert {(await b0.do(methodcaller("select_broker", each))).broker for each in bundles} == {b0.id}

    on_virtual_time(scenario)


def test_a_strategy_node_goes_before_the_configuration_at_once() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = await simply_balanced(cluster, 1)
        assert b0.manager.is_centralized
        await setting(cluster, "loadBalancerStrategy", "weightedRandomSelection")
        await cluster.until(lambda: not b0.manager.is_centralized, "the node was read")
        with capture_logs() as logs:
            await setting(cluster, "loadBalancerStrategy", "roundRobin")
            await cluster.until(lambda: bool(b0.manager.settings.current.warnings), "the node was read", within_s=10)
        (warning,) = (each for each in logs if each["event"] == "load_balancing_setting_not_usable")
        assert (warning["log_level"], "weightedRandomSelection is used" in warning["reason"]) == ("warning", True)
        await setting(cluster, "loadBalancerStrategy", "leastMsgPerSecond")
        await cluster.until(lambda: b0.manager.is_centralized, "the node was read")

    on_virtual_time(scenario)


def test_a_bundle_on_its_way_counts_in_its_brokers_report_and_not_once_that_left() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        first, second = (Bundle.parse(f"public/n{number}/0x00000000_0xffffffff") for number in range(2))
        b0, b1 = brokers = await simply_balanced(cluster, 2)
        await simply_settled(brokers)
        placement = await b0.do(methodcaller("select_broker", first))
        assert placement.broker == b0.id
        assert b0.manager.load_report().pre_allocated_memory == 80, "the default quota"
        assert b1.manager.load_report().pre_allocated_memory == 0
        for each, cpu in zip(brokers, (99, 10), strict=True):
            await each.report(cpu)
        await simply_settled(brokers)
        assert (await b0.do(methodcaller("select_broker", second))).broker == b1.id
        await b0.manager.watch.close()  # it looks no more, so that only the list of brokers tells
        await b1.do(lambda manager: manager.disable())
        await cluster.until(lambda: b1.id not in b0.manager.available_brokers(), "b1 left")
        assert (await b0.do(methodcaller("select_broker", second))).broker == b0.id

    on_virtual_time(scenario)


def test_a_broker_that_left_neither_takes_a_bundle_nor_keeps_the_others_from_taking_it() -> None:
    """The one that left has the fewest bundles of the namespace, so evenness alone would leave only that one."""

    async def scenario(cluster: ControlCluster) -> None:
        first, second = (await cluster.create_namespace(2)).bundles
        b0, b1 = brokers = await simply_balanced(cluster, 2)
        await own(cluster, b0, first)
        await b0.report()
        await simply_settled(brokers)
        await b0.manager.watch.close()  # as if learning from the reports of a large cluster took long just now
        await b1.do(lambda manager: manager.disable())
        await cluster.until(lambda: b1.id not in b0.manager.available_brokers(), "b1 left")
        placement = await b0.do(methodcaller("select_broker", second))
        assert placement is not None, b0.told("refuse")
        assert placement.broker == b0.id

    on_virtual_time(scenario)


def test_nothing_is_shed_for_the_sake_of_a_broker_that_left() -> None:
    """b1, which left, would be the only one with a comfortable load."""

    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, b1 = brokers
        await b0.manager.watch.close()
        await b1.do(lambda manager: manager.disable())
        await cluster.until(lambda: b1.id not in b0.manager.available_brokers(), "b1 left")
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == []

    shed_scenario(scenario, cpu=(90, 10))


def test_without_the_store_bundles_are_placed_by_the_reports_known() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        b0, b1 = brokers = await simply_balanced(cluster, 2)
        await simply_settled(brokers)
        await b0.manager.watch.close()
        await b1.do(lambda manager: manager.disable())
        await cluster.until(lambda: b1.id not in b0.manager.available_brokers(), "b1 left")

        cluster.backend.partition(b0.broker.store)
        with capture_logs() as logs:
            assert (await b0.do(methodcaller("select_broker", bundle))).broker == b0.id
        assert "load_data_not_refreshed" in {each["event"] for each in logs}

    on_virtual_time(scenario)


def test_a_bundle_that_its_broker_never_loads_is_placed_anew_after_a_while() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = Bundle.parse("public/n/0x00000000_0xffffffff")
        brokers = await simply_balanced(cluster, 2)
        b0 = brokers[0]
        await simply_settled(brokers)
        await b0.do(lambda manager: manager.select_broker(bundle))
        for _ in range(2):
            await asyncio.sleep(PREALLOCATION_MS / 2000 + 1)
            for each in brokers:
                await each.report()
            await simply_settled(brokers)
        again = await b0.do(lambda manager: manager.select_broker(bundle))
        assert again.reason.code is Code.IDLE_BROKER

    on_virtual_time(scenario)


def test_a_bundle_with_a_non_persistent_topic_goes_to_a_broker_that_serves_such_topics() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(4)
        b0 = await SimplyBalanced(cluster, 8080).start(load_manager_class_name="SimpleLoadManagerImpl")
        b1 = await SimplyBalanced(cluster, 8081).start(
            load_manager_class_name="SimpleLoadManagerImpl", enable_non_persistent_topics=False
        )
        await simply_settled([b0, b1])
        for number in range(12):
            name = TopicName.parse(f"non-persistent://{NAMESPACE}/t{number}")
            assert (await cluster.follow(name, b1.broker)).broker_id == b0.id

    on_virtual_time(scenario)


def test_brokers_of_another_load_manager_get_no_bundles() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        modular = await Balanced(cluster, 8079).start()
        with capture_logs() as logs:
            (b0,) = await simply_balanced(cluster, 1)
            await cluster.until(lambda: len(b0.manager.available_brokers()) == 2, "seen")
            for _ in range(3):
                await modular.report()
                await asyncio.sleep(1)
            placement = await b0.do(lambda manager: manager.select_broker(bundle))
        assert placement.broker == b0.id
        assert modular.id not in b0.manager.load_data.brokers
        assert len([each for each in logs if each["event"] == "broker_runs_another_load_manager"]) == 1
        urls = await modular.broker.plane.registration.urls_of(b0.id)
        assert urls is not None
        assert urls.web_url == f"http://{b0.id}", "and the other reads who this one is"

    on_virtual_time(scenario)


# ---- how it comes to run ----


@pytest.mark.parametrize(
    "name", ["org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl", "SimpleLoadManagerImpl", ""]
)
def test_the_configuration_names_it(name: str) -> None:
    assert load_manager_factory(name) is SimpleLoadManager


def all_run(brokers: list[ControlBroker], name: str) -> bool:
    return all(type(broker.plane.load_manager).__name__ == name for broker in brokers)


def test_a_running_cluster_changes_to_it_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoadManagerEnvironment, "of_machine", LoadManagerEnvironment.in_memory)  # on virtual time

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(4)
        brokers = [await cluster.add(8081 + index, configured_load_manager) for index in range(2)]
        for number in range(16):
            await cluster.follow(topic(f"t{number}"), brokers[0])
        before = [sorted(broker.owned) for broker in brokers]
        for name in ("SimpleLoadManagerImpl", "ModularLoadManagerImpl"):
            first = brokers[0]
            await first.run(first.plane.dynamic_configuration.set("loadManagerClassName", name))
            short = name.removesuffix("Impl")
            await cluster.until(partial(all_run, brokers, short), name)
            assert [sorted(broker.owned) for broker in brokers] == before
            for number in range(16):
                await cluster.follow(topic(f"t{number}"), brokers[1])
            cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_simple_broker_that_came_back_after_it_lost_its_session_reports_anew() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        b0, b1 = await simply_balanced(cluster, 2)
        await simply_settled([b0, b1])
        before = b1.newest
        await asyncio.sleep(20)
        assert b1.newest == before, "nothing changed"
        cluster.backend.expire_session(b1.broker.store)
        await cluster.until(lambda: b1.newest == before + 1, "a new report", within_s=60)
        await simply_settled([b0, b1])

    on_virtual_time(scenario)


def test_brokers_of_which_no_report_is_known_are_drawn_where_no_other_is_left() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle = (await cluster.create_namespace(1)).bundles[0]
        (b0,) = await simply_balanced(cluster, 1)
        await simply_settled([b0])
        b0.broker.plane.registration._brokers = frozenset({"127.0.0.1:9"})
        placement = b0.manager.load_data.select(b0.manager._request_for(bundle))
        assert (placement.broker, placement.reason.code) == ("127.0.0.1:9", Code.DRAWN)
        assert b0.manager.load_data.availability(NAMESPACE) == {0: ["127.0.0.1:9"]}

    on_virtual_time(scenario)
