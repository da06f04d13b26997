"""Computes the intervals of `folds.ownership` for a whole history at once."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.parsing.conditions import all_of
from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT


def ownership_intervals(reports: DataFrame, as_of: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Return every interval in which a broker owned a bundle.

    Input: LOAD_REPORT without repeats; `as_of` has one row, the greatest `lastUpdate` as `newest_ms`. Output: bundle,
    broker, incarnation, owned_from, owned_to, ended, lost_at. Times are in epoch ms; see `ownership.Interval`.
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
    """Add the column `position`, which numbers the reports of each broker. Incarnations are in the order of their first
    reports.

    `at` is the report's time, or the latest earlier time of the incarnation if its clock went back.
    """
    incarnation = Window.partitionBy("brokerId", "incarnation")
    broker = Window.partitionBy("brokerId").orderBy("begun", "incarnation", "sequence")
    return reports.select(
        "*",
        F.max("lastUpdate").over(incarnation.orderBy("sequence")).alias("at"),
        F.min("lastUpdate").over(incarnation).alias("begun"),
    ).select("*", F.row_number().over(broker).alias("position"))


def _in_sessions(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Add a column that numbers the sessions of each broker.

    A session is an incarnation, or the part of an incarnation between two times of more than `history_gap_ms` without
    reports.
    """
    broker = Window.partitionBy("brokerId").orderBy("position")
    has_begun_again = F.lag("incarnation").over(broker) != F.col("incarnation")
    was_silent = F.col("at") - F.lag("at").over(broker) > history_gap_ms
    is_new = F.when(has_begun_again | was_silent, F.lit(1)).otherwise(F.lit(0))
    return reports.select("*", is_new.alias("is_new")).select("*", F.sum("is_new").over(broker).alias("session"))


def _with_ends(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Add to each report the end that an interval of ownership has if this report is the interval's last: when the
    interval ended, how, and when that became known.
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
    """Return a column with the end of an interval as a struct: when the interval ended, how, and when that became
    known.
    """
    return F.struct(owned_to.alias("owned_to"), F.lit(how).alias("ended"), known_at.alias("lost_at"))


def _islands(rows: DataFrame) -> DataFrame:
    """Merge the consecutive reports of a broker that list a bundle into one interval of ownership."""
    in_order = Window.partitionBy("broker", "session", "bundle").orderBy("position")
    return (
        rows.select("*", (F.col("position") - F.row_number().over(in_order)).alias("island"))
        .groupBy("broker", "incarnation", "session", "bundle", "island")
        .agg(F.min("at").alias("owned_from"), F.max_by("end", "position").alias("end"))
        .select("bundle", "broker", "incarnation", "owned_from", "end.owned_to", "end.ended", "end.lost_at")
    )


def _with_splits(intervals: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Mark the last interval of a bundle as ended by a split if two things are true: it ended as if the bundle had
    moved, and a part of the bundle's range was reported between the interval's begin and `history_gap_ms` after its
    end.
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
    """Return a column that says whether the range of the bundle in row `part` is within that of the bundle in row
    `whole`, and smaller.

    Both are aliases of rows that `with_range` made.
    """
    return all_of(
        F.col(f"{part}.namespace") == F.col(f"{whole}.namespace"),
        F.col(f"{part}.lower") >= F.col(f"{whole}.lower"),
        F.col(f"{part}.upper") <= F.col(f"{whole}.upper"),
        F.col(f"{part}.bundle") != F.col(f"{whole}.bundle"),
    )


def with_range(rows: DataFrame) -> DataFrame:
    """Add the columns `namespace`, `lower` and `upper`: the namespace of `bundle`, and the ends of its range."""
    ends = F.substring_index("bundle", "/", -1)
    return rows.select(
        "*",
        F.substring_index("bundle", "/", 2).alias("namespace"),
        F.substring_index(ends, "_", 1).alias("lower"),
        F.substring_index(ends, "_", -1).alias("upper"),
    )
