"""`barycenter monitor-brokers`: prints Pulsar's live tables of brokers."""

import asyncio
import time
from collections.abc import Iterable
from typing import Final

import click

from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.metadata.open import SCHEMES
from pulsar_barycenter.questions.monitored import UNREADABLE, monitored
from pulsar_barycenter.status.broker_tables import MonitoredBroker, broker_table, overall_table
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import printable

_OVERALL_EVERY_S: Final = 60.0


@click.command(name="monitor-brokers")
@click.option(
    "--connect-string",
    "place",
    metavar="URL",
    help="The web address of any broker, or a metadata store such as zk:host:2181.  [BARYCENTER_URL; http://127.0.0.1:8080]",
)
@click.option("--extensions", is_flag=True, help="Ignored; pulsar-perf has it. The load manager is detected.")
@click.option(
    "--interval",
    "interval_s",
    default=5.0,
    show_default=True,
    type=Number(0.5, 3600),
    help="Seconds between two queries.",
)
@click.option("--once", is_flag=True, help="Print every table once.")
@with_client_conf
def command(place: str | None, extensions: bool, interval_s: float, once: bool) -> None:
    """Print the tables of `pulsar-perf monitor-brokers`, in the layout of the brokers' load manager.

    A broker's table is printed when the broker is found and when its report changed; the table of all brokers is
    printed each minute. Works with Barycenter and Apache Pulsar.

    Stop it with Ctrl-C. Exit code with --once: 0, or 1 if no broker returned a report.
    """
    address = place if place and place.partition(":")[0] in SCHEMES else asked_url(place)
    known: dict[str, MonitoredBroker] = {}
    overall_at = time.monotonic()
    while True:
        try:
            now = {broker.name: broker for broker in asyncio.run(monitored(asking_client, address))}
        except UNREADABLE as error:
            text = in_words(error) or f"{address} did not answer in time"
            if once or not known:
                fail(text)
            click.echo(printable(f"barycenter: {text}"), err=True)
        else:
            _tell(changed_lines(known, now))
            known = now
            if once or time.monotonic() >= overall_at:
                overall_at = time.monotonic() + _OVERALL_EVERY_S
                _tell(overall_table(now.values()))
        if once:
            return
        time.sleep(interval_s)


def changed_lines(before: dict[str, MonitoredBroker], now: dict[str, MonitoredBroker]) -> list[str]:
    """Return the lines to print after a query of the cluster: which brokers left or joined, and the tables of brokers
    whose reports changed.
    """
    lines = [f"Lost broker: {name}" for name in sorted(before.keys() - now.keys())]
    for name, broker in sorted(now.items()):
        if name not in before:
            lines.append(f"Gained broker: {name}")
        if broker != before.get(name):
            lines += [*broker_table(broker), ""]
    return lines


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(line))
