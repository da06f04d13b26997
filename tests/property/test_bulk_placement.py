"""Placing many bundles at once gives the answers, the memory and the draws of placing one after the other."""

import random

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.placement.avg_shedder import Pins
from barycenter.load.placement.bulk import BULK_PLACERS, place_plan
from barycenter.load.placement.choice import PlacementMemory
from barycenter.load.placement.drawing import draws
from barycenter.load.placement.least_long_term_message_rate import (
    LeastLongTermMessageRateSettings,
    least_long_term_message_rate,
    place_all,
)
from barycenter.load.placement.least_resource_usage_with_weight import LeastResourceUsageMemory
from barycenter.load.placement.round_robin_broker_selector import RoundRobinMemory
from barycenter.load.selection.modular_selection import SelectionMemory
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.strategies import PLACERS, SHEDDERS, with_plan
from support.load_cases import Cluster, bundle_name, clusters, equal_bundles, histories, rates, steady

overloads = st.builds(LeastLongTermMessageRateSettings, overload_limit=st.sampled_from([0.0, 0.5, 0.85, 2.0]))
broker_ids = st.integers(0, 99).map(lambda number: f"b{number}:8080")
pins = st.dictionaries(st.integers(0, 30).map(lambda index: bundle_name(index, "t/a")), broker_ids, max_size=9)
configurations = st.builds(
    lambda difference, weight: msgspec.structs.replace(
        BrokerConfig(),
        load_balancer_average_resource_usage_difference_threshold_percentage=difference,
        load_balancer_history_resource_percentage=weight,
    ),
    st.sampled_from([0, 1, 10]),
    st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)


@given(st.integers(0, 2**40), st.integers(1, 70) | st.sampled_from([1000, 2**31, 2**32 - 1, 2**32]), st.integers(0, 90))
def test_many_draws_are_so_many_single_draws(seed: int, below: int, count: int) -> None:
    one, many = random.Random(seed), random.Random(seed)
    assert draws(many, below, count).tolist() == [one.randrange(below) for _ in range(count)]
    assert one.getstate() == many.getstate()


@given(
    clusters(),
    st.lists(rates | st.just(float("inf")), max_size=40),
    overloads,
    st.sets(st.integers(0, 5)),
    st.integers(),
)
def test_least_long_term_message_rate(
    cluster: Cluster, values: list[float], options: LeastLongTermMessageRateSettings, excluded: set[int], seed: int
) -> None:
    """Each choice is preallocated before the next; a rate that is no number counts as 0."""
    snapshot = cluster.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    one, many = random.Random(seed), random.Random(seed)
    at_once = place_all(snapshot, candidates, np.array(values, float), options, many)
    for number, rate in enumerate(values):
        choice = least_long_term_message_rate(snapshot, candidates, options, one)
        assert at_once[number] == (-1 if choice.broker is None else choice.broker)
        if choice.broker is not None:
            data = steady(next(iter(equal_bundles(1, throughput=0, rate=rate).values())))
            broker = snapshot.brokers.names[choice.broker]
            snapshot = snapshot.adding_preallocation(broker, bundle_name(number, "t/new"), data)
    assert one.getstate() == many.getstate()


def one_by_one(
    name: str,
    config: BrokerConfig,
    snapshot: LoadSnapshot,
    rng: random.Random,
    memory: PlacementMemory,
    excluded: set[int],
) -> tuple[list[int], PlacementMemory]:
    place = PLACERS[name](config)
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    found = []
    for bundle in snapshot.bundles.names:
        choice, memory = place(snapshot, candidates, bundle, rng, memory)
        found.append(-1 if choice.broker is None else choice.broker)
    return found, memory


def check(
    name: str, config: BrokerConfig, cluster: Cluster, memory: PlacementMemory, excluded: set[int], seed: int
) -> None:
    snapshot = cluster.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    one, many = random.Random(seed), random.Random(seed)
    expected, remembered = one_by_one(name, config, snapshot, one, memory, excluded)
    rows = np.arange(len(snapshot.bundles))
    placed, after = BULK_PLACERS[name](config)(snapshot, candidates, rows, many, memory)
    assert placed.tolist() == expected
    assert one.getstate() == many.getstate()
    match after, remembered:
        case Pins(), Pins():
            assert dict(after) == dict(remembered)
        case LeastResourceUsageMemory(), LeastResourceUsageMemory():
            assert after.names == remembered.names
            assert np.array_equal(after.usage, remembered.usage, equal_nan=True)
        case _:
            assert after == remembered or (not rows.size and remembered == memory)


