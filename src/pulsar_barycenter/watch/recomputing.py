"""Runs the rounds of the strategy that a cluster's configuration names, on the load that was recorded of it. Pure.

The leader of the cluster decided on load that no record has exactly: it ran at other moments, and knew reports in
between. A recomputed round is therefore near to what the leader decided, and not the same. Its memory goes on from
round to round, as the leader's does, and counts the moves of the round as made. Bundles that were seen to move count as
recently unloaded for the grace period of the configuration.

The snapshot is that of the load manager in force (`balancer.judging.snapshots`).
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pulsar_barycenter.config.broker_conf import ConfigError, parse_value
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import MANAGER_KEY, StrategyError, manager_in_force, short_name
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.rounds.round import Round, RoundMemory, RoundOutcome, round_of
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.strategies import shedder_name
from pulsar_barycenter.snapshots.decided_by import configuration_of

_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class RecomputedMove:
    """A bundle that a recomputed round would move. `destination` is blank if the round does not choose one: the next
    look-up then assigns the bundle.
    """

    bundle: str
    source: str
    destination: str
    sentence: str
    placement: str


@dataclass(frozen=True, slots=True)
class RecomputedRound:
    """A round of the leader, recomputed with the load as of `at_ms` (epoch ms). `sentence` is the reason for the result
    of the whole round; `verdicts` maps each broker to the reason why it sheds or keeps bundles.
    """

    at_ms: int
    strategy: str
    sentence: str
    code: str
    moves: tuple[RecomputedMove, ...]
    verdicts: Mapping[str, str]


def configuration_in_force(
    settings: Mapping[str, str], changes: Collection[str], reports: Mapping[str, LocalBrokerData]
) -> BrokerConfig:
    """Return the configuration of recorded settings, with `changes` (key=value); recorded values that this program does
    not allow are left out. If the settings do not name the load manager, the configuration has the one that the load
    reports name.

    Raises:
        ConfigError, WrongWordError: a change is not allowed.
    """
    allowed = {key: text for key, text in settings.items() if _is_allowed(key, text)}
    if MANAGER_KEY not in allowed:
        named = next((report.load_manager_class_name for report in reports.values()), None)
        if named and _is_allowed(MANAGER_KEY, named):
            allowed[MANAGER_KEY] = named
    return configuration_of(allowed, changes=changes)


def _is_allowed(key: str, text: str) -> bool:
    try:
        parse_value(key, text)
    except ConfigError:
        return False
    return True


def strategy_of(config: BrokerConfig) -> str:
    """Return the short name of the shedder in force; if this program does not know the shedder, its name as
    configured.
    """
    try:
        return shedder_name(config)
    except StrategyError:
        return short_name(config.load_balancer_load_shedding_strategy)


class Recomputer:
    """Recomputes the rounds of a leader with one configuration, and keeps the strategy's memory between rounds."""

    def __init__(self, config: BrokerConfig) -> None:
        self._manager = manager_in_force(config)
        self.strategy = strategy_of(config)
        self._round: Round[Any] | None = None
        self.problem = ""
        """Why no round can be run; blank if rounds can be run."""
        try:
            self._round = round_of(config, self._manager)
            self._memory: RoundMemory[Any] = self._round.start()
        except StrategyError as error:
            self.problem = str(error)

    def run(self, document: SnapshotDocument, *, remembers: bool) -> RecomputedRound | None:
        """Recompute a round on the snapshot `document`. If `remembers` is True, the next call continues with the
        strategy's memory of this round; otherwise the memory stays as it is. None: no round can be computed, and the
        property `problem` says why.
        """
        if self._round is None:
            return None
        outcome, memory = self._round.run(document.snapshot(), self._memory, random.Random(_SEED))
        if remembers:
            self._memory = memory
        return _recomputed(outcome, self.strategy, document.taken_at)


def _recomputed(outcome: RoundOutcome, strategy: str, at_ms: int) -> RecomputedRound:
    brokers = outcome.plan.snapshot.brokers.names
    return RecomputedRound(
        at_ms=at_ms,
        strategy=strategy,
        sentence=render(outcome.reason),
        code=str(outcome.reason.code),
        moves=tuple(
            RecomputedMove(
                bundle=move.bundle,
                source=move.source,
                destination=move.destination or "",
                sentence=render(move.reason),
                placement="" if placement.reason == move.reason else render(placement.reason),
            )
            for move, placement in zip(outcome.moves, outcome.placements, strict=True)
        ),
        verdicts={broker: render(outcome.plan.broker_reason(row)) for row, broker in enumerate(brokers)},
    )
