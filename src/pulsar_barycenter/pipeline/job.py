"""Runs the pipeline until a signal stops it: `python -m pulsar_barycenter.pipeline.job --data DIR`, or by spark-submit.

Prints one line on standard output for each phase of its start; the last is `ready`, when it begins to read reports.
Prints one JSON line per batch on standard error. SIGTERM and SIGINT stop it between two batches, and so does the end of
the process named by BARYCENTER_PARENT_PID. SIGKILL loses nothing. During its start, SIGTERM ends it at once.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final, NoReturn

import click
import structlog
from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.deletion.marker import refuse_unfinished
from pulsar_barycenter.pipeline.running.job_log import configure_logging
from pulsar_barycenter.pipeline.running.job_options import JobOptions, with_job_options
from pulsar_barycenter.pipeline.running.metrics import serve_metrics
from pulsar_barycenter.pipeline.running.pipeline_job import JobSettings, PipelineJob, reason_of
from pulsar_barycenter.pipeline.running.small_work import compilers_for_logs
from pulsar_barycenter.pipeline.running.status import StatusFile
from pulsar_barycenter.pipeline.running.warm_up import NoWarmUp, WarmUp
from pulsar_barycenter.pipeline.sharded.jobs import SparkJobs
from pulsar_barycenter.pipeline.sharded.windows import ShardedWindows, UnsharedFolderError
from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError
from pulsar_barycenter.pipeline.spark.java_options import Compilers
from pulsar_barycenter.pipeline.spark.session import (
    INTERPRETED,
    SPARK_ERRORS,
    create_session,
    is_loopback,
    master_of,
    page_of,
    page_refusal,
    page_settings,
    parallelism,
)
from pulsar_barycenter.pipeline.storage.files import Storage, local_folder
from pulsar_barycenter.pipeline.storage.layout import HOME
from pulsar_barycenter.pipeline.storage.lock import AlreadyRunningError, exclusive
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.windows import DriverWindows, Windows
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings
from pulsar_barycenter.pipeline.tables.formats import chosen_format, open_log
from pulsar_barycenter.pipeline.tables.table_log import TableLog

log = structlog.get_logger(__name__)

FELL_SHORT: Final = 3
"""The exit code of a run whose tables are incomplete: it dropped or refused input, or input came too late.

`pipeline status` shows how many of each.
"""

PARENT_VARIABLE = "BARYCENTER_PARENT_PID"

_LOOK_S = 5.0
_REMOTE_LOOK_S = 60.0
_HOUSE_S = 60.0
_REMOTE_HOUSE_S = 600.0
"""The seconds between two compactions if the data directory is not local. Longer than for a local one, because listing
all dates of all tables in an object store takes seconds and costs money.
"""


_CANNOT_RUN: tuple[type[Exception], ...] = (
    *(AlreadyRunningError, JavaNotFoundError, UnsharedFolderError, OSError),
    *SPARK_ERRORS,
)


def _sharded(session: SparkSession, storage: Storage) -> ShardedWindows:
    return ShardedWindows(SparkJobs(session), storage, shards=parallelism(session))


_WINDOWS: Final[dict[str, Callable[[SparkSession, Storage], Windows]]] = {
    "driver": lambda session, storage: DriverWindows(),
    "sharded": _sharded,
}
"""Functions that create the object that folds the windows of bundles, by the option --fold."""


def run_job(
    options: JobOptions,
    *,
    on_phase: Callable[[str], None] = lambda phase: None,
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Run the pipeline until it ends. Return 0 if it ended as intended, 1 if it failed; the reason of a failure is in
    the log.

    A job that reads all existing files once and then ends (`options.once`) returns FELL_SHORT (3) if its tables lack a
    part of the content of these files; the log says why. `on_phase` is called with a short text at the begin of each
    phase of the start, `on_ready` when the pipeline begins to read reports. If the data directory is local, its status
    file says that the job is starting as soon as this process has the lock of the directory. After the start, SIGTERM
    and SIGINT end the job in order.
    """
    stop = threading.Event()
    is_local = local_folder(options.data) is not None
    settings = JobSettings(
        trigger_s=options.trigger_seconds,
        once=options.once,
        stream=StreamSettings(max_files=options.max_files),
        compaction=CompactionSettings(
            retention_days=options.retention_days or None, every_s=_HOUSE_S if is_local else _REMOTE_HOUSE_S
        ),
        publication=options.publication,
        windows=_WINDOWS[options.fold],
        look_s=_LOOK_S if is_local else _REMOTE_LOOK_S,
    )
    try:
        with ExitStack() as held:
            if is_local:  # refuse a second process before it starts Spark
                storage = open_storage(options.data)
                held.enter_context(exclusive(storage, clock_ms=_wall_clock_ms))
                with _starting(storage):
                    table_log = _table_log(storage, options)
                    session = _session(options, _compilers(options, storage), on_phase)
            else:
                session = _session(options, _compilers(options, None), on_phase)
                storage = open_storage(options.data, session)
                held.enter_context(exclusive(storage, clock_ms=_wall_clock_ms, on_lost=stop.set))
                table_log = _table_log(storage, options)
            for number in (signal.SIGTERM, signal.SIGINT):  # after Spark has installed its own handler
                signal.signal(number, lambda *_: stop.set())
            on_phase("Spark runs; looking for load reports")
            warm_up = _warm_up(session, storage, options)
            job = PipelineJob(
                session,
                storage,
                settings,
                clock_ms=_wall_clock_ms,
                table_log=table_log,
                on_ready=on_ready,
                on_no_reports=warm_up.start,
            )
            try:
                with closing(warm_up), _metrics(job, options.metrics_port):
                    job.run(stop, must_stop=_parent_is_gone)
                held.close()  # releasing a lease needs Java
                session.stop()
            except Exception as error:
                # A signal to the whole process group also ends Java at the same instant. Like a kill, it loses nothing.
                job.end(error, asked_to=stop.is_set())
                if not stop.is_set():
                    raise
    except _CANNOT_RUN as error:
        log.error("pipeline_cannot_run", reason=reason_of(error))
        return 1
    return FELL_SHORT if options.once and job.shortcomings else 0


