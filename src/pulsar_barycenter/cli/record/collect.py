"""`barycenter collect`: record the load of a running cluster for the pipeline, replays and the advisor."""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, asking_conf, named_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import Seconds
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collecting import Collection, collect_rounds
from pulsar_barycenter.observer.collector import CollectError, Round, admin_urls
from pulsar_barycenter.run.process_log import configure_logging
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="collect")
@click.option(
    "--admin-url",
    "--url",
    "admin_url",
    metavar="URL",
    help="Web address of a broker, or of a proxy before them; of several: http://broker-1:8080,broker-2:8080."
    f"  [{URL_VARIABLE}]",
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Data folder to fill.")
@click.option("--interval", default="60s", show_default=True, type=Seconds(1), help="Between rounds: 60s, 5m.")
@click.option("--rounds", default=0, type=click.IntRange(0), help="End after so many; 0: go on until Ctrl-C.")
@click.option("--keep-days", default=30.0, show_default=True, type=click.FloatRange(0.1), help="Delete older reports.")
@click.option("--service-url", help="pulsar:// address; needed if brokers run the extensible load manager.")
@with_client_conf
@with_format("table", "json", json="one object a round")
def command(
    admin_url: str | None,
    out: Path,
    interval: float,
    rounds: int,
    keep_days: float,
    service_url: str | None,
    form: str,
) -> None:
    """Record the load reports of a cluster's brokers, Apache Pulsar's or Barycenter's own.

    They are appended to OUT/load-reports, as brokers of Barycenter write theirs; `barycenter pipeline run --data OUT`
    makes tables of them. A broker that does not answer is named and asked again in the next round. When the broker at
    URL is down, another one that is known by then tells which there are.

    Of brokers with the extensible load manager the topics of broker load, top bundles and ownership are read, and
    OUT/snapshot.json is kept, which `barycenter decide` takes: it names the owner of every bundle, unless ownership is
    kept in the metadata store, which is said.

    A superuser's rights are needed: as whom brokers are asked is told by options, --context, the client.conf that
    PULSAR_CLIENT_CONF names, or BARYCENTER_TOKEN. SSL_CERT_FILE may name certificates to trust instead of the system's.

    Reports are numbered across restarts in OUT/collect.json.

    Ends with 0, with 1 if the first round or the last could not be made: the brokers not listed, their
    topics not read, the numbers not kept.
    """
    named = named_url(admin_url)
    if named is None:
        raise click.UsageError(f"Missing option '--admin-url' / '--url' (or the variable {URL_VARIABLE})")
    try:
        urls = admin_urls(named)
    except ValueError as error:
        raise click.UsageError(f"--admin-url: {error}") from error
    keep_private()
    configure_logging(as_json=not sys.stderr.isatty())
    try:
        wanted = Collection(urls, out, interval, rounds, keep_days, service_url)
        ended_well = asyncio.run(collect_rounds(asking_client, asking_conf(), wanted, _printer(out, form == "json")))
    except (CollectError, OSError) as error:
        fail(in_words(error))
    if not ended_well:
        sys.exit(1)


def _printer(out: Path, as_json: bool) -> Callable[[Round | str], None]:
    ownership = ""

    def tell(found: Round | str) -> None:
        nonlocal ownership
        if isinstance(found, str):
            click.echo(f"barycenter: {found}; asking again in the next round", err=True)
        elif as_json:
            click.echo(msgspec.json.encode(found))
        else:
            at = datetime.fromtimestamp(found.at / 1000, UTC)
            owned = "" if found.owned is None else f", owners of {found.owned:,}"
            told = f"{count_of(found.brokers, 'broker')}, {count_of(found.bundles, 'bundle')}{owned}"
            click.echo(f"{at:%Y-%m-%d %H:%M:%S} UTC  {told} → {out}")
            for broker, why in found.failed.items():
                click.echo(f"  {broker}: {why}", err=True)
            if found.ownership != ownership:  # told when it changes: it may be so in every round
                ownership = found.ownership
                click.echo(f"  {ownership or 'ownership is known again'}", err=True)

    return tell
