"""`barycenter pipeline refold`: averages, or all tables, computed anew beside those recorded."""

import sys
import time
from typing import Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError, check_load_folder
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.pipeline.batch.from_logs import refold_logs
from pulsar_barycenter.pipeline.batch.recorded import Comparison, compare_with_recorded
from pulsar_barycenter.pipeline.batch.refold import Refolded, refold
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
    type=click.FloatRange(0, min_open=True),
    help="Time without reports after which the history of a bundle starts again.",
)
@click.option("--from-logs", is_flag=True, help="Compute all tables, from the logs of reports and decisions.")
@click.option("--check", is_flag=True, help=f"End with 1 if a figure differs by more than {TOLERANCE:g}, relative.")
@click.option("--out", type=DataFolder(), metavar="DIR", help="Write what was computed there, as <table>.parquet.")
@click.option("--driver-memory", default="1g", show_default=True, metavar="SIZE", help="Heap of the Java process.")
@with_spark_settings
def command(
    data: str,
    master: str | None,
    history_gap_minutes: float,
    from_logs: bool,
    check: bool,
    out: str | None,
    driver_memory: str,
    conf: dict[str, str],
) -> None:
    """Compute the averages of DIR anew from its table of samples, and compare them with the recorded ones.

    With --from-logs all tables, each row of which is looked for among the recorded ones.

    Writes nothing unless --out is given. Differences beyond rounding come from reports that were late for the running
    pipeline, from another history gap, or from logs that do not go back to the beginning. May run beside the pipeline.
    """
    gap_ms = round(history_gap_minutes * 60_000)
    folder = local_folder(data)
    try:
        if folder is not None:
            check_load_folder(folder)
        if not from_logs and folder is not None and not table_files(open_storage(data), "bundle_samples"):
            _fail_without_samples(data)  # without starting Spark
        with spark_start() as on_phase:
            session = create_session(
                "barycenter refold",
                master,
                {"spark.driver.memory": driver_memory, **conf},
                compilers=_compilers(data, from_logs=from_logs),
                on_phase=on_phase,
            )
        storage = open_storage(data, session)
        target = None if out is None else open_storage(out, session)
        if from_logs:
            tasks = tasks_of(session)
            every = refold_logs(
                session, storage, target, history_gap_ms=gap_ms, progress=lambda what: spark_progress(tasks, what)
            )
            agreed = [_told(name, found) for name, found in every]
        else:
            tables = {name: _paths(storage, name) for name in ("bundle_samples", "bundle_data", "broker_data")}
            if not (samples := tables["bundle_samples"]):
                _fail_without_samples(data)
            started = time.perf_counter()
            addresses = [storage.address(file) for file in samples]
            with spark_progress(tasks_of(session), f"folding {count_of(len(samples), 'file')}"):
                try:
                    folded = refold(session, addresses, history_gap_ms=gap_ms)
                except SPARK_ERRORS as error:
                    raise_damage(storage, ("bundle_samples",), error)
                    raise
            click.echo(_summary(folded, len(samples), time.perf_counter() - started))
            agreed = [
                _told(name, compare_with_recorded(rows, storage, tables[name], key))
                for name, key, rows in (
                    ("bundle_data", "bundle", folded.bundles),
                    ("broker_data", "broker", folded.brokers),
                )
            ]
            if target is not None:
                _write(target, folded)
        if target is not None:
            click.echo(f"written      {target.address()}")
        session.stop()
    except (JavaNotFoundError, OSError, ValueError, pa.ArrowException, WrongFolderError, *SPARK_ERRORS) as error:
        fail(in_words(error))
    if check and not all(agreed):
        sys.exit(1)


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


def _told(name: str, found: Comparison) -> bool:
    agrees = found.agrees(TOLERANCE)
    words = f"{found.matched:,} of {found.rows:,} rows were recorded"
    if found.greatest is None:
        words += ", all figures equal" if found.matched else ""
    else:
        most = found.greatest
        words += f"; greatest difference {most.relative:.1e}, {most.column} of {most.name}:"
        words += f" {most.recorded!r} recorded, {most.refolded!r} refolded"
    click.echo(f"{name:<12} {'agrees' if agrees else 'DIFFERS'}: {words}")
    return agrees


def _write(out: Storage, folded: Refolded) -> None:
    for name, rows in (("bundle_data", folded.bundles), ("broker_data", folded.brokers)):
        columns = rows.select(TABLES[name].schema.names).cast(TABLES[name].arrow_schema)
        with out.new_file(f"{name}.parquet") as file:
            pq.write_table(columns, file, compression="zstd")


def _paths(storage: Storage, name: str) -> list[str]:
    return [file.path for file in table_files(storage, name)]


def _fail_without_samples(data: str) -> None:
    fail(f"no samples under {data}/tables; `barycenter pipeline run --data {data}` makes them of load reports")
