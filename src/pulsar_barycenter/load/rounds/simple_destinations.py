"""Where bundles go that the simple load manager sheds: their next lookup decides, and may choose the same broker.

Source: Pulsar's `SimpleLoadManagerImpl.doLoadShedding`, `getLeastLoaded`.
"""

import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulsar_barycenter.load.decisions import Placement, Refusal, Unload, stays
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.rounds.destinations import EXCLUDED_KEY, Destinations, Requests, Selection
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.simple.placement import SimpleMemory, rank, select_broker
from pulsar_barycenter.load.simple.quotas import Quotas, update_quotas
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.load.snapshot.drained import with_drained
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot, namespace_of

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class SimpleSelection(Selection[SimpleMemory]):
    """Chooses the owners of bundles as the simple load manager does, by quotas and ranks. A live leader leaves this
    choice to the next lookup of each bundle; this selection predicts what lookups right after the round would choose.

    Quotas are learned from this snapshot alone. As at the first update after a start, the quota of a bundle is then its
    present load, within the bounds for quotas.
    """

    settings: SimpleSettings
    excluded_namespaces: Collection[str] = ()
    drained: frozenset[str] = frozenset()

    @staticmethod
    def of(config: "BrokerConfig") -> "SimpleSelection":
        return SimpleSelection(
            SimpleSettings.of(config),
            frozenset(config.load_balancer_shedding_excluded_namespaces),
            frozenset(config.barycenter_drained_brokers),
        )

    def start(self) -> SimpleMemory:
        return SimpleMemory()

    def destinations(
        self,
        plan: SheddingPlan,
        snapshot: LoadSnapshot,
        memory: SimpleMemory,
        rng: random.Random,
        requests: Requests = PlacementRequest,
    ) -> "SimpleDestinations":
        return SimpleDestinations(self, snapshot, memory, rng, requests)

    def place(
        self, snapshot: LoadSnapshot, bundles: Iterable[str], rng: random.Random, memory: SimpleMemory | None = None
    ) -> Iterator[Placement]:
        snapshot = with_drained(snapshot, self.drained)
        chosen = SimpleDestinations(self, snapshot, memory or self.start(), rng, PlacementRequest)
        return map(chosen.select, bundles)


class SimpleDestinations(Destinations[SimpleMemory]):
    def __init__(
        self,
        selection: SimpleSelection,
        snapshot: LoadSnapshot,
        memory: SimpleMemory,
        rng: random.Random,
        requests: Requests,
    ) -> None:
        self._selection = selection
        self._load = snapshot
        self._rng = rng
        self._requests = requests
        self._quotas = update_quotas(snapshot, Quotas())
        self._ranking, self.memory = rank(snapshot, self._quotas, memory, selection.settings)

    @property
    def load(self) -> LoadSnapshot:
        return self._load

    def choose(self, unload: Unload) -> Placement | Refusal:
        if self._requests(unload.bundle).namespace in self._selection.excluded_namespaces:
            return stays(unload, Code.EXCLUDED_NAMESPACE, settings=(EXCLUDED_KEY,))
        found = self.select(unload.bundle)
        return stays(unload, Code.NO_DESTINATION, cause=found.reason) if found.broker is None else found

    def select(self, bundle: str) -> Placement:
        """Choose the owner of a bundle, and return it with the reason. In later choices, the bundle counts as load of
        this owner.
        """
        found, self._ranking, self.memory = select_broker(
            self._ranking,
            self._requests(bundle),
            self._selection.settings,
            self._quotas,
            self._ranking.snapshot.brokers.names,
            self._rng,
            self.memory,
        )
        return found

    def leaves(self, row: int, placement: Placement, load: LoadSnapshot | None) -> None:
        """Do nothing: `choose` has already counted the bundle in the ranking of the brokers."""


class NextLookup(Destinations[None]):
    """Chooses no destination: the next lookup of each bundle will choose its owner. So does a live leader of the simple
    load manager. Bundles of excluded namespaces are not unloaded.
    """

    def __init__(self, snapshot: LoadSnapshot, excluded_namespaces: Collection[str]) -> None:
        self._load = snapshot
        self._excluded_namespaces = excluded_namespaces
        self.memory = None

    @property
    def load(self) -> LoadSnapshot:
        return self._load

    def choose(self, unload: Unload) -> Placement | Refusal:
        if namespace_of(unload.bundle) in self._excluded_namespaces:
            return stays(unload, Code.EXCLUDED_NAMESPACE, settings=(EXCLUDED_KEY,))
        return Placement.because(unload.reason, unload.bundle, None)

    def leaves(self, row: int, placement: Placement, load: LoadSnapshot | None) -> None:
        """Do nothing, because the destination of the bundle is not known yet."""
