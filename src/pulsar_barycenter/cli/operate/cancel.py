"""`barycenter cancel`: have another process that carries out a plan begin no more moves."""

import getpass
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.options import with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import journal_of
from pulsar_barycenter.operations.journal import Journal, JournalError, MoveState
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import printable

_LOOKS_AGAIN_S: Final = 0.1


@click.command(name="cancel")
@click.argument("file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The journal of what is to stop.  [PLAN.journal]",
)
@with_why("A reason, which the journal keeps.")
@click.option(
    "--timeout",
    "timeout_s",
    default=120.0,
    show_default=True,
    type=click.FloatRange(1, 3600),
    help="Seconds within which it must have ended.",
)
def command(file: Path | None, journal_file: Path | None, why: str, timeout_s: float) -> None:
    """Have `execute` or `drain`, that run on this machine, begin no more moves; done when they ended.

    Moves under way come to their ends. What is left can be gone on with by the command that was stopped.

    Ends with 0, with 1 if nothing ran or it did not end in time, with 2 for wrong usage.
    """
    if (file is None) == (journal_file is None):
        raise click.UsageError("give PLAN, or --journal")
    path = journal_file if file is None else journal_of(file)
    assert path is not None
    journal = Journal(path)
    deadline = time.monotonic() + timeout_s
    try:
        if not journal.is_held():
            fail(f"no process carries out moves by {path}")
        while journal.is_held():
            if not journal.asked_to_stop():
                journal.ask_to_stop(time.time_ns() // 1_000_000, getpass.getuser(), why)
            if time.monotonic() > deadline:
                fail(f"moves under way have not ended within {timeout_s:g} s; no more begin")
            time.sleep(_LOOKS_AGAIN_S)
        last = {entry.bundle: entry.state for entry in journal.read() if entry.bundle}
    except (JournalError, OSError) as error:
        fail(in_words(error))
        return
    states = Counter(last.values())
    told = ", ".join(f"{states[state]:,} {state}" for state in MoveState if states[state])
    click.echo(printable(f"stopped; of the moves that were begun: {told or 'none'}"))
