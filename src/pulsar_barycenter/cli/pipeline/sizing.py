"""`barycenter pipeline sizing`: estimates disk, memory and times of a pipeline, and recommends options for it."""

import os
from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.running.sizing import DAY_S, Sizing, Workload, estimate
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.terminal.errors import in_words

_MEASURED = """
    with recent as (
        select broker, incarnation, sequence, reported_at, bundles from load_reports
        where reported_at > (select max(reported_at) from load_reports) - interval 1 day
    ), by_broker as (
        select broker, max_by(bundles, reported_at) as bundles, count(*) as reports,
            date_diff('millisecond', min(reported_at), max(reported_at)) / 1000 as seconds
        from recent group by broker
    )
    select count(*) as brokers, sum(bundles) as bundles,
        sum(seconds) / nullif(sum(reports - 1), 0) as interval_s from by_broker
"""
"""The newest day of the reports; the mean seconds between two reports of a broker."""


@click.command(name="sizing")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data folder of a cluster, to measure its load; a folder of this machine.",
)
@click.option("--brokers", type=click.IntRange(min=1), help="Number of brokers.")
@click.option("--bundles", type=click.IntRange(min=1), help="Number of bundles of the whole cluster.")
@click.option("--interval", type=Number(min=0, min_open=True), help="Seconds between two reports of a broker.")
@click.option(
    "--retention-days", type=click.IntRange(min=1), default=30, show_default=True, help="Days of tables kept."
)
@click.option("--cores", type=click.IntRange(min=1), help="Cores that Spark may use.  [default: those of this machine]")
@with_format("table", "json", json="one object; sizes in bytes, times in seconds")
def command(
    data: Path | None,
    brokers: int | None,
    bundles: int | None,
    interval: float | None,
    retention_days: int,
    cores: int | None,
    form: str,
) -> None:
    """Estimate what the pipeline needs, and recommend options for `barycenter pipeline run`.

    With --data the load is measured from the newest day of the tables in DIR; --brokers, --bundles and --interval
    replace what was measured. Without --data all three are required. Estimates are right within a factor of two.
    """
    measured = (None, None, None) if data is None else _measured(data)
    found = [given or known for given, known in zip((brokers, bundles, interval), measured, strict=True)]
    names = ("--brokers", "--bundles", "--interval")
    missing = [name for name, value in zip(names, found, strict=True) if value is None]
    if missing:
        where = "" if data is None else f"; the tables of {data} have too few reports to measure it"
        raise click.UsageError(f"give {', '.join(missing)}{where}")
    load = Workload(int(found[0] or 0), int(found[1] or 0), float(found[2] or 0))
    sizing = estimate(load, retention_days=retention_days, cores=cores or os.cpu_count() or 1)
    if form == "json":
        document = msgspec.to_builtins(sizing) | {
            "load": load,
            "disk": sizing.disk,
            "keeps_up": sizing.keeps_up,
            "options": sizing.options,
        }
        click.echo(msgspec.json.encode(document))
        return
    click.echo("\n".join(f"{name:<20} {text}" for name, text in _lines(load, sizing, retention_days)))


def _measured(data: Path) -> tuple[int | None, int | None, float | None]:
    """Return brokers, bundles and interval from the tables; None for a number that the tables do not have."""
    from pulsar_barycenter.pipeline.local_sql import run_local_sql

    try:
        row = run_local_sql(PipelineLayout.of(data), _MEASURED).to_pylist()[0]
    except OSError as error:
        fail(in_words(error))
        raise
    return row["brokers"] or None, row["bundles"] or None, row["interval_s"] or None


def _lines(load: Workload, sizing: Sizing, retention_days: int) -> list[tuple[str, str]]:
    reports = DAY_S / load.interval_s
    keeps_up = (
        "the pipeline keeps up" if sizing.keeps_up else "the pipeline CANNOT keep up: let brokers report less often"
    )
    samples = count_of(round(sizing.batch_samples), "sample")
    brokers, bundles = count_of(load.brokers, "broker"), count_of(load.bundles, "bundle")
    return [
        ("load", f"{brokers}, {bundles}, a report of a broker each {load.interval_s:,.1f} s ({reports:,.0f} a day)"),
        ("samples", f"{sizing.samples_per_day:,.0f} a day, {load.samples_per_second:,.0f} a second"),
        ("report log", f"{_size(sizing.report_log_per_day)} a day; {_size(sizing.archive)} in the archive (2 days)"),
        (
            "tables",
            f"{_size(sizing.tables_per_day)} a day; {_size(sizing.tables)} for {count_of(retention_days, 'day')}",
        ),
        ("state, publication", f"{_size(sizing.state)}, {_size(sizing.publication)}"),
        ("disk", f"{_size(sizing.disk)} in all"),
        ("memory", f"{_size(sizing.memory_python)} Python, {_size(sizing.memory_java)} Java"),
        (
            "a batch",
            f"{samples}, {sizing.batch_s:.1f} s, at times {sizing.whole_s:.1f} s more",
        ),
        ("utilization", f"{sizing.utilization:.0%} of the time in a batch: {keeps_up}"),
        ("a start", f"5 s, and {sizing.start_s:.1f} s to read the state"),
        ("recommended", sizing.options),
    ]


def _size(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"
