"""`barycenter pipeline refold`: the averages computed anew from the samples, beside those recorded."""

import posixpath
import sys
import time
from pathlib import Path
from typing import Final

import click
import pyarrow as pa
import pyarrow.parquet as pq

from barycenter.cli.main import fail, in_words
from barycenter.load.windows import HISTORY_GAP_MS
from barycenter.pipeline.addresses import is_local, table_addresses
from barycenter.pipeline.fold_kernel import filesystem_of
from barycenter.pipeline.java import JavaNotFoundError
from barycenter.pipeline.job_options import SparkMaster
from barycenter.pipeline.recorded import Comparison, compare_with_recorded
from barycenter.pipeline.refold import Refolded, refold
from barycenter.pipeline.schemas import TABLES
from barycenter.pipeline.session import SPARK_ERRORS, create_session

TOLERANCE: Final = 1e-9


@click.command(name="refold")
@click.option("--data", required=True, metavar="DIR", help="Data folder, or its copy at file:, s3a: or hdfs:.")
@click.option("--master", type=SparkMaster(), metavar="URL", help="Spark master.  [default: local[2]]")
@click.option(
    "--history-gap-minutes",
    default=HISTORY_GAP_MS / 60_000,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Silence after which a bundle's history begins anew.",
)
@click.option("--check", is_flag=True, help=f"End with 1 if a figure differs by more than {TOLERANCE:g}, relative.")
@click.option("--out", metavar="DIR", help="Write bundle_data.parquet and broker_data.parquet there.")
@click.option("--driver-memory", default="1g", show_default=True, metavar="SIZE", help="Heap of the Java process.")
def refold_command(
    data: str, master: str | None, history_gap_minutes: float, check: bool, out: str | None, driver_memory: str
) -> None:
    """Compute the averages of DIR anew from its table of samples, and compare them with the recorded ones.

    Writes nothing unless --out is given. Differences beyond rounding come from reports that were late for the running
    pipeline, or from another history gap. May run beside the pipeline.
    """
    try:
        samples = table_addresses(data, "bundle_samples")
        if not samples:
            fail(f"no samples under {data}/tables; `barycenter pipeline run --data {data}` makes them of load reports")
        recorded = {name: table_addresses(data, name) for name in ("bundle_data", "broker_data")}
        session = create_session("barycenter refold", master, {"spark.driver.memory": driver_memory})
        started = time.perf_counter()
        folded = refold(session, samples, history_gap_ms=round(history_gap_minutes * 60_000))
        seconds = time.perf_counter() - started
        session.stop()
        click.echo(_summary(folded, len(samples), seconds))
        agreed = [
            _told(name, compare_with_recorded(rows, recorded[name], key))
            for name, key, rows in (
                ("bundle_data", "bundle", folded.bundles),
                ("broker_data", "broker", folded.brokers),
            )
        ]
        if out is not None:
            _write(out, folded)
    except (JavaNotFoundError, OSError, ValueError, pa.ArrowException, *SPARK_ERRORS) as error:
        fail(in_words(error))
    if check and not all(agreed):
        sys.exit(1)


def _summary(folded: Refolded, files: int, seconds: float) -> str:
    as_of = folded.brokers.column("as_of")[0].as_py() if len(folded.brokers) else None
    when = f" as of {as_of:%Y-%m-%d %H:%M:%S} UTC" if as_of else ""
    late = f"; {folded.late:,} bundles had samples out of order" if folded.late else ""
    bundles, brokers = f"{len(folded.bundles):,} bundles", f"{len(folded.brokers):,} brokers"
    return f"refolded     {bundles} and {brokers}{when}, from {files:,} files in {seconds:.1f} s{late}"


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


def _write(out: str, folded: Refolded) -> None:
    target = str(Path(out).absolute()) if is_local(out) and not out.startswith("file:") else out
    system, folder = filesystem_of(target)
    system.create_dir(folder, recursive=True)
    for name, rows in (("bundle_data", folded.bundles), ("broker_data", folded.brokers)):
        columns = rows.select(TABLES[name].schema.names).cast(TABLES[name].arrow_schema)
        pq.write_table(columns, posixpath.join(folder, f"{name}.parquet"), filesystem=system, compression="zstd")
    click.echo(f"written      {out}")
