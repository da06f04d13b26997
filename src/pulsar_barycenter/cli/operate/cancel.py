"""`barycenter cancel`: stops another process that carries out moves, after the moves in progress."""

import getpass
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.options import with_why
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cli.operate.carrying_out import journal_of
from pulsar_barycenter.operations.journal import MoveState, move_journal
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import printable

_LOOKS_AGAIN_S: Final = 0.1


@click.command(name="cancel")
@click.argument("file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--journal",
    "journal_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The journal of the operation to stop.  [default: PLAN.journal]",
)
@with_why("The reason; it is stored in the journal.")
@click.option(
    "--timeout",
    "timeout_s",
    default=120.0,
    show_default=True,
    type=Number(1, 3600),
    help="Seconds to wait for the moves in progress.",
)
def command(file: Path | None, journal_file: Path | None, why: str, timeout_s: float) -> None:
    """Stop an `execute` or `drain` that runs on this machine, and wait until it has ended.

    Moves in progress are completed; no other move begins. To continue later, run the stopped command again.

    Exit code: 0; 1 if no such process runs or it did not end in time; 2 for wrong usage.
    """
    if (file is None) == (journal_file is None):
        raise click.UsageError("give PLAN, or --journal")
    path = journal_file if file is None else journal_of(file)
    assert path is not None
    journal = move_journal(path)
    deadline = time.monotonic() + timeout_s
    try:
        journal.read()  # a roll has a journal of another kind, and does not look for requests to stop
        if not journal.is_held():
            fail(f"no process on this machine carries out moves with the journal {path}")
        while journal.is_held():
            if not journal.asked_to_stop():
                journal.ask_to_stop(time.time_ns() // 1_000_000, getpass.getuser(), why)
            if time.monotonic() > deadline:
                fail(
                    f"the moves in progress have not ended within {timeout_s:g} s; no other move begins; run the"
                    " command again to wait longer"
                )
            time.sleep(_LOOKS_AGAIN_S)
        last = {entry.bundle: entry.state for entry in journal.read() if entry.bundle}
    except (JournalError, OSError) as error:
        fail(in_words(error))
        return
    states = Counter(last.values())
    counts = ", ".join(f"{states[state]:,} {state}" for state in MoveState if states[state])
    click.echo(printable(f"stopped; state of the moves that had begun: {counts or 'none'}"))
