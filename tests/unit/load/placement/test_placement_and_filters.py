"""LeastLongTermMessageRate, the filters, and the pipeline that joins them."""

import random
from collections import Counter

import numpy as np
import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.broker_version import broker_version
from pulsar_barycenter.load.filters.even_distribution import even_distribution
from pulsar_barycenter.load.filters.load_manager_class import load_manager_class
from pulsar_barycenter.load.filters.max_topics import max_topics
from pulsar_barycenter.load.filters.outcome import FilterFailedError, PlacementRequest
from pulsar_barycenter.load.placement.least_long_term_message_rate import LeastLongTermMessageRate
from pulsar_barycenter.load.placement.placer import Placer
from pulsar_barycenter.load.placement.round_robin_broker_selector import (
    RoundRobinBrokerSelector,
    RoundRobinMemory,
)
from pulsar_barycenter.load.reasons import Code, Reason, render
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from pulsar_barycenter.load.splitting.splitter import Splitter
from pulsar_barycenter.load.strategies import (
    STRATEGIES,
    Role,
    StrategyRow,
    UnknownStrategyError,
    placer_of,
    shedder_of,
)
from support.load_cases import MODULAR, Cluster, bundle_name, bundles_of_namespace, equal_bundles

PLACER = LeastLongTermMessageRate()
BUNDLE = "t/new/0x00000000_0xffffffff"


def busy(**rates: float) -> Cluster:
    """Return brokers of these long-term rates, one bundle each, of a namespace of its own."""
    cluster = Cluster()
    for name, rate in rates.items():
        stats = NamespaceBundleStats(msg_rate_in=rate, topics=2)
        cluster.add(name, bundles={bundle_name(0, f"t/{name}"): stats} if rate else {})
    return cluster


def select(
    cluster: Cluster, *, bundle: str = BUNDLE, seed: int = 0, non_persistent: bool = False, **options: object
) -> Placement:
    settings = SelectionSettings(MODULAR, **options)  # type: ignore[arg-type]
    request = PlacementRequest(bundle, non_persistent)
    return select_broker(cluster.snapshot(), request, settings, PLACER, random.Random(seed), SelectionMemory())[0]


def names(snapshot: LoadSnapshot, flags: Flags) -> list[str]:
    return [snapshot.brokers.names[row] for row in np.flatnonzero(flags)]


def codes(reason: Reason) -> dict[str, Code]:
    return {alternative.name: alternative.code for alternative in reason.alternatives}


def test_w20_a_bundle_just_assigned_counts_so_the_next_goes_elsewhere() -> None:
    """Brokers at 100 and 110, two bundles of 20: the first to broker 1, which then counts as 120, the second to 2."""
    cluster = busy(b1=100, b2=110)
    assert select(cluster).broker == "b1"
    new = Cluster().add("x", bundles={BUNDLE: NamespaceBundleStats(msg_rate_in=20)}).data[BUNDLE]
    cluster.preallocated = {"b1": {BUNDLE: new}}
    scores = LeastLongTermMessageRate().scores(cluster.snapshot())
    assert scores.tolist() == [120, 110]
    assert select(cluster, bundle=bundle_name(1, "t/new")).broker == "b2"


def test_equal_brokers_are_drawn_evenly_from_the_seed() -> None:
    cluster = busy(b1=5, b2=5, b3=5)
    drawn = Counter(select(cluster, seed=seed).broker for seed in range(300))
    assert set(drawn) == {"b1", "b2", "b3"}
    assert min(drawn.values()) > 60
    assert set(codes(select(cluster).reason).values()) == {Code.EQUAL}


def test_an_overloaded_broker_counts_as_infinitely_busy_above_the_limit_only() -> None:
    cluster = busy(b1=0, b2=900)
    cluster.add("b1", cpu=85.5)
    placement = select(cluster)
    assert placement.broker == "b2"
    assert codes(placement.reason) == {"b1": Code.OVERLOADED}
    cluster.add("b1", cpu=85)
    assert select(cluster, overload_limit=0.85).broker == "b1"


def test_when_all_are_overloaded_one_is_drawn_and_the_choice_is_made_again_without_filters() -> None:
    cluster = busy(b1=10, b2=20)
    for name in ("b1", "b2"):
        cluster.add(name, cpu=95, bundles=equal_bundles(1, throughput=0, rate=10))
    drawn = {select(cluster, seed=seed).broker for seed in range(30)}
    assert drawn == {"b1", "b2"}
    reason = select(cluster).reason
    assert (reason.code, reason.cause and reason.cause.code) == (Code.CHOSEN_AGAIN, Code.ALL_OVERLOADED)


def test_an_overloaded_choice_overrules_even_distribution() -> None:
    """b1 has fewer bundles of the namespace but is overloaded; the second choice takes b2 all the same."""
    cluster = Cluster().add("b1", cpu=95).add("b2", cpu=5, bundles=equal_bundles(3, throughput=0, rate=30))
    placement = select(cluster, bundle=bundle_name(9))
    assert placement.broker == "b2"
    assert "usage of b1 95 % > overload limit 85 %" in render(placement.reason)


