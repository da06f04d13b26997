"""The keys of broker.conf for serving: the broker in its cluster, topics, clients, ledgers."""

from typing import Annotated, Literal

import msgspec

from pulsar_barycenter.config.key import (
    AtLeastOne,
    Bookies,
    BookieTimeout,
    Bundles,
    BytesOrOff,
    Count,
    CountOrOff,
    GibibytesOrOff,
    IntervalMillis,
    IntervalMinutes,
    IntervalSeconds,
    MebibytesOrOff,
    Millis,
    Names,
    Partitions,
    Port,
    Positive,
    RingPoints,
    SchemaStrategy,
    Seconds,
    WholeMinutes,
    WholeMinutesOrOff,
    WholeSeconds,
    WholeSecondsOrOff,
    about,
    key_name,
)


class ServingConfig(msgspec.Struct, frozen=True, kw_only=True, rename=key_name):
    """The keys of broker.conf about serving topics and clients. `BrokerConfig` inherits them."""

    # ---- The broker and its cluster ----
    cluster_name: Annotated[str, about("Name of the cluster. Pulsar has no default.")] = "standalone"
    metadata_store_url: Annotated[
        str,
        about(
            "`sqlite:PATH`, `memory:NAME`, `zk:HOST:PORT`, `etcd:http://HOST:PORT`, `oxia://HOST:PORT`. Blank: a file."
        ),
    ] = ""
    metadata_store_config_path: Annotated[
        str, about("File with TLS keys, user, password or token of that store.", own=True)
    ] = ""
    configuration_metadata_store_url: Annotated[
        str, about("Store shared by clusters. Only the cluster's own store is supported: leave it blank or equal.")
    ] = ""
    metadata_store_session_timeout_millis: Annotated[
        IntervalMillis,
        about("After this time without a heartbeat a broker's session ends, and with it its ownership of bundles."),
    ] = 10_000
    metadata_store_operation_timeout_seconds: Annotated[
        IntervalSeconds, about("Longest wait for one answer of the store.")
    ] = 30.0
    metadata_store_cache_expiry_seconds: Annotated[
        IntervalSeconds, about("Age from which a cached record is read again even without a notification.")
    ] = 300.0
    zookeeper_session_expired_policy: Annotated[
        Literal["reconnect", "shutdown"],
        about("When the session is lost: register again and continue, or end the process."),
    ] = "reconnect"
    broker_service_port: Annotated[
        Port | None,
        about("Port of the binary protocol; 0: a free one, blank: none.", blank_is_none=True, own=True),
    ] = 6650
    broker_service_port_tls: Annotated[
        Port | None, about("Port of the binary protocol with TLS; see security.md.", own=True)
    ] = None
    web_service_port: Annotated[
        Port | None,
        about("Port of the REST interface; 0: a free one, blank: none.", blank_is_none=True, own=True),
    ] = 8080
    web_service_port_tls: Annotated[Port | None, about("Port of the REST interface with TLS.", own=True)] = None
    bind_address: Annotated[str, about("Address to listen at. Pulsar's default is 0.0.0.0.", own=True)] = "127.0.0.1"
    bind_addresses: Annotated[str, about("More listeners. Not supported yet.", offered=False, own=True)] = ""
    advertised_address: Annotated[
        str,
        about(
            "Host name in all URLs and in the broker id. Blank: 127.0.0.1 if bound to loopback, else the host name.",
            own=True,
        ),
    ] = ""
    advertised_listeners: Annotated[
        str, about("Further addresses that clients may request: `name:pulsar://host:port,…`.", own=True)
    ] = ""
    internal_listener_name: Annotated[
        str, about("The listener in `advertisedListeners` that brokers use, and clients that name no listener.")
    ] = ""
    broker_shutdown_timeout_ms: Annotated[
        Millis, about("Time for an orderly shutdown; 0: end at once.", dynamic=True)
    ] = 60_000
    status_file_path: Annotated[
        str, about("If set, `/status.html` answers 200 only while this file exists.", own=True)
    ] = ""
    bootstrap_namespaces: Annotated[Names, about("Namespaces that a broker owns from its start on.", own=True)] = ()
    authorization_enabled: Annotated[
        bool, about("Check the permission for each request; needs authentication. See authorization.md.")
    ] = False
    authorization_allow_wildcards_matching: Annotated[
        bool, about("Allow `*`, any text, at the start or end of roles in grants.")
    ] = False
    super_user_roles: Annotated[Names, about("Roles with all permissions; no effect without authorization.")] = ()

    web_service_allowed_hosts: Annotated[
        Names, about("Further host names of the REST interface in requests; `*`: any. See rest-api.md.")
    ] = ()
    web_service_request_timeout_seconds: Annotated[
        IntervalSeconds, about("Longest wait for the whole header of an HTTP request, and then for its body.")
    ] = 30.0
    max_http_server_connections: Annotated[
        Count, about("Maximum number of HTTP connections, more get 503; 0: no limit.")
    ] = 2_048
    max_concurrent_http_requests: Annotated[
        Count, about("Maximum number of concurrent HTTP requests, more get 503; 0: no limit.")
    ] = 1_024

    # ---- Names, topics and limits ----
    default_number_of_namespace_bundles: Annotated[Bundles, about("Bundles of a new namespace.")] = 32
    default_number_of_system_namespace_bundles: Annotated[
        Bundles | None, about("Bundles of `pulsar/system`; none (4.x): `defaultNumberOfNamespaceBundles`.")
    ] = 64
    max_tenants: Annotated[Count, about("Maximum number of tenants; 0: no limit.", dynamic=True)] = 0
    max_namespaces_per_tenant: Annotated[
        Count, about("Maximum number of namespaces of a tenant; 0: no limit.", dynamic=True)
    ] = 0
    max_topics_per_namespace: Annotated[
        Count, about("Maximum number of topics of a namespace; 0: no limit.", dynamic=True)
    ] = 0
    max_num_partitions_per_partitioned_topic: Annotated[
        Count, about("Maximum number of partitions of a topic; 0: 10,000, which always applies.", dynamic=True)
    ] = 0
    allow_auto_topic_creation: Annotated[bool, about("Create a topic when it is first used.", dynamic=True)] = True
    allow_auto_topic_creation_type: Annotated[
        Literal["non-partitioned", "partitioned"], about("Kind of a topic created by use.", dynamic=True)
    ] = "non-partitioned"
    default_num_partitions: Annotated[Partitions, about("Partitions of a topic created by use.", dynamic=True)] = 1
    allow_auto_subscription_creation: Annotated[
        bool, about("Create a subscription when it is first used.", dynamic=True)
    ] = True
    schema_compatibility_strategy: Annotated[
        SchemaStrategy,
        about("How a new schema is compared with those of its topic; a namespace may have its own. UNDEFINED: FULL."),
    ] = "FULL"
    system_topic_schema_compatibility_strategy: Annotated[
        SchemaStrategy, about("How a new schema is compared with those of its topic, for system topics.")
    ] = "ALWAYS_COMPATIBLE"
    is_allow_auto_update_schema_enabled: Annotated[
        bool, about("Let clients add versions of a schema; a namespace may have its own value.", dynamic=True)
    ] = True
    is_schema_validation_enforced: Annotated[
        bool, about("Refuse producers without a schema for topics that have one.")
    ] = False
    topic_level_policies_enabled: Annotated[
        bool, about("Let a topic have policies of its own, which replace those of its namespace.", dynamic=True)
    ] = True
    broker_delete_inactive_topics_enabled: Annotated[
        bool, about("Delete topics without producers and subscriptions.", dynamic=True)
    ] = True
    broker_delete_inactive_topics_frequency_seconds: Annotated[
        IntervalSeconds,
        about("How often to look for inactive topics, and how long a topic must have been idle.", dynamic=True),
    ] = 60.0
    broker_delete_inactive_topics_mode: Annotated[
        Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"],
        about("Which topics are inactive: without subscriptions, or also with subscriptions without backlog."),
    ] = "delete_when_no_subscriptions"
    broker_delete_inactive_topics_max_inactive_duration_seconds: Annotated[
        WholeSeconds,
        about("How long a topic must have been idle; 0: brokerDeleteInactiveTopicsFrequencySeconds.", dynamic=True),
    ] = 0
    subscription_expiration_time_minutes: Annotated[
        WholeMinutes,
        about(
            "Time without consumers after which a subscription is deleted; 0: never. A policy overrides this.",
            dynamic=True,
        ),
    ] = 0
    subscription_expiry_check_interval_in_minutes: Annotated[
        IntervalMinutes,
        about("How often to look for subscriptions that are to be deleted after a time without consumers."),
    ] = 5.0
    subscription_types_enabled: Annotated[
        Names, about("The types of subscriptions that consumers may use. A policy overrides this.", dynamic=True)
    ] = ("Exclusive", "Shared", "Failover", "Key_Shared")
    delayed_delivery_enabled: Annotated[
        bool, about("Deliver messages at the time that they name, not at once. A policy overrides this.")
    ] = True
    delayed_delivery_tick_time_millis: Annotated[
        Millis, about("Shown as policy; messages are delivered at their time, to the millisecond.")
    ] = 1_000
    delayed_delivery_max_delay_in_millis: Annotated[
        Millis,
        about("Longest delay of a message, others are refused; 0: no limit. A policy overrides this.", dynamic=True),
    ] = 0
    force_delete_namespace_allowed: Annotated[bool, about("Allow `force=true` of namespaces.", dynamic=True)] = False
    force_delete_tenant_allowed: Annotated[bool, about("Allow `force=true` of tenants.", dynamic=True)] = False
    max_concurrent_lookup_request: Annotated[
        AtLeastOne, about("Maximum number of concurrent look-ups; more have to be retried.", dynamic=True)
    ] = 50_000
    max_concurrent_topic_load_request: Annotated[
        AtLeastOne, about("Maximum number of topics that are loaded concurrently; more wait.", dynamic=True)
    ] = 5_000
    topic_load_timeout_seconds: Annotated[IntervalSeconds, about("Longest load of a topic.", dynamic=True)] = 60.0
    enable_persistent_topics: Annotated[bool, about("Serve persistent topics.")] = True
    enable_non_persistent_topics: Annotated[bool, about("Serve non-persistent topics.")] = True

    # ---- Connections, producers and consumers ----
    broker_max_connections: Annotated[
        Count, about("Maximum number of connections to the binary port, more are refused; 0: no limit.")
    ] = 0
    broker_max_connections_per_ip: Annotated[
        Count,
        about("Maximum number of connections to the binary port from one address, more are refused; 0: no limit."),
    ] = 0
    max_producers_per_topic: Annotated[
        Count,
        about(
            "Maximum number of producers of a topic; 0: no limit. A namespace's policy overrides this.", dynamic=True
        ),
    ] = 0
    max_consumers_per_topic: Annotated[
        Count,
        about(
            "Maximum number of consumers of a topic; 0: no limit. A namespace's policy overrides this.", dynamic=True
        ),
    ] = 0
    max_consumers_per_subscription: Annotated[
        Count,
        about(
            "Maximum number of consumers of a subscription; 0: no limit. A namespace's policy overrides this.",
            dynamic=True,
        ),
    ] = 0
    max_subscriptions_per_topic: Annotated[
        Count,
        about(
            "Maximum number of subscriptions of a topic; 0: no limit. A namespace's policy overrides this.",
            dynamic=True,
        ),
    ] = 0
    max_message_publish_buffer_size_in_mb: Annotated[
        CountOrOff,
        about(
            "Memory for messages of all connections that are not stored yet; beyond it no connection is read. -1: no "
            "limit. Pulsar's default is half of its direct memory.",
            unit="MiB",
        ),
    ] = 512
    max_message_size: Annotated[AtLeastOne, about("Largest message that a producer may send.", unit="bytes")] = (
        5_242_880
    )
    keep_alive_interval_seconds: Annotated[
        IntervalSeconds,
        about("Silence after which a PING is sent; the connection is closed after the same time without an answer."),
    ] = 30.0
    connection_liveness_check_timeout_millis: Annotated[
        Millis,
        about(
            "Time for the connection that uses a name to answer a PING, before another client replaces it.",
            dynamic=True,
        ),
    ] = 5_000
    max_pending_publish_requests_per_connection: Annotated[
        AtLeastOne, about("Unanswered messages of a connection at which the broker stops reading it.")
    ] = 1_000
    max_publish_rate_per_topic_in_messages: Annotated[
        Count,
        about(
            "Messages a second that a topic accepts; 0: no limit. A policy overrides this.", dynamic=True, unit="1/s"
        ),
    ] = 0
    max_publish_rate_per_topic_in_bytes: Annotated[
        Count,
        about(
            "Bytes a second that a topic accepts; 0: no limit. A policy overrides this.", dynamic=True, unit="bytes/s"
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_msg: Annotated[
        Count,
        about(
            "Messages a second that a topic delivers; 0: no limit. A policy overrides this.", dynamic=True, unit="1/s"
        ),
    ] = 0
    dispatch_throttling_rate_per_topic_in_byte: Annotated[
        Count,
        about(
            "Bytes a second that a topic delivers; 0: no limit. A policy overrides this.", dynamic=True, unit="bytes/s"
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_msg: Annotated[
        Count,
        about(
            "Messages a second that a subscription delivers; 0: no limit. A policy overrides this.",
            dynamic=True,
            unit="1/s",
        ),
    ] = 0
    dispatch_throttling_rate_per_subscription_in_byte: Annotated[
        Count,
        about(
            "Bytes a second that a subscription delivers; 0: no limit. A policy overrides this.",
            dynamic=True,
            unit="bytes/s",
        ),
    ] = 0
    dispatch_throttling_rate_relative_to_publish_rate: Annotated[
        bool,
        about(
            "Add the rate at which messages arrive to the four limits of dispatch (`dispatchThrottlingRatePer…`).",
            dynamic=True,
        ),
    ] = False
    subscribe_throttling_rate_per_consumer: Annotated[
        Count, about("How often a consumer may attach in a period; 0: no limit. A policy overrides this.", dynamic=True)
    ] = 0
    subscribe_rate_period_per_consumer_in_second: Annotated[
        WholeSeconds, about("The period of `subscribeThrottlingRatePerConsumer`.", dynamic=True)
    ] = 30
    dispatcher_pause_on_ack_state_persistent_enabled: Annotated[
        bool,
        about(
            "Deliver no more while a subscription has more ranges of acknowledged messages than are stored. A "
            "policy overrides this.",
            dynamic=True,
        ),
    ] = False
    broker_deduplication_enabled: Annotated[bool, about("Drop messages that a producer sent twice.")] = False
    broker_deduplication_entries_interval: Annotated[
        AtLeastOne, about("Messages after which a topic stores the last sequence ids of its producers.", unit="entries")
    ] = 1_000
    broker_deduplication_snapshot_frequency_in_seconds: Annotated[
        Seconds,
        about(
            "How often to look for topics that have to store their producers' sequence ids because of their age; 0: "
            "never."
        ),
    ] = 120.0
    broker_deduplication_snapshot_interval_seconds: Annotated[
        Seconds,
        about(
            "Time after which a topic with new messages stores its producers' sequence ids; 0: only by number of "
            "messages."
        ),
    ] = 120.0
    broker_deduplication_max_number_of_producers: Annotated[
        AtLeastOne,
        about(
            "Maximum number of producers of a topic whose sequence ids are kept; those that left first are dropped "
            "first."
        ),
    ] = 10_000
    broker_deduplication_producer_inactivity_timeout_minutes: Annotated[
        IntervalMinutes, about("Time after which the sequence id of a producer that left is dropped.")
    ] = 360.0
    max_unacked_messages_per_consumer: Annotated[
        Count, about("Unacknowledged messages at which a consumer gets no more; 0: no limit.", dynamic=True)
    ] = 50_000
    max_unacked_messages_per_subscription: Annotated[
        Count, about("Unacknowledged messages at which a subscription gets no more; 0: no limit.", dynamic=True)
    ] = 200_000
    active_consumer_failover_delay_time_millis: Annotated[
        Millis,
        about("Delay before a Failover subscription switches to another consumer and notifies its clients."),
    ] = 1_000
    subscription_key_shared_use_consistent_hashing: Annotated[
        bool, about("Divide the keys of a Key_Shared subscription by a hash ring; false: by ranges that are halved.")
    ] = True
    subscription_key_shared_consistent_hashing_replica_points: Annotated[
        RingPoints, about("Points of a consumer on that ring. With more, shares are more even and joining costs more.")
    ] = 100
    acknowledgment_at_batch_index_level_enabled: Annotated[
        bool, about("Record which messages of a batch are acknowledged; false: a batch is acknowledged as a whole.")
    ] = True
    dispatcher_max_read_batch_size: Annotated[
        AtLeastOne, about("Maximum number of entries read at once for a subscription.", dynamic=True, unit="entries")
    ] = 100
    broker_service_compaction_threshold_in_bytes: Annotated[
        Count, about("Uncompacted bytes at which a topic is compacted; 0: only on request.", dynamic=True, unit="bytes")
    ] = 0
    broker_service_compaction_monitor_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often to look for topics to be compacted.")
    ] = 60.0
    topic_compaction_retain_null_key: Annotated[bool, about("Keep messages without a key in compacted topics.")] = False
    stats_update_frequency_in_secs: Annotated[IntervalSeconds, about("How often rates of topics are computed.")] = 60.0
    expose_topic_level_metrics_in_prometheus: Annotated[
        bool, about("Export metrics of every topic at `/metrics`, not only of every namespace.")
    ] = True
    expose_consumer_level_metrics_in_prometheus: Annotated[
        bool, about("Export metrics of every consumer at `/metrics`, if those of topics are exported.")
    ] = False
    expose_producer_level_metrics_in_prometheus: Annotated[
        bool, about("Export metrics of every producer at `/metrics`, if those of topics are exported.")
    ] = False
    expose_bundles_metrics_in_prometheus: Annotated[
        bool,
        about("Export metrics of every bundle at `/metrics`. With the extensible load manager: only with 5.x."),
    ] = False

    # ---- Retention, expiry and backlog quotas ----
    default_retention_time_in_minutes: Annotated[
        WholeMinutesOrOff,
        about("Time for which consumed ledgers are kept; -1: any time. 0 here or in the size: none is kept."),
    ] = 0
    default_retention_size_in_mb: Annotated[
        MebibytesOrOff,
        about("Size of a topic up to which its consumed ledgers are kept; -1: any size."),
    ] = 0
    retention_check_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often to look for ledgers whose retention has ended.")
    ] = 120.0
    ttl_duration_default_in_seconds: Annotated[
        WholeSeconds, about("Age at which a message leaves the backlog of every subscription; 0: never.")
    ] = 0
    message_expiry_check_interval_in_minutes: Annotated[
        IntervalMinutes,
        about("How often to look for messages that are older than their topic allows (`ttlDurationDefaultInSeconds`)."),
    ] = 5.0
    backlog_quota_check_enabled: Annotated[bool, about("Look for topics whose backlog exceeds its quota.")] = True
    backlog_quota_check_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often to look for topics whose backlog exceeds its quota.")
    ] = 60.0
    backlog_quota_default_limit_bytes: Annotated[
        BytesOrOff, about("Size of a topic's largest backlog; -1: no limit.")
    ] = -1
    backlog_quota_default_limit_gb: Annotated[
        GibibytesOrOff, about("Size of a topic's largest backlog in GiB; above 0 it replaces the limit in bytes.")
    ] = -1.0
    backlog_quota_default_limit_second: Annotated[
        WholeSecondsOrOff, about("Age of a topic's oldest unacknowledged message; 0 or less: no limit.")
    ] = -1
    backlog_quota_default_retention_policy: Annotated[
        Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"],
        about(
            "At the limits of the backlog: producers wait, producers get an error, or the oldest messages leave the "
            "backlog."
        ),
    ] = "producer_request_hold"

    # ---- Ledgers ----
    managed_ledger_max_entries_per_ledger: Annotated[
        AtLeastOne, about("Entries after which a new ledger is created.", unit="entries")
    ] = 50_000
    managed_ledger_max_size_per_ledger_mbytes: Annotated[
        AtLeastOne, about("Size after which a new ledger is created.", unit="MiB")
    ] = 2_048
    managed_ledger_max_ledger_rollover_time_minutes: Annotated[
        IntervalMinutes, about("Age after which a ledger with entries is followed by a new one.")
    ] = 240.0
    managed_ledger_default_mark_delete_rate_limit: Annotated[
        Positive, about("Maximum number of writes of a cursor's position per second.", unit="1/s")
    ] = 1.0
    managed_ledger_max_batch_deleted_index_to_persist: Annotated[
        Count,
        about(
            "Maximum number of batches of a subscription of which parts are acknowledged; further ones are delivered "
            "as a whole.",
            unit="entries",
        ),
    ] = 10_000
    auto_skip_non_recoverable_data: Annotated[
        bool,
        about("Skip entries and ledgers that cannot be read; false: reading stops there.", dynamic=True),
    ] = False
    managed_ledger_cache_size_mb: Annotated[
        Count,
        about("Memory for recent entries of all topics. Pulsar's default is a fifth of its direct memory.", unit="MiB"),
    ] = 64
    barycenter_ledger_storage: Annotated[
        Literal["files", "bookkeeper"],
        about("Where messages are stored: in files of barycenterDataDir, or on bookies. See bookkeeper.md."),
    ] = "files"
    barycenter_ledger_records: Annotated[
        Literal["barycenter", "pulsar"],
        about(
            "Form of the records of topics in the metadata store: Barycenter's own, or Pulsar's, so that Java brokers "
            "serve the same topics; `pulsar` needs barycenterLedgerStorage=bookkeeper. See bookkeeper.md."
        ),
    ] = "barycenter"
    bookkeeper_metadata_service_uri: Annotated[
        str,
        about(
            "Metadata of the bookies: `zk+hierarchical://HOST:PORT/ledgers` or `metadata-store:URL`; blank: `/ledgers` "
            "in the store of metadataStoreUrl."
        ),
    ] = ""
    managed_ledger_default_ensemble_size: Annotated[
        Bookies, about("Bookies of a ledger; at least managedLedgerDefaultWriteQuorum.")
    ] = 2
    managed_ledger_default_write_quorum: Annotated[
        Bookies, about("Copies of a message on bookies; at least managedLedgerDefaultAckQuorum.")
    ] = 2
    managed_ledger_default_ack_quorum: Annotated[
        Bookies, about("Copies that bookies confirm before a producer gets its receipt.")
    ] = 2
    managed_ledger_digest_type: Annotated[
        Literal["CRC32C", "CRC32", "MAC"],
        about("Digest of messages on bookies. Pulsar also accepts DUMMY, which finds no damage."),
    ] = "CRC32C"
    managed_ledger_password: Annotated[
        str, about("Password of ledgers on bookies, the same for all brokers and for ever.", secret=True)
    ] = ""
    bookkeeper_client_timeout_in_seconds: Annotated[
        BookieTimeout, about("How long a request to a bookie may take; after that its connection is closed.")
    ] = 30.0
