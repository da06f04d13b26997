"""The tables as DataFrames: of Spark, which reads the files itself, and of pandas and Polars, from Arrow."""

from os import PathLike, fspath
from typing import TYPE_CHECKING

import pyarrow as pa

from pulsar_barycenter.history.errors import MissingLibraryError
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.tables.schemas import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import SparkSession


def tables(spark: "SparkSession", folder: str | PathLike[str]) -> HistoryTables:
    """Return the tables of the data directory `folder`: a path, or an address that Spark reaches.

        recorded = tables(spark, "/var/lib/barycenter")
        recorded.broker_usage.groupBy("broker").max("cpu_percent").show()

    `spark` is any session: of this process, of spark-submit, or of Spark Connect. Each row is returned once, also while
    the pipeline writes, because files that compaction has replaced are left out. This call lists the files of each
    table; a query reads the listed files when it runs. When compaction has replaced a file, it deletes the file 15
    minutes later. So a query that runs more than 15 minutes after this call may fail because a file is missing; then
    call `tables` again. A table without rows is an empty DataFrame.

    With Spark Connect the server reads `folder`, so it must be a path of the server.

    Raises:
        MissingLibraryError: PySpark is not installed.
        OSError: Spark cannot reach `folder`.
    """
    try:
        from pulsar_barycenter.pipeline.spark.addresses import open_storage
        from pulsar_barycenter.pipeline.spark.table_reader import read_table
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise MissingLibraryError("PySpark", "pulsar-barycenter[pipeline]") from error
    storage = open_storage(fspath(folder), spark)
    return HistoryTables(**{name: read_table(spark, storage, name) for name in TABLES})


def in_pandas(rows: pa.Table) -> "pd.DataFrame":
    """Return the rows of an Arrow table as a DataFrame of pandas. Raise MissingLibraryError if pandas is not
    installed.
    """
    try:
        import pandas  # noqa: F401 - Arrow imports it, and its error names neither the cause nor a remedy
    except ModuleNotFoundError as error:
        raise MissingLibraryError("pandas", "pandas") from error
    found: pd.DataFrame = rows.to_pandas()
    return found


def in_polars(rows: pa.Table) -> "pl.DataFrame":
    """Return the rows of an Arrow table as a DataFrame of Polars. Raise MissingLibraryError if Polars is not
    installed.
    """
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise MissingLibraryError("Polars", "polars") from error
    found = pl.from_arrow(rows)
    assert isinstance(found, pl.DataFrame)
    return found
