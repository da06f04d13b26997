"""The properties of every replay, for any load, strategy and events of brokers."""

from dataclasses import replace as changed
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.reports.load_report import default_bundle_data
from pulsar_barycenter.load.reports.windows import broker_averages, fold_bundle
from pulsar_barycenter.load.rounds.snapshot_rounds import shedding_rounds
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.strategies import PLACEMENT_KEY, SHEDDING_KEY
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.events import BrokerAdded, BrokerCrashed, BrokerRemoved, BrokerSlowed, Event, ReportsLost
from pulsar_barycenter.replay.measures import measure
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import START_MS, Shape, broker_names, generated
from support.replayed_world import BROKERS, World

EAGER = {
    "loadBalancerBundleUnloadMinThroughputThreshold": "0",
    "loadBalancerAvgShedderHitCountLowThreshold": "1",
    "loadBalancerAvgShedderLowThreshold": "1",
    "loadBalancerBrokerThresholdShedderPercentage": "2",
    "minUnloadMessage": "0",
    "loadBalancerNamespaceBundleMaxMsgRate": "8000",
    "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": "1",
    "loadBalancerSheddingGracePeriodMinutes": "3",
}
STRATEGIES = [
    {SHEDDING_KEY: "ThresholdShedder", PLACEMENT_KEY: "LeastResourceUsageWithWeight"},
    {SHEDDING_KEY: "OverloadShedder", PLACEMENT_KEY: "RoundRobinBrokerSelector"},
    {SHEDDING_KEY: "UniformLoadShedder", PLACEMENT_KEY: "LeastLongTermMessageRate"},
    {SHEDDING_KEY: "DeviationShedder", PLACEMENT_KEY: "LeastLongTermMessageRate"},
    {SHEDDING_KEY: "AvgShedder", PLACEMENT_KEY: "AvgShedder"},
    {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name},
    {"loadManagerClassName": ManagerKind.SIMPLE.class_name},
    {"loadManagerClassName": ManagerKind.NOOP.class_name},
]
STEP_MS = 60_000


@st.composite
def cases(draw: st.DrawFn) -> tuple[Demand, Cluster, list[Event], BrokerConfig, int]:
    shape = Shape(
        brokers=draw(st.integers(1, 5)),
        bundles=draw(st.integers(4, 24)),
        namespaces=draw(st.integers(1, 3)),
        steps=draw(st.integers(2, 14)),
        rate=draw(st.sampled_from([0.0, 20_000.0, 300_000.0, 900_000.0])),
        spread=draw(st.sampled_from([0.0, 1.0, 2.0])),
        noise=draw(st.sampled_from([0.0, 0.3])),
        topics=draw(st.sampled_from([1, 2, 30])),
    )
    seed = draw(st.integers(0, 99))
    demand = generated(shape, seed)
    if draw(st.booleans()):
        demand = changed(demand, owners=("",) * len(demand.bundles))
    brokers = broker_names(shape.brokers)
    at_ms = st.integers(0, shape.steps - 1).map(lambda step: START_MS + step * STEP_MS)
    one = st.sampled_from(brokers)
    happens = st.one_of(
        st.builds(BrokerAdded, at_ms, st.just("new:8080")),
        st.builds(BrokerRemoved, at_ms, one),
        st.builds(BrokerCrashed, at_ms, one),
        st.builds(BrokerSlowed, at_ms, one, st.sampled_from([0.5, 3.0])),
        st.builds(ReportsLost, at_ms, one, at_ms),
    )
    events: list[Event] = [BrokerAdded(START_MS, "new:8080"), *draw(st.lists(happens, max_size=3))]
    cores = draw(st.lists(st.sampled_from([4.0, 8.0, 32.0]), min_size=len(brokers), max_size=len(brokers)))
    cluster = Cluster(dict(zip(brokers, map(Capacity, cores), strict=True)))
    config = with_overrides(BrokerConfig(), {**EAGER, **draw(st.sampled_from(STRATEGIES))})
    return demand, cluster, events, config, seed


def in_bytes(outcome: Outcome) -> bytes:
    """Return all of an outcome as bytes."""
    arrays = (outcome.at_ms, outcome.live, outcome.usage, outcome.cpu, outcome.rate, outcome.unserved, outcome.floor)
    told: Any = (outcome.moves, outcome.splits, outcome.unserved_topic_s, measure(outcome))
    return b"".join(each.tobytes() for each in arrays) + msgspec.json.encode(told)


