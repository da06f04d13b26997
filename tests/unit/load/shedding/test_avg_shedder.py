"""AvgShedder, both halves, on numbers worked by hand (names W… are those of the published examples)."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.avg_shedder_pins import AvgShedderPins, Pins
from pulsar_barycenter.load.placement.round_robin_broker_selector import RoundRobinBrokerSelector, RoundRobinMemory
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.shedding.avg_shedder import AvgShedder, HitCounts
from pulsar_barycenter.load.shedding.fitting import FittingPlan
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder
from pulsar_barycenter.load.strategies import MismatchedStrategiesError, placer_of, shedder_of
from pulsar_barycenter.load.strategy import NOTHING_REMEMBERED
from support.load_cases import MODULAR, Cluster, bundle_name, equal_bundles, steady

# W10 meets the threshold exactly, where 32-bit percentages round
HALVES = AvgShedder(share=0.5, low=14.999)


def at(*usages: float, bundles: int = 20) -> Cluster:
    """Return brokers b00, b01, … of these CPU usages in percent, with 1,000 msg/s a percent in equal bundles."""
    cluster = Cluster()
    for number, usage in enumerate(usages):
        load = equal_bundles(bundles, throughput=0, rate=1000 * usage, first=100 * number)
        cluster.add(f"b{number:02}", cpu=usage, bundles=load)
    return cluster


def ideal_rounds(*usages: float, rounds: int) -> dict[int, list[float]]:
    """Play rounds in which a pair that acts shares its load equally; return the loads after each that changed some."""
    loads, hits, found = list(usages), HitCounts(), {}
    for number in range(1, rounds + 1):
        plan, hits = HALVES.decide(at(*loads).snapshot(), hits)
        pairs = {(int(unload.source[1:]), int(str(unload.destination)[1:])) for unload in plan}
        for source, destination in pairs:
            loads[source] = loads[destination] = (loads[source] + loads[destination]) / 2
        if pairs:
            found[number] = list(loads)
    return found


def test_a_pair_of_which_bundles_wait_keeps_its_counts_and_acts_again() -> None:
    """Gaps of 80 and 60: half of each leaves, 9 bundles of 4,500 msg/s and 7 of 4,000; 10 may leave in a round."""
    settings = AvgShedder(share=0.5, high_hits=1, most=10)
    cluster = at(90, 80, 20, 10)
    plan, hits = settings.decide(cluster.snapshot(), HitCounts())
    assert [unload.source for unload in plan] == ["b00"] * 8 + ["b01"] * 2
    assert plan.waiting is not None
    assert plan.waiting.tolist() == [False, True, False, False]
    assert hits == HitCounts({"b01": 1, "b02": 1}, {"b01": 1, "b02": 1})
    whole, _ = AvgShedder(share=0.5, high_hits=1).decide(cluster.snapshot(), HitCounts())
    assert (len(whole), whole.waiting) == (15, None)
    cluster.recently_unloaded = {unload.bundle for unload in plan}
    second, hits = settings.decide(cluster.snapshot(), hits)
    assert {unload.source for unload in second} >= {"b01"}


def test_w8_a_gap_of_80_acts_at_once_in_the_second_round() -> None:
    assert ideal_rounds(90, 10, rounds=30) == {2: [50, 50]}


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ((10, 30, 80), {2: [45, 30, 45], 10: [37.5, 37.5, 45]}),
        (
            (40, 40, 40, 40, 69, 70),
            {8: [55, 54.5, 40, 40, 54.5, 55], 16: [47.5, 54.5, 47.5, 47.5, 54.5, 47.5]},
        ),
        (
            (10, 60, 70, 80, 80),
            {2: [45, 60, 70, 80, 45], 8: [62.5, 60, 70, 62.5, 45], 10: [62.5, 60, 57.5, 62.5, 57.5]},
        ),
        ((20, 51, 52, 80, 80, 80), {2: [50, 51, 52, 80, 80, 50], 8: [65, 51, 52, 65, 65, 65]}),
        ((*[50.0] * 5, 0), {2: [25, 50, 50, 50, 50, 25], 10: [37.5, 50, 50, 37.5, 37.5, 37.5]}),
    ],
    ids=["w9", "w10", "w11", "w12", "w17"],
)
def test_w9_to_w17_rounds_of_ideal_sharing(usages: tuple[float, ...], expected: dict[int, list[float]]) -> None:
    """Which of equal brokers acts is not part of the published numbers, so each round's loads compare sorted."""
    found = ideal_rounds(*usages, rounds=40)
    assert {number: sorted(loads) for number, loads in found.items()} == {
        number: sorted(loads) for number, loads in expected.items()
    }


