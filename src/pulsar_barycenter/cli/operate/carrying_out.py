"""Carries out moves for commands: prints them, starts them with --yes, prints each result, writes the journal."""

import asyncio
import getpass
import hashlib
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, why_headers
from pulsar_barycenter.cli.asking.options import with_client_conf, with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.html_pages.reasons import short_reason
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import Outcome, Pace, Tell, execute
from pulsar_barycenter.operations.journal import Entry, Journal, MoveState
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.plan import Plan, PlanError, PlannedMove, read_plan
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, print_table, printable

STOPPED: Final = 1
_MAX_SHOWN: Final = 50
_MAX_REASONS: Final = 10
_MAX_PLAN_BYTES: Final = 1 << 30
_WIDTH: Final = 160
_REQUEST_TIMEOUT_S: Final = 70.0
_MAX_NAME_LENGTH: Final = 200
_MAX_SENTENCE_LENGTH: Final = 300
"""The number of characters of a plan's reason that brokers store with a move."""

Command = TypeVar("Command", bound=Callable[..., Any])


def with_cluster(command: Command) -> Command:
    """Add the options `url`, `yes` and `timeout_s` to a command that changes a cluster."""
    command = with_client_conf(command)
    for option in reversed(
        (
            click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]"),
            click.option("--yes", is_flag=True, help="Do it. Without --yes the command only shows what it would do."),
            click.option(
                "--timeout",
                "timeout_s",
                default=60.0,
                show_default=True,
                type=Number(1, 3600),
                help="Seconds within which the new broker must serve a bundle.",
            ),
        )
    ):
        command = option(command)
    return command


def with_pace(command: Command) -> Command:
    """Add the options `at_once` and `per_minute`, which limit the rate of moves, to a command."""
    command = click.option(
        "--per-minute",
        default=60.0,
        show_default=True,
        type=Number(0.1, 6000),
        help="The maximum number of moves that begin within a minute.",
    )(command)
    return click.option(
        "--at-once",
        default=1,
        show_default=True,
        type=click.IntRange(1, 100),
        help="The maximum number of moves at the same time.",
    )(command)


def with_audit(default: str, where: str = "in the current folder") -> Callable[[Command], Command]:
    """Add the options `journal_file` and `why`; `default` is the file name for the help, `where` its folder."""

    def add(command: Command) -> Command:
        command = with_why("The reason; the journal and the brokers store it.")(command)
        return click.option(
            "--journal",
            "journal_file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The journal: who moved what, when and why, and the progress. `undo` reverses it. The file "
            f"is kept.  [default: {default}, {where}]",
        )(command)

    return add


def asked_by(operation: str, why: str) -> str:
    """Return the text that brokers store with each decision of an operation: its name, the system user, and `why`."""
    return f"{operation} by {getpass.getuser()}" + (f": {why}" if why else "")


def open_cluster(
    url: str, why: str = "", sentences: Mapping[str, str] = MappingProxyType({})
) -> tuple[AdminClient, AdminCluster]:
    """Return a cluster to operate on, and its client, which the caller has to close.

    Brokers receive `why` with each request. With the request to move a bundle they also receive the text that
    `sentences` has for this bundle.
    """
    client = asking_client(timeout_s=_REQUEST_TIMEOUT_S, why=why)

    def headers_of(bundle: str) -> dict[str, str]:
        sentence = sentences.get(bundle, "")[:_MAX_SENTENCE_LENGTH]
        return why_headers("; ".join(part for part in (why, sentence) if part))

    return client, AdminCluster(client, url, headers_of=headers_of)


def print_moves(moves: Sequence[PlannedMove]) -> None:
    """Print the moves; a move with a blank source is of a bundle without an owner. Then print how many moves have the
    same destination and the same reason. For this, the values in brackets are left out of the reasons.
    """
    shown = moves[:_MAX_SHOWN]
    print_table(
        [Column("bundle"), Column("from"), Column("to")],
        [[printable(text) for text in (m.bundle, m.source or "no broker", m.destination)] for m in shown],
        plain_width=_WIDTH,
    )
    if len(moves) > _MAX_SHOWN:
        click.echo(f"… and {len(moves) - _MAX_SHOWN:,} more moves")
    reasons = Counter((m.destination, _glance(m)) for m in moves if m.sentence)
    for (destination, sentence), count in reasons.most_common(_MAX_REASONS):
        click.echo(printable(f"why {count:,} to {destination}: {sentence}"))
    if len(reasons) > _MAX_REASONS:
        click.echo(f"… and {len(reasons) - _MAX_REASONS:,} more reasons")


