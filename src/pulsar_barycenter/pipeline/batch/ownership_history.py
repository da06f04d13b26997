"""Computes the intervals of `folds.ownership` for a whole history at once."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.parsing.conditions import all_of
from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT


def ownership_intervals(reports: DataFrame, as_of: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Return every interval in which a broker owned a bundle.

    Input: load reports (LOAD_REPORT) without repeats; `as_of` has one row with one column, `newest_ms`: the greatest
    `lastUpdate`. A broker that is silent for more than `history_gap_ms` loses its bundles.

    Output: bundle, broker, incarnation, owned_from (inclusive), owned_to (exclusive), ended (why: moved, split or
    broker gone) and lost_at (when reports showed the end), times in epoch ms. The last three are null while the broker
    owns the bundle.
    """
    return (
        reports.select(*("brokerId", "incarnation", "sequence", "lastUpdate"), F.map_keys("lastStats").alias("bundles"))
        .transform(_in_order)
        .transform(_in_sessions, history_gap_ms=history_gap_ms)
        .crossJoin(F.broadcast(as_of))
        .transform(_with_ends, history_gap_ms=history_gap_ms)
        .transform(_islands)
        .transform(_with_splits, history_gap_ms=history_gap_ms)
    )


def _in_order(reports: DataFrame) -> DataFrame:
    """Number the reports of each broker from 1 in a new column `position`: by incarnation (the one whose first report
    is older comes first), then by sequence.

    Add two more columns: `begun`, the time of the incarnation's first report, and `at`, the time of the report. If the
    broker's clock went back, `at` is the latest earlier time of the incarnation instead.
    """
    incarnation = Window.partitionBy("brokerId", "incarnation")
    broker = Window.partitionBy("brokerId").orderBy("begun", "incarnation", "sequence")
    return reports.select(
        "*",
        F.max("lastUpdate").over(incarnation.orderBy("sequence")).alias("at"),
        F.min("lastUpdate").over(incarnation).alias("begun"),
    ).select("*", F.row_number().over(broker).alias("position"))


def _in_sessions(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Add the column `session`, which numbers the sessions of each broker.

    A new session begins when the broker restarts (another incarnation), and with the first report after more than
    `history_gap_ms` without one.
    """
    broker = Window.partitionBy("brokerId").orderBy("position")
    has_begun_again = F.lag("incarnation").over(broker) != F.col("incarnation")
    was_silent = F.col("at") - F.lag("at").over(broker) > history_gap_ms
    is_new = F.when(has_begun_again | was_silent, F.lit(1)).otherwise(F.lit(0))
    return reports.select("*", is_new.alias("is_new")).select("*", F.sum("is_new").over(broker).alias("session"))


def _with_ends(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Return one row per report and bundle in the report, with a new column `end`: how the ownership of the bundle ends
    if this is the broker's last consecutive report with the bundle. See `_end` for its fields.

    `end` is null if the report is the broker's newest, and not more than `history_gap_ms` older than the newest report
    of all brokers.
    """
    session = Window.partitionBy("brokerId", "session").orderBy("position")
    broker = Window.partitionBy("brokerId").orderBy("position")
    rows = reports.select(
        F.col("brokerId").alias("broker"),
        *("incarnation", "session", "position", "at", "bundles", "newest_ms"),
        F.lead("at").over(session).alias("next_at"),
        F.lead("at").over(broker).alias("returned_at"),
    )
    at, next_at, returned_at = F.col("at"), F.col("next_at"), F.col("returned_at")
    silent_at = at + history_gap_ms
    is_gone = returned_at.isNotNull() | (F.col("newest_ms") > silent_at)
    end = F.when(next_at.isNotNull(), _end(next_at, ENDED_MOVED, known_at=next_at)).when(
        is_gone, _end(at, ENDED_GONE, known_at=F.least(F.coalesce(returned_at, silent_at), silent_at))
    )
    return rows.select(
        *("broker", "incarnation", "session", "position", "at"), end.alias("end"), F.explode("bundles").alias("bundle")
    )


def _end(owned_to: Column, how: str, *, known_at: Column) -> Column:
    """Return a column with the end of an interval of ownership as a struct: `owned_to` is when the interval ended,
    `ended` is how (ENDED_MOVED or ENDED_GONE), and `lost_at` is when reports showed it.
    """
    return F.struct(owned_to.alias("owned_to"), F.lit(how).alias("ended"), known_at.alias("lost_at"))


def _islands(rows: DataFrame) -> DataFrame:
    """Return the intervals of ownership: the consecutive reports of a broker that list the same bundle become one
    row.
    """
    in_order = Window.partitionBy("broker", "session", "bundle").orderBy("position")
    return (
        rows.select("*", (F.col("position") - F.row_number().over(in_order)).alias("island"))
        .groupBy("broker", "incarnation", "session", "bundle", "island")
        .agg(F.min("at").alias("owned_from"), F.max_by("end", "position").alias("end"))
        .select("bundle", "broker", "incarnation", "owned_from", "end.owned_to", "end.ended", "end.lost_at")
    )


def _with_splits(intervals: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Return `intervals`, with `ended` set to ENDED_SPLIT where a bundle was split. That is so for the last interval of
    a bundle if `ended` is ENDED_MOVED, and if a broker began to report a part of the bundle's range between the begin
    of the interval and `history_gap_ms` after its end (both inclusive).
    """
    newest_first = Window.partitionBy("bundle").orderBy(
        F.col("owned_from").desc(), F.col("owned_to").isNull().desc(), F.col("broker").desc()
    )
    may_be_split = (F.row_number().over(newest_first) == 1) & (F.col("ended") == ENDED_MOVED)
    rows = intervals.select("*", may_be_split.alias("may_be_split"))
    whole = rows.where("may_be_split").transform(with_range).alias("whole")
    parts = intervals.transform(with_range).alias("part")
    is_in_time = F.col("part.owned_from").between(F.col("whole.owned_from"), F.col("whole.owned_to") + history_gap_ms)
    split = whole.join(parts, is_part("part", "whole") & is_in_time, "left_semi").select(
        "bundle", F.lit(True).alias("was_split")
    )
    was_split = F.col("may_be_split") & F.col("was_split")
    return rows.join(F.broadcast(split), on="bundle", how="left").select(
        *("bundle", "broker", "incarnation", "owned_from", "owned_to"),
        F.when(was_split, F.lit(ENDED_SPLIT)).otherwise(F.col("ended")).alias("ended"),
        "lost_at",
    )


def is_part(part: str, whole: str) -> Column:
    """Return a column that says whether one bundle's hash range is inside that of another bundle of the same namespace,
    and smaller.

    `part` and `whole` are the aliases of two tables in a join, which both have the columns that `with_range` adds.
    """
    return all_of(
        F.col(f"{part}.namespace") == F.col(f"{whole}.namespace"),
        F.col(f"{part}.lower") >= F.col(f"{whole}.lower"),
        F.col(f"{part}.upper") <= F.col(f"{whole}.upper"),
        F.col(f"{part}.bundle") != F.col(f"{whole}.bundle"),
    )


def with_range(rows: DataFrame) -> DataFrame:
    """Add three columns of texts, from the name of the bundle in `bundle`: its `namespace`, and the `lower` and `upper`
    end of its hash range, as hexadecimal numbers of equal length.
    """
    ends = F.substring_index("bundle", "/", -1)
    return rows.select(
        "*",
        F.substring_index("bundle", "/", 2).alias("namespace"),
        F.substring_index(ends, "_", 1).alias("lower"),
        F.substring_index(ends, "_", -1).alias("upper"),
    )
