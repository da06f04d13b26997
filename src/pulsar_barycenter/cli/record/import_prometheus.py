"""`barycenter import prometheus`: makes load reports of the metrics of Pulsar that a Prometheus has stored."""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asking_client, named_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import Seconds, moment_ms
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.observer.prometheus.export_files import ExportFiles, read_files
from pulsar_barycenter.observer.prometheus.http_api import (
    MAX_ANSWER_BYTES,
    TIMEOUT_S,
    PrometheusApi,
    bearer,
    token_in,
    usual_back_off,
)
from pulsar_barycenter.observer.prometheus.importing import Boundaries, Options, Outcome, import_metrics
from pulsar_barycenter.observer.prometheus.placing import boundaries_of
from pulsar_barycenter.observer.prometheus.reports import Hardware
from pulsar_barycenter.observer.prometheus.series import ImportRefusedError
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import printable
from pulsar_barycenter.whole_files.reading import read_regular

MAX_BOUNDARIES_BYTES: Final = 256 << 20
_USUAL_STEP_S: Final = 60.0
_CLOCK_OFF_MS: Final = 60_000
_ADMIN_TIMEOUT_S: Final = 20.0
_ADMIN_BYTES: Final = 64 << 20


@click.command(name="prometheus")
@click.option(
    "--url", "metrics_url", metavar="URL", help="Web address of the Prometheus, such as http://prometheus:9090."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this file instead: an answer of query_range (.json), or OpenMetrics text with times; may be repeated.",
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Data folder to fill.")
@click.option("--since", default="", help="Begin: 30d, 12h, or a time.  [default: 30d; with --file all]")
@click.option("--until", default="", help="End: a span before now, or a time.  [default: now]")
@click.option(
    "--step", type=Seconds(5), help="Time between reports.  [default: 60s; with --file that between its points]"
)
@click.option("--cluster", default="", help="The label `cluster`; needed if several clusters are stored.")
@click.option("--match", "matches", multiple=True, metavar="LABEL=VALUE", help="Only these series; may be repeated.")
@click.option(
    "--admin-url", metavar="URL", help=f"Web address of a broker, for the boundaries of bundles.  [{URL_VARIABLE}]"
)
@click.option(
    "--bundles",
    "bundles_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file with the boundaries of namespaces; --admin-url is asked for others.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the bearer token for the Prometheus.",
)
@click.option("--cores", type=Number(0, 10_000, min_open=True), help="Cores of each broker.")
@click.option("--network-gbits", type=Number(0, 10_000, min_open=True), help="Network of each broker, Gbit/s.")
@with_client_conf
@with_format("text", "json", json="one object at the end")
def command(
    metrics_url: str | None,
    files: tuple[Path, ...],
    out: Path,
    since: str,
    until: str,
    step: float | None,
    cluster: str,
    matches: tuple[str, ...],
    admin_url: str | None,
    bundles_file: Path | None,
    token_file: Path | None,
    cores: float | None,
    network_gbits: float | None,
    form: str,
) -> None:
    """Make load reports of the metrics of Pulsar's brokers that a Prometheus has stored.

    OUT/load-reports gets the reports that `barycenter collect` would have recorded. `barycenter pipeline run --data
    OUT` turns them into tables, for `history`, `replay` and `advise`. docs/import.md says which metrics are read, and
    what they cannot show.

    The bundle of a topic is found by the hash of its name and the boundaries of its namespace: --admin-url or
    --bundles. With neither, the metrics of bundles are read, which brokers have with exposeBundlesMetricsInPrometheus.

    A run that was interrupted goes on if it is started again with the same options; a later run adds what is new.
    OUT/import.json has the state. The token in --token-file is sent to the Prometheus only. All other credentials are
    sent to --admin-url only.

    Exit code: 0; 1 if the metrics cannot be read or used; 2 for wrong usage.
    """
    if bool(metrics_url) == bool(files):
        raise click.UsageError("give --url, or --file once or more")
    if metrics_url and not metrics_url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {metrics_url}: give an address that begins with http:// or https://")
    labels = [_label(text) for text in matches]
    keep_private()
    hardware = Hardware(cores=cores, network_gbits=network_gbits)
    span = _Period(moment_ms("--since", since or ("" if files else "30d")), moment_ms("--until", until), step)
    known = _known_boundaries(bundles_file)
    broker = _broker_url(admin_url)
    try:
        make = _from_files(files, labels) if files else _from_server(str(metrics_url), labels, token_file)
        outcome = asyncio.run(make(_Run(out, span, cluster, labels, hardware, known, broker)))
    except (ImportRefusedError, WrongFolderError, OSError) as error:
        fail(in_words(error))
        return
    _print(outcome, out, as_json=form == "json")


_Importer: TypeAlias = Callable[["_Run"], Coroutine[Any, Any, Outcome]]


class _Period(msgspec.Struct, frozen=True):
    since_ms: int
    until_ms: int
    step_s: float | None


class _Run(msgspec.Struct, frozen=True):
    """The options that do not depend on the source of the metrics. `known` is the content of the file of --bundles,
    None without it; `broker` is the address of --admin-url, "" without it.
    """

    out: Path
    period: _Period
    cluster: str
    labels: list[tuple[str, str]]
    hardware: Hardware
    known: Any
    broker: str

    def options(self, source: str, until_ms: int, step_s: float) -> Options:
        return Options(
            source=source,
            out=self.out,
            since_ms=self.period.since_ms,
            until_ms=min(until_ms, self.period.until_ms or until_ms),
            step_ms=round((self.period.step_s or step_s) * 1000),
            cluster=self.cluster,
            labels=self.labels,
            hardware=self.hardware,
        )

    def boundaries(self, client: AdminClient) -> Boundaries | None:
        if self.known is None and not self.broker:
            return None
        return Boundaries(dict(self.known or {}), client=client if self.broker else None, url=self.broker)


def _from_files(files: tuple[Path, ...], labels: list[tuple[str, str]]) -> _Importer:
    source = ExportFiles(read_files(files), labels)

    async def run(wanted: _Run) -> Outcome:
        spacing_s = max(source.spacing_s, 5.0)
        options = wanted.options(", ".join(map(str, files)), 1 << 53, spacing_s)
        if options.step_ms < source.spacing_s * 1000:
            raise ImportRefusedError(
                f"the files have a point every {source.spacing_s:g} s; give --step {source.spacing_s:g}s or more"
            )
        client = asking_client(timeout_s=_ADMIN_TIMEOUT_S, most_bytes=_ADMIN_BYTES)
        try:
            return await import_metrics(source, wanted.boundaries(client), options, _progress)
        finally:
            await client.close()

    return run


def _from_server(url: str, labels: list[tuple[str, str]], token_file: Path | None) -> _Importer:
    if token_file is not None:
        token_in(token_file)

    async def run(wanted: _Run) -> Outcome:
        metrics = AdminClient(timeout_s=TIMEOUT_S, most_bytes=MAX_ANSWER_BYTES, bears=bearer(token_file))
        client = asking_client(timeout_s=_ADMIN_TIMEOUT_S, most_bytes=_ADMIN_BYTES)
        source = PrometheusApi(url, metrics, labels=labels, back_off=usual_back_off())
        try:
            now_ms = await source.now_ms()
            _warn_of_clock(url, now_ms)
            return await import_metrics(
                source, wanted.boundaries(client), wanted.options(url, now_ms, _USUAL_STEP_S), _progress
            )
        finally:
            await metrics.close()
            await client.close()

    return run


def _warn_of_clock(url: str, now_ms: int) -> None:
    off_ms = now_ms - round(time.time() * 1000)
    if abs(off_ms) > _CLOCK_OFF_MS:
        click.echo(
            f"barycenter: the clock of {url} is {abs(off_ms) / 1000:,.0f} s {'ahead of' if off_ms > 0 else 'behind'}"
            " the clock of this machine: reports get the times of the first clock, but spans in --since and --until"
            " count back from the time of this machine. Correct the clocks, or give --since and --until as times",
            err=True,
        )


def _known_boundaries(file: Path | None) -> Any:
    if file is None:
        return None
    try:
        return boundaries_of(read_regular(file, MAX_BOUNDARIES_BYTES), str(file))
    except (ImportRefusedError, OSError) as error:
        raise click.UsageError(f"--bundles: {in_words(error)}") from error


def _broker_url(admin_url: str | None) -> str:
    named = named_url(admin_url)
    if not named:
        return ""
    try:
        return admin_urls(named)[0]
    except ValueError as error:
        raise click.UsageError(f"--admin-url: {error}") from error


def _label(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.isidentifier():
        raise click.UsageError(f"--match {text}: give LABEL=VALUE, such as job=pulsar")
    return name, value


def _progress(done: int, whole: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done:,} of {count_of(whole, 'step')}" + ("\n" if done == whole else ""), err=True, nl=False)
    elif done == whole:
        click.echo(count_of(whole, "step"), err=True)


def _print(outcome: Outcome, out: Path, *, as_json: bool) -> None:
    for warning in outcome.warnings:
        click.echo(printable(f"barycenter: {warning}"), err=True)
    if as_json:
        click.echo(msgspec.json.encode(outcome))
        return
    brokers, bundles = count_of(outcome.brokers, "broker"), count_of(outcome.bundles, "bundle")
    click.echo(f"wrote {count_of(outcome.reports, 'report')} of {brokers}, {bundles} → {out}")
    for missing in outcome.missing:
        click.echo(f"missing: {missing}")
    click.echo(f"next, run: barycenter pipeline run --data {out}")
