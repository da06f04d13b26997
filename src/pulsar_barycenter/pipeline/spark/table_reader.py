"""Reads the tables. Each row appears once, even if it was written twice or is being compacted."""

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES


def read_table(
    session: SparkSession, storage: Storage, name: str, *, dates: Collection[str] | None = None
) -> DataFrame:
    """Return the rows of the table `name` of some dates (yyyy-mm-dd), or of all dates. Which files are read is fixed at
    this call.

    `ownership` has one row per interval, `decisions` one row per (by, number, at). A table that has no files yet has no
    rows. A query that runs long after this call may fail because compaction has replaced a file and deleted it after
    its grace period; the error says so.

    Raises:
        KeyError: there is no such table.
    """
    table = TABLES[name]
    schema = struct_type(table.schema)
    files = [storage.address(file.path) for file in table_files(storage, name, dates=dates)]
    if not files:
        return session.createDataFrame([], schema)
    rows = session.read.schema(schema).parquet(*files)
    if name == "ownership":
        ends = (F.max(column).alias(column) for column in ("owned_to", "ended"))  # "split" is greater than "moved"
        return rows.groupBy(*table.key).agg(*ends).select(*schema.names)
    return rows.dropDuplicates(list(table.key)) if name == "decisions" else rows
