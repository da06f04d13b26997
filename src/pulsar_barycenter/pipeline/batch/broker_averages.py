"""Computes the averages of brokers: sums of the windows of the bundles that they own."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.load_report import DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_THROUGHPUT
from pulsar_barycenter.pipeline.tables.schemas import BROKER_FIGURES


def newest_reports(reports: DataFrame) -> DataFrame:
    """Return the newest report of each broker: the one with the greatest (lastUpdate, incarnation, sequence).

    Input and output: the columns LOAD_REPORT (load reports as the log has them).
    """
    newest_first = (F.col(name).desc() for name in ("lastUpdate", "incarnation", "sequence"))
    age = F.row_number().over(Window.partitionBy("brokerId").orderBy(*newest_first))
    return reports.withColumn("age", age).where(F.col("age") == 1).drop("age")


def membership(newest: DataFrame) -> DataFrame:
    """Return the bundles of each broker, as pairs of broker and bundle.

    Input: load reports (LOAD_REPORT), one per broker. Output: the columns broker and bundle. A broker without bundles
    has one row with a null bundle.
    """
    return newest.select(F.col("brokerId").alias("broker"), F.explode_outer(F.map_keys("lastStats")).alias("bundle"))


def broker_averages(members: DataFrame, bundles: DataFrame) -> DataFrame:
    """Return the averages of each broker: for each average rate, the sum of the averages of its bundles.

    A bundle that is not in `bundles` counts with Pulsar's default rates.

    Input: `members` is the output of `membership`, without repeats; `bundles` has the columns BUNDLE_STATE, one row per
    bundle. Output: the columns BROKER_DATA without `as_of`, one row per broker. A broker without bundles has zeros.

    Source: Pulsar's `TimeAverageBrokerData.reset`.
    """
    joined = members.join(bundles, on="bundle", how="left")
    return joined.groupBy("broker").agg(*(_sum_of(figure).alias(figure) for figure in BROKER_FIGURES))


def _sum_of(broker_figure: str) -> Column:
    """Return an aggregate for rows that are grouped by broker: the sum of one average rate over the broker's bundles.
    `broker_figure` is the rate's name, one of BROKER_FIGURES. The sum is 0 for a broker without bundles.
    """
    window, figure = broker_figure.split("_term_")
    default = DEFAULT_MESSAGE_THROUGHPUT if "throughput" in figure else DEFAULT_MESSAGE_RATE
    of_bundle = F.coalesce(f"{window}_{figure}", F.lit(float(default)))
    return F.sum(F.when(F.col("bundle").isNull(), F.lit(0.0)).otherwise(of_bundle))
