"""What LeastDisturbance guarantees for any cluster, and how near its moves are to the fewest possible."""

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import NO_LIMIT, Refusal, Unload
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.rounds.round import CARRIED_OUT, UnloadOutcome, moves
from pulsar_barycenter.load.shedding.least_disturbance.alignment import rows_before
from pulsar_barycenter.load.shedding.least_disturbance.assignment import (
    ABOVE,
    BY_NUMBER,
    EVENS,
    EXCHANGED,
    RETURNED,
    RowMove,
)
from pulsar_barycenter.load.shedding.least_disturbance.budget import Budget
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance import DisturbanceMemory, LeastDisturbance
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import Settings
from pulsar_barycenter.load.shedding.least_disturbance.unevenness import Unevenness
from pulsar_barycenter.load.shedding.least_disturbance.usage_lines import reported_usage
from pulsar_barycenter.load.shedding.least_disturbance.verdicts import DisturbancePlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import Cluster, bundle_name, clusters
from support.short_forms import examples

BAND = 0.08
NEAR = 2
"""Points; some of what brokers report is taken for background, so that the edge of the band may lie so far off."""
CONFIG = with_overrides(
    BrokerConfig(),
    {"loadBalancerLoadPlacementStrategy": "LeastDisturbance", "loadBalancerLoadSheddingStrategy": "LeastDisturbance"},
)
sizes = st.lists(st.sampled_from([2, 3, 5, 8, 12, 20]), max_size=3)

crowds = st.lists(st.sampled_from([1, 4, 11, 23, 31]), max_size=8)


def of_sizes(held: Sequence[Sequence[int]]) -> LoadSnapshot:
    """Return equal brokers whose bundles have these points of usage, and no other load."""
    found, number = Cluster(), 0
    for broker, points in enumerate(held):
        bundles = {}
        for size in points:
            bundles[bundle_name(number)] = NamespaceBundleStats(msg_rate_in=1e3 * size, topics=1)
            number += 1
        found.add(f"b{broker}", cpu=float(sum(points)), bundles=bundles)
    return found.snapshot()


def decide(snapshot: LoadSnapshot, most: int = NO_LIMIT) -> DisturbancePlan:
    return LeastDisturbance(Settings(band=BAND, most=most)).decide(snapshot, DisturbanceMemory())[0]


@settings(max_examples=examples(80), deadline=None)
@given(clusters())
def test_no_move_leaves_who_takes_above_what_the_giver_was(cluster: Cluster) -> None:
    """By both estimates; exchanges count as one move."""
    plan = decide(cluster.snapshot())
    for move in plan.moves:
        assert move.source != move.destination
        if move.why == BY_NUMBER:
            assert move.taker < move.before + 1
        elif move.why not in (EXCHANGED, RETURNED):
            assert move.taker < move.before
            assert move.after <= move.before


@settings(max_examples=examples(80), deadline=None)
@given(clusters())
def test_a_second_plan_upon_the_first_has_nothing_more_to_do_with_its_bundles(cluster: Cluster) -> None:
    """Bundles in transition stay."""
    plan = decide(cluster.snapshot())
    cluster.recently_unloaded = {unload.bundle for unload in plan}
    again = decide(cluster.snapshot())
    assert not {unload.bundle for unload in again} & cluster.recently_unloaded


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(crowds, min_size=2, max_size=4), st.integers(1, 5))
def test_a_full_round_makes_the_first_moves_of_a_longer_one_or_better_ones_of_the_same_brokers(
    held: list[list[int]], most: int
) -> None:
    """Only while brokers above the band give does it choose again among the moves that it saw."""
    snapshot = of_sizes(held)
    whole, cut = decide(snapshot), decide(snapshot, most)
    first = whole.moves[: len(cut.moves)]
    assert [(move.source, move.why) for move in cut.moves] == [(move.source, move.why) for move in first]
    if any(move.why != ABOVE for move in cut.verdicts.found.moves):
        assert cut.moves == first
    assert (cut.waiting is None) == (len(cut.moves) == len(whole.moves))
    if cut.waiting is not None:
        assert cut.waiting[whole.moves[len(cut.moves)].source]
    if len(cut.moves) < min(most, len(whole.moves)):
        assert len(cut.moves) == most - 1
        assert whole.moves[most - 1].why == RETURNED
    for move, following in itertools.pairwise((*cut.moves, None)):
        assert move is not None
        assert (move.why == RETURNED) == (following is not None and following.why == EXCHANGED)
    for move in cut.moves:
        if move.why == ABOVE:
            assert move.taker < move.before


