"""ThresholdShedder and OverloadShedder on numbers worked by hand (names W… are those of the published examples)."""

import pytest

from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.overload_shedder import OverloadShedder
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.shedding.threshold_shedder import ThresholdShedder, UsageHistory
from support.load_cases import MEBIBYTE, Cluster, bundle_name, equal_bundles, steady

GIGABYTE = 1e9


def like_brokers(*usages: float, bundles: int = 10, throughput: float = 10 * GIGABYTE) -> Cluster:
    """Return brokers b0, b1, … of these CPU usages in percent, each with as much traffic in as many bundles."""
    cluster = Cluster()
    for number, usage in enumerate(usages):
        cluster.add(
            f"b{number:02}", cpu=usage, bundles=equal_bundles(bundles, throughput=throughput, first=100 * number)
        )
    return cluster


def threshold(
    cluster: Cluster, history: UsageHistory | None = None, **options: object
) -> tuple[ShedPlan, UsageHistory]:
    return ThresholdShedder(**options).decide(cluster.snapshot(), history or {})  # type: ignore[arg-type]


def sources(plan: ShedPlan) -> list[str]:
    return sorted({unload.source for unload in plan})


def test_w1_history_weighs_nine_tenths() -> None:
    """Previous score 80, usage 50: 80 · 0.9 + 50 · 0.1 = 77."""
    _, history = threshold(like_brokers(50), {"b00": 0.8})
    assert history["b00"] == pytest.approx(0.77)


def test_a_new_broker_starts_from_its_usage() -> None:
    assert threshold(like_brokers(50))[1] == {"b00": 0.5}


def test_w2_the_excess_over_the_mean_less_the_threshold_plus_a_margin_has_to_leave() -> None:
    """Usage 80, mean 60, 10 GB/s: (0.8 - 0.6 - 0.1 + 0.05) · 10 = 1.5 GB/s; of bundles of 1 GB/s two are taken."""
    plan, _ = threshold(like_brokers(80, 40))
    assert plan.verdicts.need[0] == pytest.approx(1.5 * GIGABYTE, rel=1e-6)
    assert [(u.source, u.bundle) for u in plan] == [("b00", bundle_name(0)), ("b00", bundle_name(1))]


def test_w3_overload_sheds_the_excess_over_the_limit_plus_a_margin() -> None:
    """Usage 90, limit 85, 10 GB/s: (0.9 - 0.85 + 0.05) · 10 = 1 GB/s."""
    plan = OverloadShedder().decide(like_brokers(90, 10).snapshot(), None)[0]
    assert plan.verdicts.need[0] == pytest.approx(1 * GIGABYTE, rel=1e-6)


def test_a_full_round_is_shared_by_the_brokers_and_says_who_waits() -> None:
    """90 % and 100 % of 10 GB/s in bundles of 0.1 are to lose 10 and 20 of them; of 20 they give 7 and 13."""
    settings = OverloadShedder(most=20)
    plan = settings.decide(like_brokers(90, 100, 10, bundles=100).snapshot(), None)[0]
    assert [unload.source for unload in plan] == ["b00"] * 7 + ["b01"] * 13
    assert (plan.reason.code, plan.broker_reason(0).code) == (Code.ROUND_FULL, Code.ABOVE_LIMIT)
    assert "this round already unloads the maximum number of bundles, so more wait" in render(plan.reason)
    assert "settings: barycenterMaxBundlesPerRound" in render(plan.reason)
    alone = OverloadShedder(most=1).decide(like_brokers(90, 100, 10, bundles=100).snapshot(), None)[0]
    assert [unload.source for unload in alone] == ["b01"]
    waits = alone.broker_reason(0)
    assert (waits.code, waits.subject) == (Code.ROUND_FULL, "b00")
    assert waits.cause is not None
    assert waits.cause.code is Code.ABOVE_LIMIT
    assert {refusal.subject for refusal in alone.refusals()} == {"b00", "b02"}


def test_of_brokers_with_equal_shares_the_one_that_shall_lose_more_comes_first() -> None:
    cluster = like_brokers(100, 100, bundles=2, throughput=1e9)
    cluster.add("b02", cpu=100, bundles=equal_bundles(2, throughput=9e9, first=900))
    plan = OverloadShedder(most=1).decide(cluster.snapshot(), None)[0]
    assert [unload.source for unload in plan] == ["b02"]


def test_w4_traffic_is_in_plus_out() -> None:
    """A bundle with 10 in and 20 out weighs 30; one with 25 in alone is lighter."""
    both = NamespaceBundleStats(msg_throughput_in=10e6, msg_throughput_out=20e6)
    incoming = NamespaceBundleStats(msg_throughput_in=25e6)
    cluster = Cluster().add("b0", cpu=90, bundles={bundle_name(0): incoming, bundle_name(1): both})
    cluster.add("b1", cpu=0)
    plan, _ = threshold(cluster, minimum_throughput=0.0)
    assert [unload.bundle for unload in plan][:1] == [bundle_name(1)]
    assert cluster.snapshot().brokers.latest.throughput[0] == 55e6