def test_w15_and_w16_an_idle_broker_is_filled() -> None:
    """Ten at 80 and one at 5, or at 0, ends at three of 80 and eight near 70."""
    tenth = ideal_rounds(*[80.0] * 10, 5, rounds=40)
    assert list(tenth) == [2, 10, 18]
    assert sorted(tenth[2])[:3] == [42.5, 42.5, 80]
    assert sorted(tenth[10])[:5] == [61.25, 61.25, 61.25, 61.25, 80]
    assert sorted(tenth[18]) == pytest.approx([70.625] * 8 + [80] * 3)
    none = ideal_rounds(*[80.0] * 10, 0, rounds=40)
    assert (list(none), sorted(none[12])) == ([2, 4, 12], [70.0] * 8 + [80.0] * 3)


@pytest.mark.parametrize("usages", [(12, 2, 1, 1), (85, 90, 95, 99)], ids=["w18", "w19"])
def test_w18_and_w19_gaps_below_15_move_nothing(usages: tuple[float, ...]) -> None:
    assert ideal_rounds(*usages, rounds=20) == {}


def test_w13_load_that_is_not_of_the_brokers_bundles_cannot_move() -> None:
    cluster = at(10, 50).add("b02", cpu=70)
    hits = HitCounts()
    for _ in range(3):
        plan, hits = HALVES.decide(cluster.snapshot(), hits)
        assert len(plan) == 0


def test_w14_the_fuller_broker_with_less_traffic_gives_up_its_counts() -> None:
    """150 MB/s at 40 % and 100 MB/s at 60 %: the gap is 20, the amount is negative."""
    cluster = Cluster()
    cluster.add("b1", cpu=40, bundles=equal_bundles(5, throughput=150e6))
    cluster.add("b2", cpu=60, bundles=equal_bundles(5, throughput=100e6, first=10))
    hits = HitCounts({"b1": 7, "b2": 7})
    plan, after = HALVES.decide(cluster.snapshot(), hits)
    assert (len(plan), after) == (0, HitCounts())
    assert plan.broker_reason(1).code is Code.BELOW_MINIMUM_THROUGHPUT


def test_w22_all_pairs_act_at_once() -> None:
    rounds = ideal_rounds(*[80.0] * 10, *[0.0] * 10, rounds=5)
    assert rounds == {2: [40.0] * 20}


def test_counts_belong_to_brokers_so_changing_partners_do_not_postpone_it() -> None:
    """80, 80, 20 needing three hits: the first round pairs b0 with b2, the second b1 with b2, and the third acts."""
    options = AvgShedder(share=0.5, high_hits=3, low_hits=9)
    hits = HitCounts()
    counts, plans = [], []
    for first, second in ((80, 79), (79, 80), (80, 79)):
        plan, hits = options.decide(at(first, second, 20).snapshot(), hits)
        counts.append(dict(hits.high))
        plans.append(plan)
    assert counts == [{"b00": 1, "b02": 1}, {"b01": 1, "b02": 2}, {}]
    assert [len(plan) > 0 for plan in plans] == [False, False, True]


def test_a_gap_of_30_counts_for_the_low_threshold_only() -> None:
    _, hits = HALVES.decide(at(60, 30).snapshot(), HitCounts({}, {"b00": 1, "b01": 1}))
    assert hits == HitCounts({"b00": 1, "b01": 1}, {})


