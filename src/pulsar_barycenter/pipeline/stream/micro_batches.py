"""Carries out the micro-batches of the running pipeline: reads new reports, writes tables, state and publication.

Spark finds and parses the new reports and makes their rows, in one job. The driver folds the rows into the state in its
memory and writes the changes. So the cost of a batch grows with its samples, not with the number of known bundles (see
`folds.bundle_rows`, `folds.owners`, `folds.broker_sums`).

**Order.** Batch N starts from state N-1 (the state after the batch before) and does these steps:

1. Read the new reports, and the reports that state N-1 holds back.
2. Decide which reports are accepted, late, held back or copies (`reports.acceptance`).
3. Read the new decisions (`reports.decision_files`).
4. Fold the samples of the accepted reports into the windows (short- and long-term averages) of state N-1.
5. Write accepted and late reports to the tables `load_reports`, `broker_usage` and `bundle_samples`.
6. Write the new windows to `bundle_data` (bundles with samples) and their sums to `broker_data` (all brokers).
7. Write changed intervals to `ownership`, new decisions to `decisions`, settled intervals to `balance`.
8. Store state N. From here on the batch is completed.
9. Commit the files to the log of the tables, if the tables have one.
10. Publish the averages for the leader.
11. Put unreadable reports and decisions into the quarantine.

**Exactly once.** After a crash Spark may run batch N again, with the same files. It then starts from state N-1 again,
and overwrites the same files, so each report takes effect once, whichever step the crash interrupted. Spark's record of
files gives each file to one batch, and the sequences in the state count each report once. The sequences alone are
enough: the record of files can be deleted (see `stream.generations`).

**Same result as the whole history.** The tables equal those of `batch.whole_history.fold_history` over the same
reports, if these conditions hold. Other reports and decisions are counted, see `late`.

- The reports of a broker arrive at most `acceptance.HOLD_MS` out of order.
- The reports of a bundle that moves between brokers arrive in the order of their times.
- The reports and decisions of an interval arrive before the interval is settled.

Bundles and brokers that no report names for an hour (`HISTORY_GAP_MS`) leave the state. Until then a bundle without an
owner stays: it moves, or was split, or its topics are idle, and the leader may have to assign it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.publication import PipelinePublication
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings, Row, broker_figures, settle_intervals
from pulsar_barycenter.pipeline.folds.ownership import Interval
from pulsar_barycenter.pipeline.parsing.report_lines import (
    JSON_OPTIONS,
    LOAD_REPORT_LINE,
    believable_times,
    one_entry_a_bundle,
)
from pulsar_barycenter.pipeline.parsing.report_rows import report_rows
from pulsar_barycenter.pipeline.reports.acceptance import Acceptance, accept_reports, untold_reports
from pulsar_barycenter.pipeline.reports.columns import ReportColumns
from pulsar_barycenter.pipeline.reports.decision_files import NewDecisions, read_decisions
from pulsar_barycenter.pipeline.reports.log_files import empty_files, forbidden_files
from pulsar_barycenter.pipeline.reports.quarantine import keep_refused, refused_report
from pulsar_barycenter.pipeline.reports.taken_reports import look_up_taken
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import ARCHIVE, REPORT_LOG
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult, RefoldDue
from pulsar_barycenter.pipeline.stream.late import overdue_reports, refold_due
from pulsar_barycenter.pipeline.stream.live_state import LiveState
from pulsar_barycenter.pipeline.stream.publication import Changed, PublicationTimes, Publisher, make_publication
from pulsar_barycenter.pipeline.stream.state import MemoryChange, StateChange, StateFolder
from pulsar_barycenter.pipeline.stream.windows import DriverWindows, Windows
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableLog

FILE = "file"
"""The column with the path of the file from which a line was read."""
_ANY_AGE = "36500d"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The settings of how batches read reports and write results. A batch reads at most `max_files` report files."""

    max_files: int = 500
    history_gap_ms: int = HISTORY_GAP_MS
    archive: bool = True
    """Move read reports to the archive, so that the cost of listing the report log does not grow with the history."""
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    whole_below: int = 10_000
    """With fewer bundles than this, each batch writes state and publication as a whole, not as changes."""


