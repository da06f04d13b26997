"""The placements with a memory agree with slow, obvious versions of themselves."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.load.placement.avg_shedder import AvgShedderPlacement, PlannedTransfer
from pulsar_barycenter.load.placement.avg_shedder_pins import AvgShedderPins, Pins
from pulsar_barycenter.load.placement.least_resource_usage_with_weight import (
    LeastResourceUsageMemory,
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.placement.placer import PlacementChoice
from pulsar_barycenter.load.placement.round_robin_broker_selector import (
    RoundRobinBrokerSelector,
    RoundRobinMemory,
)
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from support import placement_oracles
from support.load_cases import Cluster, clusters, histories
from support.scripted_random import every_outcome

usages = st.builds(
    LeastResourceUsageWithWeight,
    difference=st.sampled_from([0.0, 0.1, 0.3]),
    history_weight=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
excluded_rows = st.sets(st.integers(0, 5))


def told(choice: PlacementChoice) -> tuple[object, ...]:
    return choice.broker, choice.code, choice.rejected_count, choice.settings, choice.figures()


def without(snapshot: LoadSnapshot, excluded: set[int]) -> tuple[Flags, list[str]]:
    flags = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    return flags, [name for row, name in enumerate(snapshot.brokers.names) if flags[row]]


@given(clusters(), usages, histories, st.lists(excluded_rows, max_size=4), st.integers(0, 3))
def test_least_resource_usage_draws_from_what_its_oracle_allows(
    cluster: Cluster,
    options: LeastResourceUsageWithWeight,
    history: dict[str, float],
    rounds: list[set[int]],
    seed: int,
) -> None:
    """Histories advance with each placement, only those of the candidates."""
    snapshot = cluster.snapshot()
    memory = LeastResourceUsageMemory(tuple(history), np.array(list(history.values()), float))
    for excluded in rounds:
        flags, names = without(snapshot, excluded)
        allowed, expected = placement_oracles.least_resource_usage(cluster, names, options, history)
        before = memory
        choice, memory = options.decide(snapshot, flags, "", random.Random(seed), before)
        assert told(choice) == told(options.decide(snapshot, flags, "", random.Random(seed), before)[0])
        assert (None if choice.broker is None else snapshot.brokers.names[choice.broker]) in (allowed or {None})
        assert len(choice.figures().rejected) == choice.rejected_count == max(0, len(names) - 1)
        if names:
            history = expected
            pairs = zip(memory.names, memory.usage.tolist(), strict=True)
            assert {name: usage for name, usage in pairs if usage == usage} == history


@given(clusters(), st.integers(0, 9) | st.just(2**31 - 1), st.lists(excluded_rows, max_size=8))
def test_round_robin_agrees_with_its_oracle(cluster: Cluster, counter: int, rounds: list[set[int]]) -> None:
    snapshot = cluster.snapshot()
    memory, order = RoundRobinMemory(counter), list[str]()
    for excluded in rounds:
        flags, names = without(snapshot, excluded)
        expected, counter, order = placement_oracles.round_robin(names, counter, order)
        choice, memory = RoundRobinBrokerSelector().decide(snapshot, flags, "", random.Random(0), memory)
        assert (None if choice.broker is None else snapshot.brokers.names[choice.broker]) == expected
        assert (memory.counter, memory.order) == (counter, tuple(order))


@given(clusters(), st.lists(st.tuples(excluded_rows, st.sampled_from(["x", "y", "z"])), max_size=20), st.integers(0, 3))
def test_avg_placement_keeps_to_its_pins_while_they_are_candidates(
    cluster: Cluster, requests: list[tuple[set[int], str]], seed: int
) -> None:
    """Pins: x to a broker of the cluster, y to one that left."""
    snapshot, rng = cluster.snapshot(), random.Random(seed)
    known = {"x": snapshot.brokers.names[-1] if len(snapshot.brokers) else "gone", "y": "gone"}
    pins = Pins(dict(known))
    for excluded, bundle in requests:
        flags, names = without(snapshot, excluded)
        before, state = pins, rng.getstate()
        choice, pins = AvgShedderPins().decide(snapshot, flags, bundle, rng, pins)
        chosen = None if choice.broker is None else snapshot.brokers.names[choice.broker]
        if not names:
            assert chosen is None
            continue
        assert chosen == known[bundle] if known.get(bundle) in names else chosen in names
        assert chosen is not None
        known[bundle] = chosen
        assert dict(pins) == known
        rng.setstate(state)
        assert told(AvgShedderPins().decide(snapshot, flags, bundle, rng, before)[0]) == told(choice)


@given(
    clusters(),
    excluded_rows,
    st.sampled_from([0.0, 30.0, 50.0, 85.0, 100.0]),
    st.none() | st.tuples(*[st.integers(0, 6)] * 2),
)
def test_avg_placement_of_5_draws_from_what_its_oracle_allows(
    cluster: Cluster, excluded: set[int], limit: float, rows: tuple[int, int] | None
) -> None:
    """A plan may name brokers that left; an unplanned bundle is drawn among all, and nothing of it is remembered."""
    snapshot, placer = cluster.snapshot(), AvgShedderPlacement(limit)
    flags, names = without(snapshot, excluded)
    known = (*snapshot.brokers.names, "gone")
    move = None if rows is None else PlannedTransfer(known[rows[0] % len(known)], known[rows[1] % len(known)])
    memory = {} if move is None else {"x": move}
    found = every_outcome(lambda rng: placer.decide(snapshot, flags, "x", rng, memory))
    chosen = {None if choice.broker is None else snapshot.brokers.names[choice.broker] for choice, _ in found}
    assert chosen == (placement_oracles.avg_shedder(cluster, names, placer, move) or {None})
    assert all(after is memory for _, after in found)
    assert memory == ({} if move is None else {"x": move})
