"""Run the pipeline's stream inside a test, and read what it left behind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from barycenter.broker.load_report_log import FileReportLog
from barycenter.load.reports import LocalBrokerData
from barycenter.pipeline.batch import HistoryTables, fold_history, read_report_log
from barycenter.pipeline.job import current_generation
from barycenter.pipeline.layout import PipelineLayout
from barycenter.pipeline.schemas import BROKER_DATA, BUNDLE_DATA, BUNDLE_SAMPLES
from barycenter.pipeline.stream import BatchFold, BatchResult, StreamSettings, read_reports

Row = dict[str, Any]


def write_reports(layout: PipelineLayout, reports: Iterable[LocalBrokerData]) -> None:
    """Log reports as brokers do."""
    log = FileReportLog(layout.report_log, retention_hours=100_000)
    for report in reports:
        log.append(report)


def run_available(
    spark: SparkSession, layout: PipelineLayout, *, now_ms: int = 0, settings: StreamSettings | None = None
) -> list[BatchResult]:
    """Start the stream from its checkpoint, let it fold all reports of the log, and stop it."""
    results: list[BatchResult] = []
    settings = settings or StreamSettings()
    checkpoint, first_batch = current_generation(layout)
    fold = BatchFold(
        layout, first_batch=first_batch, settings=settings, clock_ms=lambda: now_ms, on_batch=results.append
    )
    writer = read_reports(spark, layout, settings).writeStream.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(fold.run).start()
    query.awaitTermination()
    return results


def history(spark: SparkSession, layout: PipelineLayout) -> HistoryTables:
    """The tables of one batch over every report ever logged."""
    return fold_history(read_report_log(spark, layout))


def read_table(spark: SparkSession, layout: PipelineLayout, name: str) -> DataFrame:
    schema = {"bundle_samples": BUNDLE_SAMPLES, "bundle_data": BUNDLE_DATA, "broker_data": BROKER_DATA}[name]
    return spark.read.schema(schema).parquet(str(layout.tables / name)).select(*schema.names)


def newest_bundle_data(spark: SparkSession, layout: PipelineLayout) -> list[Row]:
    """Each bundle's row of the greatest `as_of`."""
    rows = sorted(rows_of(read_table(spark, layout, "bundle_data")), key=lambda row: row["as_of"])
    return sorted({row["bundle"]: row for row in rows}.values(), key=lambda row: row["bundle"])


def newest_broker_data(spark: SparkSession, layout: PipelineLayout) -> list[Row]:
    """The rows of the newest publication."""
    rows = rows_of(read_table(spark, layout, "broker_data"))
    newest = max(row["as_of"] for row in rows)
    return [row for row in rows if row["as_of"] == newest]


def rows_of(frame: DataFrame) -> list[Row]:
    """The rows as dicts, sorted by their first columns."""
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: [str(value) for value in row.values()][:5])


def assert_same(found: list[Row], expected: list[Row]) -> None:
    """Assert equal rows, floats to 1e-9 relative."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            same = math.isclose(mine[name], value, rel_tol=1e-9) if isinstance(value, float) else mine[name] == value
            assert same, (name, mine, theirs)


def assert_tables_equal_history(spark: SparkSession, layout: PipelineLayout) -> HistoryTables:
    """Assert that the stream's tables say what one batch over all reports says, and return that."""
    expected = history(spark, layout)
    assert_same(rows_of(read_table(spark, layout, "bundle_samples")), rows_of(expected.bundle_samples))
    assert_same(newest_bundle_data(spark, layout), rows_of(expected.bundle_data))
    assert_same(newest_broker_data(spark, layout), rows_of(expected.broker_data))
    return expected