def test_w7_only_the_broker_above_mean_plus_threshold_sheds() -> None:
    """40, 10, 10: mean 20, limit 30."""
    plan, _ = threshold(like_brokers(40, 10, 10))
    assert sources(plan) == ["b00"]


def test_equality_with_the_line_is_overloaded() -> None:
    """Usages 75 and 25, mean 50, threshold 25: the line is 75, without rounding in binary fractions."""
    plan, _ = threshold(like_brokers(75, 25), threshold=0.25)
    assert sources(plan) == ["b00"]


@pytest.mark.parametrize(
    ("round_number", "scores"),
    [(1, (90, 10)), (2, (86, 14)), (3, (78.8, 21.2)), (4, (70.92, 29.08)), (7, (51.70, 48.30)), (8, (46.53, 53.47))],
)
def test_w8_the_score_lags_behind_the_load(round_number: int, scores: tuple[float, float]) -> None:
    """90 and 10 move by half of the score difference each round; the scores are those of the published table."""
    loads = [(90, 10), (50, 50), (14, 86), (0, 100), (0, 100), (0, 100), (0, 100), (0, 100)]
    history: UsageHistory = {}
    for load in loads[:round_number]:
        _, history = threshold(like_brokers(*load), history)
    assert (history["b00"] * 100, history["b01"] * 100) == pytest.approx(scores, abs=0.005)


def test_w8_the_shedder_lets_go_when_the_score_is_within_the_margin() -> None:
    """Score 1 falls below 60, the mean plus 10, in round 6 (57.45)."""
    loads = [(90, 10), (50, 50), (14, 86), (0, 100), (0, 100), (0, 100)]
    history: UsageHistory = {}
    shedding = []
    for load in loads:
        plan, history = threshold(like_brokers(*load), history)
        shedding.append("b00" in sources(plan))
    assert shedding == [True] * 5 + [False]
    assert history["b00"] * 100 == pytest.approx(57.45, abs=0.005)


@pytest.mark.parametrize("usages", [(*[80.0] * 10, 5), (*[80.0] * 10, 0), (*[50.0] * 5, 0), (12, 2, 1, 1)])
def test_w15_to_w18_an_idle_broker_gets_nothing(usages: tuple[float, ...]) -> None:
    cluster = like_brokers(*usages)
    assert len(threshold(cluster)[0]) == 0
    assert len(OverloadShedder().decide(cluster.snapshot(), None)[0]) == 0


def test_w15_lower_boundary_shedding_feeds_the_idle_broker() -> None:
    """A twentieth of the top broker's traffic each round: 0.5 of 10 GB/s, one bundle of 1 GB/s."""
    plan, _ = threshold(like_brokers(*[80.0] * 10, 5), lower_boundary=True)
    assert [(u.source, u.bundle) for u in plan] == [("b00", bundle_name(0))]
    assert plan.verdicts.need[0] == pytest.approx(0.5 * GIGABYTE)
    assert plan.reason.code is Code.OTHERS_BELOW_LOWER_BOUNDARY


def test_lower_boundary_shedding_steps_the_history_twice() -> None:
    _, once = threshold(like_brokers(50, 40), {"b00": 0.8, "b01": 0.8})
    _, twice = threshold(like_brokers(50, 40), {"b00": 0.8, "b01": 0.8}, lower_boundary=True)
    assert (once["b00"], twice["b00"]) == (pytest.approx(0.77), pytest.approx(0.77 * 0.9 + 0.05))


def test_w19_overload_shedding_goes_on_when_all_are_overloaded() -> None:
    plan = OverloadShedder().decide(like_brokers(90, 91, 92).snapshot(), None)[0]
    assert sources(plan) == ["b00", "b01", "b02"]


def test_overload_includes_its_limit_and_may_take_everything_above_100_percent() -> None:
    assert len(OverloadShedder(limit=0.5).decide(like_brokers(50, 0).snapshot(), None)[0]) > 0
    plan = OverloadShedder().decide(like_brokers(200, 0, bundles=4).snapshot(), None)[0]
    assert len(plan) == 4


def test_an_excess_below_the_minimum_stays() -> None:
    """15 % of 60 MiB/s are 9 MiB/s, under the 10 that a move must be worth."""
    cluster = like_brokers(40, 10, 10, throughput=60 * MEBIBYTE)
    plan, _ = threshold(cluster)
    assert len(plan) == 0
    refusal = next(plan.refusals())
    assert refusal.reason.code is Code.BELOW_MINIMUM_THROUGHPUT
    assert "loadBalancerBundleUnloadMinThroughputThreshold" in render(refusal.reason)
    assert len(threshold(like_brokers(40, 10, 10, throughput=67 * MEBIBYTE))[0]) > 0


