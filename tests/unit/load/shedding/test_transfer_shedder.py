"""The TransferShedder by hand: what moves where, what stops it, to the exact comparison, and its reasons."""

from dataclasses import replace

import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.extensible_reports import BrokerLookupData, BundleLoadData, TopBundlesLoadData
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.transfer_plan import TransferPlan, TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import NAME, TransferMemory, TransferShedder
from pulsar_barycenter.load.snapshot.load_snapshot import Integers
from support import load_cases
from support.load_cases import Cluster
from support.transfer_cases import NOW_MS, TransferRound, unload_reason

MEGA = 1e6
AT_ONCE = TransferShedderSettings(hit_threshold=0)


def bundle_name(number: int, namespace: str = "t/a") -> str:
    return load_cases.bundle_name(number, namespace)


def shed(seen: TransferRound, settings: TransferShedderSettings = AT_ONCE, **unloaded_at_ms: int) -> TransferPlan:
    return TransferShedder(settings).decide(seen.snapshot(), TransferMemory(0, unloaded_at_ms))[0]


def moves(plan: TransferPlan) -> list[tuple[str, str, str | None]]:
    return [(unload.bundle, unload.source, unload.destination) for unload in plan]


def uneven(*traffics: float) -> TransferRound:
    """Return b1 at 80 % that lists bundles of those MB/s of 800, b2 at 40 %, and b3 at 10 % that carries 100 MB/s."""
    seen = TransferRound().add("b1", 0.8, *(traffic * MEGA for traffic in traffics), throughput=800 * MEGA)
    seen.add("b2", 0.4, 100 * MEGA, 300 * MEGA)
    return seen.add("b3", 0.1, 20 * MEGA, 80 * MEGA, throughput=100 * MEGA)


def test_the_worked_example_moves_three_bundles_and_exchanges_a_fourth() -> None:
    """350 of 800 MB/s may leave; 3 × 90 fit, a fourth comes with 20 MB/s in return, a fifth finds no return."""
    plan, memory = TransferShedder(AT_ONCE).decide(uneven(90, 90, 90, 90, 90).snapshot(), TransferMemory())
    assert moves(plan) == [
        *[(bundle_name(number), "b1", "b3") for number in (0, 1, 2)],
        (bundle_name(7), "b3", "b1"),
        (bundle_name(3), "b1", "b3"),
    ]
    codes = [unload.reason.code for unload in plan]
    assert codes == [Code.FITTING_TOP_BUNDLE] * 3 + [Code.GIVEN_IN_EXCHANGE, Code.EXCHANGED]
    assert plan.verdicts.turns[0].target == pytest.approx(350 * MEGA)
    assert plan.verdicts.statistics.deviation == pytest.approx(0.2867, abs=1e-4)
    assert plan.usage_spread == (pytest.approx(1.3 / 3), plan.verdicts.statistics.deviation)
    assert len(plan.verdicts.turns) == 1
    assert memory == TransferMemory()
    assert isinstance(plan, ShedPlan)
    assert plan.strategy == NAME


def test_reasons_name_the_numbers_and_the_settings() -> None:
    plan = shed(uneven(90, 90, 90, 90, 90, 90))
    assert plan.reason.code is Code.SPREAD_TOO_WIDE
    assert "standard deviation 28.67 % > target 25 %" in render(plan.reason)
    assert "333.8 MiB/s may leave to b3 with usage 10 %" in render(plan.reason)
    assert plan.reason.settings == ("loadBalancerBrokerLoadTargetStd",)
    first, given = plan.unload(0), plan.unload(3)
    assert "selected traffic with this bundle 85.83 MiB/s <= traffic that may leave 333.8 MiB/s" in render(first.reason)
    assert first.reason.cause == plan.broker_reason(0)
    assert f"traffic 19.07 MiB/s, in exchange for {bundle_name(3)}" in render(given.reason)
    assert [plan.broker_reason(row).code for row in (1, 2)] == [Code.NOT_THE_GREATEST, Code.LESSER_OF_PAIR]
    refused = {refusal.subject: refusal.reason.code for refusal in plan.refusals()}
    assert refused == {"b2": Code.NOT_THE_GREATEST, bundle_name(4): Code.DOES_NOT_FIT}


