"""`barycenter generate-load`: writes synthetic load reports, for trials and for sizing."""

import time
from pathlib import Path

import click

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.moments import moment_ms, span_ms
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_no_history
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.lab.trace_files import trace_in
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan, NamespaceTraces
from pulsar_barycenter.replay.synthetic.shapes import Distribution
from pulsar_barycenter.replay.traces import read_trace_with_gaps
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress

_KEEP_HOURS = 1e6


@click.command(name="generate-load")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Data folder to fill.")
@click.option("--brokers", default=3, show_default=True, type=click.IntRange(1, 10_000), help="Number of brokers.")
@click.option("--bundles", default=300, show_default=True, type=click.IntRange(1), help="Bundles of the cluster.")
@click.option(
    "--interval", default="60s", show_default=True, metavar="SPAN", help="Time between two reports of a broker."
)
@click.option(
    "--duration", default="1h", show_default=True, metavar="SPAN", help="Time from the first report to the end."
)
@click.option("--start", default="", metavar="TIME", help="Time of the first report.  [default: DURATION ago]")
@click.option(
    "--from-traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of CSV files (timestamp,value), one for each topic; or a folder of such folders, one for "
    "each namespace.",
)
@click.option(
    "--distribution",
    type=click.Choice([str(distribution) for distribution in Distribution]),
    help="Distribution of the bundles' mean rates.  [default: lognormal; with traces even]",
)
@click.option(
    "--mean-rate",
    default=100.0,
    show_default=True,
    type=Number(0, min_open=True),
    help="Mean msg/s into a bundle.",
)
@click.option(
    "--speedup",
    default=1.0,
    show_default=True,
    type=Number(0, min_open=True),
    help="Seconds of the traces, or of the daily swing, for each second of the reports.",
)
@click.option("--add", is_flag=True, help="Add to the load reports that OUT already has.")
@click.option(
    "--seed", default=1, show_default=True, type=click.IntRange(0), help="The same seed yields the same load."
)
def command(
    out: Path,
    brokers: int,
    bundles: int,
    interval: str,
    duration: str,
    start: str,
    from_traces: Path | None,
    distribution: str | None,
    mean_rate: float,
    speedup: float,
    add: bool,
    seed: int,
) -> None:
    """Write synthetic load reports to OUT/load-reports, in the format of Barycenter's brokers.

    `barycenter pipeline run --data OUT --once` turns them into tables. Bundles are assigned to brokers by hash and do
    not move. CPU, memory and bandwidth follow from the rates: a message has 1 KiB and two subscriptions, and each
    receipt and delivery takes 10 µs of a core; a broker has eight cores and 10 Gbit/s.

    A folder that already has load reports is refused, unless --add is given.
    """
    interval_ms, duration_ms = span_ms("--interval", interval), span_ms("--duration", duration)
    start_ms = moment_ms("--start", start) if start else time.time_ns() // 1_000_000 - duration_ms
    keep_private()
    try:
        if not add:
            check_no_history(out)
        namespaces = _namespaces(from_traces) if from_traces else ()
        chosen = Distribution(distribution or (Distribution.EVEN if namespaces else Distribution.LOGNORMAL))
        plan = LoadPlan(
            brokers=brokers,
            bundles=bundles,
            interval_ms=interval_ms,
            start_ms=start_ms,
            seed=seed,
            distribution=chosen,
            mean_rate=mean_rate,
            speedup=speedup,
            namespaces=namespaces,
        )
        generator = LoadGenerator(plan)
        reports = generator.reports_until(start_ms + duration_ms)
        (out / "load-reports").mkdir(parents=True, exist_ok=True)
        log = FileReportLog(out / "load-reports", retention_hours=_KEEP_HOURS)
        for number in with_progress(range(reports), "writing reports"):
            log.append(generator.report(number))
    except (ReplayInputError, ValueError, OSError, WrongFolderError) as error:
        fail(in_words(error))
    cluster = f"{count_of(brokers, 'broker')} with {count_of(bundles, 'bundle')}"
    click.echo(f"wrote {count_of(reports, 'report')} of {cluster} → {out / 'load-reports'}")


def _namespaces(folder: Path) -> tuple[NamespaceTraces, ...]:
    """Return the namespaces of traces: the folder itself if it has CSV files, else each folder in it that has CSV
    files.
    """
    folders = [folder] if any(folder.glob("*.csv")) else sorted(entry for entry in folder.iterdir() if entry.is_dir())
    found = [
        NamespaceTraces(
            parent.resolve().name, tuple(trace_in(file, read_trace_with_gaps) for file in sorted(parent.glob("*.csv")))
        )
        for parent in folders
    ]
    with_traces = tuple(namespace for namespace in found if namespace.traces)
    if not with_traces:
        raise ReplayInputError(
            f"neither {folder} nor a folder in it has .csv files of timestamp,value; give a folder that has such files"
        )
    return with_traces
