"""The simple load manager's shedding and splitting, by worked examples."""

from typing import Any

import pytest

from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.shedding import SimpleShedder, SimpleShedPlan
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.load.simple.splitting import SimpleSplitter
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from support.load_cases import bundle_name

A, B, C = (bundle_name(index) for index in range(3))


def report(bundles: dict[str, NamespaceBundleStats] | None = None, **percents: float) -> LoadReport:
    usage = {name: ResourceUsage(percent, 100) for name, percent in percents.items()}
    return complete(LoadReport(system_resource_usage=SystemResourceUsage(**usage), bundle_stats=bundles or {}))


def planned(reports: dict[str, LoadReport], *recent: str, **settings: Any) -> SimpleShedPlan:
    return SimpleShedder(SimpleSettings(**settings)).decide(
        build_simple_snapshot(reports, recently_unloaded=recent), None
    )[0]


def moved(plan: SimpleShedPlan) -> list[tuple[str, str]]:
    return [(unload.source, unload.bundle) for unload in plan]


BUNDLES = {
    A: NamespaceBundleStats(msg_rate_in=300, topics=2),
    B: NamespaceBundleStats(msg_throughput_in=3e6, topics=3000),
    C: NamespaceBundleStats(msg_throughput_out=4e6),
}


@pytest.mark.parametrize(
    ("percents", "bundle", "words"),
    [
        ({"cpu": 90.0}, A, "message rate, 300 msg/s, because the bottleneck is CPU"),
        ({"cpu": 86.0, "memory": 90.0}, B, "topics and sessions, 3000, because the bottleneck is Memory"),
        ({"bandwidth_in": 90.0}, B, "incoming throughput, 2.861 MiB/s, because the bottleneck is BandwidthIn"),
        ({"bandwidth_out": 90.0}, C, "outgoing throughput, 3.815 MiB/s, because the bottleneck is BandwidthOut"),
        ({"direct_memory": 90.0}, A, "because the bottleneck is CPU"),
    ],
)
def test_the_heaviest_bundle_by_the_bottleneck_leaves(percents: dict[str, float], bundle: str, words: str) -> None:
    plan = planned({"hot": report(BUNDLES, **percents), "cool": report(cpu=10)})
    assert moved(plan) == [("hot", bundle)]
    sentence = render(next(iter(plan)).reason)
    assert words in sentence
    assert "highest usage of cool 10 % < comfort level 65 %" in sentence
    assert "overload threshold 85 %" in sentence


def test_memory_alone_overloads_nobody() -> None:
    plan = planned({"hot": report(BUNDLES, memory=99), "cool": report()})
    assert not moved(plan)
    assert plan.reason.code is Code.BALANCED


def test_the_thresholds_are_strict() -> None:
    assert not moved(planned({"hot": report(BUNDLES, cpu=85), "cool": report(cpu=10)}))
    assert not moved(planned({"hot": report(BUNDLES, cpu=86), "cool": report(cpu=65)}))
    assert moved(planned({"hot": report(BUNDLES, cpu=86), "cool": report(cpu=64)}))


def test_one_bundle_leaves_each_overloaded_broker() -> None:
    other = {bundle_name(10 + index): NamespaceBundleStats(msg_rate_in=100 * index) for index in range(9)}
    plan = planned({"h1": report(BUNDLES, cpu=90), "h2": report(other, cpu=99), "cool": report(cpu=1)})
    assert moved(plan) == [("h1", A), ("h2", bundle_name(18))]
    assert plan.reason.code is Code.ABOVE_LIMIT


def test_equal_bundles_fall_to_the_general_order_and_then_to_the_smaller_name() -> None:
    equal = {name: NamespaceBundleStats(msg_rate_in=120) for name in (C, B, A)}
    assert moved(planned({"hot": report(equal, cpu=90), "cool": report()})) == [("hot", A)]
    equal[B] = NamespaceBundleStats(msg_rate_in=120, msg_throughput_out=200_000)
    assert moved(planned({"hot": report(equal, cpu=90), "cool": report()})) == [("hot", B)]
    equal[C] = NamespaceBundleStats(msg_rate_in=199.9)
    assert moved(planned({"hot": report(equal, cpu=90), "cool": report()})) == [("hot", B)], "less than a step apart"


def test_what_stays_says_why() -> None:
    def why(plan: SimpleShedPlan) -> Code:
        assert not moved(plan)
        (refusal,) = (each for each in plan.refusals() if each.subject == "hot")
        assert refusal.reason.code is plan.reason.code
        return refusal.reason.code

    assert why(planned({"hot": report({A: BUNDLES[A]}, cpu=99), "cool": report()})) is Code.TOO_FEW_BUNDLES
    assert why(planned({"hot": report(cpu=99), "cool": report()})) is Code.TOO_FEW_BUNDLES
    assert why(planned({"hot": report(BUNDLES, cpu=99), "warm": report(cpu=70)})) is Code.NONE_COMFORTABLE
    assert why(planned({"hot": report(BUNDLES, cpu=99), "cool": report()}, A)) is Code.RECENTLY_UNLOADED
    assert moved(planned({"hot": report(BUNDLES, cpu=99), "cool": report()}, B)) == [("hot", A)]


def test_a_broker_that_does_not_serve_persistent_topics_has_no_room() -> None:
    closed = complete(
        LoadReport(system_resource_usage=report(cpu=1).system_resource_usage, persistent_topics_enabled=False)
    )
    assert not moved(planned({"hot": report(BUNDLES, cpu=99), "cool": closed}))


def test_bundles_bound_to_their_broker_are_neither_shed_nor_counted() -> None:
    heartbeat = "pulsar/hot:8080/0x00000000_0xffffffff"
    hot = {heartbeat: NamespaceBundleStats(msg_rate_in=9e9), A: BUNDLES[A]}
    plan = planned({"hot": report(hot, cpu=99), "cool": report()})
    assert plan.reason.code is Code.TOO_FEW_BUNDLES
    assert moved(planned({"hot": report({**hot, B: BUNDLES[B]}, cpu=99), "cool": report()})) == [("hot", A)]


def test_nothing_is_shed_from_nothing() -> None:
    assert planned({}).reason.code is Code.BALANCED
    assert not list(planned({}).refusals())


def test_a_bundle_is_split_by_what_it_carries_now() -> None:
    hot = NamespaceBundleStats(msg_rate_in=30_000, msg_rate_out=1, topics=2)
    sole = NamespaceBundleStats(msg_rate_in=90_000, topics=1)
    many = NamespaceBundleStats(consumer_count=900, producer_count=101, topics=2)
    snapshot = build_simple_snapshot({"a": report({A: hot, B: sole, C: many})})
    plan = SimpleSplitter(BundleLimits()).decide(snapshot, {"t/ns": 3}, no_boundaries, None)[0]
    assert [split.bundle for split in plan] == [A, C]
    assert "current rate in + out 30001 msg/s > limit 30000 msg/s" in render(next(iter(plan)).reason)
    assert [refusal.reason.code for refusal in plan.refusals()] == [Code.FEWER_THAN_TWO_TOPICS]
    full = SimpleSplitter(BundleLimits(max_bundles=4)).decide(snapshot, {"t/ns": 3}, no_boundaries, None)[0]
    assert [split.bundle for split in full] == [A], "the second would be one too many"