def test_by_the_pipelines_windows_it_weighs_what_bundles_carried_for_a_while() -> None:
    """The last reports caught bundle 0 in a lull and bundle 1 in a burst: by them the first is the light one.

    By its windows b1 carries 300 MB/s, half the gap of 70 of 80 points is 131: bundle 1 fits, bundle 0 does not.
    """
    seen = TransferRound().add("b1", 0.8, 10 * MEGA, 290 * MEGA).add("b2", 0.1, 1 * MEGA)
    by_newest = shed(seen)
    assert moves(by_newest) == [(bundle_name(0), "b1", "b2")]
    snapshot = seen.by_windows({bundle_name(0): 200 * MEGA, bundle_name(1): 100 * MEGA})
    plan, _ = TransferShedder(AT_ONCE).decide(snapshot, TransferMemory())
    assert moves(plan) == [(bundle_name(1), "b1", "b2")]
    assert plan.verdicts.turns[0].target == pytest.approx(131.25 * MEGA)
    assert plan.reason.upon == "the pipeline's short-term traffic windows"
    assert "based on the pipeline's short-term traffic windows" in render(plan.unload(0).reason)
    assert by_newest.reason.upon == "", "as in Pulsar"


def test_of_a_bundle_without_windows_the_reason_says_so() -> None:
    seen = TransferRound().add("b1", 0.8, 10 * MEGA, 290 * MEGA).add("b2", 0.1, 1 * MEGA)
    plan, _ = TransferShedder(AT_ONCE).decide(seen.by_windows({bundle_name(1): 290 * MEGA}), TransferMemory())
    assert moves(plan) == [(bundle_name(0), "b1", "b2")]
    assert plan.unload(0).reason.flags == ("it has no short-term window, so its newest traffic values count",)


def test_it_acts_in_the_fourth_cycle_in_a_row_and_starts_anew_then() -> None:
    seen, memory, settings = uneven(90, 90, 90).snapshot(), TransferMemory(), TransferShedderSettings()
    counted = []
    for _ in range(5):
        plan, memory = TransferShedder(settings).decide(seen, memory)
        counted.append((len(plan), memory.hits, plan.reason.code))
    waiting = Code.CONDITION_TOO_NEW
    assert counted == [
        (0, 1, waiting),
        (0, 2, waiting),
        (0, 3, waiting),
        (2, 0, Code.SPREAD_TOO_WIDE),
        (0, 1, waiting),
    ]
    assert "cycles in a row 1 <= threshold 3" in render(plan.reason)
    even = TransferRound().add("b1", 0.4, MEGA, MEGA).add("b2", 0.4, MEGA, MEGA)
    plan, memory = TransferShedder(settings).decide(even.snapshot(), TransferMemory(hits=3))
    assert (memory.hits, plan.reason.code, unload_reason(plan)) == (0, Code.BALANCED, "HitCount")


def test_a_broker_keeps_its_last_top_bundle_and_a_sole_one_stays() -> None:
    plan = shed(uneven(10, 10))
    assert moves(plan) == [(bundle_name(0), "b1", "b3")]
    assert {one.subject: one.reason.code for one in plan.refusals()}[bundle_name(1)] is Code.LAST_TOP_BUNDLE
    plan = shed(uneven(10))
    assert plan.verdicts.turns[0].outcome is Code.TOO_FEW_BUNDLES


def test_bundles_that_may_not_move_are_passed_over() -> None:
    """One is not its broker's, one excluded, one moved a moment ago, one refused, one carries nothing: two are left."""
    seen = uneven(1, 2, 3, 4, 0, 6, 7)
    names = [bundle.bundle_name for bundle in seen.tops["b1"].top_bundles_load_data]
    seen.owners[names[0]] = "b2"
    seen.recently_unloaded = {names[2]}
    seen.tops["b1"] = replace_bundle(seen, names[1], bundle_name(1, "t/kept"))
    seen.owners[bundle_name(1, "t/kept")] = "b1"
    asked: list[tuple[str, str, str]] = []
    snapshot = seen.snapshot()

    def may_transfer(rows: Integers, source: int, destination: int) -> list[bool]:
        names_of, listed = snapshot.brokers.names, [snapshot.bundles.names[row] for row in rows]
        asked.extend((name, names_of[source], names_of[destination]) for name in listed)
        return [name != names[3] for name in listed]

    settings = replace(AT_ONCE, excluded_namespaces={"t/kept"}, maximum=1)
    plan, _ = TransferShedder(settings, lambda _snapshot: may_transfer).decide(snapshot, TransferMemory())
    assert [unload.bundle for unload in plan] == names[5:]
    assert asked == [(name, "b1", "b3") for name in names[3:]]
    assert [(one.subject, one.reason.code) for one in plan.refusals() if one.subject.startswith("t/")] == [
        (names[0], Code.NOT_OWNED),
        (bundle_name(1, "t/kept"), Code.EXCLUDED_NAMESPACE),
        (names[2], Code.RECENTLY_UNLOADED),
        (names[3], Code.DESTINATION_REFUSES),
        (names[4], Code.CARRIES_NOTHING),
    ]


