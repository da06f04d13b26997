"""Load reports: 32-bit percentages, derived usages, JSON, and what changes between reports."""

import math

import msgspec
import pytest

from pulsar_barycenter.load.reports.load_report import (
    DEFAULT_STATS,
    RESOURCES,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceQuota,
    ResourceUsage,
    ResourceWeights,
    SystemResourceUsage,
    bundle_data_of_quota,
    bundle_data_rank,
    decode_report,
    default_bundle_data,
    encode_report,
    exact_sum,
    max_resource_usage,
    narrow_to_float32,
    percent_usage,
    resources_of,
    stats_rank,
    weighted_resource_usage,
    with_stats,
)
from pulsar_barycenter.pipeline.tables import schemas as pipeline_tables


@pytest.mark.parametrize(
    ("usage", "limit", "percent"),
    [
        (1, 3, 33.333335876464844),  # exact arithmetic would give 33.33333333333333
        (2, 3, 66.66667175292969),
        (50, 100, 50.0),
        (150, 100, 150.0),
        (-1, 100, -1.0),
        (5, 0, 0.0),
        (-1, -1, 0.0),
        (5, math.nan, 0.0),
        (1, 1e-60, math.inf),
        (1e300, 1e300, math.nan),
        (1e-46, 1e-46, math.nan),
    ],
)
def test_percentages_are_those_of_32_bit_floats(usage: float, limit: float, percent: float) -> None:
    assert percent_usage(usage, limit) == pytest.approx(percent, abs=0, nan_ok=True)


def test_measurements_and_tables_of_the_pipeline_have_the_same_resources() -> None:
    assert set(SystemResourceUsage.__struct_fields__) == set(RESOURCES)
    assert tuple(pipeline_tables.RESOURCES) == RESOURCES
    used = SystemResourceUsage(**{name: ResourceUsage(place, 10) for place, name in enumerate(RESOURCES)})
    assert [each.usage for each in resources_of(used)] == [0, 1, 2, 3, 4]


def test_memory_counts_in_no_usage() -> None:
    data = LocalBrokerData(
        cpu=ResourceUsage(30, 100), memory=ResourceUsage(99, 100), direct_memory=ResourceUsage(40, 100)
    )
    assert max_resource_usage(data) == 0.4000000059604645  # a 32-bit float
    assert weighted_resource_usage(data, ResourceWeights()) == pytest.approx(0.3)


def test_a_weight_of_zero_is_a_floor_of_zero() -> None:
    data = LocalBrokerData(cpu=ResourceUsage(-20, 100), bandwidth_in=ResourceUsage(-5, 100))
    weights = ResourceWeights(cpu=1, direct_memory=0, bandwidth_in=1, bandwidth_out=1)
    assert weighted_resource_usage(data, weights) == 0


def test_a_percentage_that_is_no_number_is_passed_over() -> None:
    """Of NaN and 30 % the largest is 30 %; of nothing but NaN it is minus infinity, as in Pulsar."""
    none = ResourceUsage(math.nan, 100)
    some = SystemResourceUsage(cpu=none, direct_memory=none, bandwidth_in=ResourceUsage(30, 100), bandwidth_out=none)
    assert max_resource_usage(some) == narrow_to_float32(0.3)
    assert weighted_resource_usage(some, ResourceWeights()) == pytest.approx(0.3)
    nothing = SystemResourceUsage(cpu=none, direct_memory=none, bandwidth_in=none, bandwidth_out=none)
    assert max_resource_usage(nothing) == weighted_resource_usage(nothing, ResourceWeights()) == -math.inf


def test_a_report_survives_json_and_omits_what_is_absent() -> None:
    data = with_stats(
        LocalBrokerData(broker_id="a:1", web_service_url="http://a:1", cpu=ResourceUsage(12.5, 400), sequence=7),
        {"t/n/0x0_0x1": NamespaceBundleStats(msg_rate_in=2.5, topics=3)},
    )
    document = encode_report(data)
    fields = msgspec.json.decode(document)
    assert decode_report(document) == data
    assert {"webServiceUrlTls", "onlyAssigns"}.isdisjoint(fields)
    assert decode_report(encode_report(msgspec.structs.replace(data, only_assigns=True))).only_assigns is True
    assert fields["loadReportType"] == "LocalBrokerData"
    assert fields["lastStats"]["t/n/0x0_0x1"]["msgRateIn"] == 2.5
    assert {"numTopics", "numBundles", "bundles", "lastBundleGains", "msgThroughputOut", "directMemory"} <= set(fields)


def test_unknown_and_derived_fields_are_no_obstacle_on_reading() -> None:
    document = b'{"cpu":{"usage":1,"limit":2,"percentUsage":50},"maxResourceUsage":0.5,"protocols":{},"newField":[1]}'
    assert decode_report(document).cpu == ResourceUsage(1, 2)


def test_gains_and_losses_gather_until_a_report_is_written() -> None:
    first = with_stats(LocalBrokerData(), {"a": NamespaceBundleStats(topics=1), "b": NamespaceBundleStats(topics=2)})
    second = with_stats(first, {"b": NamespaceBundleStats(topics=5), "c": NamespaceBundleStats()})
    assert (second.last_bundle_gains, second.last_bundle_losses) == (("a", "b", "c"), ("a",))
    assert (second.bundles, second.num_bundles, second.num_topics) == (("b", "c"), 2, 5)


def test_bundles_rank_by_steps_of_traffic_then_counts() -> None:
    """49,999 and 50,000 differ, 50,000 and 149,999 do not; counts step at 500; throughput in comes before all else."""

    def stats(throughput: float, rate: float = 0, topics: int = 0) -> NamespaceBundleStats:
        return NamespaceBundleStats(msg_throughput_in=throughput, msg_rate_in=rate, topics=topics)

    assert stats_rank(stats(49_999)) < stats_rank(stats(50_000)) == stats_rank(stats(149_999))
    assert stats_rank(stats(0, rate=1e9)) < stats_rank(stats(100_000))
    assert stats_rank(stats(0, topics=499)) == stats_rank(stats(0)) < stats_rank(stats(0, topics=500))
    assert (
        stats_rank(stats(-50_001)) < stats_rank(stats(-50_000)) == stats_rank(stats(math.nan)) == stats_rank(stats(0))
    )
    assert (
        stats_rank(stats(-math.inf)) == stats_rank(stats(-1e300)) < stats_rank(stats(0)) < stats_rank(stats(math.inf))
    )


def test_unknown_bundles_carry_default_figures_and_a_quota_counts_as_ample_history() -> None:
    assert default_bundle_data().long_term_data.num_samples == 0
    assert default_bundle_data().short_term_data.msg_rate_in == DEFAULT_STATS.msg_rate_in == 50
    data = bundle_data_of_quota(ResourceQuota(msg_rate_in=7, bandwidth_out=9e5))
    assert (data.short_term_data.num_samples, data.long_term_data.num_samples) == (10, 1000)
    assert (data.long_term_data.msg_rate_in, data.long_term_data.msg_throughput_out) == (7, 9e5)
    assert bundle_data_rank(data) > bundle_data_rank(default_bundle_data())


def test_sums_do_not_depend_on_order_and_never_fail() -> None:
    assert exact_sum([1e16, 1.0, -1e16, 1.0]) == 2.0
    assert exact_sum([1.7e308, 1.7e308]) == math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf]))
