"""A round of the leader: the same as shedding, and then selecting a broker for one bundle after the other."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import BundleData, NamespaceBundleStats, with_stats
from pulsar_barycenter.load.rounds.round import Round, RoundOutcome, round_of, selection_of
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.strategies import placer_of, shedder_of
from support.load_cases import Cluster, bundle_name, clusters, equal_bundles
from support.snapshot_cases import a_policy

EAGER = {
    "load_balancer_bundle_unload_min_throughput_threshold": 0.0,
    "load_balancer_avg_shedder_hit_count_low_threshold": 1,
    "load_balancer_avg_shedder_low_threshold": 1,
    "min_unload_message": 0,
}
PAIRS = [
    ("ThresholdShedder", "LeastLongTermMessageRate"),
    ("OverloadShedder", "LeastResourceUsageWithWeight"),
    ("UniformLoadShedder", "RoundRobinBrokerSelector"),
    ("AvgShedder", "AvgShedder"),
]


def config(**settings: Any) -> BrokerConfig:
    """Return the defaults of 4.x, whose strategies decide by values alone, with changes."""
    return msgspec.structs.replace(default_config("4.x"), **{**EAGER, **settings})


def tidied(cluster: Cluster) -> Cluster:
    """Make each bundle reported once, rates whole, so that sums do not depend on their order, and topics match."""
    stats: dict[str, NamespaceBundleStats] = {}
    for broker, report in cluster.reports.items():
        own = {name: each for name, each in report.last_stats.items() if name not in stats}
        cluster.reports[broker] = with_stats(report, own)
        stats |= own
    for name, data in cluster.data.items():
        windows = {
            field: msgspec.structs.replace(
                window, msg_rate_in=float(round(window.msg_rate_in)), msg_rate_out=float(round(window.msg_rate_out))
            )
            for field, window in (("short_term_data", data.short_term_data), ("long_term_data", data.long_term_data))
        }
        cluster.data[name] = BundleData(**windows, topics=stats[name].topics)
    for held in cluster.preallocated.values():
        held.update({name: cluster.data[name] for name in held})
    return cluster


def once(cycle: Round[Any], cluster: Cluster, seed: int = 1) -> RoundOutcome:
    return cycle.run(cluster.snapshot(), cycle.start(), random.Random(seed))[0]


def one_by_one(cluster: Cluster, settings: BrokerConfig, seed: int) -> list[tuple[str, str | None]]:
    """Return the moves, found with a snapshot built again after every move."""
    snapshot, rng = cluster.snapshot(), random.Random(seed)
    shedder, placer = shedder_of(settings, ManagerKind.MODULAR), placer_of(settings, ManagerKind.MODULAR)
    plan, _ = shedder.decide(snapshot, shedder.start())
    memory = SelectionMemory().updated(placer, lambda placer, before: placer.planned(plan, before))
    found: list[tuple[str, str | None]] = []
    preallocated = {broker: dict(held) for broker, held in cluster.preallocated.items()}
    for unload in plan:
        others = [
            name
            for row, name in enumerate(snapshot.brokers.names)
            if snapshot.brokers.persistent[row] and name != unload.source
        ]
        if not others:
            found.append((unload.bundle, None))
            continue
        now = snapshot.with_preallocations(preallocated)
        request = PlacementRequest(unload.bundle)
        placement, memory = select_broker(now, request, SelectionSettings.of(settings), placer, rng, memory)
        moves = placement.broker not in (None, unload.source)
        found.append((unload.bundle, placement.broker if moves else None))
        if moves and placement.broker is not None:
            preallocated.setdefault(placement.broker, {})[unload.bundle] = cluster.data[unload.bundle]
    return found


@pytest.mark.parametrize(("shedder", "placer"), PAIRS)
@given(cluster=clusters().map(tidied), seed=st.integers(0, 9))
def test_a_round_is_shedding_and_then_one_selection_after_the_other(
    cluster: Cluster, seed: int, shedder: str, placer: str
) -> None:
    settings = config(load_balancer_load_shedding_strategy=shedder, load_balancer_load_placement_strategy=placer)
    outcome = once(round_of(settings), cluster, seed)
    moved = {move.bundle: move.destination for move in outcome.moves}
    wanted = one_by_one(cluster, settings, seed)
    assert [move.bundle for move in outcome.moves] == [bundle for bundle, broker in wanted if broker is not None]
    assert moved == {bundle: broker for bundle, broker in wanted if broker is not None}
    assert [refusal.subject for refusal in outcome.refused] == [bundle for bundle, broker in wanted if broker is None]
    assert all(placement.broker == moved[placement.bundle] for placement in outcome.placements)


def test_what_moved_counts_for_its_destination_and_is_not_shed_again() -> None:
    cluster = Cluster().add("a:1", cpu=90, bundles=equal_bundles(4, throughput=4e8, rate=400)).add("b:1").add("c:1")
    cycle, rng = round_of(config()), random.Random(1)
    first, memory = cycle.run(cluster.snapshot(), cycle.start(), rng)
    assert {move.destination for move in first.moves} == {"b:1", "c:1"}
    arrived = [sum(move.destination == broker for move in first.moves) for broker in ("a:1", "b:1", "c:1")]
    assert first.snapshot.preallocated_long_rate.tolist() == [100.0 * count for count in arrived]
    second, _ = cycle.run(first.snapshot, memory, rng)
    assert not {move.bundle for move in first.moves} & {move.bundle for move in second.moves}
    assert second.moves


@pytest.mark.parametrize(
    ("excluded", "policies", "code"),
    [
        (("t/ns",), NO_POLICIES, Code.EXCLUDED_NAMESPACE),
        ((), a_policy("p", "t/ns", "a"), Code.POLICIES_FORBID),
        ((), ClusterPolicies(groups={"t/ns": "g", "t/other": "g"}), Code.ANTI_AFFINITY_FORBIDS),
    ],
)
def test_what_speaks_against_a_move_is_told(excluded: tuple[str, ...], policies: ClusterPolicies, code: Code) -> None:
    elsewhere = {bundle_name(9, "t/other"): NamespaceBundleStats()}
    cluster = Cluster(policies=policies).add("a:1", cpu=90, bundles=equal_bundles(4, throughput=4e8))
    cluster.add("b:1", bundles=elsewhere)
    outcome = once(round_of(config(load_balancer_shedding_excluded_namespaces=excluded)), cluster)
    assert not outcome.moves
    assert {refusal.reason.code for refusal in outcome.refused} == {code}
    assert all(refusal.reason.cause is not None for refusal in outcome.refused)


def test_a_bundle_whose_best_destination_is_its_own_broker_stays() -> None:
    full = {bundle_name(9, "t/other"): NamespaceBundleStats(topics=60_000)}
    cluster = Cluster().add("a:1", cpu=80, bundles=equal_bundles(4, throughput=4e8)).add("b:1", cpu=30, bundles=full)
    outcome = once(round_of(config()), cluster)
    assert not outcome.moves
    (refusal,) = outcome.refused
    assert refusal.reason.code is Code.SAME_BROKER
    assert refusal.reason.cause is not None
    assert [each.name for each in refusal.reason.cause.alternatives] == ["b:1"]


def test_bundles_are_placed_one_after_the_other_with_what_is_known_of_them() -> None:
    cluster = (
        Cluster().add("a:1", bundles={bundle_name(1): NamespaceBundleStats(msg_rate_in=1000)}).add("b:1").add("c:1")
    )
    settings = config(load_balancer_distribute_bundles_evenly_enabled=False)
    new = [bundle_name(number, "t/new") for number in (1, 2)]
    placements = selection_of(settings).place(cluster.snapshot(), [bundle_name(1), *new], random.Random(3))
    brokers = [placement.broker for placement in placements]
    assert sorted(filter(None, brokers[:2])) == ["b:1", "c:1"]
    assert brokers[2] == brokers[1], "the default of 100 msg/s is less than what the first one carries"