def read_reports(session: SparkSession, storage: Storage, settings: StreamSettings) -> DataFrame:
    """Return Spark's stream of the lines in new report files: the columns LOAD_REPORT_LINE, and `file`, the full path
    or URL of the line's file.

    Only files directly in the date folders of the report log are read, whatever their age. Spark reads each file once;
    it keeps a record of the files that it has read (see `generations`). If more than `max_files` files are new, Spark
    takes those that were modified first. That is not the order of their reports, so `backlog` reads the files in this
    case.
    """
    options: dict[str, str | int] = {**JSON_OPTIONS, "maxFilesPerTrigger": settings.max_files, "maxFileAge": _ANY_AGE}
    if settings.archive:
        options |= {"cleanSource": "archive", "sourceArchiveDir": storage.address(ARCHIVE)}
    reader = session.readStream.schema(LOAD_REPORT_LINE).options(**options)
    lines = reader.json(f"{storage.address(REPORT_LOG)}/*")
    return (
        lines.withColumn(FILE, F.col("_metadata.file_path")).transform(believable_times).transform(one_entry_a_bundle)
    )


@dataclass(frozen=True, slots=True)
class _Folded:
    """The changes that a batch made.

    `bundles`: the new rows (BUNDLE_STATE) of bundles with samples. `silent`: bundles that were removed from the state,
    because they had no sample for too long. `brokers`: brokers that reported, or were removed. `overdue` and
    `overdue_decisions`: how many reports and decisions came too late, see `stream.late`.
    """

    bundles: pa.Table
    silent: list[str]
    brokers: frozenset[str]
    summed: frozenset[str]
    """The brokers whose sums may have changed."""
    overdue: int
    overdue_decisions: int


