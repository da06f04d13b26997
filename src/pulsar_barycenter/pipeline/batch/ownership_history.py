"""The intervals of `folds.ownership`, of a whole history at once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT

_INCARNATION = "(partition by brokerId, incarnation order by sequence)"
_WHOLE_INCARNATION = "(partition by brokerId, incarnation)"
_BROKER = "(partition by brokerId order by begun, incarnation, sequence)"
_SESSION = "(partition by brokerId, session order by position)"


def ownership_intervals(reports: DataFrame, as_of: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Every interval of the history.

    Input: LOAD_REPORT without repeats; `as_of` one row, the greatest `lastUpdate` as `newest_ms`. Output: bundle,
    broker, incarnation, owned_from, owned_to, ended, lost_at, with times in epoch ms; see `ownership.Interval`.
    """
    return (
        reports.selectExpr("brokerId", "incarnation", "sequence", "lastUpdate", "map_keys(lastStats) as bundles")
        .transform(_in_order)
        .transform(_in_sessions, history_gap_ms=history_gap_ms)
        .crossJoin(F.broadcast(as_of))
        .transform(_with_ends, history_gap_ms=history_gap_ms)
        .transform(_islands)
        .transform(_with_splits, history_gap_ms=history_gap_ms)
    )


def _in_order(reports: DataFrame) -> DataFrame:
    """Number a broker's reports, its incarnations in the order of their first ones; `at` never goes back."""
    return reports.selectExpr(
        "*",
        f"max(lastUpdate) over {_INCARNATION} as at",
        f"min(lastUpdate) over {_WHOLE_INCARNATION} as begun",
    ).selectExpr("*", f"row_number() over {_BROKER} as position")


def _in_sessions(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """A session is an incarnation, or the part of one between two long silences."""
    before = "over (partition by brokerId order by position)"
    is_new = f"lag(incarnation) {before} <> incarnation or at - lag(at) {before} > {history_gap_ms}"
    return reports.selectExpr("*", f"case when {is_new} then 1 else 0 end as is_new").selectExpr(
        "*", f"sum(is_new) {before} as session"
    )


def _with_ends(reports: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """What a report says of the end of an interval of which it is the last: when, how, and when that was known."""
    rows = reports.selectExpr(
        *("brokerId as broker", "incarnation", "session", "position", "at", "bundles", "newest_ms"),
        f"lead(at) over {_SESSION} as next_at",
        "lead(at) over (partition by brokerId order by position) as returned_at",
    )
    silent_at = f"at + {history_gap_ms}"
    return rows.selectExpr(
        *("broker", "incarnation", "session", "position", "at"),
        f"""case
              when next_at is not null then struct(next_at as owned_to, '{ENDED_MOVED}' as ended, next_at as lost_at)
              when returned_at is not null or newest_ms > {silent_at}
                then struct(at as owned_to, '{ENDED_GONE}' as ended,
                            least(coalesce(returned_at, {silent_at}), {silent_at}) as lost_at)
            end as end""",
        "explode(bundles) as bundle",
    )


def _islands(rows: DataFrame) -> DataFrame:
    """Join the reports in a row that list a bundle."""
    order = "over (partition by broker, session, bundle order by position)"
    return (
        rows.selectExpr("*", f"position - row_number() {order} as island")
        .groupBy("broker", "incarnation", "session", "bundle", "island")
        .agg(F.min("at").alias("owned_from"), F.expr("max_by(end, position)").alias("end"))
        .selectExpr(
            *("bundle", "broker", "incarnation", "owned_from"),
            "end.owned_to as owned_to",
            "end.ended as ended",
            "end.lost_at as lost_at",
        )
    )


def _with_splits(intervals: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """A bundle's last interval that was moved away is split if a part of its range was reported in time."""
    order = "over (partition by bundle order by owned_from desc, owned_to is null desc, broker desc)"
    rows = intervals.selectExpr("*", f"row_number() {order} = 1 and ended = '{ENDED_MOVED}' as may_be_split")
    whole = rows.where("may_be_split").transform(with_range).alias("whole")
    parts = intervals.transform(with_range).alias("part")
    is_part = f"{IS_PART} and part.owned_from between whole.owned_from and whole.owned_to + {history_gap_ms}"
    split = whole.join(parts, F.expr(is_part), "left_semi").selectExpr("bundle", "true as was_split")
    return rows.join(F.broadcast(split), on="bundle", how="left").selectExpr(
        *("bundle", "broker", "incarnation", "owned_from", "owned_to"),
        f"case when may_be_split and was_split then '{ENDED_SPLIT}' else ended end as ended",
        "lost_at",
    )


IS_PART = (
    "part.namespace = whole.namespace and part.lower >= whole.lower and part.upper <= whole.upper"
    " and part.bundle <> whole.bundle"
)
"""Tells whether the bundle of a row `part` is a true part of that of a row `whole`, both made by `with_range`."""


def with_range(rows: DataFrame) -> DataFrame:
    """Add the namespace and the ends of the range of `bundle`."""
    return rows.selectExpr(
        "*",
        "substring_index(bundle, '/', 2) as namespace",
        "substring_index(substring_index(bundle, '/', -1), '_', 1) as lower",
        "substring_index(substring_index(bundle, '/', -1), '_', -1) as upper",
    )
