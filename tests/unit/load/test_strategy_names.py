"""The load manager and the strategies that a configuration names, and the errors for incompatible names."""

import random
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from pulsar_barycenter.config.broker_conf import default_config
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import PulsarVersion
from pulsar_barycenter.load.managers import (
    ManagerKind,
    ManagerSwitchRefusedError,
    StrategyError,
    UnknownLoadManagerError,
    manager_in_force,
    manager_kind,
)
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import (
    BOTH,
    STRATEGIES,
    NothingToDecideError,
    OwnStrategiesError,
    Role,
    UnknownStrategyError,
    check_change,
    of_role,
    placer_name,
    placer_of,
    shedder_name,
    shedder_of,
    supported,
)

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
EXTENSIONS = "org.apache.pulsar.broker.loadbalance.extensions"


def configured(manager: ManagerKind = ManagerKind.MODULAR, **settings: Any) -> BrokerConfig:
    return BrokerConfig(load_manager_class_name=manager.class_name, **settings)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{IMPL}.SimpleLoadManagerImpl", ManagerKind.SIMPLE),
        ("", ManagerKind.SIMPLE),
        (f"{IMPL}.ModularLoadManagerImpl", ManagerKind.MODULAR),
        (" ModularLoadManagerWrapper ", ManagerKind.MODULAR),
        (f"{EXTENSIONS}.ExtensibleLoadManagerImpl", ManagerKind.EXTENSIBLE),
        ("NoopLoadManager", ManagerKind.NOOP),
    ],
)
def test_a_load_manager_goes_by_the_class_name_or_its_last_part(name: str, kind: ManagerKind) -> None:
    assert manager_kind(name) is kind


@pytest.mark.parametrize("kind", list(ManagerKind))
def test_the_name_of_each_load_manager_leads_back_to_it(kind: ManagerKind) -> None:
    assert manager_kind(kind.class_name) is kind
    assert manager_kind(kind.class_name.rpartition(".")[2]) is kind


@pytest.mark.parametrize("name", ["com.acme.ModularLoadManagerImpl", "Modular", "ModularLoadManagerImp"])
def test_an_unknown_load_manager_is_refused_by_name_and_falls_back_to_the_simple_one(name: str) -> None:
    with pytest.raises(UnknownLoadManagerError, match=name):
        manager_kind(name)
    assert manager_in_force(BrokerConfig(load_manager_class_name=name)) is ManagerKind.SIMPLE


def test_a_misspelt_name_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(UnknownLoadManagerError, match=r"did you mean ModularLoadManagerImpl\?"):
        manager_kind("ModularLoadManagerImp")
    with pytest.raises(UnknownStrategyError, match=r"did you mean ThresholdShedder\?"):
        shedder_name(configured(load_balancer_load_shedding_strategy="ThreshholdShedder"))


def test_each_strategy_is_known_by_its_name_and_its_class_name_and_can_be_made() -> None:
    for each in STRATEGIES:
        key = f"load_balancer_load_{each.role}_strategy"
        if each.manager is ManagerKind.MODULAR and each.is_named:
            for name in (each.name, each.class_name):
                both: dict[str, Any] = {"load_balancer_load_placement_strategy": name} if each.name in BOTH else {}
                config = configured(**{"load_balancer_load_shedding_strategy": name, **both, key: name})
                named = shedder_name if each.role is Role.SHEDDING else placer_name
                assert named(config, ManagerKind.MODULAR) == each.name
    for manager, role in product((ManagerKind.MODULAR, ManagerKind.EXTENSIBLE), Role):
        assert supported(manager, role) == {row.name for row in of_role(manager, role)} != set()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TransferShedder", "belongs to the extensible load manager, and loadManagerClassName names the modular one"),
        (f"{EXTENSIONS}.scheduler.TransferShedder", "belongs to the extensible load manager"),
        ("com.acme.ThresholdShedder", "is a class that is not Pulsar's, and only Pulsar's ThresholdShedder can run"),
        ("RoundRobinBrokerSelector", "is a strategy for placement, not for shedding"),
        ("Quicksort", "is not a strategy known here; use one of AvgShedder, "),
    ],
)
def test_a_shedder_that_the_modular_manager_has_not_is_refused_with_the_reason(name: str, said: str) -> None:
    with pytest.raises(UnknownStrategyError) as refused:
        shedder_name(configured(load_balancer_load_shedding_strategy=name))
    assert str(refused.value).startswith(f"loadBalancerLoadSheddingStrategy='{name}' {said}")
    assert "ThresholdShedder" in str(refused.value)


