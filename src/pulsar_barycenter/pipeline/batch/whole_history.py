"""Computes all tables of a history at once, from all reports and decisions in the logs.

The tables are the same as the stream's. They serve to recover, to replay, and to check the stream.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS
from pulsar_barycenter.pipeline.batch.balance_history import balance_intervals
from pulsar_barycenter.pipeline.batch.broker_averages import broker_averages, membership, newest_reports
from pulsar_barycenter.pipeline.batch.ownership_history import ownership_intervals
from pulsar_barycenter.pipeline.batch.windows import fold_windows
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.parsing.report_lines import distinct_reports, valid_reports
from pulsar_barycenter.pipeline.parsing.report_rows import broker_usage, bundle_samples, load_reports
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.tables.schemas import BROKER_DATA, BUNDLE_DATA, OWNERSHIP


def fold_history(
    lines: DataFrame,
    decisions: DataFrame,
    *,
    history_gap_ms: int = HISTORY_GAP_MS,
    balance: BalanceSettings | None = None,
) -> HistoryTables:
    """Return all tables, computed from the logs. Spark computes a table only when it is read.

    Input: lines of the report log (LOAD_REPORT_LINE) and decisions (DECISIONS). The tables `bundle_data` and
    `broker_data` leave out bundles and brokers whose newest report is more than `history_gap_ms` older than the newest
    report of all brokers.
    """
    reports = lines.transform(valid_reports).transform(distinct_reports)
    samples = bundle_samples(reports)
    as_of = reports.select(F.max("lastUpdate").alias("newest_ms"))
    bundles = _heard_of(
        fold_windows(samples, history_gap_ms=history_gap_ms), F.unix_millis("as_of"), as_of, history_gap_ms
    )
    newest = _heard_of(newest_reports(reports), F.col("lastUpdate"), as_of, history_gap_ms)
    brokers = broker_averages(membership(newest), bundles).crossJoin(
        F.broadcast(as_of.select(F.timestamp_millis(F.col("newest_ms")).alias("as_of")))
    )
    # Persisted: `ownership` and `balance` use them several times. They are few, compared with the reports.
    intervals = ownership_intervals(reports, as_of, history_gap_ms=history_gap_ms).persist()
    settings = balance or BalanceSettings(history_gap_ms=history_gap_ms)
    reported, usage = load_reports(reports), broker_usage(reports)
    return HistoryTables(
        load_reports=reported,
        broker_usage=usage,
        bundle_samples=samples,
        bundle_data=bundles.select(*BUNDLE_DATA.names),
        broker_data=brokers.select(*BROKER_DATA.names),
        ownership=intervals.select(
            *("bundle", "broker", "incarnation"),
            *(F.timestamp_millis(F.col(name)).alias(name) for name in ("owned_from", "owned_to")),
            "ended",
        ).select(*OWNERSHIP.names),
        decisions=decisions,
        balance=balance_intervals(reported, usage, intervals, decisions, as_of, settings),
    )


def _heard_of(rows: DataFrame, time_ms: Column, as_of: DataFrame, history_gap_ms: int) -> DataFrame:
    """Return `rows`, one for each bundle or broker, without those whose `time_ms` is more than `history_gap_ms` before
    the time of the newest report. `as_of` has this time in one row, in the column `newest_ms`.
    """
    timed = rows.crossJoin(F.broadcast(as_of))
    return timed.where(F.col("newest_ms") - time_ms <= history_gap_ms).drop("newest_ms")