excluded_rows = st.sets(st.integers(0, 5))


@given(clusters(), configurations, histories, excluded_rows, st.integers(0, 9))
def test_least_resource_usage(
    cluster: Cluster, config: BrokerConfig, history: dict[str, float], excluded: set[int], seed: int
) -> None:
    memory = LeastResourceUsageMemory(tuple(history), np.array(list(history.values()), float))
    check("LeastResourceUsageWithWeight", config, cluster, memory, excluded, seed)


def test_least_resource_usage_until_the_histories_are_at_rest() -> None:
    """They start far from usages that differ, and more bundles are placed than it takes them to arrive."""
    cluster = Cluster()
    for number in range(7):
        load = equal_bundles(100, throughput=1e6, first=100 * number, rate=1e3)
        cluster.add(f"b{number}", cpu=13.0 * number, bundles=load)
    memory = LeastResourceUsageMemory(("b1", "b2"), np.array([0.9, 0.1]))
    check("LeastResourceUsageWithWeight", BrokerConfig(), cluster, memory, {6}, 1)


@given(clusters(), st.integers(0, 9) | st.integers(2**31 - 9, 2**31 - 1), st.permutations(range(100)), excluded_rows)
def test_round_robin(cluster: Cluster, counter: int, order: list[int], excluded: set[int]) -> None:
    """With an order remembered of brokers some of which are no candidates now."""
    known = [name for number in order if (name := f"b{number}:8080") in cluster.reports or number < 2]
    for length in range(len(known) + 1):
        check(
            "RoundRobinBrokerSelector",
            BrokerConfig(),
            cluster,
            RoundRobinMemory(counter, tuple(known[:length])),
            excluded,
            0,
        )


@given(clusters(), pins, pins, excluded_rows, st.integers(0, 9))
def test_avg_shedder(
    cluster: Cluster, settled: dict[str, str], recent: dict[str, str], excluded: set[int], seed: int
) -> None:
    """Bundles that two brokers report are left out: each is placed once."""
    seen: set[str] = set()
    for name, report in cluster.reports.items():
        kept = {bundle: stats for bundle, stats in report.last_stats.items() if bundle not in seen}
        seen.update(kept)
        cluster.reports[name] = msgspec.structs.replace(report, last_stats=kept, bundles=tuple(kept))
    check("AvgShedder", BrokerConfig(), cluster, Pins(settled, recent), excluded, seed)


@given(clusters(), st.sampled_from(sorted(SHEDDERS)), st.sampled_from(sorted(BULK_PLACERS)), st.integers(0, 9))
def test_what_is_shed_is_placed_where_it_shall_go(cluster: Cluster, shedder: str, placer: str, seed: int) -> None:
    """Destinations are those of the decisions with their reasons, and only a strategy that heeds them gets them."""
    config = msgspec.structs.replace(
        BrokerConfig(),
        load_balancer_bundle_unload_min_throughput_threshold=0.0,
        min_unload_message=0,
        load_balancer_avg_shedder_hit_count_high_threshold=1,
    )
    snapshot = cluster.snapshot()
    plan, _ = SHEDDERS[shedder](config)(snapshot, None)
    place = BULK_PLACERS[placer](config)
    found, _ = place_plan(plan, place, random.Random(seed))
    goals = {unload.bundle: unload.destination for unload in plan if unload.destination is not None}
    assert dict(plan.destinations()) == goals
    remembered = with_plan(SelectionMemory(), plan).placement
    expected, _ = place(snapshot, np.ones(len(snapshot.brokers), bool), plan.rows, random.Random(seed), remembered)
    assert found.tolist() == expected.tolist()
    if goals and placer == "AvgShedder":
        assert [snapshot.brokers.names[row] for row in found.tolist()] == list(goals.values())
