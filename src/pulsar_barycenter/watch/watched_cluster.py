"""Folds the reports of a cluster into what is shown of it: load, moves, splits, and why these were made. Pure.

A source makes a look of each round of reports. The cluster takes it: compares the owners of bundles with those of the
last look, explains the moves, and runs the recomputed round if one is due. Time is an argument.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.balancer.judging.load_view import Facts, LoadView
from pulsar_barycenter.balancer.judging.moves_seen import OwnersSeen, SeenMove
from pulsar_barycenter.balancer.judging.snapshots import MovingAverages, document_for
from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.load.managers import ManagerKind, manager_in_force
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself
from pulsar_barycenter.watch.loads_seen import LoadsSeen
from pulsar_barycenter.watch.recomputing import (
    RecomputedRound,
    Recomputer,
    configuration_in_force,
)
from pulsar_barycenter.watch.splits_seen import SplitSeen, splits_seen, why_split
from pulsar_barycenter.watch.why_moved import Basis, Known, Why, why_moved

MAX_DECISIONS: Final = 10_000
"""The maximum number of moves, splits and rounds that are kept, the newest ones."""
MINUTE_MS: Final = 60_000
_ROUNDS_KEPT: Final = 5
_TELL_AGAIN_MS: Final = 10 * MINUTE_MS
"""An outcome of a round that was noted is not noted again within this time: some strategies alternate each minute."""
_WITHIN_MS: Final = 3 * MINUTE_MS
"""A round that was recomputed at most this long before a move was seen may have decided on the move; the time is longer
if rounds or looks are further apart.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What is known of a watched cluster in addition to its load. `cluster` is its name, `leader` its leader; both are
    blank if not known. `settings` is None if no settings were recorded. `policies` are the rules of administrators.
    `journal` and `split_journal` have reasons from the journals of `barycenter balance`: of moves by bundle and
    destination, and of splits by bundle.
    """

    cluster: str = ""
    leader: str = ""
    settings: Mapping[str, str] | None = None
    policies: ClusterPolicies = field(default_factory=ClusterPolicies)
    journal: Mapping[tuple[str, str], str] = field(default_factory=dict)
    split_journal: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a cluster at the time `at_ms` (epoch ms): the load reports since the look before this one, and
    `live`, the brokers that run.
    """

    at_ms: int
    reports: Sequence[LocalBrokerData]
    live: Collection[str]
    beside: Beside


