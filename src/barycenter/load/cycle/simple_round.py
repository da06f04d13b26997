"""One round of the simple load manager's leader: shed, and then place each bundle as its next lookup would.

The simple manager names no destination: an unloaded bundle goes wherever the next lookup sends it, which may be back.
Quotas are learned from the snapshot alone, so a bundle has the quota of its present figures, within the limits of one
step from the default.

Source: Pulsar's `SimpleLoadManagerImpl.doLoadShedding`, `getLeastLoaded`.
"""

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from barycenter.load.cycle.round import EXCLUDED_KEY, CycleMemory, CycleOutcome, mark_unloaded
from barycenter.load.decisions import Placement, stays
from barycenter.load.filters.outcome import PlacementRequest
from barycenter.load.reasons import Code
from barycenter.load.simple.placement import SimpleMemory, rank, select_broker
from barycenter.load.simple.quotas import Quotas, update_quotas
from barycenter.load.simple.ranking import Ranking
from barycenter.load.simple.settings import SimpleSettings
from barycenter.load.simple.shedding import shed
from barycenter.load.snapshot.load_snapshot import LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class SimpleCycle:
    """A round with its settings put in."""

    settings: SimpleSettings
    excluded_namespaces: Collection[str] = ()

    @staticmethod
    def of(config: "BrokerConfig") -> "SimpleCycle":
        return SimpleCycle(SimpleSettings.of(config), frozenset(config.load_balancer_shedding_excluded_namespaces))

    def run(self, snapshot: LoadSnapshot, memory: CycleMemory, rng: random.Random) -> tuple[CycleOutcome, CycleMemory]:
        """Return what the leader would do, and what it would remember."""
        plan = shed(snapshot, self.settings)
        ranking, quotas, remembered = self._ranked(snapshot, memory)
        moves, placements, refused, moved = [], [], [], []
        for row, unload in zip(plan.rows.tolist(), plan, strict=True):
            request = PlacementRequest(unload.bundle)
            if request.namespace in self.excluded_namespaces:
                refused.append(stays(unload, Code.EXCLUDED_NAMESPACE, settings=(EXCLUDED_KEY,)))
                continue
            found, ranking, remembered = self._select(ranking, request, quotas, rng, remembered)
            if found.broker is None:
                refused.append(stays(unload, Code.NO_DESTINATION, cause=found.reason))
                continue
            moves.append(msgspec.structs.replace(unload, destination=found.broker))
            placements.append(found)
            moved.append(row)
        after = mark_unloaded(snapshot, np.array(moved, np.int64))
        outcome = CycleOutcome(plan, tuple(moves), tuple(placements), tuple(refused), after)
        return outcome, CycleMemory(remembered, memory.selection)

    def place(self, snapshot: LoadSnapshot, bundles: Iterable[str], rng: random.Random) -> tuple[Placement, ...]:
        """Choose owners of unowned bundles one after the other; each counts for its broker when the next is chosen."""
        ranking, quotas, remembered = self._ranked(snapshot, CycleMemory())
        found = []
        for bundle in bundles:
            placement, ranking, remembered = self._select(ranking, PlacementRequest(bundle), quotas, rng, remembered)
            found.append(placement)
        return tuple(found)

    def _ranked(self, snapshot: LoadSnapshot, memory: CycleMemory) -> tuple[Ranking, Quotas, SimpleMemory]:
        quotas = update_quotas(snapshot, Quotas())
        before = memory.shedding if isinstance(memory.shedding, SimpleMemory) else SimpleMemory()
        ranking, remembered = rank(snapshot, quotas, before, self.settings)
        return ranking, quotas, remembered

    def _select(
        self, ranking: Ranking, request: PlacementRequest, quotas: Quotas, rng: random.Random, memory: SimpleMemory
    ) -> tuple[Placement, Ranking, SimpleMemory]:
        live = ranking.snapshot.brokers.names
        return select_broker(ranking, request, self.settings, quotas, live, rng, memory)