def test_the_same_short_name_means_each_managers_own_function() -> None:
    name = "LeastResourceUsageWithWeight"
    config = configured(load_balancer_load_placement_strategy=name)
    assert placer_name(config) == name
    of_extensible = f"{EXTENSIONS}.strategy.{name}"
    with pytest.raises(UnknownStrategyError, match="belongs to the extensible load manager"):
        placer_name(configured(load_balancer_load_placement_strategy=of_extensible))
    classes = {each.class_name for each in STRATEGIES if each.name == name}
    assert classes == {f"{IMPL}.{name}", of_extensible}


def test_the_extensible_manager_has_its_own_strategies_whatever_the_keys_say() -> None:
    config = configured(ManagerKind.EXTENSIBLE)
    assert (shedder_name(config), placer_name(config)) == ("TransferShedder", "LeastResourceUsageWithWeight")


@pytest.mark.parametrize("name", ["LeastDisturbance", "barycenter.LeastDisturbance"])
def test_the_extensible_manager_sheds_by_a_strategy_of_our_own_if_the_key_names_it(name: str) -> None:
    config = configured(ManagerKind.EXTENSIBLE, load_balancer_load_shedding_strategy=name)
    assert (shedder_name(config), placer_name(config)) == ("LeastDisturbance", "LeastResourceUsageWithWeight")
    assert shedder_of(config).name == "LeastDisturbance"
    other = configured(ManagerKind.EXTENSIBLE, load_balancer_load_shedding_strategy=f"{IMPL}.LeastDisturbance")
    assert shedder_name(other) == "TransferShedder", "Pulsar has none of that name"


def test_the_simple_manager_places_by_its_own_key_and_the_no_op_one_not_at_all() -> None:
    assert placer_name(configured(ManagerKind.SIMPLE)) == "leastLoadedServer"
    unknown = configured(ManagerKind.SIMPLE, load_balancer_placement_strategy="roundRobin")
    assert placer_name(unknown) == "weightedRandomSelection"
    for named in (shedder_name, placer_name):
        with pytest.raises(NothingToDecideError, match="set loadManagerClassName="):
            named(configured(ManagerKind.NOOP))


def test_what_the_simple_manager_decides_is_no_strategy_for_others() -> None:
    with pytest.raises(OwnStrategiesError, match="the simple load manager has its own placement"):
        placer_of(configured(ManagerKind.SIMPLE))


def extensible(*usages: float) -> LoadSnapshot:
    """Return brokers b0, b1, … of these smoothed usages; each has three bundles of 100 MB/s times that."""
    names = [f"b{number}" for number in range(len(usages))]
    bundles = {
        name: {f"t/{name}-{i}/0x00000000_0xffffffff": NamespaceBundleStats(msg_throughput_in=1e8 * u) for i in range(3)}
        for name, u in zip(names, usages, strict=True)
    }
    return build_extensible_snapshot(
        {
            name: BrokerLoadData(
                weighted_max_ema=u, msg_throughput_in=3e8 * u, msg_throughput_ema=3e8 * u, updated_at=1, bundle_count=3
            )
            for name, u in zip(names, usages, strict=True)
        },
        {
            name: TopBundlesLoadData(tuple(BundleLoadData(bundle, stats) for bundle, stats in held.items()))
            for name, held in bundles.items()
        },
        {name: BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name) for name in names},
        {bundle: name for name, held in bundles.items() for bundle in held},
        taken_at_ms=1,
    )


def test_the_extensible_placement_goes_by_what_brokers_smoothed_themselves() -> None:
    placer = placer_of(configured(ManagerKind.EXTENSIBLE))
    choice, memory = placer.decide(extensible(0.9, 0.1), np.ones(2, bool), "", random.Random(0), None)
    assert (choice.broker, memory) == (1, None)


