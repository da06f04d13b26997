"""From load reports to bundle samples: one sample per bundle per report."""

from __future__ import annotations

from pyspark.sql import DataFrame

from barycenter.pipeline.schemas import CORRUPT

IS_REPORT = (
    f"({CORRUPT} is null and brokerId is not null and incarnation is not null"
    " and sequence is not null and lastUpdate is not null)"
)
"""Tells a load report from a line that is none; never null."""


def valid_reports(lines: DataFrame) -> DataFrame:
    """Keep the lines that are load reports: well-formed, and with broker, incarnation, sequence and time.

    Input: LOAD_REPORT_LINE. Output: LOAD_REPORT.
    """
    return lines.where(IS_REPORT).drop(CORRUPT)


def distinct_reports(reports: DataFrame) -> DataFrame:
    """Keep one report of each (broker, incarnation, sequence), the one of the earliest `lastUpdate`.

    Input and output: LOAD_REPORT. Needed because a report may be logged twice, by a broker that retries.
    """
    copy = "row_number() over (partition by brokerId, incarnation, sequence order by lastUpdate) as copy"
    return reports.selectExpr("*", copy).where("copy = 1").drop("copy")


def bundle_samples(reports: DataFrame) -> DataFrame:
    """One row per bundle of each report; a figure that a report leaves out counts as 0, as Pulsar's default.

    Input: LOAD_REPORT without repeats. Output: BUNDLE_SAMPLES.
    """
    exploded = reports.selectExpr(
        "brokerId as broker",
        "incarnation",
        "sequence",
        "timestamp_millis(lastUpdate) as reported_at",
        "explode(lastStats) as (bundle, stats)",
    )
    return exploded.selectExpr(
        *("bundle", "broker", "incarnation", "sequence", "reported_at"),
        "coalesce(stats.msgRateIn, 0) as msg_rate_in",
        "coalesce(stats.msgRateOut, 0) as msg_rate_out",
        "coalesce(stats.msgThroughputIn, 0) as msg_throughput_in",
        "coalesce(stats.msgThroughputOut, 0) as msg_throughput_out",
        "coalesce(stats.topics, 0) as topics",
        "coalesce(stats.consumerCount, 0) as consumers",
        "coalesce(stats.producerCount, 0) as producers",
    )
