"""The simple load manager's report: the document, the derived values, and when one is written."""

import msgspec

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_report import (
    NamespaceBundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemResourceUsage,
    encode_report,
    encode_without_none,
)
from pulsar_barycenter.load.reports.simple_load_report import (
    LoadReport,
    as_local_broker_data,
    complete,
    decode_load_report,
    gains_and_losses,
    is_above_load_level,
    is_below_load_level,
    reported_stats,
    with_quotas,
)
from pulsar_barycenter.load.reports.simple_report_rule import (
    ReportVerdict,
    SimpleReportRule,
    judge_report,
    largest_usage_change,
    smoothed_memory,
)

PULSARS = b"""{"name":"broker-1:8080","brokerVersionString":"3.1.0-SNAPSHOT","webServiceUrl":"http://broker-1:8080",
"pulsarServiceUrl":"pulsar://broker-1:6650","persistentTopicsEnabled":true,"nonPersistentTopicsEnabled":true,
"timestamp":1691042931108,"msgRateIn":0.0,"msgRateOut":0.0,"numTopics":0,"numConsumers":0,"numProducers":0,
"numBundles":0,"protocols":{},
"loadManagerClassName":"org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl",
"startTimestamp":1691042931108,"systemResourceUsage":{"bandwidthIn":{"usage":0.595387281695773,"limit":1.0E7},
"bandwidthOut":{"usage":0.5799226769764033,"limit":1.0E7},"cpu":{"usage":6.224803359552059,"limit":800.0},
"memory":{"usage":152.0,"limit":2096.0},"directMemory":{"usage":0.0,"limit":256.0}},"bundleStats":{},
"bundleGains":[],"bundleLosses":[],"allocatedCPU":0.0,"allocatedMemory":0.0,"allocatedBandwidthIn":0.0,
"allocatedBandwidthOut":0.0,"allocatedMsgRateIn":0.0,"allocatedMsgRateOut":0.0,"preAllocatedCPU":0.0,
"preAllocatedMemory":0.0,"preAllocatedBandwidthIn":0.0,"preAllocatedBandwidthOut":0.0,"preAllocatedMsgRateIn":0.0,
"preAllocatedMsgRateOut":0.0,"underLoaded":true,"overLoaded":false,"loadReportType":"LoadReport",
"msgThroughputIn":0.0,"msgThroughputOut":0.0,"bandwidthIn":{"usage":0.595387281695773,"limit":1.0E7},
"bandwidthOut":{"usage":0.5799226769764033,"limit":1.0E7},"memory":{"usage":152.0,"limit":2096.0},
"cpu":{"usage":6.224803359552059,"limit":800.0},"directMemory":{"usage":0.0,"limit":256.0},
"lastUpdate":1691042931108}"""
"""What a broker of Pulsar wrote, as Pulsar's developer page shows it."""

OWN = {"advertisedListeners", "incarnation", "sequence"}


def usage(cpu: float, memory: float = 0, direct: float = 0, into: float = 0, out: float = 0) -> SystemResourceUsage:
    """Percentages of 100."""
    return SystemResourceUsage(
        cpu=ResourceUsage(cpu, 100),
        memory=ResourceUsage(memory, 100),
        direct_memory=ResourceUsage(direct, 100),
        bandwidth_in=ResourceUsage(into, 100),
        bandwidth_out=ResourceUsage(out, 100),
    )


def test_a_report_of_pulsars_is_read_and_written_again_as_it_was() -> None:
    report = decode_load_report(PULSARS)
    written = msgspec.json.decode(encode_without_none(report))
    assert {key: value for key, value in written.items() if key not in OWN} == msgspec.json.decode(PULSARS)
    assert report.name == "broker-1:8080"
    assert report.under_loaded


def test_what_follows_from_the_bundles_is_computed_when_read() -> None:
    stats = {
        "t/n/0x00000000_0x80000000": NamespaceBundleStats(
            msg_rate_in=10, msg_rate_out=20, msg_throughput_in=1000, topics=3, consumer_count=2, producer_count=1
        ),
        "t/n/0x80000000_0xffffffff": NamespaceBundleStats(msg_rate_in=5, msg_throughput_out=70, topics=1),
    }
    lying = LoadReport(bundle_stats=stats, timestamp=9, msg_rate_in=1e9, num_topics=77, system_resource_usage=usage(40))
    report = decode_load_report(encode_without_none(lying))
    assert (report.msg_rate_in, report.msg_rate_out) == (15, 20)
    assert (report.num_topics, report.num_consumers, report.num_producers, report.num_bundles) == (4, 2, 1, 2)
    assert (report.msg_throughput_in, report.msg_throughput_out) == (15, 20), "the rates, as in Pulsar"
    assert (report.cpu, report.last_update) == (ResourceUsage(40, 100), 9)
    local = as_local_broker_data(report)
    assert (local.msg_throughput_in, local.msg_throughput_out) == (1000, 70)