def replace_bundle(seen: TransferRound, old: str, new: str) -> TopBundlesLoadData:
    listed = seen.tops["b1"].top_bundles_load_data
    return TopBundlesLoadData(
        tuple(BundleLoadData(new if one.bundle_name == old else one.bundle_name, one.stats) for one in listed)
    )


def test_without_transfer_nobody_is_told_where_to_go_and_nothing_is_exchanged() -> None:
    plan = shed(uneven(90, 90, 90, 90, 90), replace(AT_ONCE, transfer=False))
    assert moves(plan) == [(bundle_name(number), "b1", None) for number in (0, 1, 2)]
    assert plan.destinations() == {}


def test_what_comes_back_counts_only_if_asked_for() -> None:
    """With the 20 MB/s subtracted 340 have left, so that the estimate for b1 is 46 % in place of 44 %."""
    plain = shed(uneven(90, 90, 90, 90, 90))
    counting = shed(uneven(90, 90, 90, 90, 90), replace(AT_ONCE, count_exchanged=True))
    assert plain.verdicts.turns[0].before == pytest.approx(360 * MEGA)
    assert counting.verdicts.turns[0].before == pytest.approx(340 * MEGA)


def test_an_exchange_has_to_leave_less_than_three_quarters_and_no_less_than_the_taker_gets() -> None:
    """b1 carries 100 of which 50 may leave: 60 for 35 would leave exactly 75, and 60 for 30 leaves 70 of 100."""

    def exchanged(goes: float, carried: float, *back: float) -> list[float]:
        seen = TransferRound().add("b1", 0.8, goes, goes, throughput=100.0).add("b2", 0.0, *back, throughput=carried)
        plan = shed(seen)
        return [float(plan.snapshot.bundles.latest.throughput[row]) for row in plan.rows]

    assert exchanged(60, 40, 35) == []
    assert exchanged(60, 40, 34) == [34, 60]
    # 70 stay and 70 are got; with 29 the taker would have 71
    assert exchanged(60, 40, 30) == [30, 60]
    assert exchanged(60, 40, 29) == []
    assert exchanged(60, 40, 10, 20) == [10, 20, 60]
    # with the first one back b1 would carry what it does now, so the second is tried
    assert exchanged(60, 40, 60, 30) == [30, 60]
    assert exchanged(90, 0, 5, 85, 40) == [5, 40, 90]
    # what carries nothing is not offered
    assert exchanged(60, 40, 0, 30) == [30, 60]
    # with the first one back b2 would carry what b1 does now
    assert exchanged(90, 25, 15, 55) == [55, 90]


def test_an_underloaded_broker_is_served_though_usages_are_close() -> None:
    """With a target of 25 % a broker below 12.5 % of the mean usage, or of the greatest throughput, is underloaded."""
    seen = TransferRound().add("b1", 0.15, throughput_ema=37.4).add("b2", 0.3, 50.0, 50.0, 200.0)
    assert shed(seen).reason.code is Code.FAR_ABOVE_LEAST
    assert unload_reason(shed(seen)) == "Underloaded"
    seen.add("b1", 0.15, throughput_ema=37.5)
    assert shed(seen).reason.code is Code.BALANCED


