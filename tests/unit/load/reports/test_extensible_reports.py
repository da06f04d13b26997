"""The reports of the extensible load manager: Pulsar's JSON, moving averages, heaviest bundles, when one is due."""

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLoadReportRule,
    BrokerLookupData,
    BundleLoadData,
    ExtensibleResourceWeights,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
    is_broker_load_due,
)
from pulsar_barycenter.load.reports.load_report import (
    AdvertisedListener,
    NamespaceBundleStats,
    ResourceUsage,
    SystemResourceUsage,
    encode_without_none,
    stats_rank,
)
from pulsar_barycenter.load.reports.weights import extensible_resource_weights
from support.load_cases import bundle_name

# what a broker of Pulsar 3.1 published, as its consumer printed it
PUBLISHED = (
    b'{"cpu":{"usage":14.397985201479854,"limit":800.0},"memory":{"usage":300.0,"limit":2096.0},'
    b'"directMemory":{"usage":40.0,"limit":256.0},"bandwidthIn":{"usage":0.7817884878178855,"limit":1.0E7},'
    b'"bandwidthOut":{"usage":0.7213945272139455,"limit":1.0E7},"msgThroughputIn":3.000538680274058,'
    b'"msgThroughputOut":3.0005621893825616,"msgRateIn":0.03333931866971176,"msgRateOut":0.033339579882028465,'
    b'"bundleCount":3,"topics":3,"maxResourceUsage":0.15625,"weightedMaxEMA":0.15625,'
    b'"msgThroughputEMA":38.88925615962549,"updatedAt":1691043751060,"reportedAt":1691043631073}'
)

figures = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)
usages = st.builds(ResourceUsage, figures, figures)
names = st.text(st.characters(codec="utf-8"), max_size=8)
bundle_stats = st.builds(
    NamespaceBundleStats,
    msg_rate_in=figures,
    msg_throughput_in=figures,
    msg_rate_out=figures,
    msg_throughput_out=figures,
    consumer_count=counts,
    producer_count=counts,
    topics=counts,
    cache_size=counts,
)
loads = st.builds(
    BrokerLoadData,
    cpu=usages,
    memory=usages,
    direct_memory=usages,
    bandwidth_in=usages,
    bandwidth_out=usages,
    msg_throughput_in=figures,
    msg_throughput_out=figures,
    msg_rate_in=figures,
    msg_rate_out=figures,
    bundle_count=counts,
    topics=counts,
    max_resource_usage=figures,
    weighted_max_ema=figures,
    msg_throughput_ema=figures,
    updated_at=counts,
    reported_at=counts,
)
texts = st.none() | names
lookups = st.builds(
    BrokerLookupData,
    web_service_url=texts,
    web_service_url_tls=texts,
    pulsar_service_url=texts,
    pulsar_service_url_tls=texts,
    advertised_listeners=st.dictionaries(
        names, st.builds(AdvertisedListener, broker_service_url=texts, broker_https_url=texts), max_size=2
    ),
    protocols=st.dictionaries(names, names, max_size=2),
    persistent_topics_enabled=st.booleans(),
    non_persistent_topics_enabled=st.booleans(),
    load_manager_class_name=texts,
    start_timestamp=counts,
    broker_version=texts,
    properties=st.dictionaries(names, names, max_size=2),
)
tops = st.lists(st.builds(BundleLoadData, names, bundle_stats), max_size=4).map(
    lambda bundles: TopBundlesLoadData(tuple(bundles))
)


def test_what_a_broker_of_pulsar_published_is_read_and_written_back() -> None:
    data = decode_broker_load(PUBLISHED)
    assert (data.weighted_max_ema, data.msg_throughput_ema) == (0.15625, 38.88925615962549)
    assert (data.updated_at, data.reported_at, data.bundle_count) == (1691043751060, 1691043631073, 3)
    assert data.cpu.limit == 800
    assert msgspec.json.decode(encode_without_none(data)) == msgspec.json.decode(PUBLISHED)


