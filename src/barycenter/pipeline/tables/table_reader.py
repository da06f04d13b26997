"""Read the tables: each row once, whatever was written twice or is being compacted."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from barycenter.pipeline.storage.storage import Storage
from barycenter.pipeline.tables.parquet_tables import table_files
from barycenter.pipeline.tables.schemas import TABLES


def read_table(
    session: SparkSession, storage: Storage, name: str, *, dates: Collection[str] | None = None
) -> DataFrame:
    """The table `name` of some dates (yyyy-mm-dd) or of all; the files are those of the moment of this call.

    Of `ownership` one row per interval, of `decisions` one row per (by, number, at). A table that has no rows yet is
    empty. A query that starts more than the compaction's time of grace later may not find a file, and says so.

    Raises:
        KeyError: there is no such table.
    """
    table = TABLES[name]
    files = [storage.address(file.path) for file in table_files(storage, name, dates=dates)]
    if not files:
        return session.createDataFrame([], table.schema)
    rows = session.read.schema(table.schema).parquet(*files)
    if name == "ownership":
        ends = (F.max(column).alias(column) for column in ("owned_to", "ended"))  # "split" comes after "moved"
        return rows.groupBy(*table.key).agg(*ends).select(*table.schema.names)
    return rows.dropDuplicates(list(table.key)) if name == "decisions" else rows
