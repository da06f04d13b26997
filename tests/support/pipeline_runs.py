"""Run the pipeline's stream inside a test, and read its output."""

from __future__ import annotations

import datetime
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog, report_file_name
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.batch.whole_history import fold_history
from pulsar_barycenter.pipeline.parsing.decision_lines import read_decision_logs
from pulsar_barycenter.pipeline.parsing.report_lines import read_report_log
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult
from pulsar_barycenter.pipeline.stream.generations import current_generation
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings, read_reports
from pulsar_barycenter.pipeline.stream.windows import Windows
from support.load_history import START_MS

Row = dict[str, Any]

_BETWEEN_LOOKS_S = 0.002
_BEGAN_NS = time.time_ns()
"""Near the present: Spark passes over files that are two days older than the newest."""


def wait_until(condition: Callable[[], bool], job: subprocess.Popen[Any], *, within_s: float) -> None:
    """Wait until a condition is true while `job` runs; the end of the job is noticed at once."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"the job ended with {job.wait(_BETWEEN_LOOKS_S)}")


def write_reports(layout: PipelineLayout, reports: Iterable[LocalBrokerData]) -> None:
    """Log reports as brokers do, in files whose times have the order of the reports: Spark takes the oldest first."""
    log = FileReportLog(layout.report_log, retention_hours=100_000)
    for report in reports:
        log.append(report)
        for file in layout.report_log.glob(f"*/{report_file_name(report)}"):
            os.utime(file, ns=(_BEGAN_NS + (report.last_update - START_MS) * 1_000_000,) * 2)


def run_available(
    spark: SparkSession,
    layout: PipelineLayout,
    *,
    now_ms: int = 0,
    settings: StreamSettings | None = None,
    windows: Windows | None = None,
) -> list[BatchResult]:
    """Start the stream from its checkpoint, let it fold all reports of the log, and stop it."""
    results: list[BatchResult] = []
    settings = settings or StreamSettings()
    checkpoint, first_batch = current_generation(layout)
    fold = BatchFold(
        layout,
        first_batch=first_batch,
        settings=settings,
        clock_ms=lambda: now_ms,
        on_batch=results.append,
        windows=windows,
    )
    writer = read_reports(spark, layout, settings).writeStream.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(fold.run).start()
    query.awaitTermination()
    return results


def what_is_left(layout: PipelineLayout, *but: str) -> dict[str, Any]:
    """The content of each file of tables, of the states, and of the publication; not of folders with names in `but`."""
    found: dict[str, Any] = {}
    for folder in (each for each in (layout.tables, layout.state, layout.publication.parent) if each.name not in but):
        for file in sorted(folder.rglob("*")):
            name = str(file.relative_to(layout.data))
            if file.suffix == ".parquet":
                found[name] = pq.read_table(file, partitioning=None)
            elif file.is_file():
                found[name] = file.read_bytes()
    return found


def history(spark: SparkSession, layout: PipelineLayout, settings: StreamSettings | None = None) -> HistoryTables:
    """The tables of one batch over all logged reports and decisions."""
    settings = settings or StreamSettings()
    return fold_history(
        read_report_log(spark, layout).persist(),
        read_decision_logs(spark, layout),
        history_gap_ms=settings.history_gap_ms,
        balance=settings.balance,
    )


def newest_bundle_data(
    spark: SparkSession, layout: PipelineLayout, settings: StreamSettings | None = None
) -> list[Row]:
    """Each bundle's row with the greatest `as_of`, without forgotten bundles."""
    gap = datetime.timedelta(milliseconds=(settings or StreamSettings()).history_gap_ms)
    as_of = newest_broker_data(spark, layout)[0]["as_of"]
    rows = sorted(rows_of(read_table(spark, layout, "bundle_data")), key=lambda row: row["as_of"])
    newest = {row["bundle"]: row for row in rows if as_of - row["as_of"] <= gap}
    return sorted(newest.values(), key=lambda row: row["bundle"])


def newest_broker_data(spark: SparkSession, layout: PipelineLayout) -> list[Row]:
    """The rows of the newest publication."""
    rows = rows_of(read_table(spark, layout, "broker_data"))
    newest = max(row["as_of"] for row in rows)
    return [row for row in rows if row["as_of"] == newest]


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows as dicts, sorted by their first columns."""
    return sorted((row.asDict() for row in frame.collect()), key=first_columns)


def first_columns(row: Row) -> list[str]:
    return [str(value) for value in row.values()][:5]


def assert_same(found: list[Row], expected: list[Row]) -> None:
    """Assert equal rows, floats to 1e-9 relative."""
    assert len(found) == len(expected), _only_one_has(found, expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            is_float = isinstance(value, float)
            same = math.isclose(mine[name], value, rel_tol=1e-9, abs_tol=1e-12) if is_float else mine[name] == value
            assert same, (name, mine, theirs)


def _only_one_has(found: list[Row], expected: list[Row]) -> list[str]:
    mine, theirs = ({str(first_columns(row)) for row in rows} for rows in (found, expected))
    return [f"{len(found)} rows, not {len(expected)}", *sorted(mine ^ theirs)[:5]]


def assert_tables_equal_history(
    spark: SparkSession, layout: PipelineLayout, settings: StreamSettings | None = None
) -> HistoryTables:
    """Assert that the stream's tables equal those of one batch over all reports, and return these."""
    expected = history(spark, layout, settings)
    for name in ("load_reports", "broker_usage", "bundle_samples", "ownership", "decisions", "balance"):
        assert_same(rows_of(read_table(spark, layout, name)), rows_of(getattr(expected, name)))
    assert_same(newest_bundle_data(spark, layout, settings), rows_of(expected.bundle_data))
    assert_same(newest_broker_data(spark, layout), rows_of(expected.broker_data))
    return expected
