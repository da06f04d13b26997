"""The whole history at once: the same tables as the stream's, from all reports of a log.

For recovery, for replay, and as the yardstick the stream is held against.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from barycenter.load.windows import HISTORY_GAP_MS
from barycenter.pipeline.broker_averages import broker_averages, membership, newest_reports
from barycenter.pipeline.layout import PipelineLayout
from barycenter.pipeline.samples import bundle_samples, distinct_reports, valid_reports
from barycenter.pipeline.schemas import BROKER_DATA, BUNDLE_DATA, CORRUPT, LOAD_REPORT_LINE
from barycenter.pipeline.windows import fold_windows

JSON_OPTIONS = {
    "columnNameOfCorruptRecord": CORRUPT,
    "mode": "PERMISSIVE",
    "allowNonNumericNumbers": "false",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",  # the log's retention may delete a file between listing and reading
    "pathGlobFilter": "*.json",
}
"""How a report log is read. Names starting with '.' or '_' are passed over by Spark itself."""


@dataclass(frozen=True, slots=True)
class HistoryTables:
    """BUNDLE_SAMPLES of every report; BUNDLE_DATA and BROKER_DATA as of the newest report."""

    bundle_samples: DataFrame
    bundle_data: DataFrame
    broker_data: DataFrame


def read_report_log(session: SparkSession, layout: PipelineLayout) -> DataFrame:
    """Every line of the report log, those already read by the stream included. Output: LOAD_REPORT_LINE."""
    roots = [str(root) for root in (layout.report_log, layout.archive) if root.exists()]
    reader = session.read.schema(LOAD_REPORT_LINE).options(**JSON_OPTIONS, recursiveFileLookup="true")
    return reader.json(roots)


def fold_history(lines: DataFrame, *, history_gap_ms: int = HISTORY_GAP_MS) -> HistoryTables:
    """Compute the tables of a whole report log; nothing is computed before a table is read.

    Input: LOAD_REPORT_LINE. Bundles and brokers last heard of more than `history_gap_ms` before the newest report are
    left out of `bundle_data` and `broker_data`.
    """
    reports = lines.transform(valid_reports).transform(distinct_reports)
    samples = bundle_samples(reports)
    as_of = reports.selectExpr("max(lastUpdate) as newest_ms")
    bundles = _heard_of(
        fold_windows(samples, history_gap_ms=history_gap_ms), "unix_millis(as_of)", as_of, history_gap_ms
    )
    newest = _heard_of(newest_reports(reports), "lastUpdate", as_of, history_gap_ms)
    brokers = broker_averages(membership(newest), bundles).crossJoin(
        F.broadcast(as_of.selectExpr("timestamp_millis(newest_ms) as as_of"))
    )
    return HistoryTables(
        bundle_samples=samples,
        bundle_data=bundles.select(*BUNDLE_DATA.names),
        broker_data=brokers.select(*BROKER_DATA.names),
    )


def _heard_of(rows: DataFrame, time_ms: str, as_of: DataFrame, history_gap_ms: int) -> DataFrame:
    """Drop the rows whose `time_ms` lies more than `history_gap_ms` before the newest report."""
    timed = rows.crossJoin(F.broadcast(as_of))
    return timed.where(f"newest_ms - {time_ms} <= {history_gap_ms}").drop("newest_ms")
