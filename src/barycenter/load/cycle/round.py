"""One round of a leader: shed, then place what was shed, one bundle after the other.

The modular load manager chooses a destination for each bundle. The extensible one's TransferShedder names it, unless
`loadBalancerTransferEnabled` is off: then the next lookup chooses, as is done here at once.

The live leader, `barycenter decide` and replays go through the same functions, so that what is tried on a snapshot is
what the leader would do with it.

A snapshot does not know which bundles hold non-persistent topics, so all are placed as those without. (Nor does
Pulsar's leader know it when it sheds. A live leader here does of the topics that it was asked for, and keeps to brokers
that serve them.)

A bundle that moves counts for its destination from then on, so the next one of the same round sees it there; it is not
shed again while it counts as recently unloaded. Snapshot, settings, memory and random numbers are arguments.

Source: Pulsar's `ModularLoadManagerImpl.doLoadShedding`.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from barycenter.load.decisions import Placement, Refusal, Unload, stays
from barycenter.load.filters.outcome import PlacementRequest
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.load_report import BundleData, TimeAverageMessageData, default_bundle_data
from barycenter.load.selection.extensible_selection import ExtensibleSelectionSettings, select_broker_extensible
from barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from barycenter.load.selection.unload_veto import unload_veto
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.shedding.transfer_shedder import TransferMemory
from barycenter.load.simple.shedding import SimpleShedPlan
from barycenter.load.snapshot.load_snapshot import Integers, LoadSnapshot, MessageColumns
from barycenter.load.strategies import Shedder, SheddingMemory, after_plan, placer_of, shedder_of, with_plan
from barycenter.load.strategy_names import ManagerKind

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

EXCLUDED_KEY: Final = "loadBalancerSheddingExcludedNamespaces"


Choose = Callable[[LoadSnapshot, PlacementRequest, random.Random, SelectionMemory], tuple[Placement, SelectionMemory]]


@dataclass(frozen=True, slots=True)
class Selection:
    """How a bundle's broker is chosen: policies, filters, and the placement strategy at their end.

    `excluded_namespaces` are not shed. `vetoes`: policies may hold a bundle that is to be shed (else the shedder asks
    them itself).
    """

    choose: Choose
    excluded_namespaces: Collection[str] = ()
    vetoes: bool = True

    @staticmethod
    def of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> "Selection":
        """Return what a configuration asks of the modular or the extensible load manager.

        Raises:
            StrategyError: it names a placement strategy that there is not.
        """
        placer = placer_of(config, manager)
        if manager is ManagerKind.EXTENSIBLE:
            extensible = ExtensibleSelectionSettings.of(config)
            return Selection(
                lambda snapshot, request, rng, memory: select_broker_extensible(
                    snapshot, request, extensible, placer, rng, memory
                ),
                vetoes=False,
            )
        settings = SelectionSettings.of(config)
        return Selection(
            lambda snapshot, request, rng, memory: select_broker(snapshot, request, settings, placer, rng, memory),
            settings.excluded_namespaces,
        )


@dataclass(frozen=True, slots=True)
class CycleMemory:
    """What is remembered from one round to the next."""

    shedding: SheddingMemory = None
    selection: SelectionMemory = field(default_factory=SelectionMemory)


@dataclass(frozen=True, slots=True)
class CycleOutcome:
    """`moves` have their destinations; `placements[i]` says why `moves[i]` goes there. `refused` stay where they are.

    `snapshot` is the load with the moved bundles on their way.
    """

    plan: ShedPlan | SimpleShedPlan
    moves: tuple[Unload, ...]
    placements: tuple[Placement, ...]
    refused: tuple[Refusal, ...]
    snapshot: LoadSnapshot

    @property
    def reason(self) -> Reason:
        """Why anything, or nothing, is shed."""
        return self.plan.reason

    def refusals(self) -> Iterator[Refusal]:
        """Tell of each bundle that stays although it was to be shed, and of each broker that sheds nothing."""
        yield from self.refused
        yield from self.plan.refusals()


@dataclass(frozen=True, slots=True)
class Cycle:
    """A round with its strategies put in."""

    shedder: Shedder
    selection: Selection

    @staticmethod
    def of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> "Cycle":
        """Return the round that a configuration asks of the modular or the extensible load manager.

        Raises:
            StrategyError: it names strategies that there are not, or two that do not go together.
        """
        return Cycle(shedder_of(config, manager), Selection.of(config, manager))

    def run(self, snapshot: LoadSnapshot, memory: CycleMemory, rng: random.Random) -> tuple[CycleOutcome, CycleMemory]:
        """Return what the leader would do, and what it would remember."""
        plan, shedding = self.shedder(snapshot, memory.shedding)
        selection = with_plan(memory.selection, plan)
        moves, placements, refused, moved = [], [], [], []
        after = snapshot
        for position, unload in enumerate(plan):
            request = PlacementRequest(unload.bundle)
            found, selection = choose_destination(unload, after, request, self.selection, rng, selection)
            if isinstance(found, Refusal):
                refused.append(found)
                continue
            assert found.broker is not None
            row = int(plan.rows[position])
            moves.append(msgspec.structs.replace(unload, destination=found.broker))
            placements.append(found)
            moved.append(row)
            if isinstance(shedding, TransferMemory):
                shedding = shedding.after_unload(unload.source, snapshot.taken_at_ms)
            if snapshot.bundles.has_windows[row]:
                after = _on_its_way(after, unload.bundle, found.broker, _data_of(snapshot, row))
        after = mark_unloaded(after, np.array(moved, np.int64))
        outcome = CycleOutcome(plan, tuple(moves), tuple(placements), tuple(refused), after)
        return outcome, CycleMemory(shedding, after_plan(selection, plan))


def choose_destination(
    unload: Unload,
    snapshot: LoadSnapshot,
    request: PlacementRequest,
    selection: Selection,
    rng: random.Random,
    memory: SelectionMemory,
) -> tuple[Placement | Refusal, SelectionMemory]:
    """Return where a bundle that is to be shed shall go, with a broker, or why it stays; and what to remember.

    A destination that the modular manager's shedder names is a wish, which placement knows of; the extensible one's is
    an order.
    """
    if request.namespace in selection.excluded_namespaces:
        return stays(unload, Code.EXCLUDED_NAMESPACE, settings=(EXCLUDED_KEY,)), memory
    if unload.destination is not None and not selection.vetoes:
        return Placement(unload.bundle, unload.destination, unload.reason), memory
    veto = unload_veto(snapshot, request, unload.source) if selection.vetoes else None
    if veto is not None:
        return Refusal("unload", unload.bundle, msgspec.structs.replace(veto, cause=unload.reason)), memory
    found, memory = selection.choose(snapshot, request, rng, memory)
    if found.broker is None:
        return stays(unload, Code.NO_DESTINATION, cause=found.reason), memory
    if found.broker == unload.source:
        return stays(unload, Code.SAME_BROKER, cause=found.reason), memory
    return found, memory


def place(
    snapshot: LoadSnapshot, bundles: Iterable[str], selection: Selection, rng: random.Random, memory: SelectionMemory
) -> tuple[tuple[Placement, ...], LoadSnapshot, SelectionMemory]:
    """Choose owners of unowned bundles one after the other; each counts for its broker when the next is chosen.

    A bundle that the snapshot does not know counts with the default data, as for the leader. Returns also the load
    with the bundles on their way, and what to remember.
    """
    found = []
    for bundle in bundles:
        placement, memory = selection.choose(snapshot, PlacementRequest(bundle), rng, memory)
        found.append(placement)
        if placement.broker is not None:
            row = _row_of(snapshot, bundle)
            data = default_bundle_data() if row is None else _data_of(snapshot, row)
            snapshot = _on_its_way(snapshot, bundle, placement.broker, data)
    return tuple(found), snapshot, memory


def _row_of(snapshot: LoadSnapshot, bundle: str) -> int | None:
    """Return a row of the bundle, if windows are known of it."""
    names = snapshot.bundles.names
    row = bisect_left(names, bundle)
    known = row < len(names) and names[row] == bundle and snapshot.bundles.has_windows[row]
    return row if known else None


def _on_its_way(snapshot: LoadSnapshot, bundle: str, broker: str, data: BundleData) -> LoadSnapshot:
    """Return the snapshot with `bundle` counted for `broker`, unless it is already."""
    held = snapshot.on_their_way.held.get(bundle.rpartition("/")[0], frozenset())
    known = (snapshot.brokers.index[broker], bundle) in held
    return snapshot if known else snapshot.adding_preallocation(broker, bundle, data)


def _data_of(snapshot: LoadSnapshot, row: int) -> BundleData:
    bundles = snapshot.bundles
    return BundleData(
        short_term_data=_window(bundles.short, int(bundles.short_samples[row]), row),
        long_term_data=_window(bundles.long, int(bundles.long_samples[row]), row),
        topics=int(bundles.topics[row]),
    )


def _window(columns: MessageColumns, samples: int, row: int) -> TimeAverageMessageData:
    return TimeAverageMessageData(
        num_samples=samples,
        msg_rate_in=float(columns.rate_in[row]),
        msg_rate_out=float(columns.rate_out[row]),
        msg_throughput_in=float(columns.throughput_in[row]),
        msg_throughput_out=float(columns.throughput_out[row]),
    )


def mark_unloaded(snapshot: LoadSnapshot, rows: Integers) -> LoadSnapshot:
    """Return the snapshot in which the bundles of these rows were unloaded recently."""
    if not len(rows):
        return snapshot
    flags = snapshot.bundles.recently_unloaded.copy()
    flags[rows] = True
    return replace(snapshot, bundles=replace(snapshot.bundles, recently_unloaded=flags))
