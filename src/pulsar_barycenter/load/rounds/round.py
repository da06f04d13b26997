"""One round of a leader: choose the bundles to shed, then a destination for each, one after the other.

`moves` is the loop of every round. It yields an unload with its destination, or a refusal, and receives the result of
the unload: a live leader awaits the owner before it answers, `barycenter decide` and replays answer `CARRIED_OUT`. So a
trial on a snapshot shows what the leader would do.

With the modular load manager the selection chooses each destination. With the extensible one the TransferShedder does,
unless `loadBalancerTransferEnabled` is off: then the next lookup chooses, which is done here at once. With the simple
one the next lookup chooses.

A bundle that moves counts for its destination from then on, so that the next choice of the round includes it. It is not
shed again while it counts as recently unloaded. Snapshot, settings, memory and random numbers are arguments.

Source: Pulsar's `ModularLoadManagerImpl.doLoadShedding`, `SimpleLoadManagerImpl.doLoadShedding`.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

import msgspec

from pulsar_barycenter.load.decisions import Placement, Refusal, Unload
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Reason
from pulsar_barycenter.load.rounds.destinations import Destinations, FilteredSelection, Selection
from pulsar_barycenter.load.rounds.simple_destinations import SimpleSelection
from pulsar_barycenter.load.shedding.beside_drained import shed
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.snapshot.drained import with_drained
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import shedder_of
from pulsar_barycenter.load.strategy import Memory, MemoryDocument

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


class UnloadOutcome(NamedTuple):
    """The result of one unload: `done` is True if the bundle was unloaded. `load` is a newer load of the cluster that
    includes the move; None: there is no newer load.
    """

    done: bool
    load: LoadSnapshot | None = None


CARRIED_OUT: Final = UnloadOutcome(True)


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """The result of a round: `moves` has the unloads that were made, with their destinations; `refused` has why the
    other bundles of the plan stay.

    `placements[i]` has the reason for the destination of `moves[i]`. `snapshot` is the load after the round, in which
    the moved bundles count as on their way.
    """

    plan: SheddingPlan
    moves: tuple[Unload, ...]
    placements: tuple[Placement, ...]
    refused: tuple[Refusal, ...]
    snapshot: LoadSnapshot

    @property
    def reason(self) -> Reason:
        """The reason why the round sheds bundles, or sheds none."""
        return self.plan.reason

    def refusals(self) -> Iterator[Refusal]:
        """Yield why each bundle that was to be shed stays, and why each broker that sheds nothing does not shed."""
        yield from self.refused
        yield from self.plan.refusals()


def moves(
    plan: SheddingPlan, destinations: Destinations[Any], shedder: Shedder[Any]
) -> Generator[Unload | Refusal, UnloadOutcome | None, RoundOutcome]:
    """Yield the unloads and refusals of `plan`, in its order. The caller sends back the result of each unload, and None
    for a refusal. The generator returns the result of the round.

    `shedder` made the plan. If reports arrived since the plan was made, the shedder may keep a bundle on its broker
    (`Shedder.why_it_stays`). The destinations are closed at the end, also after an error.
    """
    moved, placements, refused = [], [], []
    try:
        for position, (row, unload) in enumerate(zip(plan.rows.tolist(), plan, strict=True)):
            found = destinations.choose(unload)
            if isinstance(found, Refusal):
                refused.append(found)
                yield found
                continue
            move = unload
            if unload.destination != found.broker:
                move = msgspec.structs.replace(unload, destination=found.broker)
            if not destinations.load.has_the_reports_of(plan.snapshot):
                why = shedder.why_it_stays(plan.decided, position, move, destinations.load)
                if why is not None:
                    refused.append(Refusal("unload", move.bundle, why, move.source))
                    yield refused[-1]
                    continue
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
    """What is remembered between rounds: the memory of the shedder, and that of the selection (see `Selection`)."""

    shedding: Any
    selection: Memory


@dataclass(frozen=True, slots=True)
class Round(Generic[Memory]):
    """Carries out rounds of the leader with two strategies: `shedder` chooses the bundles that leave, `selection` their
    destinations.
    """

    shedder: Shedder[Any]
    selection: Selection[Memory]

    def start(self, document: MemoryDocument | None = None) -> RoundMemory[Memory]:
        """Return the memory before the first round. `document` is the stored memory of the shedder, from which the
        shedder continues; None: it begins with its initial memory.
        """
        shedding = self.shedder.start() if document is None else self.shedder.remembered(document)
        return RoundMemory(shedding, self.selection.start())

    def document(self, memory: RoundMemory[Memory]) -> MemoryDocument:
        """Return the shedder's part of `memory` as a document that can be stored; `start` reads it."""
        return self.shedder.document(memory.shedding)

    def run(
        self,
        snapshot: LoadSnapshot,
        memory: RoundMemory[Memory],
        rng: random.Random,
        takes: Callable[[Unload], bool] = lambda _unload: True,
    ) -> tuple[RoundOutcome, RoundMemory[Memory]]:
        """Return the result of a simulated round, and the memory for the next round. Each unload of the round succeeds
        if `takes` returns True for it, and fails otherwise.

        `takes` is called once for each unload, in the order of the round. By default all unloads succeed.
        """
        snapshot = with_drained(snapshot, self.selection.drained)
        plan, shedding = shed(self.shedder, snapshot, memory.shedding)
        destinations = self.selection.destinations(plan, snapshot, memory.selection, rng)
        steps = moves(plan, destinations, self.shedder)
        try:
            step = next(steps)
            while True:
                step = steps.send(None if isinstance(step, Refusal) else UnloadOutcome(takes(step)))
        except StopIteration as end:
            outcome: RoundOutcome = end.value
        for move in outcome.moves:
            shedding = self.shedder.unloaded(move, snapshot.taken_at_ms, shedding)
        return outcome, RoundMemory(shedding, destinations.memory)


def round_of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> Round[Any]:
    """Return the `Round` of a load manager: the shedder and the selection that `config` names for it.

    Raises:
        StrategyError: the configuration names strategies that do not exist, or two that cannot be combined.
    """
    return Round(shedder_of(config, manager), selection_of(config, manager))


def selection_of(config: "BrokerConfig", manager: ManagerKind = ManagerKind.MODULAR) -> Selection[Any]:
    """Return the selection (the way to choose owners) of a load manager, with the settings of `config`.

    Raises:
        StrategyError: the configuration names a placement strategy that does not exist.
    """
    return SimpleSelection.of(config) if manager is ManagerKind.SIMPLE else FilteredSelection.of(config, manager)


def mark_unloaded(snapshot: LoadSnapshot, bundles: Sequence[str]) -> LoadSnapshot:
    """Return a copy of the snapshot in which these bundles count as recently unloaded; bundles that the snapshot does
    not have are ignored.

    Bundles are given by name, because the snapshot may be newer than the one from which they were chosen, with other
    rows.
    """
    if not bundles:
        return snapshot
    names, flags = snapshot.bundles.names, snapshot.bundles.recently_unloaded.copy()
    for bundle in bundles:
        flags[bisect_left(names, bundle) : bisect_right(names, bundle)] = True
    return replace(snapshot, bundles=replace(snapshot.bundles, recently_unloaded=flags))
