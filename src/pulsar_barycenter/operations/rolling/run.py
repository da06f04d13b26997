"""Carries out a roll: does the next action, writes what was done to the journal, and repeats.

Before each step the cluster is read again: which brokers are listed and healthy, who leads, whether shedding and
splitting are still off, and who owns which bundle. If a check fails, the roll stops with a sentence that says why; the
same command, given again, continues it. A stop by an operator takes effect between two requests: moves in progress and
a running hook are completed first.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pulsar_barycenter.naming.bundle import may_leave_its_broker
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.executor import (
    ElsewhereError,
    Failure,
    NotNowError,
    RefusedError,
    execute,
    stops_after_each,
    when_told,
)
from pulsar_barycenter.operations.journal import MoveState
from pulsar_barycenter.operations.own_balancing import Balancing, Remembered
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.rolling.contract import (
    UNKNOWN,
    Hooks,
    RolledCluster,
    RollJournal,
    RollOptions,
    RollStopped,
    RollTold,
)
from pulsar_barycenter.operations.rolling.plan import (
    Cluster,
    Step,
    emptied,
    limits_of,
    namespace_of,
    refilled,
)
from pulsar_barycenter.operations.rolling.progress import (
    NO_ORDER,
    Action,
    AwaitBack,
    AwaitReports,
    Empty,
    Finish,
    Nothing,
    Pause,
    Progress,
    Refill,
    Restart,
    Restore,
    RollEntry,
    RollEvent,
    RollOrder,
    Show,
    Start,
    after,
    next_action,
    progress_of,
    with_leader_last,
)
from pulsar_barycenter.operations.rolling.reports import (
    Arrival,
    SeenReport,
    receivers_arrival,
    restarted_arrival,
    settle_s,
)
from pulsar_barycenter.operations.rolling.waiting import ANSWERS_S, Waiting, pauses_between_looks

_PASSES: Final = 5
"""The number of attempts to empty a broker: each moves what it got during the previous one."""
_AWAY_S: Final = 30.0
"""How long a roll that continues waits for a broker whose restart an earlier run requested; after that, it requests the
restart again.
"""


@dataclass(frozen=True, slots=True)
class View:
    """What was read of the cluster at one moment: its brokers, its leader, and what `plan` needs to plan moves
    (`Cluster` of `rolling.plan`).
    """

    brokers: tuple[str, ...]
    leader: str
    plan: Cluster


async def view_of(cluster: RolledCluster, receivers: Collection[str], *, serving: int, room: float) -> View:
    """Read the cluster, without the bundles of the brokers' own namespaces (heartbeat, SLA monitor). Those of
    `receivers` that are registered brokers get the limits that `limits_of` returns for `serving` and `room`.

    Raises:
        NotNowError, RefusedError: the cluster does not answer.
    """
    brokers = tuple(sorted(await when_told(cluster.brokers)))
    owners = {}
    for broker in brokers:
        for bundle in await when_told(partial(cluster.owned, broker)):
            if may_leave_its_broker(bundle):
                owners[bundle] = broker
    loads = await when_told(cluster.loads)
    may_serve = await when_told(partial(cluster.may_serve, brokers))
    groups = await when_told(partial(cluster.groups, frozenset(map(namespace_of, owners))))
    able = tuple(broker for broker in brokers if broker in receivers)
    limits = limits_of(owners, loads, able, serving=serving, room=room)
    return View(brokers, await when_told(cluster.leader), Cluster(owners, loads, limits, may_serve, groups))


def serving_in(order: RollOrder) -> int:
    """Return how many brokers share all bundles while a step of the roll is under way: all brokers of the roll except
    one batch, the one that restarts. With a second pool these are the new brokers and those that need no restart.
    """
    if order.pool:
        return len(order.ready) + len(order.pool)
    return len(order.ready) + len(order.brokers) - max(map(len, order.batches), default=0)


class Roll:
    """Carries out a roll. `clock_ms` returns epoch ms; `stop` returns the reason to stop, blank if there is none."""

    def __init__(
        self,
        cluster: RolledCluster,
        hooks: Hooks,
        journal: RollJournal,
        options: RollOptions,
        told: RollTold,
        *,
        by: str,
        clock_ms: Callable[[], int],
        stop: Callable[[], str],
    ) -> None:
        self._cluster = cluster
        self._hooks = hooks
        self._journal = journal
        self._options = options
        self._told = told
        self._by = by
        self._clock_ms = clock_ms
        self._stop = stop
        self._waiting = Waiting(cluster, options, stop)
        self._balancing = Balancing(cluster)
        self._received: dict[str, set[str]] = {}
        self._before: dict[str, SeenReport] = {}
        self.moves: Counter[str] = Counter()
        """How often each bundle was moved by this process."""
        self.progress = progress_of(journal.read())

    # ---- begin, and run ----

    async def begin(self, order: RollOrder) -> None:
        """Begin a roll: write its order to the journal, together with the present values of the settings that it will
        change, so that they can be restored. Nothing is changed in the cluster yet.
        """
        before = await self._balancing.remembered()
        self._note(RollEvent.BEGUN, order=order, before=before)

    async def roll_back(self, order: RollOrder) -> None:
        """Write to the journal that the roll goes back from now on, in `order`. `run` then carries it out."""
        is_paused = self.progress.is_paused and not self.progress.is_restored
        before = () if is_paused else await self._balancing.remembered()
        self._note(RollEvent.ROLLED_BACK, order=order, before=before)

    async def run(self) -> Progress:
        """Carry out the roll. Return its state when it is finished, or when it stops so that a person can look at the
        canary brokers.

        Raises:
            RollStopped: it stopped for another reason before its end.
        """
        try:
            while not isinstance(action := next_action(self.progress), Nothing):
                if reason := self._stop():
                    raise RollStopped(reason)
                await self._do(action)
                if isinstance(action, Show):
                    break
        except (RefusedError, NotNowError) as error:
            raise RollStopped(str(error)) from error
        except TimeoutError as error:
            raise RollStopped("the brokers did not answer in time; look at them with `barycenter doctor`") from error
        return self.progress

    async def abort(self) -> Mapping[str, str]:
        """Restore the settings that the roll changed, and record that the roll has ended; brokers stay as they are.
        Return the settings that are not restored, each with the reason.

        Raises the errors of `Balancing.restore`.
        """
        kept = (
            await self._balancing.restore(self.progress.before)
            if self.progress.before and not self.progress.is_restored
            else {}
        )
        self._note(RollEvent.ABORTED)
        return kept

    async def _do(self, action: Action) -> None:
        match action:
            case Pause():
                await self._pause()
            case Start(broker):
                await self._start(broker)
            case Empty(brokers):
                await self._empty(brokers)
            case Restart(broker, identity):
                await self._restart(broker, identity)
            case AwaitBack(broker, identity):
                await self._await_back(broker, identity)
            case AwaitReports(brokers):
                await self._await_reports(brokers)
            case Refill(brokers):
                await self._refill(brokers)
            case Show(brokers):
                self._note(RollEvent.SHOWN, brokers=brokers)
            case Restore():
                await self._restore()
            case Finish():
                await self._finish()

    # ---- the actions ----

    async def _pause(self) -> None:
        self._told.say("switching shedding and splitting off, and waiting until every broker uses the new settings")
        await self._balancing.pause()
        self._note(RollEvent.PAUSED)

    async def _start(self, broker: str) -> None:
        if broker not in await self._waiting.ask(self._cluster.brokers):
            self._told.say(f"starting {broker}")
            await self._hooks.start(broker)
        await self._waiting.until_in_service(broker, "", self._options.back_s)
        self._note(RollEvent.STARTED, brokers=(broker,))
        self._told.say(f"{broker} is in service")

    async def _empty(self, brokers: tuple[str, ...]) -> None:
        if await self._reordered(brokers):
            return
        number = f"step {self.progress.step + 1} of {len(self.progress.order.batches)}"
        self._told.say(f"{number}: emptying {', '.join(brokers)}")
        await self._move_away(brokers)
        await self._remember_reports()
        self._note(RollEvent.EMPTIED, brokers=brokers)

    async def _restart(self, broker: str, identity: str) -> None:
        if identity and await self._has_taken_effect(broker, identity):
            self._note(RollEvent.RESTARTED, brokers=(broker,))
            return
        if broker in await self._waiting.ask(self._cluster.brokers):
            await self._check_before_restart(broker)
        if not identity:
            # the identity is written before the request, so that a killed roll sees whether it took effect
            report = await self._waiting.ask(partial(self._cluster.report, broker))
            now = await self._waiting.identity(broker) or UNKNOWN
            self._note(RollEvent.RESTARTING, brokers=(broker,), identity=now, reported_at=report.at_ms)
        words = "ending" if self.progress.order.pool else "restarting"
        self._told.say(f"{words} {broker}")
        await self._hooks.restart(broker)
        self._note(RollEvent.RESTARTED, brokers=(broker,))

    async def _has_taken_effect(self, broker: str, identity: str) -> bool:
        """Return whether a restart of `broker` that an earlier run of the command requested has happened. The restart
        has happened if the broker's process is another one than that of `identity`, its identity before the restart.

        If the broker is not registered: with a second pool, return True; otherwise wait up to 30 s for it to be
        registered, and return False if it is not.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pauses = pauses_between_looks()
        while broker not in await self._waiting.ask(self._cluster.brokers):
            if self.progress.order.pool:
                return True
            if loop.time() - began > _AWAY_S:
                return False
            await self._waiting.pause_for(pauses.next_s())
        return identity != UNKNOWN and await self._waiting.identity(broker) not in ("", identity)

    async def _check_before_restart(self, broker: str) -> None:
        """Check the other brokers again before the first restart of a batch. If `broker` has got bundles since it was
        emptied, move them away.

        Raises:
            RollStopped: a check failed, or bundles cannot leave.
        """
        batch = self.progress.batch
        asked = {name for name, _ in self.progress.restarting}
        if not asked:
            await self._check(batch)
        if left := await self._movable(broker):
            self._told.say(f"{broker} got {count_of(len(left), 'bundle')} since it was emptied; moving these too")
            await self._move_away(tuple(name for name in batch if name not in asked))

    async def _await_back(self, broker: str, identity: str) -> None:
        if self.progress.order.pool:
            await self._waiting.until_gone(broker)
            self._note(RollEvent.BACK, brokers=(broker,))
            self._told.say(f"{broker} has ended: it is not listed any more")
            return
        await self._waiting.until_in_service(broker, identity, self._options.back_s)
        self._note(RollEvent.BACK, brokers=(broker,))
        self._told.say(f"{broker} is listed, healthy at its own address, and its name resolves")

    async def _await_reports(self, brokers: tuple[str, ...]) -> None:
        gone = brokers if self.progress.order.pool else ()
        listed = [broker for broker in await self._waiting.ask(self._cluster.brokers) if broker not in gone]
        # after a crash it is not known which brokers received bundles: then all others count
        wanted = [broker for broker in listed if broker in brokers or broker in self._received or not self._received]
        time_s = settle_s(await self._waiting.ask(self._cluster.settings))
        sentences = [f"{broker}: {await self._until_reported(broker, time_s)}" for broker in wanted]
        self._note(RollEvent.SETTLED, brokers=brokers, detail="; ".join(sentences))
        self._received.clear()
        self._before.clear()
        for sentence in sentences:
            self._told.say(f"report of {sentence}")

    async def _refill(self, brokers: tuple[str, ...]) -> None:
        await self._check(())
        order = self.progress.order
        receivers = (*order.ready, *order.brokers)
        view = await self._view(receivers, serving=len(receivers))
        moves = refilled(view.plan, brokers, tuple(view.plan.limits))
        if moves:
            self._told.say(f"{count_of(len(moves), 'move')} back to {', '.join(brokers)}")
            await self._execute(moves)
        self._note(RollEvent.REFILLED, brokers=brokers)

    async def _restore(self) -> None:
        self._told.say("restoring the settings of shedding and splitting")
        kept = await self._balancing.restore(self.progress.before)
        detail = "; ".join(f"{key} stays: {why}" for key, why in kept.items())
        self._note(RollEvent.RESTORED, detail=detail)
        if detail:
            self._told.say(detail)

    async def _finish(self) -> None:
        order = self.progress.order
        expected = (*order.ready, *(order.pool or order.brokers))
        await self._check((), expected)
        self._note(RollEvent.FINISHED)

    # ---- checks ----

    async def _reordered(self, brokers: tuple[str, ...]) -> bool:
        """Check the cluster before a step. If another broker is the leader now, and restarts in this step, change the
        order of the roll so that it restarts last, and return True; otherwise return False.

        Raises:
            RollStopped: a check failed.
        """
        await self._check(brokers)
        leader = await self._waiting.ask(self._cluster.leader)
        order = with_leader_last(self.progress, leader)
        if order == self.progress.order:
            return False
        self._note(RollEvent.REORDERED, order=order, detail=f"{leader} leads now")
        self._told.say(f"{leader} leads now and restarts last")
        return True

    async def _check(self, leaving: Collection[str], expected: Sequence[str] = ()) -> None:
        """Check that the brokers in `expected` (empty: those that have to be in service), except those in `leaving`,
        are registered and healthy. Check also that the cluster's own shedding and splitting are still off, unless the
        roll has restored them.

        Raises:
            RollStopped: one of these checks failed.
        """
        if not self.progress.is_restored and not await self._balancing.is_paused():
            raise RollStopped(
                "shedding or splitting, which the roll had switched off, is on again; set"
                " loadBalancerSheddingEnabled and loadBalancerAutoBundleSplitEnabled to false, or end the roll with"
                " --abort"
            )
        listed = await self._waiting.ask(self._cluster.brokers)
        for broker in expected or self._serving():
            if broker in leaving:
                continue
            if broker not in listed:
                raise RollStopped(f"{broker} is not among the running brokers of the cluster; start this broker first")
            if not await self._waiting.is_healthy(broker):
                raise RollStopped(
                    f"{broker} is not healthy: the health check at its own address fails; repair this broker first"
                )

    def _serving(self) -> tuple[str, ...]:
        """Return the brokers of the roll that have to be in service at this point. Those of the present step are among
        them; the caller leaves them out while they restart.
        """
        now = self.progress
        if now.order.pool:
            return (*now.ready, *(broker for broker in now.order.brokers if broker not in now.settled))
        return (*now.order.ready, *now.order.brokers)

    # ---- moves ----

    async def _move_away(self, brokers: tuple[str, ...]) -> None:
        for _ in range(_PASSES):
            step = await self._step(brokers)
            if not step.moves:
                return
            for bundle, broker in (await self._execute(step.moves)).items():
                for bundles in self._received.values():
                    bundles.discard(bundle)
                self._received.setdefault(broker, set()).add(bundle)
        if left := {broker: len(await self._movable(broker)) for broker in brokers if await self._movable(broker)}:
            told = ", ".join(f"{broker} has {count_of(count, 'bundle')}" for broker, count in left.items())
            raise RollStopped(
                f"{told} after {_PASSES} passes of moves: a program or the cluster assigns bundles to the broker"
                " faster than the roll moves them away; stop the program, or give the same command again"
            )

    async def _step(self, brokers: tuple[str, ...]) -> Step:
        """Return the step with the moves that empty `brokers`, planned for the cluster as it is now.

        Raises:
            RollStopped: no other broker has room for a bundle, or no other broker may serve it and
                `RollOptions.leaves_behind` is False.
        """
        now = self.progress
        receivers = [broker for broker in (*now.ready, *now.waiting) if broker not in brokers]
        view = await self._view(receivers, serving=serving_in(now.order))
        able = view.plan.limits
        step = emptied(
            view.plan,
            brokers,
            restarted=[broker for broker in now.ready if broker in able],
            waiting=[broker for broker in now.waiting if broker in able],
        )
        if step.no_room:
            bundle, why = min(step.no_room.items())
            raise RollStopped(
                f"{count_of(len(step.no_room), 'bundle')} of {', '.join(brokers)} fit on no other broker ({bundle}:"
                f" {why}); add brokers, or allow more load on the other brokers with a greater --room"
            )
        if step.stay and not self._options.leaves_behind:
            bundle, why = min(step.stay.items())
            raise RollStopped(
                f"{count_of(len(step.stay), 'bundle')} of {', '.join(brokers)} cannot leave ({bundle}: {why}); change"
                " the isolation policy, or give --leave-behind to accept that the topics of these bundles are not"
                " served during the restart"
            )
        return step

    async def _view(self, receivers: Collection[str], *, serving: int) -> View:
        reading = view_of(self._cluster, receivers, serving=serving, room=self._options.room)
        async with asyncio.timeout(ANSWERS_S):
            return await reading

    async def _movable(self, broker: str) -> list[str]:
        owned = await self._waiting.ask(partial(self._cluster.owned, broker))
        return [name for name in owned if may_leave_its_broker(name)]

    async def _execute(self, moves: Sequence[PlannedMove]) -> dict[str, str]:
        """Carry out planned moves, and return for each bundle that arrived the broker that serves it.

        The roll goes on if the cluster assigns bundles to other brokers than the destinations, or if one bundle does
        not arrive in time: before a restart, moves are planned again until the broker is empty.

        Raises:
            RollStopped: a broker refused, something else moves bundles, or several moves did not arrive in time.
        """
        arrived: dict[str, str] = {}
        late: list[PlannedMove] = []

        def stops_after(move: PlannedMove, failure: Failure) -> str:
            match failure:
                case ElsewhereError():
                    arrived[move.bundle] = failure.owner
                    return ""
                case TimeoutError() if not late:
                    late.append(move)
                    return ""
            return stops_after_each(move, failure)

        def tell(move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
            if state is MoveState.SERVED:
                arrived[move.bundle] = move.destination
            if state in (MoveState.SERVED, MoveState.FAILED) and move.bundle in arrived:
                self.moves[move.bundle] += 1
            self._told.move(move, state, detail, took_s)

        outcome = await execute(moves, self._cluster, self._options.pace, tell, self._stop, stops_after=stops_after)
        if outcome.stopped_by:
            raise RollStopped(outcome.stopped_by)
        return arrived

    # ---- reports ----

    async def _remember_reports(self) -> None:
        for broker in self._received:
            self._before[broker] = await self._waiting.ask(partial(self._cluster.report, broker))

    async def _until_reported(self, broker: str, time_s: float) -> str:
        return await self._waiting.until_reported(broker, await self._judge_of_reports(broker, time_s), time_s)

    async def _judge_of_reports(self, broker: str, time_s: float) -> Callable[[SeenReport, float], Arrival]:
        """Return a function that says whether the expected load report of the broker has arrived. Its arguments are the
        newest report and the seconds waited. `time_s` is the time within which a broker publishes a change
        (`settle_s`).
        """
        now = await self._waiting.ask(partial(self._cluster.report, broker))
        restarted = dict(self.progress.reported_at)
        if broker in restarted:
            life = await self._waiting.identity(broker)
            return lambda seen, waited_s: restarted_arrival(seen, life, restarted[broker], now, waited_s, time_s)
        loads = await self._waiting.ask(self._cluster.loads)
        expected = frozenset(bundle for bundle in self._received.get(broker, ()) if loads.get(bundle, 0.0) > 0)
        before = self._before.get(broker, now)  # after a crash the present report is the one to compare with
        return lambda seen, waited_s: receivers_arrival(seen, before, expected, waited_s, time_s)

    def _note(
        self,
        event: RollEvent,
        *,
        brokers: tuple[str, ...] = (),
        identity: str = "",
        reported_at: int = 0,
        detail: str = "",
        order: RollOrder = NO_ORDER,
        before: tuple[Remembered, ...] = (),
    ) -> None:
        entry = RollEntry(
            at=self._clock_ms(),
            by=self._by,
            event=event,
            brokers=brokers,
            identity=identity,
            reported_at=reported_at,
            detail=detail,
            order=order,
            before=before,
        )
        self._journal.append(entry)
        self.progress = after(self.progress, entry)
