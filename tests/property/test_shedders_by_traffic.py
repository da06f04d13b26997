"""The shedders that use traffic, gaps and deviations agree with slow, obvious versions of themselves."""

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.shedding.avg_shedder import AvgShedder, HitCounts
from pulsar_barycenter.load.shedding.deviation_shedder import DeviationShedder
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.range_threshold_shedder import RangeThresholdShedder
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder
from pulsar_barycenter.load.shedding.uniform_load_shedder import UniformLoadShedder
from support import load_oracles, shedding_oracles
from support.load_cases import Cluster, clusters, equal_bundles, histories

uniforms = st.builds(
    UniformLoadShedder,
    rate_difference=st.sampled_from([0.0, 10.0, 50.0, 1e9]),
    throughput_factor=st.sampled_from([0.0, 1.0, 4.0, 1e9]),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    minimum_rate=st.sampled_from([0, 1, 1000]),
    minimum_throughput=st.sampled_from([0, 1, 1_048_576]),
    max_bundles=st.sampled_from([-1, -1, 0, 1, 2]),
)

ranges = st.builds(
    ThresholdShedder,
    threshold=st.sampled_from([0.0, 0.1, 0.3]),
    history_weight=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    minimum_throughput=st.sampled_from([0.0, 1.0, 10.0 * 1_048_576]),
)
avgs = st.builds(
    AvgShedder,
    low=st.sampled_from([0.0, 5.0, 15.0, 50.0]),
    high=st.sampled_from([5.0, 40.0, 60.0]),
    low_hits=st.integers(1, 3),
    high_hits=st.integers(1, 2),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    minimum_rate=st.sampled_from([0, 1000, 50_000]),
    minimum_throughput=st.sampled_from([0, 1_048_576]),
)
hit_counts = st.dictionaries(st.integers(0, 99).map(lambda n: f"b{n}:8080"), st.integers(1, 9), max_size=4)


def shed(plan: ShedPlan) -> list[tuple[str, str]]:
    return [(unload.source, unload.bundle) for unload in plan]


def check(cluster: Cluster, plan: ShedPlan, again: ShedPlan) -> None:
    """No bundle that may not move, each once, the same for any order of reports, everything explained."""
    chosen = shed(plan)
    assert shed(again) == chosen
    assert len(chosen) == len(set(chosen))
    for broker, bundle in chosen:
        assert bundle in cluster.reports[broker].bundles
        assert bundle in cluster.data
        assert bundle not in cluster.recently_unloaded
        assert not load_oracles.is_bound(bundle)
    assert render(plan.reason)
    for decision in (*plan, *plan.refusals()):
        assert render(decision.reason)
        assert msgspec.json.decode(msgspec.json.encode(decision), type=type(decision)) == decision


def balanced(brokers: int, cpu: float, bundles: int) -> Cluster:
    cluster = Cluster()
    for number in range(brokers):
        load = equal_bundles(bundles, throughput=1e9, first=10 * number, rate=1e5) if bundles else {}
        cluster.add(f"b{number}", cpu=cpu, bundles=load)
    return cluster


balanced_clusters = st.builds(balanced, st.integers(0, 8), st.floats(0, 100), st.integers(0, 5))


@given(clusters(), uniforms)
def test_the_uniform_load_shedder_agrees_with_its_oracle(cluster: Cluster, options: UniformLoadShedder) -> None:
    plan = options.decide(cluster.snapshot(), None)[0]
    assert shed(plan) == shedding_oracles.uniform_shedding(cluster, options)
    check(cluster, plan, options.decide(cluster.turned().snapshot(), None)[0])


@given(balanced_clusters)
def test_the_uniform_load_shedder_leaves_a_balanced_cluster_alone(cluster: Cluster) -> None:
    assert not shed(UniformLoadShedder().decide(cluster.snapshot(), None)[0])


@given(clusters(), avgs, hit_counts, hit_counts, st.integers(1, 3))
def test_the_avg_shedder_agrees_with_its_oracle(
    cluster: Cluster, options: AvgShedder, low: dict[str, int], high: dict[str, int], rounds: int
) -> None:
    """Round after round, with the memory of the previous one."""
    hits = HitCounts(low, high)
    for _ in range(rounds):
        plan, after = options.decide(cluster.snapshot(), hits)
        expected, low, high = shedding_oracles.avg_shedding(cluster, options, low, high)
        assert [(unload.source, unload.bundle, unload.destination) for unload in plan] == expected
        assert (dict(after.low), dict(after.high)) == (low, high)
        again, counts = options.decide(cluster.turned().snapshot(), hits)
        assert counts == after
        check(cluster, plan, again)
        hits = after


@given(balanced_clusters)
def test_the_avg_shedder_leaves_a_balanced_cluster_alone(cluster: Cluster) -> None:
    hits = HitCounts()
    for _ in range(9):
        plan, hits = AvgShedder().decide(cluster.snapshot(), hits)
        assert not shed(plan)
    assert hits == HitCounts()


@given(clusters(), ranges, histories)
def test_the_range_threshold_shedder_agrees_with_its_oracle(
    cluster: Cluster, options: ThresholdShedder, history: dict[str, float]
) -> None:
    plan, after = RangeThresholdShedder(options).decide(cluster.snapshot(), history)
    expected, scores = shedding_oracles.range_shedding(cluster, options, history)
    assert shed(plan) == expected
    assert dict(after) == scores
    check(cluster, plan, RangeThresholdShedder(options).decide(cluster.turned().snapshot(), history)[0])


@given(balanced_clusters)
def test_the_range_threshold_shedder_leaves_a_balanced_cluster_alone(cluster: Cluster) -> None:
    history: dict[str, float] = {}
    for _ in range(3):
        plan, after = RangeThresholdShedder(ThresholdShedder()).decide(cluster.snapshot(), history)
        assert not shed(plan)
        history = dict(after)


@given(clusters(), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.booleans())
def test_the_deviation_shedder_agrees_with_its_oracle(cluster: Cluster, threshold: float, gains: bool) -> None:
    member = replace(DeviationShedder.of(BrokerConfig()), threshold=threshold, receiver_gains=gains)
    plan = member.decide(cluster.snapshot(), None)[0]
    assert shed(plan) == shedding_oracles.deviation_shedding(cluster, threshold, gains)
    check(cluster, plan, member.decide(cluster.turned().snapshot(), None)[0])


@given(balanced_clusters)
def test_the_deviation_shedder_leaves_a_balanced_cluster_alone(cluster: Cluster) -> None:
    assert not shed(DeviationShedder.of(BrokerConfig()).decide(cluster.snapshot(), None)[0])