def test_even_distribution_keeps_brokers_with_the_fewest_bundles_of_the_namespace() -> None:
    cluster = busy(b1=1, b2=1, b3=1)
    for name, count in (("b1", 2), ("b2", 1), ("b3", 1)):
        cluster.add(name, bundles=equal_bundles(count, throughput=0, rate=1, first=ord(name[1]) * 10))
    snapshot = cluster.snapshot()
    everyone = np.ones(3, bool)
    assert names(snapshot, even_distribution(snapshot, everyone, "t/ns").kept) == ["b2", "b3"]
    assert names(snapshot, even_distribution(snapshot, everyone, "t/other").kept) == ["b1", "b2", "b3"]
    assert codes(select(cluster, bundle=bundle_name(0)).reason)["b1"] is Code.NOT_FEWEST_BUNDLES


def test_even_distribution_counts_bundles_on_their_way_once() -> None:
    cluster = Cluster().add("b1", bundles=equal_bundles(1, throughput=0)).add("b2")
    cluster.preallocated = {
        "b1": {bundle_name(0): cluster.data[bundle_name(0)]},
        "b2": {bundle_name(1): cluster.data[bundle_name(0)]},
    }
    assert bundles_of_namespace(cluster.snapshot(), "t/ns").tolist() == [1, 1]


def test_even_distribution_can_be_switched_off_but_not_for_the_system_namespace() -> None:
    cluster = Cluster()
    cluster.add("b1", bundles=equal_bundles(2, throughput=0) | equal_bundles(1, throughput=0, first=50))
    cluster.add("b2", bundles={bundle_name(0, "pulsar/system"): NamespaceBundleStats(msg_rate_in=99)})
    assert select(cluster, bundle=bundle_name(7), distribute_evenly=False).broker == "b1"
    assert select(cluster, bundle=bundle_name(7, "pulsar/system"), distribute_evenly=False).broker == "b1"


def test_maximum_topics_counts_those_on_their_way_and_includes_its_limit() -> None:
    cluster = Cluster().add("b1", bundles={bundle_name(0): NamespaceBundleStats(topics=10)}).add("b2")
    everyone = np.ones(2, bool)
    snapshot = cluster.snapshot()
    assert names(snapshot, max_topics(snapshot, everyone, 10).kept) == ["b1", "b2"]
    cluster.preallocated = {"b1": {bundle_name(1): cluster.data[bundle_name(0)]}}
    snapshot = cluster.snapshot()
    assert names(snapshot, max_topics(snapshot, everyone, 19).kept) == ["b2"]


def test_maximum_topics_is_ignored_when_nobody_is_below() -> None:
    cluster = Cluster().add("b1", bundles={bundle_name(0): NamespaceBundleStats(topics=10)})
    placement = select(cluster, max_topics=5)
    assert placement.broker == "b1"
    assert "loadBalancerBrokerMaxTopics" in placement.reason.detail


def test_brokers_with_another_load_manager_are_left_out_unless_all_have() -> None:
    cluster = busy(b1=1, b2=5)
    cluster.reports["b1"] = LocalBrokerData(load_manager_class_name="SimpleLoadManagerImpl")
    snapshot = cluster.snapshot()
    assert names(snapshot, load_manager_class(snapshot, np.ones(2, bool), "ModularLoadManagerImpl").kept) == ["b2"]
    assert select(cluster).broker == "b2"
    cluster.reports["b2"] = LocalBrokerData()
    assert select(cluster).broker in {"b1", "b2"}


@pytest.mark.parametrize(
    ("versions", "kept"),
    [
        (("4.0.0", "4.1.0", "4.1.0"), ["b1", "b2"]),
        (("4.1.0", "4.1.0-rc.2", "4.1.0-rc.10"), ["b0"]),
        (("4.1.0-rc.2", "4.1.0-rc.10", "4.1.0-alpha"), ["b1"]),
        (("4.1.0+b1", "4.1.0+b2", "4.0.9"), ["b0", "b1"]),
        (("4.10.0", "4.9.0", "4.10.0-SNAPSHOT"), ["b0"]),
    ],
)
def test_the_latest_semantic_versions_are_kept(versions: tuple[str, ...], kept: list[str]) -> None:
    cluster = Cluster()
    for number, version in enumerate(versions):
        cluster.add(f"b{number}", version=version)
    snapshot = cluster.snapshot()
    assert names(snapshot, broker_version(snapshot, np.ones(3, bool)).kept) == kept


@pytest.mark.parametrize(
    "version",
    [None, "4.1", "latest", "4.01.0", "4.1.0-rc.01", "4.1.0-", "4.1.0-rc..1", "4.1.0+", "4.1.0+a..b", "4.1.0 "],
)
def test_a_version_that_cannot_be_compared_brings_all_candidates_back(version: str | None) -> None:
    cluster = Cluster().add("b1", version="4.0.0").add("b2", version=version)
    snapshot = cluster.snapshot()
    with pytest.raises(FilterFailedError):
        broker_version(snapshot, np.ones(2, bool))
    placement = select(cluster, prefer_later_versions=True)
    assert placement.broker in {"b1", "b2"}
    assert "versions could not be compared" in placement.reason.detail


