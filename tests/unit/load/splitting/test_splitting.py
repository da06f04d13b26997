"""Which bundles are split, and where."""

import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from pulsar_barycenter.load.splitting.request import (
    SplitRefusedError,
    SplitRequest,
    TopicLoad,
    TrafficLimits,
    can_divide,
)
from pulsar_barycenter.load.splitting.split_plan import BundleLimits, SplitPlan
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.naming.bundle import FULL_RANGE, BundleRange
from support.load_cases import MEBIBYTE, Cluster, bundle_name, steady

EXAMPLE = SplitRequest(BundleRange(0x0000, 0x8000), (0x25, 0, 0x10, 5, 0x20, 0x15))


def check(stats: NamespaceBundleStats, **options: int) -> SplitPlan:
    cluster = Cluster().add("b1", bundles={bundle_name(0): stats})
    return BundleSplitterTask(BundleLimits(**options)).decide(cluster.snapshot(), {"t/ns": 4}, no_boundaries, None)[0]


@pytest.mark.parametrize(
    ("at_limit", "key"),
    [
        (NamespaceBundleStats(topics=1000), "loadBalancerNamespaceBundleMaxTopics"),
        (
            NamespaceBundleStats(topics=2, consumer_count=600, producer_count=400),
            "loadBalancerNamespaceBundleMaxSessions",
        ),
        (
            NamespaceBundleStats(topics=2, msg_rate_in=20_000, msg_rate_out=10_000),
            "loadBalancerNamespaceBundleMaxMsgRate",
        ),
        (
            NamespaceBundleStats(topics=2, msg_throughput_in=60 * MEBIBYTE, msg_throughput_out=40 * MEBIBYTE),
            "loadBalancerNamespaceBundleMaxBandwidthMbytes",
        ),
    ],
)
def test_a_bundle_is_split_above_a_limit_not_at_it(at_limit: NamespaceBundleStats, key: str) -> None:
    assert len(check(at_limit)) == 0
    above = NamespaceBundleStats(
        topics=at_limit.topics + (at_limit.topics == 1000),
        consumer_count=at_limit.consumer_count + (at_limit.consumer_count > 0),
        msg_rate_in=at_limit.msg_rate_in * 1.01,
        msg_rate_out=at_limit.msg_rate_out,
        msg_throughput_in=at_limit.msg_throughput_in * 1.01,
        msg_throughput_out=at_limit.msg_throughput_out,
        producer_count=at_limit.producer_count,
    )
    (split,) = check(above)
    assert (split.bundle, split.broker, split.reason.settings) == (bundle_name(0), "b1", (key,))
    assert key in render(split.reason)


def test_sessions_have_no_limit_when_it_is_switched_off() -> None:
    assert len(check(NamespaceBundleStats(topics=2, consumer_count=10**6), max_sessions=-1)) == 0


def test_rates_are_long_term_averages_and_0_without_any() -> None:
    cluster = Cluster().add("b1", bundles={bundle_name(0): NamespaceBundleStats(topics=2, msg_rate_in=10)})
    cluster.data[bundle_name(0)] = steady(NamespaceBundleStats(msg_rate_in=50_000))
    assert len(BundleSplitterTask(BundleLimits()).decide(cluster.snapshot(), {}, no_boundaries, None)[0]) == 1
    cluster.data.clear()
    assert len(BundleSplitterTask(BundleLimits()).decide(cluster.snapshot(), {}, no_boundaries, None)[0]) == 0


def test_fewer_than_two_topics_are_never_split() -> None:
    plan = check(NamespaceBundleStats(topics=1, msg_rate_in=1e6))
    (refusal,) = plan.refusals()
    assert (len(plan), refusal.reason.code) == (0, Code.FEWER_THAN_TWO_TOPICS)


def test_k8_a_namespace_never_gets_more_bundles_than_it_may_have() -> None:
    """120 bundles, at most 128, 40 of them too large: 8 are split, by name, and 32 refused with the setting."""
    stats = NamespaceBundleStats(topics=5000)
    cluster = Cluster().add("b1", bundles={bundle_name(index): stats for index in range(40)})
    plan = BundleSplitterTask(BundleLimits(max_bundles=128)).decide(
        cluster.snapshot(), {"t/ns": 120}, no_boundaries, None
    )[0]
    assert [split.bundle for split in plan] == [bundle_name(index) for index in range(8)]
    refusals = list(plan.refusals())
    assert len(refusals) == 32
    assert "loadBalancerNamespaceMaximumBundles" in render(refusals[0].reason)