class BatchFold:
    """Computes the tables, the state and the publication of one batch after another. Spark's `foreachBatch` calls
    `run`.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        first_batch: int = 0,
        settings: StreamSettings | None = None,
        clock_ms: Callable[[], int],
        publication: Path | None = None,
        table_log: TableLog = NO_LOG,
        on_batch: Callable[[BatchResult], None] = lambda result: None,
        on_full: Callable[[], None] = lambda: None,
        windows: Windows | None = None,
    ) -> None:
        """Store the arguments; nothing is read or written yet.

        Args:
            first_batch: the id that the batch with Spark's id 0 gets; later batches count from there.
            clock_ms: the wall clock in epoch ms, with which lag is measured.
            publication: the file of this machine to which averages are published; None: the file in the data directory.
            on_batch: called after each batch.
            on_full: called when a batch has at least `max_files` lines, after they are read and before anything is
                written. More files may wait then. If it raises an exception, the batch ends with it.
            windows: computes the averages of bundles; None: in Spark's driver.
        """
        self._settings = settings or StreamSettings()
        self._first_batch = first_batch
        self._clock_ms = clock_ms
        self._on_batch = on_batch
        self._on_full = on_full
        self._windows = windows or DriverWindows()
        self._storage = storage
        self._publisher = Publisher(storage, publication, whole_below=self._settings.whole_below)
        self._tables = Tables(storage, table_log)
        self._states = StateFolder(storage)
        self._live: LiveState | None = None
        self._forbidden: set[str] = set()
        """Unreadable files in the report log that were already reported."""

    def run(self, lines: DataFrame, spark_batch: int) -> None:
        """Process one batch, that is, all steps in the docstring of the module. `lines` has the lines of the report
        files (LOAD_REPORT_LINE and `file`). `spark_batch` is Spark's id of the batch.
        """
        started = time.perf_counter()
        batch_id = self._first_batch + spark_batch
        live = self._before(batch_id)
        read, held = self._windows.read(report_rows(lines, FILE), live.held, batch_id)
        if len(read) >= self._settings.max_files:
            self._on_full()
        reports = ReportColumns.of(read, held)
        asked = untold_reports(live.reports, reports.headers)
        untold = look_up_taken(self._storage, asked, before=batch_id)
        acceptance = accept_reports(
            live.reports,
            reports.headers,
            present={broker: holding.incarnation for broker, holding in live.owners.holdings.items()},
            untold=untold,
        )
        decisions = read_decisions(self._storage, live.decision_offsets, until_ms=acceptance.reports.as_of)
        folded = self._fold(batch_id, live, reports, acceptance, decisions)
        times = self._publish(live, folded, acceptance) if folded and acceptance.accepted else None
        empty = empty_files(self._storage)
        forbidden = [path for path in forbidden_files(self._storage) if path not in self._forbidden]
        self._forbidden.update(forbidden)
        corrupt = (*reports.corrupt_files, *map(self._storage.address, (*empty, *forbidden)))
        refused = [*(refused_report(self._storage, file) for file in corrupt), *decisions.refused]
        keep_refused(self._storage, batch_id, refused, corrupt)
        for path in empty:  # else the next batch would find it again
            self._storage.delete(path)
        counted = (*acceptance.accepted, *acceptance.late)
        self._on_batch(
            BatchResult(
                batch_id=batch_id,
                reports=len(counted),
                samples=sum(len(header.bundles) for header in counted),
                bundles=len(live.rows) if times else 0,
                duplicates=len(acceptance.dropped),
                corrupt_files=corrupt,
                lag_ms=times.lag_ms if times else None,
                newest_lag_ms=times.newest_lag_ms if times else None,
                seconds=time.perf_counter() - started,
                as_of=acceptance.reports.as_of,
                late=len(acceptance.late),
                held=len(acceptance.held),
                decisions=sum(map(len, decisions.parts)),
                corrupt_decisions=len(decisions.refused),
                overdue=folded.overdue if folded else 0,
                overdue_decisions=folded.overdue_decisions if folded else 0,
                refold=_set(live.refold),
            )
        )

    def publish_kept(self) -> None:
        """Publish the newest stored state, unless a publication of its batch, or of a later one, exists: the process
        that stored the state may have been killed before it published it.
        """
        kept = self._states.batch_ids()
        if not kept or self._publisher.newest_batch() >= kept[-1]:
            return
        live = self._before(kept[-1] + 1)
        as_of = live.reports.as_of
        times = PublicationTimes(live.batch_id, self._clock_ms(), as_of, oldest_report=as_of)
        self._publisher.publish_whole(_all_of(live, times))

    def _before(self, batch_id: int) -> LiveState:
        if self._live is None or self._live.batch_id >= batch_id:
            self._live = LiveState.of(self._states.before(batch_id))
        return self._live

    def _fold(
        self,
        batch_id: int,
        live: LiveState,
        reports: ReportColumns,
        acceptance: Acceptance,
        decisions: NewDecisions,
    ) -> _Folded | None:
        """Write the tables and the state of a batch, and change `live`, the state in memory (steps 4 to 9 in the
        docstring of the module). Return the changes; None if the batch changes nothing.
        """
        held_before = 0 if live.held is None else len(live.held)
        known = (live.reports, live.decision_offsets, held_before)
        is_same = known == (acceptance.reports, decisions.offsets, len(acceptance.held))
        if is_same and not acceptance.late:  # a late report may be too old for the memory, which then does not change
            return None
        self._live = None  # until all is written: after an error the next run reads the state from the disk
        as_of, gap_ms = acceptance.reports.as_of, self._settings.history_gap_ms
        windows = self._windows.fold(live.batch_id, live.rows, reports, acceptance, history_gap_ms=gap_ms)
        accepted, kept = windows.accepted, windows.kept
        self._tables.write("load_reports", batch_id, kept.load_reports)
        self._tables.write("broker_usage", batch_id, kept.broker_usage)
        self._tables.write("bundle_samples", batch_id, kept.bundle_samples)
        overdue = overdue_reports(acceptance.accepted, live.balance.next_start, windows.overtaken)
        with_samples = windows.with_samples
        live.rows.put(with_samples)
        silent = live.rows.drop_silent(as_of_ms=as_of, history_gap_ms=gap_ms)
        self._tables.write("bundle_data", batch_id, with_samples)
        owners = live.owners.fold(acceptance.accepted, as_of=as_of, history_gap_ms=gap_ms)
        touched = with_samples.column("bundle").to_pylist()
        summed = owners.brokers.union(*(map(live.owners.owners_of, (*touched, *silent))))
        live.sums.update(summed, live.owners, live.rows)
        if acceptance.accepted:
            self._tables.write("broker_data", batch_id, _with_time(live.sums.table(), as_of))
        dates, intervals = [date for date, _ in owners.rows], [interval for _, interval in owners.rows]
        self._tables.write("ownership", batch_id, _ownership_table(intervals), dates=dates)
        self._tables.write("decisions", batch_id, decisions.table)
        settled_until = live.balance.next_start or 0
        live.balance, settled = settle_intervals(
            live.balance,
            broker_figures(accepted.load_reports, accepted.broker_usage),
            decisions.times,
            live.owners,
            as_of=as_of,
            settings=self._settings.balance,
        )
        self._tables.write("balance", batch_id, _balance_table(settled))
        overdue_times = [
            at for kind in ("unload", "split") for at in decisions.times.get(kind, ()) if at < settled_until
        ]
        refold = refold_due(_set(live.refold), acceptance, overdue, overdue_times)
        live.refold = msgspec.UNSET if refold is None else refold
        live.reports, live.decision_offsets = acceptance.reports, decisions.offsets
        live.held = self._windows.held(reports, acceptance)
        follows, live.batch_id = live.batch_id, batch_id
        memory = MemoryChange(
            follows=follows,
            reports=live.reports,
            ownership_steps=owners.steps,
            balance=live.balance,
            decision_offsets=live.decision_offsets,
            refold=live.refold,
            silent=silent,
        )
        rows = live.rows.of(touched) if silent else with_samples
        live.keep(self._states, StateChange(memory, rows, live.held), whole_below=self._settings.whole_below)
        self._tables.commit(batch_id)
        self._live = live
        return _Folded(rows, silent, owners.brokers, summed, len(overdue), len(overdue_times))

    def _publish(self, live: LiveState, folded: _Folded, acceptance: Acceptance) -> PublicationTimes:
        oldest_report = min(header.key.reported_at for header in acceptance.accepted)
        times = PublicationTimes(live.batch_id, self._clock_ms(), live.reports.as_of, oldest_report)
        self._publisher.publish(len(live.rows), lambda: _changed_of(live, folded, times), lambda: _all_of(live, times))
        return times


def _all_of(live: LiveState, times: PublicationTimes) -> PipelinePublication:
    last_sequence = {broker: (held.incarnation, held.sequence) for broker, held in live.owners.holdings.items()}
    return make_publication(times, live.rows.table(), live.sums.table(), last_sequence)


def _changed_of(live: LiveState, folded: _Folded, times: PublicationTimes) -> Changed:
    held = {broker: live.owners.holdings[broker] for broker in sorted(folded.brokers) if broker in live.owners.holdings}
    last_sequence = {broker: (holding.incarnation, holding.sequence) for broker, holding in held.items()}
    rows = make_publication(times, folded.bundles, live.sums.table(folded.summed), last_sequence)
    return Changed(rows, folded.silent, sorted(folded.brokers - held.keys()))


def _set(refold: RefoldDue | msgspec.UnsetType) -> RefoldDue | None:
    return None if refold is msgspec.UNSET else refold


def _with_time(averages: pa.Table, as_of: int) -> pa.Table:
    times = pa.array([as_of * 1000] * len(averages), pa.timestamp("us", "UTC"))
    return averages.append_column("as_of", times)


def _ownership_table(intervals: list[Interval]) -> pa.Table:
    def micros(times: Iterable[int | None]) -> pa.Array:
        return pa.array((None if t is None else t * 1000 for t in times), pa.timestamp("us", "UTC"))

    return pa.table(
        {
            "bundle": pa.array((i.bundle for i in intervals), pa.string()),
            "broker": pa.array((i.broker for i in intervals), pa.string()),
            "incarnation": pa.array((i.incarnation for i in intervals), pa.string()),
            "owned_from": micros(i.owned_from for i in intervals),
            "owned_to": micros(i.owned_to for i in intervals),
            "ended": pa.array((i.ended for i in intervals), pa.string()),
        }
    )


def _balance_table(rows: list[Row]) -> pa.Table:
    times = ("interval_start", "interval_end")
    scaled = [row | {name: int(row[name]) * 1000 for name in times} for row in rows]
    return pa.Table.from_pylist(scaled, schema=TABLES["balance"].arrow_schema)
