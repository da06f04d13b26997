"""Where the bundles of a round go: one destination after the other, each counting for the next."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from pulsar_barycenter.load.decisions import Placement, Refusal, Unload, stays
from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.placer import Placer
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import default_bundle_data
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.selection.unload_veto import unload_veto
from pulsar_barycenter.load.shedding.shedder import SheddingPlan
from pulsar_barycenter.load.snapshot.drained import with_drained
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import placer_of
from pulsar_barycenter.load.strategy import Memory

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

EXCLUDED_KEY: Final = "loadBalancerSheddingExcludedNamespaces"

Requests = Callable[[str], PlacementRequest]
"""What placing a bundle asks for. A snapshot does not know which bundles hold non-persistent topics; a live broker does
of the topics that it was asked for."""


class Destinations(ABC, Generic[Memory]):
    """The destinations of one round. `memory` is what is to be remembered after all calls so far."""

    memory: Memory

    @abstractmethod
    def choose(self, unload: Unload) -> Placement | Refusal:
        """Return where a bundle that is to be shed shall go, or why it stays. Without a broker: its next lookup
        says."""

    @abstractmethod
    def leaves(self, row: int, placement: Placement, load: LoadSnapshot | None) -> None:
        """Count the bundle of that row for its destination; `load` is what is known of the cluster since, if more."""

    @property
    @abstractmethod
    def load(self) -> LoadSnapshot:
        """The load with the bundles that left on their way."""

    def close(self) -> None:
        """End the round: what is remembered for it alone is forgotten."""


class Selection(ABC, Generic[Memory]):
    """How brokers are chosen, with its settings put in. `drained` brokers are no candidates while there are others."""

    drained: frozenset[str]

    @abstractmethod
    def start(self) -> Memory:
        """Return what is remembered at first."""

    @abstractmethod
    def destinations(
        self,
        plan: SheddingPlan,
        snapshot: LoadSnapshot,
        memory: Memory,
        rng: random.Random,
        requests: Requests = PlacementRequest,
    ) -> Destinations[Memory]:
        """Begin a round that carries out `plan`; `snapshot` is the load of now."""

    @abstractmethod
    def place(
        self, snapshot: LoadSnapshot, bundles: Iterable[str], rng: random.Random, memory: Memory | None = None
    ) -> Iterator[Placement]:
        """Choose owners of unowned bundles one after the other, each when it is asked for; it counts for its broker
        from then on. `memory` is what rounds before remembered, nothing unless given."""


Choose = Callable[[LoadSnapshot, PlacementRequest, random.Random, SelectionMemory], tuple[Placement, SelectionMemory]]


@dataclass(frozen=True, slots=True)
class FilteredSelection(Selection[SelectionMemory]):
    """By policies, filters, and the placement strategy at their end: of the modular and the extensible load manager.

    `excluded_namespaces` are not shed. `vetoes`: policies may hold a bundle that is to be shed, and a destination that
    the shedder names is a wish, which placement knows of; else the shedder asked the policies, and it is an order.
    """

    placer: Placer[Any]
    choose: Choose
    excluded_namespaces: Collection[str] = ()
    vetoes: bool = True
    drained: frozenset[str] = frozenset()

    @staticmethod
    def of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> "FilteredSelection":
        """Return what a configuration asks of the modular or the extensible load manager.

        Raises:
            StrategyError: it names a placement strategy that there is not.
        """
        placer, drained = placer_of(config, manager), frozenset(config.barycenter_drained_brokers)
        if manager is ManagerKind.EXTENSIBLE:
            extensible = ExtensibleFilterSettings.of(config)
            return FilteredSelection(
                placer,
                lambda snapshot, request, rng, memory: select_broker_extensible(
                    snapshot, request, extensible, placer, rng, memory
                ),
                vetoes=False,
                drained=drained,
            )
        settings = SelectionSettings.of(config)
        return FilteredSelection(
            placer,
            lambda snapshot, request, rng, memory: select_broker(snapshot, request, settings, placer, rng, memory),
            settings.excluded_namespaces,
            drained=drained,
        )

    def start(self) -> SelectionMemory:
        return SelectionMemory()

    def destinations(
        self,
        plan: SheddingPlan,
        snapshot: LoadSnapshot,
        memory: SelectionMemory,
        rng: random.Random,
        requests: Requests = PlacementRequest,
    ) -> "FilteredDestinations":
        return FilteredDestinations(self, plan, snapshot, memory, rng, requests)

    def place(
        self,
        snapshot: LoadSnapshot,
        bundles: Iterable[str],
        rng: random.Random,
        memory: SelectionMemory | None = None,
    ) -> Iterator[Placement]:
        """See `Selection`. A bundle that the snapshot does not know counts with the default data, as for the leader."""
        memory, snapshot = memory or self.start(), with_drained(snapshot, self.drained)
        for bundle in bundles:
            placement, memory = self.choose(snapshot, PlacementRequest(bundle), rng, memory)
            yield placement
            if placement.broker is None or snapshot.is_on_its_way(bundle, placement.broker):
                continue
            row = snapshot.bundles.row_with_windows(bundle)
            if row is None:
                snapshot = snapshot.adding_preallocation(placement.broker, bundle, default_bundle_data())
            else:
                snapshot = snapshot.moving(row, placement.broker)


class FilteredDestinations(Destinations[SelectionMemory]):
    def __init__(
        self,
        selection: FilteredSelection,
        plan: SheddingPlan,
        snapshot: LoadSnapshot,
        memory: SelectionMemory,
        rng: random.Random,
        requests: Requests,
    ) -> None:
        self._selection = selection
        self._plan = plan
        self._load = snapshot
        self._rng = rng
        self._requests = requests
        self.memory = memory.updated(selection.placer, lambda placer, before: placer.planned(plan.decided, before))

    @property
    def load(self) -> LoadSnapshot:
        return self._load

    def choose(self, unload: Unload) -> Placement | Refusal:
        selection, snapshot, request = self._selection, self._load, self._requests(unload.bundle)
        if request.namespace in selection.excluded_namespaces:
            return stays(unload, Code.EXCLUDED_NAMESPACE, settings=(EXCLUDED_KEY,))
        if not selection.vetoes and unload.destination is not None:
            return Placement.because(unload.reason, unload.bundle, unload.destination)
        veto = unload_veto(snapshot, request, unload.source) if selection.vetoes else None
        if veto is not None:
            reason = msgspec.structs.replace(veto, cause=unload.reason)
            return Refusal("unload", unload.bundle, reason, unload.source)
        found, self.memory = selection.choose(snapshot, request, self._rng, self.memory)
        if found.broker is None:
            return stays(unload, Code.NO_DESTINATION, cause=found.reason)
        if found.broker == unload.source:
            return stays(unload, Code.SAME_BROKER, cause=found.reason)
        return found

    def leaves(self, row: int, placement: Placement, load: LoadSnapshot | None) -> None:
        """Count a bundle whose past is known for its destination, so that the next one finds it there."""
        if load is not None:
            self._load = load
        elif (
            placement.broker is not None
            and self._plan.snapshot.bundles.has_windows[row]
            and not self._load.is_on_its_way(placement.bundle, placement.broker)
        ):
            self._load = self._load.moving(row, placement.broker)

    def close(self) -> None:
        """Forget the destinations that were planned."""
        self.memory = self.memory.updated(
            self._selection.placer, lambda placer, before: placer.tried(self._plan.decided, before)
        )