@given(loads, tops, lookups)
def test_reading_gives_what_was_written(
    load: BrokerLoadData, top: TopBundlesLoadData, lookup: BrokerLookupData
) -> None:
    assert decode_broker_load(encode_without_none(load)) == load
    assert decode_top_bundles(encode_without_none(top)) == top
    assert msgspec.json.decode(encode_without_none(lookup), type=BrokerLookupData) == lookup


def test_fields_of_newer_versions_are_ignored_and_absent_ones_have_defaults() -> None:
    assert decode_broker_load(b'{"newer":{"x":1}}') == BrokerLoadData()
    assert msgspec.json.decode(b'{"newer":1,"brokerVersion":"4.2.4"}', type=BrokerLookupData) == BrokerLookupData(
        broker_version="4.2.4"
    )
    bundle = b'{"topBundlesLoadData":[{"bundleName":"t/n/0x0_0x1","stats":{"msgRateIn":2},"newer":[]}]}'
    assert decode_top_bundles(bundle).top_bundles_load_data[0].stats.msg_rate_in == 2


def test_what_is_none_is_not_written_but_what_is_false_is() -> None:
    written = msgspec.json.decode(encode_without_none(BrokerLookupData(persistent_topics_enabled=False)))
    assert "webServiceUrl" not in written
    assert written["persistentTopicsEnabled"] is False


def measured(before: BrokerLoadData, cpu: float, memory: float, throughput: float, now_ms: int) -> BrokerLoadData:
    return before.updated(
        SystemResourceUsage(cpu=ResourceUsage(cpu, 100), memory=ResourceUsage(memory, 100)),
        NamespaceBundleStats(msg_throughput_in=throughput, msg_rate_out=7, topics=5),
        bundle_count=2,
        weights=ExtensibleResourceWeights(memory=0.5),
        history_weight=0.75,
        now_ms=now_ms,
    )


def test_the_first_measurement_is_the_average_and_later_ones_move_it() -> None:
    """0.75 × 0.5 + 0.25 × 0.7 is 0.55, by memory of weight 0.5, which the usage without weights leaves out."""
    first = measured(BrokerLoadData(), 50, 80, 400, 1_000)
    assert (first.weighted_max_ema, first.max_resource_usage, first.msg_throughput_ema) == (0.5, 0.5, 400)
    second = measured(first, 10, 140, 800, 2_000)
    assert second.weighted_max_ema == pytest.approx(0.55, abs=1e-7)
    assert second.max_resource_usage == pytest.approx(0.1, abs=1e-7)
    assert second.msg_throughput_ema == 500
    assert (second.updated_at, second.bundle_count, second.topics, second.msg_rate_out) == (2_000, 2, 5, 7)


def test_a_broker_that_knows_nothing_of_itself_looks_full_and_stays_so_when_cleared() -> None:
    assert (BrokerLoadData().weighted_max_ema, BrokerLoadData().max_resource_usage) == (1, 1)
    used = measured(BrokerLoadData(), 50, 0, 400, 1_000)
    assert used.cleared() == BrokerLoadData()
    assert measured(used.cleared(), 20, 0, 100, 2_000).weighted_max_ema == pytest.approx(0.2, abs=1e-7)


def test_weights_come_from_the_configuration() -> None:
    assert extensible_resource_weights(BrokerConfig()) == ExtensibleResourceWeights()
    config = BrokerConfig(
        load_balancer_memory_resource_weight=0.3,
        load_balancer_direct_memory_resource_weight=0.4,
        load_balancer_bandwith_in_resource_weight=0.5,
    )
    assert extensible_resource_weights(config) == ExtensibleResourceWeights(1, 0.3, 0.4, 0.5, 1)


def carrying(throughput: float) -> NamespaceBundleStats:
    return NamespaceBundleStats(msg_throughput_in=throughput)


