"""The types of the columns that the pipeline makes of a report are computed once, also if two threads ask together."""

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from pulsar_barycenter.pipeline.parsing.report_lines import LOAD_REPORT
from pulsar_barycenter.pipeline.parsing.report_rows import REPORT_ROW, RowTypes

pytestmark = pytest.mark.pipeline


def test_a_second_stream_that_computes_the_types_at_the_same_time_gets_the_same(spark: SparkSession) -> None:
    types = RowTypes()
    lines = spark.createDataFrame([], LOAD_REPORT)

    class Overtaken:
        """Lines of a stream that is overtaken by another one while Spark answers."""

        def select(self, *columns: Column) -> DataFrame:
            assert len(types.of(lines)) == len(REPORT_ROW)
            return lines.select(*columns)

    assert types.of(Overtaken()) == types.of(lines)  # type: ignore[arg-type]
    assert len(types.of(lines)) == len(REPORT_ROW)
