"""Every strategy agrees with a slow, obvious version of itself, for any cluster."""

import random

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.filters.even_distribution import even_distribution
from pulsar_barycenter.load.filters.max_topics import max_topics
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.least_long_term_message_rate import (
    LeastLongTermMessageRate,
)
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.shedding.overload_shedder import OverloadShedder
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder
from pulsar_barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from support import load_oracles
from support.filter_outcomes import assert_narrows
from support.load_cases import MODULAR, Cluster, bundle_name, clusters, equal_bundles, histories
from support.short_forms import examples

thresholds = st.builds(
    ThresholdShedder,
    threshold=st.sampled_from([0.0, 0.1, 0.3]),
    history_weight=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    minimum_throughput=st.sampled_from([0.0, 1.0, 10.0 * 1_048_576]),
    lower_boundary=st.booleans(),
)
overloads = st.builds(OverloadShedder, limit=st.sampled_from([0.0, 0.5, 0.85]))
placements = st.builds(LeastLongTermMessageRate, overload_limit=st.sampled_from([0.0, 0.5, 0.85, 2.0]))


def shed(plan: ShedPlan) -> list[tuple[str, str]]:
    return [(unload.source, unload.bundle) for unload in plan]


@given(clusters(), thresholds, histories)
def test_the_threshold_shedder_agrees_with_its_oracle(
    cluster: Cluster, options: ThresholdShedder, history: dict[str, float]
) -> None:
    plan, after = options.decide(cluster.snapshot(), history)
    expected, scores = load_oracles.threshold_shedding(cluster, options, history)
    assert shed(plan) == expected
    assert dict(after) == scores


@given(clusters(), overloads)
def test_the_overload_shedder_agrees_with_its_oracle(cluster: Cluster, options: OverloadShedder) -> None:
    assert shed(options.decide(cluster.snapshot(), None)[0]) == load_oracles.overload_shedding(cluster, options)


@given(clusters(), placements, st.sets(st.integers(0, 5)), st.integers(0, 10))
def test_placement_is_among_what_its_oracle_allows(
    cluster: Cluster, options: LeastLongTermMessageRate, excluded: set[int], seed: int
) -> None:
    snapshot = cluster.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    names = {name for row, name in enumerate(snapshot.brokers.names) if candidates[row]}
    choice = options.decide(snapshot, candidates, "", random.Random(seed), None)[0]
    chosen = None if choice.broker is None else snapshot.brokers.names[choice.broker]
    allowed: set[str | None] = {*load_oracles.least_long_term(cluster, names, options)}
    assert chosen in (allowed or {None})
    assert choice.rejected_count == max(0, len(names) - 1)


@given(clusters(), st.sampled_from([1, 7, 20, 128]))
def test_the_splitter_agrees_with_its_oracle(cluster: Cluster, max_bundles: int) -> None:
    options = BundleLimits(max_bundles=max_bundles, max_bandwidth=5e7)
    counts = {name.rpartition("/")[0]: 6 for report in cluster.reports.values() for name in report.last_stats}
    plan = BundleSplitterTask(options).decide(cluster.snapshot(), counts, no_boundaries, None)[0]
    assert [split.bundle for split in plan] == load_oracles.too_large(cluster, options, counts)


@given(clusters(), thresholds, histories, st.integers(0, 5))
def test_decisions_do_not_depend_on_the_order_of_reports(
    cluster: Cluster, options: ThresholdShedder, history: dict[str, float], seed: int
) -> None:
    one, other = cluster.snapshot(), cluster.turned().snapshot()
    assert shed(options.decide(one, history)[0]) == shed(options.decide(other, history)[0])
    assert shed(OverloadShedder().decide(one, None)[0]) == shed(OverloadShedder().decide(other, None)[0])
    assert [place(one, seed), splits(one)] == [place(other, seed), splits(other)]


def splits(snapshot: object) -> list[str]:
    return [split.bundle for split in BundleSplitterTask(BundleLimits()).decide(snapshot, {}, no_boundaries, None)[0]]  # type: ignore[arg-type]


def place(snapshot: object, seed: int) -> str | None:
    options = SelectionSettings(MODULAR)
    placement, _ = select_broker(
        snapshot,  # type: ignore[arg-type]
        PlacementRequest(bundle_name(3, "t/a")),
        options,
        LeastLongTermMessageRate(),
        random.Random(seed),
        SelectionMemory(),
    )
    assert render(placement.reason)
    return placement.broker


