"""Spark and Arrow have the same columns."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_STATE, TABLES, Columns


@pytest.mark.parametrize("columns", [*(table.schema for table in TABLES.values()), BUNDLE_STATE])
def test_a_tables_columns_are_to_spark_what_they_are_in_its_files(columns: Columns) -> None:
    """Names, types, nulls and comments, as PySpark itself makes an Arrow schema of its own."""
    assert to_arrow_schema(struct_type(columns), timezone="UTC").equals(columns.arrow, check_metadata=True)
