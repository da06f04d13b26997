"""What the leader of the simple load manager sheds, splits and allots among several brokers, on virtual time."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.broker.load_manager.simple.quota_store import DEFAULT_QUOTA_PATH, RESOURCE_QUOTA_ROOT
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceQuota
from pulsar_barycenter.load.simple.simple_settings import SETTING_NODES
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import SimplyBalanced, own, simply_balanced, simply_settled, traffic
from support.control_cluster import NAMESPACE, ControlCluster, on_virtual_time, topic
from support.simple_managers import setting, shed_scenario, stored_report

# ---- shedding ----


def test_an_overloaded_broker_sheds_its_busiest_bundle_which_then_finds_another_owner() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == [(b0.id, str(bundles[3]), None)]
        assert len(b0.broker.owned) == 3
        (record,) = b0.told("unload")
        assert (record.bundle, record.source, record.destination) == (str(bundles[3]), b0.id, "")
        assert "cpu usage 90 % > overload threshold 85 %" in record.sentence
        await b0.do(lambda manager: manager.shed())
        assert len(b0.peers.unloads) == 1, "the report still lists it"
        b0.carries(*(traffic(1e6, rate=100.0 * (1 + place)) for place in range(3)))
        await b0.report(80)
        await simply_settled(brokers)
        moved = next(name for name in map("t{}".format, range(99)) if bundles[3].contains(topic(name)))
        owner = await cluster.follow(topic(moved), brokers[2].broker)
        assert owner.broker_id != b0.id, "others have fewer bundles of the namespace"

    shed_scenario(scenario)


def test_the_next_bundle_leaves_after_the_next_report() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        for left in (3, 2):
            await b0.do(lambda manager: manager.shed())
            assert b0.peers.unloads[-1][1] == str(bundles[left])
            b0.carries(*(traffic(1e6, rate=100.0 * (1 + place)) for place in range(left)))
            await b0.report(95)
            await simply_settled(brokers)

    shed_scenario(scenario)


def test_a_bundle_that_came_back_may_be_shed_again_after_the_grace_period() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        b0.configure(load_balancer_shedding_interval_minutes=1e6)
        await b0.do(lambda manager: manager.shed())
        await own(cluster, b0, bundles[3])
        for minutes, times in ((4, 1), (2, 2)):
            await asyncio.sleep(60 * minutes)
            await b0.do(lambda manager: manager.shed())
            assert [bundle for _, bundle, _ in b0.peers.unloads] == [str(bundles[3])] * times

    shed_scenario(scenario, load_balancer_shedding_grace_period_minutes=5.0)


def test_where_shedding_is_switched_off_it_only_tells() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        for _ in range(2):
            await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        dry, later = b0.told("refuse")
        assert (dry.bundle, dry.reason.code) == (str(bundles[3]), Code.DISABLED)
        assert "loadBalancerSheddingEnabled" in dry.sentence
        assert later.reason.code is Code.RECENTLY_UNLOADED, "for the grace period it is left alone"

    shed_scenario(scenario, load_balancer_shedding_enabled=False)


def test_thresholds_of_the_nodes_hold_for_shedding() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, *_ = brokers
        await b0.do(lambda manager: manager.shed())
        assert not b0.peers.unloads
        assert b0.told("shed")[-1].reason.code is Code.BALANCED
        await setting(cluster, "overloadThreshold", "60")
        await cluster.until(lambda: b0.manager.settings.current.overload == 60, "read")
        await setting(cluster, "comfortLoadThreshold", "5")
        await cluster.until(lambda: b0.manager.settings.current.comfort == 5, "read")
        await b0.do(lambda manager: manager.shed())
        assert b0.told("refuse")[-1].reason.code is Code.NONE_COMFORTABLE
        await setting(cluster, "comfortLoadThreshold", "50")
        await cluster.until(lambda: b0.manager.settings.current.comfort == 50, "read")
        await b0.do(lambda manager: manager.shed())
        assert len(b0.peers.unloads) == 1

    shed_scenario(scenario, cpu=(70, 10, 20))


@pytest.mark.parametrize("what", ["follower", "excluded", "fails"])
def test_nothing_is_unloaded_by_a_follower_for_an_excluded_namespace_or_by_a_failure(what: str) -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        b0, b1, _ = brokers
        if what == "follower":
            await b1.do(lambda manager: manager.shed())
            assert not b1.told("shed")
        elif what == "excluded":
            b0.configure(load_balancer_shedding_excluded_namespaces=(str(NAMESPACE),))
            await b0.do(lambda manager: manager.shed())
            assert b0.told("refuse")[0].reason.code is Code.EXCLUDED_NAMESPACE
        else:
            b0.peers.error = RuntimeError("409 busy")
            await b0.do(lambda manager: manager.shed())
            assert b0.told("refuse")[0].reason.detail == "409 busy"
            b0.peers.error = None
            await b0.do(lambda manager: manager.shed())
            assert len(b0.peers.unloads) == 1, "a failed unload starts no grace period"
            return
        assert not b0.peers.unloads

    shed_scenario(scenario)


# ---- splitting ----


def test_a_broker_splits_its_own_hot_bundle_after_the_report_that_shows_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        b0, b1 = await simply_balanced(cluster, 2)
        await own(cluster, b1, *made)
        b1.carries(traffic(0, rate=30_001), traffic(0, rate=30_000))
        await b1.report()
        assert b1.peers.splits == [(b1.id, str(made[0]), "range_equally_divide", True)]
        assert await cluster.boundaries() == ["0x00000000", "0x40000000", "0x80000000", "0xffffffff"]
        (record,) = b1.told("split")
        assert "current rate in + out 30001 msg/s > limit 30000 msg/s" in record.sentence
        assert not b0.peers.splits
        await b0.do(lambda manager: manager.check_splits())
        assert not b0.peers.splits, "the leader has no part in it"
        b1.stats = {}
        await asyncio.sleep(6)
        assert len((await stored_report(cluster, b1)).bundle_stats) == 3, "a report follows"

    on_virtual_time(scenario)


def test_a_child_that_is_too_large_as_well_is_split_after_the_next_report() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (parent,) = (await cluster.create_namespace(1)).bundles
        child = Bundle.parse("public/default/0x00000000_0x7fffffff")
        (b0,) = await simply_balanced(cluster, 1)
        await own(cluster, b0, parent)
        b0.stats = {str(parent): traffic(0, rate=90_000), str(child): traffic(0, rate=45_000)}
        await b0.report()
        assert [bundle for _, bundle, _, _ in b0.peers.splits] == [str(parent)]
        assert [unload for *_, unload in b0.peers.splits] == [False], "there is no other broker"
        await b0.report()
        assert [bundle for _, bundle, _, _ in b0.peers.splits] == [str(parent), str(child)]

    on_virtual_time(scenario)


def test_where_splitting_is_switched_off_it_only_tells() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        (b0,) = await simply_balanced(cluster, 1)
        await setting(cluster, "autoBundleSplitEnabled", "false")
        await cluster.until(lambda: not b0.manager.settings.current.auto_split, "read")
        await own(cluster, b0, *made)
        b0.carries(traffic(0, topics=1001), NamespaceBundleStats(msg_rate_in=1e6, topics=1))
        await b0.report()
        assert not b0.peers.splits
        assert {record.bundle: record.reason.code for record in b0.told("refuse")} == {
            str(made[0]): Code.DISABLED,
            str(made[1]): Code.FEWER_THAN_TWO_TOPICS,
        }

    on_virtual_time(scenario)


# ---- quotas ----


def test_the_leader_stores_factors_and_quotas_and_the_next_broker_begins_with_them() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        fixed = ResourceQuota(msg_rate_in=1, msg_rate_out=1, bandwidth_in=1, bandwidth_out=1, memory=1, dynamic=False)
        await cluster.admin.put(f"{RESOURCE_QUOTA_ROOT}/{made[1]}", msgspec.json.encode(fixed))
        default = ResourceQuota(msg_rate_in=8, msg_rate_out=8, bandwidth_in=1e4, bandwidth_out=1e4, memory=8)
        await cluster.admin.put(DEFAULT_QUOTA_PATH, msgspec.json.encode(default))
        b0, b1 = brokers = await simply_balanced(cluster, 2)
        await own(cluster, b0, *made)
        b0.carries(traffic(1e6, rate=1808), traffic(1e6, rate=5000))
        await asyncio.sleep(180)
        await b0.report()
        await simply_settled(brokers)
        await b1.do(lambda manager: manager.write_resource_quotas())
        assert not await cluster.admin.exists(f"{RESOURCE_QUOTA_ROOT}/{made[0]}"), "a follower writes nothing"
        await b0.do(lambda manager: manager.write_resource_quotas())
        record = await cluster.admin.get(f"{RESOURCE_QUOTA_ROOT}/{made[0]}")
        assert record is not None
        quota = msgspec.json.decode(record.value, type=ResourceQuota)
        assert 8 < quota.msg_rate_in < 1808
        record = await cluster.admin.get(f"{RESOURCE_QUOTA_ROOT}/{made[1]}")
        assert record is not None
        assert msgspec.json.decode(record.value, type=ResourceQuota) == fixed
        factor = await cluster.admin.get(SETTING_NODES["loadFactorCPU"])
        assert factor is not None
        assert msgspec.json.decode(factor.value) == {"loadFactorCPU": "0.025"}
        await setting(cluster, "loadFactorMemory", "33.5")
        b2 = await SimplyBalanced(cluster, 8082).start(load_manager_class_name="SimpleLoadManagerImpl")
        assert b2.manager.load_data.quotas.memory_factor == 33.5
        assert b2.manager.load_data.quotas.average == default

    on_virtual_time(scenario)


def test_the_rank_and_what_quotas_allot_are_shown_to_prometheus() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[SimplyBalanced], bundles: list[Bundle]) -> None:
        def shown(name: str) -> float | None:
            labels = {"cluster": b0.broker.config.current.cluster_name, "broker": b0.id}
            return b0.manager.metrics.registry.get_sample_value(name, labels)

        b0, *_ = brokers
        assert shown("pulsar_lb_load_rank") == 90
        allotted = (await stored_report(cluster, b0)).allocated_cpu
        assert shown("pulsar_lb_quota_pct_cpu") == pytest.approx(min(100.0, allotted), abs=1)
        assert shown("pulsar_lb_quota_pct_memory") == 0, "no limit is known"

    shed_scenario(scenario)
