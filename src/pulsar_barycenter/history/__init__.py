"""The recorded history of a cluster as DataFrames of Spark, for programs and notebooks.

    from pulsar_barycenter.history import tables

    recorded = tables(spark, "/var/lib/barycenter")
    recorded.broker_usage.groupBy("broker").max("cpu_percent").show()

`spark` is any session: of this process, of spark-submit, or of Spark Connect. Columns are in docs/tables.md. For
questions without Spark there is `barycenter history`.
"""

from os import PathLike, fspath

from pyspark.sql import SparkSession

from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES

__all__ = ["HistoryTables", "tables"]


def tables(spark: SparkSession, folder: str | PathLike[str]) -> HistoryTables:
    """Return the tables of the data directory `folder`: a path, or an address that Spark reaches.

    Each row is there once, also while the pipeline writes, because replaced files are left out. The DataFrames read
    the files that exist at this call. Compaction deletes replaced files after 15 minutes: a query that starts later
    may fail because a file is missing; then call `tables` again. A table without rows is empty.

    With Spark Connect the server reads `folder`, so it must be a path of the server.

    Raises:
        OSError: Spark cannot reach `folder`.
    """
    storage = open_storage(fspath(folder), spark)
    return HistoryTables(**{name: read_table(spark, storage, name) for name in TABLES})