def test_an_overloaded_broker_gives_though_usages_are_close() -> None:
    """Eight at 60 %, one at 90 %: a deviation of 9 %, but the one is above the limit and 25 points above the mean."""
    seen = TransferRound()
    for number in range(8):
        seen.add(f"b{number}", 0.6, 50.0, 50.0)
    plan = shed(seen.add("hot", 0.9, 10.0, 50.0, 50.0))
    assert (plan.reason.code, unload_reason(plan)) == (Code.ABOVE_LIMIT, "Overloaded")
    assert [unload.source for unload in plan] == ["hot"]
    assert len(shed(seen, replace(AT_ONCE, overload_limit=0.9))) == 0
    assert len(shed(seen, replace(AT_ONCE, target_deviation=0.2667))) == 0


def test_load_data_as_old_as_the_limit_still_count() -> None:
    seen = uneven(90, 90, 90)
    seen.add("b4", 0.4, updated_at=NOW_MS - 1_800_000)
    assert shed(seen).verdicts.statistics.count == 4
    seen.add("b4", 0.4, updated_at=NOW_MS - 1_800_001)
    plan = shed(seen)
    assert plan.verdicts.statistics.count == 3
    assert "too old, so the mean does not include it" in render(plan.broker_reason(3))
    old = TransferRound().add("b1", 0.8, 1.0, 1.0, updated_at=0).add("b2", 0.1, updated_at=0)
    assert (shed(old).reason.code, unload_reason(shed(old))) == (Code.OUTDATED_LOAD_DATA, "OutDatedData")
    assert shed(old).broker_reason(1).code is Code.OUTDATED_LOAD_DATA


def test_a_broker_that_gave_bundles_is_left_to_settle() -> None:
    """Its load has to be measured three minutes after; then it is forgotten that it gave any."""
    seen = uneven(90, 90, 90)
    memory = TransferMemory(2).after_unload("b2", NOW_MS - 179_999).after_unload("gone", 1)
    plan, after = TransferShedder(AT_ONCE).decide(seen.snapshot(), memory)
    assert (len(plan), plan.reason.code, unload_reason(plan)) == (0, Code.COOLING_DOWN, "CoolDown")
    assert plan.usage_spread is None
    assert (
        "b2: the load of a broker was measured too soon after bundles left it "
        "(time from unload to load report 179.999 s < minimum 180 s)"
    ) in render(plan.reason)
    assert after == TransferMemory(2, {"b2": NOW_MS - 179_999})
    plan, after = TransferShedder(AT_ONCE).decide(seen.snapshot(), memory.after_unload("b2", NOW_MS - 180_000))
    assert len(plan)
    assert after == TransferMemory()


def test_nothing_is_done_while_a_registered_broker_is_silent() -> None:
    seen = uneven(90, 90, 90)
    seen.lookups["new"] = BrokerLookupData()
    plan = shed(seen)
    assert (plan.reason.code, plan.reason.subject, unload_reason(plan)) == (Code.NO_LOAD_DATA, "new", "NoLoadData")
    assert shed(TransferRound()).reason.code is Code.NO_BROKERS
    assert unload_reason(shed(TransferRound())) == "NoBrokers"


def test_no_more_brokers_give_than_may() -> None:
    seen = TransferRound()
    for number in range(4):
        seen.add(f"full{number}", 0.9, 1.0, 1.0, 1.0).add(f"idle{number}", 0.1, throughput=1.0)
    plan = shed(seen, replace(AT_ONCE, maximum=2))
    assert {unload.source for unload in plan} == {"full3", "full2"}
    assert {unload.destination for unload in plan} == {"idle0", "idle1"}
    assert plan.broker_reason(0).code is Code.ENOUGH_BROKERS_SHED


def test_a_broker_without_a_list_counts_as_one_without_data_and_the_next_has_its_turn() -> None:
    seen = uneven(90, 90)
    del seen.tops["b1"]
    plan = shed(seen)
    assert [turn.outcome for turn in plan.verdicts.turns] == [Code.NO_TOP_BUNDLES, Code.SPREAD_TOO_WIDE]
    assert {unload.source for unload in plan} == {"b2"}
    del seen.tops["b2"]
    assert unload_reason(shed(seen)) == "NoLoadData"


def test_a_broker_without_usage_is_left_alone() -> None:
    """Its traffic divided by its usage is not a number; nothing leaves, for any throughputs."""
    seen = TransferRound().add("b1", 0.0).add("b2", 0.0, 5.0, 5.0, 5.0)
    plan = shed(seen)
    assert (len(plan), plan.reason.code) == (0, Code.NOTHING_FITS)


