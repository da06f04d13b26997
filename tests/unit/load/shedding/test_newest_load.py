"""Planned moves of LeastDisturbance, checked by reports that came after the decision."""

import random
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Refusal, Unload
from pulsar_barycenter.load.policies import NO_POLICIES
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.rounds.round import CARRIED_OUT, RoundOutcome, UnloadOutcome, moves
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.least_disturbance.budget import Budget
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance import DisturbanceMemory, LeastDisturbance
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import Cluster, bundle_name

CONFIG = with_overrides(
    BrokerConfig(),
    dict.fromkeys(("loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"), "LeastDisturbance"),
)
STRATEGY = LeastDisturbance.of(CONFIG)


def of_points(held: Mapping[str, Mapping[int, float]]) -> LoadSnapshot:
    """Return brokers of these bundles, by number, each with its points of usage."""
    found = Cluster()
    for broker, points in held.items():
        bundles = {bundle_name(n): NamespaceBundleStats(msg_rate_in=1e3 * size) for n, size in points.items()}
        found.add(broker, cpu=float(sum(points.values())), bundles=bundles)
    return found.snapshot()


def planned(snapshot: LoadSnapshot) -> SheddingPlan:
    return shed(STRATEGY, snapshot, DisturbanceMemory())[0]


def carried_out(plan: SheddingPlan, *loads: LoadSnapshot) -> RoundOutcome:
    """Carry out the plan: with the first load from the start, and the next ones after one unload each."""
    later = iter(loads[1:])
    selection = FilteredSelection.of(CONFIG)
    steps = moves(plan, selection.destinations(plan, loads[0], selection.start(), random.Random(1)), STRATEGY)
    try:
        step = next(steps)
        while True:
            if isinstance(step, Refusal):
                step = next(steps)
            else:
                newer = next(later, None)
                step = steps.send(CARRIED_OUT if newer is None else UnloadOutcome(True, newer))
    except StopIteration as end:
        outcome: RoundOutcome = end.value
    return outcome


def ends(unloads: tuple[Unload, ...]) -> list[tuple[str, str | None]]:
    return [(unload.source, unload.destination) for unload in unloads]


SIXTY = {1: 15.0, 2: 45.0}
EXAMPLE = {"b1": SIXTY, "b2": {3: 20.0, 4: 20.0}}


@pytest.mark.parametrize(
    ("now", "is_made"),
    [
        (EXAMPLE, True),
        ({"b1": {1: 35.0, 2: 45.0}, "b2": EXAMPLE["b2"]}, True),  # 80 and 40 become 45 and 75
        ({"b1": SIXTY, "b2": {3: 50.0, 4: 20.0}}, False),  # 60 and 70 would become 45 and 85
        ({"b1": {1: 45.0, 2: 35.0}, "b2": {3: 25.0, 4: 20.0}}, False),  # 80 and 45 would become 35 and 90
        ({"b1": {1: 0.0, 2: 60.0}, "b2": EXAMPLE["b2"]}, False),  # an idle bundle relieves nobody
    ],
)
def test_a_move_must_lower_the_fuller_one_of_its_brokers_by_the_newest_reports(
    now: Mapping[str, Mapping[int, float]], is_made: bool
) -> None:
    """60 and 40 points, and the bundle of 15 goes."""
    plan = planned(of_points(EXAMPLE))
    assert [unload.bundle for unload in plan] == [bundle_name(1)]
    outcome = carried_out(plan, of_points(now))
    assert ends(outcome.moves) == ([("b1", "b2")] if is_made else [])
    assert [refusal.reason.code for refusal in outcome.refused] == ([] if is_made else [Code.GAIN_IS_GONE])


def test_the_reason_has_the_numbers_and_why_the_bundle_was_to_leave() -> None:
    plan = planned(of_points(EXAMPLE))
    [refusal] = carried_out(plan, of_points({"b1": SIXTY, "b2": {3: 50.0, 4: 20.0}})).refused
    sentence = render(refusal.reason)
    assert "by reports that came after the decision, its move would gain too little" in sentence
    assert "gain of the move by the newest reports -1" in sentence
    assert re.search(r"b1 from 60 % to 4\d.* and b2 from 70 % to 8\d", sentence)
    assert refusal.reason.cause == next(iter(plan)).reason
    assert (refusal.action, refusal.subject, refusal.source) == ("unload", bundle_name(1), "b1")


