"""The intervals of `folds.balance`, of a whole history at once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.batch.ownership_history import IS_PART, with_range
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.tables.schemas import BALANCE

_FOREVER = "9223372036854775807L"


def balance_intervals(
    load_reports: DataFrame,
    broker_usage: DataFrame,
    intervals: DataFrame,
    decisions: DataFrame,
    as_of: DataFrame,
    settings: BalanceSettings,
) -> DataFrame:
    """Every settled interval.

    Input: LOAD_REPORTS, BROKER_USAGE, what `ownership_intervals` makes, DECISIONS; `as_of` one row, the time of the
    newest report as `newest_ms`. Output: BALANCE.
    """
    size = settings.interval_ms
    ends = _figures_at_ends(load_reports, broker_usage, as_of, settings)
    spread = ends.groupBy("interval_end").agg(
        F.expr("count(*) as brokers"),
        *(
            F.expr(f"{function}({name}) as {name}_{label}")
            for name in ("usage", "msg_rate", "msg_throughput")
            for label, function in (("max", "max"), ("mean", "avg"))
        ),
        F.expr("stddev_pop(usage) as usage_deviation"),
        F.expr(f"count_if(usage > {settings.overload_threshold!r}D) as brokers_over_threshold"),
    )
    decided = decisions.groupBy(F.expr(f"unix_millis(at) div {size} * {size} + {size} as interval_end")).agg(
        F.expr("count_if(kind = 'unload') as unloads"), F.expr("count_if(kind = 'split') as splits")
    )
    missing = (
        without_owner(intervals, history_gap_ms=settings.history_gap_ms)
        .selectExpr("bundle", _ends(size, "since - 1", "until - 1"))
        .groupBy("interval_end")
        .agg(F.expr("count(distinct bundle) as bundles_without_owner"))
    )
    joined = spread.join(decided, on="interval_end", how="left").join(missing, on="interval_end", how="left")
    return joined.na.fill(0, ["unloads", "splits", "bundles_without_owner"]).selectExpr(
        f"timestamp_millis(interval_end - {size}) as interval_start",
        "timestamp_millis(interval_end) as interval_end",
        *BALANCE.names[2:],
    )


def _figures_at_ends(
    load_reports: DataFrame, broker_usage: DataFrame, as_of: DataFrame, settings: BalanceSettings
) -> DataFrame:
    """One row per broker and settled interval: the figures of its newest report before the end."""
    key = ["broker", "incarnation", "sequence"]
    reports = load_reports.join(broker_usage.select(*key, "weighted_usage"), on=key).selectExpr(
        *key,
        "unix_millis(reported_at) as at",
        "weighted_usage as usage",
        "msg_rate_in + msg_rate_out as msg_rate",
        "msg_throughput_in + msg_throughput_out as msg_throughput",
    )
    following = "lead(at) over (partition by broker order by at, incarnation, sequence)"
    last = f"least(coalesce({following}, {_FOREVER}), at + {settings.history_gap_ms}, newest_ms - {settings.settle_ms})"
    return (
        reports.crossJoin(F.broadcast(as_of))
        .selectExpr("*", f"{last} as last")
        .selectExpr("broker", "usage", "msg_rate", "msg_throughput", _ends(settings.interval_ms, "at", "last"))
    )


def _ends(size: int, after: str, until: str) -> str:
    """Explode the multiples of `size` that are above `after` and at most `until`."""
    first, last = f"(({after}) div {size} + 1) * {size}", f"(({until}) div {size}) * {size}"
    return f"explode(case when {first} <= {last} then sequence({first}, {last}, {size}L) end) as interval_end"


def without_owner(intervals: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """When bundles were without owner: bundle, since (inclusive), until (exclusive), in epoch ms.

    Input: what `ownership_intervals` makes.
    """
    covered = f"coalesce(lost_at, {_FOREVER})"
    order = "(partition by bundle order by owned_from, " + covered + ")"
    gaps = intervals.selectExpr(
        "*",
        f"max({covered}) over {order} as since",
        f"lead(owned_from) over {order} as found_at",
    ).where(f"since < coalesce(found_at, {_FOREVER})")
    whole = gaps.selectExpr("bundle", "since", "found_at").transform(with_range).alias("whole")
    parts = intervals.select("bundle", "owned_from").transform(with_range).alias("part")
    split = (
        whole.join(parts, F.expr(IS_PART))
        .groupBy(F.col("whole.bundle").alias("bundle"))
        .agg(F.min("part.owned_from").alias("split_at"))
    )
    until = f"least(coalesce(found_at, {_FOREVER}), coalesce(split_at, {_FOREVER}), since + {history_gap_ms})"
    return (
        gaps.join(F.broadcast(split), on="bundle", how="left")
        .selectExpr("bundle", "since", f"{until} as until")
        .where("since < until")
    )