def test_other_load_managers_snapshots_are_refused() -> None:
    with pytest.raises(ValueError, match="build_extensible_snapshot"):
        TransferShedder(AT_ONCE).decide(Cluster().add("b").snapshot(), TransferMemory())


def test_settings_come_from_the_configuration() -> None:
    assert TransferShedderSettings.of(BrokerConfig()) == replace(
        TransferShedderSettings(), excluded_namespaces=frozenset()
    )
    config = BrokerConfig(
        load_balancer_broker_load_target_std=0.1,
        load_balancer_broker_overloaded_threshold_percentage=70,
        load_balancer_shedding_condition_hit_count_threshold=5,
        load_balancer_max_number_of_broker_shedding_per_cycle=7,
        load_balance_shedding_delay_in_seconds=2,
        load_balancer_broker_load_data_ttl_in_seconds=3,
        load_balancer_transfer_enabled=False,
        load_balancer_shedding_excluded_namespaces=("t/a",),
    )
    assert TransferShedderSettings.of(config) == TransferShedderSettings(
        0.1, 0.7, 5, 7, 2_000, 3_000, False, frozenset({"t/a"})
    )


def test_figures_beyond_all_reason_do_no_harm() -> None:
    seen = TransferRound().add("b1", 1e300, 1e308, 1e308, 1e308, throughput=1.7e308).add("b2", 0.1, 1e308, 1e308)
    seen.add("b3", 1e-300, 1e308, throughput=1.7e308)
    assert all(render(refusal.reason) for refusal in shed(seen).refusals())


def test_what_may_leave_may_leave_to_the_last_byte() -> None:
    """Half of 100 bytes/s may leave: 50 does, 50.001 does not."""
    for traffic, count in ((50.0, 1), (50.001, 0)):
        seen = TransferRound().add("b1", 0.8, traffic, 60.0, throughput=100.0).add("b2", 0.0, throughput=0.0)
        assert len(shed(seen)) == count


def test_a_usage_is_never_estimated_below_0() -> None:
    """150 of what is reported as 100 bytes/s leave b1; its 80 % become 0 and the 0 % of b2 120 %, not -40 % and so on.

    The mean is 45 % throughout, the squares sum to 0 + 1.44 + 2 × 0.25 then.
    """
    seen = TransferRound().add("b1", 0.8, 150.0, 160.0, throughput=100.0).add("b2", 0.0, 100.0, throughput=0.0)
    turns = shed(seen.add("b3", 0.5).add("b4", 0.5)).verdicts.turns
    assert turns[1].imbalance.deviation == pytest.approx((1.94 / 4 - 0.45**2) ** 0.5)


def test_what_is_given_in_exchange_may_be_refused_too() -> None:
    """b1 may take neither the 20 MB/s of b3 nor its 80, so the fourth bundle stays."""
    asked: list[tuple[int, str, str]] = []
    snapshot = uneven(90, 90, 90, 90, 90).snapshot()

    def may_transfer(rows: Integers, source: int, destination: int) -> list[bool]:
        names = snapshot.brokers.names
        asked.append((len(rows), names[source], names[destination]))
        return [names[source] == "b1"] * len(rows)

    plan, _ = TransferShedder(AT_ONCE, lambda _snapshot: may_transfer).decide(snapshot, TransferMemory())
    assert moves(plan) == [(bundle_name(number), "b1", "b3") for number in (0, 1, 2)]
    assert asked == [(5, "b1", "b3"), (2, "b3", "b1")]


def test_a_negative_figure_that_comes_back_counts_as_it_is() -> None:
    """Of 100 bytes/s 12.5 may leave; 20 leave 80, more than three quarters, unless -10 come back and leave 70."""
    settings = replace(AT_ONCE, target_deviation=0.05)
    for back, goes in ((-10.0, True), (10.0, False)):
        seen = TransferRound().add("b1", 0.8, 20.0, 90.0, throughput=100.0).add("b2", 0.6, back, throughput=30.0)
        expected = [(bundle_name(2), "b2", "b1"), (bundle_name(0), "b1", "b2")] if goes else []
        assert moves(shed(seen, settings)) == expected
