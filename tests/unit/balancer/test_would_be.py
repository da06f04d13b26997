"""The reports as they would be with bundles elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.balancer.judging.would_be import differing, would_be
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage

A, B = "a:1", "b:1"


def report(cpu: float, **throughputs: float) -> LocalBrokerData:
    stats = {
        name: NamespaceBundleStats(msg_throughput_in=value, msg_rate_in=value / 10)
        for name, value in throughputs.items()
    }
    return LocalBrokerData(
        cpu=ResourceUsage(cpu, 400.0),
        memory=ResourceUsage(100.0, 1000.0),
        msg_throughput_in=sum(throughputs.values()),
        last_stats=stats,
        bundles=(*sorted(stats), "idle"),
    )


def test_a_bundle_takes_its_share_of_cpu_along_and_leaves_memory() -> None:
    reports = {A: report(100.0, x=30.0, y=10.0), B: report(20.0, z=5.0)}
    owners = {"x": A, "y": A, "z": B, "idle": A}
    after = would_be(reports, owners, {"x": B})
    assert (after[A].cpu.usage, after[B].cpu.usage) == (25.0, 95.0)
    assert after[A].memory == reports[A].memory
    assert (set(after[A].last_stats), set(after[B].last_stats)) == ({"y"}, {"x", "z"})
    assert "x" not in after[A].bundles
    assert "x" in after[B].bundles
    assert "idle" in after[A].bundles, "a bundle without load stays listed"
    assert after[B].msg_throughput_in == 35.0


def test_nothing_that_differs_changes_nothing() -> None:
    reports = {A: report(100.0, x=30.0), B: report(20.0, z=5.0)}
    owners = {"x": A, "z": B}
    assert would_be(reports, owners, {}) == reports
    assert would_be(reports, owners, {"x": A, "gone": B, "z": "c:1"}) == reports
    assert differing({"x": A, "z": "c:1"}, owners, reports) == {}


def test_brokers_without_a_known_limit_keep_their_usage() -> None:
    unknown = ResourceUsage(-1.0, -1.0)
    reports = {A: report(100.0, x=30.0), B: LocalBrokerData(cpu=unknown, bandwidth_in=unknown)}
    assert would_be(reports, {"x": A}, {"x": B})[B].cpu == unknown


@given(st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), min_size=1, max_size=8))
def test_the_load_of_all_brokers_together_stays(bundles: list[tuple[float, bool]]) -> None:
    names = {f"b{number}": throughput for number, (throughput, _) in enumerate(bundles)}
    places = {f"b{number}": B for number, (_, moves) in enumerate(bundles) if moves}
    reports = {A: report(80.0, **names), B: report(10.0, other=1.0)}
    after = would_be(reports, dict.fromkeys(names, A) | {"other": B}, places)
    assert sum(one.cpu.usage for one in after.values()) == pytest.approx(90.0)
    assert sum(one.msg_throughput_in for one in after.values()) == pytest.approx(sum(names.values()) + 1.0)
