"""Run the pipeline until told to stop: `python -m barycenter.pipeline.job --data DIR`, or this file by spark-submit.

Prints one line starting with `ready` on standard output when it reads reports, and one JSON line per batch on standard
error. SIGTERM and SIGINT stop it between two batches, and so does the end of the process named by
BARYCENTER_PARENT_PID; SIGKILL loses nothing.

**Generations.** Spark's file source writes down every file it ever read and copies the whole list every few batches,
so its cost grows with history. After `GENERATION_REPORTS` reports the job therefore stops the query when it is idle and
starts it with an empty record under `checkpoint/from-<first batch id>`. Files that are still in the log are read once
more and dropped by their sequences. Batch ids go on: the id of a batch is the generation's first one plus Spark's own.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import structlog
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from barycenter.pipeline.folds.ownership import utc_date
from barycenter.pipeline.reports.quarantine import remove_old
from barycenter.pipeline.running.job_log import configure_logging
from barycenter.pipeline.running.job_options import JobOptions, with_job_options
from barycenter.pipeline.running.metrics import serve_metrics
from barycenter.pipeline.running.status import PipelineStatus, StatusFile
from barycenter.pipeline.running.warm_up import warm_up
from barycenter.pipeline.spark.java import JavaNotFoundError
from barycenter.pipeline.spark.session import SPARK_ERRORS, create_session, is_loopback
from barycenter.pipeline.storage.addresses import open_storage
from barycenter.pipeline.storage.layout import ARCHIVE, CHECKPOINTS, HOME, QUARANTINE, REPORT_LOG
from barycenter.pipeline.storage.lock import AlreadyRunningError, exclusive
from barycenter.pipeline.storage.storage import Storage, local_folder
from barycenter.pipeline.stream.micro_batches import BatchFold, BatchResult, StreamSettings, read_reports
from barycenter.pipeline.stream.state import StateFolder
from barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from barycenter.pipeline.tables.parquet_tables import Tables

log = structlog.get_logger(__name__)

GENERATION_REPORTS = 20_000
ARCHIVE_DAYS = 2
ONCE_ATTEMPTS = 3
PARENT_VARIABLE = "BARYCENTER_PARENT_PID"

_GENERATION = "from-"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_POLL_S = 0.1
_HOUSE_S = 60.0
_REMOTE_HOUSE_S = 600.0
"""Listing all dates of all tables takes an object store seconds, and costs."""
_IDLE_DEADLINE_S = 30.0
_LONGEST_RETRY_S = 30.0
_NAMES_EXCEPTION = re.compile(r"[\w.]+(Error|Exception): ")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How the job runs. `trigger_s` is the time between the starts of two batches.

    `once`: fold every report that is there and end, or give up after `ONCE_ATTEMPTS` failures in a row.
    """

    trigger_s: float = 1.0
    once: bool = False
    generation_reports: int = GENERATION_REPORTS
    archive_days: int = ARCHIVE_DAYS
    stream: StreamSettings = field(default_factory=StreamSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    publication: Path | None = None
    """A file of this machine to publish in; None: that of the data directory."""


class PipelineJob:
    """The running pipeline of one data directory. The caller holds `exclusive(storage)` and owns the session."""

    def __init__(
        self,
        session: SparkSession,
        storage: Storage,
        settings: JobSettings,
        *,
        clock_ms: Callable[[], int],
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._session = session
        self._storage = storage
        self._settings = settings
        self._clock_ms = clock_ms
        self._on_ready = on_ready
        self._status = StatusFile(storage, pid=os.getpid())
        self._generation_reports = 0
        self._last_batch = -1
        self._is_ready = False
        self._is_done = False
        self._house_kept_at = time.monotonic()

    @property
    def status(self) -> PipelineStatus:
        return self._status.status

    def run(self, stop: threading.Event, *, must_stop: Callable[[], bool] = lambda: False) -> None:
        """Fold reports until `stop` is set or `must_stop` says so; a failed batch is tried again, with a pause.

        Raises what Spark or the file system did, if the job runs once and has tried in vain.
        """
        completed = StateFolder(self._storage).batch_ids()
        Tables(self._storage).clear_unfinished(completed[-1] if completed else None)
        failures = 0
        self._status.enter("starting", now_ms=self._clock_ms())
        while not (self._is_done or stop.is_set() or must_stop()):
            batches_before = self._status.status.batches
            try:
                self._run_generation(stop, must_stop)
            except (StreamingQueryException, Py4JJavaError, OSError) as error:  # the last two: a query cannot begin
                failures = 1 if self._status.status.batches > batches_before else failures + 1
                if self._settings.once and failures >= ONCE_ATTEMPTS:
                    raise
                pause_s = min(_LONGEST_RETRY_S, 2.0 ** (failures - 1))
                reason = _reason(error)
                log.error("pipeline_batch_failed", reason=reason, retry_in_s=pause_s)
                self._status.enter("retrying", now_ms=self._clock_ms(), error=reason)
                stop.wait(pause_s)
        self._status.enter("stopped", now_ms=self._clock_ms())
        log.info("pipeline_stopped", batches=self._status.status.batches)

    def end(self, error: BaseException, *, asked_to: bool) -> None:
        """Leave word of the error that ended the job, which was `asked_to` stop or not."""
        reason = _reason(error)
        log.warning("pipeline_cut_short", reason=reason, asked_to_stop=asked_to)
        self._status.enter("stopped" if asked_to else "failed", now_ms=self._clock_ms(), error=reason)

    def _run_generation(self, stop: threading.Event, must_stop: Callable[[], bool]) -> None:
        """Run one query until it is to stop or its record of files has grown large."""
        checkpoint, first_batch = current_generation(self._storage)
        query = self._start_query(checkpoint, first_batch)
        log.info("pipeline_started", data=self._storage.address(), first_batch=first_batch)
        self._status.enter("running", now_ms=self._clock_ms())
        if not self._is_ready:
            self._is_ready = True
            self._on_ready()
        while not (stop.wait(_POLL_S) or must_stop() or self._is_generation_full()):
            self._keep_house()
            if not query.isActive:
                failure = query.exception()
                if failure is not None:
                    raise failure
                self._is_done = self._settings.once
                return
        stop_when_idle(query, deadline_s=_IDLE_DEADLINE_S)
        if self._is_generation_full():
            self._generation_reports = 0
            begin_generation(self._storage, self._last_batch + 1)
            remove_old_archive(self._storage, now_ms=self._clock_ms(), days=self._settings.archive_days)

    def _keep_house(self) -> None:
        """Compact and delete tables when it is time to; trouble is told, and tried again the next time."""
        settings = self._settings.compaction
        if self._last_batch < 1 or time.monotonic() - self._house_kept_at < settings.every_s:
            return
        now_ms = self._clock_ms()
        try:
            done = keep_house(
                self._storage,
                completed_batch=self._last_batch - 1,  # Spark may run the last one again
                # A broker's clock that runs ahead must not make the tables of today look old.
                newest_date=min(utc_date(self._status.status.as_of), utc_date(now_ms)),
                now_s=now_ms / 1000,
                settings=settings,
            )
            if settings.retention_days is not None:
                remove_old(self._storage, now_s=now_ms / 1000, days=settings.retention_days)
        except OSError as error:
            log.warning("pipeline_house_not_kept", reason=str(error))
        else:
            if done.merged_files or done.deleted_files or done.deleted_dates:
                log.info("pipeline_house_kept", **asdict(done))
        self._house_kept_at = time.monotonic()

    def _start_query(self, checkpoint: str, first_batch: int) -> StreamingQuery:
        fold = BatchFold(
            self._storage,
            first_batch=first_batch,
            settings=self._settings.stream,
            clock_ms=self._clock_ms,
            publication=self._settings.publication,
            on_batch=self._note_batch,
        )
        reports = read_reports(self._session, self._storage, self._settings.stream)
        writer = reports.writeStream.queryName("load reports").option("checkpointLocation", checkpoint)
        if self._settings.once:
            return writer.trigger(availableNow=True).foreachBatch(fold.run).start()
        return writer.trigger(processingTime=f"{self._settings.trigger_s} seconds").foreachBatch(fold.run).start()

    def _note_batch(self, batch: BatchResult) -> None:
        self._last_batch = batch.batch_id
        self._generation_reports += batch.reports + batch.duplicates + batch.held + len(batch.corrupt_files)
        self._status.add(batch, now_ms=self._clock_ms())
        for file in batch.corrupt_files:
            log.warning("load_report_refused", file=file, kept_in=self._storage.address(QUARANTINE))
        log.info(
            "pipeline_batch",
            batch_id=batch.batch_id,
            reports=batch.reports,
            samples=batch.samples,
            bundles=batch.bundles,
            duplicates=batch.duplicates,
            late=batch.late,
            held=batch.held,
            decisions=batch.decisions,
            corrupt=len(batch.corrupt_files),
            lag_seconds=None if batch.lag_ms is None else batch.lag_ms / 1000,
            newest_lag_seconds=None if batch.newest_lag_ms is None else batch.newest_lag_ms / 1000,
            seconds=round(batch.seconds, 3),
        )

    def _is_generation_full(self) -> bool:
        return self._generation_reports >= self._settings.generation_reports


def current_generation(storage: Storage) -> tuple[str, int]:
    """Return the address of the newest checkpoint and the id of its first batch.

    A new one follows all states and tables kept.
    """
    generations = _generations(storage)
    if not generations:
        kept = [*StateFolder(storage).batch_ids(), *Tables(storage).newest_batches()]
        return begin_generation(storage, max(kept) + 1 if kept else 0)
    return storage.address(_generation(generations[-1])), generations[-1]


def begin_generation(storage: Storage, first_batch: int) -> tuple[str, int]:
    """Make the checkpoint folder whose first batch is `first_batch`, and remove the earlier ones."""
    storage.make_folder(_generation(first_batch))
    for first in _generations(storage):
        if first < first_batch:
            storage.delete(_generation(first))
    return storage.address(_generation(first_batch)), first_batch


def _generation(first_batch: int) -> str:
    return f"{CHECKPOINTS}/{_GENERATION}{first_batch:012d}"


def _generations(storage: Storage) -> list[int]:
    """The first batches of the checkpoints, ascending."""
    names = (entry.name for entry in storage.entries(CHECKPOINTS))
    return sorted(int(name.removeprefix(_GENERATION)) for name in names if name.startswith(_GENERATION))


def remove_old_archive(storage: Storage, *, now_ms: int, days: int) -> None:
    """Delete the archived reports of dates more than `days` days before today (UTC)."""
    oldest = time.strftime("%Y-%m-%d", time.gmtime(now_ms / 1000 - days * 86_400))
    for log_folder in _archived_logs(storage, ARCHIVE):
        for entry in storage.entries(log_folder):
            if _DATE.fullmatch(entry.name) and entry.name < oldest:
                storage.delete(f"{log_folder}/{entry.name}")


def _archived_logs(storage: Storage, folder: str) -> Iterator[str]:
    """The report logs in the archive: one for each place that the data directory ever had."""
    for entry in storage.entries(folder):
        path = f"{folder}/{entry.name}"
        if entry.name == REPORT_LOG:
            yield path
        elif entry.is_folder:
            yield from _archived_logs(storage, path)


def stop_when_idle(query: StreamingQuery, *, deadline_s: float) -> None:
    """Stop `query` between two batches; after `deadline_s` stop it anyway, which loses nothing but is noisy."""
    deadline = time.monotonic() + deadline_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()


def _reason(error: BaseException) -> str:
    """The line that says what went wrong: of a long report by Spark the one that names an exception, at its end."""
    lines = str(error).splitlines() or [type(error).__name__]
    named = [line for line in lines if _NAMES_EXCEPTION.match(line)]
    return (named[-1] if named else lines[0])[:500]


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _parent_is_gone() -> bool:
    parent = os.environ.get(PARENT_VARIABLE)
    return parent is not None and os.getppid() != int(parent)


def run_job(options: JobOptions, *, on_ready: Callable[[], None] = lambda: None) -> int:
    """Run the job; return 0 after an orderly end, 1 after a failure that was told in the log.

    Takes over SIGTERM and SIGINT of this process.
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
    )
    try:
        with ExitStack() as held:
            if is_local:  # a second process is told so before it starts Spark
                storage = open_storage(options.data)
                held.enter_context(exclusive(storage, clock_ms=_wall_clock_ms))
            session = create_session("barycenter pipeline", options.master, _session_settings(options))
            if not is_local:
                storage = open_storage(options.data, session)
                held.enter_context(exclusive(storage, clock_ms=_wall_clock_ms, on_lost=stop.set))
            for number in (signal.SIGTERM, signal.SIGINT):  # after Spark has put its own handler in place
                signal.signal(number, lambda *_: stop.set())
            if not options.once:
                _warm_up(session, storage)
            job = PipelineJob(session, storage, settings, clock_ms=_wall_clock_ms, on_ready=on_ready)
            try:
                with _metrics(job, options.metrics_port):
                    job.run(stop, must_stop=_parent_is_gone)
                held.close()  # a lease is given back by Java
                session.stop()
            except Exception as error:
                # Whoever signals a whole process group ends Java at the same instant: a kill, which loses nothing.
                job.end(error, asked_to=stop.is_set())
                if not stop.is_set():
                    raise
    except _CANNOT_RUN as error:
        log.error("pipeline_cannot_run", reason=_reason(error))
        return 1
    return 0


def _warm_up(session: SparkSession, storage: Storage) -> None:
    """Let the first batch be as quick as the next, in a folder that the executors see; without one it is slower."""
    if is_loopback(session.sparkContext.master):
        warm_up(session)
    elif storage.local_root is not None:
        warm_up(session, storage.local_root / HOME)


def _metrics(job: PipelineJob, port: int | None) -> AbstractContextManager[object]:
    return nullcontext() if port is None else serve_metrics(lambda: job.status, port)


_CANNOT_RUN: tuple[type[Exception], ...] = (AlreadyRunningError, JavaNotFoundError, OSError, *SPARK_ERRORS)


def _session_settings(options: JobOptions) -> dict[str, str]:
    return {
        "spark.driver.memory": options.driver_memory,
        # Planning anew between the stages of a job pays for itself in large jobs only; here it is a sixth of a batch.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **options.conf,
    }


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


@click.command(name="barycenter.pipeline.job")
@with_job_options
def main(**options: Any) -> None:
    """Fold load reports with Spark."""
    configure_logging()
    sys.exit(run_job(JobOptions(**options), on_ready=_say_ready))


if __name__ == "__main__":
    main()