class WatchedCluster:
    """The data about a watched cluster, collected from looks: its newest load, the owners of its bundles, and the moves
    and splits that were seen.
    """

    def __init__(self, changes: Collection[str] = ()) -> None:
        """Start without any load. `changes` (key=value) override the settings of the cluster.

        Raises:
            ConfigError, WrongWordError: a change is not allowed.
        """
        self._changes = tuple(changes)
        self._loads = LoadsSeen()
        self._view = LoadView(self._taken)
        self._averages = MovingAverages()
        self._owners = OwnersSeen()
        self._moved: dict[str, int] = {}
        self._rounds: deque[RecomputedRound] = deque(maxlen=_ROUNDS_KEPT)
        self._decisions: deque[BriefDecision] = deque(maxlen=MAX_DECISIONS)
        self._outcome = ""
        self._told_ms: dict[str, int] = {}
        """When each outcome of a round was noted, by its code."""
        self._before: SnapshotDocument | None = None
        self.number = 0
        """The number of moves, splits and rounds that were noted so far."""
        self.beside = Beside()
        self.live: tuple[str, ...] = ()
        self.at_ms = 0
        """The time of the last look, epoch ms; 0 before the first."""
        self.config = configuration_in_force({}, self._changes, {})
        self.document = SnapshotDocument(brokers={})
        self._recomputer = Recomputer(self.config)
        self._known_by: object = None

    def _taken(self, report: LocalBrokerData) -> None:
        broker = report.broker_id or ""
        self._loads.add(broker, report)
        if self.manager is ManagerKind.EXTENSIBLE:
            self._averages.add(broker, report, self.config)

    # ---- looks ----

    def take(self, look: Look) -> None:
        """Add a look, which must be newer than the look before it: find the moves and splits since then, and recompute
        a round if one is due. A report that was in an earlier look, too, counts once.
        """
        for report in look.reports:
            self._view.append(report)
        at_ms, live = look.at_ms, look.live
        self._use(look.beside)
        self._view.retain(live, at_ms)
        # without the brokers' own bundles, which never move
        owners = {name: broker for name, broker in self._view.owners().items() if not is_of_a_broker_itself(name)}
        self.at_ms, self.live = at_ms, tuple(sorted(live))
        for split in splits_seen(self._owners.known, owners):
            self._explain_split(split)
            self._owners.was_split(split.bundle, split.parts)
        moves = self._owners.see(owners, live=live, ours={}, unloaded={}, at_ms=at_ms)
        grace_ms = round(self.config.load_balancer_shedding_grace_period_minutes * MINUTE_MS)
        self._moved = {bundle: at for bundle, at in self._moved.items() if at_ms - at <= grace_ms}
        before = self._before
        if moves:
            self._explain(moves, before)
        self._moved |= {move.bundle: at_ms for move in moves}
        self.document = self._document()
        self._before = self.document
        self._run_if_due()

    def _use(self, beside: Beside) -> None:
        self.beside = beside
        managers = {report.load_manager_class_name for report in self._view.reports.values()}
        key = (tuple(sorted((beside.settings or {}).items())), tuple(sorted(filter(None, managers))))
        if key == self._known_by:
            return
        self._known_by = key
        was = self.manager
        self.config = configuration_in_force(beside.settings or {}, self._changes, self._view.reports)
        self._recomputer = Recomputer(self.config)
        self._rounds.clear()
        if self.manager is ManagerKind.EXTENSIBLE and was is not ManagerKind.EXTENSIBLE:
            for broker, report in self._view.reports.items():
                self._averages.add(broker, report, self.config)

    def _document(self) -> SnapshotDocument:
        facts = Facts(
            brokers=self.live,
            taken_at_ms=self.at_ms,
            recently_moved=self._moved,
            policies=self.beside.policies,
            configuration=self.beside.settings or {},
        )
        view = self._view
        return document_for(self.manager, view.reports, view.bundles, view.owners(), self._averages, facts)

    def _run_if_due(self) -> None:
        every_ms = round(self.config.load_balancer_shedding_interval_minutes * MINUTE_MS)
        if len(self.live) < 2 or (self._rounds and self.at_ms - self._rounds[-1].at_ms < min(every_ms, MINUTE_MS)):
            return
        found = self._recomputer.run(self.document, remembers=True)
        if found is None:
            return
        self._rounds.append(found)
        is_other, self._outcome = found.code != self._outcome, found.code
        is_due = self.at_ms - self._told_ms.get(found.code, 0) >= _TELL_AGAIN_MS
        if self.config.load_balancer_shedding_enabled and is_other and is_due:
            self._told_ms[found.code] = self.at_ms
            self._note("shed", Why(Basis.RECOMPUTED, found.sentence, short_reason(found.sentence)))

    def _explain(self, moves: Sequence[SeenMove], before: SnapshotDocument | None) -> None:
        rounds = [round_ for round_ in self._rounds if moves[0].at - round_.at_ms <= self._window_ms()]
        # as of the last look, if no round was due then
        if before is not None and (not rounds or rounds[-1].at_ms < before.taken_at):
            trial = self._recomputer.run(before, remembers=False)
            rounds += [] if trial is None else [trial]
        known = Known(
            rounds=rounds,
            journal=self.beside.journal,
            sheds=self.config.load_balancer_shedding_enabled and self.config.load_balancer_enabled,
            settings_missing=self.beside.settings is None,
            problem=self._recomputer.problem,
        )
        for move in moves:
            self._note(
                "unload",
                why_moved(move, known),
                bundle=move.bundle,
                source=move.source,
                destination=move.destination,
            )

    def _explain_split(self, split: SplitSeen) -> None:
        why = why_split(split, self._before, self.config, self.beside.split_journal)
        self._note("split", why, bundle=split.bundle, source=split.broker)

    def _window_ms(self) -> int:
        every_ms = round(self.config.load_balancer_shedding_interval_minutes * MINUTE_MS)
        since_ms = 0 if self._before is None else self._before.taken_at
        return max(_WITHIN_MS, 2 * every_ms, 2 * (self.at_ms - since_ms))

    def _note(self, kind: str, why: Why, *, bundle: str = "", source: str = "", destination: str = "") -> None:
        """Append a decision to the list of decisions, with the time of the present look: a move, a split or a
        recomputed round (`kind`), with its reason `why`.
        """
        self.number += 1
        made = BriefDecision(
            at=self.at_ms,
            by=self.beside.leader,
            number=self.number,
            kind=kind,
            sentence=why.sentence,
            short=why.short,
            manager=str(self.manager),
            strategy=self._recomputer.strategy,
            basis=str(why.basis),
            agrees=why.agrees,
            bundle=bundle,
            source=source,
            destination=destination,
        )
        self._decisions.append(made)

    # ---- what is shown ----

    @property
    def manager(self) -> ManagerKind:
        return manager_in_force(self.config)

    @property
    def strategy(self) -> str:
        """The name of the cluster's shedding strategy."""
        return self._recomputer.strategy

    @property
    def decisions(self) -> Sequence[BriefDecision]:
        """The decisions on the pages, oldest first: the moves and splits that were seen, and recomputed rounds. Only
        the last MAX_DECISIONS are kept.
        """
        return self._decisions

    @property
    def loads(self) -> LoadsSeen:
        return self._loads

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have bundles with an owner."""
        return frozenset(bundle.rpartition("/")[0] for bundle in self._view.owners())

    def bundles(self) -> int:
        """Return the number of bundles with an owner, without heartbeat and SLA-monitor bundles."""
        return sum(not is_of_a_broker_itself(bundle) for bundle in self._view.owners())