def test_older_versions_are_left_out_when_later_ones_are_preferred() -> None:
    cluster = Cluster().add("b1", version="4.0.0")
    cluster.add("b2", version="4.1.0", bundles=equal_bundles(1, throughput=0, rate=9))
    assert select(cluster, prefer_later_versions=True, distribute_evenly=False).broker == "b2"
    assert select(cluster).broker == "b1"


def test_a_broker_that_does_not_serve_the_kind_of_topics_is_no_candidate() -> None:
    cluster = Cluster()
    cluster.add("b1").add("b2", bundles=equal_bundles(1, throughput=0, rate=9))
    cluster.reports["b1"] = LocalBrokerData(non_persistent_topics_enabled=False, load_manager_class_name=MODULAR)
    placement = select(cluster, non_persistent=True)
    assert placement.broker == "b2"
    assert codes(placement.reason) == {"b1": Code.TOPIC_KIND_DISABLED}
    assert select(cluster).broker == "b1"


def test_without_brokers_nobody_qualifies() -> None:
    placement = select(Cluster())
    assert (placement.broker, placement.reason.code) == (None, Code.NO_CANDIDATE)


def test_namespaces_excluded_from_shedding_are_placed_in_turn() -> None:
    cluster = busy(b1=1, b2=500)
    settings = SelectionSettings(MODULAR, excluded_namespaces={"t/new"}, distribute_evenly=False)
    memory, chosen = SelectionMemory(), []
    for index in range(4):
        request = PlacementRequest(bundle_name(index, "t/new"))
        placement, memory = select_broker(cluster.snapshot(), request, settings, PLACER, random.Random(0), memory)
        chosen.append(placement.broker)
    assert chosen == ["b1", "b2", "b1", "b2"]


def test_round_robin_keeps_its_order_while_the_candidates_are_as_many() -> None:
    """The remembered order is replaced only when the number differs or the hit is no candidate."""
    snapshot = Cluster().add("a").add("b").add("c").snapshot()
    flags = lambda text: np.array([name in text for name in "abc"], bool)  # noqa: E731
    memory = RoundRobinMemory(0, ("b", "a"), np.arange(2))
    choice, memory = RoundRobinBrokerSelector().decide(snapshot, flags("ab"), "", random.Random(0), memory)
    assert (choice.broker, memory) == (1, RoundRobinMemory(1, ("b", "a"), np.arange(2)))
    choice, memory = RoundRobinBrokerSelector().decide(snapshot, flags("bc"), "", random.Random(0), memory)
    assert (choice.broker, memory) == (2, RoundRobinMemory(2, ("b", "c"), np.arange(2)))
    wrapped = RoundRobinBrokerSelector().decide(
        snapshot, flags("ab"), "", random.Random(0), RoundRobinMemory(2**31 - 1)
    )[1]
    assert wrapped.counter == 0


def test_the_reason_names_what_was_compared_and_who_was_refused_why() -> None:
    cluster = busy(b1=10, b2=20, b3=15)
    sentence = render(select(cluster).reason)
    assert "long-term message rate 10 msg/s <= rate of b3 15 msg/s" in sentence
    assert (
        "b2 (it has a higher long-term message rate, long-term message rate 20 msg/s > lowest rate 10 msg/s)"
        in sentence
    )


def test_a_large_cluster_is_not_listed_in_full() -> None:
    reason = select(busy(**{f"b{n:03}": float(n + 1) for n in range(40)})).reason
    assert (len(reason.alternatives), reason.more_alternatives) == (16, 23)


def test_strategies_are_found_by_class_name_or_its_last_part() -> None:
    for name in ("OverloadShedder", "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder"):
        shedder = shedder_of(BrokerConfig(load_balancer_load_shedding_strategy=name))
        plan, _ = shedder.decide(Cluster().snapshot(), shedder.start())
        assert plan.strategy == shedder.name == "OverloadShedder"


@pytest.mark.parametrize("row", STRATEGIES, ids=lambda row: f"{row.manager}-{row.role}-{row.name}")
def test_every_row_of_the_catalogue_is_a_class_of_its_own_file(row: StrategyRow) -> None:
    made = row.load().of(BrokerConfig())
    assert isinstance(made, {Role.SHEDDING: Shedder, Role.PLACEMENT: Placer, Role.SPLITTING: Splitter}[row.role])
    assert made.name == row.name
    assert type(made.remembered(made.document(made.start()))) is type(made.start())


def test_a_strategy_that_there_is_not_is_refused_with_the_key_and_what_is_allowed() -> None:
    with pytest.raises(UnknownStrategyError, match=r"loadBalancerLoadSheddingStrategy='MyShedder'.*ThresholdShedder"):
        shedder_of(BrokerConfig(load_balancer_load_shedding_strategy="MyShedder"))
    with pytest.raises(UnknownStrategyError, match="loadBalancerLoadPlacementStrategy"):
        placer_of(BrokerConfig(load_balancer_load_placement_strategy="ThresholdShedder"))