def test_one_check_splits_as_many_as_it_may_and_the_others_wait() -> None:
    stats = NamespaceBundleStats(topics=5000)
    cluster = Cluster().add("b1", bundles={bundle_name(index): stats for index in range(5)})
    plan = BundleSplitterTask(BundleLimits(most=2)).decide(cluster.snapshot(), {}, no_boundaries, None)[0]
    assert [split.bundle for split in plan] == [bundle_name(0), bundle_name(1)]
    assert [(refusal.subject, refusal.reason.code) for refusal in plan.refusals()] == [
        (bundle_name(index), Code.CYCLE_FULL) for index in (2, 3, 4)
    ]
    assert "settings: barycenterMaxBundlesPerRound" in render(next(iter(plan.refusals())).reason)


def test_a_bundle_that_two_brokers_report_is_split_once() -> None:
    stats = {bundle_name(0): NamespaceBundleStats(topics=5000)}
    cluster = Cluster().add("b1", bundles=stats).add("b2", bundles=stats)
    assert [
        split.broker
        for split in BundleSplitterTask(BundleLimits()).decide(cluster.snapshot(), {}, no_boundaries, None)[0]
    ] == ["b1"]


def test_the_documented_example_of_the_algorithms() -> None:
    assert split_algorithm("range_equally_divide")(EXAMPLE) == (0x4000,)
    assert split_algorithm("topic_count_equally_divide")(EXAMPLE) == (0x12,)


def test_the_full_range_is_cut_in_its_middle_rounded_down() -> None:
    assert split_algorithm("range_equally_divide")(SplitRequest(FULL_RANGE)) == (0x7FFFFFFF,)


@pytest.mark.parametrize(
    ("hashes", "boundaries"), [((), ()), ((7,), ()), ((4, 9), (6,)), ((1, 2, 9), (1,)), ((3, 3), (3,))]
)
def test_topics_are_parted_in_halves(hashes: tuple[int, ...], boundaries: tuple[int, ...]) -> None:
    request = SplitRequest(BundleRange(0, 16), hashes)
    assert split_algorithm("topic_count_equally_divide")(request) == boundaries


def test_specified_positions_are_those_inside_the_range() -> None:
    request = SplitRequest(BundleRange(0, 0x8000), (1, 2), (0x6000, 0x2000, 0x9000, 0, 0x8000, 0x2000))
    assert split_algorithm("specified_positions_divide")(request) == (0x2000, 0x6000)
    alone = SplitRequest(request.range, (1,), request.positions)
    assert split_algorithm("specified_positions_divide")(alone) == ()
    assert split_algorithm("specified_positions_divide_force")(alone) == (0x2000, 0x6000)
    with pytest.raises(SplitRefusedError):
        split_algorithm("specified_positions_divide")(EXAMPLE)


def loads(*rates: tuple[int, float]) -> tuple[TopicLoad, ...]:
    return tuple(TopicLoad(at, rate, 0) for at, rate in rates)


@pytest.mark.parametrize(
    ("carried", "boundaries"),
    [
        (loads((0, 25_000), (0x10, 4_000), (0x20, 20_000), (0x30, 9_000)), (0x19,)),
        (loads((0, 30_000), (0x10, 30_000), (0x20, 1)), (0x9, 0x19)),
        (loads((0, 20_000), (8, 10_000), (16, 5_000)), (13,)),
        (loads((4, 20_000), (5, 20_000)), (5,)),
        (loads((0, 50_000)), ()),
        (loads((0, 50_000), (8, 0)), ()),
        (loads((8, 25_000), (8, 25_000)), ()),
        (loads((0, 20_000), (8, 12_999)), ()),
        (loads((0, 20_000), (8, 13_000)), (5,)),
        ((TopicLoad(0, 1, 80 * MEBIBYTE), TopicLoad(8, 1, 31 * MEBIBYTE)), (5,)),
    ],
)
def test_traffic_is_parted_so_that_no_part_exceeds_the_limits(
    carried: tuple[TopicLoad, ...], boundaries: tuple[int, ...]
) -> None:
    """Limits 30 000 msg/s and 100 MiB/s, cut from 10 % above; the end of each part is between two topics."""
    request = SplitRequest(BundleRange(0, 0x8000), loads=carried)
    assert split_algorithm("flow_or_qps_equally_divide")(request) == boundaries


def test_traffic_limits_are_those_of_the_configuration() -> None:
    config = BrokerConfig(
        load_balancer_namespace_bundle_max_msg_rate=7,
        load_balancer_namespace_bundle_max_bandwidth_mbytes=2,
        flow_or_qps_difference_threshold_percentage=20,
    )
    assert TrafficLimits.of(config) == TrafficLimits(7, 2 * MEBIBYTE, 0.2)
    assert TrafficLimits.of(BrokerConfig()) == TrafficLimits()


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    with pytest.raises(SplitRefusedError, match=r"'by_moonlight'.*range_equally_divide"):
        split_algorithm("by_moonlight")


def test_a_range_of_one_hash_cannot_be_divided() -> None:
    assert not can_divide(BundleRange(4, 5))
    assert can_divide(BundleRange(4, 6))
