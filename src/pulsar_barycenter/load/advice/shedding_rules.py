"""The rules of configuration advice about shedding, by shedder. See `configuration_advice`.

Bounds follow from possible loads: a usage is between 0 and the largest weight (a broker may report more than its limit,
but not for long), and the standard deviation of such usages is at most half of that.
"""

from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.load.advice.facts import Facts, Rule, Severity
from pulsar_barycenter.load.managers import ManagerKind

_MEBIBYTE: Final = 1_048_576
_MARGIN: Final = 0.05
"""What ThresholdShedder adds to the excess that a broker sheds (fraction)."""

_GRACE: Final = "load_balancer_shedding_grace_period_minutes"

SHEDDING: Final = (
    Rule(
        _GRACE,
        lambda f: (
            f.config.load_balancer_shedding_grace_period_minutes < f.config.load_balancer_shedding_interval_minutes
        ),
        "it ends before the next round, so a bundle can move back and forth in every round",
        "set it (30 in Pulsar by default) to several times loadBalancerSheddingIntervalMinutes",
    ),
    Rule(
        "load_balancer_shedding_interval_minutes",
        lambda f: (
            f.config.load_balancer_shedding_interval_minutes * 60 < f.config.stats_update_frequency_in_secs
            or f.config.load_balancer_shedding_interval_minutes
            < f.config.load_balancer_host_usage_check_interval_minutes
        ),
        "rounds follow faster than new load data, so the same excess is shed more than once",
        "set it to at least statsUpdateFrequencyInSecs and loadBalancerHostUsageCheckIntervalMinutes",
    ),
)

_THRESHOLD: Final = "load_balancer_broker_threshold_shedder_percentage"
_SHARE: Final = "max_unload_percentage"


def _threshold(facts: Facts) -> float:
    return facts.config.load_balancer_broker_threshold_shedder_percentage / 100


def frozen_history(name: str) -> Rule:
    return Rule(
        "load_balancer_history_resource_percentage",
        lambda f: f.config.load_balancer_history_resource_percentage == 1,
        f"only the past counts, so {name} always compares the first usage that each broker reported",
        "set it below 1, Pulsar's default is 0.9",
    )


def _of_threshold(name: str) -> tuple[Rule, ...]:
    return (
        Rule(
            _THRESHOLD,
            lambda f: 0 < f.full <= _threshold(f),
            f"no broker can be that far above the mean, so {name} never sheds",
            "set it lower, Pulsar's default is 10",
        ),
        Rule(
            _THRESHOLD,
            lambda f: _threshold(f) == 0,
            f"even brokers with exactly equal usage reach the threshold, so {name} sheds in every round",
            "set it above 0, Pulsar's default is 10",
        ),
        Rule(
            "load_balancer_bundle_unload_min_throughput_threshold",
            lambda f: (
                f.network is not None
                and f.config.load_balancer_bundle_unload_min_throughput_threshold * _MEBIBYTE
                > f.network * max(0.0, f.full - _threshold(f) + _MARGIN)
            ),
            "the excess of a full network is smaller, so no bundle is ever unloaded",
            "set it lower, Pulsar's default is 10 (MiB/s)",
        ),
        frozen_history(name),
    )


def _of_share(name: str) -> tuple[Rule, ...]:
    return (
        Rule(
            _SHARE,
            lambda f: f.config.max_unload_percentage <= 0,
            f"{name} may move no part of a difference, so it never sheds",
            "set it above 0, at most to 0.5",
        ),
        Rule(
            _SHARE,
            lambda f: f.config.max_unload_percentage > 0.5,
            f"{name} moves more than half of a difference, so the receiver ends above the giver and the load swings",
            "set it to at most 0.5",
        ),
    )


EVENLY: Final = "load_balancer_distribute_bundles_evenly_enabled"


def _by_count(name: str) -> Rule:
    return Rule(
        EVENLY,
        lambda f: f.config.load_balancer_distribute_bundles_evenly_enabled and f.manager is ManagerKind.MODULAR,
        f"bundles that {name} unloads may only go to brokers with the fewest bundles of the namespace; a broker that "
        "shed one then has the fewest itself, so it keeps the others, however heavy they are",
        "set it to false if the bundles of a namespace have different loads",
        Severity.NOTE,
    )


