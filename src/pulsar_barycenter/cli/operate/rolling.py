"""Carries out `roll`: shows the plan, runs it, prints progress and the report."""

import asyncio
import dataclasses
import getpass
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pulsar_barycenter.cli.asking.client import asking_client, asking_conf
from pulsar_barycenter.cli.operate.carrying_out import STOPPED, asked_by
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collecting import open_load_topics
from pulsar_barycenter.operations.executor import RefusedError, when_told
from pulsar_barycenter.operations.journal import Entry, Journal, MoveState, made_of, move_journal
from pulsar_barycenter.operations.journal_file import JournalFile
from pulsar_barycenter.operations.own_balancing import OFF, PAUSED_KEYS
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.rolling.cluster import RunningCluster
from pulsar_barycenter.operations.rolling.contract import Hooks, RollOptions, RollStopped, RollTold
from pulsar_barycenter.operations.rolling.order import Ordered, Wanted, backwards_plan, ordered
from pulsar_barycenter.operations.rolling.plan import Cluster, RollPlan
from pulsar_barycenter.operations.rolling.progress import (
    RollEntry,
    RollOrder,
    RollState,
    backwards,
    condition,
    progress_of,
)
from pulsar_barycenter.operations.rolling.report_sources import ReportSource, TopicReports, unseen_reports
from pulsar_barycenter.operations.rolling.run import Roll, View, serving_in, view_of
from pulsar_barycenter.operations.rolling.statefulset import lacks_of, read_statefulset, restart_command
from pulsar_barycenter.questions.examination import Asked, examine
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, Kind, print_table, printable

_INTERRUPTED: Final = 130
_WIDTH: Final = 120
_MAX_NAMED: Final = 20
_BEGIN_WITHIN_S: Final = 60.0
_STOPPING: Final = "barycenter: stopping after the moves and the command in progress; again to end at once"
_MOVING_PLAN: Final = "roll"
"""The name of the plan in the journal of moves: a roll makes a new plan in each step."""
_SUBSCRIPTION: Final = "barycenter-roll"
"""The name of the subscription by which a roll reads load topics."""


@dataclass(slots=True)
class Given:
    """The options of the command `roll`. `hooks(output, command)` returns the object that restarts, ends and starts
    brokers; `command` is the usual command to restart a broker, "" if there is none. `acts` is True if --yes was given.
    """

    urls: tuple[str, ...]
    wanted: Wanted
    options: RollOptions
    hooks: Callable[["Output", str], Hooks]
    journal: Path
    why: str
    service_url: str
    statefulset: str
    canary: str
    acts: bool
    despite_findings: bool


@dataclass(slots=True)
class Output:
    """Prints the events of a roll: as lines of text for a person, or as JSON objects for a program."""

    is_json: bool
    began_s: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        if self.is_json:
            self.emit("progress", text=text)
        else:
            click.echo(printable(f"{time.strftime('%H:%M:%S')}  {text}"))

    def emit(self, kind: str, **fields: Any) -> None:
        click.echo(msgspec.json.encode({"kind": kind, **fields}))

    def move(self, move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        if state is MoveState.BEGUN:
            return
        if self.is_json:
            fields = {"bundle": move.bundle, "source": move.source, "destination": move.destination}
            self.emit("move", **fields, state=str(state), detail=detail, tookS=took_s)
        else:
            words = f"served by {move.destination}" if state is MoveState.SERVED else f"{state}: {detail}"
            click.echo(printable(f"          {move.bundle}  {words}  ({took_s or 0:.1f} s)"))


class _Stop:
    """Receives requests to stop, by Ctrl-C or SIGTERM: the first one stops the roll in order, a second one ends the
    command at once.
    """

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.reason = ""
        self._task = task
        if threading.current_thread() is not threading.main_thread():  # signals do not reach others
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._ask)

    def _ask(self) -> None:
        if self.reason:
            self._task.cancel()
        else:
            click.echo(_STOPPING, err=True)
        self.reason = "interrupted"


