"""Converts the columns of tables to Spark's types."""

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.tables.schemas import Columns

_TYPES: Final[dict[str, T.DataType]] = {
    "string": T.StringType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "double": T.DoubleType(),
    "timestamp": T.TimestampType(),
}


def struct_type(columns: Columns) -> T.StructType:
    """Return `columns` as a Spark schema. The text `about` of a column becomes its comment."""
    return T.StructType(
        [
            T.StructField(
                column.name, _TYPES[column.kind], column.nullable, {"comment": column.about} if column.about else None
            )
            for column in columns
        ]
    )
