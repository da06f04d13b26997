"""What is said of configurations that do not do what they promise; each claim is held against the strategies."""

import random
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barycenter.config.broker_conf import FORMER_NAMES, default_config, keys
from barycenter.config.broker_config import BrokerConfig
from barycenter.config.key import key_name
from barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from barycenter.load.advice.configuration_advice import Advice, Severity, advice, key_advice
from barycenter.load.filters.outcome import PlacementRequest
from barycenter.load.managers import ManagerKind, StrategyError
from barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.strategies import APART, STRATEGIES, Role, placer_name, placer_of, shedder_name, shedder_of
from support.load_cases import Cluster, bundle_name, clusters, equal_bundles

SHEDDING = "load_balancer_load_shedding_strategy"
PLACEMENT = "load_balancer_load_placement_strategy"
WEIGHTS = (
    "load_balancer_cpu_resource_weight",
    "load_balancer_direct_memory_resource_weight",
    "load_balancer_bandwidth_in_resource_weight",
    "load_balancer_bandwidth_out_resource_weight",
)
NO_WEIGHTS: dict[str, Any] = {
    **dict.fromkeys(WEIGHTS, 0.0),
}
AVG: dict[str, Any] = {SHEDDING: "AvgShedder", PLACEMENT: "AvgShedder"}
UNIFORM: dict[str, Any] = {SHEDDING: "UniformLoadShedder"}
EXTENSIBLE: dict[str, Any] = {"load_manager_class_name": "ExtensibleLoadManagerImpl", SHEDDING: "TransferShedder"}
SIMPLE: dict[str, Any] = {"load_manager_class_name": "SimpleLoadManagerImpl"}
NOOP: dict[str, Any] = {"load_manager_class_name": "NoopLoadManager"}
MINIMUM = "load_balancer_bundle_unload_min_throughput_threshold"
EVENLY = "load_balancer_distribute_bundles_evenly_enabled"
BY_PIPELINE = "barycenter_extensible_pipeline_enabled"


def configured(**changes: Any) -> BrokerConfig:
    """Return the defaults of 4.x with changes; most rules are about the strategies that are the default there."""
    return msgspec.structs.replace(default_config("4.x"), **changes)


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


REFUSED, WARNING, NOTE = Severity.REFUSED, Severity.WARNING, Severity.NOTE

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
    [unknown] = key_advice(["bookkeeperClientTimeoutInSeconds"])
    assert (unknown.severity, "no effect" in unknown.sentence) == (Severity.WARNING, True)


def test_advice_needs_no_numpy() -> None:
    code = "import sys, barycenter.load.advice.configuration_advice; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- the claims, held against the strategies ----

NEVER: list[tuple[dict[str, Any], str]] = [
    ({"load_balancer_broker_threshold_shedder_percentage": 100}, "load_balancer_broker_threshold_shedder_percentage"),
    (
        {
            **dict.fromkeys(WEIGHTS, 0.3),
            "load_balancer_broker_threshold_shedder_percentage": 30,
            "lower_boundary_shedding_enabled": True,
        },
        "load_balancer_broker_threshold_shedder_percentage",
    ),
    (
        {SHEDDING: "RangeThresholdShedder", "load_balancer_broker_threshold_shedder_percentage": 100},
        "load_balancer_broker_threshold_shedder_percentage",
    ),
    (NO_WEIGHTS, WEIGHTS[0]),
    ({**NO_WEIGHTS, SHEDDING: "OverloadShedder"}, WEIGHTS[0]),
    ({**NO_WEIGHTS, **AVG}, WEIGHTS[0]),
    (
        {
            **dict.fromkeys(WEIGHTS, 0.8),
            SHEDDING: "OverloadShedder",
        },
        "load_balancer_broker_overloaded_threshold_percentage",
    ),
    (
        {
            **UNIFORM,
            "load_balancer_msg_rate_difference_shedder_threshold": 0.0,
            "load_balancer_msg_throughput_multiplier_difference_shedder_threshold": 0.0,
        },
        "load_balancer_msg_rate_difference_shedder_threshold",
    ),
    ({**UNIFORM, "max_unload_bundle_num_per_shedding": 0}, "max_unload_bundle_num_per_shedding"),
    ({**UNIFORM, "max_unload_percentage": 0.0}, "max_unload_percentage"),
    ({**AVG, "max_unload_percentage": 0.0}, "max_unload_percentage"),
    ({**AVG, **dict.fromkeys(WEIGHTS, 0.14)}, "load_balancer_avg_shedder_low_threshold"),
]


def clamped(report: LocalBrokerData) -> LocalBrokerData:
    """Return the report with usages between nothing and the limit."""

    def within(usage: ResourceUsage) -> ResourceUsage:
        return ResourceUsage(min(max(usage.usage, 0.0), max(usage.limit, 0.0)), usage.limit)

    return msgspec.structs.replace(
        report,
        cpu=within(report.cpu),
        direct_memory=within(report.direct_memory),
        bandwidth_in=within(report.bandwidth_in),
        bandwidth_out=within(report.bandwidth_out),
    )