def _table_log(storage: Storage, options: JobOptions) -> TableLog:
    refuse_unfinished(storage)
    return open_log(storage, chosen_format(storage, options.table_format), clock_ms=_wall_clock_ms)


@contextmanager
def _starting(storage: Storage) -> Iterator[None]:
    """Write to the status file that this process is starting.

    If the block raises an error that `run_job` handles, write that the job failed, with the reason. If a signal ends
    the process in the block, write that the job was stopped. In both cases the exception continues.
    """
    status = StatusFile(storage, pid=os.getpid())
    status.enter("starting", now_ms=_wall_clock_ms())
    try:
        yield
    except _CANNOT_RUN as error:
        status.enter("failed", now_ms=_wall_clock_ms(), error=reason_of(error))
        raise
    except SystemExit:
        status.enter("stopped", now_ms=_wall_clock_ms())
        raise


def _session(options: JobOptions, compilers: Compilers, on_phase: Callable[[str], None]) -> SparkSession:
    on_phase("starting Spark")
    if options.ui_port is not None and (reason := page_refusal(options.master, os.environ)):
        raise OSError(
            f"Spark's page is served only if no other machine can open it: {reason}. Leave --ui-port out;"
            " docs/spark.md says how to see the page"
        )
    settings = _session_settings(options, compilers)
    session = create_session("barycenter pipeline", options.master, settings, compilers=compilers, on_phase=on_phase)
    if options.ui_port is not None:
        log.info("pipeline_ui_served", url=page_of(session))
    return session


def _compilers(options: JobOptions, storage: Storage | None) -> Compilers:
    """Return which of Java's compilers the job uses: both, unless the job runs once and `storage` is known. Then return
    those that suit the size of the logs in `storage`.
    """
    if not options.once or storage is None:
        return Compilers.BOTH
    return compilers_for_logs(storage, with_archive=False)


def _warm_up(session: SparkSession, storage: Storage, options: JobOptions) -> WarmUp | NoWarmUp:
    """Return the warm-up of Spark, which makes the first batch fast. Return a `NoWarmUp`, which does nothing, for a job
    that runs once, or if there is no folder that both this process and Spark's executors can read.
    """
    if options.once:
        return NoWarmUp()
    if is_loopback(master_of(session)):
        return WarmUp(session)
    return NoWarmUp() if storage.local_root is None else WarmUp(session, storage.local_root / HOME)


@contextmanager
def _metrics(job: PipelineJob, port: int | None) -> Iterator[None]:
    """Serve metrics for Prometheus at the local port `port` while the block runs; 0: at a free port, which is logged;
    None: serve nothing.
    """
    if port is None:
        yield
        return
    with serve_metrics(lambda: job.status, port) as chosen:
        log.info("pipeline_metrics_served", url=f"http://127.0.0.1:{chosen}/metrics")
        yield


def _session_settings(options: JobOptions, compilers: Compilers) -> dict[str, str]:
    return {
        "spark.driver.memory": options.driver_memory,
        # Adaptive planning between the stages of a job helps only large jobs; here it takes a sixth of a batch.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **(INTERPRETED if compilers is Compilers.FIRST else {}),
        **({} if options.ui_port is None else page_settings(options.ui_port)),
        **options.conf,
    }


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _parent_is_gone() -> bool:
    parent = os.environ.get(PARENT_VARIABLE)
    return parent is not None and os.getppid() != int(parent)


def _end_start(number: int, frame: object) -> NoReturn:
    """End this process because of the signal `number`, which came during the start: remove temporary files, and end
    Java with the process.
    """
    raise SystemExit(128 + number)


def _say(phase: str) -> None:
    sys.stdout.write(f"{phase}\n")
    sys.stdout.flush()


@click.command(name="pulsar_barycenter.pipeline.job")
@with_job_options
def main(**options: Any) -> None:
    """Run the pipeline, which folds load reports into tables with Spark."""
    configure_logging()
    signal.signal(signal.SIGTERM, _end_start)
    sys.exit(run_job(JobOptions(**options), on_phase=_say, on_ready=lambda: _say("ready")))


if __name__ == "__main__":
    main()