@settings(max_examples=25, deadline=None)
@given(cases())
def test_load_is_conserved_and_never_below_the_floor(
    case: tuple[Demand, Cluster, list[Event], BrokerConfig, int],
) -> None:
    demand, cluster, events, config, seed = case
    outcome = replay(demand, cluster, config, events, seed=seed)
    asked = (demand.rate_in + demand.rate_out).sum(axis=1)
    np.testing.assert_allclose(outcome.rate.sum(axis=1) + outcome.unserved, asked, rtol=1e-9, atol=1e-6)
    assert not outcome.rate[~outcome.live].any()
    assert (outcome.floor <= outcome.usage.max(axis=1) * (1 + 1e-9)).all()
    found = measure(outcome)
    assert found.max_over_mean >= 1 - 1e-9
    assert found.area >= 0
    assert found.regret >= 0
    assert found.unserved_topic_s >= 0


@settings(max_examples=25, deadline=None)
@given(cases())
def test_a_bundle_is_on_one_broker_and_moves_from_there(
    case: tuple[Demand, Cluster, list[Event], BrokerConfig, int],
) -> None:
    demand, cluster, events, config, seed = case
    outcome = replay(demand, cluster, config, events, seed=seed)
    is_simple = manager_in_force(config) is ManagerKind.SIMPLE
    owner = dict(zip(demand.bundles, demand.owners, strict=True))
    splits = list(outcome.splits)
    for move in outcome.moves:
        while splits and (move.bundle not in owner or (splits[0].at_ms < move.at_ms)):
            split = splits.pop(0)
            broker = owner.pop(split.bundle)
            assert broker == split.broker
            owner.update(dict.fromkeys(split.parts, broker))
        assert owner[move.bundle] == move.source
        # the next lookup of the simple load manager may send clients back
        assert move.destination != move.source or move.kind != "unload" or is_simple
        owner[move.bundle] = move.destination
    for split in splits:
        owner.update(dict.fromkeys(split.parts, owner.pop(split.bundle)))
    assert len(owner) == outcome.bundles


@settings(max_examples=25, deadline=None)
@given(cases())
def test_the_same_seed_gives_the_same_bytes(case: tuple[Demand, Cluster, list[Event], BrokerConfig, int]) -> None:
    demand, cluster, events, config, seed = case
    once, again = (replay(demand, cluster, config, events, seed=seed) for _ in range(2))
    assert in_bytes(once) == in_bytes(again)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 99))
def test_the_no_op_load_manager_moves_nothing(seed: int) -> None:
    shape = Shape(brokers=4, bundles=16, steps=30, rate=900_000, spread=2.0)
    config = with_overrides(BrokerConfig(), {"loadManagerClassName": ManagerKind.NOOP.class_name})
    outcome = replay(generated(shape, seed), Cluster(dict.fromkeys(broker_names(4), Capacity())), config, seed=seed)
    assert not outcome.moves
    assert not outcome.splits


@pytest.mark.parametrize(
    "strategy", [each for each in STRATEGIES if SHEDDING_KEY in each], ids=lambda each: each[SHEDDING_KEY]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_round_moves_what_decide_says_of_the_same_reports(strategy: dict[str, str], seed: int) -> None:
    config = with_overrides(BrokerConfig(), {**EAGER, **strategy, "loadBalancerAutoBundleSplitEnabled": "false"})
    world = World(seed, ManagerKind.MODULAR)
    world.step(0)
    reports = {broker: world.report(row, 1) for row, broker in enumerate(BROKERS)}
    stats = {name: each for report in reports.values() for name, each in report.last_stats.items()}
    windows = {name: fold_bundle(default_bundle_data(), each) for name, each in stats.items()}
    known = build_snapshot(
        reports, windows, {broker: broker_averages(report.last_stats, windows) for broker, report in reports.items()}
    )
    rounds, _ = shedding_rounds(known, config, MemoryDocument(), 1, seed)
    wanted = [(line.bundle, line.source, line.destination) for line in rounds[0] if line.kind == "unload"]
    cluster = Cluster(dict.fromkeys(BROKERS, Capacity()))
    outcome = replay(world.demand.period(0, 1), cluster, config, seed=seed)
    assert [(move.bundle, move.source, move.destination) for move in outcome.moves] == wanted
