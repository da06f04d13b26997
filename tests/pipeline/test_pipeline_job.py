"""The job as a process: killed in the middle of a batch, started again, stopped in order."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.running.pipeline_job import ONCE_ATTEMPTS, JobSettings, PipelineJob
from pulsar_barycenter.pipeline.running.status import read_status
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.generations import current_generation
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from support.load_history import make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow
from support.pipeline_runs import wait_until, write_reports
from support.publications import decoded

pytestmark = [pytest.mark.pipeline, pytest.mark.drawn_tests(3)]

_DEADLINE_S = 120.0


@contextmanager
def running_job(layout: PipelineLayout, log: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the job in a process of its own until the block ends; it reads reports when the block begins."""
    command = [
        sys.executable,
        "-m",
        "pulsar_barycenter.pipeline.job",
        "--data",
        str(layout.data),
        "--trigger-seconds",
        "0.2",
        *more,
    ]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    with (
        log.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as job,
    ):
        try:
            assert job.stdout is not None
            assert b"ready\n" in iter(job.stdout.readline, b""), log.read_text()
            yield job
        finally:
            job.kill()


def is_published(layout: PipelineLayout, report: LocalBrokerData) -> bool:
    if not layout.publication.exists():
        return False
    published = decoded(layout.publication.read_bytes()).last_sequence
    return published.get(str(report.broker_id)) == (report.incarnation, report.sequence)


def unfinished_batch(layout: PipelineLayout) -> bool:
    """A batch has written its first table and not yet its state."""
    batches = {int(file.stem.removeprefix("batch-")) for file in layout.tables.glob("load_reports/*/*.parquet")}
    return bool(batches - set(StateFolder(layout).batch_ids()))


def test_a_job_killed_in_mid_batch_loses_and_doubles_nothing(
    spark: SparkSession, layout: PipelineLayout, tmp_path: Path
) -> None:
    """SIGKILL between two writes of the second batch; the next process ends with the tables of one batch over all."""
    reports = make_history(11, reports=30)
    log = tmp_path / "job.log"
    with running_job(layout, log) as job:
        write_reports(layout, reports[:6])
        wait_until(lambda: is_published(layout, reports[5]), job, within_s=_DEADLINE_S)
        write_reports(layout, reports[6:12])
        wait_until(lambda: unfinished_batch(layout), job, within_s=_DEADLINE_S)
        job.send_signal(signal.SIGKILL)
        job.wait(_DEADLINE_S)
    assert not is_published(layout, reports[11])
    write_reports(layout, reports[12:])
    with running_job(layout, log) as job:
        wait_until(lambda: is_published(layout, reports[-1]), job, within_s=_DEADLINE_S)
        job.terminate()
        assert job.wait(_DEADLINE_S) == 0
    status = read_status(layout)
    assert status is not None
    assert (status.state, status.corrupt_reports) == ("stopped", 0)
    assert_tables_follow(spark, layout, PipelineOracle(reports))
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    batches = [event for event in events if event["event"] == "pipeline_batch"]
    assert all(batch.keys() >= {"batch_id", "reports", "samples", "lag_seconds", "seconds"} for batch in batches)


def test_sparks_page_is_on_loopback_and_the_phases_of_triggers_are_in_the_status(
    layout: PipelineLayout, tmp_path: Path
) -> None:
    """The page answers at the address that is logged, and Java listens nowhere else; phases follow the first batch."""
    log = tmp_path / "job.log"
    reports = make_history(14, reports=3)
    with running_job(layout, log, "--ui-port", "0") as job:
        write_reports(layout, reports)
        events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        (url,) = (event["url"] for event in events if event["event"] == "pipeline_ui_served")
        with urllib.request.urlopen(f"{url}/api/v1/applications", timeout=60) as answer:
            assert [application["name"] for application in json.load(answer)] == ["barycenter pipeline"]
        java = [child for child in psutil.Process(job.pid).children(recursive=True) if child.name() == "java"]
        listening = [
            connection.laddr
            for process in java
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert int(url.rpartition(":")[2]) in {address.port for address in listening}
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}

        def phases() -> set[str]:
            status = read_status(layout)
            return set() if status is None else status.phases.keys()

        wait_until(lambda: "addBatch" in phases(), job, within_s=_DEADLINE_S)
        job.terminate()
        assert job.wait(_DEADLINE_S) == 0
    assert phases() >= {"addBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit"}
    shown = CliRunner().invoke(main, ["pipeline", "status", "--data", str(layout.data)]).output
    (line,) = (line for line in shown.splitlines() if line.startswith("of a trigger"))
    assert re.fullmatch(r"of a trigger +\d+\.\d\d s in all, addBatch \d+\.\d\d s(, \w+ \d+\.\d\d s)*", line)


