"""`barycenter undo`: the way back from what a journal says was moved, as a plan for `execute`."""

from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.operations.journal import Journal, JournalError, backward
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="undo")
@click.argument("file", metavar="JOURNAL", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(file: Path) -> None:
    """Print the moves back to where bundles were before a journal's, as a plan; `execute` carries it out.

    What was moved last goes back first. A bundle that somebody else moved since stops `execute`, as always.

        barycenter undo plan.jsonl.journal > back.jsonl

    Ends with 0, with 1 if there is nothing to undo, with 2 for wrong usage.
    """
    try:
        moves = backward(Journal(file).read())
    except (JournalError, OSError) as error:
        fail(in_words(error))
        return
    if not moves:
        fail(f"{file} tells of no move that could be undone")
    for move in moves:
        click.echo(msgspec.json.encode({"kind": "unload", **msgspec.to_builtins(move)}))
