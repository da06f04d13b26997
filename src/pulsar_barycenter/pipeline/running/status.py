"""The status of the running pipeline: one JSON file, replaced after every batch."""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.pipeline.running.phases import PhaseTimes, TriggerPhases, percentile
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import STATUS
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult, RefoldDue

log = structlog.get_logger(__name__)

_REMEMBERED_BATCHES = 1000


STATES: Final = ("starting", "running", "retrying", "stopped", "failed")


class PipelineStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The status of a pipeline; `state` is one of STATES. Counts are since the process started. `failures` counts
    failed batches.

    `reports` counts the reports that were added to the tables, including late ones. `held_reports` is the number of
    reports that wait now, because an earlier report of their broker is missing. `corrupt_reports` and
    `corrupt_decisions` count invalid ones, which are kept in the quarantine. `late_reports`, `overdue_reports` and
    `overdue_decisions` came too late to change values that were already computed (`stream.late`). `refold` is the time
    range in which the tables are therefore incomplete; reports and decisions that came too late to earlier processes
    count as well. None: there is no such range. `as_of` is the time of the newest report.

    `looked_at` is when the pipeline last looked for new reports, even if it found none; 0 if unknown. A broker writes a
    report when its load changed enough, and otherwise every `loadBalancerReportUpdateMaxIntervalMinutes`. So under
    steady load `looked_at` advances while `updated_at` and `as_of` stay.

    Times are epoch ms. Percentiles are over the last 1,000 batches that had reports: lag is from the `lastUpdate` of
    the batch's oldest report to the publication of the batch. None: there was no such batch. `phases` has the times of
    the phases of Spark's triggers that read reports; files that are read without Spark's stream, because too many
    waited, have no triggers.
    """

    state: str
    pid: int
    updated_at: int
    batch_id: int = -1
    batches: int = 0
    failures: int = 0
    reports: int = 0
    samples: int = 0
    bundles: int = 0
    duplicate_reports: int = 0
    late_reports: int = 0
    held_reports: int = 0
    corrupt_reports: int = 0
    decisions: int = 0
    corrupt_decisions: int = 0
    overdue_reports: int = 0
    overdue_decisions: int = 0
    refold: RefoldDue | None = None
    as_of: int = 0
    looked_at: int = 0
    lag_ms: int | None = None
    lag_ms_p50: int | None = None
    lag_ms_p99: int | None = None
    batch_seconds_p50: float | None = None
    batch_seconds_p99: float | None = None
    phases: dict[str, PhaseTimes] = {}
    error: str | None = None


class StatusFile:
    """Keeps the status of this process, and writes it to a file of the data directory at each change. If it cannot be
    written, this is logged.
    """

    def __init__(self, storage: Storage, *, pid: int) -> None:
        self._storage = storage
        self._status = PipelineStatus(state="starting", pid=pid, updated_at=0)
        self._lags: deque[int] = deque(maxlen=_REMEMBERED_BATCHES)
        self._seconds: deque[float] = deque(maxlen=_REMEMBERED_BATCHES)
        self._phases = TriggerPhases()

    @property
    def status(self) -> PipelineStatus:
        return msgspec.structs.replace(self._status, phases=self._phases.times())

    def note_trigger(self, durations_ms: Mapping[str, int]) -> None:
        """Add the times of a trigger of Spark's stream (ms by phase). They are written with the next write of the
        status. Thread-safe.
        """
        self._phases.add(durations_ms)

    def enter(self, state: str, *, now_ms: int, error: str | None = None) -> None:
        """Record that the pipeline enters the state `state`, and write the status. Each time it enters the state
        "retrying", `failures` is increased by one.
        """
        failures = self._status.failures + (state == "retrying")
        self._write(
            msgspec.structs.replace(self._status, state=state, updated_at=now_ms, error=error, failures=failures)
        )

    def remember(self, refold: RefoldDue | None, *, held: int) -> None:
        """Set two values that the previous process left, without writing them: the time range in which the tables are
        incomplete (`refold`), and the number of reports that wait because an earlier report of their broker is missing
        (`held`).
        """
        self._status = msgspec.structs.replace(self._status, refold=refold, held_reports=held)

    def look(self, *, now_ms: int) -> None:
        """Record that the pipeline looked for new reports at `now_ms` (epoch ms), also if it found none, and write the
        status.
        """
        self._write(msgspec.structs.replace(self._status, looked_at=now_ms))

    def add(self, batch: BatchResult, *, now_ms: int) -> None:
        """Count one batch and write the status. A batch that ended without an error also ends the state "retrying"."""
        before = self._status
        if batch.lag_ms is not None:
            self._lags.append(batch.lag_ms)
            self._seconds.append(batch.seconds)
        self._write(
            msgspec.structs.replace(
                before,
                state="running",
                error=None,
                updated_at=now_ms,
                batch_id=batch.batch_id,
                batches=before.batches + 1,
                reports=before.reports + batch.reports,
                samples=before.samples + batch.samples,
                bundles=batch.bundles if batch.reports else before.bundles,
                duplicate_reports=before.duplicate_reports + batch.duplicates,
                late_reports=before.late_reports + batch.late,
                held_reports=batch.held,
                corrupt_reports=before.corrupt_reports + len(batch.corrupt_files),
                decisions=before.decisions + batch.decisions,
                corrupt_decisions=before.corrupt_decisions + batch.corrupt_decisions,
                overdue_reports=before.overdue_reports + batch.overdue,
                overdue_decisions=before.overdue_decisions + batch.overdue_decisions,
                refold=batch.refold,
                as_of=max(before.as_of, batch.as_of),
                looked_at=now_ms,
                lag_ms=before.lag_ms if batch.lag_ms is None else batch.lag_ms,
                lag_ms_p50=percentile(self._lags, 50),
                lag_ms_p99=percentile(self._lags, 99),
                batch_seconds_p50=percentile(self._seconds, 50),
                batch_seconds_p99=percentile(self._seconds, 99),
            )
        )

    def _write(self, status: PipelineStatus) -> None:
        self._status = status
        try:
            self._storage.write(STATUS, msgspec.json.encode(self.status))
        except OSError as error:  # for example a full disk, on which the next batch will fail and log the error
            log.warning("pipeline_status_not_written", reason=str(error))


def read_status(storage: Storage) -> PipelineStatus | None:
    """Return the status that was written last; None if there is none yet."""
    try:
        return msgspec.json.decode(storage.read(STATUS), type=PipelineStatus)
    except FileNotFoundError:
        return None


def shortcomings(status: PipelineStatus) -> dict[str, int]:
    """Return why the tables lack a part of the content of the report files and decision logs: the number of late
    reports, corrupt reports and so on, keyed as in the status. Counts of 0 are left out; {}: the tables are complete.
    """
    counts = {
        "late_reports": status.late_reports,
        "overdue_reports": status.overdue_reports,
        "overdue_decisions": status.overdue_decisions,
        "held_reports": status.held_reports,
        "corrupt_reports": status.corrupt_reports,
        "corrupt_decisions": status.corrupt_decisions,
    }
    return {reason: count for reason, count in counts.items() if count}
