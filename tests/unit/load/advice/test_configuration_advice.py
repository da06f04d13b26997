"""The advice on configurations without the intended effect; each claim is compared with the strategies."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.config.broker_conf import FORMER_NAMES, default_config, keys
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import key_name
from pulsar_barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from pulsar_barycenter.load.advice.configuration_advice import Severity, advice, key_advice
from pulsar_barycenter.load.managers import ManagerKind, StrategyError
from pulsar_barycenter.load.strategies import APART, placer_name, shedder_name
from support.advised_configurations import (
    AVG,
    EVENLY,
    MINIMUM,
    NO_WEIGHTS,
    NOTE,
    PLACEMENT,
    REFUSED,
    SHEDDING,
    UNIFORM,
    WARNING,
    WEIGHTS,
    configured,
)

EXTENSIBLE: dict[str, Any] = {"load_manager_class_name": "ExtensibleLoadManagerImpl", SHEDDING: "TransferShedder"}
SIMPLE: dict[str, Any] = {"load_manager_class_name": "SimpleLoadManagerImpl"}
NOOP: dict[str, Any] = {"load_manager_class_name": "NoopLoadManager"}
BY_PIPELINE = "barycenter_extensible_pipeline_enabled"


def told(config: BrokerConfig, **options: Any) -> dict[str, list[Severity]]:
    found: dict[str, list[Severity]] = {}
    for each in advice(config, **options):
        found.setdefault(each.key, []).append(each.severity)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manager", [kind for kind in ManagerKind if kind is not ManagerKind.EXTENSIBLE])
def test_the_defaults_get_no_advice(manager: ManagerKind, version: PulsarVersion) -> None:
    config = default_config(version)
    assert advice(msgspec.structs.replace(config, load_manager_class_name=manager.class_name)) == []


@pytest.mark.parametrize(
    ("changes", "attribute", "severity", "said"),
    [
        ({SHEDDING: "OverloadShedder"}, PLACEMENT, Severity.NOTE, "LeastLongTermMessageRate places instead"),
        ({PLACEMENT: "RoundRobinBrokerSelector"}, SHEDDING, Severity.WARNING, "RoundRobinBrokerSelector places it"),
    ],
)
def test_strategies_that_are_no_pair_are_told_of_since_5(
    changes: dict[str, Any], attribute: str, severity: Severity, said: str
) -> None:
    [each] = advice(BrokerConfig(**changes))
    assert (each.key, each.severity, said in each.sentence) == (key_name(attribute), severity, True)
    assert advice(BrokerConfig(**changes | {attribute: APART if attribute == PLACEMENT else "OverloadShedder"})) == []


CASES: list[tuple[dict[str, Any], dict[str, Any], str, Severity]] = [
    # what gets advice, what just does not, the attribute that it names
    ({"load_balancer_enabled": False}, {}, "load_balancer_enabled", NOTE),
    ({"load_balancer_shedding_enabled": False}, {}, "load_balancer_shedding_enabled", NOTE),
    (NO_WEIGHTS, {**NO_WEIGHTS, WEIGHTS[2]: 0.1}, WEIGHTS[0], WARNING),
    ({**NO_WEIGHTS, WEIGHTS[1]: 1.0}, {WEIGHTS[1]: 1.0}, WEIGHTS[1], WARNING),
    ({"load_balancer_memory_resource_weight": 1.0}, EXTENSIBLE, "load_balancer_memory_resource_weight", NOTE),
    ({"load_balancer_bandwith_in_resource_weight": 0.5}, {}, "load_balancer_bandwith_in_resource_weight", NOTE),
    ({"load_balancer_bandwith_out_resource_weight": 0.5}, {}, "load_balancer_bandwith_out_resource_weight", NOTE),
    (
        {"load_balancer_report_update_min_interval_millis": 900_001},
        {"load_balancer_report_update_min_interval_millis": 900_000},
        "load_balancer_report_update_min_interval_millis",
        WARNING,
    ),
    (
        {"load_balancer_broker_overloaded_threshold_percentage": 0},
        {"load_balancer_broker_overloaded_threshold_percentage": 1},
        "load_balancer_broker_overloaded_threshold_percentage",
        WARNING,
    ),
    (
        {"load_balancer_broker_max_topics": 999},
        {"load_balancer_broker_max_topics": 1000},
        "load_balancer_broker_max_topics",
        WARNING,
    ),
    (
        {"load_balancer_shedding_grace_period_minutes": 0.9},
        {"load_balancer_shedding_grace_period_minutes": 1.0},
        "load_balancer_shedding_grace_period_minutes",
        WARNING,
    ),
    (
        {"load_balancer_shedding_interval_minutes": 0.5},
        {"stats_update_frequency_in_secs": 60.0},
        "load_balancer_shedding_interval_minutes",
        WARNING,
    ),
    (
        {"load_balancer_broker_threshold_shedder_percentage": 100},
        {"load_balancer_broker_threshold_shedder_percentage": 99},
        "load_balancer_broker_threshold_shedder_percentage",
        WARNING,
    ),
    (
        {"load_balancer_broker_threshold_shedder_percentage": 0},
        {"load_balancer_broker_threshold_shedder_percentage": 1},
        "load_balancer_broker_threshold_shedder_percentage",
        WARNING,
    ),
    (
        {"load_balancer_history_resource_percentage": 1.0},
        {"load_balancer_history_resource_percentage": 0.99},
        "load_balancer_history_resource_percentage",
        WARNING,
    ),
    (
        {
            SHEDDING: "OverloadShedder",
            **dict.fromkeys((WEIGHTS[0], *WEIGHTS[2:]), 0.8),
            "load_balancer_broker_overloaded_threshold_percentage": 81,
        },
        {
            SHEDDING: "OverloadShedder",
            **dict.fromkeys((WEIGHTS[0], *WEIGHTS[2:]), 0.8),
            "load_balancer_broker_overloaded_threshold_percentage": 80,
        },
        "load_balancer_broker_overloaded_threshold_percentage",
        WARNING,
    ),
    (
        {
            **UNIFORM,
            "load_balancer_msg_rate_difference_shedder_threshold": 0.0,
            "load_balancer_msg_throughput_multiplier_difference_shedder_threshold": 0.0,
        },
        {**UNIFORM, "load_balancer_msg_rate_difference_shedder_threshold": 0.0},
        "load_balancer_msg_rate_difference_shedder_threshold",
        WARNING,
    ),
    (
        {**UNIFORM, "load_balancer_msg_throughput_multiplier_difference_shedder_threshold": 1.0},
        {**UNIFORM, "load_balancer_msg_throughput_multiplier_difference_shedder_threshold": 1.1},
        "load_balancer_msg_throughput_multiplier_difference_shedder_threshold",
        WARNING,
    ),
    (
        {**UNIFORM, "max_unload_bundle_num_per_shedding": 0},
        {**UNIFORM, "max_unload_bundle_num_per_shedding": 1},
        "max_unload_bundle_num_per_shedding",
        WARNING,
    ),
    ({**UNIFORM, "max_unload_percentage": 0.0}, {"max_unload_percentage": 0.0}, "max_unload_percentage", WARNING),
    (
        {**UNIFORM, "max_unload_percentage": 0.51},
        {**UNIFORM, "max_unload_percentage": 0.5},
        "max_unload_percentage",
        WARNING,
    ),
    ({**UNIFORM}, {**UNIFORM, EVENLY: False}, EVENLY, NOTE),
    ({**AVG}, {**AVG, EVENLY: False}, EVENLY, WARNING),
    (
        {**AVG, "load_balancer_avg_shedder_low_threshold": 40},
        {**AVG, "load_balancer_avg_shedder_low_threshold": 39},
        "load_balancer_avg_shedder_low_threshold",
        WARNING,
    ),
    (
        {**AVG, **dict.fromkeys((WEIGHTS[0], *WEIGHTS[2:]), 0.14)},
        {**AVG, **dict.fromkeys((WEIGHTS[0], *WEIGHTS[2:]), 0.15)},
        "load_balancer_avg_shedder_low_threshold",
        WARNING,
    ),
    (
        {**AVG, "load_balancer_avg_shedder_hit_count_high_threshold": 8},
        {**AVG, "load_balancer_avg_shedder_hit_count_high_threshold": 7},
        "load_balancer_avg_shedder_hit_count_high_threshold",
        WARNING,
    ),
    ({SHEDDING: "AvgShedder"}, AVG, SHEDDING, REFUSED),
    ({PLACEMENT: "AvgShedder"}, AVG, SHEDDING, REFUSED),
    ({SHEDDING: "TransferShedder"}, {}, SHEDDING, REFUSED),
    ({SHEDDING: "ThreshholdShedder"}, {}, SHEDDING, REFUSED),
    ({PLACEMENT: "ThresholdShedder"}, {}, PLACEMENT, REFUSED),
    ({"load_manager_class_name": "ModularLoadManagerImp"}, {}, "load_manager_class_name", WARNING),
    ({**EXTENSIBLE, SHEDDING: "OverloadShedder"}, EXTENSIBLE, SHEDDING, WARNING),
    ({**EXTENSIBLE, SHEDDING: "ThresholdShedder"}, EXTENSIBLE, SHEDDING, WARNING),
    ({**EXTENSIBLE, PLACEMENT: "RoundRobinBrokerSelector"}, EXTENSIBLE, PLACEMENT, NOTE),
    ({**SIMPLE, SHEDDING: "OverloadShedder"}, SIMPLE, SHEDDING, NOTE),
    ({**NOOP, PLACEMENT: "RoundRobinBrokerSelector"}, NOOP, PLACEMENT, NOTE),
    (
        {**EXTENSIBLE, "load_balancer_max_number_of_bundles_in_bundle_load_report": 1},
        {**EXTENSIBLE, "load_balancer_max_number_of_bundles_in_bundle_load_report": 2},
        "load_balancer_max_number_of_bundles_in_bundle_load_report",
        WARNING,
    ),
    (
        {**EXTENSIBLE, "load_balancer_broker_load_target_std": 0.5},
        {**EXTENSIBLE, "load_balancer_broker_load_target_std": 0.49},
        "load_balancer_broker_load_target_std",
        WARNING,
    ),
    (
        {**EXTENSIBLE, "load_balancer_broker_load_target_std": 0.0},
        EXTENSIBLE,
        "load_balancer_broker_load_target_std",
        WARNING,
    ),
    (
        {**EXTENSIBLE, "load_balancer_broker_load_data_ttl_in_seconds": 899.0},
        {**EXTENSIBLE, "load_balancer_broker_load_data_ttl_in_seconds": 900.0},
        "load_balancer_broker_load_data_ttl_in_seconds",
        WARNING,
    ),
    ({BY_PIPELINE: True}, {**EXTENSIBLE, BY_PIPELINE: True}, BY_PIPELINE, NOTE),
    (
        {**EXTENSIBLE, BY_PIPELINE: True, "load_report_log_enabled": False},
        {**EXTENSIBLE, BY_PIPELINE: True},
        BY_PIPELINE,
        WARNING,
    ),
    (
        {
            PLACEMENT: "LeastResourceUsageWithWeight",
            "load_balancer_average_resource_usage_difference_threshold_percentage": 100,
        },
        {
            PLACEMENT: "LeastResourceUsageWithWeight",
            "load_balancer_average_resource_usage_difference_threshold_percentage": 99,
        },
        "load_balancer_average_resource_usage_difference_threshold_percentage",
        WARNING,
    ),
    ({PLACEMENT: "LeastResourceUsageWithWeight"}, {}, EVENLY, NOTE),
    (
        {"lower_boundary_shedding_enabled": True, SHEDDING: "OverloadShedder"},
        {"lower_boundary_shedding_enabled": True},
        "lower_boundary_shedding_enabled",
        NOTE,
    ),
    (
        {"load_balancer_placement_strategy": "weightedRandomSelection"},
        {**SIMPLE, "load_balancer_placement_strategy": "weightedRandomSelection"},
        "load_balancer_placement_strategy",
        NOTE,
    ),
    (
        {**SIMPLE, "load_balancer_placement_strategy": "roundRobin"},
        {**SIMPLE, "load_balancer_placement_strategy": "leastMsgPerSecond"},
        "load_balancer_placement_strategy",
        WARNING,
    ),
    (
        {**SIMPLE, "load_balancer_broker_comfort_load_level_percentage": 85},
        {**SIMPLE, "load_balancer_broker_comfort_load_level_percentage": 84},
        "load_balancer_broker_comfort_load_level_percentage",
        WARNING,
    ),
    (
        {**SIMPLE, "load_balancer_broker_underloaded_threshold_percentage": 85},
        {**SIMPLE, "load_balancer_broker_underloaded_threshold_percentage": 84},
        "load_balancer_broker_underloaded_threshold_percentage",
        WARNING,
    ),
    (
        {"load_balancer_namespace_maximum_bundles": 4},
        {"load_balancer_namespace_maximum_bundles": 5},
        "load_balancer_namespace_maximum_bundles",
        WARNING,
    ),
    (
        {"load_balancer_namespace_bundle_max_msg_rate": 0},
        {"load_balancer_namespace_bundle_max_msg_rate": 1},
        "load_balancer_namespace_bundle_max_msg_rate",
        WARNING,
    ),
    (
        {"load_balancer_namespace_bundle_max_bandwidth_mbytes": 0},
        {"load_balancer_namespace_bundle_max_bandwidth_mbytes": 1},
        "load_balancer_namespace_bundle_max_bandwidth_mbytes",
        WARNING,
    ),
    (
        {"default_namespace_bundle_split_algorithm": "specified_positions_divide"},
        {"default_namespace_bundle_split_algorithm": "topic_count_equally_divide"},
        "default_namespace_bundle_split_algorithm",
        WARNING,
    ),
    (
        {"supported_namespace_bundle_split_algorithms": ("topic_count_equally_divide",)},
        {"supported_namespace_bundle_split_algorithms": ("range_equally_divide",)},
        "default_namespace_bundle_split_algorithm",
        WARNING,
    ),
]


@pytest.mark.parametrize(("wrong", "right", "attribute", "severity"), CASES)
def test_each_rule_holds_at_its_bound_and_not_beside_it(
    wrong: dict[str, Any], right: dict[str, Any], attribute: str, severity: Severity
) -> None:
    key = key_name(attribute)
    assert severity in told(configured(**wrong)).get(key, [])
    assert severity not in told(configured(**right)).get(key, [])


def test_every_advice_names_a_key_its_value_and_something_to_set() -> None:
    names = set(keys())
    for wrong, _, _, _ in CASES:
        for each in advice(configured(**wrong)):
            assert each.key in names
            assert each.value == str(each.value)
            assert each.sentence
            assert "  " not in str(each)
            assert str(each).startswith(f"{each.key}={each.value}: ")
            assert each.sentence[0] not in " ;"
            assert any(word in each.mend for word in ("set ", "remove", "write ", "use one of", "did you mean", "add "))
            mentioned = {word.strip("(),;.").partition("=")[0] for word in str(each).split()}
            unknown = {word for word in mentioned if word.startswith("loadBalancer")} - names
            assert not unknown


def test_what_is_refused_comes_first_and_is_what_a_broker_refuses() -> None:
    for wrong, _, _, _ in CASES:
        config = configured(**wrong)
        severities = [each.severity for each in advice(config)]
        assert severities == sorted(severities, key=list(Severity).index)
        if manager_of(config) is not ManagerKind.MODULAR:
            continue
        refused = ""
        try:
            shedder_name(config)
            placer_name(config)
        except StrategyError as error:
            refused = str(error)
        assert (Severity.REFUSED in severities) is bool(refused)
        assert not refused or refused.rpartition("; ")[2] in {each.mend for each in advice(config)}


def manager_of(config: BrokerConfig) -> ManagerKind | None:
    return next((kind for kind in ManagerKind if kind.class_name.endswith(config.load_manager_class_name)), None)


def test_a_threshold_that_the_network_cannot_reach_is_told_if_the_network_is_known() -> None:
    """A gigabit carries 238 MiB/s in and out; a broker can lie 90 points above the mean and shed 95 % of that."""
    key, gigabit = key_name(MINIMUM), 1e9 / 8
    too_much, enough = configured(**{MINIMUM: 227.0}), configured(**{MINIMUM: 226.0})
    assert key in told(too_much, network_bytes_per_s=gigabit)
    assert key not in told(enough, network_bytes_per_s=gigabit)
    assert key not in told(too_much)
    overridden = {
        "load_balancer_override_broker_nic_speed_gbps": 0.5,
        "load_balancer_override_broker_nics": ("eth0", "eth1"),
    }
    assert key in told(msgspec.structs.replace(too_much, **overridden))
    assert key not in told(msgspec.structs.replace(enough, **overridden))


def test_keys_of_a_file_that_nobody_knows_or_that_have_a_newer_name_are_told_with_the_one_meant() -> None:
    assert key_advice(keys()) == []
    assert {each.severity for each in key_advice(FORMER_NAMES)} == {Severity.NOTE}
    [misspelt] = key_advice(["loadBalancerSheddingIntervalMinute"])
    assert misspelt.mend == "did you mean loadBalancerSheddingIntervalMinutes?"
    [unknown] = key_advice(["bookkeeperClientHealthCheckIntervalSeconds"])
    assert (unknown.severity, "no effect" in unknown.sentence) == (Severity.WARNING, True)


def test_advice_needs_no_numpy() -> None:
    code = "import sys, pulsar_barycenter.load.advice.configuration_advice; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
