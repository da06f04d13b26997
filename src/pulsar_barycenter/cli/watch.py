"""`barycenter watch`: serves the dashboard for a cluster whose brokers serve none, or for recorded load."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, asking_conf, named_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import Seconds, span_ms
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.dashboard.timeline import BriefDecision
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.run.process_log import configure_logging
from pulsar_barycenter.snapshots.decided_by import WrongWordError
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import printable
from pulsar_barycenter.watch.running import Tell, Wanted, Watching, watch
from pulsar_barycenter.watch.sources.error import WatchError

PORT: Final = 8_090


@click.command(name="watch")
@click.option(
    "--url",
    "--admin-url",
    "url",
    metavar="URL",
    help=f"Web address of a broker or a proxy; several brokers: http://broker-1:8080,broker-2:8080.  [{URL_VARIABLE}]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Show the recording in this folder of collect, of balance (--state), or of a cluster.",
)
@click.option("--interval", default="60s", show_default=True, type=Seconds(1), help="Time between readings: 60s, 5m.")
@click.option("--last", default="1d", show_default=True, help="Read the reports of this time: 12h, 7d; with --data.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65535), help="Of 127.0.0.1; 0: any.")
@click.option("--rounds", default=0, type=click.IntRange(0), help="The number of readings; 0: until Ctrl-C.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Recompute with this setting; repeatable.")
@click.option("--service-url", default="", help="pulsar:// address; needed with the extensible load manager.")
@with_client_conf
@with_format("text", "json", json="one object for the begin, and for each move or round")
def command(
    url: str | None,
    data: Path | None,
    interval: float,
    last: str,
    port: int,
    rounds: int,
    changes: tuple[str, ...],
    service_url: str,
    form: str,
) -> None:
    """Show a cluster of Apache Pulsar or Barycenter from outside, in a browser, live or as it was recorded.

    Serves the dashboard on 127.0.0.1: brokers, bundles, load over time, and the moves that were seen, each with its
    reason. The reason is recomputed: the strategy that the cluster's configuration names decides again on the load that
    was read. Where it does not agree with what happened, that is said. Nothing is changed.

    With --url the brokers are asked every --interval; a superuser's rights are needed. With --data a folder is read,
    and new files in it as they come.

    Exit code: 0; 1 if the cluster or the folder cannot be read, or the port cannot be used; 2 for wrong usage.
    """
    named = None if data is not None and url is None else named_url(url)
    if data is not None and named is not None:
        raise click.UsageError("give --data to show a recording, or --url to show a cluster live, not both")
    if data is None and named is None:
        raise click.UsageError(f"Missing option '--url' (or the variable {URL_VARIABLE}), or '--data'")
    try:
        urls = () if named is None else admin_urls(named)
    except ValueError as error:
        raise click.UsageError(f"--url: {error}") from error
    wanted = Wanted(
        urls=urls,
        data=data,
        interval_s=interval,
        span_ms=span_ms("--last", last),
        port=port,
        rounds=rounds,
        changes=changes,
        service_url=service_url,
    )
    keep_private()
    configure_logging(as_json=not sys.stderr.isatty())
    try:
        asyncio.run(watch(asking_client, asking_conf(), wanted, _printer(as_json=form == "json")))
    except (ConfigError, WrongWordError) as error:
        raise click.UsageError(str(error)) from error
    except (WatchError, OSError) as error:
        fail(in_words(error))


def _printer(*, as_json: bool) -> Tell:
    def tell(found: Watching | BriefDecision | str) -> None:
        if isinstance(found, str):
            click.echo(f"barycenter: {printable(found)}", err=True)
        elif as_json:
            click.echo(msgspec.json.encode(found))
        elif isinstance(found, Watching):
            click.echo(printable(_begin(found)))
        else:
            click.echo(printable(_line(found)))

    return tell


def _begin(found: Watching) -> str:
    sizes = f"{count_of(found.brokers, 'broker')}, {count_of(found.bundles, 'bundle')}"
    cluster = f"cluster {found.cluster}" if found.cluster else "a cluster"
    return f"{cluster} ({sizes}, sheds by {found.strategy}), read from {found.source}: {found.url}"


def _line(found: BriefDecision) -> str:
    at = f"{datetime.fromtimestamp(found.at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    what = f"{found.bundle}: {found.source} → {found.destination}" if found.bundle else "round"
    doubt = " (does not agree)" if found.agrees is False else ""
    return f"{at}  {what}  [{found.basis}{doubt}] {found.short}"
