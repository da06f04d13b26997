"""DeviationShedder on numbers worked by hand."""

from dataclasses import replace

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.deviation_shedder import DeviationShedder
from pulsar_barycenter.load.snapshot.load_snapshot import Floats, LoadSnapshot
from support.load_cases import Cluster, bundle_name

MEMBER = DeviationShedder.of(BrokerConfig())


def carrying(*brokers: tuple[float, ...]) -> Cluster:
    """Return brokers b0, b1, … with bundles of these throughputs in MB/s."""
    cluster = Cluster()
    for number, bundles in enumerate(brokers):
        figures = {
            bundle_name(10 * number + index): NamespaceBundleStats(msg_throughput_in=each * 1e6)
            for index, each in enumerate(bundles)
        }
        cluster.add(f"b{number}", bundles=figures)
    return cluster


def test_bundles_move_while_the_greatest_lies_more_than_a_deviation_above_the_mean() -> None:
    """90, 30, 30 (1.41 deviations), then 70, 50, 30 or the other way round (1.22), then 50, 50, 50."""
    plan = MEMBER.decide(carrying((20, 20, 20, 20, 10), (30,), (30,)).snapshot(), None)[0]
    assert [unload.bundle for unload in plan] == [bundle_name(3), bundle_name(2)]
    assert {unload.source for unload in plan} == {"b0"}
    assert "its metric and that of b1 50" not in render(plan.unload(1).reason)
    assert "mean + tolerated deviation" in render(plan.reason)


def test_a_bundle_too_heavy_for_the_least_broker_is_passed_over() -> None:
    """Of 80 and 10 only 10 ends below 90 on a broker with 30."""
    plan = MEMBER.decide(carrying((80, 10), (30,), (30,)).snapshot(), None)[0]
    assert [unload.bundle for unload in plan] == [bundle_name(1)]


def test_a_broker_of_which_nothing_fits_is_left_out() -> None:
    plan = MEMBER.decide(carrying((90,), (30,), (30,)).snapshot(), None)[0]
    assert (len(plan), plan.broker_reason(0).code) == (0, Code.NO_SHEDDABLE_BUNDLE)


def test_a_full_round_ends_and_brokers_above_the_line_wait() -> None:
    """90, 90 and four of 10 lie 1.41 deviations above the mean; the last by name gives the first bundle."""
    cluster = carrying((10,) * 9, (10,) * 9, (10,), (10,), (10,), (10,))
    plan = replace(MEMBER, most=1).decide(cluster.snapshot(), None)[0]
    assert [unload.source for unload in plan] == ["b1"]
    codes = [plan.broker_reason(broker).code for broker in range(3)]
    assert codes == [Code.ROUND_FULL, Code.FAR_ABOVE_DEVIATION, Code.DEVIATION_TOLERATED]
    assert plan.reason.code is Code.ROUND_FULL
    whole = MEMBER.decide(cluster.snapshot(), None)[0]
    assert list(plan) == list(whole)[:1]
    assert replace(MEMBER, most=len(whole)).decide(cluster.snapshot(), None)[0].waiting is None


def test_as_published_the_receiver_loses_what_it_is_given() -> None:
    """70, 10 and 30 against a mean of 50 are no deviation any more, so the run ends after one bundle."""
    cluster = carrying((20, 20, 20, 20, 10), (30,), (30,))
    plan = replace(MEMBER, receiver_gains=False).decide(cluster.snapshot(), None)[0]
    assert [unload.bundle for unload in plan] == [bundle_name(3)]


def test_a_member_may_weigh_something_else() -> None:
    """By the number of topics: 9, 1 and 1 of them."""

    def topics(snapshot: LoadSnapshot) -> Floats:
        return snapshot.brokers.topics.astype(float)

    def of_bundle(snapshot: LoadSnapshot) -> Floats:
        return snapshot.bundles.topics.astype(float)

    cluster = Cluster()
    for number, counts in enumerate(((5, 3, 1), (1,), (1,))):
        figures = {
            bundle_name(10 * number + index): NamespaceBundleStats(topics=count) for index, count in enumerate(counts)
        }
        cluster.add(f"b{number}", bundles=figures)
    plan = DeviationShedder(topics, of_bundle, "topics").decide(cluster.snapshot(), None)[0]
    assert [unload.bundle for unload in plan][:1] == [bundle_name(0)]


def test_few_brokers_or_none_are_left_alone() -> None:
    for cluster in (Cluster(), carrying((10, 10)), carrying((30,), (30,)), carrying((), ())):
        plan = MEMBER.decide(cluster.snapshot(), None)[0]
        assert (len(plan), plan.reason.code) == (0, Code.BALANCED)
