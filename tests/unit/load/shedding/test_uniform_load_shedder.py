"""UniformLoadShedder on numbers worked by hand (names W… are those of the published examples)."""

import pytest

from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.fitting import FittingPlan
from pulsar_barycenter.load.shedding.uniform_load_shedder import UniformLoadShedder
from support.load_cases import Cluster, bundle_name, equal_bundles, steady

MEGABYTE = 1e6


def brokers(*loads: tuple[float, float], bundles: int = 10) -> Cluster:
    """Return brokers b0, b1, … of these message rates and throughputs, each in as many equal bundles."""
    cluster = Cluster()
    for number, (rate, throughput) in enumerate(loads):
        cluster.add(f"b{number}", bundles=equal_bundles(bundles, throughput=throughput, rate=rate, first=100 * number))
    return cluster


def uniform(cluster: Cluster, **options: object) -> FittingPlan:
    return UniformLoadShedder(**options).decide(cluster.snapshot(), None)[0]  # type: ignore[arg-type]


def moved(plan: FittingPlan) -> list[str]:
    return [unload.bundle for unload in plan]


def test_w5_a_fifth_of_the_difference_of_rates_leaves() -> None:
    """50,000 and 30,000 msg/s: 66.7 % > 50; int(20,000 · 0.2) = 4,000 msg/s."""
    plan = uniform(brokers((50_000, 0), (30_000, 0), bundles=50))
    assert plan.verdicts.need[0] == 4000
    assert moved(plan) == [bundle_name(index) for index in range(4)]
    assert "66.67 % > threshold 50 %" in render(plan.reason)


def test_w6_a_fifth_of_the_difference_of_throughputs_leaves() -> None:
    """450 and 100 MB/s: 4.5 > 4; 70 MB/s, of bundles of 45 only one."""
    plan = uniform(brokers((0, 450 * MEGABYTE), (0, 100 * MEGABYTE)))
    assert plan.verdicts.need[0] == 70 * MEGABYTE
    assert moved(plan) == [bundle_name(0)]


def test_w14_the_stronger_broker_counts_as_the_loaded_one_only_beyond_the_threshold() -> None:
    """150 and 100 MB/s are 50 % apart, which is not above 50; with 40 % the stronger broker loses load, wrongly."""
    cluster = brokers((150_000, 150 * MEGABYTE), (100_000, 100 * MEGABYTE))
    assert len(uniform(cluster)) == 0
    assert uniform(cluster).reason.cause is not None
    assert {unload.source for unload in uniform(cluster, rate_difference=40.0, share=0.5)} == {"b0"}


def test_w22_one_broker_is_served_a_round() -> None:
    cluster = brokers(*[(50_000.0, 0.0)] * 100, *[(0.0, 0.0)] * 100, bundles=20)
    assert {unload.source for unload in uniform(cluster)} == {"b0"}


def test_rates_alone_count_when_they_are_too_far_apart() -> None:
    cluster = brokers((50_000, 1 * MEGABYTE), (30_000, 450 * MEGABYTE))
    assert {unload.source for unload in uniform(cluster, share=0.5)} == {"b0"}
    assert {unload.source for unload in uniform(cluster, rate_difference=0.0)} == {"b1"}


def test_a_bundle_that_does_not_fit_is_passed_over_and_idle_ones_fit() -> None:
    cluster = brokers((50_000, 0), (30_000, 0), bundles=5)
    for index, rate in enumerate((4001.0, 2500.9, 1600.0, 1500.0, 0.0)):
        cluster.data[bundle_name(index)] = steady(NamespaceBundleStats(msg_rate_in=rate))
    plan = uniform(cluster)
    assert moved(plan) == [bundle_name(1), bundle_name(3), bundle_name(4)], "4,000 - 2,500 leave room for 1,500"
    assert [entry.reason.compared[0].limit for entry in plan] == [4000, 1500, 0]
    assert moved(uniform(cluster, max_bundles=1)) == [bundle_name(1)]


@pytest.mark.parametrize(("minimum", "count"), [(4000, 40), (4001, 0)])
def test_the_minimum_is_included(minimum: int, count: int) -> None:
    plan = uniform(brokers((50_000, 0), (30_000, 0), bundles=500), minimum_rate=minimum)
    assert len(plan) == count
    assert plan.broker_reason(0).code is (Code.FAR_ABOVE_LEAST if count else Code.BELOW_MINIMUM_THROUGHPUT)


def test_the_last_bundle_stays() -> None:
    plan = uniform(brokers((50_000, 0), (30_000, 0), bundles=1))
    assert [refusal.reason.code for refusal in plan.refusals()] == [Code.TOO_FEW_BUNDLES, Code.NOT_THE_GREATEST]


def test_a_least_rate_of_nothing_counts_as_one_message() -> None:
    plan = uniform(brokers((10_001, 0), (0, 0)))
    assert plan.verdicts.need[0] == 2000


@pytest.mark.parametrize(
    ("rate", "throughput", "told"),
    [
        (0, 10e6, "difference to the lowest message rate, where 0 counts as 1 msg/s, 4999900 % > threshold 50 %"),
        (1, 10e6, "difference to the lowest message rate 4999900 % > threshold 50 %"),
        (50_000, 0, "ratio to the lowest throughput, where 0 counts as 1 byte/s, 10000000 > threshold 4"),
    ],
)
def test_a_least_load_that_counts_as_one_is_told(rate: float, throughput: float, told: str) -> None:
    plan = uniform(brokers((50_000, 10e6), (rate, throughput)))
    assert f"({told}, traffic to shed " in render(plan.reason)


def test_the_broker_with_the_highest_load_is_named_to_the_others() -> None:
    plan = uniform(brokers((10_000, 0), (50_000, 0)))
    assert "another broker has the highest load (traffic 10000 msg/s <= traffic of b1 50000 msg/s)" in render(
        plan.broker_reason(0)
    )


def test_an_empty_or_idle_cluster_says_so() -> None:
    assert uniform(Cluster()).reason.code is Code.BALANCED
    assert uniform(brokers((0, 0), (0, 0))).reason.code is Code.BALANCED
