"""Runs one round of a leader on the view of the cluster: pure, with the configuration and the memory as values."""

import random
from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from pulsar_barycenter.balancer.judging.caps import Room
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.rounds.balance import Balance, balance_of
from pulsar_barycenter.load.rounds.round import RoundMemory, RoundOutcome, round_of
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import AnyRow, Role, catalogue
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.snapshots.decided_by import WrongWordError, configuration_of

TRANSFER: Final = "loadBalancerTransferEnabled"
"""Without it TransferShedder leaves destinations to look-ups."""


@dataclass(frozen=True, slots=True)
class DecidedMove:
    """A move that a round decides on; the throughput of the bundle is in bytes/s, in + out, by its newest report."""

    move: PlannedMove
    throughput: float
    sessions: int


@dataclass(frozen=True, slots=True)
class DecidedRound:
    """The result of a round. `why` is a sentence that explains the result of the round as a whole. `stays` maps each
    bundle that the strategy wanted to move, but that stays, to the reason. `balance` is the balance of the snapshot,
    before the moves.
    """

    moves: tuple[DecidedMove, ...]
    stays: dict[str, str]
    why: str
    balance: Balance


class Decider:
    """Decides what moves in each round, with one strategy and one configuration. A strategy may have a memory, such as
    in how many rounds in a row a broker was overloaded; this object stores it from round to round.
    """

    def __init__(
        self,
        config: BrokerConfig,
        memory: MemoryDocument,
        manager: ManagerKind = ManagerKind.MODULAR,
        *,
        seed: int = 0,
    ) -> None:
        """Prepare to decide with the strategies that `config` names. `memory` is the strategy's memory that an earlier
        run of the balancer saved. `manager` is the load manager of Pulsar that the strategy belongs to.

        Raises:
            StrategyError: the configuration names strategies that do not exist, or two that cannot be combined.
        """
        self._config = config
        self._round = round_of(config, manager)
        self._memory: RoundMemory[Any] = self._round.start(memory)
        self._random = random.Random(seed)

    def decide(self, snapshot: LoadSnapshot, room: Room) -> DecidedRound:
        """Decide on one round. Of the moves that the strategy selects, return those that have a destination and that
        `room` allows. Only these are recorded as made in the strategy's memory.
        """

        def takes(unload: Unload) -> bool:
            return unload.destination is not None and room.take(unload.bundle, _load(snapshot, unload)[0])

        outcome, self._memory = self._round.run(snapshot, self._memory, self._random, takes)
        return DecidedRound(
            moves=tuple(_decided(snapshot, outcome, place) for place in range(len(outcome.moves))),
            stays={refusal.subject: render(refusal.reason) for refusal in outcome.refused} | room.refused,
            why=render(outcome.reason),
            balance=balance_of(snapshot, self._config),
        )

    def balance(self, snapshot: LoadSnapshot) -> Balance:
        """Return how evenly the brokers of a snapshot are used."""
        return balance_of(snapshot, self._config)

    def usages(self, snapshot: LoadSnapshot) -> dict[str, float]:
        """Return the usage of each broker of a snapshot, a fraction that may exceed 1; drained brokers are included."""
        usages = snapshot.brokers.weighted_usage(resource_weights(self._config)).tolist()
        return dict(zip(snapshot.brokers.names, usages, strict=True))

    def memory(self) -> MemoryDocument:
        """Return the memory of the shedder as a document, which the next run of the balancer gets."""
        return self._round.document(self._memory)


def _decided(snapshot: LoadSnapshot, outcome: RoundOutcome, place: int) -> DecidedMove:
    unload, placement = outcome.moves[place], outcome.placements[place]
    sentence = render(unload.reason)
    if placement.reason != unload.reason:
        sentence = f"{sentence}; {render(placement.reason)}"
    throughput, sessions = _load(snapshot, unload)
    return DecidedMove(
        PlannedMove(
            bundle=unload.bundle, source=unload.source, destination=unload.destination or "", sentence=sentence
        ),
        throughput,
        sessions,
    )


def _load(snapshot: LoadSnapshot, unload: Unload) -> tuple[float, int]:
    row = bisect_left(snapshot.bundles.names, unload.bundle)
    return float(snapshot.bundles.latest.throughput[row]), int(snapshot.bundles.sessions[row])


def checked_strategy(name: str) -> str:
    """Check that a shedding strategy exists, and that a balancer outside the brokers can use it; return its name.

    Raises:
        WrongWordError: there is no strategy of this name, or it only selects bundles to unload, and no destinations.
    """
    known = {row.name for row in _shedders()}
    if name.rpartition(".")[2] in known:
        return name
    raise WrongWordError(f"--strategy {name}: use one of {', '.join(sorted(known))}")


def manager_of(strategy: str) -> ManagerKind:
    """Return the load manager whose snapshots the strategy reads: the modular load manager if it has a strategy of this
    name, otherwise the extensible one.
    """
    managers = {row.manager for row in _shedders() if row.name == strategy.rpartition(".")[2]}
    return ManagerKind.EXTENSIBLE if managers == {ManagerKind.EXTENSIBLE} else ManagerKind.MODULAR


def _shedders() -> list[AnyRow]:
    """Return the shedders that choose a destination for each bundle. Those of the simple load manager do not: there,
    the next look-up of a bundle assigns it.
    """
    return [row for row in catalogue() if row.role is Role.SHEDDING and row.manager is not ManagerKind.SIMPLE]


def checked_changes(strategy: str, changes: Collection[str]) -> None:
    """Check the settings (key=value) that the user gave to override those of the cluster.

    Raises:
        ConfigError: a setting does not exist, or its value is not allowed.
        WrongWordError: a setting switches transfers off, so that moves would have no destination.
    """
    if not configuration_of({}, changes=changes, strategy=strategy).load_balancer_transfer_enabled:
        raise WrongWordError(
            f"--set {TRANSFER}=false: every move of balance has a destination, so this setting must be true"
        )
