"""Every figure that is read off a broker when Prometheus asks, with what it says: names of Pulsar where it has one.

What ends in `_total` is a counter, all else a gauge. The order of a table is that of its figures in a row.
Those that load managers and `broker.instruments` keep themselves are described where they are made.
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


def _between(names: list[str], texts: list[str]) -> dict[str, str]:
    return dict(zip(names, texts, strict=True))


_LATENCY: Final = _between(
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
_SIZES: Final = _between(
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
    "pulsar_storage_logical_size": "Bytes stored in ledgers, without what is kept twice: the same here.",
    "pulsar_storage_backlog_size": "Estimate of the bytes that the slowest subscription has not acknowledged.",
    "pulsar_msg_backlog": "Messages not acknowledged yet, of all subscriptions.",
    "pulsar_storage_write_rate": "Entries a second that became durable.",
    "pulsar_storage_read_rate": "Entries a second read for consumers, from memory or not.",
    **_LATENCY,
    "pulsar_storage_write_latency_count": f"Entries written {_INTERVAL} whose time to be durable is known.",
    "pulsar_storage_write_latency_sum": "The sum of these times, ms.",
    **_SIZES,
    "pulsar_entry_size_count": f"Entries written {_INTERVAL}.",
    "pulsar_entry_size_sum": "The sum of their sizes, bytes.",
}
"""Of each topic; of each namespace the sums."""

SUBSCRIPTION_ALSO_HERE: Final = {
    "pulsar_subscription_msg_rate_out": "Messages a second to the consumers of a subscription.",
    "pulsar_subscription_msg_throughput_out": "Bytes a second to the consumers of a subscription.",
    "pulsar_out_bytes_total": "Bytes to consumers since the topic was loaded.",
    "pulsar_out_messages_total": "Messages to consumers since the topic was loaded.",
    "pulsar_subscription_consumers_count": "Connected consumers of a subscription.",
}
"""Of subscriptions of both kinds of topics."""

SUBSCRIPTION: Final = {
    **SUBSCRIPTION_ALSO_HERE,
    "pulsar_subscription_back_log": "Messages that a subscription has not acknowledged.",
    "pulsar_subscription_back_log_no_delayed": "The same without those that wait for their delivery time.",
    "pulsar_subscription_delayed": "Messages that wait for their delivery time.",
    "pulsar_subscription_msg_rate_redeliver": "Messages a second that are to be delivered again.",
    "pulsar_subscription_unacked_messages": "Messages that consumers have, not acknowledged (Shared, Key_Shared).",
    "pulsar_subscription_blocked_on_unacked_messages": "1 while a subscription gets nothing as these are too many.",
    "pulsar_subscription_last_acked_timestamp": "When something was acknowledged last, ms since 1970; 0 for never.",
    "pulsar_subscription_last_consumed_flow_timestamp": "When a consumer last asked for more, ms since 1970; or 0.",
}

CONSUMER: Final = {
    "pulsar_consumer_msg_rate_out": "Messages a second to a consumer.",
    "pulsar_consumer_msg_throughput_out": "Bytes a second to a consumer.",
    "pulsar_consumer_unacked_messages": "Messages that a consumer has and did not acknowledge (Shared, Key_Shared).",
    "pulsar_consumer_blocked_on_unacked_messages": "1 while a consumer gets nothing as these are too many, else 0.",
    "pulsar_consumer_available_permits": "Messages that a consumer asked for and did not get yet.",
}

PRODUCER: Final = {
    "pulsar_producer_msg_rate_in": "Messages a second from a producer.",
    "pulsar_producer_msg_throughput_in": "Bytes a second from a producer.",
    "pulsar_producer_msg_average_Size": f"Mean size of a producer's messages {_INTERVAL}, bytes.",
}

COMPACTION: Final = {
    "pulsar_compaction_removed_event_count": "Messages that compactions removed since the topic was loaded.",
    "pulsar_compaction_succeed_count": "Compactions that succeeded since the topic was loaded.",
    "pulsar_compaction_failed_count": "Compactions that failed since the topic was loaded.",
    "pulsar_compaction_duration_time_in_mills": "How long the last compaction took, ms.",
    "pulsar_compaction_compacted_entries_count": "Entries of the compacted ledger.",
    "pulsar_compaction_compacted_entries_size": "Bytes of the compacted ledger.",
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
"""What a broker tells as the sum of a figure over all its topics."""

BUNDLE: Final = {
    "pulsar_bundle_msg_rate_in": "Messages a second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_rate_out": "Messages a second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_msg_throughput_in": "Bytes a second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_throughput_out": "Bytes a second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_producer_count": "Producers connected to the topics of a bundle.",
    "pulsar_bundle_consumer_count": "Consumers connected to the topics of a bundle.",
}

CONNECTION: Final = {
    "pulsar_active_connections": "Clients' connections to the binary protocol that are open.",
    "pulsar_connection_created_total_count": "Clients' connections since the broker started.",
    "pulsar_connection_create_success_count": "Connections whose client was let in.",
    "pulsar_connection_create_fail_count": "Connections that were refused: too many, or a proof that is not believed.",
    "pulsar_connection_closed_total_count": "Connections that are closed.",
}

CHANNEL: Final = {
    "pulsar_sunit_state_chn_owned_su_total": "Bundles that this broker owns.",
    "pulsar_sunit_state_chn_owner_lookup_total": "Times that a bundle's owner was asked for, by its record's state.",
    "pulsar_sunit_state_chn_event_publish_ops_total": "Changes of ownership that this broker began, by what they were.",
    "pulsar_sunit_state_chn_subscribe_ops_total": "Records of ownership that this broker took over, by their state.",
    "pulsar_sunit_state_chn_cleanup_ops_total": "Repairs of ownership that failed.",
    "pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total": "Lost brokers whose bundles were given to others.",
    "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total": "Changes of ownership ended in place of those who did not.",
    "pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total": "Records deleted long after nobody owned the bundle.",
}

RECORDS: Final = {
    "barycenter_ownership_records_in_store": "1 if the ownership records are in the metadata store, 0 if in the topic.",
    "barycenter_ownership_records_moving": "1 while this broker is to stand still, as ownership records are moved.",
    "barycenter_ownership_records_differing": "Ownership records that the leader did not copy to the other place yet.",
    "barycenter_ownership_records_copied": "1 once the leader's copy of the ownership records was complete, else 0.",
}

BROKER: Final = {
    "pulsar_broker_topics_count": "Topics loaded by this broker.",
    "pulsar_broker_in_messages_total": "Messages that producers sent since the broker started.",
    "pulsar_broker_out_messages_total": "Messages sent to consumers since the broker started.",
    "pulsar_broker_in_bytes_total": "Bytes that producers sent since the broker started.",
    "pulsar_broker_out_bytes_total": "Bytes sent to consumers since the broker started.",
    **{name: f"The sum of {of_topic} over this broker's topics." for name, of_topic in OF_BROKER.items()},
    "pulsar_broker_lookup_pending_requests": "Lookups being answered.",
    "pulsar_broker_topic_load_pending_requests": "Topics being loaded.",
    "barycenter_broker_is_leader": "1 if this broker is the leader, else 0.",
    "barycenter_broker_is_drained": "1 if this broker is drained (`barycenterDrainedBrokers` names it), else 0.",
    "barycenter_broker_owned_bundles": "Bundles that this broker owns.",
    "barycenter_brokers_active": "Brokers registered in the cluster, as this one sees it.",
    "barycenter_damaged_ledgers": "Ledgers of loaded topics that are damaged.",
    "barycenter_access_refusals_total": "Requests and commands refused to clients that lack the right for them.",
}

LOOKUP: Final = {
    "pulsar_broker_lookup_answers_total": "Look-ups answered with the owner of the topic.",
    "pulsar_broker_lookup_redirects_total": "Look-ups answered with another broker to ask.",
    "pulsar_broker_lookup_failures_total": "Look-ups answered with an error.",
}
LOOKUP_TIME: Final = ("pulsar_broker_lookup", "Time that look-ups took, ms; one whose answer is known takes none.")

AUTHENTICATION: Final = {
    "pulsar_authentication_success_total": "Proofs of clients that were believed, at both ports.",
    "pulsar_authentication_failures_total": "Proofs that were not believed, or missing, by Pulsar's codes of why.",
}

VERSION: Final = ("pulsar_version", "The version of Pulsar whose features to expect, and that of this software.")

PROCESS: Final = {
    "process_virtual_memory_bytes": "Virtual memory of the broker's process.",
    "process_resident_memory_bytes": "Resident memory of the broker's process.",
    "process_start_time_seconds": "When the process started, seconds since 1970.",
    "process_cpu_seconds_total": "Processor time of the process, its own and the system's.",
    "process_open_fds": "Open file descriptors.",
    "process_max_fds": "How many file descriptors may be open.",
}
"""What Prometheus' library tells of the process, where there is a /proc."""

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
    **COMPACTION,
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
