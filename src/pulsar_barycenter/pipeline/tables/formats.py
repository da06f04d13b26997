"""The formats of the tables: plain Parquet, or Parquet with a log of Delta Lake.

A data directory keeps its format. Only `barycenter pipeline convert` changes it: it writes or deletes logs, no rows. A
data directory has the format Delta if it has logs; there is no other record of the format.
"""

import importlib.util
from collections.abc import Callable

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage
from pulsar_barycenter.pipeline.tables.files import date_folders
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableFormat, TableLog, log_folder


class TableFormatError(OSError):
    """The tables cannot have the requested format (plain Parquet or Delta). The text is a sentence with the reason."""


def has_tables(storage: Storage) -> bool:
    """Return whether any table has a folder of a date."""
    return any(date_folders(storage, name) for name in TABLES)


def format_of(storage: Storage) -> TableFormat:
    """Return the format of the tables of a data directory: Delta if a table has a Delta log, otherwise plain
    Parquet.
    """
    has_log = any(storage.exists(log_folder(name)) for name in TABLES)
    return TableFormat.DELTA if has_log else TableFormat.PARQUET


def chosen_format(storage: Storage, wanted: TableFormat | None) -> TableFormat:
    """Return the format in which the pipeline writes the tables: `wanted`. If that is None, return the format of the
    tables that exist.

    Raises:
        TableFormatError: the data directory has tables of another format than `wanted`.
    """
    present = format_of(storage)
    if wanted is None or wanted is present:
        return present
    if present is TableFormat.DELTA or has_tables(storage):
        raise TableFormatError(
            f"the tables of {storage.address()} are {present}, not {wanted}: leave out --table-format, or run"
            f" `barycenter pipeline convert --data {storage.address()} --to {wanted}` first"
        )
    return wanted


def open_log(storage: Storage, table_format: TableFormat, *, clock_ms: Callable[[], int]) -> TableLog:
    """Return the log of the tables for a format. For plain Parquet it does nothing. For Delta, missing logs are
    created.

    Raises:
        TableFormatError: the format is Delta, and the package deltalake is not installed, or the data directory is not
            a folder of this machine.
        OSError: a log cannot be written.
    """
    if table_format is TableFormat.PARQUET:
        return NO_LOG
    if not isinstance(storage, LocalStorage):
        raise TableFormatError(
            f"{storage.address()} is not a folder of this machine, which the table format delta needs: use"
            " --table-format parquet"
        )
    if importlib.util.find_spec("deltalake") is None:
        raise TableFormatError(
            f"the table format delta needs the package deltalake, which is not installed: pip install"
            f" '{DISTRIBUTION}[delta]', or run `barycenter pipeline convert --data {storage.address()} --to parquet`"
        )
    from pulsar_barycenter.pipeline.tables.delta import DeltaLog  # needs the package

    return DeltaLog(storage, clock_ms=clock_ms)


def delete_logs(storage: Storage) -> None:
    """Delete the Delta logs of all tables. From then on the format of the tables is plain Parquet."""
    for name in TABLES:
        storage.delete(log_folder(name))
