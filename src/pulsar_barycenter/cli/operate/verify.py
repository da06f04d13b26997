"""`barycenter verify`: checks that the planned broker serves each bundle of a plan."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.operate.carrying_out import plan_in
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.bring_back import WITHIN_S, owned_by_brokers
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.plan import MoveOutcome, PlanError, verified
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, print_table, printable

_NOT_ALL: Final = 1
_MAX_SHOWN: Final = 50
_WIDTH: Final = 160


@click.command(name="verify")
@click.argument("file", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", help=f"The web address of any broker.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@with_client_conf
@with_format("table", "json", json="one object for each move")
def command(file: Path, url: str | None, form: str) -> None:
    """Check for each move of a plan that the planned broker serves the bundle; the brokers themselves are queried.

    Exit code: 0 if all are served as planned; 1 if not; 2 for wrong usage.
    """
    try:
        plan = plan_in(file)
        verdicts = verified(plan.moves, asyncio.run(owned_by_brokers(asking_client, asked_url(url))))
    except (PlanError, NotNowError, RefusedError, TimeoutError, OSError) as error:
        fail(in_words(error) or f"the cluster did not answer within {WITHIN_S:.0f} s")
        return
    others = [outcome for outcome in verdicts if not outcome.is_done]
    if form == "json":
        for verdict in verdicts:
            click.echo(msgspec.json.encode(verdict))
    else:
        _print_verdict(len(verdicts), others)
    if others:
        sys.exit(_NOT_ALL)


def _print_verdict(count: int, others: Sequence[MoveOutcome]) -> None:
    served = count - len(others)
    verb = "is" if served == 1 else "are"
    click.echo(f"{served:,} of {count_of(count, 'bundle')} {verb} served by the planned broker")
    if others:
        rows = [
            [printable(cell) for cell in (move.bundle, move.destination, ", ".join(move.served_by) or "no broker")]
            for move in others[:_MAX_SHOWN]
        ]
        print_table([Column("bundle"), Column("to"), Column("served by")], rows, plain_width=_WIDTH)
    if len(others) > _MAX_SHOWN:
        click.echo(f"… and {len(others) - _MAX_SHOWN:,} more bundles")
