"""The rules of configuration advice, except those about shedding. See `configuration_advice`."""

from collections.abc import Iterator, Mapping
from typing import Final

from pulsar_barycenter.load.advice.facts import Advice, Facts, Rule, Severity
from pulsar_barycenter.load.advice.shedding_rules import BY_SHEDDER, EVENLY, SHEDDING, frozen_history
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.simple.simple_settings import SimpleStrategy


def findings(facts: Facts) -> Iterator[Advice]:
    """Yield the advice of every rule whose condition is true, among the rules for the load manager and the strategies
    in force.
    """
    rules = [
        *GENERAL,
        *BY_MANAGER.get(facts.manager, ()),
        *BY_SHEDDER.get(facts.shedder, ()),
        *(SHEDDING if facts.shedder else ()),
        *(BY_PLACER.get(facts.placer, ()) if facts.manager is not ManagerKind.NOOP else ()),
        *(SPLITTING if facts.config.load_balancer_auto_bundle_split_enabled else ()),
    ]
    for rule in rules:
        if rule.holds(facts):
            yield facts.advise(rule.attribute, rule.sentence, rule.mend, rule.severity)


# ---- general ----


def _balances(facts: Facts) -> bool:
    return facts.config.load_balancer_enabled and facts.manager is not ManagerKind.NOOP


GENERAL: Final = (
    Rule(
        "load_balancer_enabled",
        lambda f: not f.config.load_balancer_enabled and f.manager is not ManagerKind.NOOP,
        "brokers do not report, shed or split; bundles are assigned by the reports that brokers wrote at their start",
        "set it to true to balance the load",
        Severity.NOTE,
    ),
    Rule(
        "load_balancer_shedding_enabled",
        lambda f: _balances(f) and not f.config.load_balancer_shedding_enabled,
        "no bundle is moved automatically, whatever the shedding strategy and its thresholds are",
        "set it to true to shed",
        Severity.NOTE,
    ),
    Rule(
        "load_balancer_cpu_resource_weight",
        lambda f: _balances(f) and f.full == 0,
        "all resource weights are 0, so the usage of every broker is 0 %, and no broker is ever overloaded",
        "set it, or a bandwidth weight, to 1",
    ),
    Rule(
        "load_balancer_direct_memory_resource_weight",
        lambda f: f.full > 0 and f.config.load_balancer_direct_memory_resource_weight == sum(f.weights),
        "only direct memory counts, for which Barycenter's brokers report 0 %, so their usage is always 0 %",
        "set loadBalancerCPUResourceWeight, or a bandwidth weight, to 1",
    ),
    Rule(
        "load_balancer_memory_resource_weight",
        lambda f: f.manager is ManagerKind.MODULAR and f.config.load_balancer_memory_resource_weight > 0,
        "the modular load manager no longer reads it: heap memory does not count for the usage of a broker",
        "remove it",
        Severity.NOTE,
    ),
    Rule(
        "load_balancer_bandwith_in_resource_weight",
        lambda f: f.config.load_balancer_bandwith_in_resource_weight != 1.0,
        "the former, misspelt name of a key; it counts only while the newer key is 1",
        "write loadBalancerBandwidthInResourceWeight",
        Severity.NOTE,
    ),
    Rule(
        "load_balancer_bandwith_out_resource_weight",
        lambda f: f.config.load_balancer_bandwith_out_resource_weight != 1.0,
        "the former, misspelt name of a key; it counts only while the newer key is 1",
        "write loadBalancerBandwidthOutResourceWeight",
        Severity.NOTE,
    ),
    Rule(
        "load_balancer_report_update_min_interval_millis",
        lambda f: (
            f.config.load_balancer_report_update_min_interval_millis
            > f.config.load_balancer_report_update_max_interval_minutes * 60_000
        ),
        "brokers check so rarely whether a report is due that the longest time between two reports is exceeded",
        "set it below loadBalancerReportUpdateMaxIntervalMinutes",
    ),
    Rule(
        "load_balancer_broker_overloaded_threshold_percentage",
        lambda f: _balances(f) and f.config.load_balancer_broker_overloaded_threshold_percentage == 0,
        "every broker with any load counts as overloaded, so placement chooses twice, and at random",
        "set it above 0, Pulsar's default is 85",
    ),
    Rule(
        "load_balancer_broker_max_topics",
        lambda f: (
            f.config.load_balancer_broker_max_topics < f.config.load_balancer_namespace_bundle_max_topics
            and f.config.load_balancer_auto_bundle_split_enabled
        ),
        "a broker may have fewer topics than a bundle may have before it is split, so a bundle may fit nowhere",
        "set it above loadBalancerNamespaceBundleMaxTopics",
    ),
    Rule(
        "barycenter_extensible_pipeline_enabled",
        lambda f: f.config.barycenter_extensible_pipeline_enabled and f.manager is not ManagerKind.EXTENSIBLE,
        "only the extensible load manager reads it; the modular one uses the pipeline wherever there is one",
        "remove it",
        Severity.NOTE,
    ),
)


# ---- placement ----