BY_SHEDDER: Final[Mapping[str, tuple[Rule, ...]]] = {
    "ThresholdShedder": _of_threshold("ThresholdShedder"),
    "RangeThresholdShedder": (*_of_threshold("RangeThresholdShedder"), _by_count("RangeThresholdShedder")),
    "OverloadShedder": (
        Rule(
            "load_balancer_broker_overloaded_threshold_percentage",
            lambda f: 0 < f.full < f.config.load_balancer_broker_overloaded_threshold_percentage / 100,
            "with the largest resource weight even a full broker stays below it, so OverloadShedder never sheds",
            "set it below 100 times the largest weight, or a weight to 1",
        ),
        _by_count("OverloadShedder"),
    ),
    "UniformLoadShedder": (
        Rule(
            "load_balancer_msg_rate_difference_shedder_threshold",
            lambda f: (
                f.config.load_balancer_msg_rate_difference_shedder_threshold <= 0
                and f.config.load_balancer_msg_throughput_multiplier_difference_shedder_threshold <= 0
            ),
            "both criteria of UniformLoadShedder, message rate and throughput, are off, so it never sheds",
            "set it, or loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold, above 0",
        ),
        Rule(
            "load_balancer_msg_throughput_multiplier_difference_shedder_threshold",
            lambda f: 0 < f.config.load_balancer_msg_throughput_multiplier_difference_shedder_threshold <= 1,
            "the highest throughput is always at least the lowest, so UniformLoadShedder sheds for any difference",
            "set it above 1, Pulsar's default is 4, or to 0 to switch this criterion off",
        ),
        Rule(
            "max_unload_bundle_num_per_shedding",
            lambda f: f.config.max_unload_bundle_num_per_shedding == 0,
            "UniformLoadShedder may move no bundle",
            "set it above 0, or to -1 for no limit",
        ),
        *_of_share("UniformLoadShedder"),
        _by_count("UniformLoadShedder"),
    ),
    "AvgShedder": (
        Rule(
            EVENLY,
            lambda f: f.config.load_balancer_distribute_bundles_evenly_enabled,
            "AvgShedder chooses the destination of a bundle, but this filter removes that broker unless it has the "
            "fewest bundles of the namespace, and the bundle stays or goes elsewhere",
            "set it to false",
        ),
        Rule(
            "load_balancer_avg_shedder_low_threshold",
            lambda f: (
                f.config.load_balancer_avg_shedder_low_threshold >= f.config.load_balancer_avg_shedder_high_threshold
            ),
            "a gap that reaches it also reaches the high threshold, so smaller gaps are never balanced, however long "
            "they last",
            "set it below loadBalancerAvgShedderHighThreshold",
        ),
        Rule(
            "load_balancer_avg_shedder_low_threshold",
            lambda f: 0 < f.full < f.config.load_balancer_avg_shedder_low_threshold / 100,
            "with the largest resource weight no gap between two brokers can be that wide, so AvgShedder never sheds",
            "set it lower, Pulsar's default is 15",
        ),
        Rule(
            "load_balancer_avg_shedder_hit_count_high_threshold",
            lambda f: (
                f.config.load_balancer_avg_shedder_hit_count_high_threshold
                >= f.config.load_balancer_avg_shedder_hit_count_low_threshold
            ),
            "a wide gap also counts as a narrow one, which acts just as soon, so the high threshold has no effect",
            "set it below loadBalancerAvgShedderHitCountLowThreshold",
        ),
        *_of_share("AvgShedder"),
    ),
    "LeastDisturbance": (
        Rule(
            EVENLY,
            lambda f: f.config.load_balancer_distribute_bundles_evenly_enabled,
            "LeastDisturbance chooses the destination of a bundle, but this filter removes that broker unless it has "
            "the fewest bundles of the namespace, and the bundle stays or goes elsewhere",
            "set it to false",
        ),
        Rule(
            "barycenter_least_disturbance_band_percentage",
            lambda f: 0 < f.full < f.config.barycenter_least_disturbance_band_percentage / 100,
            "with the largest resource weight no broker can be that far above others, so LeastDisturbance never sheds",
            "set it lower, the default is 6",
        ),
        Rule(
            "barycenter_least_disturbance_patience_minutes",
            lambda f: (
                f.config.barycenter_least_disturbance_patience_minutes
                < 2 * f.config.load_balancer_shedding_interval_minutes
            ),
            "a change of load counts after one or two rounds, so load that comes and goes moves bundles",
            "set it (3 by default) to several times loadBalancerSheddingIntervalMinutes",
        ),
    ),
    "DeviationShedder": (_by_count("DeviationShedder"),),
    "TransferShedder": (
        Rule(
            "load_balancer_max_number_of_bundles_in_bundle_load_report",
            lambda f: f.config.load_balancer_max_number_of_bundles_in_bundle_load_report in (0, 1),
            "brokers report so few top bundles that TransferShedder, which leaves each broker its last one, moves none",
            "set it to at least 2, Pulsar's default is 10",
        ),
        Rule(
            "load_balancer_broker_load_target_std",
            lambda f: 0 < f.full <= 2 * f.config.load_balancer_broker_load_target_std,
            "usages cannot deviate that much (at most by half of the largest weight), so TransferShedder sheds only "
            "for nearly idle and overloaded brokers",
            "set it lower, Pulsar's default is 0.55",
        ),
        Rule(
            "load_balancer_broker_load_target_std",
            lambda f: f.config.load_balancer_broker_load_target_std == 0,
            "any difference exceeds it, so TransferShedder sheds in every cycle",
            "set it above 0, at most to 0.55",
        ),
        Rule(
            "load_balancer_broker_load_data_ttl_in_seconds",
            lambda f: (
                f.config.load_balancer_broker_load_data_ttl_in_seconds
                < f.config.load_balancer_report_update_max_interval_minutes * 60
            ),
            "the load data of a broker without changes is too old before its next report, and does not count",
            "set it above loadBalancerReportUpdateMaxIntervalMinutes",
        ),
        frozen_history("TransferShedder"),
    ),
}
