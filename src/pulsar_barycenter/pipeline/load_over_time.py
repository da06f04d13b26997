"""Reads the load of brokers or of a bundle over time from the tables, for the dashboard. Brokers do not keep it.

Means are weighted by the seconds for which each report holds (docs/measures.md). Steps without such a report are left
out. Tables are read backwards from the newest file, some columns and some thousand rows at a time, within `Bounds`.
Rows beyond the bounds are left out, and the answer says since when it is complete. Rows are summed as soon as all rows
after them are read, so an answer does not need memory for all rows.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_barycenter.load.reports.load_over_time import BrokerLoad, LoadQuestion, RecordedLoad
from pulsar_barycenter.pipeline.held import LONGEST_HELD, Times
from pulsar_barycenter.pipeline.load_means import Period, report_times, step_sums, summed
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import date_folders, date_of, table_files, utc_date
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError, opened_table

_ROWS_AT_ONCE: Final = 65_536
_ROWS_KEPT: Final = 500_000
"""When more rows are in memory, those that are more than _ORDER_SLACK_US later than the earliest row are added to the
sums and dropped.
"""
_ORDER_SLACK_US: Final = 3_600_000_000
"""Reports of a broker may be in files in the wrong order. Reports are put in the right order if their times differ by
at most this time.
"""
_LONGEST_HELD_MS: Final = round(LONGEST_HELD.total_seconds() * 1000)
_TIME: Final = "reported_at"
_USAGES: Final = (
    *("cpu_percent", "memory_percent", "direct_memory_percent"),
    *("bandwidth_in_percent", "bandwidth_out_percent"),
)
_FIGURES: Final = ("usage", "msg_rate", "msg_throughput")
_TRAFFIC: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits on the data that is read from the tables to answer one question.

    `files` and `rows` are limits for each table. `stored_bytes` (the size in the files) and `seconds` are limits for
    all tables together, and each table gets an equal part.
    """

    files: int = 2_000
    rows: int = 8_000_000
    stored_bytes: int = 256 * 1_048_576
    seconds: float = 5.0


class _Budget:
    """The limits on the data that may still be read of one table. `share` is the fraction of the bytes and seconds of
    `bounds` that the table gets. The seconds count from the creation of this object, by the clock `now`.
    """

    def __init__(self, bounds: Bounds, share: float, now: Callable[[], float]) -> None:
        self._files, self._rows, self._bytes = bounds.files, bounds.rows, bounds.stored_bytes * share
        self._now, self._deadline = now, now() + bounds.seconds * share

    def take_file(self) -> bool:
        """Count one more file. Return True if it may be read; False if a limit is reached."""
        self._files -= 1
        return self._files >= 0 and self._now() < self._deadline

    def take(self, rows: int, stored_bytes: int) -> bool:
        """Count `rows` more rows with `stored_bytes` bytes in the files. Return True if they may be read; False if a
        limit is exceeded.
        """
        self._rows -= rows
        self._bytes -= stored_bytes
        return self._rows >= 0 and self._bytes >= 0 and self._now() < self._deadline

    @property
    def is_late(self) -> bool:
        return self._now() >= self._deadline


