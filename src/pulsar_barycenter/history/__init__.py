"""The recorded history of a cluster as DataFrames of Spark, for programs and notebooks.

    from pulsar_barycenter.history import tables

    recorded = tables(spark, "/var/lib/barycenter")
    recorded.broker_usage.groupBy("broker").max("cpu_percent").show()

`spark` is any session: of this process, of spark-submit, or of Spark Connect. Columns are in docs/tables.md. For
questions without Spark there is `barycenter history`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from os import PathLike, fspath

from pyspark.sql import DataFrame, SparkSession

from pulsar_barycenter.pipeline.spark.addresses import open_storage
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES

__all__ = ["Tables", "tables"]


@dataclass(frozen=True, slots=True)
class Tables:
    """A DataFrame for each table, by its name; iterating gives names and DataFrames."""

    load_reports: DataFrame
    broker_usage: DataFrame
    bundle_samples: DataFrame
    bundle_data: DataFrame
    broker_data: DataFrame
    ownership: DataFrame
    decisions: DataFrame
    balance: DataFrame

    def __iter__(self) -> Iterator[tuple[str, DataFrame]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def create_views(self) -> None:
        """Make each table a temporary view of its name, for `spark.sql`."""
        for name, rows in self:
            rows.createOrReplaceTempView(name)


assert [field.name for field in fields(Tables)] == list(TABLES)


def tables(spark: SparkSession, folder: str | PathLike[str]) -> Tables:
    """Return the tables of the data directory `folder`: a path, or an address that Spark reaches.

    Each row is there once, also while the pipeline writes: files that compaction replaced are left out. The files are
    those of the moment of this call; a query that starts more than the compaction's time of grace later (15 minutes)
    may not find one, and says so: call again. A table without rows yet is empty.

    With Spark Connect a path is read by the server, so it is a path that the server has, too.

    Raises:
        OSError: Spark cannot reach `folder`.
    """
    storage = open_storage(fspath(folder), spark)
    return Tables(**{name: read_table(spark, storage, name) for name in TABLES})