def carry_out_roll(given: Given, output: Output, *, is_rollback: bool, is_abort: bool) -> None:
    """Begin, continue, roll back or abort a roll, as the options say; end the program with exit code 1, or 130 after a
    signal, if the roll stopped.

    Raises:
        NotNowError, RefusedError, CollectError, JournalError, OSError: the roll cannot begin or go on.
    """
    journal = JournalFile(given.journal, RollEntry, stops="Ctrl-C or SIGTERM stops that process in order")
    begun = progress_of(journal.read()).order
    if not given.acts and not is_abort:
        shown = partial(_shown, given, output, journal=journal, is_rollback=is_rollback)
        asyncio.run(_with_cluster(given, begun, lambda cluster: shown(cluster=cluster)))
        return
    if (is_abort or is_rollback) and not given.journal.exists():
        raise RefusedError(f"there is no journal {given.journal}: name the journal of the roll with --journal")
    with journal.held():
        work = _aborted if is_abort else _rolled_back if is_rollback else _rolled
        status = asyncio.run(_with_cluster(given, begun, lambda cluster: work(given, output, cluster, journal)))
    if status:
        sys.exit(status)


async def _with_cluster(given: Given, begun: RollOrder, work: Callable[[RunningCluster], Any]) -> Any:
    """Connect to the cluster, call the coroutine function `work` with it, and return its result; close the connections
    at the end. `begun` is the order of the roll that the journal has; its addresses are used in addition to those that
    the user gave.
    """
    client = asking_client(why=asked_by("roll", given.why))
    opened: list[Any] = []
    sources: list[ReportSource] = []

    async def of_topics() -> ReportSource:
        if sources:  # Pulsar's client finds its topics again when a broker ends; a second consumer would be refused
            return sources[0]
        conf = asking_conf(given.urls[0])
        pulsar_client, topics = await asyncio.to_thread(open_load_topics, given.service_url, conf, _SUBSCRIPTION)
        opened.append(pulsar_client)
        sources.append(TopicReports(topics))
        return sources[0]

    source = of_topics if given.service_url else unseen_reports
    try:
        return await work(RunningCluster(client, (*given.urls, *begun.addresses), extensible_reports=source))
    finally:
        for pulsar_client in opened:
            await asyncio.to_thread(pulsar_client.close)
        await client.close()


# ---- what a command does ----


async def _shown(
    given: Given, output: Output, cluster: RunningCluster, journal: JournalFile[RollEntry], is_rollback: bool
) -> None:
    roll = await _opened(given, output, cluster, journal, lambda: "")
    if is_rollback and not roll.progress.is_rollback:
        order = _backwards(roll)
        _print_plan(output, order, backwards_plan(order, (await _view(given, cluster, order)).plan), None)
    elif roll.progress.state is RollState.UNDER_WAY:
        output.say(f"a roll is under way: {condition(roll.progress)}")
    else:
        _must_be_new(roll, given)
        found = await _ordered(given, cluster)
        _print_plan(output, found.order, found.plan, found.naive)
        await _tell_what_is_off(output, cluster)
        await _findings(given, output)
    if not output.is_json:
        click.echo("nothing is done without --yes")


async def _rolled(given: Given, output: Output, cluster: RunningCluster, journal: JournalFile[RollEntry]) -> int:
    stop = _Stop(_this_task())
    roll = await _opened(given, output, cluster, journal, lambda: stop.reason)
    if roll.progress.state is RollState.UNDER_WAY:
        await _must_be_same(roll, cluster)
        if roll.progress.is_rollback:
            raise RefusedError(
                f"the roll of {given.journal} is being rolled back; give --rollback to go on, or --abort to end it"
            )
        output.say(f"the roll goes on: {condition(roll.progress)}")
    else:
        _must_be_new(roll, given)
        found = await _ordered(given, cluster)
        _print_plan(output, found.order, found.plan, found.naive)
        if found.plan.no_room:
            raise RefusedError(
                f"{count_of(found.plan.no_room, 'bundle')} would fit on no other broker, so nothing was begun;"
                " add brokers, or raise --room"
            )
        await _must_be_healthy(found.order, cluster)
        if errors := await _findings(given, output):
            raise RefusedError(
                f"`barycenter doctor` found {count_of(errors, 'error')}; repair these, or give --despite-findings"
            )
        await _tell_what_is_off(output, cluster)
        await roll.begin(msgspec.structs.replace(found.order, addresses=cluster.addresses))
    return await _ended(roll, given, output, stop)


