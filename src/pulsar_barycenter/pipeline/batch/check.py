"""Computes the tables of a time range from the logs again, and compares them row by row with the recorded tables.

The comparison goes both ways: a row that is only computed and a row that is only recorded are both differences.

The logs may begin later than the tables, because the archive keeps two days. The rows of the first hour of the logs
depend on reports from before the logs. So if the logs begin later, the check begins one hour after their first report,
and averages, which depend on a long past, are not compared.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.batch.recorded import Comparison, compare_tables, compare_with_recorded
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import is_report, read_report_log
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import REPORT_LOG
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES

RANGED: Final = ("load_reports", "broker_usage", "bundle_samples", "ownership", "decisions", "balance")
"""Tables whose rows in a time range can be computed."""
NEWEST: Final = {"bundle_data": "bundle", "broker_data": "broker"}
"""Tables of which only the newest rows can be computed, and the column that identifies a row."""


TABLE_ERRORS: Final = (pa.ArrowException, OSError, ValueError)
"""The errors that a check raises if tables or logs cannot be read."""


@dataclass(frozen=True, slots=True)
class CheckedRange:
    """The time range that is checked, from `since_ms`, inclusive, to `until_ms`, exclusive, in epoch ms. `until_ms`
    None: the range has no end.

    `are_logs_whole` is True if the logs begin no later than the tables, or the tables are empty. Only then are averages
    checked.
    """

    since_ms: int
    until_ms: int | None
    are_logs_whole: bool

    def rows(self, table: DataFrame, time: str) -> DataFrame:
        """Return the rows of a table whose column `time` is in the time range that is checked."""
        at_ms = F.unix_millis(time)
        found = table.where(at_ms >= self.since_ms)
        return found if self.until_ms is None else found.where(at_ms < self.until_ms)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the check of the table `name`. `recorded` is the number of rows that the table has in the checked
    time range; `found` is the comparison of the computed rows with these rows.
    """

    name: str
    recorded: int
    found: Comparison

    def agrees(self, tolerance: float) -> bool:
        """Return whether the computed and the recorded rows are the same, and no value differs by more than
        `tolerance`. The difference of two values is a fraction of the greater of their absolute values.
        """
        return self.recorded == self.found.rows and self.found.agrees(tolerance)


def check_tables(
    session: SparkSession,
    storage: Storage,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    history_gap_ms: int = HISTORY_GAP_MS,
    on_range: Callable[[CheckedRange], None] = lambda checked: None,
    progress: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Iterator[Checked]:
    """Compute the tables again from the logs, compare the recorded tables with them, and yield one result per table, as
    soon as the table is checked.

    `since_ms` (inclusive) and `until_ms` (exclusive) are epoch ms. None: from the begin of the logs, and without an
    end. If the logs begin later than the tables, the check begins `history_gap_ms` after the first report of the logs,
    or at `since_ms` if that is later. `on_range` is called once with the resulting range, before the first table is
    checked. The tables of averages (`bundle_data` and `broker_data`) are checked only if `until_ms` is None and the
    logs begin no later than the tables.

    Raises:
        ValueError: there is no report in the logs.
    """
    lines = read_report_log(session, storage).persist()
    tables = fold_history(lines, read_decision_logs(session, storage), history_gap_ms=history_gap_ms)
    with progress("reading the logs"):
        first = lines.where(is_report()).select(F.min("lastUpdate")).collect()[0][0]
        if first is None:
            raise ValueError(
                f"no reports in {storage.address(REPORT_LOG)} or in the archive of read reports; give another folder"
            )
        recorded = read_table(session, storage, "load_reports").select(F.min(F.unix_millis("reported_at")))
        begun = recorded.collect()[0][0]
    are_whole = begun is None or begun >= first
    known_from = 0 if are_whole else first + history_gap_ms
    checked = CheckedRange(max(known_from, since_ms or 0), until_ms, are_whole)
    on_range(checked)
    for name in RANGED:
        with progress(f"checking {name}"):
            yield _check(name, checked, tables, read_table(session, storage, name))
    for name, key in NEWEST.items() if are_whole and until_ms is None else ():
        with progress(f"checking {name}"):
            rows: DataFrame = getattr(tables, name)
            found = compare_with_recorded(rows.toArrow(), storage, [f.path for f in table_files(storage, name)], key)
            yield Checked(name, found.rows, found)


def _check(name: str, checked: CheckedRange, tables: HistoryTables, recorded: DataFrame) -> Checked:
    time = TABLES[name].time
    mine = checked.rows(getattr(tables, name), time).persist()
    theirs = checked.rows(recorded, time).persist()
    try:
        return Checked(name, theirs.count(), compare_tables(mine, theirs))
    finally:
        mine.unpersist()
        theirs.unpersist()
