"""The guarantees of every strategy: all in the registry, and those of the simple load manager."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.anti_affinity import anti_affinity
from pulsar_barycenter.load.filters.broker_version import broker_version
from pulsar_barycenter.load.filters.even_distribution import even_distribution
from pulsar_barycenter.load.filters.load_manager_class import load_manager_class
from pulsar_barycenter.load.filters.max_topics import below_max_topics, max_topics
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import FilterFailedError, FilterOutcome, PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import BROKER_SHEDS, Code
from pulsar_barycenter.load.reports.extensible_reports import BrokerLookupData
from pulsar_barycenter.load.reports.load_report import SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.rounds.round import selection_of
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.simple import shedding as simple_shedding
from pulsar_barycenter.load.simple.simple_settings import SimpleStrategy
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from pulsar_barycenter.load.strategies import STRATEGIES, Role, placer_of, strategy
from support import simple_cases
from support.extensible_choices import ExtensibleCluster, extensible_clusters
from support.filter_outcomes import assert_narrows
from support.load_cases import MODULAR, Cluster, bundle_name, clusters, equal_bundles
from support.load_oracles import is_bound
from support.short_forms import examples
from support.transfer_cases import TransferRound, draw_round

Shed: TypeAlias = Callable[[LoadSnapshot, Any], tuple[ShedPlan | simple_shedding.SimpleShedPlan, Any]]

EAGER: Final = msgspec.structs.replace(
    BrokerConfig(),
    load_balancer_broker_overloaded_threshold_percentage=50,
    load_balancer_broker_threshold_shedder_percentage=5,
    load_balancer_bundle_unload_min_throughput_threshold=0.0,
    load_balancer_avg_shedder_hit_count_high_threshold=1,
    load_balancer_avg_shedder_hit_count_low_threshold=2,
    load_balancer_shedding_condition_hit_count_threshold=0,
    min_unload_message=0,
    min_unload_message_throughput=0,
    max_unload_percentage=0.5,
)
"""Sheds much and soon."""

NO_MINIMUM: Final = {"OverloadShedder", "DeviationShedder", "TransferShedder", "LeastDisturbance", simple_shedding.NAME}
"""Shedders that no key gives a minimum, as in Pulsar; and ours, which has its band."""

SHEDDERS: Final = [(row.manager, row.name) for row in STRATEGIES if row.role is Role.SHEDDING]
PLACERS: Final = [
    *[(row.manager, row.name, row.version or VERSIONS[0]) for row in STRATEGIES if row.role is Role.PLACEMENT],
    *[(ManagerKind.SIMPLE, str(strategy), VERSIONS[0]) for strategy in SimpleStrategy],
]
every_shedder = pytest.mark.parametrize(("manager", "name"), SHEDDERS)
every_placement = pytest.mark.parametrize(("manager", "name", "version"), PLACERS)


def shedder(manager: ManagerKind, name: str, config: BrokerConfig) -> Shed:
    found = strategy(manager, Role.SHEDDING, name).of(config)
    return lambda snapshot, memory: found.decide(snapshot, found.start() if memory is None else memory)


def placement_config(manager: ManagerKind, name: str, version: PulsarVersion) -> BrokerConfig:
    of_simple, of_others = "load_balancer_placement_strategy", "load_balancer_load_placement_strategy"
    key = of_simple if manager is ManagerKind.SIMPLE else of_others
    return msgspec.structs.replace(default_config(version), **{key: name})


# ---- the same load, written down twice ----


@dataclass(frozen=True)
class Load:
    """A snapshot of reports, and one of the same reports in another order."""

    snapshot: LoadSnapshot
    turned: LoadSnapshot


def of_the_extensible(seen: TransferRound) -> Load:
    """Let the brokers take each other's bundles."""
    lookup = BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name, broker_version="4.0.0")
    seen = replace(seen, lookups=dict.fromkeys(seen.lookups, lookup))
    return Load(seen.snapshot(), seen.turned().snapshot())


def of_the_simple(reports: Mapping[str, LoadReport], recent: Collection[str] = ()) -> Load:
    return Load(
        build_simple_snapshot(reports, recently_unloaded=recent),
        build_simple_snapshot(simple_cases.turned(reports), recently_unloaded=recent),
    )


def draw_simple(seed: int) -> Load:
    rng = random.Random(seed)
    reports = simple_cases.cluster(rng)
    names = sorted({name for report in reports.values() for name in report.bundle_stats})
    return of_the_simple(reports, {name for name in names if rng.random() < 0.2})


