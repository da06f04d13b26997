"""`barycenter status`: prints the state of a cluster on one screen."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import click
import msgspec

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.doctor.finding import Severity
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError
from pulsar_barycenter.load.bundle_load import IN_AND_OUT, LOAD_BYTES, LOAD_RATE, NEWEST
from pulsar_barycenter.load.reasons import format_figure
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.questions.examination import Asked, examine
from pulsar_barycenter.status.cluster_status import BrokerStatus, ClusterStatus, status_of
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import Column, Kind, print_table, printable
from pulsar_barycenter.watch.sources.error import WatchError

SICK: Final = 1
BLIND: Final = 2
_WIDTH: Final = 120
_UNKNOWN: Final = "-"


@click.command(name="status")
@click.option("--url", help=f"The web address of any broker, or several.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@click.option(
    "--timeout",
    "timeout_s",
    default=5.0,
    show_default=True,
    type=Number(0.1, 60),
    help="Seconds to wait for the answer of a broker.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Show the recording in this folder of collect, or of balance (--state), as of its last report.",
)
@with_client_conf
@with_format("text", "json", json="one object")
def command(url: str | None, timeout_s: float, data: Path | None, form: str) -> None:
    """Show the state of a cluster: its leader, the load of each broker, drained brokers, and the worst problem.

    The load is the one on which the leader decides; with Apache Pulsar, the one in the brokers' own reports. Usage is
    in percent. For a broker that does not answer, the last known load is shown. Nothing is changed.

    With --data no broker is asked: the load is that of a recording.

    Exit code: 0; 1 if `doctor` finds a warning or worse, or a recorded broker is silent; 2 if no broker answers, or the
    recording cannot be read.
    """
    if data is not None:
        if url is not None:
            raise click.UsageError("give --data to show a recording, or --url to ask brokers, not both")
        _show_recorded(data, form)
        return
    try:
        urls = admin_urls(asked_url(url))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        picture, diagnosis = asyncio.run(examine(asking_client, Asked(urls, timeout_s=timeout_s)))
    except ClusterUnreadableError as error:
        click.echo(f"barycenter: cannot query the cluster: {error}", err=True)
        sys.exit(BLIND)
    status = status_of(picture, diagnosis)
    if form == "json":
        click.echo(msgspec.json.encode(status))
    else:
        _print(status)
    if not status.is_well:
        sys.exit(SICK)


def _show_recorded(data: Path, form: str) -> None:
    from pulsar_barycenter.watch.running import status_of_recording  # brings numpy

    try:
        status = asyncio.run(status_of_recording(data))
    except (WatchError, OSError) as error:
        click.echo(f"barycenter: {in_words(error)}", err=True)
        sys.exit(BLIND)
    if form == "json":
        click.echo(msgspec.json.encode(status))
    else:
        at = f"{datetime.fromtimestamp(status.at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        parts = (
            f"cluster {status.cluster or '?'}, as recorded in {status.source} until {at}",
            f"led by {status.leader}" if status.leader else "leader not recorded",
            f"{count_of(status.namespaces, 'namespace')}, {count_of(status.bundles, 'bundle')} served",
            f"{IN_AND_OUT} by the {NEWEST}",
            f"sheds by {status.strategy}",
        )
        click.echo(printable("; ".join(parts)))
        click.echo()
        print_table(
            [Column(title, kind) for title, kind, _ in _COLUMNS],
            [[printable(cell(broker)) for _, _, cell in _COLUMNS] for broker in status.brokers],
            plain_width=_WIDTH,
        )
        click.echo()
        for complaint in status.complaints or ("every broker reported its load",):
            click.echo(printable(complaint))
    if not status.is_well:
        sys.exit(SICK)


def _print(status: ClusterStatus) -> None:
    click.echo(_headline(status))
    click.echo()
    _print_brokers(status)
    for broker in status.brokers:
        if broker.failure:
            click.echo(f"{printable(broker.broker)} does not answer: {printable(broker.failure)}")
    click.echo()
    for finding in status.drained:
        click.echo(printable(f"{finding.subject}: {finding.sentence}"))
        click.echo(printable(f"    → {finding.mend}"))
    click.echo(_health(status))


def _print_brokers(status: ClusterStatus) -> None:
    columns = [*_COLUMNS, *(column for column in _LIKE_OTHERS if _alike(status, column) is None)]
    print_table(
        [Column(title, kind) for title, kind, _ in columns],
        [[printable(cell(broker)) for _, _, cell in columns] for broker in status.brokers],
        plain_width=_WIDTH,
    )


def _headline(status: ClusterStatus) -> str:
    whose = " of Apache Pulsar" if status.is_apache_pulsar else ""
    if status.leaders:
        led = f"brokers disagree on the leader: {', '.join(status.leaders)}"
    else:
        led = f"led by {status.leader}" if status.leader else "without a leader"
    parts = [
        f"cluster {status.cluster or '?'}{whose}",
        led,
        count_of(status.namespaces, "namespace")
        + f", {status.owned_bundles:,} of {count_of(status.bundles, 'bundle')} served",
    ]
    parts += [
        f"{shown[0]} {alike}" for shown in _LIKE_OTHERS if (alike := _alike(status, shown)) not in (None, _UNKNOWN)
    ]
    parts.append(f"{IN_AND_OUT} by the {NEWEST}")
    if status.strategy is not None:
        parts.append(f"sheds by {status.strategy}")
    if status.pipeline_lag_s is not None:
        parts.append("the leader uses its own windows, not the pipeline's")
    if status.pipeline_silent_s is not None:
        parts.append(
            f"the pipeline has not looked for load reports for {status.pipeline_silent_s:,.0f} s: it was stopped, was "
            "killed or hangs"
        )
    return printable("; ".join(parts))


def _health(status: ClusterStatus) -> str:
    counts = ", ".join(
        f"{status.findings[severity]:,} {severity}" for severity in reversed(Severity) if severity in status.findings
    )
    if status.worst is None:
        return "healthy: doctor found no problems"
    if status.is_well:
        return f"healthy: doctor found no problems, and {counts}; barycenter doctor shows details"
    worst = f"{status.worst.severity} {status.worst.check}: {status.worst.subject}: {status.worst.sentence}"
    return f"doctor: {counts}; {'the worst: ' if status.findings.total() > 1 else ''}{printable(worst)}"


def _figure(value: float | None, digits: int = 0) -> str:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"


def _usage(name: str) -> Callable[[BrokerStatus], str]:
    return lambda broker: _figure(getattr(broker, name), 1)


def _name(broker: BrokerStatus) -> str:
    return broker.broker + (" *" if broker.leads else "") + (" drained" if broker.is_drained else "")


_Shown: TypeAlias = tuple[str, Kind, Callable[[BrokerStatus], str]]
_COLUMNS: Final[tuple[_Shown, ...]] = (
    ("broker", Kind.NAME, lambda broker: _name(broker)),
    ("bundles", Kind.FIGURE, lambda broker: _figure(broker.bundles)),
    ("topics", Kind.FIGURE, lambda broker: _figure(broker.topics)),
    (LOAD_RATE, Kind.FIGURE, lambda broker: _figure(broker.load_rate)),
    ("msg/s in", Kind.FIGURE, lambda broker: _figure(broker.msg_rate_in)),
    (LOAD_BYTES, Kind.FIGURE, lambda broker: _throughput(broker.load_bytes)),
    ("CPU %", Kind.FIGURE, _usage("cpu")),
    ("memory %", Kind.FIGURE, _usage("memory")),
    ("direct %", Kind.FIGURE, _usage("direct_memory")),
    ("net in %", Kind.FIGURE, _usage("bandwidth_in")),
    ("net out %", Kind.FIGURE, _usage("bandwidth_out")),
    ("reported", Kind.TIME, lambda broker: _age(broker.reported_s_ago)),
)
_LIKE_OTHERS: Final[tuple[_Shown, ...]] = (
    ("load manager", Kind.NAME, lambda broker: broker.manager or _UNKNOWN),
    ("version", Kind.NAME, lambda broker: broker.version or _UNKNOWN),
)
"""Properties that brokers of a cluster usually have in common; shown for each broker only where they differ."""


def _alike(status: ClusterStatus, shown: _Shown) -> str | None:
    """Return the value of the column `shown` if it is the same for all brokers that answered; None if the values
    differ.
    """
    cell = shown[2]
    found = {cell(broker) for broker in status.brokers if not broker.failure}
    return found.pop() if len(found) == 1 else None


def _throughput(bytes_s: float | None) -> str:
    return _UNKNOWN if bytes_s is None else format_figure(bytes_s, "bytes/s")


def _age(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    if abs(seconds) < 120:
        return f"{seconds:,.0f} s ago"
    return f"{seconds / 60:,.0f} min ago"