def test_spark_begins_a_new_record_of_files_before_it_grows_large(spark: SparkSession, layout: PipelineLayout) -> None:
    """After three reports the running job throws its checkpoint away and goes on with the next batch id.

    Meanwhile it merges the files of every two batches and deletes the sources.
    """
    reports = make_history(12, reports=6)
    write_reports(layout, reports[:3])
    compaction = CompactionSettings(run=2, grace_s=0.0, every_s=0.0)
    settings = JobSettings(
        trigger_s=0.1, generation_reports=3, stream=StreamSettings(max_files=1), compaction=compaction
    )
    job = PipelineJob(spark, layout, settings, clock_ms=lambda: 0)
    stop = threading.Event()
    rest = [reports[3:]]

    def watch() -> bool:
        """Asked between batches: write the rest once the first generation is over, stop when it is folded."""
        generation = current_generation(layout)[1]
        if generation > 0:
            while rest:
                write_reports(layout, rest.pop())
        return is_published(layout, reports[-1])

    guard = threading.Timer(_DEADLINE_S, stop.set)
    guard.start()
    job.run(stop, must_stop=watch)
    guard.cancel()
    guard.join()
    checkpoint, first_batch = current_generation(layout)
    assert first_batch > 0
    assert [str(folder) for folder in layout.checkpoints.iterdir()] == [checkpoint]
    assert any(len(file.stem) > len("batch-000000000000") for file in live_files(layout.tables, "load_reports"))
    assert_tables_follow(spark, layout, PipelineOracle(reports))


def test_a_full_disk_delays_the_tables_and_loses_nothing(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch finds no space; the job says so in its status and tries the same batch again."""
    reports = make_history(13, reports=6)
    write_reports(layout, reports)
    write, failures = Tables.write, iter([OSError(errno.ENOSPC, "No space left on device")])

    def write_when_there_is_space(tables: Tables, *args: Any, **kwargs: Any) -> None:
        for failure in failures:
            raise failure
        write(tables, *args, **kwargs)

    monkeypatch.setattr(Tables, "write", write_when_there_is_space)
    stop = threading.Event()
    guard = threading.Timer(_DEADLINE_S, stop.set)
    guard.start()
    job = PipelineJob(spark, layout, JobSettings(trigger_s=0.1), clock_ms=lambda: 0)
    states: set[tuple[str, str | None]] = set()

    def watch() -> bool:
        status = read_status(layout)
        states.update({(status.state, status.error)} if status else ())
        return is_published(layout, reports[-1])

    job.run(stop, must_stop=watch)
    assert {("running", None), ("retrying", "OSError: [Errno 28] No space left on device")} <= states
    guard.cancel()
    guard.join()
    assert_tables_follow(spark, layout, PipelineOracle(reports))


def test_a_job_without_new_reports_says_that_it_looks_for_them(spark: SparkSession, layout: PipelineLayout) -> None:
    """Under steady load brokers write no reports; the status, and the file that the leader looks at, tell it apart
    from a job that stopped."""
    reports = make_history(19, reports=3)
    write_reports(layout, reports)
    clock, looks = iter(range(1, 10_000)), []
    job = PipelineJob(spark, layout, JobSettings(trigger_s=0.1, look_s=0.0), clock_ms=lambda: next(clock))

    def watch() -> bool:
        status = job.status
        newest = looks[-1].looked_at if looks else status.updated_at
        if is_published(layout, reports[-1]) and status.looked_at > newest:
            looks.append(status)
        return len(looks) > 2

    job.run(threading.Event(), must_stop=watch)
    first, *_, last = looks
    assert last.looked_at > first.looked_at
    assert (last.updated_at, last.as_of, last.batches) == (first.updated_at, first.as_of, first.batches)
    assert (layout.publication.parent / "looked").exists()


def test_a_job_that_is_asked_to_end_while_it_starts_leaves_nothing_behind(
    layout: PipelineLayout, tmp_path: Path
) -> None:
    """Its status says that it was stopped, Java is gone, and so are the folders that it made for the start."""
    layout.create()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "pulsar_barycenter.pipeline.job", "--data", str(layout.data)]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    environment |= {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
    for phase, code in ((b"starting Spark\n", 128 + signal.SIGTERM), (b"Spark runs; ", 0)):  # then it stops in order
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as job:
            assert job.stdout is not None
            assert any(line.startswith(phase) for line in job.stdout)
            below = psutil.Process(job.pid).children(recursive=True)
            job.terminate()
            assert job.wait(_DEADLINE_S) == code
        _, left = psutil.wait_procs(below, timeout=_DEADLINE_S)
        assert left == []
        status = read_status(layout)
        assert status is not None
        assert status.state == "stopped"
        assert [each.name for each in temporary.iterdir() if each.name.startswith("barycenter-")] == []


def test_a_job_that_runs_once_gives_up_on_a_disk_that_stays_full(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `ONCE_ATTEMPTS` it says why; whoever runs it again, with space, has lost nothing."""
    reports = make_history(17, reports=6)
    write_reports(layout, reports)
    settings = JobSettings(once=True)
    attempts = []

    def write_nothing(*args: Any, **kwargs: Any) -> None:
        attempts.append(args)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Tables, "write", write_nothing)
        with pytest.raises(StreamingQueryException, match="No space left on device"):
            PipelineJob(spark, layout, settings, clock_ms=lambda: 0).run(threading.Event())
    assert len(attempts) == ONCE_ATTEMPTS
    PipelineJob(spark, layout, settings, clock_ms=lambda: 0).run(threading.Event())
    assert_tables_follow(spark, layout, PipelineOracle(reports))
