"""Runs the batches: starts and restarts queries, maintains the tables, records the status.

After `GENERATION_REPORTS` reports, a new generation of Spark's record begins, see `stream.generations`. If more reports
wait than one batch takes, they are a backlog, which is folded before Spark's stream continues, see `stream.backlog`.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import structlog
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pulsar_barycenter.load.reports.publication import LOOK_FILE
from pulsar_barycenter.pipeline.reports.archive import remove_old_archive
from pulsar_barycenter.pipeline.reports.decision_files import has_new_decisions
from pulsar_barycenter.pipeline.reports.log_files import waiting_files
from pulsar_barycenter.pipeline.reports.quarantine import remove_old
from pulsar_barycenter.pipeline.running.status import PipelineStatus, StatusFile, shortcomings
from pulsar_barycenter.pipeline.running.trigger_listener import listening
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import PUBLICATION, QUARANTINE
from pulsar_barycenter.pipeline.stream.backlog import move_to_archive, no_reports, read_backlog
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult
from pulsar_barycenter.pipeline.stream.generations import begin_generation, begin_own_batch, current_generation
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings, read_reports
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.stream.windows import DriverWindows, Windows
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, delete_replaced, keep_house
from pulsar_barycenter.pipeline.tables.files import Tables, date_folders, date_of, utc_date
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableLog

log = structlog.get_logger(__name__)

GENERATION_REPORTS = 20_000
ARCHIVE_DAYS = 2
ONCE_ATTEMPTS = 3

_POLL_S = 0.1
_IDLE_DEADLINE_S = 30.0
_LONGEST_RETRY_S = 30.0
_NAMES_EXCEPTION = re.compile(r"[\w.]+(Error|Exception): ")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The settings of the running job. `trigger_s` is the time between the starts of two batches, in seconds.

    `once`: the job reads all reports that exist, then ends. It fails if a batch fails `ONCE_ATTEMPTS` times in a row.
    """

    trigger_s: float = 1.0
    once: bool = False
    generation_reports: int = GENERATION_REPORTS
    archive_days: int = ARCHIVE_DAYS
    stream: StreamSettings = field(default_factory=StreamSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    look_s: float = 5.0
    """The time between two records that the pipeline looked for reports and found none."""
    publication: Path | None = None
    """A file of this machine to publish in; None: the publication of the data directory."""
    windows: Callable[[SparkSession, Storage], Windows] = lambda session, storage: DriverWindows()
    """Returns the object that folds the windows of bundles."""


class _BacklogError(Exception):
    """More report files wait than one batch may take. Spark's stream is stopped, and the files are read in the order of
    their reports instead.
    """


class PipelineJob:
    """Runs the pipeline of one data directory. The caller must be inside `exclusive(storage)`, which holds the lock of
    the directory, and must stop the session afterwards.
    """

    def __init__(
        self,
        session: SparkSession,
        storage: Storage,
        settings: JobSettings,
        *,
        clock_ms: Callable[[], int],
        table_log: TableLog = NO_LOG,
        on_ready: Callable[[], None] = lambda: None,
        on_no_reports: Callable[[], None] = lambda: None,
    ) -> None:
        """Store the arguments; `run` starts the job. `on_ready` is called once, when the job begins to read reports,
        `on_no_reports` once if there were no reports to read at that time. `clock_ms` is the wall clock in epoch ms.
        """
        self._session = session
        self._storage = storage
        self._settings = settings
        self._clock_ms = clock_ms
        self._table_log = table_log
        self._on_ready = on_ready
        self._on_no_reports = on_no_reports
        self._status = StatusFile(storage, pid=os.getpid())
        self._generation_reports = 0
        self._last_batch = -1
        self._is_ready = False
        self._has_looked = False
        self._is_done = False
        self._has_backlog = False
        self._left_in_log: set[str] = set()
        self._house_kept_at = time.monotonic()
        self._looked_at = time.monotonic()
        self._windows = settings.windows(session, storage)
        self._look_file = look_file(storage, settings.publication)

    @property
    def status(self) -> PipelineStatus:
        return self._status.status

    @property
    def shortcomings(self) -> dict[str, int]:
        """Why the tables lack a part of the content of the report files: counts keyed as in the status, see
        `status.shortcomings`. {}: the tables are complete.
        """
        return shortcomings(self.status)

    def run(self, stop: threading.Event, *, must_stop: Callable[[], bool] = lambda: False) -> None:
        """Read reports and write tables until `stop` is set or `must_stop` returns True. A job that runs once also ends
        when it has read all existing reports. A failed batch runs again after a pause, of at most `_LONGEST_RETRY_S`
        seconds.

        If the job runs once and a batch failed `ONCE_ATTEMPTS` times in a row, the error of Spark or of the file system
        is raised.
        """
        self._clear_unfinished()
        states = StateFolder(self._storage)
        refold = states.newest_progress().refold
        self._status.remember(None if refold is msgspec.UNSET else refold, held=states.newest_held())
        self._status.enter("starting", now_ms=self._clock_ms())
        self._keep_house_now(completed_batch=-1)
        with listening(self._session, self._status.note_trigger):
            self._run_generations(stop, must_stop)
        self._leave_in_order()
        self._status.enter("stopped", now_ms=self._clock_ms())
        short = self.shortcomings
        if self._is_done and short:
            log.warning("pipeline_tables_fall_short", **short)
        log.info("pipeline_stopped", batches=self._status.status.batches)

    def _run_generations(self, stop: threading.Event, must_stop: Callable[[], bool]) -> None:
        """Run Spark queries, one after the other, until the job must stop. If a batch fails, pause, and start the next
        query, which runs the batch again.
        """
        failures = 0
        while not (self._is_done or stop.is_set() or must_stop()):
            batches_before = self._status.status.batches
            try:
                self._run_generation(stop, must_stop)
            except (PySparkException, Py4JJavaError, OSError) as error:
                if self._has_backlog:
                    self._has_backlog = False
                    continue
                failures = 1 if self._status.status.batches > batches_before else failures + 1
                if self._settings.once and failures >= ONCE_ATTEMPTS:
                    raise
                pause_s = min(_LONGEST_RETRY_S, 2.0 ** (failures - 1))
                reason = reason_of(error)
                log.error("pipeline_batch_failed", reason=reason, retry_in_s=pause_s)
                self._status.enter("retrying", now_ms=self._clock_ms(), error=reason)
                stop.wait(pause_s)

    def end(self, error: BaseException, *, asked_to: bool) -> None:
        """Log `error`, which ended the job, and record the state of the job: "stopped" if `asked_to` (a user or a
        signal requested the end), otherwise "failed".
        """
        reason = reason_of(error)
        log.warning("pipeline_cut_short", reason=reason, asked_to_stop=asked_to)
        self._status.enter("stopped" if asked_to else "failed", now_ms=self._clock_ms(), error=reason)

    def _run_generation(self, stop: threading.Event, must_stop: Callable[[], bool]) -> None:
        """Read the files that wait, if they are too many for one batch, then run one Spark query. Return when the job
        must stop, or when the query has read so many reports that Spark's record of files is large. In the second case,
        Spark gets a new, empty record.
        """
        if not self._is_ready:
            self._batch_fold().publish_kept()
        self._fold_backlog(stop, must_stop)
        if stop.is_set() or must_stop():
            return
        checkpoint, first_batch = current_generation(self._storage)
        query = self._start_query(checkpoint, first_batch)
        log.info("pipeline_started", data=self._storage.address(), first_batch=first_batch)
        self._enter_running()
        while not (stop.wait(_POLL_S) or must_stop() or self._is_generation_full()):
            self._keep_house()
            self._note_first_look(query)
            self._note_look(query)
            if not query.isActive:
                failure = query.exception()
                if failure is not None:
                    raise failure
                if self._settings.once:
                    self._fold_rest_of_decisions()
                    self._is_done = True
                return
        stop_when_idle(query, deadline_s=_IDLE_DEADLINE_S)
        if self._is_generation_full():
            self._generation_reports = 0
            begin_generation(self._storage, self._last_batch + 1)

    def _enter_running(self) -> None:
        self._status.enter("running", now_ms=self._clock_ms())
        if not self._is_ready:
            self._is_ready = True
            self._on_ready()

    def _clear_unfinished(self) -> None:
        completed = StateFolder(self._storage).batch_ids()
        Tables(self._storage, self._table_log).clear_unfinished(completed[-1] if completed else None)

    def _waiting_files(self) -> set[str]:
        return waiting_files(self._storage) - self._left_in_log

    def _fold_backlog(self, stop: threading.Event, must_stop: Callable[[], bool]) -> None:
        """If more files wait in the report log than one batch may take, read them without Spark's stream, batch by
        batch, in the order of the times of their reports.
        """
        most = self._settings.stream.max_files
        paths = self._waiting_files()
        if len(paths) <= most:
            return
        log.info("pipeline_backlog", data=self._storage.address(), files=len(paths))
        self._enter_running()
        self._clear_unfinished()
        fold = self._batch_fold()
        for batch in read_backlog(self._session, self._storage, paths, most=most):
            fold.run(batch.lines, begin_own_batch(self._storage))
            self._generation_reports = 0
            if self._settings.stream.archive:
                move_to_archive(self._storage, batch.files)
            else:
                self._left_in_log.update(map(self._storage.path_of, batch.files))
            self._keep_house()
            if stop.is_set() or must_stop():
                return

    def _fold_rest_of_decisions(self) -> None:
        """Read the decisions that are later than the newest report. Otherwise they wait for a later report, but a job
        that runs once gets none.
        """
        fold: BatchFold | None = None
        while has_new_decisions(self._storage, StateFolder(self._storage).newest_progress().decision_offsets):
            fold = fold or self._batch_fold()
            fold.run(no_reports(self._session), begin_own_batch(self._storage))

    def _meet_full_batch(self) -> None:
        """If more files wait than one batch may take, raise `_BacklogError`. This ends the present batch before it
        changes anything, because the waiting files may have older reports than the batch.
        """
        if len(self._waiting_files()) > self._settings.stream.max_files:
            self._has_backlog = True
            raise _BacklogError(
                "more reports wait than one batch can take: the batch is stopped before it changes anything, and the"
                " pipeline reads the waiting reports as a backlog"
            )

    def _note_first_look(self, query: StreamingQuery) -> None:
        if not self._has_looked and (self._status.status.batches or query.lastProgress is not None):
            self._has_looked = True
            if not self._status.status.batches:
                self._on_no_reports()

    def _note_look(self, query: StreamingQuery) -> None:
        """Record that the pipeline looked for new reports. Do nothing while a batch runs, or if this was recorded less
        than `look_s` seconds ago.
        """
        if time.monotonic() - self._looked_at < self._settings.look_s or query.status["isTriggerActive"]:
            return
        self._looked_at = time.monotonic()
        self._status.look(now_ms=self._clock_ms())
        self._touch_look_file()

    def _touch_look_file(self) -> None:
        if self._look_file is None:
            return
        try:
            self._look_file.parent.mkdir(parents=True, exist_ok=True)
            self._look_file.touch()
        except OSError as error:
            log.warning("pipeline_look_not_noted", file=str(self._look_file), reason=str(error))

    def _keep_house(self) -> None:
        """Merge small files of the tables, and delete old data, unless this was done less than `every_s` seconds ago (a
        setting of the compaction).
        """
        if self._last_batch < 1 or time.monotonic() - self._house_kept_at < self._settings.compaction.every_s:
            return
        self._keep_house_now(completed_batch=self._last_batch - 1)  # Spark may run the last one again
        self._house_kept_at = time.monotonic()

    def _leave_in_order(self) -> None:
        """Prepare the data directory for the end of the job. Write the newest state as a complete one, which needs no
        earlier states. If the job runs once and has read everything, merge small files. In these cases, and if the data
        directory is local, delete table files that merged files have replaced. Failures are logged.
        """
        try:
            StateFolder(self._storage).make_newest_whole()
        except OSError as error:
            log.warning("pipeline_state_not_whole", reason=str(error))
        if self._is_done:
            completed = StateFolder(self._storage).batch_ids()
            self._keep_house_now(completed_batch=completed[-1] if completed else -1)
        elif self._storage.local_root is None:
            return  # listing every date of an object store would delay the end
        try:
            deleted = delete_replaced(self._storage)
        except OSError as error:
            log.warning("pipeline_house_not_kept", reason=str(error))
        else:
            if deleted:
                log.info("pipeline_house_kept", deleted_files=deleted)

    def _keep_house_now(self, *, completed_batch: int) -> None:
        """Merge small files of the tables with rows of batches up to the id `completed_batch` (inclusive), and delete
        old data.

        Failures are logged; the work is tried again the next time.
        """
        settings = self._settings.compaction
        now_ms = self._clock_ms()
        try:
            done = keep_house(
                self._storage,
                completed_batch=completed_batch,
                newest_date=self._newest_date(now_ms),
                now_s=now_ms / 1000,
                settings=settings,
                table_log=self._table_log,
            )
            if settings.retention_days is not None:
                remove_old(self._storage, now_s=now_ms / 1000, days=settings.retention_days)
            remove_old_archive(self._storage, now_ms=now_ms, days=self._settings.archive_days)
        except OSError as error:
            log.warning("pipeline_house_not_kept", reason=str(error))
        else:
            if done.merged_files or done.deleted_files or done.deleted_dates:
                log.info("pipeline_house_kept", **asdict(done))

    def _newest_date(self, now_ms: int) -> str:
        """Return the UTC date (yyyy-mm-dd) of the newest report, or today if that is earlier. Otherwise, a broker's
        clock that runs ahead would make today's data look old, so that it is deleted.
        """
        as_of = self._status.status.as_of
        if as_of:
            return min(utc_date(as_of), utc_date(now_ms))
        dates = [date_of(folder) for folder in date_folders(self._storage, "load_reports")]
        return min([utc_date(now_ms), *dates[-1:]])

    def _start_query(self, checkpoint: str, first_batch: int) -> StreamingQuery:
        fold = self._batch_fold(first_batch, self._meet_full_batch)
        reports = read_reports(self._session, self._storage, self._settings.stream)
        writer = reports.writeStream.queryName("load reports").option("checkpointLocation", checkpoint)
        if self._settings.once:
            return writer.trigger(availableNow=True).foreachBatch(fold.run).start()
        return writer.trigger(processingTime=f"{self._settings.trigger_s} seconds").foreachBatch(fold.run).start()

    def _batch_fold(self, first_batch: int = 0, on_full: Callable[[], None] = lambda: None) -> BatchFold:
        return BatchFold(
            self._storage,
            first_batch=first_batch,
            settings=self._settings.stream,
            clock_ms=self._clock_ms,
            publication=self._settings.publication,
            table_log=self._table_log,
            on_batch=self._note_batch,
            on_full=on_full,
            windows=self._windows,
        )

    def _note_batch(self, batch: BatchResult) -> None:
        self._last_batch = batch.batch_id
        self._generation_reports += batch.reports + batch.duplicates + batch.held + len(batch.corrupt_files)
        self._status.add(batch, now_ms=self._clock_ms())
        self._looked_at = time.monotonic()
        self._touch_look_file()
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
            overdue=batch.overdue,
            held=batch.held,
            decisions=batch.decisions,
            overdue_decisions=batch.overdue_decisions,
            corrupt=len(batch.corrupt_files),
            lag_seconds=None if batch.lag_ms is None else batch.lag_ms / 1000,
            newest_lag_seconds=None if batch.newest_lag_ms is None else batch.newest_lag_ms / 1000,
            seconds=round(batch.seconds, 3),
        )

    def _is_generation_full(self) -> bool:
        return self._generation_reports >= self._settings.generation_reports


def look_file(storage: Storage, publication: Path | None) -> Path | None:
    """Return the path of an empty file in the folder of the publication. The pipeline updates its modification time,
    which shows the leader that the pipeline still looks for reports. `publication` is the file to which averages are
    published; None: the one in the data directory.

    Return None if the publication is in a data directory that is not a local folder, because then no leader reads it.
    """
    if publication is not None:
        return publication.with_name(LOOK_FILE)
    return None if storage.local_root is None else (storage.local_root / PUBLICATION).with_name(LOOK_FILE)


def stop_when_idle(query: StreamingQuery, *, deadline_s: float) -> None:
    """Stop `query` as soon as no batch runs. If a batch still runs after `deadline_s` seconds, stop the query during
    the batch: no data is lost, but Spark logs errors.
    """
    deadline = time.monotonic() + deadline_s
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()


def reason_of(error: BaseException) -> str:
    """Return the line of an error's text that says best what went wrong: the last line that names an exception, as in
    Spark's long texts. If there is none, return the first line.
    """
    lines = str(error).splitlines() or [type(error).__name__]
    named = [line for line in lines if _NAMES_EXCEPTION.match(line)]
    return (named[-1] if named else lines[0])[:500]
