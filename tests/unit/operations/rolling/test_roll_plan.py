"""The plan of a roll: as few moves as a search through all rolls finds, and no receiver above its limit."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.operations.rolling.plan import (
    Cluster,
    Limit,
    RollPlan,
    best_plan,
    emptied,
    forecast,
    limits_of,
    naive_moves,
    refilled,
    second_pool,
    started_by,
)

BROKERS = ("a:1", "b:1", "c:1", "d:1")
LEADER = BROKERS[0]


def cluster_of(owners: dict[str, str], limits: dict[str, Limit], loads: dict[str, float] | None = None) -> Cluster:
    everywhere = frozenset(limits)
    return Cluster(owners, loads or {}, limits, lambda _: everywhere)


def fewest_moves(owners: dict[str, str], limits: dict[str, Limit]) -> float:
    """Return the fewest moves of all rolls with the leader last, by trying all; infinite if none is possible."""
    brokers = tuple(limits)
    best = math.inf
    for others in itertools.permutations(broker for broker in brokers if broker != LEADER):
        reached = {tuple(owners[bundle] for bundle in sorted(owners)): 0}
        for leaving in (*others, LEADER):
            after: dict[tuple[str, ...], int] = {}
            for places, moves in reached.items():
                moving = [at for at, broker in enumerate(places) if broker == leaving]
                left = [broker for broker in brokers if broker != leaving]
                for destinations in itertools.product(left, repeat=len(moving)):
                    new = list(places)
                    for at, destination in zip(moving, destinations, strict=True):
                        new[at] = destination
                    if any(new.count(broker) > limits[broker].bundles for broker in set(destinations)):
                        continue
                    key = tuple(new)
                    after[key] = min(after.get(key, 1_000_000), moves + len(moving))
            reached = after
        best = min([best, *reached.values()])
    return best


def small_cluster(seed: int) -> tuple[dict[str, str], dict[str, Limit]]:
    source = random.Random(seed)
    owners = {f"x{number}": source.choice(BROKERS) for number in range(source.randint(1, 5))}
    return owners, {broker: Limit(source.randint(0, 4)) for broker in BROKERS}


HARD = (
    {"x0": "a:1", "x1": "b:1", "x2": "d:1", "x3": "d:1", "x4": "c:1"},
    {"a:1": Limit(2), "b:1": Limit(0), "c:1": Limit(2), "d:1": Limit(4)},
)
"""What does not fit on restarted brokers must go to the broker that restarts last."""


@pytest.mark.parametrize(("owners", "limits"), [HARD, *map(small_cluster, range(200))])
def test_a_plan_has_the_fewest_moves_and_is_found_if_there_is_one(
    owners: dict[str, str], limits: dict[str, Limit]
) -> None:
    plan = best_plan(cluster_of(owners, limits), tuple(limits), LEADER, refills=False)
    assert (math.inf if plan.no_room else plan.moves) == fewest_moves(owners, limits)


@st.composite
def loaded_clusters(draw: st.DrawFn) -> tuple[Cluster, int]:
    brokers = [f"b{number}:1" for number in range(draw(st.integers(2, 9)))]
    bundles = [f"x{number}" for number in range(draw(st.integers(0, 40)))]
    owners = {bundle: draw(st.sampled_from(brokers)) for bundle in bundles}
    loads = {bundle: draw(st.floats(0, 100)) for bundle in bundles}
    batch = draw(st.integers(1, len(brokers) - 1))
    room = draw(st.floats(1.0, 2.0))
    limits = limits_of(owners, loads, brokers, serving=len(brokers) - batch, room=room)
    return cluster_of(owners, limits, loads), batch


def played(cluster: Cluster, plan: RollPlan) -> dict[str, str]:
    """Follow the moves of a plan; check at each that its receiver stays within its limits, and that brokers restart
    empty and get nothing while they do."""
    owners = dict(cluster.owners)
    for step in (*plan.steps, None):
        for move in step.moves if step else plan.refill:
            assert owners[move.bundle] == move.source
            owners[move.bundle] = move.destination
            limit = cluster.limits[move.destination]
            held = [bundle for bundle, broker in owners.items() if broker == move.destination]
            assert len(held) <= limit.bundles
            assert sum(cluster.loads.get(bundle, 0.0) for bundle in held) <= limit.load * (1 + 1e-6)
        if step:
            left = [bundle for bundle, broker in owners.items() if broker in step.brokers]
            assert set(left) == {*step.stay, *step.no_room}
    return owners


@given(loaded_clusters())
def test_no_receiver_passes_its_limit_and_brokers_are_empty_when_they_restart(drawn: tuple[Cluster, int]) -> None:
    cluster, batch = drawn
    brokers = tuple(cluster.limits)
    plan = best_plan(cluster, brokers, brokers[0], batch=batch)
    played(cluster, plan)
    assert plan.steps[-1].brokers[-1] == brokers[0]
    assert sorted(broker for step in plan.steps for broker in step.brokers) == sorted(brokers)
    assert all(1 <= len(step.brokers) <= batch for step in plan.steps)


@given(st.integers(2, 6), st.integers(1, 8))
def test_equal_brokers_move_each_bundle_once_and_those_of_the_first_twice(count: int, each: int) -> None:
    brokers = [f"b{number}:1" for number in range(count)]
    owners = {f"x{number}": brokers[number % count] for number in range(count * each)}
    limits = limits_of(owners, {}, brokers, serving=len(brokers) - 1, room=1.2)
    plan = best_plan(cluster_of(owners, limits), brokers, brokers[0], refills=False)
    assert plan.moves == count * each + each
    assert max(plan.moves_of_bundles().values()) == 2
    assert plan.moves <= naive_moves(owners, brokers) or count == 2


def test_a_roll_without_a_plan_moves_more() -> None:
    owners = {f"x{number}": BROKERS[number % 4] for number in range(40)}
    limits = limits_of(owners, {}, BROKERS, serving=3, room=1.2)
    assert best_plan(cluster_of(owners, limits), BROKERS, LEADER, refills=False).moves == 50
    assert naive_moves(owners, BROKERS) == 65


def test_a_refill_moves_the_heaviest_bundles_that_help() -> None:
    owners = {"heavy": "a:1", **{f"x{number}": "a:1" for number in range(9)}}
    loads = {"heavy": 9.0, **{f"x{number}": 1.0 for number in range(9)}}
    limits = dict.fromkeys(("a:1", "b:1"), Limit(100, 20.0))
    moves = refilled(cluster_of(owners, limits, loads), ["b:1"], ["a:1", "b:1"])
    assert [(move.bundle, move.source, move.destination) for move in moves] == [("heavy", "a:1", "b:1")]


def test_a_bundle_that_no_other_broker_may_serve_stays_and_one_without_room_is_named() -> None:
    owners = {"kept": "a:1", "free": "a:1", "more": "a:1"}
    limits = {"a:1": Limit(9), "b:1": Limit(1)}
    cluster = Cluster(owners, {}, limits, lambda name: frozenset(["a:1"] if name == "kept" else limits))
    step = emptied(cluster, ["a:1"], restarted=[], waiting=["b:1"])
    assert [move.bundle for move in step.moves] == ["free"]
    assert set(step.stay) == {"kept"}
    assert set(step.no_room) == {"more"}
    assert "limit" in step.no_room["more"]


def test_brokers_that_need_no_restart_receive_first() -> None:
    owners = {f"x{number}": "a:1" for number in range(4)}
    limits = dict.fromkeys(("a:1", "b:1", "c:1"), Limit(4))
    plan = forecast(cluster_of(owners, limits), [["a:1"], ["b:1"]], restarted=["c:1"], refills=False)
    assert {move.destination for move in plan.steps[0].moves} == {"c:1"}
    assert plan.moves == 4


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 30))
def test_with_a_second_pool_each_bundle_moves_exactly_once_to_a_broker_that_runs(
    old: int, new: int, count: int
) -> None:
    olds = [f"old{number}:1" for number in range(old)]
    news = [f"new{number}:1" for number in range(new)]
    owners = {f"x{number}": olds[number % old] for number in range(count)}
    plan = second_pool(cluster_of(owners, dict.fromkeys((*olds, *news), Limit())), olds, news)
    assert plan.moves_of_bundles() == dict.fromkeys(owners, 1)
    for at, step in enumerate(plan.steps):
        assert {move.destination for move in step.moves} <= set(started_by(at, olds, news))
    assert set(played(cluster_of(owners, dict.fromkeys((*olds, *news), Limit())), plan).values()) <= set(news)


@pytest.mark.parametrize(("room", "limit"), [(1.0, 5), (1.2, 6), (2.0, 10)])
def test_limits_leave_room_above_the_share_while_brokers_are_away(room: float, limit: int) -> None:
    owners = {f"x{number}": "a:1" for number in range(10)}
    assert limits_of(owners, {}, BROKERS[:3], serving=2, room=room) == dict.fromkeys(BROKERS[:3], Limit(limit))


def test_the_limit_of_load_holds_the_largest_bundle() -> None:
    limits = limits_of({"x": "a:1", "y": "b:1"}, {"x": 100.0}, BROKERS[:3], serving=2, room=1.2)
    assert limits["a:1"] == Limit(2, 150.0)


def test_bundles_without_load_are_shared_by_number_also_with_a_broker_above_its_limit_of_load() -> None:
    """Else the other broker would reach its number of bundles, and have no room in a later step."""
    owners = {"busy": "a:1"} | {f"idle{number}": "b:1" for number in range(8)}
    limits = {"a:1": Limit(6, 90.0), "c:1": Limit(6, 90.0)}
    step = emptied(cluster_of(owners, limits, {"busy": 100.0}), ["b:1"], restarted=[], waiting=["a:1", "c:1"])
    assert step.no_room == {}
    to = [move.destination for move in step.moves]
    assert (to.count("a:1"), to.count("c:1")) in ((3, 5), (4, 4))


def test_with_many_brokers_not_all_orders_are_tried_and_the_emptiest_is_first() -> None:
    brokers = [f"b{number:02}:1" for number in range(12)]
    owners = {f"x{number}": brokers[number % 11] for number in range(110)}
    limits = limits_of(owners, {}, brokers, serving=len(brokers) - 1, room=1.2)
    plan = best_plan(cluster_of(owners, limits), brokers, "b00:1", refills=False)
    assert plan.steps[0].brokers == ("b11:1",)
    assert plan.moves == 110


GROUP = {f"t/n{number}": "g" for number in range(3)}


def in_groups(owners: dict[str, str]) -> Cluster:
    limits = dict.fromkeys(BROKERS[:3], Limit(10))
    return Cluster(owners, {}, limits, lambda _: frozenset(limits), GROUP)


def test_a_bundle_goes_to_the_broker_with_the_fewest_namespaces_of_its_group_even_if_it_restarts_later() -> None:
    a, b, c = BROKERS[:3]
    leaving = {"t/n0/0x1": a}
    for others, destination in (
        ({"t/n1/0x1": b}, c),
        ({"t/n1/0x1": b, "t/n2/0x1": c}, b),
        ({"t/n1/0x1": b, "t/n2/0x1": b, "t/n1/0x2": c}, c),
        ({"t/n0/0x2": b}, b),
        ({"t/other/0x1": b}, b),
    ):
        step = emptied(in_groups({**leaving, **others}), [a], restarted=[b], waiting=[c])
        assert [move.destination for move in step.moves] == [destination], others


def test_a_roll_never_puts_two_namespaces_of_a_group_together_that_fit_apart() -> None:
    owners = {"t/n0/0x1": BROKERS[0], "t/n1/0x1": BROKERS[1], **{f"t/x/0x{number}": BROKERS[2] for number in range(4)}}
    plan = best_plan(in_groups(owners), BROKERS[:3], LEADER)
    now = dict(owners)
    for move in itertools.chain(*(step.moves for step in plan.steps), plan.refill):
        now[move.bundle] = move.destination
        assert now["t/n0/0x1"] != now["t/n1/0x1"]
    assert plan.no_room == 0


def test_a_refill_does_not_bring_a_bundle_to_another_namespace_of_its_group() -> None:
    a, b = BROKERS[:2]
    owners = {**{f"t/n0/0x{number}": a for number in range(4)}, "t/x/0x1": a, "t/n1/0x1": b}
    assert [move.bundle for move in refilled(in_groups(owners), [b], [a, b])] == ["t/x/0x1"]