def test_the_extensible_shedder_acts_on_the_fourth_cycle_and_asks_the_filters() -> None:
    shedder = shedder_of(configured(ManagerKind.EXTENSIBLE))
    snapshot, memory, moved = extensible(0.9, 0.1), shedder.start(), []
    for _ in range(4):
        plan, memory = shedder.decide(snapshot, memory)
        moved.append([(unload.source, unload.destination) for unload in plan])
    assert moved == [[], [], [], [("b0", "b1")]]  # (0.9 - 0.1) / 2 of 0.9: 120 of 270 MB/s, and bundles of 90
    full = configured(ManagerKind.EXTENSIBLE, load_balancer_broker_max_topics=1)
    crowded = replace(snapshot, brokers=replace(snapshot.brokers, topics=np.array([0, 1])))
    refused = shedder_of(full)
    memory = refused.start()
    for _ in range(4):
        plan, memory = refused.decide(crowded, memory)
        assert len(plan) == 0


@pytest.mark.parametrize("kind", [kind for kind in ManagerKind if kind is not ManagerKind.EXTENSIBLE])
def test_to_and_from_the_extensible_manager_brokers_go_by_a_restart_alone(kind: ManagerKind) -> None:
    here, there = configured(kind), configured(ManagerKind.EXTENSIBLE)
    for before, after in ((here, there), (there, here)):
        said = "ownership in different places; .* restart the brokers one by one"
        with pytest.raises(ManagerSwitchRefusedError, match=said):
            check_change(before, after)
    check_change(there, there)


def test_a_change_that_would_leave_strategies_that_do_not_go_together_is_refused_in_4() -> None:
    before = default_config("4.x")
    check_change(before, structs.replace(before, load_balancer_load_shedding_strategy="UniformLoadShedder"))
    avg = structs.replace(before, load_balancer_load_shedding_strategy="AvgShedder")
    with pytest.raises(StrategyError, match="set loadBalancerLoadPlacementStrategy=AvgShedder as well"):
        check_change(before, avg)
    simple = structs.replace(avg, load_manager_class_name=ManagerKind.SIMPLE.class_name)
    check_change(configured(ManagerKind.SIMPLE), simple)
    with pytest.raises(StrategyError, match="both sheds and places"):
        check_change(simple, avg)


def test_a_change_to_an_unknown_load_manager_is_refused() -> None:
    with pytest.raises(UnknownLoadManagerError):
        check_change(configured(), BrokerConfig(load_manager_class_name="Modular"))


@pytest.mark.parametrize(
    ("shedding", "placement", "pair"),
    [
        ("AvgShedder", "AvgShedder", ("AvgShedder", "AvgShedder")),
        ("ThresholdShedder", "AvgShedder", ("ThresholdShedder", "LeastLongTermMessageRate")),
        ("AvgShedder", "RoundRobinBrokerSelector", ("AvgShedder", "RoundRobinBrokerSelector")),
    ],
)
def test_a_strategy_that_would_place_what_it_shed_gives_way_since_5(
    shedding: str, placement: str, pair: tuple[str, str]
) -> None:
    """So a file that sets another shedder, and was written when the placement had another default, still works."""
    config = configured(load_balancer_load_shedding_strategy=shedding, load_balancer_load_placement_strategy=placement)
    check_change(configured(), config)
    assert (shedder_name(config), placer_name(config)) == pair
    assert (shedder_of(config).name, placer_of(config).name) == pair


@pytest.mark.parametrize(("version", "name"), [("4.x", "AvgShedderPins"), ("5.x", "AvgShedderPlacement")])
def test_the_placement_of_the_avg_shedder_is_the_one_of_the_version(version: PulsarVersion, name: str) -> None:
    both = dict.fromkeys(
        ("load_balancer_load_shedding_strategy", "load_balancer_load_placement_strategy"), "AvgShedder"
    )
    assert type(placer_of(structs.replace(default_config(version), **both))).__name__ == name
