"""`barycenter pipeline refold`: computes averages or all tables again and compares them with the recorded ones.

This process folds a small history; Spark, whose start takes longer, folds the others. Only this module makes the
choice: `batch.refold` computes the same rows in both cases.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.batch.from_logs import refold_logs
from pulsar_barycenter.pipeline.batch.output import replaced_tables, table_path
from pulsar_barycenter.pipeline.batch.recorded import Comparison, compare_with_recorded
from pulsar_barycenter.pipeline.batch.refold import SMALL_HISTORY, Refolded, is_small_history, refold, refold_here
from pulsar_barycenter.pipeline.running.job_options import DataFolder, SparkMaster, with_spark_settings
from pulsar_barycenter.pipeline.running.small_work import compilers_for_logs, compilers_for_tables
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.java_options import Compilers
from pulsar_barycenter.pipeline.spark.session import SPARK_ERRORS, create_session, tasks_of
from pulsar_barycenter.pipeline.storage.files import Storage, local_folder
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.reading import raise_damage
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import spark_progress, spark_start

TOLERANCE: Final = 1e-9


@click.command(name="refold")
@click.option("--data", required=True, type=DataFolder(), metavar="DIR", help="Data folder of the cluster.")
@click.option("--master", type=SparkMaster(may_connect=True), metavar="URL", help="Spark master.  [default: local[2]]")
@click.option(
    "--history-gap-minutes",
    default=HISTORY_GAP_MS / 60_000,
    show_default=True,
    type=Number(0, min_open=True),
    help="Time without reports after which the history of a bundle starts again.",
)
@click.option("--from-logs", is_flag=True, help="Compute all tables, from the logs of reports and decisions.")
@click.option(
    "--spark/--no-spark",
    default=None,
    help="Fold with Spark, or in this process.  [default: with Spark if DIR is no folder of this machine, has more than"
    f" {SMALL_HISTORY:,} samples, or --from-logs, --master or --conf is given]",
)
@click.option("--check", is_flag=True, help=f"Exit with 1 if a value differs by more than {TOLERANCE:g}, relative.")
@click.option("--out", type=DataFolder(), metavar="DIR", help="Write the computed tables there, as <table>.parquet.")
@click.option("--driver-memory", default="1g", show_default=True, metavar="SIZE", help="Heap of the Java process.")
@with_spark_settings
def command(
    data: str,
    master: str | None,
    history_gap_minutes: float,
    from_logs: bool,
    spark: bool | None,
    check: bool,
    out: str | None,
    driver_memory: str,
    conf: dict[str, str],
) -> None:
    """Compute the averages of DIR again from its table of samples, and compare them with the recorded ones.

    With --from-logs, compute all tables, and look up each row in the recorded tables.

    The command writes nothing unless --out is given; then all tables replace those of an earlier refold at once.
    Differences beyond rounding have these causes: reports came too late for the running pipeline, the history gap
    differs, or the logs do not reach back to the beginning. The command may run while the pipeline runs.
    """
    gap_ms = round(history_gap_minutes * 60_000)
    folder = local_folder(data)
    needs = _needs_spark(data, out, from_logs=from_logs, master=master, conf=conf)
    if spark is False and needs:
        raise click.UsageError(f"--no-spark: {needs} needs Spark; leave out one of the two")
    try:
        if folder is not None:
            check_load_folder(folder)
        samples = _samples(open_storage(data)) if folder is not None and not from_logs else []
        if folder is not None and not from_logs and not samples:
            _fail_without_samples(data)
        if spark or needs or not (spark is False or is_small_history(samples)):
            settings = {"spark.driver.memory": driver_memory, **conf}
            agreed = _fold_with_spark(data, out, master, settings, gap_ms, from_logs=from_logs)
        else:
            agreed = _fold_here(open_storage(data), samples, None if out is None else open_storage(out), gap_ms)
    except (JavaNotFoundError, OSError, ValueError, pa.ArrowException, WrongFolderError, *SPARK_ERRORS) as error:
        fail(in_words(error))
    if check and not all(agreed):
        sys.exit(1)


def _needs_spark(
    data: str, out: str | None, *, from_logs: bool, master: str | None, conf: Mapping[str, str]
) -> str | None:
    """Return the first option that needs Spark, with its value; None if no option needs Spark."""
    if local_folder(data) is None:
        return f"--data {data}"
    if out is not None and local_folder(out) is None:
        return f"--out {out}"
    if master is not None:
        return f"--master {master}"
    return "--from-logs" if from_logs else "--conf" if conf else None


def _fold_with_spark(
    data: str, out: str | None, master: str | None, settings: Mapping[str, str], gap_ms: int, *, from_logs: bool
) -> list[bool]:
    with spark_start() as on_phase:
        compilers = _compilers(data, from_logs=from_logs)
        session = create_session("barycenter refold", master, settings, compilers=compilers, on_phase=on_phase)
    storage = open_storage(data, session)
    target = None if out is None else open_storage(out, session)
    tasks = tasks_of(session)
    if from_logs:
        every = refold_logs(
            session, storage, target, history_gap_ms=gap_ms, progress=lambda what: spark_progress(tasks, what)
        )
        agreed = [_print_result(name, found) for name, found in every]
        _print_output(target)
    else:
        samples = _samples(storage)
        if not samples:
            _fail_without_samples(data)
        started = time.perf_counter()
        with spark_progress(tasks, f"folding {count_of(len(samples), 'file')}"):
            try:
                folded = refold(session, samples, history_gap_ms=gap_ms)
            except SPARK_ERRORS as error:
                raise_damage(storage, ("bundle_samples",), error)
                raise
        click.echo(f"{_summary(folded, len(samples), time.perf_counter() - started)}, with Spark")
        agreed = _compare_and_write(storage, folded, target)
    session.stop()
    return agreed


def _fold_here(storage: Storage, samples: Sequence[str], target: Storage | None, gap_ms: int) -> list[bool]:
    started = time.perf_counter()
    folded = refold_here(samples, history_gap_ms=gap_ms)
    click.echo(f"{_summary(folded, len(samples), time.perf_counter() - started)}, without Spark")
    return _compare_and_write(storage, folded, target)


def _compare_and_write(storage: Storage, folded: Refolded, target: Storage | None) -> list[bool]:
    averages = {"bundle_data": ("bundle", folded.bundles), "broker_data": ("broker", folded.brokers)}
    agreed = [
        _print_result(
            name, compare_with_recorded(rows, storage, [file.path for file in table_files(storage, name)], key)
        )
        for name, (key, rows) in averages.items()
    ]
    if target is not None:
        _write(target, folded)
    _print_output(target)
    return agreed


def _print_output(target: Storage | None) -> None:
    if target is not None:
        click.echo(f"written      {target.address()}")


def _compilers(data: str, *, from_logs: bool) -> Compilers:
    if local_folder(data) is None:
        return Compilers.BOTH
    storage = open_storage(data)
    return (
        compilers_for_logs(storage, with_archive=True)
        if from_logs
        else compilers_for_tables(storage, ["bundle_samples"])
    )


def _summary(folded: Refolded, files: int, seconds: float) -> str:
    as_of = folded.brokers.column("as_of")[0].as_py() if len(folded.brokers) else None
    when = f" as of {as_of:%Y-%m-%d %H:%M:%S} UTC" if as_of else ""
    late = f"; {count_of(folded.late, 'bundle')} had samples out of order" if folded.late else ""
    bundles, brokers = count_of(len(folded.bundles), "bundle"), count_of(len(folded.brokers), "broker")
    return f"refolded     {bundles} and {brokers}{when}, from {count_of(files, 'file')} in {seconds:.1f} s{late}"


def _print_result(name: str, found: Comparison) -> bool:
    agrees = found.agrees(TOLERANCE)
    words = f"{found.matched:,} of {found.rows:,} computed rows are recorded"
    if found.greatest is None:
        words += ", all values equal" if found.matched else ""
    else:
        most = found.greatest
        words += f"; greatest difference {most.relative:.1e}, {most.column} of {most.name}:"
        words += f" {most.recorded!r} recorded, {most.refolded!r} refolded"
    click.echo(f"{name:<12} {'agrees' if agrees else 'DIFFERS'}: {words}")
    return agrees


def _write(out: Storage, folded: Refolded) -> None:
    with replaced_tables(out) as new:
        for name, rows in (("bundle_data", folded.bundles), ("broker_data", folded.brokers)):
            columns = rows.select(TABLES[name].schema.names).cast(TABLES[name].arrow_schema)
            with out.new_file(f"{new}/{table_path(name)}") as file:
                pq.write_table(columns, file, compression="zstd")


def _samples(storage: Storage) -> list[str]:
    return [storage.address(file.path) for file in table_files(storage, "bundle_samples")]


def _fail_without_samples(data: str) -> None:
    fail(f"no samples under {data}/tables; `barycenter pipeline run --data {data}` computes them from load reports")
