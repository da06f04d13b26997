"""The names and help texts of the metrics that are read from the broker at each scrape; Pulsar's names if Pulsar has
the metric.

A name that ends in `_total` is a counter, all others are gauges. The order in a table is the order of the values in a
sample row. The metrics of load managers and of `broker.instruments` are described in those modules.
Source: Pulsar's `TopicStats`, `NamespaceStatsAggregator`, `BrokerOperabilityMetrics`, `AuthenticationMetrics`.
"""

from typing import Final

from pulsar_barycenter.ledger.managed.stats import LATENCY_BOUNDS_MS, SIZE_BOUNDS

_INTERVAL: Final = "in the last statistics interval"


def _bucket(bound: float) -> str:
    return f"{bound:g}".replace(".", "_")


def _size_bucket(bound: int) -> str:
    for power, unit in ((2, "_mb"), (1, "_kb")):
        if bound >= 1024**power:
            return f"{bound // 1024**power}{unit}"
    return str(bound)


def _with_help(names: list[str], texts: list[str]) -> dict[str, str]:
    return dict(zip(names, texts, strict=True))


_LATENCY: Final = _with_help(
    [
        *(f"pulsar_storage_write_latency_le_{_bucket(bound)}" for bound in LATENCY_BOUNDS_MS),
        "pulsar_storage_write_latency_overflow",
    ],
    [
        f"Entries written {_INTERVAL} that took {'more than ' if low else ''}{low or ''}{' and ' if low else ''}"
        f"at most {high:g} ms to be durable."
        for low, high in zip(("", *(f"{bound:g}" for bound in LATENCY_BOUNDS_MS)), LATENCY_BOUNDS_MS, strict=False)
    ]
    + [f"Entries written {_INTERVAL} that took more than {LATENCY_BOUNDS_MS[-1]:g} ms to be durable."],
)
_SIZES: Final = _with_help(
    [*(f"pulsar_entry_size_le_{_size_bucket(bound)}" for bound in SIZE_BOUNDS), "pulsar_entry_size_le_overflow"],
    [
        f"Entries written {_INTERVAL} of {f'more than {low} and ' if low else ''}at most {high} bytes."
        for low, high in zip((0, *SIZE_BOUNDS), SIZE_BOUNDS, strict=False)
    ]
    + [f"Entries written {_INTERVAL} of more than {SIZE_BOUNDS[-1]} bytes."],
)

TOPIC: Final = {
    "pulsar_subscriptions_count": "Subscriptions.",
    "pulsar_producers_count": "Connected producers.",
    "pulsar_consumers_count": "Connected consumers.",
    "pulsar_rate_in": "Messages a second from producers.",
    "pulsar_rate_out": "Messages a second to consumers.",
    "pulsar_throughput_in": "Bytes a second from producers.",
    "pulsar_throughput_out": "Bytes a second to consumers.",
    "pulsar_average_msg_size": f"Mean size of the messages from producers {_INTERVAL}, bytes.",
    "pulsar_in_bytes_total": "Bytes from producers since the topic was loaded.",
    "pulsar_in_messages_total": "Messages from producers since the topic was loaded.",
    "pulsar_storage_size": "Bytes stored in ledgers.",
    "pulsar_storage_logical_size": "Bytes stored in ledgers, without replicas: equal to pulsar_storage_size here.",
    "pulsar_storage_backlog_size": "Estimate of the bytes that the slowest subscription has not acknowledged.",
    "pulsar_msg_backlog": "Messages not acknowledged yet, of all subscriptions.",
    "pulsar_storage_write_rate": "Entries a second that became durable.",
    "pulsar_storage_read_rate": "Entries a second read for consumers, from memory or from disk.",
    **_LATENCY,
    "pulsar_storage_write_latency_count": f"Entries written {_INTERVAL} whose time to be durable is known.",
    "pulsar_storage_write_latency_sum": "The sum of these times, ms.",
    **_SIZES,
    "pulsar_entry_size_count": f"Entries written {_INTERVAL}.",
    "pulsar_entry_size_sum": "The sum of their sizes, bytes.",
}
"""The metrics of a topic, with their help texts. The metrics of a namespace are the sums over its topics."""

SUBSCRIPTION_ALSO_HERE: Final = {
    "pulsar_subscription_msg_rate_out": "Messages a second to the consumers of a subscription.",
    "pulsar_subscription_msg_throughput_out": "Bytes a second to the consumers of a subscription.",
    "pulsar_out_bytes_total": "Bytes to consumers since the topic was loaded.",
    "pulsar_out_messages_total": "Messages to consumers since the topic was loaded.",
    "pulsar_subscription_consumers_count": "Connected consumers of a subscription.",
}
"""The metrics of subscriptions of persistent and of non-persistent topics, with their help texts."""

