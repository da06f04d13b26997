"""Repeats rounds until the process is asked to end: look, take the lease, decide, note, carry out.

At the end the moves in progress are waited for, then what was taken over is given back (`right_to_act`). A process that
lost its lease ends.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.balancer.approval import Proposal, answer_to, propose, withdraw
from pulsar_barycenter.balancer.carrying_out import BY, Carrier, SplitCarrier
from pulsar_barycenter.balancer.client_errors import ClientErrors
from pulsar_barycenter.balancer.facts import FactsError, one_cluster
from pulsar_barycenter.balancer.judging.deciding import DecidedRound
from pulsar_barycenter.balancer.judging.journal_view import under_way
from pulsar_barycenter.balancer.judging.load_view import LoadView
from pulsar_barycenter.balancer.judging.splits import DecidedSplits
from pulsar_barycenter.balancer.judging.watchdog import Cause, Watched, blind, moved_after
from pulsar_barycenter.balancer.lease import LeaseError, LeaseLostError
from pulsar_barycenter.balancer.metrics import MetricsServer, Numbers
from pulsar_barycenter.balancer.options import HOUR_MS, Mode, Wanted
from pulsar_barycenter.balancer.page import BalancePage, read_token
from pulsar_barycenter.balancer.right_to_act import BalanceError, RightToAct, one_address, process_name
from pulsar_barycenter.balancer.rounds import Look, RoundRecord, Rounds
from pulsar_barycenter.balancer.state_folder import StateFolder
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collecting import Collection, locked_for_recording, open_collector
from pulsar_barycenter.observer.collector import CollectError
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.journal import MoveState
from pulsar_barycenter.operations.own_balancing import SHEDDING, SPLITTING, is_on
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.policies_read import PoliciesReader
from pulsar_barycenter.operations.splitting import PlannedSplit, SplitState, splits_under_way

_REQUEST_TIMEOUT_S: Final = 70.0
_CHECK_S: Final = 0.5
_UNREADABLE: Final = (
    *(CollectError, FactsError, NotNowError, RefusedError, TimeoutError),
    *(StrategyError, ConfigError, msgspec.ValidationError),
)
"""The cluster does not answer, or not as expected; the next round may."""
_SWITCHED_ON: Final = {Cause.SHEDDING_ON: SHEDDING, Cause.SPLITTING_ON: SPLITTING}
"""The key that somebody has switched on; it stays on."""

Tell: TypeAlias = Callable[[RoundRecord | str], None]
"""Receives the record of each round, and sentences about what happens in between."""


Reasons: TypeAlias = Callable[[str], Mapping[str, str]]
"""Returns the headers of a request that has this reason."""


async def balance(new_client: NewClient, conf: ClientConf, wanted: Wanted, tell: Tell, reasons: Reasons) -> None:
    """Balance the cluster until SIGINT or SIGTERM, or for the number of rounds in `wanted`.

    `conf` has the credentials for the binary protocol. `tell` receives the record of each round, and sentences about
    what happens between rounds. `reasons` returns the headers with which a request carries a given reason; brokers of
    Barycenter store this reason with the move.

    Raises:
        BalanceError: the first round failed, the lease was lost, or the cluster's own settings could not be restored at
            the end.
        FactsError, StateError, JournalError, CollectError, OSError: the cluster or the state folder cannot be used.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await balance_until(stop, new_client, conf, wanted, tell, reasons)


async def balance_until(
    stop: asyncio.Event, new_client: NewClient, conf: ClientConf, wanted: Wanted, tell: Tell, reasons: Reasons
) -> None:
    """Balance as `balance` does, until `stop` is set, without handling signals."""
    client = new_client(timeout_s=_REQUEST_TIMEOUT_S, why=BY)
    try:
        clusters = {url: AdminCluster(client, url) for url in wanted.urls}
        identity = await one_cluster(clusters)
        state = StateFolder(wanted.state)
        state.check(identity)
        with state.journal.held(), locked_for_recording(wanted.state):
            of_moves: dict[str, str] = {}
            cluster = AdminCluster(client, wanted.urls[0], headers_of=lambda bundle: reasons(of_moves.get(bundle, BY)))
            async with _open(new_client, conf, wanted, state, client, cluster) as run:
                tell(f"balancing {identity} in the mode {wanted.mode}; the state is in {wanted.state}")
                await _Run(run, conf, wanted, state, stop, tell, of_moves).go()
    finally:
        await client.close()


