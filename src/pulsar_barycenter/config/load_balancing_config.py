"""The keys of broker.conf for load balancing, of every load manager."""

from typing import Annotated, Literal

import msgspec

from pulsar_barycenter.config.key import (
    AtLeastOne,
    Band,
    Count,
    CountOrOff,
    Fraction,
    IntervalMillis,
    IntervalMinutes,
    IntervalSeconds,
    Millis,
    Minutes,
    Names,
    Patience,
    Percent,
    Positive,
    Seconds,
    SplitAlgorithm,
    Weight,
    about,
    key_name,
)
from pulsar_barycenter.config.security_config import SecurityConfig


class LoadBalancingConfig(SecurityConfig, frozen=True, kw_only=True, rename=key_name):
    """The keys of broker.conf about load balancing. `BrokerConfig` inherits them."""

    # ---- Load balancing: general ----
    load_balancer_enabled: Annotated[bool, about("Master switch: reports, shedding, splitting.")] = True
    load_manager_class_name: Annotated[
        str, about("Load manager, by class name or short name; running brokers change to it.", dynamic=True)
    ] = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
    load_manager_migration_enabled: Annotated[
        bool,
        about("Allow a change of the load manager broker by broker; see extensible-load-manager.md.", dynamic=True),
    ] = False
    load_balancer_placement_strategy: Annotated[
        str,
        about(
            "Placement of the simple load manager: leastLoadedServer, leastMsgPerSecond, or weightedRandomSelection, "
            "which also applies to any other name."
        ),
    ] = "leastLoadedServer"
    load_balancer_load_placement_strategy: Annotated[
        str, about("Placement of the modular load manager, by class name or short name.")
    ] = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    load_balancer_load_shedding_strategy: Annotated[
        str, about("Shedding, by class name or short name; applies from the next round on.", dynamic=True)
    ] = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    topic_bundle_assignment_strategy: Annotated[
        str, about("How topics are assigned to bundles: by CRC-32; there is no other.", offered=False)
    ] = "org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner"
    load_balancer_distribute_bundles_evenly_enabled: Annotated[
        bool, about("Prefer brokers with the fewest bundles of the namespace.", dynamic=True)
    ] = False
    load_balancer_shedding_excluded_namespaces: Annotated[
        Names, about("Namespaces whose bundles are never unloaded because of load.", dynamic=True)
    ] = ()
    prefer_later_versions: Annotated[bool, about("Prefer brokers of the newest version.", dynamic=True)] = False
    failure_domains_enabled: Annotated[bool, about("Spread anti-affinity groups over domains.", dynamic=True)] = False
    load_balancer_debug_mode_enabled: Annotated[
        bool, about("No effect: decisions are always logged with their reasons.", dynamic=True)
    ] = False

    # ---- Load balancing: reports and measurement ----
    load_balancer_report_update_threshold_percentage: Annotated[
        Percent, about("Change of load that makes a broker report early.", dynamic=True)
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
        Positive | None,
        about("Network limit of this broker, per interface. Blank: as measured.", unit="Gbit/s", own=True),
    ] = None
    load_balancer_override_broker_nics: Annotated[
        Names, about("Network interfaces to count. Blank: all physical ones.", own=True)
    ] = ()
    load_balancer_resource_quota_update_interval_minutes: Annotated[
        IntervalMinutes, about("How often the leader stores the averages of bundles and brokers.")
    ] = 15.0
    load_balancer_max_number_of_bundles_in_bundle_load_report: Annotated[
        CountOrOff,
        about(
            "Heaviest bundles whose averages the leader stores for each broker, or which each broker of the extensible "
            "load manager reports; -1: all.",
            dynamic=True,
            unit="bundles",
        ),
    ] = 10

    # ---- Load balancing: weights and averages ----
    load_balancer_history_resource_percentage: Annotated[
        Fraction, about("Weight of previous values in a broker's smoothed usage.", dynamic=True)
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
        Weight, about("Former spelling of `loadBalancerBandwidthInResourceWeight`; applies if that is 1.", dynamic=True)
    ] = 1.0
    load_balancer_bandwith_out_resource_weight: Annotated[
        Weight,
        about("Former spelling of `loadBalancerBandwidthOutResourceWeight`; applies if that is 1.", dynamic=True),
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
        IntervalMinutes, about("How often the leader looks for overloaded brokers.", dynamic=True)
    ] = 1.0
    load_balancer_shedding_grace_period_minutes: Annotated[
        Minutes, about("Time during which an unloaded bundle is not unloaded again.", dynamic=True)
    ] = 30.0
    barycenter_max_bundles_per_round: Annotated[
        Count,
        about(
            "Maximum number of bundles that one round unloads (modular load manager) and one check splits (also simple "
            "load manager); others wait for the next. 0: no limit, as in Pulsar.",
            dynamic=True,
            unit="bundles",
        ),
    ] = 1_000
    barycenter_strategy_settings: Annotated[
        str,
        about(
            "Settings of strategies from other packages: a JSON object with an object for each strategy. See "
            "strategy-plugins.md.",
            dynamic=True,
        ),
    ] = ""
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
        about("Difference of message rates at which UniformLoadShedder sheds; 0: off.", dynamic=True, unit="%"),
    ] = 50.0
    load_balancer_msg_throughput_multiplier_difference_shedder_threshold: Annotated[
        Weight, about("Ratio of throughputs at which UniformLoadShedder sheds; 0: off.", dynamic=True)
    ] = 4.0
    min_unload_message: Annotated[Count, about("Smallest rate worth an unload.", dynamic=True, unit="msg/s")] = 1_000
    min_unload_message_throughput: Annotated[
        Count, about("Smallest throughput worth an unload.", dynamic=True, unit="bytes/s")
    ] = 1_048_576
    max_unload_percentage: Annotated[
        Fraction, about("Largest part of the difference that is unloaded at once.", dynamic=True)
    ] = 0.5
    max_unload_bundle_num_per_shedding: Annotated[
        CountOrOff, about("Maximum number of bundles unloaded at once; -1: no limit.", dynamic=True, unit="bundles")
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
    barycenter_least_disturbance_band_percentage: Annotated[
        Band, about("LeastDisturbance: how far a broker may be above the reachable usage.", dynamic=True)
    ] = 6.0
    barycenter_least_disturbance_moves_per_hour: Annotated[
        Count,
        about(
            "LeastDisturbance: bundles that move in an hour at most, except after brokers join or leave, or bundles are"
            " split; 0: one for two brokers, at least 30.",
            dynamic=True,
            unit="bundles",
        ),
    ] = 0
    barycenter_least_disturbance_patience_minutes: Annotated[
        Patience, about("LeastDisturbance: how long a change of load must last before it counts.", dynamic=True)
    ] = 3.0
    namespace_bundle_unloading_timeout_ms: Annotated[
        IntervalMillis, about("Time for the topics of an unloaded bundle to close.", dynamic=True)
    ] = 60_000

    # ---- Load balancing: splitting ----
    load_balancer_auto_bundle_split_enabled: Annotated[
        bool, about("Split bundles that are too large.", dynamic=True)
    ] = True
    load_balancer_auto_unload_split_bundles_enabled: Annotated[
        bool, about("Unload the parts after an automatic split.", dynamic=True)
    ] = True
    load_balancer_namespace_bundle_max_topics: Annotated[
        AtLeastOne, about("Topics above which a bundle is split.", dynamic=True, unit="topics")
    ] = 1_000
    load_balancer_namespace_bundle_max_sessions: Annotated[
        CountOrOff, about("Producers and consumers above which a bundle is split; -1: off.", dynamic=True)
    ] = 1_000
    load_balancer_namespace_bundle_max_msg_rate: Annotated[
        Count, about("Message rate, in and out, above which a bundle is split.", dynamic=True, unit="msg/s")
    ] = 30_000
    load_balancer_namespace_bundle_max_bandwidth_mbytes: Annotated[
        Count, about("Throughput, in and out, above which a bundle is split.", dynamic=True, unit="MiB/s")
    ] = 100
    load_balancer_namespace_maximum_bundles: Annotated[
        AtLeastOne,
        about(
            "If a namespace has this number of bundles, none of them is split any more.", dynamic=True, unit="bundles"
        ),
    ] = 128
    supported_namespace_bundle_split_algorithms: Annotated[
        tuple[SplitAlgorithm, ...], about("Algorithms that a request for a split may name.", dynamic=True)
    ] = (
        "range_equally_divide",
        "topic_count_equally_divide",
        "specified_positions_divide",
        "flow_or_qps_equally_divide",
    )
    default_namespace_bundle_split_algorithm: Annotated[
        SplitAlgorithm, about("Algorithm of a split whose request names no algorithm.", dynamic=True)
    ] = "range_equally_divide"
    flow_or_qps_difference_threshold_percentage: Annotated[
        Percent, about("flow_or_qps_equally_divide: smallest difference that justifies a split.", dynamic=True)
    ] = 10

    # ---- Load balancing: extensible load manager ----
    load_balancer_broker_load_target_std: Annotated[
        Weight, about("Standard deviation of usage that TransferShedder aims at.", dynamic=True, unit="fraction")
    ] = 0.25
    load_balancer_shedding_condition_hit_count_threshold: Annotated[
        Count, about("Cycles in a row before TransferShedder sheds.", dynamic=True, unit="cycles")
    ] = 3
    load_balancer_transfer_enabled: Annotated[
        bool, about("Unload a bundle to a chosen broker (transfer) instead of without a destination.", dynamic=True)
    ] = True
    load_balancer_max_number_of_broker_shedding_per_cycle: Annotated[
        AtLeastOne, about("Maximum number of brokers shed in one cycle.", dynamic=True, unit="brokers")
    ] = 3
    load_balance_shedding_delay_in_seconds: Annotated[
        Seconds, about("Time after a move of a bundle before its next one.", dynamic=True)
    ] = 180.0
    load_balancer_broker_load_data_ttl_in_seconds: Annotated[
        IntervalSeconds, about("Age from which load data is ignored.", dynamic=True)
    ] = 1_800.0
    load_balancer_split_interval_minutes: Annotated[IntervalMinutes, about("How often to look for splits.")] = 1.0
    load_balancer_max_number_of_bundles_to_split_per_cycle: Annotated[
        AtLeastOne, about("Maximum number of bundles split in one cycle.", dynamic=True, unit="bundles")
    ] = 10
    load_balancer_namespace_bundle_split_condition_hit_count_threshold: Annotated[
        Count, about("Cycles in a row before a bundle is split.", dynamic=True, unit="cycles")
    ] = 3
    load_balancer_service_unit_state_tombstone_delay_time_in_seconds: Annotated[
        Annotated[float, msgspec.Meta(ge=30, extra={"unit": "s"})],
        about("How long a released ownership record is kept."),
    ] = 3_600.0
    load_balancer_in_flight_service_unit_state_waiting_time_in_millis: Annotated[
        Millis, about("Longest wait for a running ownership change.")
    ] = 30_000
    load_balancer_service_unit_state_monitor_interval_in_seconds: Annotated[
        IntervalSeconds, about("How often ownership records are checked.")
    ] = 60.0
    load_balancer_service_unit_state_max_concurrent_overrides: Annotated[
        AtLeastOne, about("Ownership records repaired at once.", dynamic=True)
    ] = 64
    load_balancer_shedding_bundles_with_policies_enabled: Annotated[
        bool, about("Also shed bundles that isolation policies restrict.", dynamic=True)
    ] = False
    load_balancer_multi_phase_bundle_unload: Annotated[
        bool, about("Keep clients connected until the new owner is ready.")
    ] = True
    load_manager_service_unit_state_table_view_class_name: Annotated[
        str, about("Where ownership records are kept.")
    ] = "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateTableViewImpl"
    load_balancer_service_unit_table_view_syncer: Annotated[
        Literal["None", "MetadataStoreToSystemTopicSyncer", "SystemTopicToMetadataStoreSyncer"],
        about("Copies ownership records between the metadata store and the system topic.", dynamic=True),
    ] = "None"