def fewest(held: Sequence[Sequence[int]], limit: float) -> int | None:
    """Return the minimum number of moves so that no broker has more than `limit`, by trying all."""
    where = [broker for broker, points in enumerate(held) for _ in points]
    points = [size for own in held for size in own]
    best = None
    for goal in itertools.product(range(len(held)), repeat=len(points)):
        moved = sum(a != b for a, b in zip(where, goal, strict=True))
        if best is not None and moved >= best:
            continue
        load = [0] * len(held)
        for size, broker in zip(points, goal, strict=True):
            load[broker] += size
        if max(load) <= limit:
            best = moved
    return best


@settings(max_examples=40, deadline=None)
@given(st.lists(sizes, min_size=2, max_size=3).filter(lambda held: 0 < sum(map(len, held)) <= 6))
def test_it_moves_hardly_more_than_the_fewest_that_do(held: list[list[int]]) -> None:
    """Where all brokers can be brought near the mean it gets them within the band, with at most two moves more."""
    loads = [sum(points) for points in held]
    mean = sum(loads) / len(loads)
    plan = decide(of_sizes(held))
    if max(loads) <= mean + 100 * BAND - NEAR:
        assert all(move.why != EXCHANGED for move in plan.moves)
        return
    best = fewest(held, mean + 100 * Settings(band=BAND).goal)
    if best is None:
        return
    after = np.array(loads, float)
    sizes_of = [size for points in held for size in points]
    for move in plan.moves:
        after[move.source] -= sizes_of[move.row]
        after[move.destination] += sizes_of[move.row]
    assert after.max() <= max(mean + 100 * BAND + NEAR, max(loads) - 1e-9)
    if after.max() <= mean + 100 * Settings(band=BAND).goal + 1e-6:
        assert len(plan.moves) <= best + 2


@settings(max_examples=examples(200), deadline=None)
@given(st.sets(st.integers(0, 400)), st.sets(st.integers(0, 400)))
def test_rows_are_matched_by_name(before: set[int], names: set[int]) -> None:
    """As a dictionary would match them."""
    first, second = ([f"{number:04}" for number in sorted(each)] for each in (before, names))
    found = rows_before(first, second)
    place = {name: row for row, name in enumerate(first)}
    wanted = [place.get(name, -1) for name in second]
    assert (list(range(len(second))) if found is None else found.tolist()) == wanted


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.lists(st.tuples(st.integers(1, 30), st.integers(0, 40)), max_size=40))
def test_rounds_do_not_move_more_than_the_budget(an_hour: int, rounds: list[tuple[int, int]]) -> None:
    """Over any time: what the time gives, what was saved up, and one more for an exchange."""
    budget, minutes, moved = Budget(), 0, 0
    for passed, wanted in rounds:
        minutes, budget = minutes + passed, budget.grown(an_hour, passed, Settings())
        count = min(wanted, budget.moves(0))
        budget, moved = budget.spent(count, 0), moved + count
        assert moved <= an_hour * minutes / 60 + 1e-3
        assert budget.left > -1e-3


def unevenness(excess: Sequence[float], scale: float) -> float:
    return scale * float(np.log(np.exp(np.array(excess) / scale).sum()))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.floats(-0.3, 0.3), st.floats(0.25, 4.0)), min_size=2, max_size=6),
    st.floats(0.0, 0.2),
    st.data(),
)
def test_a_gain_is_by_how_much_the_unevenness_falls(
    brokers: list[tuple[float, float]], work: float, data: st.DataObject
) -> None:
    source, taker = data.draw(st.permutations(range(len(brokers))))[:2]
    excess, slope = (list(column) for column in zip(*brokers, strict=True))
    uneven = Unevenness(np.array(excess), np.ones(len(brokers), bool), 0.03)
    gain = float(uneven.gains(source, taker, np.array(slope), np.array([work]))[0])
    after = list(excess)
    after[source] -= slope[source] * work
    after[taker] += slope[taker] * work
    assert abs(gain - (unevenness(excess, 0.03) - unevenness(after, 0.03))) < 1e-6


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(crowds, min_size=2, max_size=4), st.integers(1, 60))
def test_by_its_price_a_move_evens_out_and_a_broker_gives_one_bundle_a_round(
    held: list[list[int]], an_hour: int
) -> None:
    """With a price: by the estimates of the round itself, and the same each time."""
    snapshot, strategy = of_sizes(held), LeastDisturbance(Settings(band=BAND, grace_ms=0, moves_an_hour=an_hour))
    memory = DisturbanceMemory()
    _, memory = strategy.decide(snapshot, memory)
    memory = dataclasses.replace(memory, budget=Budget())
    for _ in range(12):
        plan, after = strategy.decide(snapshot, memory)
        again, _ = strategy.decide(snapshot, memory)
        assert again.moves == plan.moves
        excess = plan.verdicts.view.apart[0].copy()
        counted, scale = plan.verdicts.view.fresh, strategy.settings.scale
        for move in plan.moves:
            if move.why != EVENS:
                continue
            assert move.price is not None
            assert move.price.gain > strategy.settings.least_gain / 2
            assert move.price.missed >= strategy.settings.price
            assert move.taker < move.before
            before = unevenness(excess[counted].tolist(), scale)
            work, slope = plan.loads.recent[move.row], plan.verdicts.view.slope
            excess[move.source] -= slope[move.source] * work
            excess[move.destination] += slope[move.destination] * work
            assert unevenness(excess[counted].tolist(), scale) < before
        givers = [move.source for move in plan.moves if move.why == EVENS]
        assert len(givers) == len(set(givers))
        memory = after


