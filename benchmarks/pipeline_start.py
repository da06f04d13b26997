"""CPU seconds that the pipeline takes to start: a run of 24 reports, and a job until it is ready. Linux only.

    python -m benchmarks pipeline_start --rounds 3 --beside ../before/src
    python -m benchmarks pipeline_start --rounds 1 --reports 1000 --only-once

Each round runs, one after the other, `barycenter pipeline run --once` over 24 reports of 3 brokers of 100 bundles each,
and `pipeline.job` until it says `ready`; without and with the archive of Spark's classes, and with --beside by the
sources of another tree, too. A run with both compilers, plans compiled, shows from how many reports on that is cheaper.
The archive is made before if it is not there (BARYCENTER_CACHE says where). Printed are medians over the rounds of CPU
seconds, which other work on the machine disturbs less than wall times: of Python, of Java with all else that Python
started, of both.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.machine import print_table
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.pipeline.running.archive_making import make_archive
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan

_SET_CHILD_SUBREAPER = 36
_BOTH_COMPILERS = " ".join(
    (
        "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=4",
        "--conf spark.sql.codegen.wholeStage=true --conf spark.sql.codegen.factoryMode=FALLBACK pyspark-shell",
    )
)
_DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds."""

    python: float
    java: float

    @property
    def both(self) -> float:
        return self.python + self.java


def write_reports(folder: Path, reports: int) -> None:
    layout = PipelineLayout.of(folder)
    layout.create()
    plan = LoadPlan(brokers=3, bundles=300, interval_ms=1000, start_ms=time.time_ns() // 1_000_000)
    generator, log = LoadGenerator(plan), FileReportLog(layout.report_log, retention_hours=1)
    for number in range(reports):
        log.append(generator.report(number))


def run_once(data: Path, environment: Mapping[str, str], reports: int) -> Cost:
    """What `pipeline run --once` costs until the last process that it started is gone; Java outlives Python."""
    write_reports(data, reports)
    command = [sys.executable, "-m", "pulsar_barycenter", "pipeline", "run", "--once", "--data", str(data)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    python = java = 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return Cost(python, java)
        used = usage.ru_utime + usage.ru_stime
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, "the run failed"
            python += used
        else:
            java += used


def until_ready(data: Path, environment: Mapping[str, str], reports: int) -> Cost:
    """What the job costs until it is ready, whatever `reports` there will be."""
    PipelineLayout.of(data).create()
    command = [sys.executable, "-m", "pulsar_barycenter.pipeline.job", "--data", str(data)]
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert job.stdout is not None
        assert b"ready\n" in iter(job.stdout.readline, b""), "the job did not start"
        process = psutil.Process(job.pid)
        own = process.cpu_times()
        java = sum(sum(child.cpu_times()[:4]) for child in process.children(recursive=True))
        return Cost(own.user + own.system, java + own.children_user + own.children_system)
    finally:
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=_DEADLINE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="sources of another tree, its folder src")
    parser.add_argument("--reports", type=int, default=24)
    parser.add_argument("--only-once", action="store_true", help="do not start the job that runs until it is stopped")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # a Java that outlives its Python is waited for here
    make_archive(os.environ)
    making = resource.getrusage(resource.RUSAGE_CHILDREN)
    kinds = {"without the archive": {"BARYCENTER_CLASS_ARCHIVE": "off"}, "with the archive": {}}
    kinds["with the archive, both compilers"] = {"PYSPARK_SUBMIT_ARGS": _BOTH_COMPILERS}
    if options.beside is not None:
        kinds = {f"{options.beside}": {"PYTHONPATH": str(options.beside.resolve())}, **kinds}
    works: dict[str, Callable[[Path, Mapping[str, str], int], Cost]] = {"run --once": run_once}
    if not options.only_once:
        works["job until ready"] = until_ready
    costs: dict[tuple[str, str], list[Cost]] = {(work, kind): [] for work in works for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="pipeline-start-") as folder:
        for _ in range(options.rounds):
            for work, kind in costs:
                data = Path(folder) / "data"
                costs[work, kind].append(works[work](data, os.environ | kinds[kind], options.reports))
                shutil.rmtree(data)
    rows = [
        [work, kind, *(statistics.median(getattr(cost, part) for cost in found) for part in ("python", "java", "both"))]
        for (work, kind), found in costs.items()
    ]
    print_table(
        f"Start of the pipeline, {options.reports} reports, CPU seconds, medians of {options.rounds}",
        ["work", "tree", "Python", "Java", "both"],
        rows,
    )
    print(f"\nMaking the archive: {making.ru_utime + making.ru_stime:.0f} CPU s (0: it was there).")
    print(f"Load average {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