@asynccontextmanager
async def _open(
    new_client: NewClient,
    conf: ClientConf,
    wanted: Wanted,
    state: StateFolder,
    client: AdminClient,
    cluster: AdminCluster,
) -> AsyncIterator[Rounds]:
    log = FileReportLog(wanted.state / "load-reports", retention_hours=wanted.keep_days * 24)
    view = LoadView(log.append)
    service_url = wanted.service_url or None
    collection = Collection(wanted.urls, wanted.state, wanted.interval_s, 0, wanted.keep_days, service_url)
    state.read_moves()
    state.read_splits()
    async with open_collector(
        new_client, conf, collection, view, view.published, subscription=process_name()
    ) as collector:
        errors = ClientErrors(new_client, _now_ms)
        try:
            kept, policies = state.kept(wanted.strategy), PoliciesReader(cluster)
            yield Rounds(wanted, client, collector, view, cluster, state, kept, errors, policies)
        finally:
            await errors.close()


class _Run:
    """One run of the balancer in this process: its rounds, its lease, and the settings that it took over."""

    def __init__(
        self,
        rounds: Rounds,
        conf: ClientConf,
        wanted: Wanted,
        state: StateFolder,
        stop: asyncio.Event,
        tell: Tell,
        of_moves: dict[str, str],
    ) -> None:
        self._rounds = rounds
        self._wanted = wanted
        self._state = state
        self._stop = stop
        self._tell = tell
        self._numbers = Numbers(wanted.mode)
        self._page = BalancePage(wanted.state)
        self._right = RightToAct(rounds.cluster, conf, wanted, state, tell)
        self._proposal: Proposal | None = None
        self._looked_ms = 0
        self._has_told_errors = False
        self._carrier = Carrier(rounds.cluster, state, wanted.caps, self._why_not, self._tell_move, of_moves)
        self._splitter = SplitCarrier(rounds.cluster, state, wanted.caps, self._why_not, self._tell_split, of_moves)

    async def go(self) -> None:
        """Run the rounds. At the end, also after an error, restore the settings that were switched off and release the
        lease.
        """
        if self._wanted.mode is Mode.OBSERVE and (found := self._state.taken_over()) is not None:
            self._tell(
                f"an earlier process has switched the cluster's own balancing off ({found.sentence}). Put it back: "
                f"barycenter balance restore --state {self._wanted.state}"
            )
        withdraw(self._wanted.state)  # of a process that was killed
        if self._wanted.metrics_port and self._wanted.mode is Mode.ADVISE:
            self._page.token = read_token(self._wanted.state)
        server = MetricsServer(self._numbers, self._wanted.metrics_port, self._page.add_to)
        await server.start()
        renewing = asyncio.create_task(self._right.renew())
        try:
            await self._repeat()
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            try:
                await self._right.give_back()
            finally:
                withdraw(self._wanted.state)
                await server.close()

    async def _repeat(self) -> None:
        loop = asyncio.get_running_loop()
        due, number = loop.time(), 0
        while not self._stop.is_set():
            number += 1
            await self._try_round(number)
            if number == self._wanted.rounds:
                return
            due = max(due + self._wanted.interval_s, loop.time())
            await self._wait_until(due)
            if self._right.lost:
                raise BalanceError(
                    f"{self._right.lost}; so this process ends, and changes the cluster no further. Start balance "
                    "again: it waits until the lease is free"
                )

    async def _try_round(self, number: int) -> None:
        try:
            await self._round()
        except _UNREADABLE as error:
            self._numbers.failed_rounds += 1
            if number == 1:
                raise BalanceError(str(error) or "the cluster did not answer in time") from error
            self._tell(f"{str(error) or 'the cluster did not answer in time'}; trying again in the next round")
        except (LeaseLostError, LeaseError) as error:
            raise BalanceError(str(error)) from error

    # ---- a round ----

    async def _round(self) -> None:
        rounds, mode = self._rounds, self._wanted.mode
        look = await rounds.look(off=self._off())
        self._looked_ms = look.at_ms
        self._tell_unknown_errors()
        if rounds.clock_trouble and not self._numbers.rounds:
            raise FactsError(rounds.clock_trouble)
        if len(look.failed) == len(look.listed) and not rounds.view.is_published:  # else they may publish it later
            broker, why = next(iter(look.failed.items()), ("no broker", "none is registered"))
            raise FactsError(f"no broker returned its load, so this round decides nothing; for example {broker}: {why}")
        if mode.moves:
            await self._hold_lease(look)
        await self._hand_back_if_over()
        splits = await self._decided_splits(look)
        decided = self._decided(look, splits)
        held_up, imagined = self._why_not(), mode is Mode.OBSERVE
        record = rounds.note(look, decided, splits, imagined=imagined, state=self._state_word(), held_up=held_up)
        self._count(look, record)
        self._tell(record)
        if mode is Mode.ACT:
            await self._carry_out_splits(splits.splits)
        if decided is not None and decided.moves:
            await self._do(look, decided)

    def _tell_unknown_errors(self) -> None:
        """If the errors of clients are not known, report that, once in a run."""
        if (why := self._rounds.errors.why_unknown) and not self._has_told_errors:
            self._has_told_errors = True
            self._tell(f"moves are not judged by the errors of clients, which no broker reports: {why}")

    async def _decided_splits(self, look: Look) -> DecidedSplits:
        if self._why_not() or not self._wanted.split.splits(self._wanted.mode, own=self._own_splits(look)):
            return DecidedSplits()
        return await self._rounds.decide_splits(look)

    def _own_splits(self, look: Look) -> bool:
        """Return whether the cluster splits on its own while no balancer acts."""
        before = () if self._right.taken_over is None else self._right.taken_over.before
        remembered = {known.key: known.value for known in before}
        return is_on(SPLITTING, {**look.settings, **remembered})

    def _off(self) -> tuple[str, ...]:
        """Return the keys of the cluster's own balancing that this process has switched off."""
        if self._right.taken_over is None or not self._right.is_ready or self._wanted.mode is not Mode.ACT:
            return ()
        return tuple(known.key for known in self._right.taken_over.before)

    async def _carry_out_splits(self, splits: Sequence[PlannedSplit]) -> None:
        maximum = self._rounds.configuration.load_balancer_namespace_maximum_bundles
        split, failed = await self._splitter.carry_out(splits, maximum)
        self._numbers.splits["split"] += split
        self._numbers.splits["failed"] += failed

    def _decided(self, look: Look, splits: DecidedSplits) -> DecidedRound | None:
        if self._wanted.mode is Mode.OBSERVE:
            return self._rounds.imagine(look)
        if self._why_not() or self._waits_for_answer(look.at_ms):
            return None
        return self._rounds.decide(look, splits)

    async def _do(self, look: Look, decided: DecidedRound) -> None:
        moves = [one.move for one in decided.moves]
        if self._wanted.mode.moves and (changed := await self._rounds.changed_policies(decided)):
            self._tell(
                f"nothing of this round moves: the anti-affinity group of {changed} has changed since it was read"
            )
            return
        if self._wanted.mode is Mode.ACT:
            await self._carry_out(moves, decided.balance.above_mean, BY)
        elif self._wanted.mode is Mode.ADVISE:
            until = look.at_ms + round(self._wanted.approved_within_s * 1000)
            self._proposal = Proposal(at=look.at_ms, until=until, moves=tuple(moves), why=decided.why)
            propose(self._wanted.state, self._proposal)
            self._tell(
                f"round {self._proposal.name} with {count_of(len(moves), 'move')} waits for approval: "
                f"barycenter balance approve --state {self._wanted.state}"
            )

    async def _carry_out(self, moves: Sequence[PlannedMove], above_mean: float | None, by: str) -> None:
        errors = await self._rounds.errors_before_moves()
        outcome = await self._carrier.carry_out(moves, by=by)
        self._numbers.carried["served"] += outcome.served
        self._numbers.carried["failed"] += outcome.failed
        if outcome.served:
            self._rounds.watch = moved_after(self._rounds.watch, above_mean, errors, _now_ms())
        if outcome.stopped_by:
            self._tell(f"the round was stopped, so no other move of it begins: {outcome.stopped_by}")

    def _why_not(self) -> str:
        """Return why no move may begin now; blank if moves may begin."""
        if not self._wanted.mode.moves:
            return ""
        if self._stop.is_set():
            return "the process was asked to end"
        if asked := self._state.journal.asked_to_stop():
            self._stop.set()
            return asked
        if why := self._right.why_not:
            return why
        interval_ms = round(self._wanted.interval_s * 1000)
        return self._rounds.watch.why or blind(looked_ms=self._looked_ms, now_ms=_now_ms(), interval_ms=interval_ms)

    def _state_word(self) -> str:
        if self._wanted.mode is Mode.OBSERVE:
            return "observing"
        if self._right.is_standby:
            return "standby"
        if self._wanted.mode is Mode.ADVISE and self._rounds.watch.state is Watched.ACTING:
            return "waiting for approval" if self._proposal else "advising"
        return str(self._rounds.watch.state)

    def _count(self, look: Look, record: RoundRecord) -> None:
        numbers = self._numbers
        self._page.record = record
        numbers.rounds += 1
        numbers.last_round_s = look.at_ms / 1000
        numbers.brokers = len(look.current)
        oldest_ms = min(map(self._rounds.view.measured_ms, look.listed), default=look.at_ms)
        numbers.view_age_s = (look.at_ms - oldest_ms) / 1000
        numbers.is_lease_held = self._right.is_held
        numbers.client_errors = record.client_errors
        numbers.above_mean = {"cluster": record.above_mean, "ours": record.our_above_mean}
        numbers.needed = self._rounds.needed
        numbers.score, numbers.watch = record.score, self._rounds.watch

    def _tell_move(self, move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        if state is MoveState.SERVED:
            self._tell(f"{move.bundle} is served by {move.destination} ({took_s or 0:.1f} s)")
        elif state is not MoveState.BEGUN:
            self._tell(f"{move.bundle}: {state}: {detail}")

    def _tell_split(self, split: PlannedSplit, state: SplitState, detail: str) -> None:
        if state is not SplitState.BEGUN:
            self._tell(f"split of {split.bundle}: {state}: {detail}")

    # ---- advise ----

    def _waits_for_answer(self, now_ms: int) -> bool:
        if self._proposal is not None and now_ms >= self._proposal.until:
            self._tell(f"round {self._proposal.name} was not approved in time, and is not carried out")
            self._withdraw()
        return self._proposal is not None

    def _withdraw(self) -> None:
        self._proposal = None
        withdraw(self._wanted.state)

    async def _wait_until(self, due: float) -> None:
        """Wait until the time `due` of the next round. If a round is approved meanwhile, carry it out, and go on
        waiting. Return early if the process is asked to end, or the lease is lost.
        """
        loop = asyncio.get_running_loop()
        while (left_s := due - loop.time()) > 0 and not self._stop.is_set() and not self._right.lost:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), min(left_s, _CHECK_S))
            await self._heed_answer()
            self._why_not()  # sets `stop` if another process asks for it

    async def _heed_answer(self) -> None:
        proposal = self._proposal
        given = None if proposal is None else answer_to(self._wanted.state, proposal)
        if proposal is None or given is None or _now_ms() >= proposal.until:
            return
        self._withdraw()
        if not given.is_approved:
            self._tell(f"round {proposal.name} was rejected by {given.by}")
        elif why := self._why_not():
            self._tell(f"round {proposal.name} was approved by {given.by}, but is not carried out: {why}")
        else:
            self._tell(f"round {proposal.name} was approved by {given.by}")
            await self._carry_out(proposal.moves, None, f"{BY}, approved by {given.by}")

    # ---- the right to act ----

    async def _hold_lease(self, look: Look) -> None:
        """Take the lease if no other process holds it, then switch off the settings of the cluster's own balancing that
        this mode has to switch off. Each round calls this, so that what failed in one round is tried again in the next.
        """
        await self._right.take(lambda: self._service_url(look))
        if not self._right.is_standby and not self._right.is_ready:
            await self._make_ready(look)

    async def _make_ready(self, look: Look) -> None:
        own_splits = self._own_splits(look)
        await self._right.take_over(self._wanted.takes_over(own_splits=own_splits))
        self._right.is_ready = True
        if self._wanted.mode is Mode.ACT and self._wanted.split.splits(self._wanted.mode, own=own_splits):
            await self._go_on_with_splits()
        await self._go_on()

    def _service_url(self, look: Look) -> str:
        reports = [self._rounds.view.reports[broker] for broker in look.current]
        secure = self._wanted.urls[0].startswith("https:")
        told = [report.pulsar_service_url_tls if secure else report.pulsar_service_url for report in reports]
        found = self._wanted.service_url or one_address(told)
        if not found:
            raise LeaseError(
                "no broker returned its address for the binary protocol, which the lease needs: give --service-url"
            )
        return found

    async def _go_on_with_splits(self) -> None:
        """Finish the splits that a killed process began within the last hour and did not end. Older ones are left as
        they are; a round may decide on them again.
        """
        left = splits_under_way(self._state.splits_since(_now_ms() - HOUR_MS))
        if left:
            self._tell(f"an earlier process left {count_of(len(left), 'split')} unfinished; checking each")
            await self._carry_out_splits(left)

    async def _go_on(self) -> None:
        """Complete the moves that a former process of the balancer had begun and, as it was killed, did not
        complete.
        """
        left = under_way(self._state.moves_since(0))
        if left:
            self._tell(f"an earlier process left {count_of(len(left), 'move')} unfinished; checking each")
            await self._carry_out(left, None, BY)

    async def _hand_back_if_over(self) -> None:
        watch = self._rounds.watch
        if watch.state is not Watched.HANDED_BACK:
            return
        if await self._right.hand_back(stays={key for cause, key in _SWITCHED_ON.items() if cause in watch.reasons}):
            self._tell(f"handed back to the cluster's own balancer: {watch.why}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