def test_top_bundles_ascend_and_equals_fall_to_the_smaller_name() -> None:
    """49 999 bytes/s and 1 are one step of Pulsar's order, so the names decide between 1 and 4, and 4 is left out."""
    stats = {
        bundle_name(number): carrying(throughput) for number, throughput in [(4, 49_999), (1, 1), (3, 9e6), (2, 5e5)]
    }
    listed = TopBundlesLoadData.of(stats, 3).top_bundles_load_data
    assert [one.bundle_name for one in listed] == [bundle_name(1), bundle_name(2), bundle_name(3)]
    assert listed[0].stats is stats[bundle_name(1)]


@given(st.dictionaries(st.integers(0, 30).map(bundle_name), bundle_stats, max_size=12), st.integers(-1, 14))
def test_top_bundles_are_the_heaviest_in_rising_order(stats: dict[str, NamespaceBundleStats], count: int) -> None:
    listed = [one.bundle_name for one in TopBundlesLoadData.of(stats, count).top_bundles_load_data]
    ranks = [stats_rank(stats[name]) for name in listed]
    carrying_any = [name for name, one in stats.items() if one.msg_throughput_in + one.msg_throughput_out != 0]
    assert len(listed) == len(set(listed)) == (len(carrying_any) if count < 0 else min(count, len(carrying_any)))
    assert ranks == sorted(ranks)
    assert not ranks or all(stats_rank(stats[name]) <= ranks[0] for name in carrying_any if name not in listed)


def test_top_bundles_leave_out_what_may_not_be_moved() -> None:
    spaces = [
        "t/free",
        "t/excluded",
        "t/isolated",
        "pulsar/system",
        "pulsar/b:8080",
        "pulsar/c/b:8080",
        "sla-monitor/b:8080",
    ]
    stats = {bundle_name(0, space): carrying(1) for space in spaces} | {bundle_name(1, "t/free"): carrying(0)}
    listed = TopBundlesLoadData.of(
        stats, -1, excluded_namespaces={"t/excluded"}, has_policies=lambda namespace: namespace == "t/isolated"
    )
    assert [one.bundle_name for one in listed.top_bundles_load_data] == [bundle_name(0, "t/free")]


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, False),
        ({"reported_at": 99_999}, True),
        ({"reported_at": 100_000}, False),
        ({"max_resource_usage": 0.6}, False),
        ({"max_resource_usage": 0.61}, True),
        ({"weighted_max_ema": 0.9}, False),
        ({"msg_rate_in": 111.0}, True),
        ({"msg_rate_in": 50.0, "msg_rate_out": 60.0}, False),
        ({"msg_throughput_out": 1.0}, True),
        ({"bundle_count": 11}, False),
        ({"bundle_count": 12}, True),
    ],
)
def test_a_report_is_due_when_it_is_old_or_something_changed_by_more_than_the_threshold(
    changes: dict[str, float], due: bool
) -> None:
    base = BrokerLoadData(
        max_resource_usage=0.5, weighted_max_ema=0.5, msg_rate_in=100, bundle_count=10, reported_at=900_000
    )
    current = msgspec.structs.replace(base, **changes)
    assert is_broker_load_due(base, current, 1_000_000, BrokerLoadReportRule()) is due
    assert is_broker_load_due(base, base.cleared(), 1_000_000, BrokerLoadReportRule())


def test_rules_come_from_the_configuration() -> None:
    config = BrokerConfig(
        load_balancer_report_update_threshold_percentage=7, load_balancer_report_update_max_interval_minutes=2
    )
    assert BrokerLoadReportRule.of(config) == BrokerLoadReportRule(120_000, 7)


def test_reports_need_no_numpy() -> None:
    modules = "pulsar_barycenter.load.reports.extensible_reports, pulsar_barycenter.load.reports.weights"
    code = f"import sys; import {modules}; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