def test_the_last_bundle_stays() -> None:
    plan, _ = threshold(like_brokers(90, 10, 10, bundles=1))
    assert [r.reason.code for r in plan.refusals()] == [
        Code.TOO_FEW_BUNDLES,
        Code.WITHIN_THRESHOLD,
        Code.WITHIN_THRESHOLD,
    ]


def test_at_least_one_bundle_leaves_though_it_is_larger_than_needed() -> None:
    plan, _ = threshold(like_brokers(40, 10, 10, bundles=2))
    assert len(plan) == 1


def test_one_bundle_leaves_an_overloaded_broker_whatever_its_figures_say() -> None:
    """A broker that reports negative traffic should lose less than nothing; Pulsar takes one bundle all the same."""
    plan = OverloadShedder().decide(like_brokers(90, 10, throughput=-1e6).snapshot(), None)[0]
    assert [unload.bundle for unload in plan] == [bundle_name(0)]
    idle = OverloadShedder().decide(like_brokers(90, 10, throughput=0.0).snapshot(), None)[0]
    assert [unload.bundle for unload in idle] == [bundle_name(0)], "0 has to leave, and so it is enough"
    none, _ = threshold(like_brokers(40, 10, 10, throughput=0.0), minimum_throughput=0.0)
    assert [unload.bundle for unload in none] == [bundle_name(0)]


def test_heaviest_bundles_leave_first_and_ties_fall_to_the_smaller_name() -> None:
    cluster = like_brokers(80, 0, bundles=4)
    cluster.data[bundle_name(2)] = steady(NamespaceBundleStats(msg_throughput_in=9 * GIGABYTE))
    cluster.data[bundle_name(3)] = steady(NamespaceBundleStats(msg_throughput_in=0.1 * GIGABYTE))
    plan, _ = threshold(cluster, threshold=0.0)
    assert [unload.bundle for unload in plan] == [bundle_name(2)]
    cluster.recently_unloaded = {bundle_name(2)}
    plan, _ = threshold(cluster, threshold=0.0)
    assert [unload.bundle for unload in plan] == [bundle_name(0), bundle_name(1)]


def test_a_broker_whose_bundles_all_just_moved_says_so() -> None:
    cluster = like_brokers(80, 10, 10, bundles=2)
    cluster.recently_unloaded = {bundle_name(0), bundle_name(1)}
    plan, _ = threshold(cluster)
    assert (len(plan), plan.reason.code) == (0, Code.NO_SHEDDABLE_BUNDLE)


def test_the_mean_is_summed_one_by_one_as_in_pulsar() -> None:
    """Of three brokers at 10 % it comes out above 0.1, so that with a threshold of 0 none is overloaded."""
    assert len(threshold(like_brokers(10, 10, 10), threshold=0.0)[0]) == 0


def test_bundles_of_the_system_namespace_may_leave_but_none_of_a_namespace_bound_to_a_broker() -> None:
    """As Pulsar 4.x: `pulsar/system` is shed like any other, heartbeats stay with their broker."""
    heavy = NamespaceBundleStats(msg_throughput_in=GIGABYTE)
    names = [bundle_name(0, "pulsar/10.0.0.1:8080"), bundle_name(1, "pulsar/system")]
    cluster = Cluster().add("b00", cpu=90, bundles=dict.fromkeys(names, heavy)).add("b01", cpu=10)
    plan, _ = threshold(cluster)
    assert [unload.bundle for unload in plan] == [bundle_name(1, "pulsar/system")]


def test_a_cluster_without_load_says_so() -> None:
    assert threshold(like_brokers(0, 0), lower_boundary=True)[0].reason.code is Code.NO_LOAD
    assert threshold(Cluster())[0].reason.code is Code.NO_LOAD
    assert OverloadShedder().decide(Cluster().snapshot(), None)[0].reason.code is Code.BALANCED


def test_histories_of_brokers_that_left_are_dropped() -> None:
    assert set(threshold(like_brokers(10, 20), {"b00": 0.1, "gone": 0.9})[1]) == {"b00", "b01"}


def test_an_unload_says_what_was_compared_and_what_would_change_it() -> None:
    plan, _ = threshold(like_brokers(40, 10, 10))
    sentence = render(plan.unload(0).reason)
    for part in ("40 %", "mean + threshold = 30 %", "ThresholdShedder", "loadBalancerBrokerThresholdShedderPercentage"):
        assert part in sentence