def _glance(move: PlannedMove) -> str:
    """Return the reason of a move in short: without the name of the bundle and without the values in brackets."""
    sentence = short_reason(move.sentence).partition(" (")[0]
    return sentence.removeprefix(f"{move.bundle}: ").removeprefix(f"{move.destination}: ")


def tell_journal(journal: Journal) -> None:
    """Print the path of the journal of moves that are about to begin, and the command that reverses them."""
    file = shlex.quote(str(journal.file))
    click.echo(printable(f"journal: {file}; to reverse the moves: barycenter undo {file} > back.jsonl"))


def carry_out(
    plan: Plan,
    moves: tuple[PlannedMove, ...],
    url: str,
    pace: Pace,
    journal: Journal,
    why: str = "",
    *,
    operation: str,
    tells_sentences: bool = False,
) -> None:
    """Carry out moves of a plan and print the result of each; end the program with 1 if they were stopped.

    Brokers store `operation` and `why` with each move, and with `tells_sentences` also the reason in the plan.
    """
    by, done = getpass.getuser(), 0

    def write(move: PlannedMove | None, state: MoveState, detail: str, took_s: float | None) -> None:
        journal.append(
            Entry(
                at=time.time_ns() // 1_000_000,
                plan=plan.name,
                by=by,
                bundle=move.bundle if move else "",
                source=move.source if move else "",
                destination=move.destination if move else "",
                state=state,
                detail=detail,
                why=why,
                took_s=took_s,
            )
        )

    def tell(move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        nonlocal done
        write(move, state, detail, took_s)
        if state is MoveState.MOVED_AWAY:
            click.echo(printable(f"{move.bundle}  {detail}"), err=True)
        elif state is not MoveState.BEGUN:
            done += 1
            words = f"served by {move.destination}" if state is MoveState.SERVED else f"failed: {detail}"
            click.echo(printable(f"{done:,}/{len(moves):,}  {move.bundle}  {words}  ({took_s or 0:.1f} s)"))

    try:
        with journal.held():
            sentences = {move.bundle: move.sentence for move in moves} if tells_sentences else {}
            client, cluster = open_cluster(url, asked_by(operation, why), sentences)
            outcome = asyncio.run(_carried_out(moves, client, cluster, pace, tell, journal.asked_to_stop))
            if asked := journal.asked_to_stop():
                write(None, MoveState.CANCELLED, asked, None)
    except (JournalError, OSError) as error:
        fail(in_words(error))
        return
    if outcome.stopped_by:
        left = len(moves) - outcome.served - outcome.failed
        begun = f"stopped; {count_of(left, 'move')} {'was' if left == 1 else 'were'} not begun" if left else "stopped"
        if outcome.moved_away and not left:
            begun = f"{count_of(outcome.moved_away, 'bundle')} moved again after the planned move"
        click.echo(printable(f"barycenter: {begun}: {outcome.stopped_by}"), err=True)
        sys.exit(STOPPED)


async def _carried_out(
    moves: tuple[PlannedMove, ...],
    client: AdminClient,
    cluster: AdminCluster,
    pace: Pace,
    tell: Tell,
    stop: Callable[[], str],
) -> Outcome:
    try:
        return await execute(moves, cluster, pace, tell, stop)
    finally:
        await client.close()


def plan_in(file: Path) -> Plan:
    """Return the plan in a file.

    Raises:
        PlanError, OSError: the file is not a plan, or cannot be read.
    """
    if file.stat().st_size > _MAX_PLAN_BYTES:
        raise PlanError(
            f"{file} is larger than {_MAX_PLAN_BYTES:,} bytes, the maximum for a plan; split it into several plans"
        )
    return read_plan(file.read_bytes())


def journal_of(plan_file: Path) -> Path:
    return plan_file.with_name(f"{plan_file.name}.journal")


def journal_of_bundle(bundle: str) -> Path:
    """Return the default journal for the move of one bundle, in the current folder."""
    name = re.sub(r"[^A-Za-z0-9._]", "-", bundle)
    if len(name) > _MAX_NAME_LENGTH:  # a file system takes no longer names
        name = f"{name[:_MAX_NAME_LENGTH]}-{hashlib.sha256(bundle.encode()).hexdigest()[:8]}"
    return Path(f"move-{name}.journal")