@given(clusters(), thresholds, histories)
def test_no_bundle_is_shed_that_may_not_be(
    cluster: Cluster, options: ThresholdShedder, history: dict[str, float]
) -> None:
    """Only bundles that their source reports, with values, bound to no broker, not recently moved, each once."""
    plans = (
        options.decide(cluster.snapshot(), history)[0],
        OverloadShedder(limit=0.2).decide(cluster.snapshot(), None)[0],
    )
    for chosen in map(shed, plans):
        assert len(chosen) == len(set(chosen))
        for broker, bundle in chosen:
            assert bundle in cluster.reports[broker].bundles
            assert bundle in cluster.data
            assert bundle not in cluster.recently_unloaded
            assert not load_oracles.is_bound(bundle)
            assert len(cluster.reports[broker].bundles) > 1


@given(st.integers(1, 8), st.floats(0, 84), st.integers(0, 5), st.booleans())
def test_a_balanced_cluster_is_left_alone(brokers: int, cpu: float, bundles: int, lower_boundary: bool) -> None:
    cluster = Cluster()
    for number in range(brokers):
        cluster.add(
            f"b{number}", cpu=cpu, bundles=equal_bundles(bundles, throughput=1e9, first=10 * number) if bundles else {}
        )
    options = ThresholdShedder(lower_boundary=lower_boundary)
    history: dict[str, float] = {}
    for _ in range(3):
        plan, history = options.decide(cluster.snapshot(), history)  # type: ignore[assignment]
        assert not shed(plan)
    assert not shed(OverloadShedder().decide(cluster.snapshot(), None)[0])


@given(clusters(), thresholds, histories)
def test_every_verdict_has_a_sentence_and_survives_json(
    cluster: Cluster, options: ThresholdShedder, history: dict[str, float]
) -> None:
    snapshot = cluster.snapshot()
    plans = (
        options.decide(snapshot, history)[0],
        OverloadShedder().decide(snapshot, None)[0],
    )
    for plan in plans:
        assert render(plan.reason)
        for decision in (*plan, *plan.refusals()):
            assert render(decision.reason)
            assert msgspec.json.decode(msgspec.json.encode(decision), type=type(decision)) == decision
    for split in (
        BundleSplitterTask(BundleLimits(max_bundles=3)).decide(snapshot, {}, no_boundaries, None)[0].refusals()
    ):
        assert render(split.reason)


odd = st.floats(allow_nan=True, allow_infinity=True)


@given(clusters(max_brokers=3), st.lists(odd, min_size=8, max_size=8), thresholds, histories)
@settings(max_examples=examples(150))
def test_figures_that_are_no_numbers_never_stop_a_decision(
    cluster: Cluster, numbers: list[float], options: ThresholdShedder, history: dict[str, float]
) -> None:
    """They are bounded and flagged; brokers without them are judged as if the odd values were 0."""
    from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, TimeAverageMessageData

    stats = NamespaceBundleStats(msg_throughput_in=numbers[0], msg_rate_out=numbers[1], topics=3)
    cluster.add("odd:1", bundles={bundle_name(90): stats, bundle_name(91): stats})
    cluster.reports["odd:1"] = msgspec.structs.replace(
        cluster.reports["odd:1"],
        cpu=ResourceUsage(numbers[2], numbers[3]),
        bandwidth_out=ResourceUsage(numbers[4], numbers[5]),
        msg_throughput_in=numbers[6],
    )
    cluster.data[bundle_name(90)] = msgspec.structs.replace(
        cluster.data[bundle_name(90)],
        short_term_data=TimeAverageMessageData(max_samples=10, num_samples=10, msg_throughput_out=numbers[7]),
    )
    snapshot = cluster.snapshot()
    for plan in (
        options.decide(snapshot, history)[0],
        OverloadShedder().decide(snapshot, None)[0],
    ):
        assert all(render(decision.reason) for decision in (*plan, *plan.refusals()))
    assert np.isfinite(snapshot.brokers.percent).all()
    place(snapshot, 1)
    splits(snapshot)


@given(clusters(), st.integers(0, 70_000), st.sampled_from(["t/a", "t/b", "t/none"]), st.sets(st.integers(0, 5)))
def test_filters_only_remove(cluster: Cluster, maximum: int, namespace: str, excluded: set[int]) -> None:
    snapshot = cluster.snapshot()
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    for outcome in (max_topics(snapshot, candidates, maximum), even_distribution(snapshot, candidates, namespace)):
        assert_narrows(snapshot, candidates, outcome)
        assert outcome.kept.any() == candidates.any()


@given(clusters(), st.integers(0, 5))
def test_the_same_seed_gives_the_same_placement(cluster: Cluster, seed: int) -> None:
    assert place(cluster.snapshot(), seed) == place(cluster.snapshot(), seed)
