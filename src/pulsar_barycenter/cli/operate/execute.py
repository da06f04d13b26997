"""`barycenter execute`: carries out a plan of moves at a bounded rate; it can continue after a crash."""

from pathlib import Path

import click

from pulsar_barycenter.cli.asking.client import asked_url
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import (
    carry_out,
    journal_of,
    plan_in,
    print_moves,
    tell_journal,
    with_audit,
    with_cluster,
    with_pace,
)
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.executor import Pace
from pulsar_barycenter.operations.journal import left_of, move_journal
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.plan import PlanError
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="execute")
@click.argument("file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_cluster
@with_pace
@with_audit("PLAN.journal", "next to the plan")
def command(
    file: Path,
    url: str | None,
    yes: bool,
    timeout_s: float,
    at_once: int,
    per_minute: float,
    journal_file: Path | None,
    why: str,
) -> None:
    """Carry out a plan of moves of `barycenter plan --json`, on Barycenter or Apache Pulsar.

    A move is done when the planned broker serves the bundle. The plan stops if a move fails, or if a bundle is not on
    the broker that the plan names: then something else moves bundles too. You can stop the command at any time, also
    with `barycenter cancel`. The same command then continues with the remaining moves; the journal lists the completed
    ones. `verify` checks the result; `undo` prints the reverse plan.

    Exit code: 0; 1 if the plan was stopped; 2 for wrong usage.
    """
    journal = move_journal(journal_file or journal_of(file))
    try:
        plan = plan_in(file)
        left = left_of(plan, journal.read())
    except (PlanError, JournalError, OSError) as error:
        fail(in_words(error))
        return
    done = len(plan.moves) - len(left)
    click.echo(count_of(len(plan.moves), "move") + (f", {done:,} of them done already" if done else ""))
    if not yes:
        print_moves(left)
        click.echo("nothing is done without --yes")
    elif left:
        pace = Pace(at_once, per_minute, timeout_s)
        tell_journal(journal)
        carry_out(
            plan, left, asked_url(url), pace, journal, why, operation=f"execute {file.name}", tells_sentences=True
        )
