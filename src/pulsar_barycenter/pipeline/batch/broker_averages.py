"""The time averages of brokers: sums of the windows of the bundles they serve."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.load_report import DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_THROUGHPUT
from pulsar_barycenter.pipeline.tables.schemas import BROKER_FIGURES

_NEWEST_FIRST = "(partition by brokerId order by lastUpdate desc, incarnation desc, sequence desc)"


def newest_reports(reports: DataFrame) -> DataFrame:
    """Keep the newest report of each broker, by (lastUpdate, incarnation, sequence).

    Input and output: LOAD_REPORT.
    """
    return reports.selectExpr("*", f"row_number() over {_NEWEST_FIRST} as age").where("age = 1").drop("age")


def membership(newest: DataFrame) -> DataFrame:
    """The bundles of each broker.

    Input: LOAD_REPORT, one per broker. Output: broker, bundle; one row with a null bundle for a broker without any.
    """
    return newest.selectExpr("brokerId as broker", "explode_outer(map_keys(lastStats)) as bundle")


def broker_averages(members: DataFrame, bundles: DataFrame) -> DataFrame:
    """Sum the windows of each broker's bundles; a bundle without data counts with Pulsar's default stats.

    Input: what `membership` makes, without repeats; `bundles` BUNDLE_STATE, one row per bundle. Output: BROKER_DATA
    without `as_of`, one row per broker; a broker without bundles has zeros.

    Source: Pulsar's `TimeAverageBrokerData.reset`.
    """
    joined = members.join(bundles, on="bundle", how="left")
    return joined.groupBy("broker").agg(*(F.expr(f"{_sum_of(figure)} as {figure}") for figure in BROKER_FIGURES))


def _sum_of(broker_figure: str) -> str:
    window, figure = broker_figure.split("_term_")
    default = DEFAULT_MESSAGE_THROUGHPUT if "throughput" in figure else DEFAULT_MESSAGE_RATE
    return f"sum(case when bundle is null then 0D else coalesce({window}_{figure}, {default!r}D) end)"
