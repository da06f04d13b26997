"""`barycenter collect`: record the load of a running cluster for the pipeline, replays and the advisor."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pulsar_barycenter.attach.answers import CERTIFICATES_VARIABLE
from pulsar_barycenter.attach.collected_snapshot import keep_snapshot
from pulsar_barycenter.attach.collector import CollectError, Collector, ExtensibleTopics, Round, admin_urls
from pulsar_barycenter.attach.report_numbers import ReportNumbers
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, asking_conf, named_url
from pulsar_barycenter.cli.asking.client_conf import ClientConf
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail, in_words
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import Seconds
from pulsar_barycenter.cli.run.process_log import configure_logging
from pulsar_barycenter.cli.terminal import count_of
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog

_TIMEOUT_S: Final = 20.0
_MOST_BYTES: Final = 256 * 2**20
"""Of one answer: the load report of a broker of half a million bundles has that many."""
_SNAPSHOT: Final = "snapshot.json"


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
        ended_well = asyncio.run(_collect(urls, out, interval, rounds, keep_days, service_url, form == "json"))
    except (CollectError, OSError) as error:
        fail(in_words(error))
    if not ended_well:
        sys.exit(1)


async def _collect(
    urls: Sequence[str],
    out: Path,
    interval: float,
    rounds: int,
    keep_days: float,
    service_url: str | None,
    as_json: bool,
) -> bool:
    client = asking_client(timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    conf = asking_conf()
    clients: list[Any] = []

    def open_topics() -> ExtensibleTopics:
        import pulsar  # only the load topics need it

        from pulsar_barycenter.attach.extensible_topics import PulsarExtensibleTopics

        try:
            topics = pulsar.Client(
                service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **_binary_options(conf)
            )
            clients[:] = [topics]
            return PulsarExtensibleTopics(topics)
        except (pulsar.PulsarException, ValueError) as error:
            for each in clients:
                each.shutdown()
            clients.clear()
            trust = f" and {CERTIFICATES_VARIABLE}" if str(service_url).startswith("pulsar+ssl:") else ""
            raise CollectError(
                f"cannot read the load topics at {service_url}: {error}; check --service-url{trust}"
            ) from error

    report_log = FileReportLog(out / "load-reports", retention_hours=keep_days * 24)
    collector = Collector(
        urls,
        client,
        report_log,
        ReportNumbers(out / "collect.json", now_ms=_now_ms()),
        clock_ms=_now_ms,
        extensible=open_topics if service_url else None,
        keep_snapshot=partial(keep_snapshot, out / _SNAPSHOT),
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        return await _go_round(collector, stop, interval, rounds, _printer(out, as_json))
    finally:
        report_log.close()
        await client.close()
        for each in clients:
            each.close()


def _binary_options(conf: ClientConf) -> dict[str, Any]:
    """Return what Pulsar's client is given to show and trust the same by the binary protocol."""
    import pulsar

    shows, tls = conf.shows, conf.tls
    options: dict[str, Any] = {}
    if shows.method == "token":
        options["authentication"] = pulsar.AuthenticationToken(shows.token_in_thread)
    elif shows.method == "basic":
        user, _, password = (shows.auth_data() or b"").decode().partition(":")
        options["authentication"] = pulsar.AuthenticationBasic(user, password)
    elif shows.certificate_file:
        options["authentication"] = pulsar.AuthenticationTLS(shows.certificate_file, shows.key_file)
    trusted = (tls.trust_file if tls is not None else "") or os.environ.get(CERTIFICATES_VARIABLE)
    if trusted:
        options["tls_trust_certs_file_path"] = trusted
    if tls is not None:
        options |= {
            "tls_allow_insecure_connection": not tls.verifies,
            "tls_validate_hostname": tls.verifies and tls.verifies_host_name,
        }
    return options


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _go_round(
    collector: Collector, stop: asyncio.Event, interval: float, rounds: int, tell: Callable[[Round | str], None]
) -> bool:
    """Collect round after round; return whether the last one could list the brokers."""
    loop = asyncio.get_running_loop()
    due, number, is_well = loop.time(), 0, False
    while True:
        number += 1
        try:
            tell(await collector.collect())
            is_well = True
        except CollectError as error:
            if number == 1:
                raise
            is_well = False
            tell(str(error))
        due = max(due + interval, loop.time())
        if number == rounds:
            return is_well
        try:
            await asyncio.wait_for(stop.wait(), due - loop.time())
        except TimeoutError:
            continue
        return is_well


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
