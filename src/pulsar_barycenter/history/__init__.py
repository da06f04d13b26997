"""The recorded history of a cluster for programs and notebooks: its tables, and questions to them.

    from pulsar_barycenter.history import open_history

    history = open_history("/var/lib/barycenter")
    history.top(5)                     # an Arrow table; .to_pandas() makes a DataFrame of it
    history.pandas("broker_usage").groupby("broker").cpu_percent.max()

`open_history` opens a data folder or a bucket, and returns a `RecordedHistory`. It gives each table to Arrow, pandas,
Polars or Spark, and has a method for each subcommand of `barycenter history`, of the same name. Columns are in
docs/tables.md, measures in docs/measures.md.

A history needs the extra `history` (Arrow, DuckDB); pandas, Polars and PySpark only if they are used.

`recorded_history` has the questions, `data_frames` the tables for libraries of DataFrames, `errors` the errors.
"""

try:
    import duckdb  # noqa: F401 - with the next one, what the extra installs
    import pyarrow as pa  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"pulsar_barycenter.history needs {error.name}: pip install 'pulsar-barycenter[history]'", name=error.name
    ) from error

from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.history.data_frames import tables
from pulsar_barycenter.history.errors import MissingLibraryError, UnknownTableError
from pulsar_barycenter.history.recorded_history import RecordedHistory, open_history
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.pipeline.history import BundleLife, NoHistoryError
from pulsar_barycenter.pipeline.local_sql import QueryError
from pulsar_barycenter.pipeline.spark.history_tables import HistoryTables
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError

__all__ = [
    "BundleLife",
    "DamagedTableError",
    "HistoryTables",
    "InvalidNameError",
    "MissingLibraryError",
    "NoHistoryError",
    "QueryError",
    "RecordedHistory",
    "UnknownTableError",
    "WrongFolderError",
    "open_history",
    "tables",
]
