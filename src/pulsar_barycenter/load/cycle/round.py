"""One round of a leader: shed, then find a place for what was shed, one bundle after the other.

`moves` is the loop of every round. It yields an unload with its destination, or a refusal, and is sent what became of
the unload: a live leader awaits its owner before it answers, `barycenter decide` and replays answer `CARRIED_OUT`. So
what is tried on a snapshot is what the leader would do with it.

The modular load manager chooses a destination for each bundle. The extensible one's TransferShedder names it, unless
`loadBalancerTransferEnabled` is off: then the next lookup chooses, as is done here at once. The simple one leaves it to
the next lookup.

A bundle that moves counts for its destination from then on, so the next one of the same round sees it there; it is not
shed again while it counts as recently unloaded. Snapshot, settings, memory and random numbers are arguments.

Source: Pulsar's `ModularLoadManagerImpl.doLoadShedding`, `SimpleLoadManagerImpl.doLoadShedding`.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

import msgspec

from pulsar_barycenter.load.cycle.destinations import Destinations, FilteredSelection, Selection
from pulsar_barycenter.load.cycle.simple_destinations import SimpleSelection
from pulsar_barycenter.load.decisions import Placement, Refusal, Unload
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.snapshot.drained import with_drained
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import shedder_of
from pulsar_barycenter.load.strategy import Memory, MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


class UnloadOutcome(NamedTuple):
    """What became of an unload. `load` is what is known of the cluster since, the bundle on its way included; None:
    nothing beyond the move."""

    done: bool
    load: LoadSnapshot | None = None


CARRIED_OUT: Final = UnloadOutcome(True)


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """`moves` have their destinations; `placements[i]` says why `moves[i]` goes there. `refused` stay where they are.

    `snapshot` is the load with the moved bundles on their way.
    """

    plan: SheddingPlan
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


def moves(
    plan: SheddingPlan, destinations: Destinations[Any]
) -> Generator[Unload | Refusal, UnloadOutcome | None, RoundOutcome]:
    """Yield what a plan comes to, in its order; is sent what became of each unload (nothing of a refusal).

    However it ends, it closes the destinations.
    """
    moved, placements, refused = [], [], []
    try:
        for row, unload in zip(plan.rows.tolist(), plan, strict=True):
            found = destinations.choose(unload)
            if isinstance(found, Refusal):
                refused.append(found)
                yield found
                continue
            move = unload
            if unload.destination != found.broker:
                move = msgspec.structs.replace(unload, destination=found.broker)
            carried = yield move
            assert carried is not None, "an unload is answered"
            if carried.done:
                destinations.leaves(row, found, carried.load)
                moved.append(move)
                placements.append(found)
    finally:
        destinations.close()
    after = mark_unloaded(destinations.load, [move.bundle for move in moved])
    return RoundOutcome(plan, tuple(moved), tuple(placements), tuple(refused), after)


@dataclass(frozen=True, slots=True)
class RoundMemory(Generic[Memory]):
    """What is remembered from one round to the next: by the shedder, and by the choice of destinations."""

    shedding: Any
    selection: Memory


@dataclass(frozen=True, slots=True)
class Round(Generic[Memory]):
    """A round with its strategies put in."""

    shedder: Shedder[Any]
    selection: Selection[Memory]

    def start(self, document: MemoryDocument | None = None) -> RoundMemory[Memory]:
        """Return what is remembered before the first round; by the shedder what a document says."""
        shedding = self.shedder.start() if document is None else self.shedder.remembered(document)
        return RoundMemory(shedding, self.selection.start())

    def document(self, memory: RoundMemory[Memory]) -> MemoryDocument:
        """Return what the shedder remembers."""
        return self.shedder.document(memory.shedding)

    def run(
        self, snapshot: LoadSnapshot, memory: RoundMemory[Memory], rng: random.Random
    ) -> tuple[RoundOutcome, RoundMemory[Memory]]:
        """Return what the leader would do if all is carried out, and what it would remember."""
        snapshot = with_drained(snapshot, self.selection.drained)
        plan, shedding = shed(self.shedder, snapshot, memory.shedding)
        destinations = self.selection.destinations(plan, snapshot, memory.selection, rng)
        steps = moves(plan, destinations)
        try:
            step = next(steps)
            while True:
                step = steps.send(None if isinstance(step, Refusal) else CARRIED_OUT)
        except StopIteration as end:
            outcome: RoundOutcome = end.value
        for move in outcome.moves:
            shedding = self.shedder.unloaded(move, snapshot.taken_at_ms, shedding)
        return outcome, RoundMemory(shedding, destinations.memory)


def round_of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> Round[Any]:
    """Return the round that a configuration asks of a load manager.

    Raises:
        StrategyError: it names strategies that there are not, or two that do not go together.
    """
    return Round(shedder_of(config, manager), selection_of(config, manager))


def selection_of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> Selection[Any]:
    """Return how a load manager of a configuration chooses brokers.

    Raises:
        StrategyError: it names a placement strategy that there is not.
    """
    return SimpleSelection.of(config) if manager is ManagerKind.SIMPLE else FilteredSelection.of(config, manager)


def mark_unloaded(snapshot: LoadSnapshot, bundles: Sequence[str]) -> LoadSnapshot:
    """Return the snapshot in which these bundles were unloaded recently, those of them that it knows.

    It may be a newer one than they were chosen from, with other rows.
    """
    if not bundles:
        return snapshot
    names, flags = snapshot.bundles.names, snapshot.bundles.recently_unloaded.copy()
    for bundle in bundles:
        flags[bisect_left(names, bundle) : bisect_right(names, bundle)] = True
    return replace(snapshot, bundles=replace(snapshot.bundles, recently_unloaded=flags))
