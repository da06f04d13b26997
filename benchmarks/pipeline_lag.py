"""Lag of the pipeline: reports written as brokers write them, folded by the real job in its own process.

    python benchmarks/pipeline_lag.py --brokers 3 --bundles 100 --interval 1 --trigger 1 --batches 60
    python -m benchmarks pipeline_lag --brokers 1000 --bundles 1000 --interval 60 --workers 2 --fold sharded

Each broker writes one report per interval into a fresh data directory; the brokers' reports are spread evenly over the
interval. Printed: lag (from a report's `lastUpdate` to the publication that holds it: of the oldest report of each
batch) and seconds per batch, both without the first twenty batches in which Java warms up, CPU time per batch, which
other work on the machine disturbs less, memory of the job, and the machine's load average as the measure of that work.
With --workers the job runs on a Spark cluster of this machine, workers of one core each; CPU time and memory are then
those of the driver alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.pipeline.running.phases import percentile
from pulsar_barycenter.pipeline.running.status import read_status
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.spark_cluster import spark_cluster

_WARM_UP_BATCHES = 20
_DEADLINE_S = 900.0


def write_reports(log: FileReportLog, options: argparse.Namespace, stop: threading.Event) -> None:
    plan = LoadPlan(
        brokers=options.brokers,
        bundles=options.brokers * options.bundles,
        interval_ms=round(options.interval * 1000),
        start_ms=time.time_ns() // 1_000_000,
    )
    generator = LoadGenerator(plan)
    for number in range(10**9):
        report = generator.report(number)
        if stop.wait(max(0.0, report.last_update / 1000 - time.time())):
            return
        log.append(msgspec.structs.replace(report, last_update=time.time_ns() // 1_000_000))


def usage(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds and resident MiB of the process and its children."""
    seconds = resident = 0.0
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # Spark's workers come and go
            used, memory = sum(member.cpu_times()[:2]), member.memory_info().rss
            seconds, resident = seconds + used, resident + memory / 2**20
    return seconds, resident


def wait_for_batches(layout: PipelineLayout, batches: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while (status := read_status(layout)) is None or status.batches < batches:
        if time.monotonic() > deadline:
            raise SystemExit(f"not {batches} batches within {_DEADLINE_S:g} s")
        time.sleep(0.1)


def watch_memory(layout: PipelineLayout, process: psutil.Process, batches: int) -> list[float]:
    """Wait for so many batches; return the resident MiB of every ten seconds."""
    found: list[float] = []
    began = time.monotonic()
    while (status := read_status(layout)) is None or status.batches < batches:
        if time.monotonic() - began >= 10 * (len(found) + 1):
            found.append(usage(process)[1])
        if time.monotonic() - began > _DEADLINE_S * max(1.0, batches / 300):
            raise SystemExit(f"not {batches} batches in {time.monotonic() - began:g} s")
        time.sleep(0.1)
    return found


@contextmanager
def spark(workers: int, folder: Path) -> Iterator[tuple[list[str], dict[str, str] | None]]:
    """Where the job runs: its options and its environment; None is this one."""
    if not workers:
        yield [], None
        return
    with spark_cluster(folder, workers=workers) as cluster:
        yield ["--master", cluster.master], cluster.environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--bundles", type=int, default=100, help="bundles per broker, on average")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two reports of a broker")
    parser.add_argument("--trigger", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=60, help="batches measured after the warm-up")
    parser.add_argument("--driver-memory", default="512m")
    parser.add_argument("--fold", choices=("driver", "sharded"), default="driver")
    parser.add_argument("--workers", type=int, default=0, help="of a Spark cluster; 0: a local session")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="pipeline-lag-") as folder,
        spark(options.workers, Path(folder) / "spark") as (where, environment),
    ):
        layout = PipelineLayout.of(folder)
        layout.create()
        report_log = FileReportLog(layout.report_log, retention_hours=1)
        command = [sys.executable, "-m", "pulsar_barycenter.pipeline.job", "--data", folder]
        command += ["--trigger-seconds", str(options.trigger), "--driver-memory", options.driver_memory]
        command += ["--fold", options.fold, *where]
        stop = threading.Event()
        with (Path(folder) / "job.log").open("w+") as log:
            job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
            try:
                assert job.stdout is not None
                assert b"ready\n" in iter(job.stdout.readline, b""), (Path(folder) / "job.log").read_text()
                writer = threading.Thread(target=write_reports, args=(report_log, options, stop))
                writer.start()
                process = psutil.Process(job.pid)
                wait_for_batches(layout, _WARM_UP_BATCHES)
                cpu_before, _ = usage(process)
                memories = watch_memory(layout, process, _WARM_UP_BATCHES + options.batches)
                cpu_after, memory = usage(process)
                stop.set()
                writer.join()
            finally:
                job.terminate()
                job.wait(60)
        events = [json.loads(line) for line in (Path(folder) / "job.log").read_text().splitlines() if line[:1] == "{"]
    batches = [event for event in events if event["event"] == "pipeline_batch" and event["reports"]]
    batches = batches[_WARM_UP_BATCHES:][: options.batches]
    lags = [batch["lag_seconds"] for batch in batches]
    seconds = [batch["seconds"] for batch in batches]
    print(f"{options.brokers} brokers x {options.bundles} bundles, a report each {options.interval:g} s, ", end="")
    place = f"{options.workers} workers" if options.workers else "local"
    print(f"trigger {options.trigger:g} s, {os.cpu_count()} cores, {options.fold}, {place}: {len(batches)} batches")
    print(f"  lag of the oldest report  p50 {percentile(lags, 50):.2f} s  p99 {percentile(lags, 99):.2f} s")
    print(f"  one batch                 p50 {percentile(seconds, 50):.2f} s  p99 {percentile(seconds, 99):.2f} s")
    cpu = (cpu_after - cpu_before) / options.batches
    for part in (memories[i : i + 30] for i in range(0, len(memories), 30)):
        print(f"  resident in these {len(part) * 10} s: mean {sum(part) / len(part):.0f}, most {max(part):.0f} MiB")
    print(f"  CPU {cpu:.2f} s per batch, resident {memory:.0f} MiB, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
