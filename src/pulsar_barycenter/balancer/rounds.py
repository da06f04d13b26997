"""One round: look at the cluster, judge, decide, and note what was decided. Carries nothing out itself."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.balancer.client_errors import ClientErrors
from pulsar_barycenter.balancer.facts import answering, balancing_settings
from pulsar_barycenter.balancer.judging.caps import PastMove, Room, too_few
from pulsar_barycenter.balancer.judging.deciding import TRANSFER, DecidedMove, DecidedRound, Decider, manager_of
from pulsar_barycenter.balancer.judging.journal_view import past_moves, within_grace
from pulsar_barycenter.balancer.judging.load_view import Facts, LoadView, document_of
from pulsar_barycenter.balancer.judging.moves_seen import (
    OwnersSeen,
    SeenMove,
    Whose,
    destinations_of,
    unloaded_from,
)
from pulsar_barycenter.balancer.judging.needs import needed, with_load
from pulsar_barycenter.balancer.judging.scoring import Score
from pulsar_barycenter.balancer.judging.snapshots import MovingAverages, document_for
from pulsar_barycenter.balancer.judging.splits import (
    DecidedSplits,
    decide_splits,
    immovable,
    split_room,
)
from pulsar_barycenter.balancer.judging.watchdog import Observed, Watch, watched
from pulsar_barycenter.balancer.judging.would_be import differing, throughput_of, would_be
from pulsar_barycenter.balancer.options import HOUR_MS, MINUTE_MS, Mode, Wanted, WatchLimits
from pulsar_barycenter.balancer.state_folder import Kept, StateFolder
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.rounds.balance import Balance
from pulsar_barycenter.load.sizing import load_of
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself
from pulsar_barycenter.observer.collector import Collector
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING, is_on
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.policies_read import PoliciesReader
from pulsar_barycenter.operations.splitting import PlannedSplit
from pulsar_barycenter.snapshots.decided_by import configuration_of

_MAX_SHOWN: Final = 1_000
"""The number of moves, and of bundles that stay, in the record of a round."""
_COUNTINGS: Final = 20
"""How often a round decides on splits anew with more numbers of bundles; a split checks its namespace once more."""


class RoundRecord(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The record of a round. `at` is epoch ms. `brokers` is the number of registered brokers, `current` the number of
    those with a current report.

    `above_mean` is by how much the fullest broker's usage exceeds the mean now, `our_above_mean` the same after all
    moves that the mode `observe` decided on, as if they had been made. `client_errors` is how many errors clients get a
    minute; None if they were not read in this round, or are not known. `decided` are the moves of the round, `stays`
    maps bundles that stay to the reason, `seen` are the moves since the last round. `splits` are the bundles that are
    split, `whole` maps bundles that are too large and not split to the reason. `state` is the balancer's state as a
    word; `held_up` says why no move may begin, "" if moves may.
    """

    at: int
    mode: Mode
    brokers: int
    current: int
    bundles: int
    failed: dict[str, str] = {}
    balance: str
    above_mean: float
    our_above_mean: float
    client_errors: float | None = None
    why: str = ""
    decided: tuple[PlannedMove, ...] = ()
    stays: dict[str, str] = {}
    seen: tuple[SeenMove, ...] = ()
    splits: tuple[PlannedSplit, ...] = ()
    whole: dict[str, str] = {}
    state: str
    held_up: str = ""
    score: Score


@dataclass(frozen=True, slots=True)
class Look:
    """What a round read of the cluster. `failed` are the brokers without a report, with the reason; `moves` are the
    moves that were seen since the last round.
    """

    at_ms: int
    listed: tuple[str, ...]
    current: tuple[str, ...]
    failed: Mapping[str, str]
    settings: Mapping[str, str]
    owners: Mapping[str, str]
    moves: tuple[SeenMove, ...]
    policies: ClusterPolicies
    balance: Balance


