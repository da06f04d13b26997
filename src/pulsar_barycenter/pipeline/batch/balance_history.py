"""Computes the intervals of `folds.balance` for a whole history at once."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.batch.ownership_history import is_part, with_range
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.tables.schemas import BALANCE

_FOREVER_MS = 2**63 - 1


def balance_intervals(
    load_reports: DataFrame,
    broker_usage: DataFrame,
    intervals: DataFrame,
    decisions: DataFrame,
    as_of: DataFrame,
    settings: BalanceSettings,
) -> DataFrame:
    """Return the rows of the table `balance` for every interval that is settled: its end is at least
    `settings.settle_ms` before the time of the newest report.

    Input: tables with the columns LOAD_REPORTS, BROKER_USAGE and DECISIONS (lists of columns in `tables.schemas`);
    `intervals` is the output of `ownership_intervals`; `as_of` has one row with one column, `newest_ms`: the time of
    the newest report. Output: the columns BALANCE.
    """
    size = settings.interval_ms
    ends = _figures_at_ends(load_reports, broker_usage, as_of, settings)
    spread = ends.groupBy("interval_end").agg(
        F.count(F.lit(1)).alias("brokers"),
        *(
            function(name).alias(f"{name}_{label}")
            for name in ("usage", "msg_rate", "msg_throughput")
            for label, function in (("max", F.max), ("mean", F.avg))
        ),
        F.stddev_pop("usage").alias("usage_deviation"),
        F.count_if(F.col("usage") > settings.overload_threshold).alias("brokers_over_threshold"),
    )
    decided = decisions.groupBy(_end_after(F.unix_millis("at"), size).alias("interval_end")).agg(
        *(F.count_if(F.col("kind") == kind).alias(name) for name, kind in (("unloads", "unload"), ("splits", "split")))
    )
    missing = (
        without_owner(intervals, history_gap_ms=settings.history_gap_ms)
        .select("bundle", _ends_within(F.col("since") - 1, F.col("until") - 1, size).alias("interval_end"))
        .groupBy("interval_end")
        .agg(F.count_distinct("bundle").alias("bundles_without_owner"))
    )
    joined = spread.join(decided, on="interval_end", how="left").join(missing, on="interval_end", how="left")
    return joined.na.fill(0, ["unloads", "splits", "bundles_without_owner"]).select(
        F.timestamp_millis(F.col("interval_end") - size).alias("interval_start"),
        F.timestamp_millis(F.col("interval_end")).alias("interval_end"),
        *BALANCE.names[2:],
    )


def _figures_at_ends(
    load_reports: DataFrame, broker_usage: DataFrame, as_of: DataFrame, settings: BalanceSettings
) -> DataFrame:
    """Return one row per broker and settled interval: the values of the broker's newest report before the interval's
    end. An interval is settled if the newest report of all brokers is at least `settings.settle_ms` later than its end.

    There is no row if the broker's report is more than `settings.history_gap_ms` older than the interval's end.
    """
    key = ["broker", "incarnation", "sequence"]
    reports = load_reports.join(broker_usage.select(*key, "weighted_usage"), on=key).select(
        *key,
        F.unix_millis("reported_at").alias("at"),
        F.col("weighted_usage").alias("usage"),
        (F.col("msg_rate_in") + F.col("msg_rate_out")).alias("msg_rate"),
        (F.col("msg_throughput_in") + F.col("msg_throughput_out")).alias("msg_throughput"),
    )
    following = F.lead("at").over(Window.partitionBy("broker").orderBy("at", "incarnation", "sequence"))
    last = F.least(
        _or_forever(following), F.col("at") + settings.history_gap_ms, F.col("newest_ms") - settings.settle_ms
    )
    ends = _ends_within(F.col("at"), F.col("last"), settings.interval_ms)
    return (
        reports.crossJoin(F.broadcast(as_of))
        .withColumn("last", last)
        .select("broker", "usage", "msg_rate", "msg_throughput", ends.alias("interval_end"))
    )


def _end_after(at: Column, size: int) -> Column:
    """Return the end (exclusive) of the interval that contains the time `at`: the smallest multiple of `size` that is
    greater than `at`.
    """
    return (_whole(at, size) + 1) * size


def _ends_within(after: Column, until: Column, size: int) -> Column:
    """Return a row for each end of an interval: each multiple of `size` that is greater than `after` and at most
    `until`.
    """
    first, last = _end_after(after, size), _whole(until, size) * size
    return F.explode(F.when(first <= last, F.sequence(first, last, F.lit(size).cast("bigint"))))


def _whole(at: Column, size: int) -> Column:
    """Return a column: `at` divided by `size` (integer division, rounded towards 0)."""
    return F.call_function("div", at, F.lit(size))


def _or_forever(at: Column) -> Column:
    """Return the column `at`, with the greatest possible time in place of null."""
    return F.coalesce(at, F.lit(_FOREVER_MS))


def without_owner(intervals: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Return the times in which bundles had no owner. Columns: bundle, since (inclusive), until (exclusive), in epoch
    ms.

    Such a time begins when a report shows that the last owner lost the bundle. It ends when a broker reports the bundle
    or a part of its range, or after `history_gap_ms`. Input: the output of `ownership_intervals`.
    """
    covered = _or_forever(F.col("lost_at"))
    in_order = Window.partitionBy("bundle").orderBy(F.col("owned_from"), covered)
    gaps = intervals.select(
        "*",
        F.max(covered).over(in_order).alias("since"),
        F.lead("owned_from").over(in_order).alias("found_at"),
    ).where(F.col("since") < _or_forever(F.col("found_at")))
    whole = gaps.select("bundle", "since", "found_at").transform(with_range).alias("whole")
    parts = intervals.select("bundle", "owned_from").transform(with_range).alias("part")
    split = (
        whole.join(parts, is_part("part", "whole"))
        .groupBy(F.col("whole.bundle").alias("bundle"))
        .agg(F.min("part.owned_from").alias("split_at"))
    )
    until = F.least(_or_forever(F.col("found_at")), _or_forever(F.col("split_at")), F.col("since") + history_gap_ms)
    return (
        gaps.join(F.broadcast(split), on="bundle", how="left")
        .select("bundle", "since", until.alias("until"))
        .where(F.col("since") < F.col("until"))
    )
