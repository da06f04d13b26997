"""Runs one round of a leader on the view of the cluster: pure, with the configuration and the memory as values."""

import random
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from pulsar_barycenter.balancer.judging.caps import Room
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Unload
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.rounds.balance import Balance, balance_of
from pulsar_barycenter.load.rounds.round import RoundMemory, RoundOutcome, round_of
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import Role, catalogue
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.snapshots.decided_by import WrongWordError


@dataclass(frozen=True, slots=True)
class DecidedMove:
    """A move that a round decides on; the throughput of the bundle is in bytes/s, in + out, by its newest report."""

    move: PlannedMove
    throughput: float
    sessions: int


@dataclass(frozen=True, slots=True)
class DecidedRound:
    """The result of a round. `why` is the sentence of the round as a whole, `stays` maps each bundle that was to leave
    and stays to the reason; `balance` is that of the snapshot before the moves."""

    moves: tuple[DecidedMove, ...]
    stays: dict[str, str]
    why: str
    balance: Balance


class Decider:
    """Decides on the rounds of one strategy with one configuration, and keeps the strategy's memory between rounds."""

    def __init__(self, config: BrokerConfig, memory: MemoryDocument, *, seed: int = 0) -> None:
        """Prepare to decide with the strategies that `config` names, and with the memory that an earlier run left.

        Raises:
            StrategyError: the configuration names strategies that do not exist, or two that cannot be combined.
        """
        self._config = config
        self._round = round_of(config, ManagerKind.MODULAR)
        self._memory: RoundMemory[Any] = self._round.start(memory)
        self._random = random.Random(seed)

    def decide(self, snapshot: LoadSnapshot, room: Room) -> DecidedRound:
        """Decide on a round, and return the moves for which there is room; the strategy's memory then counts exactly
        these moves as made.
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
    """Check that a shedding strategy exists and can be used by a balancer outside the brokers; return its name.

    Raises:
        WrongWordError: there is no strategy of this name, or it works only inside brokers with the extensible load
            manager.
    """
    known = {row.name for row in catalogue() if row.role is Role.SHEDDING and row.manager is ManagerKind.MODULAR}
    if name.rpartition(".")[2] in known:
        return name
    raise WrongWordError(f"--strategy {name}: use one of {', '.join(sorted(known))}")
