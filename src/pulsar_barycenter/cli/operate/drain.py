"""`barycenter drain`: moves all bundles away from a broker and keeps it empty."""

import asyncio
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.operate.carrying_out import (
    STOPPED,
    asked_by,
    carry_out,
    print_moves,
    tell_journal,
    with_audit,
    with_cluster,
    with_pace,
)
from pulsar_barycenter.load.bundle_load import IN_AND_OUT, LOAD_BYTES, LOAD_RATE, NEWEST
from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.operations.drained import CarriedLoad, Drained, set_drained, to_drain
from pulsar_barycenter.operations.draining import keeping_policy
from pulsar_barycenter.operations.executor import NotNowError, Pace, RefusedError
from pulsar_barycenter.operations.journal import move_journal
from pulsar_barycenter.operations.plan import plan_of
from pulsar_barycenter.snapshots.decided_by import UNUSABLE
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.suggestions import did_you_mean
from pulsar_barycenter.terminal.tables import Column, Kind, print_table, printable

UNREACHABLE: Final = (NotNowError, RefusedError, TimeoutError, ClusterError, *UNUSABLE)
_WIDTH: Final = 120
_WHEN: Final = ("now", "after")
_TURNS: Final = 3
"""The maximum number of passes. Each pass after the first moves the bundles that the broker still serves or got again.
"""
_MAX_NAMED: Final = 20
_NOT_KEPT: Final = (
    "barycenter: Apache Pulsar has no setting that keeps a broker empty: look-ups and its load manager may "
    "assign bundles "
    "to it again. Set loadBalancerSheddingEnabled=false during the drain, and stop the broker when it is empty"
)


@click.command(name="drain")
@click.argument("broker", metavar="HOST:PORT")
@with_cluster
@with_pace
@with_audit("drain-HOST-PORT.journal")
def command(
    broker: str,
    url: str | None,
    yes: bool,
    timeout_s: float,
    at_once: int,
    per_minute: float,
    journal_file: Path | None,
    why: str,
) -> None:
    """Move all bundles away from a broker of Barycenter or Apache Pulsar, to the brokers that the leader would choose.

    With Barycenter, the broker then gets no bundles until `undrain`, as long as another broker can serve them. Apache
    Pulsar has no such setting: bundles go to the brokers with the fewest bundles, and some may come back. The command
    prints an isolation policy that prevents this.

    You can stop the command at any time. The same command continues with the remaining bundles, also after a crash.

    Exit code: 0 if the broker only serves its own heartbeat; 1 if not; 2 for wrong usage.
    """
    address = asked_url(url)
    found = _to_drain(address, broker)
    print_plan(broker, found)
    if not yes:
        click.echo("nothing is done without --yes")
        return
    if found.drained is not None and broker not in found.drained:
        try:
            asyncio.run(set_drained(asking_client, address, broker, is_drained=True, why=asked_by("drain", why)))
        except UNREACHABLE as error:
            fail(in_words(error) or f"some brokers did not confirm in time that {broker} is drained; try again")
        click.echo(printable(f"{broker} gets no more bundles"))
    journal = move_journal(journal_file or Path(f"drain-{re.sub(r'[^A-Za-z0-9.]', '-', broker)}.journal"))
    if found.moves:
        tell_journal(journal)
    for _ in range(_TURNS):
        if not found.moves:
            break
        pace = Pace(at_once, per_minute, timeout_s, looks_back=False)  # where the bundles move later does not matter
        operation = f"drain of {broker}"
        carry_out(plan_of(found.moves), found.moves, address, pace, journal, why, operation=operation)
        found = _to_drain(address, broker)
    left = len(found.moves) + len(found.stay or {})
    if left:
        tell_stay(found)
        click.echo(printable(f"barycenter: {broker} still serves {count_of(left, 'bundle')}"), err=True)
        sys.exit(STOPPED)
    kept = "" if found.drained is None else f"; it gets none until `barycenter undrain {broker}`"
    click.echo(printable(f"{broker} serves no bundles{kept}"))


def print_plan(broker: str, found: Drained) -> None:
    count = len(found.moves) + len(found.stay or {})
    click.echo(printable(f"{broker} serves {count_of(count, 'bundle')} in addition to its heartbeat bundles"))
    if found.moves:
        print_moves(found.moves)
        print_loads(found.loads)
    tell_stay(found)
    if found.drained is None:
        click.echo(_NOT_KEPT, err=True)
        tell_policy(broker, found)


def print_loads(loads: Mapping[str, tuple[CarriedLoad, CarriedLoad]]) -> None:
    """Print the load of brokers before and after moves."""
    is_known = any(before.msg_rate is not None for before, _ in loads.values())
    titles = ["bundles", *([LOAD_RATE, LOAD_BYTES] if is_known else [])]
    columns = [Column("broker"), *(Column(f"{title} {when}", Kind.FIGURE) for title in titles for when in _WHEN)]
    rows = []
    for broker, sides in loads.items():
        row = [printable(broker), *(f"{side.bundles:,}" for side in sides)]
        if is_known:
            row += [_figure(side.msg_rate, "") for side in sides]
            row += [_figure(side.msg_throughput, "bytes/s") for side in sides]
        rows.append(row)
    click.echo("\nbrokers before and after" + (f": {IN_AND_OUT} by the {NEWEST}" if is_known else ""))
    print_table(columns, rows, plain_width=_WIDTH)
    click.echo()


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return format_figure(value, unit) if unit else f"{value:,.0f}"


def tell_policy(broker: str, found: Drained) -> None:
    """Print the isolation policy that keeps a running broker of Apache Pulsar empty."""
    commands = keeping_policy(found.cluster, broker, found.brokers)
    if commands is None:
        click.echo(
            "no isolation policy can keep new bundles away from the drained broker alone: policies name hosts, and"
            " another broker has the same host; set loadBalancerSheddingEnabled=false during the drain, and stop the"
            " broker when it is empty",
            err=True,
        )
        return
    hint = "to keep bundles away (except those that another policy puts there), first set this isolation policy, and "
    hint += "delete it afterwards:"
    for line in (hint, *(f"    {command_line}" for command_line in commands)):
        click.echo(printable(line), err=True)


def tell_stay(found: Drained) -> None:
    staying = list((found.stay or {}).items())
    for bundle, sentence in staying[:_MAX_NAMED]:
        click.echo(printable(f"barycenter: {bundle} cannot leave: {sentence}"), err=True)
    if len(staying) > _MAX_NAMED:
        click.echo(f"barycenter: {len(staying) - _MAX_NAMED:,} more of these bundles cannot leave", err=True)


def _to_drain(address: str, broker: str) -> Drained:
    try:
        found = asyncio.run(to_drain(asking_client, address, broker))
    except UNREACHABLE as error:
        fail(in_words(error) or "the cluster did not answer in time which bundles the broker serves; try again")
    if broker not in found.brokers:
        fail(f"{broker} is not registered{did_you_mean(broker, found.brokers)}")
    return found
