"""The claims of advice about a configuration are compared with the results of the strategies."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import key_name
from pulsar_barycenter.load.advice.configuration_advice import Advice, advice
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import STRATEGIES, Role, placer_of, shedder_of
from support.advised_configurations import (
    AVG,
    EVENLY,
    MINIMUM,
    NO_WEIGHTS,
    PLACEMENT,
    SHEDDING,
    UNIFORM,
    WARNING,
    WEIGHTS,
    configured,
)
from support.load_cases import Cluster, bundle_name, clusters, equal_bundles

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


@pytest.mark.drawn(4)
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
    """b0 has one bundle of the namespace, b1 three light ones: what AvgShedder sends to b1 may only stay at b0."""
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
    from pulsar_barycenter.load.advice.shedding_rules import BY_SHEDDER

    assert set(BY_SHEDDER) == {each.name for each in STRATEGIES if each.role is Role.SHEDDING and each.is_named}


def test_advice_is_told_once_however_often_a_rule_says_it() -> None:
    both = configured(**{PLACEMENT: "LeastResourceUsageWithWeight", "load_balancer_history_resource_percentage": 1.0})
    found = advice(both)
    assert len(found) == len(set(found))
    assert all(isinstance(each, Advice) for each in found)
