"""What Grafana boards made for Pulsar ask for: a broker tells it, or it stands here why not.

The names are those in the expressions of StreamNative's boards (apache-pulsar-grafana-dashboard) of brokers, messaging,
topics, an overview, load balancing and the process, and of Apache Pulsar's board of namespaces.
"""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pulsar_barycenter.load.managers import ManagerKind
from support.leaders_metrics import scrape_of_leader

_LATENCY = {
    f"pulsar_storage_write_latency_{bucket}"
    for bucket in ("le_0_5", "le_1", "le_5", "le_10", "le_20", "le_50", "le_100", "le_200", "le_1000", "overflow")
}
_SIZES = {
    f"pulsar_entry_size_{bucket}"
    for bucket in ("le_128", "le_512", "le_1_kb", "le_2_kb", "le_4_kb", "le_16_kb", "le_100_kb", "le_1_mb")
} | {"pulsar_entry_size_overflow"}
_TRAFFIC = {"pulsar_rate_in", "pulsar_rate_out", "pulsar_throughput_in", "pulsar_throughput_out"}
_CLIENTS = {"pulsar_producers_count", "pulsar_consumers_count", "pulsar_subscriptions_count"}
_REPLICATION = {"pulsar_replication_backlog", "pulsar_replication_rate_in", "pulsar_replication_rate_out"}
_CAFFEINE = {
    *("caffeine_cache_estimated_size", "caffeine_cache_eviction_total", "caffeine_cache_hit_total"),
    *("caffeine_cache_load_duration_seconds_count", "caffeine_cache_load_duration_seconds_sum"),
    *("caffeine_cache_loads_total", "caffeine_cache_miss_total"),
}
_JVM = {
    *("jvm_gc_collection_seconds_sum", "jvm_memory_bytes_committed", "jvm_memory_bytes_max", "jvm_memory_bytes_used"),
    *("jvm_memory_direct_bytes_max", "jvm_memory_direct_bytes_used"),
}

BOARDS = {
    "broker": _LATENCY
    | _TRAFFIC
    | _CAFFEINE
    | {"pulsar_topics_count", "pulsar_producers_count", "pulsar_consumers_count", "pulsar_msg_backlog"}
    | {"pulsar_broker_publish_latency", "pulsar_instance_publish_latency"},
    "messaging": _LATENCY
    | _SIZES
    | _TRAFFIC
    | _CLIENTS
    | _REPLICATION
    | {"pulsar_topics_count", "pulsar_msg_backlog", "pulsar_storage_backlog_size", "pulsar_storage_size"}
    | {"pulsar_storage_write_latency_count", "pulsar_storage_read_latency_count"},
    "topic": _LATENCY
    | _SIZES
    | _CLIENTS
    | _REPLICATION
    | {"pulsar_rate_in", "pulsar_throughput_in", "pulsar_storage_size", "pulsar_storage_backlog_size"}
    | {"pulsar_storage_read_rate", "pulsar_storage_write_rate", "pulsar_storage_offloaded_size"}
    | {"pulsar_storage_backlog_quota_limit", "pulsar_subscription_back_log", "pulsar_subscription_delayed"}
    | {"pulsar_subscription_msg_rate_out", "pulsar_subscription_msg_throughput_out"},
    "overview": _LATENCY | _TRAFFIC | {"pulsar_msg_backlog", "pulsar_storage_backlog_size", "pulsar_storage_size"},
    "loadbalance": {
        *("caffeine_cache_estimated_size", "pulsar_lb_assign_broker_breakdown_total", "pulsar_topics_count"),
        *("pulsar_lb_bandwidth_in_usage", "pulsar_lb_bandwidth_out_usage", "pulsar_lb_cpu_usage"),
        *("pulsar_lb_memory_usage", "pulsar_lb_directMemory_usage"),
        *("pulsar_lb_bundles_split_total", "pulsar_lb_bundles_split_breakdown_total"),
        *("pulsar_lb_resource_usage", "pulsar_lb_resource_usage_stats", "pulsar_lb_unload_broker_breakdown_total"),
        *("pulsar_lb_unload_broker_total", "pulsar_lb_unload_bundle_total"),
        *("pulsar_sunit_state_chn_cleanup_ops_total", "pulsar_sunit_state_chn_event_publish_ops_total"),
        *("pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total", "pulsar_sunit_state_chn_owned_su_total"),
        *("pulsar_sunit_state_chn_orphan_su_cleanup_ops_total", "pulsar_sunit_state_chn_owner_lookup_total"),
        *("pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total", "pulsar_sunit_state_chn_subscribe_ops_total"),
    },
    "jvm": _JVM | {"process_cpu_seconds_total"},
    "namespace (Apache)": _LATENCY
    | _TRAFFIC
    | _CLIENTS
    | _REPLICATION
    | (_SIZES - {"pulsar_entry_size_overflow"})
    | {"pulsar_topics_count", "pulsar_msg_backlog", "pulsar_storage_size"},
}
"""And all of them `pulsar_version_info`, for their lists of clusters."""

LEFT_OUT = {
    **dict.fromkeys(_CAFFEINE, "caches of Java's library Caffeine, which there is not"),
    **dict.fromkeys(_JVM, "there is no Java virtual machine"),
    **dict.fromkeys(_REPLICATION, "there is no geo-replication"),
    "pulsar_broker_publish_latency": "quantiles would cost something each message; see pulsar_storage_write_latency_*",
    "pulsar_instance_publish_latency": "of StreamNative's own distribution; the same",
    "pulsar_entry_size_overflow": "Apache Pulsar's name is pulsar_entry_size_le_overflow, which is told",
    "pulsar_storage_read_latency_count": "Apache Pulsar does not tell it either",
    "pulsar_storage_offloaded_size": "nothing is offloaded",
}

NOT_YET = {
    "pulsar_storage_backlog_quota_limit": "a topic with a quota",
    "pulsar_sunit_state_chn_cleanup_ops_total": "a repair of ownership that failed",
    "pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total": "a lost broker",
    "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total": "a change of ownership that nobody ends",
    "pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total": "a record that is long out of use",
}
"""What a broker tells once there was such a thing, as boards sum it up: nothing until then is none."""


@pytest.fixture
async def told(tmp_path: Path) -> set[str]:
    """The metrics of a broker with the extensible load manager, with a topic in use."""
    families = list(text_string_to_metric_families(await scrape_of_leader(ManagerKind.EXTENSIBLE, tmp_path)))
    not_counted_yet = {f"{family.name}_total" for family in families if family.type == "counter"}
    not_shown_yet = {family.name for family in families}
    return not_counted_yet | not_shown_yet | {sample.name for family in families for sample in family.samples}


async def test_a_broker_tells_what_the_boards_ask_for_or_it_says_here_why_not(told: set[str]) -> None:
    missing = {board: names - told - LEFT_OUT.keys() - NOT_YET.keys() for board, names in BOARDS.items()}
    assert {board: names for board, names in missing.items() if names} == {}
    assert "pulsar_version_info" in told


async def test_what_is_left_out_is_asked_for_and_is_not_told(told: set[str]) -> None:
    assert told.isdisjoint(LEFT_OUT)
    assert LEFT_OUT.keys() | NOT_YET.keys() <= set().union(*BOARDS.values())