def read_load(
    storage: Storage,
    question: LoadQuestion,
    bounds: Bounds = Bounds(),
    *,
    now: Callable[[], float] = time.monotonic,
    now_ms: int | None = None,
) -> RecordedLoad:
    """Return the recorded load that answers `question`: for each step, the means weighted by the time in which each
    report is valid. Blocks while it reads files.

    A file that is damaged, or was removed meanwhile, is left out, and the note in the result names it. If the tables
    have more than `bounds` allow, older load is left out, and the note says so. `now` is a monotonic clock, in seconds.
    A report is valid until `now_ms` (epoch ms) at the latest. None: it may be valid longer, for periods that ended long
    ago.
    """
    names = ("bundle_samples", "load_reports") if question.bundle else ("broker_usage", "load_reports")
    if not any(date_folders(storage, name) for name in names):
        return RecordedLoad({}, question.until_ms, "The pipeline has written no tables to this broker's data folder.")
    until_ms = question.until_ms if now_ms is None else min(question.until_ms, now_ms)
    tables = [_Reading(storage, name, question) for name in names]
    budgets = (_Budget(bounds, 1 / len(names), now) for _ in names)
    if question.bundle:
        samples, reports = tables
        sums = [_bundle_sums(samples, reports, budgets, until_ms)]
    else:
        sums = [_broker_sums(table, budget, until_ms) for table, budget in zip(tables, budgets, strict=True)]
    whole_since = max(table.whole_since_ms for table in tables)
    spoiled, notes = [each for table in tables for each in table.spoiled], []
    if whole_since > question.since_ms:
        notes.append("The tables have more than one answer may read (rows, bytes, seconds): older load is missing.")
    if spoiled:
        more = "" if len(spoiled) == 1 else f" {len(spoiled) - 1} more cannot be read either."
        notes.append(f"{spoiled[0]}.{more} `barycenter history` says what to do.")
    pa.default_memory_pool().release_unused()
    return RecordedLoad(_loads(sums), whole_since, " ".join(notes))


def _broker_sums(table: "_Reading", budget: _Budget, until_ms: int) -> pa.Table | None:
    sums = _Sums(table.question, until_ms)
    for rows in table.read(budget, lambda rows: _figures(rows, rows.column("broker"))):
        sums.add(rows)
    return sums.all()


def _bundle_sums(
    samples: "_Reading", reports: "_Reading", budgets: Iterator[_Budget], until_ms: int
) -> pa.Table | None:
    """Return the load of the bundle in each step, in the form of `load_means.step_sums`; None if there is no sample. A
    sample is valid until the next report of the same broker, even if that report does not list the bundle.
    """
    found = [*samples.read(next(budgets), lambda rows: _figures(rows, pa.repeat("", len(rows))))]
    if not found:
        return None
    rows = pa.concat_tables(found)
    brokers = rows.column("broker").unique()
    of_brokers = reports.read(next(budgets), lambda rows: rows.filter(pc.is_in(rows.column("broker"), brokers)))
    return step_sums(
        rows, _FIGURES, _period(samples.question, until_ms, report_times(of_brokers)), _step_us(samples.question)
    )


def _period(question: LoadQuestion, until_ms: int, reports: Mapping[str, Times]) -> Period:
    return Period(question.since_ms * 1000, until_ms * 1000, reports)


def _step_us(question: LoadQuestion) -> int:
    return question.step_ms * 1000


