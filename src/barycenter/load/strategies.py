"""The strategies a configuration can name, by Pulsar's class name or its last part.

    loadBalancerLoadSheddingStrategy=org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder
    loadBalancerLoadSheddingStrategy=ThresholdShedder

Needs numpy; only a leader imports it.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from barycenter.load.placement import least_long_term_message_rate as long_term
from barycenter.load.placement import least_resource_usage_with_weight as least_usage
from barycenter.load.placement import least_resource_usage_with_weight_extensible as extensible_usage
from barycenter.load.placement.avg_shedder import Pins, avg_shedder_placement
from barycenter.load.placement.choice import PlacementChoice, PlacementMemory, remembered
from barycenter.load.placement.round_robin_broker_selector import (
    NAME as ROUND_ROBIN,
)
from barycenter.load.placement.round_robin_broker_selector import (
    RoundRobinMemory,
    round_robin_broker_selector,
)
from barycenter.load.selection.extensible_selection import AllowedTransfers, ExtensibleSelectionSettings
from barycenter.load.selection.modular_selection import Placer, SelectionMemory
from barycenter.load.shedding import (
    avg_shedder,
    deviation_shedder,
    overload_shedder,
    range_threshold_shedder,
    threshold_shedder,
    transfer_plan,
    transfer_shedder,
    uniform_load_shedder,
)
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from barycenter.load.strategy_names import (
    ManagerKind,
    OwnStrategiesError,
    Role,
    manager_in_force,
    placer_name,
    shedder_name,
)

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

SheddingMemory: TypeAlias = object
"""What a shedder remembers from one run to the next: a value, opaque to all others; None at first."""

Shedder = Callable[[LoadSnapshot, SheddingMemory], tuple[ShedPlan, SheddingMemory]]
"""A shedder with its settings put in."""


def _threshold(config: "BrokerConfig") -> Shedder:
    settings = threshold_shedder.ThresholdShedderSettings.of(config)

    def shed(snapshot: LoadSnapshot, memory: SheddingMemory) -> tuple[ShedPlan, SheddingMemory]:
        history = memory if isinstance(memory, Mapping) else {}
        return threshold_shedder.threshold_shedder(snapshot, settings, history)

    return shed


def _overload(config: "BrokerConfig") -> Shedder:
    settings = overload_shedder.OverloadShedderSettings.of(config)
    return lambda snapshot, memory: (overload_shedder.overload_shedder(snapshot, settings), memory)


def _uniform(config: "BrokerConfig") -> Shedder:
    settings = uniform_load_shedder.UniformLoadShedderSettings.of(config)
    return lambda snapshot, memory: (uniform_load_shedder.uniform_load_shedder(snapshot, settings), memory)


def _avg(config: "BrokerConfig") -> Shedder:
    settings = avg_shedder.AvgShedderSettings.of(config)

    def shed(snapshot: LoadSnapshot, memory: SheddingMemory) -> tuple[ShedPlan, SheddingMemory]:
        hits = memory if isinstance(memory, avg_shedder.HitCounts) else avg_shedder.HitCounts()
        return avg_shedder.avg_shedder(snapshot, settings, hits)

    return shed


def _range_threshold(config: "BrokerConfig") -> Shedder:
    settings = range_threshold_shedder.range_threshold_settings(config)

    def shed(snapshot: LoadSnapshot, memory: SheddingMemory) -> tuple[ShedPlan, SheddingMemory]:
        history = memory if isinstance(memory, Mapping) else {}
        return range_threshold_shedder.range_threshold_shedder(snapshot, settings, history)

    return shed


def _deviation(config: "BrokerConfig") -> Shedder:
    member = deviation_shedder.throughput_deviation(config)
    return lambda snapshot, memory: (deviation_shedder.deviation_shedder(snapshot, member), memory)


def _transfer(config: "BrokerConfig") -> Shedder:
    settings = transfer_plan.TransferShedderSettings.of(config)
    selection = ExtensibleSelectionSettings.of(config)

    def shed(snapshot: LoadSnapshot, memory: SheddingMemory) -> tuple[ShedPlan, SheddingMemory]:
        before = memory if isinstance(memory, transfer_shedder.TransferMemory) else transfer_shedder.TransferMemory()
        return transfer_shedder.transfer_shedder(snapshot, settings, before, AllowedTransfers(snapshot, selection))

    return shed


def _least_long_term_message_rate(config: "BrokerConfig") -> Placer:
    settings = long_term.LeastLongTermMessageRateSettings.of(config)

    def place(
        snapshot: LoadSnapshot, candidates: Flags, _bundle: str, rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        return long_term.least_long_term_message_rate(snapshot, candidates, settings, rng), memory

    return place


def _least_resource_usage(config: "BrokerConfig") -> Placer:
    settings = least_usage.LeastResourceUsageSettings.of(config)

    def place(
        snapshot: LoadSnapshot, candidates: Flags, _bundle: str, rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        before = remembered(memory, least_usage.LeastResourceUsageMemory)
        return least_usage.least_resource_usage_with_weight(snapshot, candidates, settings, rng, before)

    return place


def _least_resource_usage_extensible(config: "BrokerConfig") -> Placer:
    settings = extensible_usage.LeastResourceUsageExtensibleSettings.of(config)

    def place(
        snapshot: LoadSnapshot, candidates: Flags, _bundle: str, rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        choice = extensible_usage.least_resource_usage_with_weight_extensible(snapshot, candidates, settings, rng)
        return choice, memory

    return place


def _round_robin(_config: "BrokerConfig") -> Placer:
    def place(
        snapshot: LoadSnapshot, candidates: Flags, _bundle: str, _rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        return round_robin_broker_selector(snapshot, candidates, remembered(memory, RoundRobinMemory))

    return place


def _avg_placement(_config: "BrokerConfig") -> Placer:
    def place(
        snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: PlacementMemory
    ) -> tuple[PlacementChoice, PlacementMemory]:
        return avg_shedder_placement(snapshot, candidates, bundle, rng, remembered(memory, Pins))

    return place


SHEDDERS: Final[Mapping[str, Callable[["BrokerConfig"], Shedder]]] = {
    threshold_shedder.NAME: _threshold,
    overload_shedder.NAME: _overload,
    uniform_load_shedder.NAME: _uniform,
    avg_shedder.NAME: _avg,
    range_threshold_shedder.NAME: _range_threshold,
    deviation_shedder.NAME: _deviation,
}

PLACERS: Final[Mapping[str, Callable[["BrokerConfig"], Placer]]] = {
    long_term.NAME: _least_long_term_message_rate,
    least_usage.NAME: _least_resource_usage,
    ROUND_ROBIN: _round_robin,
    avg_shedder.NAME: _avg_placement,
}

SHEDDERS_OF: Final[Mapping[ManagerKind, Mapping[str, Callable[["BrokerConfig"], Shedder]]]] = {
    ManagerKind.MODULAR: SHEDDERS,
    ManagerKind.EXTENSIBLE: {transfer_shedder.NAME: _transfer},
}

PLACERS_OF: Final[Mapping[ManagerKind, Mapping[str, Callable[["BrokerConfig"], Placer]]]] = {
    ManagerKind.MODULAR: PLACERS,
    ManagerKind.EXTENSIBLE: {extensible_usage.NAME: _least_resource_usage_extensible},
}
"""By load manager; one that decides otherwise than by a strategy that a key names has its own."""


def shedder_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> Shedder:
    """Return the shedder of a load manager, the one in force unless given.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        MismatchedStrategiesError: one of the two keys alone names a strategy that sheds and places as one.
        OwnStrategiesError: it decides by itself (`load.simple`).
        NothingToDecideError: it is the no-op one.
    """
    manager = manager or manager_in_force(config)
    name = shedder_name(config, manager)
    if manager not in SHEDDERS_OF:
        raise OwnStrategiesError(manager, Role.SHEDDING)
    return SHEDDERS_OF[manager][name](config)


def placer_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> Placer:
    """Return the placement strategy of a load manager, the one in force unless given.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        OwnStrategiesError: it decides by itself (`load.simple`).
        NothingToDecideError: it is the no-op one.
    """
    manager = manager or manager_in_force(config)
    name = placer_name(config, manager)
    if manager not in PLACERS_OF:
        raise OwnStrategiesError(manager, Role.PLACEMENT)
    return PLACERS_OF[manager][name](config)


def with_plan(memory: SelectionMemory, plan: ShedPlan) -> SelectionMemory:
    """Return what placement shall know of a plan before it is carried out: the destinations that AvgShedder chose."""
    if plan.strategy != avg_shedder.NAME:
        return memory
    pins = remembered(memory.placement, Pins)
    return replace(memory, placement=pins.planned(plan.destinations(), plan.snapshot.brokers.names))


def after_plan(memory: SelectionMemory, plan: ShedPlan) -> SelectionMemory:
    """Return what placement shall know once carrying out the plan was tried: its destinations are forgotten."""
    if plan.strategy != avg_shedder.NAME or not isinstance(memory.placement, Pins):
        return memory
    return replace(memory, placement=memory.placement.without([plan.snapshot.bundles.names[row] for row in plan.rows]))