@pytest.mark.parametrize(("wrong", "attribute"), NEVER)
@settings(max_examples=25)
@given(cluster=clusters(), rounds=st.integers(1, 10))
def test_what_is_said_never_to_shed_never_sheds(
    wrong: dict[str, Any], attribute: str, cluster: Cluster, rounds: int
) -> None:
    config = configured(**{MINIMUM: 0.0, **wrong})
    assert any(each.key == key_name(attribute) for each in advice(config))
    cluster.reports = {name: clamped(report) for name, report in cluster.reports.items()}
    shedder = shedder_of(config)
    memory = shedder.start()
    for _ in range(rounds):
        plan, memory = shedder.decide(cluster.snapshot(), memory)
        assert len(plan) == 0


def first_plan(config: BrokerConfig, snapshot: LoadSnapshot) -> ShedPlan:
    shedder = shedder_of(config)
    plan: ShedPlan = shedder.decide(snapshot, shedder.start())[0]
    return plan


def test_what_is_said_never_to_rest_sheds_from_brokers_that_are_alike() -> None:
    cluster = Cluster()
    for number in range(3):
        bundles = equal_bundles(4, throughput=4e8, rate=4e5, first=10 * number)
        cluster.add(f"b{number}", cpu=50, bundles=bundles)
    threshold = "load_balancer_broker_threshold_shedder_percentage"
    for least, sheds in ((0, {"b0", "b1", "b2"}), (1, set())):
        plan = first_plan(configured(**{threshold: least, MINIMUM: 0.0}), cluster.snapshot())
        assert {unload.source for unload in plan} == sheds


def test_a_ratio_that_every_two_brokers_have_sheds_the_smallest_difference() -> None:
    """404 and 400 MB/s in bundles of 0.4 MB/s: a fifth of the difference, 0.8, is two of them."""
    cluster = Cluster()
    for number, count in ((0, 1010), (1, 1000)):
        bundles = equal_bundles(count, throughput=4e5 * count, rate=0, first=2000 * number)
        cluster.add(f"b{number}", cpu=50, bundles=bundles)
    ratio = "load_balancer_msg_throughput_multiplier_difference_shedder_threshold"
    for factor, moved in ((1.0, 2), (1.1, 0)):
        config = configured(**UNIFORM, **{ratio: factor, "min_unload_message_throughput": 0})
        assert any(each.key == key_name(ratio) for each in advice(config)) is bool(moved)
        plan = first_plan(config, cluster.snapshot())
        assert len(plan) == moved


@pytest.mark.parametrize("evenly", [True, False])
def test_even_distribution_takes_the_destination_of_the_avg_shedder_away(evenly: bool) -> None:
    """b0 holds one bundle of the namespace, b1 three light ones: what AvgShedder sends to b1 may only stay at b0."""
    own, other = bundle_name(0), {bundle_name(i, "t/big"): NamespaceBundleStats(msg_rate_in=40_000) for i in (1, 2)}
    cluster = Cluster()
    cluster.add("b0", cpu=80, bundles={own: NamespaceBundleStats(msg_rate_in=20_000), **other})
    cluster.add("b1", cpu=10, bundles=equal_bundles(3, throughput=0, rate=1500, first=7))
    changes = {EVENLY: evenly, "max_unload_percentage": 0.3, "load_balancer_avg_shedder_hit_count_high_threshold": 1}
    config = configured(**AVG, **changes)
    assert any(each.key == key_name(EVENLY) and each.severity is WARNING for each in advice(config)) is evenly
    snapshot = cluster.snapshot()
    plan, placer = first_plan(config, snapshot), placer_of(config)
    assert [(unload.bundle, unload.destination) for unload in plan] == [(own, "b1")]
    memory = SelectionMemory().updated(placer, lambda placer, before: placer.planned(plan, before))
    chosen, _ = select_broker(
        snapshot, PlacementRequest(own), SelectionSettings.of(config), placer, random.Random(1), memory
    )
    assert chosen.broker == ("b0" if evenly else "b1")


def test_every_shedder_that_can_be_named_was_thought_of() -> None:
    from barycenter.load.advice.shedding_rules import BY_SHEDDER

    assert set(BY_SHEDDER) == {each.name for each in STRATEGIES if each.role is Role.SHEDDING and each.is_named}


def test_advice_is_told_once_however_often_a_rule_says_it() -> None:
    both = configured(**{PLACEMENT: "LeastResourceUsageWithWeight", "load_balancer_history_resource_percentage": 1.0})
    found = advice(both)
    assert len(found) == len(set(found))
    assert all(isinstance(each, Advice) for each in found)
