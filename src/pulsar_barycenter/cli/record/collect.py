"""`barycenter collect`: records the load of a running cluster for the pipeline, replays and the advisor."""

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
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collecting import Collection, collect_rounds
from pulsar_barycenter.observer.collector import CollectError, Round, admin_urls
from pulsar_barycenter.operations.policies_read import PoliciesOfCluster
from pulsar_barycenter.run.process_log import configure_logging
from pulsar_barycenter.terminal.errors import in_words


@click.command(name="collect")
@click.option(
    "--admin-url",
    "--url",
    "admin_url",
    metavar="URL",
    help=f"Web address of a broker or a proxy; several brokers: http://broker-1:8080,broker-2:8080.  [{URL_VARIABLE}]",
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Data folder to fill.")
@click.option("--interval", default="60s", show_default=True, type=Seconds(1), help="Time between rounds: 60s, 5m.")
@click.option("--rounds", default=0, type=click.IntRange(0), help="The number of rounds; 0: until Ctrl-C.")
@click.option("--keep-days", default=30.0, show_default=True, type=Number(0.1), help="Delete reports that are older.")
@click.option("--service-url", help="pulsar:// address; needed if brokers run the extensible load manager.")
@with_client_conf
@with_format("table", "json", json="one object for each round")
def command(
    admin_url: str | None,
    out: Path,
    interval: float,
    rounds: int,
    keep_days: float,
    service_url: str | None,
    form: str,
) -> None:
    """Record the load reports of the brokers of a cluster, Apache Pulsar or Barycenter.

    Reports are appended to OUT/load-reports, in the format of Barycenter's brokers. `barycenter pipeline run --data
    OUT` turns them into tables. A broker that does not answer is named, and queried again in the next round. If the
    broker at URL stops, another known broker is asked for the list of brokers.

    With the extensible load manager, the topics with broker load, top bundles and ownership are read, and the file
    OUT/snapshot.json is written in each round, for `barycenter decide`. It has the owner of every bundle, unless
    ownership is in the metadata store; a message then says so.

    A superuser's rights are needed. Credentials come from the options, --context, the client.conf that
    PULSAR_CLIENT_CONF names, or BARYCENTER_TOKEN. SSL_CERT_FILE may name certificates to trust instead of the system's.

    OUT/collect.json has the number of the last report of each broker, so that numbers continue after a restart.
    OUT/settings.jsonl has the settings that load balancing uses, a line for each change: `barycenter watch` explains
    moves by them. OUT/policies.jsonl has the rules of administrators in the same form: isolation policies, failure
    domains, anti-affinity groups. While it runs, the folder is locked: one process records into it.

    Exit code: 0; 1 if the first or the last round failed: the brokers could not be listed, their topics not be read, or
    the numbers not be written; or if another process records into OUT.
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
        tell = _printer(out, form == "json")
        ended_well = asyncio.run(collect_rounds(asking_client, asking_conf(), wanted, tell, PoliciesOfCluster))
    except (CollectError, OSError) as error:
        fail(in_words(error))
    if not ended_well:
        sys.exit(1)


def _printer(out: Path, as_json: bool) -> Callable[[Round | str], None]:
    ownership = policies = ""

    def tell(found: Round | str) -> None:
        nonlocal ownership, policies
        if isinstance(found, str):
            click.echo(f"barycenter: {found}; the next round of `barycenter collect` tries again", err=True)
        elif as_json:
            click.echo(msgspec.json.encode(found))
        else:
            at = datetime.fromtimestamp(found.at / 1000, UTC)
            owned = "" if found.owned is None else f", owners of {found.owned:,}"
            sizes = f"{count_of(found.brokers, 'broker')}, {count_of(found.bundles, 'bundle')}{owned}"
            click.echo(f"{at:%Y-%m-%d %H:%M:%S} UTC  recorded {sizes} → {out}")
            for broker, why in found.failed.items():
                click.echo(f"  {broker}: {why}", err=True)
            if found.ownership != ownership:  # printed only when it changes, as it may be the same in every round
                ownership = found.ownership
                click.echo(f"  {ownership or 'the owners of the bundles can be read again'}", err=True)
            if found.policies != policies:
                policies = found.policies
                unknown = f"the rules of administrators cannot be read: {policies}"
                click.echo(f"  {unknown if policies else 'the rules of administrators can be read again'}", err=True)

    return tell