BY_PLACER: Final[Mapping[str, tuple[Rule, ...]]] = {
    "LeastResourceUsageWithWeight": (
        Rule(
            "load_balancer_average_resource_usage_difference_threshold_percentage",
            lambda f: 0 < f.full <= f.config.load_balancer_average_resource_usage_difference_threshold_percentage / 100,
            "no broker can be that far below the mean, so LeastResourceUsageWithWeight chooses at random among all, "
            "whatever their load is",
            "set it lower, Pulsar's default is 10",
        ),
        Rule(
            EVENLY,
            lambda f: f.config.load_balancer_distribute_bundles_evenly_enabled and f.manager is ManagerKind.MODULAR,
            "LeastResourceUsageWithWeight chooses only among the brokers with the fewest bundles of the namespace, in "
            "a small cluster often a single one",
            "set it to false to place by usage",
            Severity.NOTE,
        ),
        frozen_history("LeastResourceUsageWithWeight"),
    ),
}


# ---- load managers ----

BY_MANAGER: Final[Mapping[ManagerKind, tuple[Rule, ...]]] = {
    ManagerKind.MODULAR: (
        Rule(
            "lower_boundary_shedding_enabled",
            lambda f: f.config.lower_boundary_shedding_enabled and f.shedder not in ("ThresholdShedder", ""),
            "only ThresholdShedder reads it",
            "remove it, or set loadBalancerLoadSheddingStrategy=ThresholdShedder",
            Severity.NOTE,
        ),
        Rule(
            "load_balancer_placement_strategy",
            lambda f: f.config.load_balancer_placement_strategy != "leastLoadedServer",
            "only the simple load manager reads it",
            "set loadBalancerLoadPlacementStrategy, which the modular one reads",
            Severity.NOTE,
        ),
    ),
    ManagerKind.SIMPLE: (
        Rule(
            "load_balancer_placement_strategy",
            lambda f: f.config.load_balancer_placement_strategy not in set(SimpleStrategy),
            "not a placement strategy of the simple load manager, which uses weightedRandomSelection, as in Pulsar",
            f"use one of {', '.join(SimpleStrategy)}",
        ),
        Rule(
            "load_balancer_broker_comfort_load_level_percentage",
            lambda f: (
                f.config.load_balancer_broker_comfort_load_level_percentage
                >= f.config.load_balancer_broker_overloaded_threshold_percentage
            ),
            "an overloaded broker sheds to a broker that is as full, which then sheds itself",
            "set it (65 in Pulsar by default) below loadBalancerBrokerOverloadedThresholdPercentage",
        ),
        Rule(
            "load_balancer_broker_underloaded_threshold_percentage",
            lambda f: (
                f.config.load_balancer_broker_underloaded_threshold_percentage
                >= f.config.load_balancer_broker_overloaded_threshold_percentage
            ),
            "idle brokers get nothing until the others are overloaded",
            "set it (50 in Pulsar by default) below loadBalancerBrokerOverloadedThresholdPercentage",
        ),
    ),
    ManagerKind.EXTENSIBLE: (
        Rule(
            "barycenter_extensible_pipeline_enabled",
            lambda f: f.config.barycenter_extensible_pipeline_enabled and not f.config.load_report_log_enabled,
            "brokers write no log of load reports for a pipeline, so decisions use the newest reports",
            "set loadReportLogEnabled=true",
        ),
    ),
}


# ---- splitting ----

SPLITTING: Final = (
    Rule(
        "load_balancer_namespace_maximum_bundles",
        lambda f: f.config.load_balancer_namespace_maximum_bundles <= f.config.default_number_of_namespace_bundles,
        "a new namespace already has that many bundles (defaultNumberOfNamespaceBundles), so none is ever split",
        "set it (128 in Pulsar by default) above defaultNumberOfNamespaceBundles",
    ),
    Rule(
        "load_balancer_namespace_bundle_max_msg_rate",
        lambda f: f.config.load_balancer_namespace_bundle_max_msg_rate == 0,
        "every bundle with traffic exceeds it and is split, until its namespace has the maximum number of bundles",
        "set it above 0, Pulsar's default is 30000",
    ),
    Rule(
        "load_balancer_namespace_bundle_max_bandwidth_mbytes",
        lambda f: f.config.load_balancer_namespace_bundle_max_bandwidth_mbytes == 0,
        "every bundle with traffic exceeds it and is split, until its namespace has the maximum number of bundles",
        "set it above 0, Pulsar's default is 100",
    ),
    Rule(
        "default_namespace_bundle_split_algorithm",
        lambda f: f.config.default_namespace_bundle_split_algorithm == "specified_positions_divide",
        "an automatic split has no positions for it, so every automatic split fails",
        "set it to another algorithm, Pulsar's default is range_equally_divide",
    ),
    Rule(
        "default_namespace_bundle_split_algorithm",
        lambda f: (
            f.config.default_namespace_bundle_split_algorithm
            not in f.config.supported_namespace_bundle_split_algorithms
        ),
        "it is not among supportedNamespaceBundleSplitAlgorithms",
        "add it there, or set one of those",
    ),
)
