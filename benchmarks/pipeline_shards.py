"""Measures, in turns, the CPU seconds of batches that the pipeline folds in the driver and by shard.

    python -m benchmarks.pipeline_shards [--brokers 1000] [--bundles 1000] [--batch 100] [--batches 3] [--workers 2]

All brokers report once, so that all bundles are known; then `--batches` batches of `--batch` reports are folded, once
by each way, from the same files. Printed for a batch, without the first of each way: seconds, and the CPU seconds of
the driver's Python, of Java (in a local session its tasks, too) and of the Python of the tasks. What the driver's
Python takes is the part that more workers do not shorten; `Java` parses, which they do. Next to other work CPU seconds
say more than seconds. With --workers the session is one of a Spark cluster of this machine, workers of one core each;
the CPU time of tasks is then that of the workers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from benchmarks.machine import print_table
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.pipeline.parsing.report_lines import (
    JSON_OPTIONS,
    LOAD_REPORT_LINE,
    believable_times,
    one_entry_a_bundle,
)
from pulsar_barycenter.pipeline.sharded.jobs import SparkJobs
from pulsar_barycenter.pipeline.sharded.windows import ShardedWindows
from pulsar_barycenter.pipeline.spark.session import create_session
from pulsar_barycenter.pipeline.storage.layout import REPORT_LOG, PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import FILE, BatchFold
from pulsar_barycenter.pipeline.stream.windows import DriverWindows, Windows
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.spark_cluster import spark_cluster

_LOADED_AT_ONCE = 250


def write_batches(root: Path, options: argparse.Namespace) -> list[Path]:
    """Write the reports, a folder of files for each batch."""
    brokers = options.brokers
    plan = LoadPlan(
        brokers=brokers, bundles=brokers * options.bundles, interval_ms=60_000, start_ms=time.time_ns() // 1_000_000
    )
    generator = LoadGenerator(plan)
    sizes = [min(_LOADED_AT_ONCE, brokers - start) for start in range(0, brokers, _LOADED_AT_ONCE)]
    sizes += [options.batch] * (options.batches + 1)
    folders, number = [], 0
    for batch, size in enumerate(sizes):
        folder = root / f"{batch}" / REPORT_LOG
        log = FileReportLog(folder, retention_hours=100_000)
        for _ in range(size):
            log.append(generator.report(number))
            number += 1
        folders.append(folder)
    return folders


def spent() -> tuple[float, float, float]:
    """CPU seconds of this process, of Java, and of the Python of tasks, up to now."""
    this = psutil.Process()
    totals = {"driver": sum(this.cpu_times()[:2]), "java": 0.0, "python": 0.0}
    for process in this.children(recursive=True):
        times = process.cpu_times()  # of children that ended, too: workers are children of Spark's daemon
        totals["java" if process.name() == "java" else "python"] += sum(
            times[:2] if process.name() == "java" else times
        )
    return totals["driver"], totals["java"], totals["python"]


def measure(session: SparkSession, folders: list[Path], make: Callable[[PipelineLayout], Windows]) -> list[list[float]]:
    """Fold all batches in a fresh data folder; return seconds and CPU seconds of each."""
    found = []
    with tempfile.TemporaryDirectory(prefix="pipeline-shards-") as data:
        layout = PipelineLayout.of(data)
        layout.create()
        fold = BatchFold(layout, clock_ms=lambda: time.time_ns() // 1_000_000, windows=make(layout))
        for number, folder in enumerate(folders):
            reader = session.read.schema(LOAD_REPORT_LINE).options(**JSON_OPTIONS)
            lines = reader.json(f"{folder}/*").withColumn(FILE, F.expr("_metadata.file_path"))
            before, started = spent(), time.perf_counter()
            fold.run(lines.transform(believable_times).transform(one_entry_a_bundle), number)
            seconds = time.perf_counter() - started
            found.append([seconds, *(after - first for after, first in zip(spent(), before, strict=True))])
    return found


def compare(options: argparse.Namespace, master: str) -> None:
    conf = {"spark.sql.adaptive.enabled": "false", "spark.driver.memory": options.driver_memory}
    session = create_session("benchmark", master, conf)
    cores = options.workers or session.sparkContext.defaultParallelism
    ways: dict[str, Callable[[PipelineLayout], Windows]] = {
        "driver": lambda layout: DriverWindows(),
        "sharded": lambda layout: ShardedWindows(SparkJobs(session), layout, shards=cores),
    }
    with tempfile.TemporaryDirectory(prefix="pipeline-shards-") as root:
        folders = write_batches(Path(root), options)
        rows: list[list[object]] = []
        for name, make in ways.items():
            measured = measure(session, folders, make)[-options.batches :]
            rows.append([name, *(median(column) for column in zip(*measured, strict=True))])
    place = f"{options.workers} workers" if options.workers else master
    title = f"{options.brokers} x {options.bundles} bundles, a batch of {options.batch} reports, {place}"
    print_table(title, ["fold", "seconds", "CPU driver", "CPU Java", "CPU Python of tasks"], rows)
    session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1000)
    parser.add_argument("--bundles", type=int, default=1000, help="bundles per broker")
    parser.add_argument("--batch", type=int, default=100, help="reports of a batch")
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--workers", type=int, default=0, help="of a Spark cluster of this machine; 0: --master")
    parser.add_argument("--driver-memory", default="2g")
    options = parser.parse_args()
    if not options.workers:
        compare(options, options.master)
        return
    with (
        tempfile.TemporaryDirectory(prefix="pipeline-shards-") as folder,
        spark_cluster(Path(folder), workers=options.workers) as cluster,
    ):
        os.environ.update(cluster.environment)
        compare(options, cluster.master)


if __name__ == "__main__":
    main()
