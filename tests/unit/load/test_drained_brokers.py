"""Drained brokers: placement leaves them out, and what shedders see of them."""

import copy
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.least_resource_usage_with_weight_extensible import LeastResourceUsageWithWeight
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.rounds.round import round_of, selection_of
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.transfer_plan import TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import TransferShedder
from pulsar_barycenter.load.snapshot.drained import with_drained, without_brokers
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import shedder_of
from support.extensible_choices import ExtensibleCluster, policy
from support.load_cases import Cluster, clusters, equal_bundles
from support.snapshot_cases import assert_same_snapshot
from support.transfer_cases import TransferRound, draw_case, our_configuration

BUNDLE = "t/new/0x00000000_0xffffffff"
SHEDDERS = (
    "ThresholdShedder",
    "OverloadShedder",
    "UniformLoadShedder",
    "AvgShedder",
    "RangeThresholdShedder",
    "DeviationShedder",
    "LeastDisturbance",
)


def of_strategy(name: str, *drained: str) -> BrokerConfig:
    both = name in ("AvgShedder", "LeastDisturbance")
    return with_overrides(
        BrokerConfig(),
        {
            "loadBalancerLoadSheddingStrategy": name,
            "loadBalancerLoadPlacementStrategy": name if both else "LeastLongTermMessageRate",
            "barycenterDrainedBrokers": ",".join(drained) or ",",
        },
    )


def place(snapshot: LoadSnapshot, config: BrokerConfig, manager: ManagerKind = ManagerKind.MODULAR) -> Placement:
    (placement,) = selection_of(config, manager).place(snapshot, [BUNDLE], random.Random(0))
    return placement


def codes(placement: Placement) -> dict[str, Code]:
    return {each.name: each.code for each in placement.reason.alternatives}


def without(cluster: Cluster, *brokers: str) -> Cluster:
    left = copy.deepcopy(cluster)
    for broker in brokers:
        left.reports.pop(broker, None)
        left.preallocated.pop(broker, None)
    return left


@settings(max_examples=40)
@given(clusters(), st.sampled_from(SHEDDERS), st.data())
def test_shedders_decide_as_if_the_drained_brokers_were_not_there(
    cluster: Cluster, strategy: str, data: st.DataObject
) -> None:
    names = sorted(cluster.reports)
    drained = data.draw(st.sets(st.sampled_from(names), max_size=len(names) - 1)) if names else set()
    shedder = shedder_of(of_strategy(strategy), ManagerKind.MODULAR)
    whole = with_drained(cluster.snapshot(), frozenset(drained))
    plan, remembered = shed(shedder, whole, shedder.start())
    fewer, as_remembered = shedder.decide(without(cluster, *drained).snapshot(), shedder.start())
    assert repr(list(plan)) == repr(list(fewer)), "as texts, of figures that may be no numbers"
    assert repr(plan.reason) == repr(fewer.reason)
    assert repr(list(plan.refusals())) == repr(list(fewer.refusals()))
    assert [whole.bundles.names[row] for row in plan.rows.tolist()] == [each.bundle for each in plan]
    assert [whole.brokers.names[whole.bundles.owner[row]] for row in plan.rows.tolist()] == [s.source for s in plan]
    assert shedder.document(remembered) == shedder.document(as_remembered)
    left = [name for name in names if name not in drained]
    for row, name in enumerate(names):
        reason = plan.broker_reason(row)
        if name in drained:
            assert reason.code is Code.DRAINED
        else:
            assert repr(reason) == repr(fewer.broker_reason(left.index(name)))


@settings(max_examples=40)
@given(clusters(), st.sampled_from(SHEDDERS), st.data())
def test_no_round_moves_a_bundle_to_a_drained_broker_or_from_one(
    cluster: Cluster, strategy: str, data: st.DataObject
) -> None:
    """As long as one that is not drained may serve persistent topics."""
    names = sorted(cluster.reports)
    able = [name for name in names if cluster.reports[name].persistent_topics_enabled]
    drained = data.draw(st.sets(st.sampled_from(names), max_size=len(names))) if names else set()
    cycle = round_of(of_strategy(strategy, *sorted(drained)))
    outcome, _ = cycle.run(cluster.snapshot(), cycle.start(), random.Random(0))
    if set(able) - drained:
        assert not {move.destination for move in outcome.moves} & drained
        assert not {move.source for move in outcome.moves} & drained
        assert place(cluster.snapshot(), of_strategy(strategy, *sorted(drained))).broker not in drained


@settings(max_examples=40)
@given(clusters(), st.sampled_from(SHEDDERS))
def test_when_all_are_drained_none_is(cluster: Cluster, strategy: str) -> None:
    free = round_of(of_strategy(strategy))
    bound = round_of(of_strategy(strategy, *cluster.reports))
    one, _ = free.run(cluster.snapshot(), free.start(), random.Random(3))
    other, _ = bound.run(cluster.snapshot(), bound.start(), random.Random(3))
    assert repr(one.moves) == repr(other.moves)
    free_choice, choice = (place(cluster.snapshot(), of_strategy(strategy, *names)) for names in ((), cluster.reports))
    assert (free_choice.broker, repr(free_choice.reason)) == (choice.broker, repr(choice.reason))


def test_an_empty_broker_that_is_drained_gets_nothing_and_the_reason_says_so() -> None:
    cluster = Cluster().add("b1:8080", cpu=60, bundles=equal_bundles(4, throughput=1e7)).add("b2:8080")
    assert place(cluster.snapshot(), of_strategy("ThresholdShedder")).broker == "b2:8080"
    placement = place(cluster.snapshot(), of_strategy("ThresholdShedder", "b2:8080"))
    assert placement.broker == "b1:8080"
    assert codes(placement) == {"b2:8080": Code.DRAINED}
    assert "it is drained" in render(placement.reason)
    assert "barycenterDrainedBrokers" in placement.reason.settings


