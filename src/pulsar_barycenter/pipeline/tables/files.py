"""The Parquet tables: `<root>/<name>/date=<yyyy-mm-dd>/batch-<first id>[-<last id>].parquet`.

A batch writes one file per date, named after it, that appears whole. A batch that runs again after a crash thus
puts the same rows into the same files: the tables hold each row once however often a batch is tried. An unfinished
file has a name that begins with a dot, which every Parquet reader passes over.

A compacted file (see `compaction`) is named after the first and the last batch in it, and stands for every
file of its folder within that range: `live_files` leaves those out. So whether a row is read does not depend on when
the folder was listed: before the compacted file appears its sources are read, afterwards it alone, and the sources are
deleted much later than any listing takes.
"""

import math
import re
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.storage.files import LocalStorage, Storage, clear_unfinished
from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import NO_LOG, TableFile, TableLog

DATE_PREFIX = "date="

_DATE = re.compile(DATE_PREFIX + r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"batch-(\d{12})(?:-(\d{12}))?\.parquet")


def table_file_name(first: int, last: int) -> str:
    return f"batch-{first:012d}.parquet" if first == last else f"batch-{first:012d}-{last:012d}.parquet"


def files_of_date(storage: Storage, folder: str) -> list[TableFile]:
    """All table files of a date's folder, those that another one stands for among them, in the order of batches."""
    found = ((entry, _NAME.fullmatch(entry.name)) for entry in storage.entries(folder))
    return sorted(
        TableFile(int(name[1]), int(name[2] or name[1]), f"{folder}/{entry.name}", entry.size, entry.modified_s)
        for entry, name in found
        if name is not None
    )


def without_replaced(files: Iterable[TableFile]) -> list[TableFile]:
    """Leave out the files that another one stands for."""
    kept: list[TableFile] = []
    for file in sorted(files, key=lambda f: (f.first, -f.last)):
        if not (kept and kept[-1].stands_for(file)):
            kept.append(file)
    return kept


def table_files(storage: Storage, name: str, *, dates: Collection[str] | None = None) -> list[TableFile]:
    """The files that make up the table `name` now, of some `dates` (yyyy-mm-dd) or of all, oldest date first."""
    return [
        file
        for folder in date_folders(storage, name)
        if dates is None or date_of(folder) in dates
        for file in without_replaced(files_of_date(storage, folder))
    ]


def live_files(root: Path, name: str, *, dates: Collection[str] | None = None) -> list[Path]:
    """The files of `table_files`, for any Parquet reader; `root` is the folder of tables of a local data directory."""
    storage = LocalStorage(root.parent)
    return [storage.root / file.path for file in table_files(storage, name, dates=dates)]


def with_lacking_columns(rows: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of a table, all unless they are named; what older files lack is null.

    Raises:
        KeyError: a column is missing that is never null.
    """
    schema = TABLES[name].arrow_schema
    fields = [schema.field(column) for column in columns or schema.names]
    known = set(rows.column_names)
    found = {
        field.name: pa.nulls(len(rows), field.type)
        if field.nullable and field.name not in known
        else rows.column(field.name)
        for field in fields
    }
    return pa.table(found)


def date_folders(storage: Storage, name: str) -> list[str]:
    """The folders of the table's dates, oldest first."""
    folder = f"{TABLES_FOLDER}/{name}"
    return [f"{folder}/{entry.name}" for entry in storage.entries(folder) if _DATE.fullmatch(entry.name)]


def utc_date(ms: int) -> str:
    """The date (yyyy-mm-dd) of a time, epoch ms."""
    return time.strftime("%Y-%m-%d", time.gmtime(ms // 1000))


def date_of(folder: str) -> str:
    """The date (yyyy-mm-dd) of a date's folder."""
    return folder.rpartition(DATE_PREFIX)[2]


class Tables:
    """Writes the tables of a data directory; one process at a time."""

    def __init__(self, storage: Storage, table_log: TableLog = NO_LOG) -> None:
        self._storage = storage
        self._log = table_log
        self._batch = -1
        self._written: dict[str, list[str]] = {}
        """The paths that the batch under way wrote, by table."""

    def newest_batches(self) -> list[int]:
        """The newest batch of each table's newest date: batch ids go on from there, should states be lost."""
        newest = [folders[-1] for name in TABLES if (folders := date_folders(self._storage, name))]
        return [files[-1].last for folder in newest if (files := files_of_date(self._storage, folder))]

    def clear_unfinished(self, newest_batch: int | None) -> None:
        """Remove what a killed writer left: unfinished files, and those of batches after the newest completed one.

        The batches will run again; should Spark's record of them be lost, they will hold other reports. None, as
        nothing is known of batches, removes no rows. The log is brought up to what stays before anything is deleted.
        """
        completed = math.inf if newest_batch is None else newest_batch
        for name in TABLES:
            clear_unfinished(self._storage, f"{TABLES_FOLDER}/{name}")
            folders = {folder: files_of_date(self._storage, folder) for folder in date_folders(self._storage, name)}
            live = [
                file
                for files in folders.values()
                for file in without_replaced(file for file in files if file.last <= completed)
            ]
            self._log.adopt(name, live, completed=completed)
            for folder, files in folders.items():
                clear_unfinished(self._storage, folder)
                for file in files:
                    if file.last > completed:
                        self._storage.delete(file.path)

    def write(self, name: str, batch_id: int, rows: pa.Table, *, dates: Sequence[str] | None = None) -> None:
        """Write a batch's rows as one file per date: that of each row in `dates`, or of the table's time column."""
        table = TABLES[name]
        if batch_id != self._batch:
            self._batch, self._written = batch_id, {}
        if not len(rows):
            return
        self._log.withdraw(name, batch_id)
        rows_dates = pc.strftime(rows.column(table.time), format="%Y-%m-%d") if dates is None else pa.array(dates)
        rows = rows.select(table.schema.names).cast(table.arrow_schema)
        for date in pc.unique(rows_dates).to_pylist():
            path = f"{TABLES_FOLDER}/{name}/{DATE_PREFIX}{date}/{table_file_name(batch_id, batch_id)}"
            with self._storage.new_file(path) as file:
                pq.write_table(
                    rows.filter(pc.equal(rows_dates, date)), file, compression="zstd", write_page_checksum=True
                )
            written = self._written.setdefault(name, [])
            if path not in written:
                written.append(path)

    def commit(self, batch_id: int) -> None:
        """Have the log name what the batch wrote, once its state is kept: it will not be taken back."""
        written = self._written if batch_id == self._batch else {}
        self._log.commit(batch_id, written)
        self._written = {}
