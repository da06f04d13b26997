"""How commands carry out moves: shown first, begun when meant, told as they end, and written down."""

import asyncio
import getpass
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from barycenter.admin.client import AdminClient
from barycenter.attach.answers import TOKEN_VARIABLE
from barycenter.cli.ask.running_cluster import URL_VARIABLE
from barycenter.cli.terminal import Column, Kind, print_table, printable
from barycenter.operations.admin_cluster import AdminCluster
from barycenter.operations.executor import Outcome, Pace, execute
from barycenter.operations.journal import Entry, Journal, MoveState
from barycenter.operations.plan import Plan, PlannedMove

STOPPED: Final = 1
_MOST_SHOWN: Final = 50
_WIDTH: Final = 160
_REQUEST_TIMEOUT_S: Final = 70.0

Command = TypeVar("Command", bound=Callable[..., Any])


def with_cluster(command: Command) -> Command:
    """Give a command the options of all that acts on a cluster: `url`, `yes` and `timeout_s`."""
    for option in reversed(
        (
            click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]"),
            click.option("--yes", is_flag=True, help="Do it; without, it is shown what would be done."),
            click.option(
                "--timeout",
                "timeout_s",
                default=60.0,
                show_default=True,
                type=click.FloatRange(1, 3600),
                help="Seconds after which a bundle must be served by its new broker.",
            ),
        )
    ):
        command = option(command)
    return command


def open_cluster(url: str) -> tuple[AdminClient, AdminCluster]:
    """Return a cluster to ask, and the client to close."""
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else None
    client = AdminClient(timeout_s=_REQUEST_TIMEOUT_S, headers=headers)
    return client, AdminCluster(client, url)


def print_moves(moves: tuple[PlannedMove, ...]) -> None:
    print_table(
        [Column("bundle"), Column("from"), Column("to"), Column("why", Kind.SENTENCE)],
        [[printable(text) for text in (m.bundle, m.source, m.destination, m.sentence)] for m in moves[:_MOST_SHOWN]],
        plain_width=_WIDTH,
    )
    if len(moves) > _MOST_SHOWN:
        click.echo(f"… and {len(moves) - _MOST_SHOWN:,} more")


def carry_out(plan: Plan, moves: tuple[PlannedMove, ...], url: str, pace: Pace, journal: Journal | None) -> None:
    """Carry out these moves of a plan and say how each ended; the program ends with 1 if something stopped them."""
    by, done = getpass.getuser(), 0

    def tell(move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        nonlocal done
        if journal is not None:
            journal.append(
                Entry(
                    at=time.time_ns() // 1_000_000,
                    plan=plan.name,
                    by=by,
                    bundle=move.bundle,
                    source=move.source,
                    destination=move.destination,
                    state=state,
                    detail=detail,
                    took_s=took_s,
                )
            )
        if state is not MoveState.BEGUN:
            done += 1
            words = f"served by {move.destination}" if state is MoveState.SERVED else f"failed: {detail}"
            click.echo(printable(f"{done:,}/{len(moves):,}  {move.bundle}  {words}  ({took_s or 0:.1f} s)"))

    outcome = asyncio.run(_carried_out(moves, url, pace, tell))
    if outcome.stopped_by:
        left = len(moves) - outcome.served - outcome.failed
        more = f"; {left:,} moves were not begun" if left else ""
        click.echo(printable(f"barycenter: stopped{more}: {outcome.stopped_by}"), err=True)
        sys.exit(STOPPED)


async def _carried_out(moves: tuple[PlannedMove, ...], url: str, pace: Pace, tell: Any) -> Outcome:
    client, cluster = open_cluster(url)
    try:
        return await execute(moves, cluster, pace, tell)
    finally:
        await client.close()


def journal_of(plan_file: Path) -> Path:
    return plan_file.with_name(f"{plan_file.name}.journal")
