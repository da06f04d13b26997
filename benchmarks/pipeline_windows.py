"""Measures how long Spark's job, DuckDB and Polars take to compute windows and averages of a long history.

    python -m benchmarks.pipeline_windows [--samples 1e6 1e7 1e8] [--rounds 3] [--keep DIR]

The same Parquet files go in and the same values must come out (checked to 1e-9). Every run is a process of its own
that first does the work once on the first file, so that start-up does not count; the engines take turns. The files
carry a column `position`, the number of each sample within its bundle, which is the best that DuckDB and Polars could
be given; Spark's job does not read it. Memory is the largest resident set of the process and its children, sampled.
A run that takes more than `MEMORY_SHARE` of the machine's memory is ended, and one may give up by itself, with its
temporary files on a full disk too; its engine is then shown without a time.

Engines: `here` is `pipeline.batch.refold.refold_here`, in one process without Spark, as `pipeline refold` folds up to
`SMALL_HISTORY` samples; `spark` is `refold`; `spark expressions` is `pipeline.batch.windows`, which sorts;
`duckdb numbering` is DuckDB without the column `position`; `read` reads the columns with Arrow, on as many threads as
there are cores, and does nothing with them. CPU seconds are of the process and its children; next to other work they
say more than seconds.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import print_table
from pulsar_barycenter.load.reports.windows import LONG_SAMPLES, SHORT_SAMPLES
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.tables.schemas import FIGURES

BUNDLES = 100_000
BROKERS = 100
FILE_ROWS = 2_000_000
GROUP_ROWS = 1_000_000
SIZES = {"short": SHORT_SAMPLES, "long": LONG_SAMPLES}
SLOW_ENGINES_UP_TO = 10_000_000
MEMORY_SHARE = 0.85
_TOO_LARGE = ("Out of Memory", "No space left on device")


def generate(folder: Path, samples: int) -> None:
    """Write `samples` rows of BUNDLE_SAMPLES and `position`: reports of all brokers, one after the other."""
    folder.mkdir(parents=True)
    names = pa.array([f"public/ns{i // 100:04d}/0x{i % 100:08x}_0x{i % 100 + 1:08x}" for i in range(BUNDLES)])
    brokers = pa.array([f"127.0.0.1:{8080 + i}" for i in range(BROKERS)])
    rng = np.random.default_rng(1)
    for number, start in enumerate(range(0, samples, FILE_ROWS)):
        rows = np.arange(start, min(start + FILE_ROWS, samples))
        position, bundle = rows // BUNDLES + 1, rows % BUNDLES
        broker = bundle * BROKERS // BUNDLES
        at = 1_790_000_000_000_000 + position * 10_000_000 + broker * 100_000
        columns: dict[str, object] = {
            "bundle": pa.DictionaryArray.from_arrays(bundle.astype(np.int32), names),
            "broker": pa.DictionaryArray.from_arrays(broker.astype(np.int32), brokers),
            "incarnation": pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), pa.array(["1"])),
            "sequence": position,
            "reported_at": pa.array(at, pa.timestamp("us", "UTC")),
            **{figure: np.round(rng.gamma(2, 500, len(rows)), 1) for figure in FIGURES},
            "topics": bundle % 50,
            "consumers": bundle % 7,
            "producers": bundle % 5,
            "position": position,
        }
        file = folder / f"batch-{number:012d}.parquet"
        pq.write_table(pa.table(columns), file, compression="zstd", row_group_size=GROUP_ROWS)


def _files(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.glob("*.parquet"))


def _weight(window: str, power: str) -> str:
    size = SIZES[window]
    ratio = (size - 1) / size
    return (
        f"case when last <= {size} then 1.0 / last"
        f" when position <= {size} then {power}({ratio}, last - {size}) / {size}"
        f" else {power}({ratio}, last - position) / {size} end"
    )


def duckdb_windows(files: list[str], *, numbering: bool = False) -> tuple[pa.Table, pa.Table]:
    import duckdb

    connection = duckdb.connect()
    position = "row_number() over (partition by bundle order by reported_at) as position" if numbering else "position"
    sums = ", ".join(f"sum({_weight(w, 'pow')} * {figure}) as {w}_{figure}" for w in SIZES for figure in FIGURES)
    bundles = connection.sql(
        f"with samples as (select bundle, broker, {position}, {', '.join(FIGURES)} from read_parquet({files!r})),"
        " lasts as (select bundle, max(position) as last, arg_max(broker, position) as broker from samples group by 1)"
        f" select bundle, any_value(lasts.broker) as broker, {sums}"
        " from samples join lasts using (bundle) group by bundle"
    ).to_arrow_table()
    brokers = connection.sql(f"select broker, {_broker_sums()} from bundles group by broker").to_arrow_table()
    return bundles, brokers


def _broker_sums() -> str:
    return ", ".join(f"sum({w}_{figure}) as {w}_term_{figure}" for w in SIZES for figure in FIGURES)


def polars_windows(files: list[str]) -> tuple[pa.Table, pa.Table]:
    import polars as pl

    samples = pl.scan_parquet(files)
    lasts = samples.group_by("bundle").agg(
        pl.col("position").max().alias("last"), pl.col("broker").last().alias("broker")
    )
    joined = samples.select("bundle", "position", *FIGURES).join(lasts, on="bundle")
    last, position = pl.col("last"), pl.col("position")
    sums = []
    for window, size in SIZES.items():
        ratio = pl.lit((size - 1) / size)
        weight = (
            pl.when(last <= size)
            .then(1.0 / last)
            .when(position <= size)
            .then(ratio.pow(last - size) / size)
            .otherwise(ratio.pow(last - position) / size)
        )
        sums += [(weight * pl.col(figure)).sum().alias(f"{window}_{figure}") for figure in FIGURES]
    bundles = joined.group_by("bundle").agg(pl.col("broker").first(), *sums).collect(engine="streaming")
    totals = [pl.col(f"{w}_{figure}").sum().alias(f"{w}_term_{figure}") for w in SIZES for figure in FIGURES]
    return bundles.to_arrow(), bundles.group_by("broker").agg(*totals).to_arrow()


def spark_windows(*, expressions: bool = False) -> Callable[[list[str]], tuple[pa.Table, pa.Table]]:
    from pulsar_barycenter.pipeline.batch.refold import refold
    from pulsar_barycenter.pipeline.batch.windows import fold_windows
    from pulsar_barycenter.pipeline.spark.session import create_session
    from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES

    session = create_session("benchmark", "local[*]", {"spark.driver.memory": "2g"})

    def folded(files: list[str]) -> tuple[pa.Table, pa.Table]:
        if not expressions:
            found = refold(session, files)
            return found.bundles, found.brokers
        samples = session.read.schema(struct_type(BUNDLE_SAMPLES)).parquet(*files)
        bundles = fold_windows(samples).toArrow()
        owners = samples.groupBy("bundle").agg({"broker": "max"}).toDF("bundle", "broker").toArrow()
        owned = bundles.join(owners, "bundle")
        names = {f"{w}_{figure}_sum": f"{w}_term_{figure}" for w in SIZES for figure in FIGURES}
        totals = owned.group_by("broker").aggregate([(name.removesuffix("_sum"), "sum") for name in names])
        return bundles, totals.rename_columns([names.get(name, name) for name in totals.column_names])

    return folded


def here_windows(files: list[str]) -> tuple[pa.Table, pa.Table]:
    from pulsar_barycenter.pipeline.batch.refold import refold_here

    found = refold_here(files)
    return found.bundles, found.brokers


def read_columns(files: list[str]) -> tuple[pa.Table, pa.Table]:
    columns = ["bundle", "broker", "sequence", "reported_at", *FIGURES, "topics"]
    for file in files:
        with pq.ParquetFile(file, read_dictionary=["bundle", "broker"]) as source:
            for group in range(source.num_row_groups):
                source.read_row_group(group, columns=columns)
    return pa.table({}), pa.table({})


ENGINES: dict[str, Callable[[], Callable[[list[str]], tuple[pa.Table, pa.Table]]]] = {
    "read": lambda: read_columns,
    "here": lambda: here_windows,
    "spark": spark_windows,
    "duckdb": lambda: duckdb_windows,
    "polars": lambda: polars_windows,
    "duckdb numbering": lambda: lambda files: duckdb_windows(files, numbering=True),
    "spark expressions": lambda: spark_windows(expressions=True),
}
_SLOW = {"duckdb numbering", "spark expressions"}


def run_engine(name: str, folder: Path, out: Path) -> None:
    """Fold `folder` once, write the values under `out`, and print the seconds it took, and the CPU seconds."""
    fold = ENGINES[name]()
    fold(_files(folder)[:1])
    print("warm", flush=True)
    started, cpu = time.perf_counter(), _cpu_seconds()
    bundles, brokers = fold(_files(folder))
    print(time.perf_counter() - started, _cpu_seconds() - cpu, flush=True)
    if len(bundles.column_names):
        pq.write_table(bundles, out / "bundles.parquet")
        pq.write_table(brokers, out / "brokers.parquet")


def _cpu_seconds() -> float:
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def measure(name: str, folder: Path, out: Path) -> tuple[tuple[float, float] | None, float]:
    """Return seconds and CPU seconds, None if the machine was too small, and the largest resident set, GiB."""
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.pipeline_windows", "--engine", name, "--folder", str(folder)]
    with (out / "errors").open("wb") as errors:
        process = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=errors)
    limit, largest, is_ended = psutil.virtual_memory().total * MEMORY_SHARE, 0, False
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            used = [each.memory_info() for each in (watched, *watched.children(recursive=True))]
        except psutil.NoSuchProcess:
            continue
        largest = max(largest, sum(each.rss for each in used))
        if sum(each.rss - each.shared for each in used) > limit:  # mapped files can be given back, they do not count
            is_ended = True
            process.kill()
        time.sleep(0.1)
    assert process.stdout is not None
    lines = process.stdout.read().decode().split()
    told = (out / "errors").read_text(errors="replace").strip()
    if is_ended or (process.returncode and any(mark in told for mark in _TOO_LARGE)):
        print(f"{name}: {'took too much memory' if is_ended else told.splitlines()[-1]}", file=sys.stderr)
        return None, largest / 2**30
    if process.returncode or len(lines) != 3:
        raise SystemExit(f"{name} failed with exit code {process.returncode}:\n{told}")
    return (float(lines[1]), float(lines[2])), largest / 2**30


def _sorted(file: Path, key: str, columns: list[str]) -> pa.Table:
    table = pq.read_table(file, columns=[key, *columns])
    return table.set_column(0, key, table.column(key).cast(pa.string())).sort_by(key)


def check_same(one: Path, other: Path) -> None:
    """End with an error unless both engines found the same values."""
    for file, key, columns in (
        ("bundles", "bundle", [f"{w}_{figure}" for w in SIZES for figure in FIGURES]),
        ("brokers", "broker", [f"{w}_term_{figure}" for w in SIZES for figure in FIGURES]),
    ):
        left, right = (_sorted(place / f"{file}.parquet", key, columns) for place in (one, other))
        if left.column(key) != right.column(key):
            raise SystemExit(f"{other.name}: other {file} than {one.name}")
        for column in columns:
            a, b = left.column(column).to_numpy(), right.column(column).to_numpy()
            if not np.allclose(a, b, rtol=1e-9, atol=0):
                raise SystemExit(f"{other.name}: {file}.{column} differs from that of {one.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the generated files, kept and used again")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        run_engine(options.engine, options.folder, options.out)
        return
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="pipeline-windows-") as temporary:
        for count in map(int, options.samples):
            folder = (options.keep or Path(temporary)) / f"{count}"
            if not folder.exists():
                generate(folder, count)
            engines = [name for name in ENGINES if count <= SLOW_ENGINES_UP_TO or name not in _SLOW]
            seconds: dict[str, list[float]] = {name: [] for name in engines}
            cpu: dict[str, list[float]] = {name: [] for name in engines}
            memory = dict.fromkeys(engines, 0.0)
            for _ in range(options.rounds):
                for name in engines:
                    took, resident = measure(name, folder, Path(temporary) / name)
                    memory[name] = max(memory[name], resident)
                    if took is not None:
                        seconds[name].append(took[0])
                        cpu[name].append(took[1])
            for name in engines[1:]:
                if seconds[name] and name != "spark":
                    check_same(Path(temporary) / "spark", Path(temporary) / name)
            best = min([*seconds["duckdb"], *seconds["polars"]], default=math.nan)
            least_cpu = min([*cpu["duckdb"], *cpu["polars"]], default=math.nan)
            for name in engines:
                least = min(seconds[name], default=math.nan)
                spent = min(cpu[name], default=math.nan)
                speed = count / least / 1e6
                rows.append([f"{count:,}", name, least, speed, least / best, spent, spent / least_cpu, memory[name]])
    better = "× the better of DuckDB and Polars"
    header = ["samples", "engine", "seconds (best)", "M samples/s", better, "CPU seconds", better, "GiB resident"]
    print_table("Windows and averages of a history", header, rows)


if __name__ == "__main__":
    main()
