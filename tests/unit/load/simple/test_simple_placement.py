"""The simple load manager's ranking and placement: worked examples of every branch."""

import random
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.filters.outcome import FilterOutcome, PlacementRequest, narrowed
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import (
    INITIAL_QUOTA,
    NamespaceBundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemResourceUsage,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.placement import SimpleMemory, rank, select_broker
from pulsar_barycenter.load.simple.quotas import (
    Quotas,
    QuotaTable,
    average_to_write,
    is_worth_writing,
    quotas_to_write,
    smoothed_quota,
    update_quotas,
)
from pulsar_barycenter.load.simple.ranking import Ranking, is_less_loaded, least_loaded, room
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings, SimpleStrategy
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from support.load_cases import bundle_name

NEW = "other/ns/0x00000000_0xffffffff"
WIDE = ResourceUsage(0, 1e9)


def broker(cpu: float, bundles: int = 1, *, first: int = 0, memory: float = 1e6, **more: Any) -> LoadReport:
    """A broker of one core at `cpu` percent, the rest ample; each of its bundles has a namespace of its own."""
    return complete(
        LoadReport(
            timestamp=1,
            system_resource_usage=SystemResourceUsage(
                cpu=ResourceUsage(cpu, 100),
                memory=ResourceUsage(0, memory),
                direct_memory=ResourceUsage(0, 100),
                bandwidth_in=WIDE,
                bandwidth_out=WIDE,
            ),
            bundle_stats={
                bundle_name(first + index, f"t/n{first + index}"): NamespaceBundleStats() for index in range(bundles)
            },
            **more,
        )
    )


class Leader:
    """Places bundles one after the other."""

    def __init__(self, reports: dict[str, LoadReport], *, quota: ResourceQuota | None = None, **settings: Any) -> None:
        self.reports = reports
        self.settings = SimpleSettings(**settings)
        self.quotas = Quotas(default=quota or ResourceQuota(msg_rate_in=1, memory=1), cpu_factor=1.0)
        self.memory = SimpleMemory()
        self.ranking: Ranking
        self.report()

    def report(self) -> None:
        self.ranking, self.memory = rank(build_simple_snapshot(self.reports), self.quotas, self.memory, self.settings)

    def place(self, bundle: str = NEW, **more: Any) -> Any:
        placement, self.ranking, self.memory = select_broker(
            self.ranking,
            PlacementRequest(bundle),
            self.settings,
            self.quotas,
            more.pop("live", self.reports),
            random.Random(1),
            self.memory,
            **more,
        )
        return placement


def codes(placement: Any) -> dict[str, Code]:
    return {each.name: each.code for each in placement.reason.alternatives}


def test_an_underloaded_broker_is_filled_before_an_idle_one_is_taken_into_use() -> None:
    leader = Leader({"a": broker(30), "b": broker(60, first=5), "idle": broker(0, 0)})
    placement = leader.place()
    assert (placement.broker, placement.reason.code) == ("a", Code.LEAST_LOADED)
    assert codes(placement) == {"b": Code.MORE_LOADED, "idle": Code.KEPT_IDLE}
    assert "load of a 30 % <= underload threshold 50 %" in render(placement.reason)
    leader = Leader({"a": broker(55), "b": broker(60, first=5), "idle": broker(0, 0), "idle2": broker(0, 0)})
    placement = leader.place()
    assert (placement.broker, placement.reason.code) == ("idle", Code.IDLE_BROKER)
    assert codes(placement)["idle2"] is Code.ANOTHER_IDLE
    assert "load of a 55 % > underload threshold 50 %" in render(placement.reason)


def test_without_an_idle_broker_loads_are_kept_even() -> None:
    leader = Leader({"a": broker(70), "b": broker(63, first=5)})
    assert leader.place().broker == "b"


def test_overloaded_brokers_give_way_to_the_one_with_the_most_room() -> None:
    """Room: 100 bundles of 1 msg/s at 1 % of a core each on both; a is free by 14 %, b by 12 %."""
    leader = Leader({"a": broker(86), "b": broker(88, first=5)}, strategy=SimpleStrategy.LEAST_LOADED_SERVER)
    placement = leader.place()
    assert (placement.broker, placement.reason.code) == ("a", Code.MOST_ROOM)
    assert codes(placement) == {"b": Code.LESS_ROOM}
    assert "free capacity 12 bundles < capacity of a 14 bundles" in render(placement.reason)


def test_full_brokers_take_turns() -> None:
    leader = Leader({name: broker(100, first=10 * place) for place, name in enumerate("abc")})
    chosen = [leader.place(f"other/n{index}/0x00000000_0xffffffff") for index in range(4)]
    assert [placement.broker for placement in chosen] == ["a", "b", "c", "a"]
    assert {placement.reason.code for placement in chosen} == {Code.ALL_FULL}
    assert leader.memory.cursor == 4


def test_the_cursor_returns_to_its_start() -> None:
    leader = Leader({name: broker(100, first=10 * place) for place, name in enumerate("ab")})
    leader.memory = SimpleMemory(cursor=999_999)
    leader.place()
    assert leader.memory.cursor == 0


def test_by_message_rate_nobody_is_too_full() -> None:
    """a is allotted 2 msg/s, b 1 msg/s; both are at 100 % CPU."""
    leader = Leader({"a": broker(100, 2), "b": broker(100, 1, first=5)}, strategy=SimpleStrategy.LEAST_MSG_PER_SECOND)
    placement = leader.place()
    assert (placement.broker, placement.reason.code) == ("b", Code.LEAST_MESSAGE_RATE)
    assert "message rate 2 msg/s > rate of b 1 msg/s" in render(placement.reason)
    leader.place("other/n2/0x00000000_0xffffffff")
    assert leader.ranking.message_rate.tolist() == [2, 3], "equal rates: the first in line, by the last reports"


def test_a_placed_bundle_counts_until_its_broker_reports_it() -> None:
    quota = ResourceQuota(msg_rate_in=20, memory=1)
    leader = Leader({"a": broker(40), "b": broker(45, first=5)}, quota=quota)
    assert leader.place().broker == "a"
    assert leader.ranking.load.tolist() == [60, 45]
    assert leader.place().reason.code is Code.PREALLOCATED, "asked again"
    assert leader.place("other/n2/0x00000000_0xffffffff").broker == "b"
    leader.report()
    assert leader.ranking.load.tolist() == [60, 65], "reports without them"
    leader.reports["a"] = complete(LoadReport(timestamp=2, bundle_stats={NEW: NamespaceBundleStats()}))
    del leader.reports["b"]
    leader.report()
    assert not leader.memory.preallocated, "one arrived, the other's broker left"


def test_a_bundle_still_in_a_report_is_taken_off_that_broker_before_it_is_placed() -> None:
    """a's only bundle is placed again: a counts as idle, and ends with its 10 % used and 50 % in transition."""
    moving, other = bundle_name(0, "t/x"), bundle_name(1, "t/x")
    reports = {"a": broker(10, 0), "b": broker(55, 0)}
    held = {"a": moving, "b": other}
    reports = {
        name: complete(
            LoadReport(
                system_resource_usage=report.system_resource_usage, bundle_stats={held[name]: NamespaceBundleStats()}
            )
        )
        for name, report in reports.items()
    }
    leader = Leader(reports, quota=ResourceQuota(msg_rate_in=50, memory=1))
    assert leader.ranking.load.tolist() == [50, 55]
    placement = leader.place(moving)
    assert (placement.broker, placement.reason.code) == ("a", Code.IDLE_BROKER)
    assert leader.ranking.load.tolist() == [60, 55]


def test_a_bundle_is_taken_off_its_broker_once_however_often_it_is_placed() -> None:
    """The broker it was placed on is gone before the next reports, so it is placed again."""
    moving = bundle_name(0, "t/n0")
    leader = Leader({"a": broker(10, 2)}, quota=ResourceQuota(msg_rate_in=30, memory=1))
    for _ in range(2):
        leader.memory = SimpleMemory()
        leader.place(moving)
    assert leader.ranking.allocated[0].tolist() == [30]
    assert leader.ranking.loaded.tolist() == [1]


def test_policies_even_distribution_and_registration_narrow_the_candidates() -> None:
    """Policies exclude a, b has more bundles of the namespace, c is no longer registered."""
    taken = bundle_name(0, "other/ns")
    reports = {name: broker(10, first=10 * place) for place, name in enumerate("abcd")}
    reports["b"] = complete(
        LoadReport(
            system_resource_usage=reports["b"].system_resource_usage, bundle_stats={taken: NamespaceBundleStats()}
        )
    )
    leader = Leader(reports)

    def not_a(snapshot: LoadSnapshot, request: PlacementRequest) -> FilterOutcome:
        kept = np.array([name != "a" for name in snapshot.brokers.names], bool)
        return narrowed(np.ones_like(kept), kept, Code.OTHER_LOAD_MANAGER)

    placement = leader.place(live={"a", "b", "d"}, policies=not_a)
    assert placement.broker == "d"
    assert codes(placement) == {
        "a": Code.OTHER_LOAD_MANAGER,
        "b": Code.NOT_FEWEST_BUNDLES,
        "c": Code.NOT_LIVE,
    }
    nobody = leader.place("other/n2/0x00000000_0xffffffff", live=())
    assert (nobody.broker, nobody.reason.code) == (None, Code.NO_CANDIDATE)
    assert leader.memory.cursor == 1, "only a placement turns it"


def test_a_broker_that_does_not_serve_persistent_topics_is_no_candidate() -> None:
    leader = Leader({"a": broker(10, persistent_topics_enabled=False), "b": broker(80, first=5)})
    assert leader.place().broker == "b"


def test_the_weighted_draw_goes_by_room_times_the_free_share_squared() -> None:
    """Room 100 each: a, half free, weighs 25, b, full, nothing."""
    leader = Leader({"a": broker(50), "b": broker(100, first=5)}, strategy=SimpleStrategy.WEIGHTED_RANDOM_SELECTION)
    assert leader.ranking.rank.tolist() == [25, 0]
    placement = leader.place()
    assert (placement.broker, placement.reason.code) == ("a", Code.WEIGHTED_DRAW)
    assert codes(placement) == {"b": Code.NOT_DRAWN}
    assert not leader.memory.preallocated
    full = Leader({"b": broker(100, first=5)}, strategy=SimpleStrategy.WEIGHTED_RANDOM_SELECTION)
    assert full.place().reason.code is Code.NO_ROOM_LEFT


def test_loads_within_five_points_are_told_apart_by_other_resources() -> None:
    """a 50 % CPU; b 54 % CPU and 10 % memory less; 5 points exactly are no difference."""
    leader = Leader({"a": broker(50, memory=10), "b": broker(54, memory=1e6, first=5), "c": broker(55, first=9)})
    ranking = leader.ranking
    assert ranking.estimated[1].round(3).tolist() == [10, 0, 0]
    assert is_less_loaded(ranking, np.array([1, 2]), 0).tolist() == [True, True]
    assert is_less_loaded(ranking, np.array([0]), 1).tolist() == [False]
    assert least_loaded(ranking, np.array([0, 1, 2])) == 1
    assert least_loaded(ranking, np.array([0, 2, 1])) == 1


def test_room_is_set_by_the_resource_that_is_used_up_first() -> None:
    """8 cores at 0.025 % and 160 msg/s a bundle: 200; memory 2096 / 80: 26; bandwidth 1e7 kbit/s: thousands."""
    limits = np.array([[800.0], [2096.0], [256.0], [1e7], [1e7]])
    assert room(limits, INITIAL_QUOTA, 0.025).tolist() == [26]
    assert room(limits, ResourceQuota(msg_rate_in=160, memory=1, bandwidth_in=1, bandwidth_out=1), 0.025) == [200]
    assert room(-limits, INITIAL_QUOTA, 0.025).tolist() == [0]


def test_a_quota_goes_up_in_half_an_hour_and_down_in_a_day() -> None:
    old = ResourceQuota(msg_rate_in=40, msg_rate_out=40, bandwidth_in=1e6, bandwidth_out=20_000, memory=80)
    now = np.array([100.0, 10.0, 9e9, 0.0, 1e9])
    moved = smoothed_quota(old, now, 180_000)
    assert (moved.msg_rate_in, moved.msg_rate_out) == (46, 40 - 30 / 480)
    assert moved.bandwidth_in == 1e6, "no more than the limit"
    assert moved.bandwidth_out == pytest.approx(20_000 - 10_000 / 480), "toward the least"
    assert moved.memory == 80 + 120 / 10
    fixed = ResourceQuota(msg_rate_in=40, dynamic=False)
    assert smoothed_quota(fixed, now, 180_000) is fixed


def test_factors_and_the_average_are_learned_only_from_enough() -> None:
    def after(bundles: int, rate: float) -> Quotas:
        stats = {bundle_name(index): NamespaceBundleStats(msg_rate_in=rate / bundles) for index in range(bundles)}
        report = complete(
            LoadReport(
                timestamp=1_800_000,
                bundle_stats=stats,
                system_resource_usage=SystemResourceUsage(cpu=ResourceUsage(90, 100), memory=ResourceUsage(1240, 4000)),
            )
        )
        return update_quotas(build_simple_snapshot({"a": report}), Quotas(updated_at_ms=0))

    learned = after(31, 3100)
    assert learned.cpu_factor == 90 / 3100
    assert learned.memory_factor == 40
    assert learned.average.msg_rate_in == 100
    few = after(30, 3100)
    assert (few.cpu_factor, few.memory_factor, few.average) == (0.025, 25, INITIAL_QUOTA)
    slow = after(31, 1000)
    assert (slow.cpu_factor, slow.memory_factor) == (0.025, 25)
    assert slow.average != INITIAL_QUOTA


def test_a_first_update_replaces_quotas_and_one_without_reports_does_nothing() -> None:
    report = complete(LoadReport(timestamp=10**12, bundle_stats={"t/n/x": NamespaceBundleStats(msg_rate_in=7)}))
    quotas = update_quotas(build_simple_snapshot({"a": report}), Quotas())
    assert quotas.of("t/n/x").msg_rate_in == 7
    assert update_quotas(build_simple_snapshot({}), quotas) is quotas
    assert quotas.of("t/n/other") == INITIAL_QUOTA


def test_what_is_written_differs_enough_and_bandwidth_in_is_compared_with_the_old_out() -> None:
    old = np.array([[40.0] * 4, [120.0] * 4, [100_000.0] * 4, [100_000.0] * 4, [80.0] * 4])
    new = old.copy()
    new[0, 1] = 45
    new[4, 2] = 81.9
    new[2, 3] = 111_000
    dynamic = np.ones(4, bool)
    assert is_worth_writing(old, new, dynamic).tolist() == [False, True, False, True]
    assert not is_worth_writing(old, new, ~dynamic).any()
    old[3] = 300_000.0
    new[3] = 300_000.0
    assert is_worth_writing(old, new, dynamic).all(), "in is 100 000, out was 300 000"


def test_the_leader_writes_the_default_and_the_bundles_that_changed() -> None:
    like_out = ResourceQuota(msg_rate_in=40, msg_rate_out=40, bandwidth_in=1e5, bandwidth_out=1e5, memory=80)
    grown = ResourceQuota(msg_rate_in=90, msg_rate_out=40, bandwidth_in=1e5, bandwidth_out=1e5, memory=80)
    quotas = Quotas(bundles=QuotaTable.of({"t/n/a": like_out, "t/n/b": grown}), average=like_out)
    stored = {"t/n/a": like_out, "t/n/b": like_out}
    assert list(quotas_to_write(quotas.bundles, stored.get, like_out)) == [("t/n/b", grown)]
    assert [name for name, _ in quotas_to_write(quotas.bundles, stored.get, None)] == ["t/n/b"]
    assert (average_to_write(quotas, like_out), average_to_write(quotas, None)) == (None, quotas.average)


def test_settings_come_from_nodes_before_the_configuration() -> None:
    config = with_overrides(BrokerConfig(), {"loadBalancerBrokerComfortLoadLevelPercentage": "40"})
    plain = SimpleSettings.of(config)
    assert (plain.strategy, plain.overload, plain.underload, plain.comfort) == ("leastLoadedServer", 85, 50, 40)
    assert plain.is_centralized
    stored = {
        "loadBalancerStrategy": "weightedRandomSelection",
        "overloadThreshold": "90.9",
        "comfortLoadThreshold": "none",
        "autoBundleSplitEnabled": "FALSE",
    }
    found = SimpleSettings.of(config, stored)
    assert (found.overload, found.comfort, found.auto_split) == (90, 40, False)
    assert not found.is_centralized
    assert len(found.warnings) == 1
    assert "comfort_load_threshold holds 'none', which is not a number; 40 is used" in found.warnings[0]


@pytest.mark.parametrize("name", ["roundRobin", "", "LeastLoadedServer"])
def test_an_unknown_strategy_means_the_weighted_draw_and_a_loud_doubt(name: str) -> None:
    settings = SimpleSettings.of(BrokerConfig(), {"loadBalancerStrategy": name})
    assert settings.strategy is SimpleStrategy.WEIGHTED_RANDOM_SELECTION
    assert "leastMsgPerSecond" in settings.warnings[0]
