"""RangeThresholdShedder on numbers worked by hand (names W… are those of the published examples)."""

import pytest

from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.range_threshold_shedder import RangeThresholdShedder
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder, UsageHistory
from support.load_cases import MEBIBYTE, Cluster, bundle_name, equal_bundles

GIGABYTE = 1e9


def at(*usages: float, bundles: int = 19, throughput: float = 10 * GIGABYTE) -> Cluster:
    cluster = Cluster()
    for number, usage in enumerate(usages):
        load = equal_bundles(bundles, throughput=throughput, first=100 * number)
        cluster.add(f"b{number:02}", cpu=usage, bundles=load)
    return cluster


def ranged(cluster: Cluster, history: UsageHistory | None = None) -> tuple[ShedPlan, UsageHistory]:
    return RangeThresholdShedder(ThresholdShedder()).decide(cluster.snapshot(), history or {})


def test_w7_an_overloaded_broker_sheds_as_by_the_threshold() -> None:
    """40, 10, 10: mean 20, limit 30; 15 % of the throughput."""
    plan, _ = ranged(at(40, 10, 10))
    assert [unload.bundle for unload in plan] == [bundle_name(index) for index in range(3)]
    assert "RangeThresholdShedder" in render(plan.reason)
    assert "[ThresholdShedder]" not in render(plan.unload(0).reason)


@pytest.mark.parametrize("usages", [(*[80.0] * 10, 5), (*[80.0] * 10, 0), (*[50.0] * 5, 0)], ids=["w15", "w16", "w17"])
def test_w15_to_w17_a_tenth_of_the_most_loaded_broker_feeds_the_idle_one(usages: tuple[float, ...]) -> None:
    plan, _ = ranged(at(*usages))
    assert [unload.bundle for unload in plan] == [bundle_name(0), bundle_name(1)]
    assert plan.reason.code is Code.OTHERS_BELOW_LOWER_BOUNDARY


def test_w18_small_differences_move_nothing() -> None:
    plan, _ = ranged(at(12, 2, 1, 1))
    assert (len(plan), plan.reason.code) == (0, Code.BALANCED)


def test_the_most_loaded_broker_counts_however_few_bundles_it_has() -> None:
    cluster = at(80, 79, 79, 79, 79, 79, 79, 79, 79, 5).add(
        "b00", cpu=80, bundles=equal_bundles(1, throughput=GIGABYTE)
    )
    plan, _ = ranged(cluster)
    assert (len(plan), plan.broker_reason(0).code) == (0, Code.TOO_FEW_BUNDLES)


def test_a_tenth_below_the_minimum_stays() -> None:
    plan, _ = ranged(at(*[80.0] * 10, 5, throughput=99 * MEBIBYTE))
    assert (len(plan), plan.broker_reason(0).code) == (0, Code.BELOW_MINIMUM_THROUGHPUT)
    assert len(ranged(at(*[80.0] * 10, 5, throughput=101 * MEBIBYTE))[0]) == 2


def test_the_range_takes_the_histories_a_second_step() -> None:
    _, after = ranged(at(50, 40), {"b00": 0.8, "b01": 0.8})
    assert after["b00"] == pytest.approx(0.77 * 0.9 + 0.05)


def test_a_cluster_without_load_says_so() -> None:
    assert ranged(Cluster())[0].reason.code is Code.NO_LOAD
    assert ranged(at(0, 0))[0].reason.code is Code.NO_LOAD