async def _rolled_back(given: Given, output: Output, cluster: RunningCluster, journal: JournalFile[RollEntry]) -> int:
    stop = _Stop(_this_task())
    roll = await _opened(given, output, cluster, journal, lambda: stop.reason)
    await _must_be_same(roll, cluster)
    if roll.progress.is_rollback:
        if roll.progress.state is not RollState.UNDER_WAY:
            _must_be_new(roll, given)
        output.say(f"the rollback goes on: {condition(roll.progress)}")
    else:
        order = _backwards(roll)
        plan = backwards_plan(order, (await _view(given, cluster, order)).plan)
        _print_plan(output, order, plan, None)
        await roll.roll_back(order)
    return await _ended(roll, given, output, stop)


async def _aborted(given: Given, output: Output, cluster: RunningCluster, journal: JournalFile[RollEntry]) -> int:
    roll = await _opened(given, output, cluster, journal, lambda: "")
    if roll.progress.state is not RollState.UNDER_WAY:
        raise RefusedError(f"no roll is under way in {given.journal}: the roll is {roll.progress.state}")
    await _must_be_same(roll, cluster)
    before = condition(roll.progress)
    try:
        kept = await roll.abort()
    except TimeoutError:
        raise RefusedError("the settings were not restored on all brokers in time; give --abort again") from None
    output.say(f"shedding and splitting are restored; before that: {before}")
    for key, why in kept.items():
        output.say(f"{key} stays: {why}")
    return 0


async def _ended(roll: Roll, given: Given, output: Output, stop: _Stop) -> int:
    """Run a roll until it is finished or stopped, print its report, and return the exit code of the command."""
    try:
        await roll.run()
    except RollStopped as stopped:
        _print_stop(roll, output, str(stopped))
        return _INTERRUPTED if stop.reason else STOPPED
    except OSError as error:  # a journal cannot be written, or nobody reads the output any more
        is_closed = isinstance(error, BrokenPipeError)
        _print_stop(roll, output, "the reader of the output has closed it" if is_closed else in_words(error))
        return STOPPED
    except asyncio.CancelledError:
        _print_stop(roll, output, "ended at once")
        return _INTERRUPTED
    if roll.progress.state is RollState.UNDER_WAY:
        _print_canaries(roll, output)
        return 0
    _print_report(roll.progress.order, given, output)
    return 0


def _print_canaries(roll: Roll, output: Output) -> None:
    """Print that the canary brokers have restarted, and which commands continue the roll or roll it back."""
    order, state = roll.progress.order, condition(roll.progress)
    if output.is_json:
        output.emit("report", state="canaries restarted", brokers=order.canary, condition=state)
        return
    output.say(f"the canary brokers have restarted: {', '.join(order.canary)}; look at their namespaces now")
    output.say(f"{state}; the same command restarts the others; --rollback --yes brings the old version back")


def _print_report(order: RollOrder, given: Given, output: Output) -> None:
    """Print how many moves this and earlier runs of the command made together, and how long this run took."""
    moves = made_of(_moves_of(given).read())
    most = max(moves.values(), default=0)
    took_s = time.monotonic() - output.began_s
    if output.is_json:
        counts = {"moves": moves.total(), "bundles": len(moves), "mostMovesOfABundle": most}
        output.emit("report", state="finished", brokers=order.brokers, **counts, tookS=round(took_s, 1))
        return
    done = f"{count_of(len(order.brokers), 'broker')} done, {count_of(moves.total(), 'move')} of"
    output.say(f"finished: {done} {count_of(len(moves), 'bundle')}, at most {most:,} of one ({took_s:.0f} s)")


def _moves_of(given: Given) -> Journal:
    return move_journal(given.journal.with_name(f"{given.journal.stem}.moves.journal"))


# ---- parts ----


