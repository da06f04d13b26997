"""The keys of broker.conf, typed: names, units and defaults are Pulsar's unless the description says otherwise.

Defaults are those of the newest version (`pulsar_version`). A percentage stays a whole number from 0 to 100 as Pulsar
writes it. Keys that Pulsar counts in whole minutes or seconds take fractions here. Source: `ServiceConfiguration`.
"""

import ipaddress
from typing import Annotated, Literal

import msgspec

from barycenter.config.key import (
    AtLeastOne,
    Bundles,
    Count,
    CountOrOff,
    Fraction,
    IntervalMillis,
    IntervalMinutes,
    IntervalSeconds,
    Millis,
    Minutes,
    Names,
    Partitions,
    Percent,
    Port,
    Positive,
    Seconds,
    SplitAlgorithm,
    Weight,
    about,
    key_name,
)
from barycenter.config.pulsar_version import PulsarVersion


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, rename=key_name):
    """The configuration of one broker. Values are checked when they are parsed (`broker_conf`), not here."""

    # ---- The broker and its cluster ----
    cluster_name: Annotated[str, about("Name of the cluster. Pulsar has no default.")] = "standalone"
    metadata_store_url: Annotated[
        str,
        about("Store of the cluster: `sqlite:/path/to/file` or `memory:name`. Blank: a file in `barycenterDataDir`."),
    ] = ""
    configuration_metadata_store_url: Annotated[
        str, about("Store shared by clusters. Only the cluster's own store is offered, so leave it blank or equal.")
    ] = ""
    metadata_store_session_timeout_millis: Annotated[
        IntervalMillis,
        about("After this time without a sign of life a broker's session ends, and with it its ownership of bundles."),
    ] = 10_000
    metadata_store_operation_timeout_seconds: Annotated[
        IntervalSeconds, about("Longest wait for one answer of the store.")
    ] = 30.0
    metadata_store_cache_expiry_seconds: Annotated[
        IntervalSeconds, about("Age at which a cached record is read again even if no change was told.")
    ] = 300.0
    zookeeper_session_expired_policy: Annotated[
        Literal["reconnect", "shutdown"],
        about("When the session is lost: register again and go on, or end the process."),
    ] = "reconnect"
    broker_service_port: Annotated[Port, about("Port of the binary protocol; 0 picks a free one.")] = 6650
    broker_service_port_tls: Annotated[
        Port | None, about("TLS port of the binary protocol. Not offered yet.", offered=False)
    ] = None
    web_service_port: Annotated[Port, about("Port of the REST interface; 0 picks a free one.")] = 8080
    web_service_port_tls: Annotated[
        Port | None, about("TLS port of the REST interface. Not offered yet.", offered=False)
    ] = None
    bind_address: Annotated[str, about("Address to listen at. Pulsar's default is 0.0.0.0.")] = "127.0.0.1"
    bind_addresses: Annotated[str, about("More listeners. Not offered yet.", offered=False)] = ""
    advertised_address: Annotated[
        str,
        about("Host name in all URLs and in the broker id. Blank: 127.0.0.1 if bound to loopback, else the host name."),
    ] = ""
    advertised_listeners: Annotated[
        str, about("Further addresses that clients may ask for: `name:pulsar://host:port,…`.")
    ] = ""
    internal_listener_name: Annotated[str, about("Listener that brokers use among themselves.")] = ""
    broker_shutdown_timeout_ms: Annotated[
        Millis, about("Time for an orderly shutdown; 0 ends at once.", dynamic=True)
    ] = 60_000
    status_file_path: Annotated[str, about("If set, `/status.html` answers 200 only while this file exists.")] = ""
    bootstrap_namespaces: Annotated[Names, about("Namespaces that a broker owns from its start.")] = ()
    authentication_enabled: Annotated[bool, about("Ask clients who they are. Not offered yet.", offered=False)] = False
    authorization_enabled: Annotated[bool, about("Ask whether a client may do it. Not offered yet.", offered=False)] = (
        False
    )
    super_user_roles: Annotated[Names, about("Roles with all rights; of no effect without authentication.")] = ()

    web_service_allowed_hosts: Annotated[
        Names, about("More names of hosts under which the REST interface may be asked; `*` is any. See rest-api.md.")
    ] = ()
    web_service_request_timeout_seconds: Annotated[
        IntervalSeconds, about("Longest wait for a HTTP request to come with its whole header, and then for its body.")
    ] = 30.0
    max_http_server_connections: Annotated[Count, about("Most HTTP connections, more get 503; 0 is no limit.")] = 2_048

    # ---- Names, topics and limits ----
    default_number_of_namespace_bundles: Annotated[Bundles, about("Bundles of a new namespace.")] = 32
    default_number_of_system_namespace_bundles: Annotated[
        Bundles | None, about("Bundles of `pulsar/system`; none (4.x): `defaultNumberOfNamespaceBundles`.")
    ] = 64
    max_tenants: Annotated[Count, about("Most tenants; 0 is no limit.", dynamic=True)] = 0
    max_namespaces_per_tenant: Annotated[Count, about("Most namespaces of a tenant; 0 is no limit.", dynamic=True)] = 0
    max_topics_per_namespace: Annotated[Count, about("Most topics of a namespace; 0 is no limit.", dynamic=True)] = 0
    max_num_partitions_per_partitioned_topic: Annotated[
        Count, about("Most partitions of a topic; 0 is no other limit than 10,000, which holds always.", dynamic=True)
    ] = 0
    allow_auto_topic_creation: Annotated[bool, about("Create a topic when it is first used.", dynamic=True)] = True
    allow_auto_topic_creation_type: Annotated[
        Literal["non-partitioned", "partitioned"], about("Kind of a topic created by use.", dynamic=True)
    ] = "non-partitioned"
    default_num_partitions: Annotated[Partitions, about("Partitions of a topic created by use.", dynamic=True)] = 1
    allow_auto_subscription_creation: Annotated[bool, about("Create a subscription by its use.", dynamic=True)] = True
    broker_delete_inactive_topics_enabled: Annotated[
        bool, about("Delete topics without producers and subscriptions.", dynamic=True)
    ] = True
    broker_delete_inactive_topics_frequency_seconds: Annotated[
        IntervalSeconds,
        about("How often to look for inactive topics, and how long a topic must have been idle.", dynamic=True),
    ] = 60.0
    force_delete_namespace_allowed: Annotated[bool, about("Allow `force=true` of namespaces.", dynamic=True)] = False
    force_delete_tenant_allowed: Annotated[bool, about("Allow `force=true` of tenants.", dynamic=True)] = False
    max_concurrent_lookup_request: Annotated[
        AtLeastOne, about("Lookups under way at once; more are told to try again.", dynamic=True)
    ] = 50_000
    max_concurrent_topic_load_request: Annotated[
        AtLeastOne, about("Topics being loaded at once; more wait.", dynamic=True)
    ] = 5_000
    topic_load_timeout_seconds: Annotated[IntervalSeconds, about("Longest load of a topic.", dynamic=True)] = 60.0
    enable_persistent_topics: Annotated[bool, about("Serve persistent topics.")] = True
    enable_non_persistent_topics: Annotated[bool, about("Serve non-persistent topics.")] = True

    # ---- Connections, producers and consumers ----
    max_message_size: Annotated[AtLeastOne, about("Largest message that a producer may send.", unit="bytes")] = (
        5_242_880
    )
    keep_alive_interval_seconds: Annotated[
        IntervalSeconds, about("Silence after which a connection is pinged; closed after as much again.")
    ] = 30.0
    connection_liveness_check_timeout_millis: Annotated[
        Millis,
        about("Time for the holder of a name to prove it is alive, before a newcomer replaces it.", dynamic=True),
    ] = 5_000
    max_pending_publish_requests_per_connection: Annotated[
        AtLeastOne, about("Unanswered messages of a connection at which the broker stops reading it.")
    ] = 1_000
    broker_deduplication_enabled: Annotated[bool, about("Drop messages that a producer sent twice.")] = False
    max_unacked_messages_per_consumer: Annotated[
        Count, about("Unacknowledged messages at which a consumer gets no more; 0 is no limit.", dynamic=True)
    ] = 50_000
    max_unacked_messages_per_subscription: Annotated[
        Count, about("Unacknowledged messages at which a subscription gets no more; 0 is no limit.", dynamic=True)
    ] = 200_000
    active_consumer_failover_delay_time_millis: Annotated[
        Millis, about("Delay before a Failover subscription goes to another consumer.")
    ] = 1_000
    dispatcher_max_read_batch_size: Annotated[
        AtLeastOne, about("Most entries read at once for a subscription.", dynamic=True, unit="entries")
    ] = 100
    broker_service_compaction_threshold_in_bytes: Annotated[
        Count, about("Uncompacted bytes at which a topic is compacted; 0: by request.", dynamic=True, unit="bytes")
    ] = 0
    broker_service_compaction_monitor_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often to look for topics to be compacted.")
    ] = 60.0
    topic_compaction_retain_null_key: Annotated[bool, about("Keep messages without a key in compacted topics.")] = False
    stats_update_frequency_in_secs: Annotated[IntervalSeconds, about("How often rates of topics are computed.")] = 60.0
    expose_topic_level_metrics_in_prometheus: Annotated[
        bool, about("Show figures of every topic at `/metrics`, not only of every namespace.")
    ] = True

    # ---- Ledgers ----
    managed_ledger_max_entries_per_ledger: Annotated[
        AtLeastOne, about("Entries after which a new ledger is begun.", unit="entries")
    ] = 50_000
    managed_ledger_max_size_per_ledger_mbytes: Annotated[
        AtLeastOne, about("Size after which a new ledger is begun.", unit="MiB")
    ] = 2_048
    managed_ledger_default_mark_delete_rate_limit: Annotated[
        Positive, about("Most writes a second of a cursor's position.", unit="1/s")
    ] = 1.0
    auto_skip_non_recoverable_data: Annotated[
        bool,
        about("Never deliver entries and ledgers that cannot be read; without, reading stops there.", dynamic=True),
    ] = False
    managed_ledger_cache_size_mb: Annotated[
        Count, about("Memory for recent entries of all topics. Pulsar takes a fifth of its direct memory.", unit="MiB")
    ] = 64

    # ---- Load balancing: general ----
    load_balancer_enabled: Annotated[bool, about("Master switch: reports, shedding, splitting.")] = True
    load_manager_class_name: Annotated[
        str, about("Load manager, by class name or short name; running brokers exchange theirs.", dynamic=True)
    ] = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
    load_manager_migration_enabled: Annotated[
        bool, about("Change over broker by broker; how: extensible-load-manager.md.", dynamic=True)
    ] = False
    load_balancer_placement_strategy: Annotated[
        str,
        about(
            "Placement of the simple load manager: leastLoadedServer, leastMsgPerSecond, or weightedRandomSelection, "
            "which any other name means, too."
        ),
    ] = "leastLoadedServer"
    load_balancer_load_placement_strategy: Annotated[
        str, about("Placement of the modular load manager, by class name or short name.")
    ] = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    load_balancer_load_shedding_strategy: Annotated[
        str, about("Shedding, by class name or short name; in force from the next round on.", dynamic=True)
    ] = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    topic_bundle_assignment_strategy: Annotated[
        str, about("How topics are assigned to bundles: by CRC-32, the only one there is.", offered=False)
    ] = "org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner"
    load_balancer_distribute_bundles_evenly_enabled: Annotated[
        bool, about("Prefer brokers with the fewest bundles of the namespace.", dynamic=True)
    ] = False
    load_balancer_shedding_excluded_namespaces: Annotated[Names, about("Namespaces never shed.", dynamic=True)] = ()
    prefer_later_versions: Annotated[bool, about("Prefer brokers of the newest version.", dynamic=True)] = False
    failure_domains_enabled: Annotated[bool, about("Spread anti-affinity groups over domains.", dynamic=True)] = False
    load_balancer_debug_mode_enabled: Annotated[bool, about("Log more of the load manager.", dynamic=True)] = False

    # ---- Load balancing: reports and measurement ----
    load_balancer_report_update_threshold_percentage: Annotated[
        Percent, about("Change of load that makes a broker report before its time.", dynamic=True)
    ] = 10
    load_balancer_report_update_min_interval_millis: Annotated[
        IntervalMillis, about("Shortest time between reports.", dynamic=True)
    ] = 5_000
    load_balancer_report_update_max_interval_minutes: Annotated[
        IntervalMinutes, about("Longest time between reports.", dynamic=True)
    ] = 15.0
    load_balancer_host_usage_check_interval_minutes: Annotated[
        IntervalMinutes, about("How often CPU, memory and network are measured.", dynamic=True)
    ] = 1.0
    load_balancer_override_broker_nic_speed_gbps: Annotated[
        Positive | None, about("Network limit of this broker, per interface. Blank: as measured.", unit="Gbit/s")
    ] = None
    load_balancer_override_broker_nics: Annotated[
        Names, about("Network interfaces to count. Blank: all physical ones.")
    ] = ()
    load_balancer_resource_quota_update_interval_minutes: Annotated[
        IntervalMinutes, about("How often the leader stores the averages of bundles and brokers.")
    ] = 15.0
    load_balancer_max_number_of_bundles_in_bundle_load_report: Annotated[
        CountOrOff,
        about(
            "Heaviest bundles whose averages the leader stores for each broker, or which each broker of the extensible "
            "load manager tells of; -1 is all.",
            dynamic=True,
            unit="bundles",
        ),
    ] = 10

    # ---- Load balancing: weights and averages ----
    load_balancer_history_resource_percentage: Annotated[
        Fraction, about("Weight of the past in a broker's smoothed usage.", dynamic=True)
    ] = 0.9
    load_balancer_cpu_resource_weight: Annotated[Weight, about("Weight of CPU usage.", dynamic=True)] = 1.0
    load_balancer_memory_resource_weight: Annotated[Weight, about("Weight of memory usage.", dynamic=True)] = 0.0
    load_balancer_direct_memory_resource_weight: Annotated[
        Weight, about("Weight of direct memory usage.", dynamic=True)
    ] = 0.0
    load_balancer_bandwidth_in_resource_weight: Annotated[
        Weight, about("Weight of incoming bandwidth.", dynamic=True)
    ] = 1.0
    load_balancer_bandwidth_out_resource_weight: Annotated[
        Weight, about("Weight of outgoing bandwidth.", dynamic=True)
    ] = 1.0
    load_balancer_bandwith_in_resource_weight: Annotated[
        Weight, about("Former spelling of `loadBalancerBandwidthInResourceWeight`; counts if that is 1.", dynamic=True)
    ] = 1.0
    load_balancer_bandwith_out_resource_weight: Annotated[
        Weight, about("Former spelling of `loadBalancerBandwidthOutResourceWeight`; counts if that is 1.", dynamic=True)
    ] = 1.0

    # ---- Load balancing: placement ----
    load_balancer_broker_overloaded_threshold_percentage: Annotated[
        Percent, about("Usage from which a broker is overloaded.", dynamic=True)
    ] = 85
    load_balancer_broker_max_topics: Annotated[
        AtLeastOne, about("Topics at which a broker gets no more bundles.", dynamic=True, unit="topics")
    ] = 50_000
    load_balancer_average_resource_usage_difference_threshold_percentage: Annotated[
        Percent,
        about("Distance below the mean that makes a broker a candidate (LeastResourceUsageWithWeight).", dynamic=True),
    ] = 10
    load_balancer_broker_underloaded_threshold_percentage: Annotated[
        Percent, about("Usage up to which a broker is underloaded (simple load manager).")
    ] = 50
    load_balancer_broker_comfort_load_level_percentage: Annotated[
        Percent, about("Usage up to which an overloaded broker sheds (simple load manager).")
    ] = 65

    # ---- Load balancing: shedding ----
    load_balancer_shedding_enabled: Annotated[bool, about("Unload bundles from overloaded brokers.", dynamic=True)] = (
        True
    )
    load_balancer_shedding_interval_minutes: Annotated[
        IntervalMinutes, about("How often the leader looks for overload.", dynamic=True)
    ] = 1.0
    load_balancer_shedding_grace_period_minutes: Annotated[
        Minutes, about("Time during which a bundle that was unloaded is left alone.", dynamic=True)
    ] = 30.0
    barycenter_max_bundles_per_round: Annotated[
        Count,
        about(
            "Most bundles that one round unloads (modular load manager), and that one check splits (simple one, too); "
            "others wait for the next. 0 is no limit, as in Pulsar.",
            dynamic=True,
            unit="bundles",
        ),
    ] = 1_000
    load_balancer_broker_threshold_shedder_percentage: Annotated[
        Percent, about("Distance above the mean at which ThresholdShedder sheds.", dynamic=True)
    ] = 10
    load_balancer_bundle_unload_min_throughput_threshold: Annotated[
        Weight, about("Throughput below which shedding is not worth it.", dynamic=True, unit="MiB/s")
    ] = 10.0
    lower_boundary_shedding_enabled: Annotated[
        bool, about("Also shed to brokers far below the mean when none is far above it.")
    ] = False
    load_balancer_msg_rate_difference_shedder_threshold: Annotated[
        Weight,
        about("Difference of message rates at which UniformLoadShedder sheds; 0 is off.", dynamic=True, unit="%"),
    ] = 50.0
    load_balancer_msg_throughput_multiplier_difference_shedder_threshold: Annotated[
        Weight, about("Ratio of throughputs at which UniformLoadShedder sheds; 0 is off.", dynamic=True)
    ] = 4.0
    min_unload_message: Annotated[Count, about("Smallest rate worth an unload.", dynamic=True, unit="msg/s")] = 1_000
    min_unload_message_throughput: Annotated[
        Count, about("Smallest throughput worth an unload.", dynamic=True, unit="bytes/s")
    ] = 1_048_576
    max_unload_percentage: Annotated[Fraction, about("Most of the difference unloaded at once.", dynamic=True)] = 0.5
    max_unload_bundle_num_per_shedding: Annotated[
        CountOrOff, about("Most bundles unloaded at once; -1 is no limit.", dynamic=True, unit="bundles")
    ] = -1
    load_balancer_avg_shedder_low_threshold: Annotated[
        Percent, about("AvgShedder: difference that counts as a hit.", dynamic=True)
    ] = 15
    load_balancer_avg_shedder_high_threshold: Annotated[
        Percent, about("AvgShedder: difference that counts as a heavy hit.", dynamic=True)
    ] = 40
    load_balancer_avg_shedder_hit_count_low_threshold: Annotated[
        AtLeastOne, about("AvgShedder: hits in a row before it sheds.", dynamic=True, unit="cycles")
    ] = 8
    load_balancer_avg_shedder_hit_count_high_threshold: Annotated[
        AtLeastOne, about("AvgShedder: heavy hits in a row before it sheds.", dynamic=True, unit="cycles")
    ] = 2
    namespace_bundle_unloading_timeout_ms: Annotated[
        IntervalMillis, about("Time for the topics of an unloaded bundle to close.", dynamic=True)
    ] = 60_000

    # ---- Load balancing: splitting ----
    load_balancer_auto_bundle_split_enabled: Annotated[
        bool, about("Split bundles that grew too large.", dynamic=True)
    ] = True
    load_balancer_auto_unload_split_bundles_enabled: Annotated[
        bool, about("Unload the parts after an automatic split.", dynamic=True)
    ] = True
    load_balancer_namespace_bundle_max_topics: Annotated[
        AtLeastOne, about("Topics above which a bundle is split.", dynamic=True, unit="topics")
    ] = 1_000
    load_balancer_namespace_bundle_max_sessions: Annotated[
        CountOrOff, about("Producers and consumers above which a bundle is split; -1 is off.", dynamic=True)
    ] = 1_000
    load_balancer_namespace_bundle_max_msg_rate: Annotated[
        Count, about("Message rate, in and out, above which a bundle is split.", dynamic=True, unit="msg/s")
    ] = 30_000
    load_balancer_namespace_bundle_max_bandwidth_mbytes: Annotated[
        Count, about("Throughput, in and out, above which a bundle is split.", dynamic=True, unit="MiB/s")
    ] = 100
    load_balancer_namespace_maximum_bundles: Annotated[
        AtLeastOne, about("Bundles of a namespace at which nothing is split any more.", dynamic=True, unit="bundles")
    ] = 128
    supported_namespace_bundle_split_algorithms: Annotated[
        tuple[SplitAlgorithm, ...], about("Algorithms that a split may ask for.", dynamic=True)
    ] = (
        "range_equally_divide",
        "topic_count_equally_divide",
        "specified_positions_divide",
        "flow_or_qps_equally_divide",
    )
    default_namespace_bundle_split_algorithm: Annotated[
        SplitAlgorithm, about("Algorithm of a split that names none.", dynamic=True)
    ] = "range_equally_divide"
    flow_or_qps_difference_threshold_percentage: Annotated[
        Percent, about("flow_or_qps_equally_divide: smallest difference worth a cut.", dynamic=True)
    ] = 10

    # ---- Load balancing: extensible load manager ----
    load_balancer_broker_load_target_std: Annotated[
        Weight, about("Standard deviation of usage that TransferShedder aims at.", dynamic=True, unit="fraction")
    ] = 0.25
    load_balancer_shedding_condition_hit_count_threshold: Annotated[
        Count, about("Cycles in a row before TransferShedder sheds.", dynamic=True, unit="cycles")
    ] = 3
    load_balancer_transfer_enabled: Annotated[
        bool, about("Unload to a chosen broker instead of to none.", dynamic=True)
    ] = True
    load_balancer_max_number_of_broker_shedding_per_cycle: Annotated[
        AtLeastOne, about("Most brokers shed in one cycle.", dynamic=True, unit="brokers")
    ] = 3
    load_balance_shedding_delay_in_seconds: Annotated[
        Seconds, about("Time after a move of a bundle before the next.", dynamic=True)
    ] = 180.0
    load_balancer_broker_load_data_ttl_in_seconds: Annotated[
        IntervalSeconds, about("Age at which load data no longer count.", dynamic=True)
    ] = 1_800.0
    load_balancer_split_interval_minutes: Annotated[IntervalMinutes, about("How often to look for splits.")] = 1.0
    load_balancer_max_number_of_bundles_to_split_per_cycle: Annotated[
        AtLeastOne, about("Most bundles split in one cycle.", dynamic=True, unit="bundles")
    ] = 10
    load_balancer_namespace_bundle_split_condition_hit_count_threshold: Annotated[
        Count, about("Cycles in a row before a bundle is split.", dynamic=True, unit="cycles")
    ] = 3
    load_balancer_service_unit_state_tombstone_delay_time_in_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=30, extra={"unit": "s"})],
        about("Time that a released ownership record is kept."),
    ] = 3_600.0
    load_balancer_in_flight_service_unit_state_waiting_time_in_millis: Annotated[
        Millis, about("Longest wait for an ownership change under way.")
    ] = 30_000
    load_balancer_service_unit_state_monitor_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often ownership records are checked.")
    ] = 60.0
    load_balancer_service_unit_state_max_concurrent_overrides: Annotated[
        AtLeastOne, about("Ownership records repaired at once.", dynamic=True)
    ] = 64
    load_balancer_shedding_bundles_with_policies_enabled: Annotated[
        bool, about("Also shed bundles that isolation policies bind.", dynamic=True)
    ] = False
    load_balancer_multi_phase_bundle_unload: Annotated[
        bool, about("Keep clients connected until the new owner is ready.")
    ] = True
    load_manager_service_unit_state_table_view_class_name: Annotated[
        str, about("Where ownership records are kept.")
    ] = "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableViewImpl"
    load_balancer_service_unit_table_view_syncer: Annotated[
        Literal["None", "MetadataStoreToSystemTopicSyncer", "SystemTopicToMetadataStoreSyncer"],
        about("Copying of ownership records between their two kinds of places.", dynamic=True),
    ] = "None"

    # ---- Barycenter's own ----
    barycenter_pulsar_compatibility: Annotated[
        PulsarVersion,
        about("Whose load balancing and defaults are followed; a key that is set wins. See pulsar-versions.md."),
    ] = "5.x"
    barycenter_data_dir: Annotated[
        str,
        about(
            "Folder of the ledgers (`ledgers`), load reports (`load-reports`), decisions (`decisions`) and of what the "
            "pipeline publishes (`pipeline/publication`)."
        ),
    ] = "data"
    load_report_log_enabled: Annotated[bool, about("Append every load report to the log that the pipeline reads.")] = (
        True
    )
    load_report_log_retention_hours: Annotated[
        Positive, about("Age at which load reports are removed from the log.", unit="h")
    ] = 24.0
    barycenter_load_report_topic_enabled: Annotated[
        bool, about("Publish every load report to `persistent://pulsar/system/load-reports` as well, keyed by broker.")
    ] = False
    load_balancer_pipeline_max_lag_seconds: Annotated[
        IntervalSeconds,
        about("Age of the pipeline's figures at which the leader goes by its own until newer ones come.", dynamic=True),
    ] = 60.0
    barycenter_extensible_pipeline_enabled: Annotated[
        bool,
        about(
            "The extensible load manager compares traffic by the pipeline's windows while it keeps up.", dynamic=True
        ),
    ] = False
    load_balancer_host_usage_scope: Annotated[
        Literal["process", "host"], about("Whose CPU and network count as the broker's load.")
    ] = "process"

    @property
    def effective_advertised_address(self) -> str | None:
        """The address to advertise; None says that it is the name of the host, which is not known here."""
        if self.advertised_address:
            return self.advertised_address
        if self.bind_address == "localhost":
            return "127.0.0.1"
        try:
            address = ipaddress.ip_address(self.bind_address)
        except ValueError:
            return self.bind_address
        if address.is_loopback:
            return "127.0.0.1" if address.version == 4 else str(address)
        return None if address.is_unspecified else str(address)

    @property
    def effective_metadata_store_url(self) -> str:
        return self.metadata_store_url or f"sqlite:{self.barycenter_data_dir}/metadata.sqlite"
