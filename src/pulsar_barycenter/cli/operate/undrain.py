"""`barycenter undrain`: lets a drained broker get bundles again."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import (
    asked_by,
    carry_out,
    print_moves,
    tell_journal,
    with_audit,
    with_cluster,
    with_pace,
)
from pulsar_barycenter.cli.operate.drain import UNREACHABLE
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.bring_back import WayBack, way_back
from pulsar_barycenter.operations.drained import set_drained, who_is_drained
from pulsar_barycenter.operations.executor import Pace
from pulsar_barycenter.operations.journal import move_journal
from pulsar_barycenter.operations.plan import plan_of
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.suggestions import did_you_mean
from pulsar_barycenter.terminal.tables import printable

_MAX_NAMED: Final = 20


@click.command(name="undrain")
@click.argument("broker", metavar="HOST:PORT")
@click.option("--bring-back", is_flag=True, help="Also move back the bundles that left since the drain began.")
@with_cluster
@with_pace
@with_audit("undrain-HOST-PORT.journal")
def command(
    broker: str,
    bring_back: bool,
    url: str | None,
    yes: bool,
    timeout_s: float,
    at_once: int,
    per_minute: float,
    journal_file: Path | None,
    why: str,
) -> None:
    """Let a drained broker get bundles again.

    It stays empty until look-ups and later rounds of the load manager assign bundles to it. This may take long if the
    load is even. --bring-back moves back the bundles that `drain`, the dashboard or an operator moved away since the
    drain began, as the cluster's decision logs record them. Bundles that have moved again since stay where they are.
    --bring-back also works after a previous `undrain`.

    Exit code: 0; 1 if the broker is not drained, the decisions are not known, or the moves were stopped; 2 for wrong
    usage.
    """
    address = asked_url(url)
    try:
        found = asyncio.run(who_is_drained(asking_client, address))
        if found.drained is None:
            fail(
                "Apache Pulsar has no setting that keeps a broker empty, so there is nothing to undo. If an isolation "
                "policy was set for the drain, delete it"
            )
            return
        if broker not in {*found.brokers, *found.drained}:
            fail(f"{broker} is not registered{did_you_mean(broker, found.brokers)}")
        way = asyncio.run(way_back(asking_client, address, broker)) if broker in found.brokers else WayBack()
        if broker not in found.drained and not (bring_back and way.drained_at is not None):
            fail(f"{broker} is not drained{did_you_mean(broker, found.drained)}")
        if not yes:
            click.echo(printable(f"drained now: {', '.join(found.drained) or 'no broker'}"))
        if bring_back:
            _print_way(broker, way)
        if not yes:
            click.echo("nothing is done without --yes")
            return
        if broker in found.drained:
            asyncio.run(set_drained(asking_client, address, broker, is_drained=False, why=asked_by("undrain", why)))
            click.echo(printable(f"{broker} may get bundles again"))
    except UNREACHABLE as error:
        fail(in_words(error) or f"some brokers did not confirm in time that {broker} is not drained; try again")
        return
    if bring_back and way.moves:
        journal = move_journal(journal_file or Path(f"undrain-{re.sub(r'[^A-Za-z0-9.]', '-', broker)}.journal"))
        pace = Pace(at_once, per_minute, timeout_s)
        tell_journal(journal)
        carry_out(plan_of(way.moves), way.moves, address, pace, journal, why, operation=f"undrain of {broker}")
    elif not bring_back and way.moves:
        click.echo(
            printable(
                f"it stays empty until the load manager moves bundles there. To move back the "
                f"{count_of(len(way.moves), 'bundle')} that left since the drain began: "
                f"barycenter undrain {broker} --bring-back --yes"
            )
        )


def _print_way(broker: str, way: WayBack) -> None:
    if way.drained_at is None:
        click.echo(printable(f"no decision log has the drain of {broker}; use `undo` with the journal of the drain"))
        return
    at = datetime.fromtimestamp(way.drained_at / 1000, UTC)
    click.echo(
        printable(
            f"since {broker} was drained at {at:%Y-%m-%d %H:%M:%S} UTC, {count_of(len(way.moves), 'bundle')} left"
        )
    )
    if way.moves:
        print_moves(way.moves)
    stay = list((way.stay or {}).items())
    for bundle, sentence in stay[:_MAX_NAMED]:
        click.echo(printable(f"{bundle} stays where it is: {sentence}"))
    if len(stay) > _MAX_NAMED:
        click.echo(f"{len(stay) - _MAX_NAMED:,} more of these bundles stay where they are")