def with_known_lines(snapshot: LoadSnapshot) -> DisturbancePlan:
    """Return the plan of a strategy that knows exactly how much usage the load takes: no background, equal slopes."""
    strategy = LeastDisturbance(Settings(band=BAND))
    _, memory = strategy.decide(snapshot, DisturbanceMemory())
    assert memory.loads is not None
    assert memory.lines is not None
    usage = reported_usage(snapshot, strategy.settings)
    work, none, sure = memory.loads.units.work(snapshot.brokers.latest), np.zeros(len(usage)), np.full(len(usage), 1e-6)
    slope = np.full(len(usage), usage.sum() / work.sum() if work.any() else 1.0)
    lines = dataclasses.replace(
        memory.lines, background=none, slope=slope, variance=np.array([sure, none, sure]), beyond=none
    )
    return strategy.decide(snapshot, dataclasses.replace(memory, lines=lines))[0]


def of_later_loads(
    plan: DisturbancePlan, now: Sequence[Sequence[int]]
) -> Iterator[tuple[RowMove, bool, int, int, int]]:
    """Carry the plan out while the newest reports have the loads `now`, and yield for each move by load whether it was
    made, the points of its bundle, and those of the fuller one of its two brokers before the move and if it is made.
    """
    names = plan.snapshot.brokers.names
    carried = dict(zip(names, map(sum, now), strict=True))
    size_of = dict(zip(map(bundle_name, itertools.count()), itertools.chain.from_iterable(now), strict=False))
    selection = FilteredSelection.of(CONFIG)
    destinations = selection.destinations(plan, of_sizes(now), selection.start(), random.Random(1))
    steps = moves(plan, destinations, LeastDisturbance())
    answer: UnloadOutcome | None = None
    for move in plan.moves:
        step = steps.send(answer)
        source, destination = names[move.source], names[move.destination]
        size = size_of[plan.snapshot.bundles.names[move.row]]
        if move.why not in (BY_NUMBER, EXCHANGED, RETURNED):
            before = max(carried[source], carried[destination])
            after = max(carried[source] - size, carried[destination] + size)
            yield move, isinstance(step, Unload), size, before, after
        if isinstance(step, Unload):
            carried[source] -= size
            carried[destination] += size
        answer = None if isinstance(step, Refusal) else CARRIED_OUT


def now_of(held: Sequence[Sequence[int]], data: st.DataObject) -> list[list[int]]:
    """Draw the loads of later reports: any bundles have grown or shrunk."""
    return [[data.draw(st.sampled_from([size, size, 0, 2 * size, 5 * size])) for size in points] for points in held]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(crowds, min_size=2, max_size=4), st.data())
def test_a_round_makes_nothing_worse_by_reports_that_came_after_its_decision(
    held: list[list[int]], data: st.DataObject
) -> None:
    """A move that is made lowers the fuller one of its two brokers, with the moves before it; one that is left out
    would not."""
    for _, made, _, before, after in of_later_loads(with_known_lines(of_sizes(held)), now_of(held, data)):
        assert after < before if made else after >= before


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(crowds, min_size=2, max_size=4), st.data())
def test_a_first_round_makes_hardly_anything_worse_by_later_reports(held: list[list[int]], data: st.DataObject) -> None:
    """Before brokers have shown how their usage follows from their load. Each move of its two brokers, this one and
    those before it, adds to what is unknown."""
    moved: Counter[int] = Counter()
    for move, made, size, before, after in of_later_loads(decide(of_sizes(held)), now_of(held, data)):
        near = NEAR + (size + moved[move.source] + moved[move.destination]) / 3  # what one report says of slopes
        assert after < before + near if made else after >= before - near
        if made:
            moved.update({move.source: size, move.destination: size})


def test_a_gain_that_comes_from_rounding_moves_nothing() -> None:
    """The second broker has 15 points of 11 and 4 left: without its 11 the first one would have 15."""
    plan = with_known_lines(of_sizes([[4], [31, 11, 4], [31]]))
    (_, made, size, before, after), *_ = of_later_loads(plan, [[4], [0, 11, 4], [31]])
    assert (made, size, before, after) == (False, 11, 15, 15)