class _Sums:
    """Computes the load of each broker in each step, in the form of `load_means.step_sums`. The caller adds rows, one
    per report, from the newest to the oldest.
    """

    def __init__(self, question: LoadQuestion, until_ms: int) -> None:
        self._question, self._until_ms = question, until_ms
        self._rows: list[pa.Table] = []
        self._kept, self._most = 0, _ROWS_KEPT
        self._next: dict[str, Times] = {}
        """The time of each broker's earliest summed report. An earlier report holds until this time at the latest."""
        self._sums: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        self._rows.append(rows)
        self._kept += len(rows)
        if self._kept <= self._most:
            return
        kept = pa.concat_tables(self._rows)
        at_us = kept.column(_TIME).cast(pa.int64())
        is_later = pc.greater(at_us, pc.add(pc.min(at_us), _ORDER_SLACK_US))
        self._sum(kept.filter(is_later))
        self._rows = [kept.filter(pc.invert(is_later))]
        self._kept = len(self._rows[0])
        self._most = max(_ROWS_KEPT, 2 * self._kept)

    def all(self) -> pa.Table | None:
        """Return the sums of all rows that were added; None if no row was added. No rows may be added afterwards."""
        if self._rows:
            self._sum(pa.concat_tables(self._rows))
            self._rows = []
        return self._sums[0] if self._sums else None

    def _sum(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        period = _period(self._question, self._until_ms, self._next)
        # rows that were summed before are newer
        self._sums = [summed([step_sums(rows, _FIGURES, period, _step_us(self._question)), *self._sums], _FIGURES)]
        first = rows.group_by("broker", use_threads=False).aggregate([(_TIME, "min")])
        times = first.column(f"{_TIME}_min").cast(pa.int64()).to_pylist()
        for broker, at_us in zip(first.column("broker").to_pylist(), times, strict=True):
            self._next[broker] = np.array([at_us], np.int64)


class _Reading:
    """Reads one table from its newest file to older ones. `whole_since_ms` is the time (epoch ms) from which on the
    answer is complete; it is later than the begin of the question's period if the limits ended the reading. `spoiled`
    has the files that could not be read, with the reason.
    """

    def __init__(self, storage: Storage, name: str, question: LoadQuestion) -> None:
        self._storage, self._name, self.question = storage, name, question
        self._read_since_ms = max(0, question.since_ms - _LONGEST_HELD_MS)
        self._wants = {"broker": question.broker}
        if name == "bundle_samples":
            self._wants["bundle"] = question.bundle
        self.whole_since_ms = question.since_ms
        self._is_cut = False
        self.spoiled: list[str] = []
        """The files that cannot be read, each with the reason."""

    def read(self, budget: _Budget, of_rows: Callable[[pa.Table], pa.Table]) -> Iterator[pa.Table]:
        """Read the rows that may be valid in the question's period, newest file first, until `budget` is used up. Call
        `of_rows` with each piece of rows, and yield its result.

        If `of_rows` raises an error because of the rows, their file counts as damaged.
        """
        for file in self._files():
            try:
                with opened_table(self._storage, file) as parquet:
                    yield from map(of_rows, self._read_file(parquet, budget))
            except DamagedTableError as error:
                self.spoiled.append(f"{file} cannot be read: {error.detail}")
            except OSError as error:  # removed or compacted meanwhile, or not readable
                self.spoiled.append(f"{file} cannot be read: {error.strerror or error}")
            if self._is_cut:
                return

    def _files(self) -> Iterator[str]:
        first, last = (utc_date(ms) for ms in (self._read_since_ms, self.question.until_ms - 1))
        dates = [date for date in map(date_of, date_folders(self._storage, self._name)) if first <= date <= last]
        for date in reversed(dates):
            for file in reversed(table_files(self._storage, self._name, dates=(date,))):
                yield file.path

    def _read_file(self, parquet: pq.ParquetFile, budget: _Budget) -> Iterator[pa.Table]:
        columns = self._columns(set(parquet.schema_arrow.names))
        may_read = budget.take_file()
        for group in reversed(range(parquet.num_row_groups)):
            about = parquet.metadata.row_group(group)
            stored = {about.column(i).path_in_schema: about.column(i) for i in range(about.num_columns)}
            lower_ms, upper_ms = _times(stored[_TIME])
            if lower_ms >= self.question.until_ms or upper_ms < self._read_since_ms or not self._may_have(stored):
                continue
            size = sum(stored[column].total_compressed_size for column in columns)
            if not may_read or not budget.take(about.num_rows, size):
                self._cut(upper_ms)
                return
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False):
                if budget.is_late:
                    self._cut(upper_ms)
                    return
                rows = self._wanted(pa.table(batch))
                if len(rows):
                    yield rows

    def _columns(self, known: set[str]) -> list[str]:
        if self.question.bundle and self._name == "load_reports":
            return ["broker", _TIME]
        figures = _USAGES if self._name == "broker_usage" else (*_TRAFFIC, "bundles")
        return [*self._wants, _TIME, *(name for name in figures if name in known)]

    def _may_have(self, stored: dict[str, Any]) -> bool:
        """Return False if the statistics in a file show that a row group has no rows of the bundle or broker that the
        question is about, otherwise True. `stored` has the metadata of each column of the row group.
        """
        for column, name in self._wants.items():
            about = stored[column].statistics if name else None
            if about is not None and about.has_min_max and not about.min <= name <= about.max:
                return False
        return True

    def _wanted(self, rows: pa.Table) -> pa.Table:
        since, until = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (self._read_since_ms, self.question.until_ms))
        at, kind = rows.column(_TIME), rows.schema.field(_TIME).type
        mask = pc.and_(pc.greater_equal(at, pa.scalar(since, kind)), pc.less(at, pa.scalar(until, kind)))
        for column, name in self._wants.items():
            if name:
                mask = pc.and_(mask, pc.equal(rows.column(column), name))
        return rows.filter(mask)

    def _cut(self, newest_unread_ms: float) -> None:
        """Stop reading, and set `whole_since_ms`. The unread reports are from `newest_unread_ms` (epoch ms) or earlier,
        and are valid for at most LONGEST_HELD. So the answer is complete from the first step that begins after that.
        """
        self._is_cut = True
        step_ms = self.question.step_ms
        after = (int(min(newest_unread_ms + _LONGEST_HELD_MS, self.question.until_ms - 1)) // step_ms + 1) * step_ms
        self.whole_since_ms = max(self.whole_since_ms, after)


def _figures(rows: pa.Table, of: Any) -> pa.Table:
    """Return the columns that `load_means.step_sums` needs. `of` has the name of the reported thing of each row. A
    column of values that `rows` lacks is null in the result.
    """
    usages = [_known(rows.column(name)) for name in _USAGES if name in rows.column_names]
    usage = pc.max_element_wise(*usages) if usages else pa.nulls(len(rows), pa.float64())
    rate, throughput = (
        pc.add(_known(rows.column(f"{name}_in")), _known(rows.column(f"{name}_out")))
        if f"{name}_in" in rows.column_names
        else pa.nulls(len(rows), pa.float64())
        for name in ("msg_rate", "msg_throughput")
    )
    bundles = rows.column("bundles") if "bundles" in rows.column_names else pa.nulls(len(rows), pa.int64())
    return pa.table(
        {
            "of": of,
            "broker": rows.column("broker"),
            _TIME: rows.column(_TIME).cast(pa.timestamp("us", "UTC")),
            "usage": usage,
            "msg_rate": rate,
            "msg_throughput": throughput,
            "bundles": bundles,
        }
    )


def _known(values: Any) -> Any:
    """Return values as doubles. A value that is not a number, infinite or negative becomes null."""
    doubles = values.cast(pa.float64())
    is_known = pc.fill_null(pc.and_(pc.is_finite(doubles), pc.greater_equal(doubles, 0.0)), fill_value=False)
    return pc.if_else(is_known, doubles, pa.scalar(None, pa.float64()))


def _loads(sums: Sequence[pa.Table | None]) -> dict[int, list[BrokerLoad]]:
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for table in sums:
        for row in [] if table is None else table.to_pylist():
            figures = found.setdefault((row["step"] // 1000, row["broker"]), {})
            for name, digits in (("usage", 1), ("msg_rate", 2), ("msg_throughput", 1)):
                if row[f"{name}_s"]:
                    figures[name] = round(row[name] / row[f"{name}_s"], digits)
            if row["bundles"] is not None:
                figures["bundles"] = row["bundles"]
    loads: dict[int, list[BrokerLoad]] = {}
    for (begin_ms, broker), figures in sorted(found.items()):
        get = figures.get
        row_of = BrokerLoad(broker, get("usage"), get("msg_rate"), get("msg_throughput"), get("bundles"))
        loads.setdefault(begin_ms, []).append(row_of)
    return loads


def _times(column: Any) -> tuple[float, float]:
    """Return the times (epoch ms) of the first and the last row in a row group; minus and plus infinity if the file
    does not record them.
    """
    about = column.statistics
    if about is None or not about.has_min_max:
        return -math.inf, math.inf
    return tuple(_ms(each) for each in (about.min, about.max))  # type: ignore[return-value]


def _ms(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