SUBSCRIPTION: Final = {
    **SUBSCRIPTION_ALSO_HERE,
    "pulsar_subscription_back_log": "Messages that a subscription has not acknowledged.",
    "pulsar_subscription_back_log_no_delayed": "This backlog without the messages that wait for their delivery time.",
    "pulsar_subscription_delayed": "Messages that wait for their delivery time.",
    "pulsar_subscription_msg_rate_redeliver": "Messages a second that have to be delivered again.",
    "pulsar_subscription_unacked_messages": "Messages that consumers have not acknowledged (Shared, Key_Shared).",
    "pulsar_subscription_blocked_on_unacked_messages": "1 while too many unacknowledged messages stop it, else 0.",
    "pulsar_subscription_last_acked_timestamp": "Time of the last acknowledgement, ms since 1970; 0 if there was none.",
    "pulsar_subscription_last_consumed_flow_timestamp": "Time of a consumer's last permits, ms since 1970; or 0.",
    "pulsar_subscription_msg_rate_expired": "Messages a second that expired or were evicted.",
    "pulsar_subscription_total_msg_expired": "Messages that expired or were evicted since the topic was loaded.",
    "pulsar_subscription_last_expire_timestamp": "Time of the last of these, ms since 1970; 0 if there was none.",
}

CONSUMER: Final = {
    "pulsar_consumer_msg_rate_out": "Messages a second to a consumer.",
    "pulsar_consumer_msg_throughput_out": "Bytes a second to a consumer.",
    "pulsar_consumer_unacked_messages": "Messages that a consumer got and has not acknowledged (Shared, Key_Shared).",
    "pulsar_consumer_blocked_on_unacked_messages": "1 while too many unacknowledged messages stop it, else 0.",
    "pulsar_consumer_available_permits": "Messages that may be sent to a consumer: its permits that are left.",
}

PRODUCER: Final = {
    "pulsar_producer_msg_rate_in": "Messages a second from a producer.",
    "pulsar_producer_msg_throughput_in": "Bytes a second from a producer.",
    "pulsar_producer_msg_average_Size": f"Mean size of a producer's messages {_INTERVAL}, bytes.",
}

BACKLOG_AGE: Final = {
    "pulsar_storage_backlog_age_seconds": "Age of the oldest message that a subscription has not acknowledged, s; -1 "
    "without one. At least that old, if its ledger's columns are not in memory.",
}

COMPACTION: Final = {
    "pulsar_compaction_removed_event_count": "Messages that compactions removed since the topic was loaded.",
    "pulsar_compaction_succeed_count": "Compactions that succeeded since the topic was loaded.",
    "pulsar_compaction_failed_count": "Compactions that failed since the topic was loaded.",
    "pulsar_compaction_duration_time_in_mills": "How long the last compaction took, ms.",
    "pulsar_compaction_compacted_entries_count": "Entries of the compacted ledger.",
    "pulsar_compaction_compacted_entries_size": "Bytes of the compacted ledger.",
}

BACKLOG_QUOTA: Final = {
    "pulsar_storage_backlog_quota_limit": "The largest backlog that is allowed, bytes; -1: no limit.",
    "pulsar_storage_backlog_quota_limit_time": "The largest age of a backlog that is allowed, s; -1: no limit.",
}

OF_BROKER: Final = {
    "pulsar_broker_subscriptions_count": "pulsar_subscriptions_count",
    "pulsar_broker_producers_count": "pulsar_producers_count",
    "pulsar_broker_consumers_count": "pulsar_consumers_count",
    "pulsar_broker_rate_in": "pulsar_rate_in",
    "pulsar_broker_rate_out": "pulsar_rate_out",
    "pulsar_broker_throughput_in": "pulsar_throughput_in",
    "pulsar_broker_throughput_out": "pulsar_throughput_out",
    "pulsar_broker_storage_size": "pulsar_storage_size",
    "pulsar_broker_storage_logical_size": "pulsar_storage_logical_size",
    "pulsar_broker_storage_write_rate": "pulsar_storage_write_rate",
    "pulsar_broker_storage_read_rate": "pulsar_storage_read_rate",
    "pulsar_broker_msg_backlog": "pulsar_msg_backlog",
}
"""For each metric of a broker that is a sum over its topics: the metric of topics."""

BUNDLE: Final = {
    "pulsar_bundle_msg_rate_in": "Messages a second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_rate_out": "Messages a second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_msg_throughput_in": "Bytes a second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_throughput_out": "Bytes a second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_producer_count": "Producers connected to the topics of a bundle.",
    "pulsar_bundle_consumer_count": "Consumers connected to the topics of a bundle.",
}

CONNECTION: Final = {
    "pulsar_active_connections": "Open connections of clients to the binary protocol.",
    "pulsar_connection_created_total_count": "Connections of clients since the broker started.",
    "pulsar_connection_create_success_count": "Connections whose client was accepted.",
    "pulsar_connection_create_fail_count": "Connections that were refused: too many, or invalid credentials.",
    "pulsar_connection_closed_total_count": "Connections that are closed.",
}

