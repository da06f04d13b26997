"""Where the bundles of a round go: destinations are chosen one after the other, and each counts for the next."""

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
"""Returns the placement request of a bundle. A snapshot does not know which bundles have non-persistent topics; a live
broker knows it for topics that clients have looked up."""


class Destinations(ABC, Generic[Memory]):
    """Chooses the destinations of the bundles that one round sheds. `memory` is the memory of the selection
    (`Selection`) after the choices made so far.
    """

    memory: Memory

    @abstractmethod
    def choose(self, unload: Unload) -> Placement | Refusal:
        """Return the destination of a bundle that is to be unloaded, or a refusal that says why the bundle stays on its
        broker.

        If the broker of the placement is None, the next lookup of the bundle chooses its owner.
        """

    @abstractmethod
    def leaves(self, row: int, placement: Placement, load: LoadSnapshot | None) -> None:
        """Record that the bundle in `row` leaves for the destination in `placement`, so that later choices of this
        round count its load there. `load` is a newer load of the cluster, which already includes the move and replaces
        the present one; None: there is no newer load.
        """

    @property
    @abstractmethod
    def load(self) -> LoadSnapshot:
        """The load of the cluster, in which the bundles that left in this round count as on their way to their
        destinations.
        """

    def close(self) -> None:
        """End the round: remove from `memory` what is valid only in this round, such as planned destinations."""


class Selection(ABC, Generic[Memory]):
    """Chooses the owners of bundles, with fixed settings. `drained` are the ids of the drained brokers, which are
    candidates only if there is no other broker.
    """

    drained: frozenset[str]

    @abstractmethod
    def start(self) -> Memory:
        """Return the memory of the selection before its first choice."""

    @abstractmethod
    def destinations(
        self,
        plan: SheddingPlan,
        snapshot: LoadSnapshot,
        memory: Memory,
        rng: random.Random,
        requests: Requests = PlacementRequest,
    ) -> Destinations[Memory]:
        """Return the object that chooses the destinations in the round that carries out `plan`. `snapshot` is the
        present load, `memory` the memory of previous rounds; `requests` is a function that returns the request for a
        bundle.
        """

    @abstractmethod
    def place(
        self, snapshot: LoadSnapshot, bundles: Iterable[str], rng: random.Random, memory: Memory | None = None
    ) -> Iterator[Placement]:
        """Yield the broker that is to own each of `bundles`, which have no owner. A broker is chosen only when the
        caller asks for the next item; the bundle then counts as load of this broker.

        `memory` is the memory of previous rounds; None: the initial one.
        """


Choose = Callable[[LoadSnapshot, PlacementRequest, random.Random, SelectionMemory], tuple[Placement, SelectionMemory]]


@dataclass(frozen=True, slots=True)
class FilteredSelection(Selection[SelectionMemory]):
    """The way in which the modular and the extensible load manager choose owners: by policies, then filters, then the
    placement strategy.

    Bundles of `excluded_namespaces` are not unloaded. With `vetoes` (modular), a bundle is not unloaded if policies
    leave it no other broker, and the placement strategy chooses its destination; it may choose another broker than the
    shedder. Without `vetoes` (extensible), the shedder has already checked the policies, and the destination that it
    chose is final.
    """

    placer: Placer[Any]
    choose: Choose
    excluded_namespaces: Collection[str] = ()
    vetoes: bool = True
    drained: frozenset[str] = frozenset()

    @staticmethod
    def of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> "FilteredSelection":
        """Return the selection that a configuration asks for, of the modular or the extensible load manager.

        Raises:
            StrategyError: the configuration names a placement strategy that does not exist.
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
        """Yield the broker that is to own each of `bundles`, as `Selection.place` does. A bundle that is not in the
        snapshot counts with the default load of an unknown bundle, as on a live leader.
        """
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
        """Record that the bundle leaves for its destination, so that the next choice counts its load there. `load` is a
        newer load that already includes the move; without it, a bundle without load data (windows) is not counted.
        """
        if load is not None:
            self._load = load
        elif (
            placement.broker is not None
            and self._plan.snapshot.bundles.has_windows[row]
            and not self._load.is_on_its_way(placement.bundle, placement.broker)
        ):
            self._load = self._load.moving(row, placement.broker)

    def close(self) -> None:
        """End the round: drop the planned destinations from `memory`."""
        self.memory = self.memory.updated(
            self._selection.placer, lambda placer, before: placer.tried(self._plan.decided, before)
        )
