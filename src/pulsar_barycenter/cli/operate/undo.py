"""`barycenter undo`: prints a plan that reverses the moves of a journal."""

from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.operations.journal import backward, move_journal
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="undo")
@click.argument("file", metavar="JOURNAL", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(file: Path) -> None:
    """Print a plan that moves the bundles of a journal back to their former brokers; `execute` carries it out.

    The bundle that moved last moves back first. As with every plan, `execute` stops at a bundle that has moved since.

        barycenter undo plan.jsonl.journal > back.jsonl

    Exit code: 0; 1 if there is nothing to undo; 2 for wrong usage.
    """
    try:
        moves = backward(move_journal(file).read())
    except (JournalError, OSError) as error:
        fail(in_words(error))
        return
    if not moves:
        fail(f"{file} has no move that can be undone")
    for move in moves:
        click.echo(msgspec.json.encode({"kind": "unload", **msgspec.to_builtins(move)}))
