"""The load of brokers, or of a bundle, over time, from the tables: what a dashboard shows of times that no broker
remembers.

Read from the newest file back, a few columns and some thousand rows at a time, each part summed up at once, and within
`Bounds`: what lies further back than they reach is left out, and the answer says from when on it is whole.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_barycenter.load.reports.load_over_time import BrokerLoad, LoadQuestion, RecordedLoad
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import date_folders, date_of, table_files, utc_date
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError, opened_table

_ROWS_AT_ONCE: Final = 65_536
_SUMS_AT_ONCE: Final = 200_000
_TIME: Final = "reported_at"
_USAGES: Final = (
    *("cpu_percent", "memory_percent", "direct_memory_percent"),
    *("bandwidth_in_percent", "bandwidth_out_percent"),
)
_TRAFFIC: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read for one answer: of each table so many files and rows; of all, which share them evenly, so many
    bytes, as they are stored, and so many seconds."""

    files: int = 2_000
    rows: int = 8_000_000
    stored_bytes: int = 256 * 1_048_576
    seconds: float = 5.0


class _Budget:
    """What may be read of one table, a `share` of what may be of all; the time begins now."""

    def __init__(self, bounds: Bounds, share: float, now: Callable[[], float]) -> None:
        self._files, self._rows, self._bytes = bounds.files, bounds.rows, bounds.stored_bytes * share
        self._now, self._deadline = now, now() + bounds.seconds * share

    def take_file(self) -> bool:
        """Tell whether another file may be looked into."""
        self._files -= 1
        return self._files >= 0 and self._now() < self._deadline

    def take(self, rows: int, stored_bytes: int) -> bool:
        """Tell whether so much more may be read."""
        self._rows -= rows
        self._bytes -= stored_bytes
        return self._rows >= 0 and self._bytes >= 0 and self._now() < self._deadline

    @property
    def is_late(self) -> bool:
        return self._now() >= self._deadline


def read_load(
    storage: Storage, question: LoadQuestion, bounds: Bounds = Bounds(), *, now: Callable[[], float] = time.monotonic
) -> RecordedLoad:
    """Return what the tables hold of a question: means of what was reported in each step. Blocks.

    A file that is damaged, or was removed meanwhile, is left out, and told of. `now` is monotonic, in seconds.
    """
    names = ("bundle_samples",) if question.bundle else ("broker_usage", "load_reports")
    if not any(date_folders(storage, name) for name in names):
        return RecordedLoad({}, question.until_ms, "The pipeline has written no tables into this broker's data folder.")
    tables = [_Reading(storage, name, question) for name in names]
    sums = [table.read(_Budget(bounds, 1 / len(names), now)) for table in tables]
    whole_since = max(table.whole_since_ms for table in tables)
    spoiled, notes = [each for table in tables for each in table.spoiled], []
    if whole_since > question.since_ms:
        notes.append("There is more in the tables than is read for one answer: what is older is missing.")
    if spoiled:
        more = "" if len(spoiled) == 1 else f" So it is with {len(spoiled) - 1} more."
        notes.append(f"{spoiled[0]}.{more} `barycenter history` says what to do.")
    pa.default_memory_pool().release_unused()
    return RecordedLoad(_loads(question, sums), whole_since, " ".join(notes))