def test_the_bundles_of_either_report_are_found() -> None:
    stats = {"t/n/0x00000000_0xffffffff": NamespaceBundleStats(msg_rate_in=10)}
    report = complete(LoadReport(bundle_stats=stats))
    assert reported_stats(encode_without_none(report)) == stats
    assert reported_stats(encode_report(as_local_broker_data(report))) == stats
    assert reported_stats(PULSARS) == {}


def test_overload_and_underload_are_strict_and_leave_memory_out() -> None:
    assert not is_above_load_level(usage(85, memory=99, direct=85, into=85, out=85), 85)
    for each in (usage(86), usage(0, direct=86), usage(0, into=86), usage(0, out=86)):
        assert is_above_load_level(each, 85)
        assert not is_below_load_level(each, 86)
    assert is_below_load_level(usage(49, memory=99, direct=49, into=49, out=49), 50)
    assert not is_below_load_level(usage(50), 50)


def test_what_quotas_allot_stands_in_the_report() -> None:
    allocated = ResourceQuota(msg_rate_in=40, msg_rate_out=60, bandwidth_in=1, bandwidth_out=2, memory=3)
    report = with_quotas(LoadReport(), allocated, ResourceQuota(msg_rate_out=8, memory=5), 0.025)
    assert (report.allocated_cpu, report.pre_allocated_cpu) == (2.5, 0.2)
    document = msgspec.json.decode(encode_without_none(report))
    assert (document["allocatedCPU"], document["preAllocatedCPU"], document["preAllocatedMemory"]) == (2.5, 0.2, 5.0)
    assert (document["allocatedMsgRateOut"], document["allocatedBandwidthOut"]) == (60.0, 2.0)


def test_gains_and_losses_are_against_the_report_before() -> None:
    assert gains_and_losses({"a": 0, "b": 0}, {"b": 0, "d": 0, "c": 0}) == (("c", "d"), ("a",))


def test_memory_is_averaged_over_two_minutes_in_whole_mebibytes() -> None:
    assert smoothed_memory(100, 340, 5_000) == 110
    assert smoothed_memory(100, 101, 5_000) == 100, "less than a whole one"
    assert smoothed_memory(0, 340, 5_000) == 340
    assert smoothed_memory(100, 340, 500_000) == 340, "a reading counts fully if they are far apart"


def test_a_report_is_due_by_age_by_bundles_and_by_usage() -> None:
    rule = SimpleReportRule(min_interval_ms=5_000, max_interval_ms=900_000, usage_interval_ms=60_000)
    written = complete(
        LoadReport(timestamp=0, system_resource_usage=usage(50), bundle_stats={"a": NamespaceBundleStats()})
    )

    def due(at_ms: int, bundles: int = 1, now: float = 50, compared_ms: int = 0) -> ReportVerdict:
        return judge_report(written, bundles, usage(now), at_ms, compared_ms, rule)

    assert due(900_001).due
    assert not due(900_000).due
    assert not due(5_000, bundles=2).due, "never closer than the shortest interval"
    assert due(5_001, bundles=2).due
    assert due(5_001, bundles=0).due
    assert due(60_001, now=61) == ReportVerdict(True, 60_001)
    assert due(60_001, now=60.9) == ReportVerdict(False, 60_001), "10.9 points are 10 whole ones, not more than 10"
    assert due(60_000, now=99) == ReportVerdict(False, 0), "usage is compared once in an interval"
    assert due(90_000, now=99, compared_ms=60_000) == ReportVerdict(False, 60_000)
    assert due(60_001, now=39).due, "less is a change, too"


def test_the_change_of_usage_is_against_the_limit_of_now_and_capped() -> None:
    assert largest_usage_change(usage(10, memory=5), usage(12, memory=40)) == 35
    assert largest_usage_change(usage(10), usage(500)) == 100
    unlimited = SystemResourceUsage(cpu=ResourceUsage(90, 0))
    assert largest_usage_change(usage(10), unlimited) == 0


def test_the_rule_comes_from_the_configuration() -> None:
    config = with_overrides(
        BrokerConfig(),
        {
            "loadBalancerReportUpdateMinIntervalMillis": "2000",
            "loadBalancerReportUpdateMaxIntervalMinutes": "3",
            "loadBalancerHostUsageCheckIntervalMinutes": "2",
            "loadBalancerReportUpdateThresholdPercentage": "7",
        },
    )
    assert SimpleReportRule.of(config) == SimpleReportRule(2000, 180_000, 120_000, 7)
