"""Runs the rounds of the strategy that a cluster's configuration names, on the load that was recorded of it. Pure.

The leader of the cluster decided on load that nobody recorded exactly: it ran at other moments, and knew reports in
between. A recomputed round is therefore near to what it decided, and not the same. Its memory goes on from round to
round, as the leader's does, and counts the moves of the round as made. Bundles that were seen to move count as recently
unloaded for the grace period of the configuration.

With the modular load manager the windows are the leader's (`load.reports.windows`). With the extensible one the moving
averages of brokers are computed from the recorded reports, and the top bundles from the bundles with a load.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from pulsar_barycenter.balancer.judging.load_view import Facts, LoadView, document_of
from pulsar_barycenter.config.broker_conf import ConfigError, parse_value
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind, StrategyError, manager_in_force, short_name
from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    SystemResourceUsage,
    sum_stats,
)
from pulsar_barycenter.load.reports.weights import extensible_resource_weights
from pulsar_barycenter.load.rounds.round import Round, RoundMemory, RoundOutcome, round_of
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument
from pulsar_barycenter.load.strategies import shedder_name
from pulsar_barycenter.snapshots.decided_by import configuration_of

_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class RecomputedMove:
    """A bundle that a recomputed round would move. `destination` is blank if the next look-up chooses."""

    bundle: str
    source: str
    destination: str
    sentence: str
    placement: str


@dataclass(frozen=True, slots=True)
class RecomputedRound:
    """A round on the load as of `at_ms` (epoch ms). `sentence` is its reason as a whole, `verdicts` the reason for each
    broker why it sheds bundles or keeps them."""

    at_ms: int
    strategy: str
    sentence: str
    code: str
    moves: tuple[RecomputedMove, ...]
    verdicts: Mapping[str, str]


def configuration_in_force(
    settings: Mapping[str, str], changes: Collection[str], reports: Mapping[str, LocalBrokerData]
) -> BrokerConfig:
    """Return the configuration of recorded settings, with `changes` (key=value); values that are not allowed here are
    left out. Of settings that are not recorded, the load manager is that of the reports.

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


class ExtensibleLoads:
    """The loads of brokers of the extensible load manager, with their moving averages, from recorded reports."""

    def __init__(self) -> None:
        self._loads: dict[str, BrokerLoadData] = {}

    def add(self, broker: str, report: LocalBrokerData, config: BrokerConfig) -> None:
        """Update the averages of a broker with the report, as one more measurement. The totals are those of the broker
        in the report, not the sums over the bundles that the report lists.
        """
        usage = SystemResourceUsage(
            cpu=report.cpu,
            memory=report.memory,
            direct_memory=report.direct_memory,
            bandwidth_in=report.bandwidth_in,
            bandwidth_out=report.bandwidth_out,
        )
        total = NamespaceBundleStats(
            msg_rate_in=report.msg_rate_in,
            msg_rate_out=report.msg_rate_out,
            msg_throughput_in=report.msg_throughput_in,
            msg_throughput_out=report.msg_throughput_out,
            topics=report.num_topics or sum_stats(report.last_stats.values()).topics,
        )
        before = self._loads.get(broker, BrokerLoadData())
        self._loads[broker] = before.updated(
            usage,
            total,
            bundle_count=max(report.num_bundles, len(report.bundles)),
            weights=extensible_resource_weights(config),
            history_weight=config.load_balancer_history_resource_percentage,
            now_ms=report.last_update,
        )

    def document(self, view: LoadView, facts: Facts) -> SnapshotDocument:
        """Return the snapshot, for the extensible load manager, of the brokers in `facts`."""
        reports = {broker: view.reports[broker] for broker in facts.brokers if broker in view.reports}
        loads = {
            broker: _published(self._loads[broker], report)
            for broker, report in reports.items()
            if broker in self._loads
        }
        return SnapshotDocument(
            taken_at=facts.taken_at_ms,
            brokers={},
            extensible=ExtensibleDocument(
                loads=loads,
                top_bundles={
                    broker: TopBundlesLoadData.of(report.last_stats, -1) for broker, report in reports.items()
                },
                lookups={broker: _lookup(report) for broker, report in reports.items()},
                owners={bundle: broker for bundle, broker in view.owners().items() if broker in reports},
            ),
            recently_unloaded=dict(facts.recently_moved),
            policies=PoliciesDocument.of(facts.policies),
            configuration=dict(facts.configuration),
        )


def _published(load: BrokerLoadData, report: LocalBrokerData) -> BrokerLoadData:
    return replace(load, reported_at=report.last_update)


def _lookup(report: LocalBrokerData) -> BrokerLookupData:
    return BrokerLookupData(
        load_manager_class_name=report.load_manager_class_name or ManagerKind.EXTENSIBLE.class_name,
        broker_version=report.broker_version_string or "",
        start_timestamp=report.start_timestamp,
    )


def document_for(view: LoadView, extensible: ExtensibleLoads, facts: Facts, manager: ManagerKind) -> SnapshotDocument:
    """Return the snapshot of recorded load on which a leader with this load manager would decide."""
    if manager is ManagerKind.EXTENSIBLE:
        return extensible.document(view, facts)
    found = document_of(view.reports, view.bundles, facts)
    if manager is ManagerKind.SIMPLE:  # it keeps no windows
        return replace(found, bundle_data=None)
    return found


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
        """Recompute a round on a snapshot; with `remembers` the next round continues with the memory of this one. None:
        the round cannot be computed, and `problem` says why.
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