def test_moves_of_a_round_count_for_those_after_them() -> None:
    """b1 gives four bundles of 10. After two, b2 reports 35 points of its own: 60 and 55 would be 50 and 65."""
    before = {"b1": dict.fromkeys(range(8), 10.0), "b2": {}}
    plan = planned(of_points(before))
    assert len(plan) == 4
    first = of_points(before)
    gone = [unload.bundle for unload in plan][:2]
    grown = of_points({**before, "b2": {9: 35.0}})
    for bundle in gone:
        grown = grown.moving(grown.bundles.names.index(bundle), "b2")
    outcome = carried_out(plan, first, first.moving(first.bundles.names.index(gone[0]), "b2"), grown)
    assert [move.bundle for move in outcome.moves] == gone
    assert {refusal.reason.code for refusal in outcome.refused} == {Code.GAIN_IS_GONE}


def test_an_exchange_is_made_whole_or_not_at_all() -> None:
    """b1 has two bundles of 30, b2 two of 18: exchanged they have 48 each. Then b2 grows by 24, and 60 and 60 would be
    48 and 72."""
    before = {"b1": {0: 30.0, 1: 30.0}, "b2": {10: 18.0, 11: 18.0}, "b3": {20: 20.0, 21: 20.0}}
    plan = planned(of_points(before))
    assert ends(tuple(plan)) == [("b2", "b1"), ("b1", "b2")]
    assert len(carried_out(plan, of_points(before)).moves) == 2
    outcome = carried_out(plan, of_points({**before, "b2": {10: 18.0, 11: 18.0, 12: 24.0}}))
    assert not outcome.moves
    assert [refusal.reason.code for refusal in outcome.refused] == [Code.GAIN_IS_GONE] * 2


def test_a_move_by_its_price_must_still_have_the_least_gain() -> None:
    """70 and 50 points; the bundle of 8 goes to b2. When b2 has 61.8, the fuller one falls by 0.3 points only."""
    before = {"b1": {0: 8.0, 1: 62.0}, "b2": {2: 25.0, 3: 25.0}}
    snapshot, memory = of_points(before), DisturbanceMemory()
    strategy = replace(STRATEGY, settings=replace(STRATEGY.settings, moves_an_hour=60))
    minute = 60_000
    plans = []
    for number in range(8):
        plan, memory = strategy.decide(replace(snapshot, taken_at_ms=number * minute + 1), memory)
        memory = replace(memory, budget=Budget(left=1.0)) if not number else memory
        plans.append(plan)
    plan = next(plan for plan in plans[1:] if len(plan))
    assert {unload.reason.code for unload in plan} == {Code.WORTH_ITS_PRICE}
    assert strategy.settings.least_gain == pytest.approx(0.00375)
    made = carried_out(plan, of_points({**before, "b2": {2: 36.0, 3: 25.0}}))
    assert ends(made.moves) == [("b1", "b2")]
    left_out = carried_out(plan, of_points({**before, "b2": {2: 36.8, 3: 25.0}}))
    assert [refusal.reason.code for refusal in left_out.refused] == [Code.GAIN_IS_GONE]


def test_what_the_reports_do_not_say_keeps_no_bundle() -> None:
    """The new reports name neither the bundle nor its broker; whether it can leave is for its owner to say."""
    plan = planned(of_points(EXAMPLE))
    without_bundle = of_points({"b1": {2: 45.0}, "b2": EXAMPLE["b2"]})
    assert len(carried_out(plan, without_bundle).moves) == 1
    others = of_points({"b2": {3: 90.0}, "b3": {5: 10.0}})
    assert len(carried_out(plan, others).moves) == 1


def test_bundles_without_load_move_by_their_number_whatever_the_load() -> None:
    idle = dict.fromkeys(range(20, 36), 0.0)
    before = {"b1": {1: 30.0, **idle}, "b2": {2: 30.0}}
    plan = planned(of_points(before))
    assert len(plan) == 8
    assert len(carried_out(plan, of_points({**before, "b2": {2: 60.0}})).moves) == 8


def test_a_drained_broker_changes_nothing_in_the_check() -> None:
    """Rows of the plan, which leaves b0 out, are not those of the newer load."""
    held = {"b0": {7: 5.0}, **EXAMPLE}
    drained = replace(NO_POLICIES, drained=frozenset({"b0"}))
    plan = planned(replace(of_points(held), policies=drained))
    assert ends(tuple(plan)) == [("b1", "b2")]
    assert len(carried_out(plan, replace(of_points(held), policies=drained)).moves) == 1
    grown = of_points({**held, "b2": {3: 50.0, 4: 20.0}})
    [refusal] = carried_out(plan, replace(grown, policies=drained)).refused
    assert refusal.reason.code is Code.GAIN_IS_GONE


def test_the_same_reports_are_not_checked_again() -> None:
    """The plan is right by its estimates, which one report does not change at once."""
    snapshot = of_points(EXAMPLE)
    plan = planned(snapshot)
    later = replace(snapshot, taken_at_ms=1)
    assert later.has_the_reports_of(snapshot)
    assert not of_points(EXAMPLE).has_the_reports_of(snapshot)
    assert len(carried_out(plan, later).moves) == 1