def acting(cluster: Cluster, **options: object) -> FittingPlan:
    """Return the plan of a pair that has waited long enough."""
    settings = AvgShedder(share=0.5, **options)  # type: ignore[arg-type]
    return settings.decide(cluster.snapshot(), HitCounts(dict.fromkeys(cluster.reports, 9)))[0]


def test_bundles_that_do_not_fit_or_carry_nothing_stay() -> None:
    """25,000 msg/s may leave: not 26,000, then 20,000, not 6,000, then 5,000, not 0."""
    cluster = at(80, 30, bundles=5)
    for index, rate in enumerate((26_000.0, 6_000.0, 20_000.0, 5_000.0, 0.0)):
        cluster.data[bundle_name(index)] = steady(NamespaceBundleStats(msg_rate_in=rate))
    plan = acting(cluster)
    assert [unload.bundle for unload in plan] == [bundle_name(2), bundle_name(3)]
    assert {unload.destination for unload in plan} == {"b01"}
    sentence = render(plan.unload(0).reason)
    for part in ("paired with b01", "gap 50 % >= ", "AvgShedder", "loadBalancerAvgShedder"):
        assert part in sentence


def test_throughput_counts_when_the_rates_are_too_close() -> None:
    cluster = Cluster().add("b0", cpu=80, bundles=equal_bundles(10, throughput=100e6, rate=2000))
    cluster.add("b1", cpu=20)
    assert [unload.bundle for unload in acting(cluster)] == [bundle_name(index) for index in range(5)]
    assert "bytes/s" not in render(acting(cluster, minimum_rate=999).unload(0).reason).split("because")[0]


def test_a_sole_bundle_may_move() -> None:
    cluster = Cluster().add("b0", cpu=80, bundles=equal_bundles(1, throughput=0, rate=10_000)).add("b1", cpu=20)
    cluster.data[bundle_name(0)] = steady(NamespaceBundleStats(msg_rate_in=4000))
    assert [unload.bundle for unload in acting(cluster)] == [bundle_name(0)]


def test_the_middle_one_of_an_odd_number_of_brokers_has_no_partner() -> None:
    plan, _ = AvgShedder().decide(at(80, 50, 20).snapshot(), HitCounts())
    middle = plan.broker_reason(1)
    assert (middle.code, middle.compared, middle.settings) == (Code.MIDDLE_BROKER, (), ())
    said = render(middle)
    assert "paired with b" not in said
    assert "usage 50 %" in said
    assert "paired with b00" in render(plan.broker_reason(2))


def test_a_broker_alone_has_no_partner() -> None:
    plan, _ = AvgShedder(low=0, high=0).decide(at(80).snapshot(), HitCounts({"b00": 9}, {"b00": 9}))
    assert (plan.reason.code, len(plan)) == (Code.BALANCED, 0)
    assert "paired with b" not in render(plan.reason)


def test_a_balanced_round_tells_strategy_and_settings_once() -> None:
    plan, _ = AvgShedder().decide(at(80, 20).snapshot(), HitCounts())
    told = render(plan.reason)
    assert plan.reason.cause is not None
    assert told.count("[AvgShedder]") == 1
    assert told.count("; settings: ") == 1


def test_verdicts_name_the_partner_and_what_is_missing() -> None:
    plan, _ = HALVES.decide(at(80, 79, 50, 20).snapshot(), HitCounts())
    assert [refusal.reason.code for refusal in plan.refusals()] == [Code.GAP_TOO_NEW] * 4
    assert "rounds in a row 1 < required 2" in render(plan.broker_reason(0))
    assert "rounds in a row 1 < required 8" in render(plan.broker_reason(1))
    lesser = acting(at(80, 20)).broker_reason(1)
    assert lesser.code is Code.LESSER_OF_PAIR
    assert HALVES.decide(Cluster().snapshot(), HitCounts())[0].reason.code is Code.BALANCED


