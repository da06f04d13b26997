"""The extensible load manager's choice of a broker, its reasons, and which transfers are allowed."""

import random
from collections import Counter

import numpy as np
import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.placement.least_resource_usage_with_weight_extensible import (
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.extensible_choices import ExtensibleCluster, policy
from support.load_cases import MODULAR, Cluster, bundle_name, equal_bundles

BUNDLE = bundle_name(9)
PLACEMENT = LeastResourceUsageWithWeight.of(BrokerConfig())


def select(case: ExtensibleCluster | Cluster, *, seed: int = 0, bundle: str = BUNDLE, **options: object) -> Placement:
    settings = ExtensibleFilterSettings(**options)  # type: ignore[arg-type]
    request = PlacementRequest(bundle)
    rng, memory = random.Random(seed), SelectionMemory()
    return select_broker_extensible(case.snapshot(), request, settings, PLACEMENT, rng, memory)[0]


def may_transfer(
    snapshot: LoadSnapshot, bundle: int, source: int, destination: int | None, settings: ExtensibleFilterSettings
) -> bool:
    (allowed,) = AllowedTransfers(snapshot, settings)(np.array([bundle]), source, destination)
    return allowed


def codes(placement: Placement) -> dict[str, Code]:
    return {alternative.name: alternative.code for alternative in placement.reason.alternatives}


def test_brokers_below_the_mean_share_what_is_placed() -> None:
    case = ExtensibleCluster().add("b1", 0.1).add("b2", 0.3).add("b3", 0.8).add("b4")
    drawn = Counter(select(case, seed=seed).broker for seed in range(100))
    assert set(drawn) == {"b1", "b2"}
    assert min(drawn.values()) > 30
    placement = select(case)
    assert placement.reason.code is Code.BELOW_AVERAGE
    assert "mean - threshold = 30 %" in render(placement.reason)
    assert codes(placement) | {"b1": Code.EQUAL, "b2": Code.EQUAL} == {
        "b1": Code.EQUAL,
        "b2": Code.EQUAL,
        "b3": Code.NOT_BELOW_AVERAGE,
        "b4": Code.NO_LOAD_DATA,
    }


def test_without_anybody_below_the_mean_all_share_it_also_those_unknown() -> None:
    case = ExtensibleCluster().add("b1", 0.4).add("b2", 0.4).add("b3")
    assert {select(case, seed=seed).broker for seed in range(50)} == {"b1", "b2", "b3"}
    assert select(case).reason.code is Code.NONE_BELOW_AVERAGE
    assert "nan" not in "".join(render(select(case, seed=seed).reason) for seed in range(9))


def test_nothing_at_all_known_of_loads_is_an_even_draw() -> None:
    """A snapshot without what extensible brokers report decides, too."""
    case = Cluster().add("b1", cpu=90).add("b2", cpu=1)
    assert {select(case, seed=seed, load_manager_class_name=MODULAR).broker for seed in range(50)} == {"b1", "b2"}


def test_the_worked_example_ends_without_an_owner_where_the_modular_manager_would_ignore_the_limit() -> None:
    case = ExtensibleCluster(groups={"t/ns": "g", "t/other": "g"})
    case.add("b1", 0.1, class_name=MODULAR).add("b2", 0.1, topics=50_000)
    case.add("b3", 0.1, bundles={bundle_name(0, "t/other"): equal_bundles(1, throughput=0)[bundle_name(0)]})
    case.add("b4", 0.9, topics=49_999)
    placement = select(case)
    assert placement.broker == "b4"
    assert codes(placement) == {
        "b1": Code.OTHER_LOAD_MANAGER,
        "b2": Code.TOO_MANY_TOPICS,
        "b3": Code.GROUP_ON_BROKER,
    }
    assert "topics 50000 >= maximum 50000" in render(placement.reason)
    nobody = select(case, max_topics=1)
    assert (nobody.broker, nobody.reason.code) == (None, Code.NO_CANDIDATE)
    assert codes(nobody)["b4"] is Code.TOO_MANY_TOPICS


def test_a_version_that_is_none_leaves_all_candidates_but_forbids_transfers() -> None:
    case = ExtensibleCluster().add("b1", 0.1, version="4.0.0").add("b2", 0.1, version="4.1.0").add("b3", 0.9)
    assert {select(case, seed=seed, prefer_later_versions=True).broker for seed in range(30)} == {"b2"}
    case.add("b3", 0.9, version="moonlight")
    assert {select(case, seed=seed, prefer_later_versions=True).broker for seed in range(30)} == {"b1", "b2"}
    assert "'moonlight' is not a semantic version" in render(select(case, prefer_later_versions=True).reason)
    snapshot, later = case.snapshot(), ExtensibleFilterSettings(prefer_later_versions=True)
    assert not may_transfer(snapshot, 0, 0, 1, later)
    assert may_transfer(snapshot, 0, 0, 1, ExtensibleFilterSettings())


def test_an_isolation_policy_overrules_the_kinds_of_topics() -> None:
    case = ExtensibleCluster(isolation={"p": policy("t/ns", "b1")})
    case.add("b1:1", 0.9, persistent=False).add("b2:1", 0.1).add("b3:1", 0.9)
    assert select(case).broker == "b1:1"
    assert "isolation policy p" in render(select(case).reason)
    assert select(case, bundle=bundle_name(9, "t/free")).broker == "b2:1"
    assert codes(select(case, bundle=bundle_name(9, "t/free")))["b1:1"] is Code.TOPIC_KIND_DISABLED


def test_namespaces_excluded_from_shedding_are_served_in_turn() -> None:
    case = ExtensibleCluster().add("b1", 0.9).add("b2", 0.1).add("b3", 0.9)
    settings = ExtensibleFilterSettings(excluded_namespaces={"t/ns"})
    memory, chosen = SelectionMemory(), []
    for at in range(4):
        request = PlacementRequest(bundle_name(at))
        placement, memory = select_broker_extensible(
            case.snapshot(), request, settings, PLACEMENT, random.Random(0), memory
        )
        chosen.append(placement.broker)
    assert chosen == ["b1", "b2", "b3", "b1"]


def test_a_broker_that_is_gone_or_to_be_left_out_is_no_candidate() -> None:
    case = ExtensibleCluster(gone={"b1"}).add("b1", 0.0).add("b2", 0.0).add("b3", 0.9)
    request, settings = PlacementRequest(BUNDLE), ExtensibleFilterSettings()
    rng, memory = random.Random(0), SelectionMemory()
    placement, _ = select_broker_extensible(
        case.snapshot(), request, settings, PLACEMENT, rng, memory, without={"b2", "unknown"}
    )
    assert placement.broker == "b3"
    assert codes(placement) == {}


@pytest.mark.parametrize("moves", [False, True])
def test_bundles_with_policies_are_transferred_if_that_is_switched_on(moves: bool) -> None:
    case = ExtensibleCluster(isolation={"p": policy("t/a", "b[12]")}, groups={"t/b": "g"})
    case.add(
        "b1:1",
        0.9,
        bundles={bundle_name(0, f"t/{name}"): equal_bundles(1, throughput=0)[bundle_name(0)] for name in "abc"},
    )
    case.add("b2:1", 0.1).add("b3:1", 0.1)
    snapshot = case.snapshot()
    row_of = {name: row for row, name in enumerate(snapshot.bundles.names)}
    bound_policy, bound_group, free = (row_of[bundle_name(0, f"t/{name}")] for name in "abc")
    config = BrokerConfig(load_balancer_shedding_bundles_with_policies_enabled=moves)
    settings = ExtensibleFilterSettings.of(config)
    assert may_transfer(snapshot, free, 0, 2, settings)
    assert may_transfer(snapshot, bound_policy, 0, 1, settings) == moves
    assert may_transfer(snapshot, bound_group, 0, 2, settings) == moves
    assert not may_transfer(snapshot, bound_policy, 0, 2, settings), "the policy does not name it"
    assert not may_transfer(snapshot, free, 0, 0, settings), "it is there already"
    assert not may_transfer(snapshot, free, 0, 0, ExtensibleFilterSettings(max_topics=0))


def test_without_transfers_any_other_broker_will_do() -> None:
    case = ExtensibleCluster().add("b1", 0.9).add("b2", 0.1)
    snapshot = case.snapshot()
    merely = ExtensibleFilterSettings.of(BrokerConfig(load_balancer_transfer_enabled=False))
    assert may_transfer(snapshot, 0, 0, None, merely)
    assert may_transfer(snapshot, 0, 0, 0, merely)
    assert not may_transfer(snapshot, 0, 0, 0, ExtensibleFilterSettings())
    assert may_transfer(snapshot, 0, 0, None, ExtensibleFilterSettings())
    case.gone.add("b2")
    assert not may_transfer(case.snapshot(), 0, 0, None, merely)
    assert not may_transfer(case.snapshot(), 0, 0, 1, merely)