class _Reading:
    """One table, read back; `whole_since_ms` is from when on all of it was."""

    def __init__(self, storage: Storage, name: str, question: LoadQuestion) -> None:
        self._storage, self._name, self._question = storage, name, question
        self.whole_since_ms = question.since_ms
        self.spoiled: list[str] = []
        """The files that cannot be read, each with what is wrong."""

    def read(self, budget: _Budget) -> pa.Table | None:
        """Return the sums by step and broker, None if there is nothing."""
        parts: list[pa.Table] = []
        for file in self._files():
            try:
                with opened_table(self._storage, file) as parquet:
                    goes_on = self._read_file(parquet, parts, budget)
            except DamagedTableError as error:
                self.spoiled.append(f"{file} cannot be read: {error.detail}")
                continue
            except OSError as error:  # removed or compacted meanwhile, or not to be read
                self.spoiled.append(f"{file} cannot be read: {error.strerror or error}")
                continue
            if not goes_on:
                break
            if sum(map(len, parts)) > _SUMS_AT_ONCE:
                parts = [_summed(parts)]
        return _summed(parts) if parts else None

    def _files(self) -> Iterator[str]:
        first, last = (utc_date(ms) for ms in (self._question.since_ms, self._question.until_ms - 1))
        dates = [date for date in map(date_of, date_folders(self._storage, self._name)) if first <= date <= last]
        for date in reversed(dates):
            for file in reversed(table_files(self._storage, self._name, dates=(date,))):
                yield file.path

    def _read_file(self, parquet: pq.ParquetFile, parts: list[pa.Table], budget: _Budget) -> bool:
        """Add the sums of a file; tell whether others may be read, too."""
        columns = self._columns(set(parquet.schema_arrow.names))
        may_read = budget.take_file()
        for group in reversed(range(parquet.num_row_groups)):
            about = parquet.metadata.row_group(group)
            stored = {about.column(i).path_in_schema: about.column(i) for i in range(about.num_columns)}
            lower_ms, upper_ms = _times(stored[_TIME])
            if lower_ms >= self._question.until_ms or upper_ms < self._question.since_ms or not self._may_have(stored):
                continue
            size = sum(stored[column].total_compressed_size for column in columns)
            if not may_read or not budget.take(about.num_rows, size):
                self._cut(upper_ms)
                return False
            for batch in parquet.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False):
                if budget.is_late:
                    self._cut(upper_ms)
                    return False
                rows = self._wanted(pa.table(batch))
                if len(rows):
                    parts.append(_summed([_figures(rows, self._question)]))
        return True

    def _columns(self, known: set[str]) -> list[str]:
        of_bundle = ["bundle"] if self._question.bundle else []
        figures = _USAGES if self._name == "broker_usage" else (*_TRAFFIC, "bundles")
        return ["broker", _TIME, *of_bundle, *(name for name in figures if name in known)]

    def _may_have(self, stored: dict[str, Any]) -> bool:
        """Tell whether a row group may have rows of the bundle or broker that is asked of."""
        for column, name in (("bundle", self._question.bundle), ("broker", self._question.broker)):
            about = stored[column].statistics if name else None
            if about is not None and about.has_min_max and not about.min <= name <= about.max:
                return False
        return True

    def _wanted(self, rows: pa.Table) -> pa.Table:
        since, until = (
            datetime.fromtimestamp(ms / 1000, UTC) for ms in (self._question.since_ms, self._question.until_ms)
        )
        at, kind = rows.column(_TIME), rows.schema.field(_TIME).type
        mask = pc.and_(pc.greater_equal(at, pa.scalar(since, kind)), pc.less(at, pa.scalar(until, kind)))
        for column, name in (("bundle", self._question.bundle), ("broker", self._question.broker)):
            if name:
                mask = pc.and_(mask, pc.equal(rows.column(column), name))
        return rows.filter(mask)

    def _cut(self, newest_unread_ms: float) -> None:
        step_ms = self._question.step_ms
        after = (int(min(newest_unread_ms, self._question.until_ms - 1)) // step_ms + 1) * step_ms
        self.whole_since_ms = max(self.whole_since_ms, after)


_KINDS: Final = {
    "broker": "max",
    "usage": "sum",
    "usage_count": "sum",
    "msg_rate": "sum",
    "msg_throughput": "sum",
    "count": "sum",
    "bundles": "max",
}


def _figures(rows: pa.Table, question: LoadQuestion) -> pa.Table:
    """Return the step and broker of each row with its figures; those that the table does not have are 0, or null."""
    step_us = question.step_ms * 1000
    at_us = rows.column(_TIME).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    step = pc.divide(pc.subtract(at_us, question.since_ms * 1000), step_us)
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
            "step": step,
            "broker": rows.column("broker"),
            # a bundle has one row a step, whoever had it
            "of": pa.repeat("", len(rows)) if question.bundle else rows.column("broker"),
            "usage": usage,
            "usage_count": pc.is_valid(usage).cast(pa.int64()),
            "msg_rate": rate,
            "msg_throughput": throughput,
            "count": pc.is_valid(rate).cast(pa.int64()),
            "bundles": bundles,
        }
    )


def _known(values: Any) -> Any:
    """Return figures as doubles; what is no number, endless or negative is null."""
    doubles = values.cast(pa.float64())
    is_known = pc.fill_null(pc.and_(pc.is_finite(doubles), pc.greater_equal(doubles, 0.0)), fill_value=False)
    return pc.if_else(is_known, doubles, pa.scalar(None, pa.float64()))


def _summed(parts: Sequence[pa.Table]) -> pa.Table:
    grouped = pa.concat_tables(parts).group_by(["step", "of"], use_threads=False).aggregate([*_KINDS.items()])
    names = {f"{name}_{kind}": name for name, kind in _KINDS.items()}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def _loads(question: LoadQuestion, sums: Sequence[pa.Table | None]) -> dict[int, list[BrokerLoad]]:
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for table in sums:
        for row in [] if table is None else table.to_pylist():
            figures = found.setdefault((row["step"], row["broker"]), {})
            if row["usage_count"]:
                figures["usage"] = round(row["usage"] / row["usage_count"], 1)
            if row["count"]:
                figures["msg_rate"] = round(row["msg_rate"] / row["count"], 2)
                figures["msg_throughput"] = round(row["msg_throughput"] / row["count"], 1)
            if row["bundles"] is not None:
                figures["bundles"] = row["bundles"]
    loads: dict[int, list[BrokerLoad]] = {}
    for (step, broker), figures in sorted(found.items()):
        get = figures.get
        row_of = BrokerLoad(broker, get("usage"), get("msg_rate"), get("msg_throughput"), get("bundles"))
        loads.setdefault(question.since_ms + step * question.step_ms, []).append(row_of)
    return loads


def _times(column: Any) -> tuple[float, float]:
    """Return the first and the last time in a row group, epoch ms; all times if that is not told."""
    about = column.statistics
    if about is None or not about.has_min_max:
        return -math.inf, math.inf
    return tuple(_ms(each) for each in (about.min, about.max))  # type: ignore[return-value]


def _ms(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
