"""The placement strategies for many bundles at once, by name: all that a plan unloads, or that a broker left behind.

Each answers as so many single choices among the same candidates would, draws and memory included. Neither policies nor
filters are asked, which `barycenter.load.selection.modular_selection` does for one bundle at a time when a client looks
it up.

Needs numpy; only a leader imports it.
"""

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from barycenter.load.placement import avg_shedder, round_robin_broker_selector
from barycenter.load.placement import least_long_term_message_rate as long_term
from barycenter.load.placement import least_resource_usage_with_weight as least_usage
from barycenter.load.placement.choice import PlacementMemory, remembered
from barycenter.load.shedding.avg_shedder import NAME as AVG_SHEDDER
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.snapshot.load_snapshot import Flags, Indices, Integers, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

BulkPlacer: TypeAlias = Callable[
    [LoadSnapshot, Flags, Integers, random.Random, PlacementMemory], tuple[Indices, PlacementMemory]
]
"""A placement strategy with its settings put in, for these rows of the bundles; -1: no candidate."""


def place_plan(
    plan: ShedPlan, place: BulkPlacer, rng: random.Random, memory: PlacementMemory = None
) -> tuple[Indices, PlacementMemory]:
    """Return the row of the broker that each of `plan.rows` goes to, among all brokers, and what is to be remembered.

    Where the plan has destinations of its own, and the placement strategy heeds them, the bundles go there.
    """
    brokers = plan.snapshot.brokers
    if plan.strategy == AVG_SHEDDER:
        memory = remembered(memory, avg_shedder.Pins).planned(plan.destinations(), brokers.names)
    return place(plan.snapshot, np.ones(len(brokers), bool), plan.rows, rng, memory)


def _least_long_term_message_rate(config: "BrokerConfig") -> BulkPlacer:
    settings = long_term.LeastLongTermMessageRateSettings.of(config)

    def place(
        snapshot: LoadSnapshot, candidates: Flags, rows: Integers, rng: random.Random, memory: PlacementMemory
    ) -> tuple[Indices, PlacementMemory]:
        long = snapshot.bundles.long
        rates = long.rate_in[rows] + long.rate_out[rows]
        return long_term.place_all(snapshot, candidates, rates, settings, rng), memory

    return place


def _least_resource_usage(config: "BrokerConfig") -> BulkPlacer:
    settings = least_usage.LeastResourceUsageSettings.of(config)

    def place(
        snapshot: LoadSnapshot, candidates: Flags, rows: Integers, rng: random.Random, memory: PlacementMemory
    ) -> tuple[Indices, PlacementMemory]:
        before = remembered(memory, least_usage.LeastResourceUsageMemory)
        return least_usage.place_all(snapshot, candidates, len(rows), settings, rng, before)

    return place


def _round_robin(_config: "BrokerConfig") -> BulkPlacer:
    def place(
        snapshot: LoadSnapshot, candidates: Flags, rows: Integers, _rng: random.Random, memory: PlacementMemory
    ) -> tuple[Indices, PlacementMemory]:
        before = remembered(memory, round_robin_broker_selector.RoundRobinMemory)
        return round_robin_broker_selector.place_all(snapshot, candidates, len(rows), before)

    return place


def _avg_shedder(_config: "BrokerConfig") -> BulkPlacer:
    def place(
        snapshot: LoadSnapshot, candidates: Flags, rows: Integers, rng: random.Random, memory: PlacementMemory
    ) -> tuple[Indices, PlacementMemory]:
        names = [snapshot.bundles.names[row] for row in rows.tolist()]
        return avg_shedder.place_all(snapshot, candidates, names, rng, remembered(memory, avg_shedder.Pins))

    return place


BULK_PLACERS: Final[Mapping[str, Callable[["BrokerConfig"], BulkPlacer]]] = {
    long_term.NAME: _least_long_term_message_rate,
    least_usage.NAME: _least_resource_usage,
    round_robin_broker_selector.NAME: _round_robin,
    AVG_SHEDDER: _avg_shedder,
}
"""By the names of `barycenter.load.strategies.PLACERS`."""