seeds = st.integers(0, 2**40)
LOADS: Final[Mapping[ManagerKind, st.SearchStrategy[Load]]] = {
    ManagerKind.MODULAR: clusters().map(lambda cluster: Load(cluster.snapshot(), cluster.turned().snapshot())),
    ManagerKind.EXTENSIBLE: seeds.map(lambda seed: of_the_extensible(draw_round(random.Random(seed)))),
    ManagerKind.SIMPLE: seeds.map(draw_simple),
}


def uneven(manager: ManagerKind, first: float, others: float, brokers: int = 4) -> Load:
    """Return brokers of four bundles, the first at `first` %, the others at `others` %, with traffic in proportion."""
    usage = [first, *[others] * (brokers - 1)]
    if manager is ManagerKind.EXTENSIBLE:
        seen = TransferRound()
        for number, percent in enumerate(usage):
            seen.add(f"b{number}", percent / 100, *[percent * 1e6] * 4)
        return of_the_extensible(seen)
    cluster = Cluster()
    for number, percent in enumerate(usage):
        bundles = equal_bundles(4, throughput=percent * 1e7, first=10 * number, rate=percent * 1e4)
        cluster.add(f"b{number}", cpu=percent, bundles=bundles)
    if manager is ManagerKind.MODULAR:
        return Load(cluster.snapshot(), cluster.turned().snapshot())
    return of_the_simple(
        {
            name: LoadReport(
                name=name,
                system_resource_usage=SystemResourceUsage(cpu=report.cpu),
                bundle_stats=dict(report.last_stats),
            )
            for name, report in cluster.reports.items()
        }
    )


# ---- shedding ----


def rounds(shed: Shed, snapshots: Collection[LoadSnapshot]) -> list[tuple[Any, ...]]:
    """Return what each round decided and why, and the memory at the end; the reason must say whether brokers shed."""
    memory, found = None, list[tuple[Any, ...]]()
    for snapshot in snapshots:
        plan, memory = shed(snapshot, memory)
        assert (plan.reason.code in BROKER_SHEDS) is bool(list(plan)), plan.reason
        found.append((plan.reason, list(plan), list(plan.refusals())))
    return [*found, (memory,)]


@pytest.mark.drawn(4)
@every_shedder
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([EAGER, BrokerConfig()]))
def test_same_reports_same_unloads_in_whatever_order_they_come(
    manager: ManagerKind, name: str, data: st.DataObject, config: BrokerConfig
) -> None:
    """Including reasons and memory, round after round."""
    load = data.draw(LOADS[manager])
    first = rounds(shedder(manager, name, config), [load.snapshot] * 3)
    assert rounds(shedder(manager, name, config), [load.snapshot] * 3) == first
    assert rounds(shedder(manager, name, config), [load.turned] * 3) == first


@pytest.mark.drawn(4)
@every_shedder
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_only_known_bundles_that_may_move_are_unloaded_and_each_once(
    manager: ManagerKind, name: str, data: st.DataObject
) -> None:
    snapshot = data.draw(LOADS[manager]).snapshot
    bundles, brokers = snapshot.bundles, snapshot.brokers
    shed, memory = shedder(manager, name, EAGER), None
    for _ in range(2):
        plan, memory = shed(snapshot, memory)
        unloads = list(plan)
        assert len({(unload.bundle, unload.source) for unload in unloads}) == len(unloads) == len(plan)
        for row, unload in zip(plan.rows.tolist(), unloads, strict=True):
            assert (bundles.names[row], brokers.names[bundles.owner[row]]) == (unload.bundle, unload.source)
            # as in Pulsar, what is given in exchange may have moved a moment ago
            assert not bundles.recently_unloaded[row] or unload.reason.code is Code.GIVEN_IN_EXCHANGE
            assert not is_bound(unload.bundle)
            assert unload.destination != unload.source
            assert unload.destination is None or unload.destination in brokers.index


@every_shedder
def test_a_hot_broker_is_relieved_by_two_rounds(manager: ManagerKind, name: str) -> None:
    shed, snapshot = shedder(manager, name, EAGER), uneven(manager, 95, 10).snapshot
    _, memory = shed(snapshot, None)
    plan, _ = shed(snapshot, memory)
    assert {unload.source for unload in plan if unload.reason.code is not Code.GIVEN_IN_EXCHANGE} == {"b0"}


