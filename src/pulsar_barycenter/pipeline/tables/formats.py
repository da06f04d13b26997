"""The formats of the tables: plain Parquet, or Parquet with a log of Delta Lake beside it.

A folder of tables keeps its format; only `convert` changes it, which writes or deletes logs and no rows. That a folder
has logs says that it is Delta, so nothing else is remembered.
"""

import importlib.util
from collections.abc import Callable

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage
from pulsar_barycenter.pipeline.tables.files import date_folders
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableFormat, TableLog, log_folder


class TableFormatError(OSError):
    """The tables cannot have the format asked for; the text is a sentence that says why."""


def has_tables(storage: Storage) -> bool:
    """Return whether anything was written of any table."""
    return any(date_folders(storage, name) for name in TABLES)


def format_of(storage: Storage) -> TableFormat:
    """Return the format of the tables of a data directory; a folder without tables counts as plain Parquet."""
    has_log = any(storage.exists(log_folder(name)) for name in TABLES)
    return TableFormat.DELTA if has_log else TableFormat.PARQUET


def chosen_format(storage: Storage, wanted: TableFormat | None) -> TableFormat:
    """Return the format in which a run writes the tables; `wanted` None: the one that the folder has.

    Raises:
        TableFormatError: the folder has tables of another format.
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
    """Return the log to write of tables in a format, made if need be.

    Raises:
        TableFormatError: the format needs a package that is not installed, or a folder of this machine.
        OSError: a log cannot be written.
    """
    if table_format is TableFormat.PARQUET:
        return NO_LOG
    if not isinstance(storage, LocalStorage):
        raise TableFormatError(
            f"{storage.address()} is no folder of this machine, and only there are tables kept as Delta; use"
            " --table-format parquet"
        )
    if importlib.util.find_spec("deltalake") is None:
        raise TableFormatError(
            f"tables kept as Delta need deltalake, which is not installed: pip install '{DISTRIBUTION}[delta]', or run"
            f" `barycenter pipeline convert --data {storage.address()} --to parquet`"
        )
    from pulsar_barycenter.pipeline.tables.delta import DeltaLog  # needs the package

    return DeltaLog(storage, clock_ms=clock_ms)


def delete_logs(storage: Storage) -> None:
    """Delete the logs of all tables: they are plain Parquet then. The last one deleted ends the format Delta."""
    for name in TABLES:
        storage.delete(log_folder(name))