BOTH = BrokerConfig(
    load_balancer_load_shedding_strategy="org.apache.pulsar.broker.loadbalance.impl.AvgShedder",
    load_balancer_load_placement_strategy="AvgShedder",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_shed_is_placed_where_the_shedder_meant_it_to_go(version: PulsarVersion) -> None:
    cluster = at(90, 50, 51, 10)
    plan, _ = shedder_of(BOTH).decide(cluster.snapshot(), HitCounts({}, {"b00": 1}))
    placer = placer_of(replace(BOTH, barycenter_pulsar_compatibility=version))
    memory = SelectionMemory().updated(placer, lambda placer, before: placer.planned(plan, before))
    settings = SelectionSettings(MODULAR, distribute_evenly=False)
    assert len(plan) > 0
    code = Code.PLANNED if version == "5.x" else Code.PINNED
    for unload in plan:
        request = PlacementRequest(unload.bundle)
        placement, memory = select_broker(cluster.snapshot(), request, settings, placer, random.Random(3), memory)
        assert (placement.broker, placement.reason.code) == (unload.destination, code)
    assert placer.tried(plan, memory.placement.of(placer)) == placer.start()


def test_pins_are_taken_from_a_plan_without_making_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = shedder_of(BOTH).decide(at(90, 50, 51, 10).snapshot(), HitCounts({}, {"b00": 1}))
    meant = {unload.bundle: unload.destination for unload in plan if unload.destination is not None}
    assert meant
    monkeypatch.setattr(type(plan), "unload", None)
    assert AvgShedderPins().planned(plan, Pins()) == Pins(meant)


def test_plans_of_other_shedders_change_no_pins() -> None:
    shedder, pins = ThresholdShedder(), Pins({"x": "b00"})
    plan, _ = shedder.decide(at(90, 10).snapshot(), shedder.start())
    assert AvgShedderPins().planned(plan, pins) is pins
    assert AvgShedderPins().tried(plan, pins) is pins


def test_another_placement_strategy_starts_without_the_memory_of_this_one() -> None:
    pinned = NOTHING_REMEMBERED.then(AvgShedderPins(), Pins({"x": "b00"}))
    assert pinned.of(AvgShedderPins()) == Pins({"x": "b00"})
    assert pinned.of(RoundRobinBrokerSelector()) == RoundRobinMemory()


def test_a_pin_to_a_broker_that_left_is_replaced_by_a_draw() -> None:
    snapshot = at(10, 20, 30).snapshot()
    everyone = np.ones(3, bool)
    choice, pins = AvgShedderPins().decide(snapshot, everyone, "x", random.Random(0), Pins({"x": "gone"}))
    assert choice.code is Code.DRAWN
    again, after = AvgShedderPins().decide(snapshot, everyone, "x", random.Random(7), pins)
    assert (again.broker, again.code, after) == (choice.broker, Code.PINNED, pins)
    assert len(Pins({"a": "gone", "b": "b00"}).planned({"c": "b01"}, snapshot.brokers.names)) == 2


def test_draws_are_even_and_pins_stay_when_there_are_many() -> None:
    snapshot, rng, pins = at(10, 20, 30).snapshot(), random.Random(0), Pins()
    for number in range(1500):
        _, pins = AvgShedderPins().decide(snapshot, np.ones(3, bool), f"bundle-{number}", rng, pins)
    assert (len(pins), len(list(pins))) == (1500, 1500)
    chosen = list(pins.values())
    assert min(chosen.count(name) for name in snapshot.brokers.names) > 430


@pytest.mark.parametrize("other", ["shedding", "placement"])
def test_it_has_to_be_both_or_neither_in_4(other: str) -> None:
    """Naming it in one key only is refused with both keys and the fix."""
    half = replace(
        default_config("4.x"),
        **{f"load_balancer_load_{'placement' if other == 'shedding' else 'shedding'}_strategy": "AvgShedder"},
    )
    mend = "loadBalancerLoadSheddingStrategy" if other == "shedding" else "loadBalancerLoadPlacementStrategy"
    with pytest.raises(MismatchedStrategiesError, match=rf"set {mend}=AvgShedder as well"):
        shedder_of(half)