async def _opened(
    given: Given,
    output: Output,
    cluster: RunningCluster,
    journal: JournalFile[RollEntry],
    stop: Callable[[], str],
) -> Roll:
    moves = _moves_of(given)
    by = getpass.getuser()

    def tell(move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        moves.append(
            Entry(
                at=_now_ms(),
                plan=_MOVING_PLAN,
                by=by,
                bundle=move.bundle,
                source=move.source,
                destination=move.destination,
                state=state,
                detail=detail,
                why=given.why,
                took_s=took_s,
            )
        )
        output.move(move, state, detail, took_s)

    usual = await _checked_statefulset(given, output, cluster) if given.statefulset else ""
    told = RollTold(output.say, tell)
    return Roll(cluster, given.hooks(output, usual), journal, given.options, told, by=by, clock_ms=_now_ms, stop=stop)


async def _checked_statefulset(given: Given, output: Output, cluster: RunningCluster) -> str:
    """Print what the StatefulSet lacks for a roll; return the command that restarts the broker of a pod.

    Raises:
        RefusedError: the StatefulSet cannot be read, or, if --yes was given, lacks what a roll needs.
    """
    found, service = await read_statefulset(given.statefulset)
    async with asyncio.timeout(_BEGIN_WITHIN_S):
        lacks = lacks_of(found, service, await when_told(cluster.brokers))
    for lack in lacks:
        output.say(f"{'error' if lack.is_error else 'warning'}: {lack.sentence} → {lack.mend}")
    errors = sum(lack.is_error for lack in lacks)
    if errors and given.acts and not given.despite_findings:
        raise RefusedError(
            f"the StatefulSet {given.statefulset} has {count_of(errors, 'error')};"
            " repair these, or give --despite-findings"
        )
    return restart_command(found)


async def _ordered(given: Given, cluster: RunningCluster) -> Ordered:
    async with asyncio.timeout(_BEGIN_WITHIN_S):
        listed = await cluster.brokers()  # without a repetition, so that a wrong address is reported at once
        name = await cluster.name()
        wanted = given.wanted
        if given.canary:
            wanted = dataclasses.replace(wanted, canary=await cluster.primaries(given.canary))
        count = len(wanted.pool) if wanted.pool else len(listed) - wanted.batch
        view = await view_of(cluster, {*listed, *wanted.pool}, serving=count, room=given.options.room)
    return ordered(name, view.brokers, view.leader, _with_pool(view, wanted), wanted)


def _with_pool(view: View, wanted: Wanted) -> Cluster:
    """Return the brokers and bundles from which the roll is planned. A broker of the second pool that does not run yet
    is added: it may serve every bundle, and its limit of load is that of a running broker.
    """
    limits = dict(view.plan.limits)
    everywhere = frozenset((*view.brokers, *wanted.pool))
    missing = frozenset(name for name in wanted.pool if name not in limits)
    limit = next(iter(limits.values()))
    may_serve = view.plan.may_serve
    return dataclasses.replace(
        view.plan,
        limits={**limits, **dict.fromkeys(missing, limit)},
        may_serve=lambda bundle: (may_serve(bundle) | missing) & everywhere,
    )


async def _view(given: Given, cluster: RunningCluster, order: RollOrder) -> View:
    names = (*order.ready, *order.brokers, *order.pool)
    async with asyncio.timeout(_BEGIN_WITHIN_S):
        return await view_of(cluster, names, serving=serving_in(order), room=given.options.room)


def _backwards(roll: Roll) -> RollOrder:
    order = backwards(roll.progress)
    if not order.batches:
        raise RefusedError("the journal has no broker that restarted, so there is nothing to roll back")
    return order


def _must_be_new(roll: Roll, given: Given) -> None:
    if roll.progress.state is not RollState.NOT_BEGUN:
        raise RefusedError(
            f"{given.journal} is the journal of a roll that is {roll.progress.state}; name a new file with --journal"
        )


async def _must_be_same(roll: Roll, cluster: RunningCluster) -> None:
    begun = roll.progress.order.cluster
    if roll.progress.state is RollState.NOT_BEGUN:
        raise RefusedError("the journal has no roll; name its file with --journal")
    async with asyncio.timeout(_BEGIN_WITHIN_S):
        name = await when_told(cluster.name)
        listed = await when_told(cluster.brokers)
    if name != begun:
        raise RefusedError(f"the journal belongs to the cluster {begun}, and this is {name}; check --url or --journal")
    order = roll.progress.order
    if not {*order.ready, *order.brokers, *order.pool} & set(listed):
        raise RefusedError(
            f"none of the brokers in the journal is among those of this cluster, {', '.join(listed)}; check --url or"
            " --journal"
        )


async def _tell_what_is_off(output: Output, cluster: RunningCluster) -> None:
    """Tell an operator that a stored value has switched shedding or splitting off before the roll begins. A roll that
    another journal has may have done so; then that roll has to be ended, since this one restores what it finds.
    """
    async with asyncio.timeout(_BEGIN_WITHIN_S):
        overrides = await when_told(cluster.overrides)
    if off := [key for key in PAUSED_KEYS if overrides.get(key, "").lower() == OFF]:
        output.say(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off already, and will be off after the roll; if"
            " another roll has switched this off, end that roll first: the same command with its --journal, or --abort"
        )


async def _must_be_healthy(order: RollOrder, cluster: RunningCluster) -> None:
    listed = await cluster.brokers()
    for broker in (*order.ready, *order.brokers):
        if broker not in listed:
            raise RefusedError(f"{broker} is not among the running brokers of the cluster; start it first")
        if not await cluster.is_healthy(broker):
            raise RefusedError(f"{broker} is not healthy at its own address; repair it first (`barycenter doctor`)")
        if not await cluster.resolves(broker):
            raise RefusedError(
                f"this machine cannot resolve the host name of {broker} to an address; repair the name service first"
            )


async def _findings(given: Given, output: Output) -> int:
    """Print the errors that `barycenter doctor` finds in the cluster; return their number, or always 0 with the option
    `despite_findings`.
    """
    try:
        _, diagnosis = await examine(asking_client, Asked(given.urls))
    except ClusterUnreadableError as error:
        raise RefusedError(f"the cluster cannot be checked: {error}") from error
    errors = [finding for finding in diagnosis.findings if finding.severity.rank >= Severity.ERROR.rank]
    for finding in errors[:_MAX_NAMED]:
        output.say(f"{finding.severity} {finding.check} {finding.subject}: {finding.sentence} → {finding.mend}")
    return 0 if given.despite_findings else len(errors)


def _print_plan(output: Output, order: RollOrder, plan: RollPlan, naive: int | None) -> None:
    counts = plan.moves_of_bundles()
    if output.is_json:
        steps = [{"brokers": step.brokers, "moves": step.moves, "stay": step.stay} for step in plan.steps]
        output.emit("plan", order=order, steps=steps, refill=plan.refill, moves=plan.moves, naiveMoves=naive)
        return
    rows = []
    for number, step in enumerate(plan.steps, 1):
        to = sorted({move.destination for move in step.moves})
        rows.append([f"{number}", printable(", ".join(step.brokers)), f"{len(step.moves):,}", printable(", ".join(to))])
    if plan.refill:
        to = sorted({move.destination for move in plan.refill})
        rows.append(["refill", "", f"{len(plan.refill):,}", printable(", ".join(to))])
    columns = [Column("step"), Column("brokers"), Column("moves", Kind.FIGURE), Column("to")]
    print_table(columns, rows, plain_width=_WIDTH)
    refill = f" ({len(plan.refill):,} to refill)" if plan.refill else ""
    beside = "" if naive is None or order.pool else f"; without a plan and a refill about {naive:,}"
    most = max(counts.values(), default=0)
    of = f"of {count_of(len(counts), 'bundle')}, at most {most:,} of one"
    click.echo(f"{count_of(plan.moves, 'move')}{refill} {of}{beside}")
    _print_staying(plan)


def _print_staying(plan: RollPlan) -> None:
    left: Mapping[str, str] = {
        bundle: why for step in plan.steps for bundle, why in {**step.stay, **step.no_room}.items()
    }
    for bundle, why in list(left.items())[:_MAX_NAMED]:
        click.echo(printable(f"barycenter: {bundle} cannot leave: {why}"), err=True)
    if len(left) > _MAX_NAMED:
        click.echo(f"barycenter: {len(left) - _MAX_NAMED:,} more of these bundles cannot leave", err=True)


def _print_stop(roll: Roll, output: Output, why: str) -> None:
    state = condition(roll.progress)
    then = "the same command goes on; --abort restores the settings"
    click.echo(printable(f"barycenter: stopped: {why}"), err=True)
    click.echo(printable(f"barycenter: {state}; {then}"), err=True)
    if output.is_json:
        output.emit("report", state="stopped", why=why, condition=state)


def _this_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
