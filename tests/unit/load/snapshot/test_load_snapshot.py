"""The snapshot: sorted columns, bounded values."""

import math
import subprocess
import sys

import numpy as np

from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    ResourceWeights,
    percent_usage,
)
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import raw_percent
from support.load_cases import Cluster, bundle_name, bundles_of_namespace, equal_bundles


def test_rows_are_in_the_order_of_names_whatever_the_order_of_reports() -> None:
    cluster = Cluster()
    cluster.add("b:2", bundles=equal_bundles(2, throughput=4, first=5))
    cluster.add("a:1", bundles=equal_bundles(1, throughput=7, first=9) | equal_bundles(1, throughput=1))
    snapshot = cluster.snapshot()
    assert snapshot.brokers.names == ("a:1", "b:2")
    assert list(snapshot.bundles.names) == [bundle_name(n) for n in (0, 5, 6, 9)]
    assert snapshot.bundles.owner.tolist() == [0, 1, 1, 0]
    assert snapshot.bundles.short.throughput.tolist() == [1, 2, 2, 7]
    assert snapshot.brokers.long.throughput.tolist() == [8, 4]


def test_a_bundle_that_two_brokers_report_stands_once_for_each() -> None:
    stats = equal_bundles(1, throughput=1)
    snapshot = Cluster().add("a", bundles=stats).add("b", bundles=stats).snapshot()
    assert (list(snapshot.bundles.names), snapshot.bundles.owner.tolist()) == ([bundle_name(0)] * 2, [0, 1])


def test_column_percentages_are_the_scalar_ones() -> None:
    cases = [
        (1, 3),
        (2, 3),
        (-1, 100),
        (5, 0),
        (5, -1),
        (1e-40, 7),
        (1e300, 1e300),
        (7, 1e-60),
        (math.nan, 1),
        (3, math.inf),
    ]
    usage, limit = np.array([c[0] for c in cases], float), np.array([c[1] for c in cases], float)
    np.testing.assert_array_equal(raw_percent(usage, limit), [percent_usage(*case) for case in cases])


def test_figures_that_are_no_numbers_count_as_0_and_are_flagged() -> None:
    cluster = Cluster().add("good", cpu=50).add("odd", cpu=50)
    cluster.reports["odd"] = LocalBrokerData(cpu=ResourceUsage(math.inf, 100), bandwidth_in=ResourceUsage(30, 100))
    snapshot = cluster.snapshot()
    assert snapshot.brokers.suspect.tolist() == [False, True]
    assert np.round(snapshot.brokers.weighted_usage(ResourceWeights()), 6).tolist() == [0.5, 0.3]
    assert "odd" in snapshot.brokers.flags_of(1)[0]


def test_a_limit_near_0_does_not_make_a_usage_infinite() -> None:
    snapshot = Cluster().add("odd", cpu=50, cpu_limit=1e-60).snapshot()
    assert (snapshot.brokers.percent[0, 0], snapshot.brokers.suspect[0]) == (0, True)


def test_only_listed_bundles_with_windows_and_bound_to_no_broker_may_be_shed() -> None:
    names = [bundle_name(0), bundle_name(1), bundle_name(2), "pulsar/system/0x0_0x1", "pulsar/h:8080/0x0_0x1"]
    cluster = Cluster().add("b", bundles={name: NamespaceBundleStats() for name in names})
    del cluster.data[bundle_name(1)]
    cluster.recently_unloaded = {bundle_name(2)}
    snapshot = cluster.snapshot()
    allowed = [snapshot.bundles.names[row] for row in np.flatnonzero(snapshot.bundles.may_shed)]
    assert allowed == ["pulsar/system/0x0_0x1", bundle_name(0)]


def test_preallocations_for_unknown_brokers_are_left_out() -> None:
    cluster = Cluster().add("b", bundles=equal_bundles(2, throughput=0, rate=40))
    data = cluster.data[bundle_name(0)]
    snapshot = cluster.snapshot().with_preallocations({"b": {"t/x/1": data, "t/x/2": data}, "gone": {"t/x/3": data}})
    assert snapshot.preallocated_long_rate.tolist() == [40]
    assert snapshot.preallocated_topics.tolist() == [4]


def test_an_empty_cluster_has_an_empty_snapshot() -> None:
    snapshot = build_snapshot({}, {}, {})
    assert (len(snapshot.brokers), len(snapshot.bundles)) == (0, 0)
    assert bundles_of_namespace(snapshot, "t/ns").tolist() == []


def test_what_every_broker_imports_needs_no_numpy() -> None:
    """An idle broker has little memory; only a leader decides."""
    modules = (
        "cli.run.broker",
        "load.reports.windows",
        "load.decisions",
        "load.strategies",
        "broker.load_manager.modular.modular_load_manager",
    )
    program = "; ".join(
        [*(f"import pulsar_barycenter.{name}" for name in modules), "import sys; sys.exit('numpy' in sys.modules)"]
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_of_0_and_minus_0_the_first_is_the_largest_usage() -> None:
    """As Pulsar's maximum; AvgShedder orders brokers by it, and Java puts -0 before 0."""
    usage = Cluster().add("a", cpu=-0.0).add("b", cpu=0.0).snapshot().brokers.weighted_usage(ResourceWeights())
    assert np.signbit(usage).tolist() == [True, False]


def test_counts_beyond_all_reason_are_bounded() -> None:
    stats = {bundle_name(0): NamespaceBundleStats(topics=2**70), bundle_name(1): NamespaceBundleStats(topics=-(2**60))}
    snapshot = Cluster().add("b", bundles=stats | {bundle_name(2): NamespaceBundleStats(topics=3)}).snapshot()
    assert snapshot.bundles.topics.tolist() == [2**53, -(2**53), 3]
    del stats[bundle_name(0)]
    assert Cluster().add("b", bundles=stats).snapshot().bundles.topics.tolist() == [-(2**53)]