CHANNEL: Final = {
    "pulsar_sunit_state_chn_owned_su_total": "Bundles that this broker owns.",
    "pulsar_sunit_state_chn_owner_lookup_total": "Look-ups of a bundle's owner, by the state of its record.",
    "pulsar_sunit_state_chn_event_publish_ops_total": "Changes of ownership that this broker started, by kind.",
    "pulsar_sunit_state_chn_subscribe_ops_total": "Ownership records that this broker received, by their state.",
    "pulsar_sunit_state_chn_cleanup_ops_total": "Repairs of ownership that failed.",
    "pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total": "Lost brokers whose bundles got other owners.",
    "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total": "Interrupted changes of ownership that the leader ended.",
    "pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total": "Records deleted long after their bundle had no owner.",
}

RECORDS: Final = {
    "barycenter_ownership_records_in_store": "1 if the ownership records are in the metadata store, 0 if in the topic.",
    "barycenter_ownership_records_moving": "1 while ownership cannot change, because its records move, else 0.",
    "barycenter_ownership_records_differing": "Ownership records that the leader has still to copy to the other place.",
    "barycenter_ownership_records_copied": "1 after the leader's copy of the ownership records was complete, else 0.",
}

BROKER: Final = {
    "pulsar_broker_topics_count": "Topics loaded by this broker.",
    "pulsar_broker_in_messages_total": "Messages that producers sent since the broker started.",
    "pulsar_broker_out_messages_total": "Messages sent to consumers since the broker started.",
    "pulsar_broker_in_bytes_total": "Bytes that producers sent since the broker started.",
    "pulsar_broker_out_bytes_total": "Bytes sent to consumers since the broker started.",
    **{name: f"The sum of {of_topic} over this broker's topics." for name, of_topic in OF_BROKER.items()},
    "pulsar_broker_lookup_pending_requests": "Look-ups that are being answered.",
    "pulsar_broker_topic_load_pending_requests": "Topics being loaded.",
    "barycenter_broker_is_leader": "1 if this broker is the leader, else 0.",
    "barycenter_broker_is_drained": "1 if this broker is drained (`barycenterDrainedBrokers` names it), else 0.",
    "barycenter_broker_owned_bundles": "Bundles that this broker owns.",
    "barycenter_brokers_active": "Brokers registered in the cluster, as this broker sees it.",
    "barycenter_damaged_ledgers": "Ledgers of loaded topics that are damaged.",
    "barycenter_access_refusals_total": "Requests and commands that were refused because the client lacks the right.",
}

LOOKUP: Final = {
    "pulsar_broker_lookup_answers_total": "Look-ups answered with the owner of the topic.",
    "pulsar_broker_lookup_redirects_total": "Look-ups answered with another broker, which the client has to ask.",
    "pulsar_broker_lookup_failures_total": "Look-ups answered with an error.",
}
LOOKUP_TIME: Final = ("pulsar_broker_lookup", "Time that look-ups took, ms; a cached answer counts as 0.")

AUTHENTICATION: Final = {
    "pulsar_authentication_success_total": "Credentials of clients that were accepted, at both ports.",
    "pulsar_authentication_failures_total": "Credentials that were refused or missing, by Pulsar's error code.",
}

VERSION: Final = ("pulsar_version", "The version of Pulsar that this broker is compatible with, and its own version.")

PROCESS: Final = {
    "process_virtual_memory_bytes": "Virtual memory of the broker's process.",
    "process_resident_memory_bytes": "Resident memory of the broker's process.",
    "process_start_time_seconds": "When the process started, seconds since 1970.",
    "process_cpu_seconds_total": "Processor time of the process, its own and the system's.",
    "process_open_fds": "Open file descriptors.",
    "process_max_fds": "The most file descriptors that may be open.",
}
"""The metrics of the process that the Prometheus client library reads from /proc, if that exists."""

TRANSFERS: Final = {
    "pulsar_lb_ignored_send_total": "Messages that producers sent to topics in transfer to another broker.",
    "pulsar_lb_ignored_ack_total": "Acknowledged ids that consumers sent to topics in transfer to another broker.",
}

NAMESPACE: Final = {"pulsar_topics_count": "Loaded topics of a namespace."}
BUNDLES: Final = {"pulsar_bundle_topics_count": "Loaded topics of a bundle."}

HELP: Final = {
    **TOPIC,
    **SUBSCRIPTION,
    **CONSUMER,
    **PRODUCER,
    **BACKLOG_AGE,
    **COMPACTION,
    **BACKLOG_QUOTA,
    **NAMESPACE,
    **BUNDLES,
    **BUNDLE,
    **CONNECTION,
    **CHANNEL,
    **RECORDS,
    **BROKER,
    **LOOKUP,
    **AUTHENTICATION,
    **TRANSFERS,
}