@pytest.mark.parametrize(("manager", "name"), [one for one in SHEDDERS if one[1] not in NO_MINIMUM])
def test_nothing_is_unloaded_below_the_minimum(manager: ManagerKind, name: str) -> None:
    """What would leave without a minimum is less than this one."""
    config = msgspec.structs.replace(
        EAGER,
        load_balancer_bundle_unload_min_throughput_threshold=1e6,
        min_unload_message=10**9,
        min_unload_message_throughput=10**12,
    )
    shed, snapshot, memory = shedder(manager, name, config), uneven(manager, 95, 10).snapshot, None
    for _ in range(3):
        plan, memory = shed(snapshot, memory)
        assert not len(plan)


@every_shedder
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.floats(0.01, 49), st.sampled_from([EAGER, BrokerConfig()]))
def test_a_balanced_cluster_is_left_alone(
    manager: ManagerKind, name: str, brokers: int, percent: float, config: BrokerConfig
) -> None:
    shed, snapshot, memory = shedder(manager, name, config), uneven(manager, percent, percent, brokers).snapshot, None
    for _ in range(9):
        plan, memory = shed(snapshot, memory)
        assert not len(plan)


# ---- placement ----


def with_extensible(case: ExtensibleCluster) -> Load:
    return Load(case.snapshot(), replace(case, cluster=case.cluster.turned()).snapshot())


PLACED_INTO: Final = {**LOADS, ManagerKind.EXTENSIBLE: extensible_clusters().map(with_extensible)}
BUNDLES: Final = [bundle_name(number, namespace) for number in (3, 99) for namespace in ("t/a", "t/b", "other/c")]


def placed(
    manager: ManagerKind, name: str, version: PulsarVersion, snapshot: LoadSnapshot, seed: int
) -> tuple[Placement, ...]:
    selection = selection_of(placement_config(manager, name, version), manager)
    return tuple(selection.place(snapshot, BUNDLES, random.Random(seed)))


@pytest.mark.drawn(4)
@every_placement
@settings(max_examples=40, deadline=None)
@given(st.data(), seeds)
def test_same_reports_and_seed_same_brokers_in_whatever_order_they_come(
    manager: ManagerKind, name: str, version: PulsarVersion, data: st.DataObject, seed: int
) -> None:
    """Bundle after bundle, including reasons."""
    load = data.draw(PLACED_INTO[manager])
    first = placed(manager, name, version, load.snapshot, seed)
    assert placed(manager, name, version, load.snapshot, seed) == first
    assert placed(manager, name, version, load.turned, seed) == first
    assert {placement.broker for placement in first} <= {*load.snapshot.brokers.names, None}


@pytest.mark.parametrize(("manager", "name", "version"), [one for one in PLACERS if one[0] is not ManagerKind.SIMPLE])
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sets(st.integers(0, 5)), seeds)
def test_a_candidate_is_chosen_while_there_is_one(
    manager: ManagerKind, name: str, version: PulsarVersion, data: st.DataObject, excluded: set[int], seed: int
) -> None:
    snapshot, rng = data.draw(PLACED_INTO[manager]).snapshot, random.Random(seed)
    candidates = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    placer = placer_of(placement_config(manager, name, version), manager)
    memory = placer.start()
    for bundle in BUNDLES:
        choice, memory = placer.decide(snapshot, candidates, bundle, rng, memory)
        assert candidates[choice.broker] if candidates.any() else choice.broker is None


# ---- filters ----

Judge: TypeAlias = Callable[[], Sequence[FilterOutcome]]


def all_filters(snapshot: LoadSnapshot, among: Flags, namespace: str) -> list[Judge]:
    return [
        lambda: anti_affinity(snapshot, among, namespace, failure_domains=True)[:1],
        lambda: [broker_version(snapshot, among)],
        lambda: [even_distribution(snapshot, among, namespace)],
        lambda: [load_manager_class(snapshot, among, MODULAR)],
        lambda: [max_topics(snapshot, among, 1000)],
        lambda: [below_max_topics(snapshot, among, 1000)],
        lambda: [policy_candidates(snapshot, PlacementRequest(bundle_name(9, namespace)), among)],
    ]


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.sets(st.integers(0, 5), max_size=3), st.sampled_from(["t/a", "t/b", "t/none"]))
def test_filters_only_remove(data: st.DataObject, excluded: set[int], namespace: str) -> None:
    snapshot = data.draw(st.one_of(list(PLACED_INTO.values()))).snapshot
    among = np.array([row not in excluded for row in range(len(snapshot.brokers))], bool)
    for judge in all_filters(snapshot, among, namespace):
        try:
            outcomes = judge()
        except FilterFailedError:
            continue
        candidates = among
        for outcome in outcomes:
            assert_narrows(snapshot, candidates, outcome)
            candidates = outcome.kept