@dataclass(slots=True)
class Rounds:
    """The rounds of one run. `clock_trouble` says how the clock of the broker that answered differs from this
    machine's; "" if they agree. `needed` is the number of brokers that the load needs, as a metric in Prometheus's text
    format; "" while the load of a broker is not known.
    """

    wanted: Wanted
    client: AdminClient
    collector: Collector
    view: LoadView
    cluster: AdminCluster
    state: StateFolder
    kept: Kept
    errors: ClientErrors
    policies: PoliciesReader
    watch: Watch = field(default_factory=Watch)
    clock_trouble: str = ""
    needed: str = ""
    _loads: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    _owners: OwnersSeen = field(default_factory=OwnersSeen)
    _moved: dict[str, int] = field(default_factory=dict)
    _averages: MovingAverages = field(default_factory=MovingAverages)
    _would_be_averages: MovingAverages = field(default_factory=MovingAverages)
    _texts: Mapping[str, str] | None = None
    _decider: Decider | None = None

    # ---- look ----

    async def look(self, *, off: Collection[str]) -> Look:
        """Read the cluster: reports, settings, brokers and policies. From them find the moves since the last round,
        measure the balance, and update the watchdog.

        `off` are the keys of the cluster's own balancing that this program has switched off. If there are any, a move
        that this program did not ask for pauses the balancer; if one of these keys is on again, the balancer restores
        the settings and stops moving bundles.

        Raises:
            FactsError, CollectError, NotNowError, RefusedError, TimeoutError: the cluster cannot be read.
            ConfigError, StrategyError: the settings cannot be used.
        """
        await self._turn_to_a_broker()
        self._loads = self._loads_of_bundles()  # of a bundle that moves, the load on its former broker counts
        collected = await self.collector.collect()
        settings = await self.cluster.settings()
        listed = tuple(await self.cluster.brokers())
        now_ms = _now_ms()
        self.view.retain(listed, now_ms)
        owners = self.view.owners()
        entries = self.state.moves_since(now_ms - HOUR_MS)
        ours, unloaded = destinations_of(entries, since_ms=now_ms - HOUR_MS), unloaded_from(entries, now_ms=now_ms)
        moves = tuple(self._owners.see(owners, live=listed, ours=ours, unloaded=unloaded, at_ms=now_ms))
        self._moved |= {move.bundle: now_ms for move in moves}
        limits = self._limits(settings)
        current = self.view.current(listed, now_ms=now_ms, max_age_ms=2 * limits.report_interval_ms)
        policies = await self._read_policies(owners, now_ms)
        self._use(settings)
        self._average(self._averages, self.view.reports)
        balance = self.decider.balance(self._snapshot(Facts(brokers=current, taken_at_ms=now_ms, policies=policies)))
        if self.wanted.mode.moves and (self.watch.judges_errors or not self.errors.is_begun):
            await self.errors.read(self.collector.addresses)
        look = Look(now_ms, listed, tuple(current), collected.failed, settings, owners, moves, policies, balance)
        self._watch(look, limits, off)
        self._size(look)
        return look

    async def _turn_to_a_broker(self) -> None:
        """Find a broker that answers, and send requests to it from now on: the broker used until now, else one that the
        user named, else one that an earlier round found. The broker that the user named may have left the cluster. If
        it does not answer later in the round, the next requests are sent to another one of them.

        Raises:
            FactsError: no broker answers.
        """
        known = (self.cluster.url, *self.wanted.urls, *self.collector.addresses.values())
        url, self.clock_trouble = await answering(self.client, known, _now_ms)
        self.cluster.turn_to(url, known)

    def _limits(self, settings: Mapping[str, str]) -> WatchLimits:
        wanted = self.wanted
        interval_ms = wanted.interval_s * 1000
        if self.view.is_published:
            minutes = configuration_of(balancing_settings(settings)).load_balancer_report_update_max_interval_minutes
            interval_ms = max(interval_ms, minutes * MINUTE_MS)
        return WatchLimits(
            report_interval_ms=round(interval_ms),
            grown=wanted.grown,
            more_errors=wanted.more_errors,
            quiet_ms=round(wanted.quiet_s * 1000),
            hand_back_ms=round(wanted.hand_back_s * 1000),
        )

    async def _read_policies(self, owners: Mapping[str, str], now_ms: int) -> ClusterPolicies:
        try:
            policies = await self.policies.read(frozenset(bundle.rpartition("/")[0] for bundle in owners), now_ms)
        except RefusedError as error:
            raise RefusedError(
                f"{error}; balance moves no bundle until it can read and follow the policies of the cluster"
            ) from error
        self.state.policies.note(now_ms, policies)
        return policies

    def _use(self, settings: Mapping[str, str]) -> None:
        """Use `settings`, those of the cluster, from now on. If they changed, a new decider is created, which keeps the
        memory of the old one.
        """
        texts = balancing_settings(settings)
        if texts != self._texts or self._decider is None:
            memory = self.kept.memory if self._decider is None else self._decider.memory()
            self._decider, self._texts = Decider(self._configuration(texts), memory, self._manager), texts

    def _configuration(self, texts: Mapping[str, str]) -> BrokerConfig:
        changes = (*self.wanted.changes, f"{TRANSFER}=true")
        return configuration_of(texts, changes=changes, strategy=self.wanted.strategy)

    @property
    def _manager(self) -> ManagerKind:
        """The load manager that has the strategy."""
        return manager_of(self.wanted.strategy)

    def _watch(self, look: Look, limits: WatchLimits, off: Collection[str]) -> None:
        times = {broker: self.view.measured_ms(broker) for broker in look.listed}
        foreign = [move for move in look.moves if move.whose is Whose.FOREIGN]
        seen = Observed(
            at_ms=look.at_ms,
            oldest_ms=min(times.values(), default=0),
            silent=tuple(broker for broker, at_ms in times.items() if not at_ms),
            above_mean=look.balance.above_mean if look.balance.brokers > 1 else None,
            errors=self._client_errors,
            foreign=tuple(f"{move.bundle} moved from {move.source} to {move.destination}" for move in foreign if off),
            sheds=SHEDDING in off and is_on(SHEDDING, look.settings),
            splits=SPLITTING in off and is_on(SPLITTING, look.settings),
            clock=self.clock_trouble,
            acts=bool(off),
        )
        self.watch = watched(self.watch, seen, limits)

    @property
    def _client_errors(self) -> float | None:
        return self.errors.per_minute if self.watch.judges_errors else None

    async def errors_before_moves(self) -> float | None:
        """Return how many errors clients get a minute, to compare with their number after the moves that are about to
        begin; None if it is not known. The metrics of brokers are read for it, unless this round has read them already.
        """
        if not self.watch.judges_errors:
            await self.errors.read_twice(self.collector.addresses)
        return self.errors.per_minute

    def _size(self, look: Look) -> None:
        if not look.current or len(look.current) < len(look.listed):
            self.needed = ""
            return
        usages, rule = self.decider.usages(self._snapshot(_facts(look, {}))), self.wanted.sizing
        peaks = with_load(self.kept.peaks, load_of(usages, rule.idle), look.at_ms)
        self.kept = msgspec.structs.replace(self.kept, peaks=peaks)
        self.needed = needed(usages, peaks, rule, look.at_ms)

    # ---- decide ----

    @property
    def configuration(self) -> BrokerConfig:
        """The configuration of the cluster, as it was read last, with the settings that the user gave in place of the
        cluster's own.
        """
        return self._configuration(self._texts or {})

    @property
    def decider(self) -> Decider:
        """The decider, which decides on rounds, with the settings of the last look at the cluster."""
        assert self._decider is not None, "look first"
        return self._decider

    async def decide_splits(self, look: Look) -> DecidedSplits:
        """Return the splits of a round on the cluster as it is; no splits if there are too few brokers.

        A namespace's number of bundles is read from the cluster only if a bundle of this namespace would be split. With
        these numbers the decision is made again, because a namespace may have reached its limit.
        """
        if too_few(look.current, self.wanted.caps):
            return DecidedSplits()
        entries = self.state.splits_since(look.at_ms - HOUR_MS)
        room = split_room(entries, self.wanted.caps.splits_per_hour, now_ms=look.at_ms)
        snapshot = self._snapshot(_facts(look, {}))
        counts: dict[str, int] = {}
        unreadable: dict[str, str] = {}
        for _ in range(_COUNTINGS):
            decided = decide_splits(snapshot, self.configuration, counts, room, unreadable)
            unread = decided.namespaces() - counts.keys() - unreadable.keys()
            if not unread:
                break
            for namespace in sorted(unread):
                try:
                    counts[namespace] = len(await self.cluster.bundles_of(namespace))
                except (NotNowError, RefusedError) as error:
                    unreadable[namespace] = str(error)
        return decided

    def decide(self, look: Look, splits: DecidedSplits) -> DecidedRound | None:
        """Return the moves of a round on the cluster as it is; None if there are too few brokers. A bundle that is
        split does not move.
        """
        if too_few(look.current, self.wanted.caps):
            return None
        throughputs = self._throughputs()
        grace_ms = self.wanted.caps.grace_ms
        entries = self.state.moves_since(look.at_ms - max(HOUR_MS, grace_ms))
        past = past_moves(entries, throughputs, since_ms=look.at_ms - max(HOUR_MS, grace_ms))
        recently = self._lately(self._moved, look.at_ms) | within_grace(past, now_ms=look.at_ms, grace_ms=grace_ms)
        split = self.state.splits_since(look.at_ms - HOUR_MS)
        room = self._room(past, look.at_ms, immovable(splits.splits, split))
        facts = _facts(look, recently)
        return self.decider.decide(self._to_decide(self.view.reports, look.owners, facts, self._averages), room)

    def imagine(self, look: Look) -> DecidedRound | None:
        """Return the moves of a round on the imagined cluster, in which all moves that `observe` decided on so far were
        made; then count the new moves as made, too.
        """
        if too_few(look.current, self.wanted.caps):
            return None
        throughputs = self._throughputs()
        past = [PastMove(at_ms, bundle, throughputs.get(bundle, 0.0)) for bundle, at_ms in self.kept.moved.items()]
        recently = self._lately(self.kept.moved, look.at_ms)
        reports = {broker: self.view.reports[broker] for broker in look.current}
        places = differing(self.kept.places, look.owners, reports)
        elsewhere = would_be(reports, look.owners, places)
        self._average(self._would_be_averages, elsewhere)
        owners = {**look.owners, **places}
        snapshot = self._to_decide(elsewhere, owners, _facts(look, recently), self._would_be_averages)
        decided = self.decider.decide(snapshot, self._room(past, look.at_ms))
        horizon_ms = max(HOUR_MS, self.wanted.caps.grace_ms)
        moved = {bundle: at_ms for bundle, at_ms in self.kept.moved.items() if look.at_ms - at_ms <= horizon_ms}
        for one in decided.moves:
            places[one.move.bundle], moved[one.move.bundle] = one.move.destination, look.at_ms
        self.kept = msgspec.structs.replace(self.kept, places=places, moved=moved)
        return decided

    def _lately(self, moved: Mapping[str, int], now_ms: int) -> dict[str, int]:
        return {bundle: at for bundle, at in moved.items() if now_ms - at <= self.wanted.caps.grace_ms}

    def _room(self, past: list[PastMove], now_ms: int, staying: Mapping[str, str] | None = None) -> Room:
        round_ms = round(self.wanted.interval_s * 1000)
        return Room(self.wanted.caps, past, now_ms=now_ms, round_ms=round_ms, staying=staying)

    def _throughputs(self) -> dict[str, float]:
        return {bundle: throughput for bundle, (throughput, _) in self._loads_of_bundles().items()}

    def _average(self, averages: MovingAverages, reports: Mapping[str, LocalBrokerData]) -> None:
        """Count the newest reports for the moving averages, if the strategy is one of the extensible load manager,
        which decides on such averages.
        """
        if self._manager is ManagerKind.EXTENSIBLE:
            for broker, report in reports.items():
                averages.add(broker, report, self.configuration)

    def _to_decide(
        self,
        reports: Mapping[str, LocalBrokerData],
        owners: Mapping[str, str],
        facts: Facts,
        averages: MovingAverages,
    ) -> LoadSnapshot:
        """Return the snapshot on which the strategy decides."""
        return document_for(self._manager, reports, self.view.bundles, owners, averages, facts).snapshot()

    def _snapshot(self, facts: Facts) -> LoadSnapshot:
        return document_of(self.view.reports, self.view.bundles, facts).snapshot()

    async def changed_policies(self, decided: DecidedRound) -> str:
        """Return the namespaces, among those of the bundles that the round moves, whose anti-affinity group has changed
        since the round was decided, separated by commas; "" if there is none.

        Raises:
            NotNowError, RefusedError, TimeoutError: the groups cannot be read.
        """
        namespaces = {one.move.bundle.rpartition("/")[0] for one in decided.moves}
        return ", ".join(await self.policies.changed(namespaces, _now_ms()))

    # ---- note ----

    def note(
        self,
        look: Look,
        decided: DecidedRound | None,
        splits: DecidedSplits,
        *,
        imagined: bool,
        state: str,
        held_up: str,
    ) -> RoundRecord:
        """Update the score, store it and the record of this round in the state folder, and return the record.

        `imagined`: the moves in `decided` are not made (mode `observe`), but count for the score as if they were.
        `state` is the balancer's state as a word; `held_up` says why no move may begin, "" if moves may.

        Raises:
            OSError: the state folder cannot be written.
        """
        now = look.balance
        ours = decided.balance if decided is not None and imagined else now
        self._keep_score(look, decided, now, ours, imagined=imagined)
        self._moved = self._lately(self._moved, look.at_ms)
        record = RoundRecord(
            at=look.at_ms,
            mode=self.wanted.mode,
            brokers=len(look.listed),
            current=len(look.current),
            bundles=sum(not is_of_a_broker_itself(bundle) for bundle in look.owners),
            failed=dict(look.failed),
            balance=now.sentence,
            above_mean=now.above_mean,
            our_above_mean=ours.above_mean,
            client_errors=self._client_errors,
            why="" if decided is None else decided.why,
            decided=() if decided is None else tuple(one.move for one in decided.moves[:_MAX_SHOWN]),
            stays={} if decided is None else dict(list(decided.stays.items())[:_MAX_SHOWN]),
            seen=look.moves[:_MAX_SHOWN],
            splits=splits.splits,
            whole=splits.whole,
            state=state,
            held_up=held_up or too_few(look.current, self.wanted.caps),
            score=self.kept.score,
        )
        self.state.keep(self.kept)
        self.state.note_round(record)
        return record

    def _keep_score(
        self, look: Look, decided: DecidedRound | None, now: Balance, ours: Balance, *, imagined: bool
    ) -> None:
        cluster, our = self.kept.score.cluster.with_balance(now), self.kept.score.ours.with_balance(ours)
        for move in look.moves:
            if move.whose is not Whose.FAILOVER:
                cluster = cluster.with_move(*self._loads.get(move.bundle, (0.0, 0)))
            if move.whose is Whose.OURS and not imagined:
                our = our.with_move(*self._loads.get(move.bundle, (0.0, 0)))
        for one in _imagined(decided, imagined=imagined):
            our = our.with_move(one.throughput, one.sessions)
        self.kept = msgspec.structs.replace(
            self.kept,
            score=Score(cluster=cluster, ours=our),
            memory=self.decider.memory(),
            strategy=self.wanted.strategy,
        )

    def _loads_of_bundles(self) -> dict[str, tuple[float, int]]:
        """Return a mapping from bundle to its throughput (bytes/s) and the number of its clients, by the newest
        reports.
        """
        return {
            bundle: (throughput_of(stats), stats.consumer_count + stats.producer_count)
            for report in self.view.reports.values()
            for bundle, stats in report.last_stats.items()
        }


def _facts(look: Look, recently_moved: Mapping[str, int]) -> Facts:
    return Facts(brokers=look.current, taken_at_ms=look.at_ms, recently_moved=recently_moved, policies=look.policies)


def _imagined(decided: DecidedRound | None, *, imagined: bool) -> tuple[DecidedMove, ...]:
    return decided.moves if decided is not None and imagined else ()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