def test_a_drained_broker_is_no_reason_to_shed() -> None:
    """The one that was emptied is far below the others, which would feed it round after round."""
    cluster = Cluster()
    for number in range(11):
        load = equal_bundles(19, throughput=1e10, first=100 * number)
        cluster.add(f"b{number:02}", cpu=80 if number < 10 else 5, bundles=load)
    for drained, moves in (((), True), (("b10",), False)):
        cycle = round_of(of_strategy("RangeThresholdShedder", *drained))
        outcome, _ = cycle.run(cluster.snapshot(), cycle.start(), random.Random(0))
        assert bool(outcome.moves) is moves


def test_primary_brokers_that_are_drained_do_not_count_so_that_secondary_ones_help_out() -> None:
    isolation, _ = IsolationPolicies.decode({"p": policy("t/.*", "b1.*", "b2.*")})
    cluster = Cluster(policies=ClusterPolicies(isolation)).add("b1:1").add("b2:1").add("b3:1")
    assert place(cluster.snapshot(), of_strategy("ThresholdShedder")).broker == "b1:1"
    placement = place(cluster.snapshot(), of_strategy("ThresholdShedder", "b1:1"))
    assert placement.broker == "b2:1"
    assert codes(placement)["b1:1"] is Code.DRAINED
    last = place(cluster.snapshot(), of_strategy("ThresholdShedder", "b1:1", "b2:1"))
    assert last.broker == "b1:1", "the policy allows no other"
    allowed = policy_candidates(with_drained(cluster.snapshot(), frozenset({"b1:1", "b2:1"})), PlacementRequest(BUNDLE))
    assert "only drained brokers" in allowed.note


def extensible(case: ExtensibleCluster, *drained: str) -> Placement:
    snapshot = with_drained(case.snapshot(), frozenset(drained))
    placer = LeastResourceUsageWithWeight.of(BrokerConfig())
    return select_broker_extensible(
        snapshot, PlacementRequest(BUNDLE), ExtensibleFilterSettings(), placer, random.Random(0), SelectionMemory()
    )[0]


def test_the_extensible_manager_spares_drained_brokers_before_its_filters() -> None:
    """Anti-affinity would otherwise choose the empty one, and leave no broker for the later filters."""
    case = ExtensibleCluster(groups={"t/new": "g", "t/old": "g"}).add("b1", 0.0)
    held = equal_bundles(1, throughput=0)
    case.add("b2", 0.5, bundles={"t/old/0x00000000_0x80000000": next(iter(held.values()))})
    assert extensible(case).broker == "b1"
    placement = extensible(case, "b1")
    assert placement.broker == "b2"
    assert codes(placement) == {"b1": Code.DRAINED}


def test_the_extensible_manager_falls_back_to_drained_brokers_and_says_so() -> None:
    case = ExtensibleCluster().add("b1", 0.1).add("b2", 0.1, topics=50_000)
    placement = extensible(case, "b1")
    assert placement.broker == "b1"
    assert "only drained brokers may serve it" in render(placement.reason)


@pytest.mark.parametrize("seed", range(20))
def test_transfers_are_those_of_the_cluster_without_drained_brokers(seed: int) -> None:
    case = draw_case(random.Random(seed))
    config: Any = our_configuration(case.overrides)
    shedder, rng = shedder_of(config, ManagerKind.EXTENSIBLE), random.Random(seed)
    one = case.rounds[0]
    names = sorted({*one.loads, *one.lookups})
    drained = frozenset(rng.sample(names, k=len(names) // 2))
    whole = with_drained(one.snapshot(), drained)
    plan, _ = shed(shedder, whole, shedder.start())

    def kept(known: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in known.items() if name not in drained}

    fewer = TransferRound(kept(one.loads), kept(one.tops), kept(one.lookups), one.owners, one.recently_unloaded)
    part = without_brokers(whole, np.array([name in drained for name in whole.brokers.names], bool))[0]
    assert_same_snapshot(replace(part, policies=fewer.snapshot().policies), fewer.snapshot())
    expected, _ = shedder.decide(fewer.snapshot(), shedder.start())
    assert list(plan) == list(expected)
    assert plan.reason == expected.reason


def test_the_least_loaded_broker_for_a_transfer_is_one_that_is_not_drained() -> None:
    one = TransferRound().add("b1", 0.0, 1).add("b2", 0.2, 10, 20).add("b3", 0.9, 90, 90, 90, 90)
    shedder = TransferShedder(TransferShedderSettings(hit_threshold=0))
    assert {each.destination for each in shed(shedder, one.snapshot(), shedder.start())[0]} == {"b1"}
    spared = with_drained(one.snapshot(), frozenset({"b1"}))
    goes = {each.destination for each in shed(shedder, spared, shedder.start())[0] if each.source == "b3"}
    assert goes == {"b2"}


@given(clusters(), st.data())
def test_a_part_of_a_cluster_is_what_would_be_built_of_it_alone(cluster: Cluster, data: st.DataObject) -> None:
    snapshot = cluster.snapshot()
    gone = np.array([data.draw(st.booleans()) for _ in snapshot.brokers.names], bool)
    part, brokers, bundles = without_brokers(snapshot, gone)
    names = [snapshot.brokers.names[row] for row in np.flatnonzero(gone)]
    assert_same_snapshot(part, without(cluster, *names).snapshot())
    assert part.brokers.names == tuple(snapshot.brokers.names[row] for row in brokers)
    assert list(part.bundles.names) == [snapshot.bundles.names[row] for row in bundles]
