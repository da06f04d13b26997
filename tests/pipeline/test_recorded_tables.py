"""Tables computed anew beside the recorded ones, by Spark."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.pipeline.batch.recorded import compare_tables

pytestmark = pytest.mark.pipeline

Row = tuple[str, str | None, float, float]


def frame(spark: SparkSession, *rows: Row) -> DataFrame:
    return spark.createDataFrame(list(rows), "bundle string, ended string, rate double, share double")


def test_rows_are_the_same_if_nothing_but_figures_differs(spark: SparkSession) -> None:
    """Nulls are equal; what is recorded besides does not count; the greatest difference is relative and named."""
    refolded = frame(spark, ("a", None, 1000.0, 0.5), ("b", "moved", 1.0, 0.0), ("c", None, 0.0, 2.0))
    recorded = frame(
        spark, ("c", None, 0.0, 2.0), ("a", None, 1001.0, 0.5), ("b", "moved", 1.5, 0.0), ("z", None, 9.0, 9.0)
    )
    found = compare_tables(refolded, recorded)
    assert (found.rows, found.matched) == (3, 3)
    assert found.greatest is not None
    assert (found.greatest.name, found.greatest.column) == ("b moved", "rate")
    assert found.greatest.relative == pytest.approx(1 / 3)
    assert found.agrees(0.34)
    assert not found.agrees(0.33)


def test_a_row_that_was_recorded_otherwise_is_a_difference(spark: SparkSession) -> None:
    refolded = frame(spark, ("a", "moved", 1.0, 1.0), ("b", None, 1.0, 1.0))
    found = compare_tables(refolded, frame(spark, ("a", "split", 1.0, 1.0), ("b", None, 1.0, 1.0)))
    assert (found.rows, found.matched, found.greatest) == (2, 1, None)
    assert not found.agrees(1.0)
