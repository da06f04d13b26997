"""The Parquet tables: `<root>/<name>/date=<yyyy-mm-dd>/batch-<first id>[-<last id>].parquet`.

A batch writes one file per date. The name has the batch id, and the file appears as a whole. A batch that runs again
after a crash writes the same rows into the same files, so the tables have each row once. The name of an unfinished file
begins with a dot; Parquet readers ignore such files.

A compacted file (see `compaction`) has the ids of its first and last batch in its name. It replaces every file of its
folder within that range: `live_files` leaves those out. So a reader finds each row once, whenever it lists the folder.
Before the compacted file appears it reads the sources, afterwards only the compacted file. The sources are deleted
much later than any listing takes.
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
    """Return all table files in the folder of a date, sorted by their batches. Files that a merged file has replaced,
    but that are not deleted yet, are included.
    """
    found = ((entry, _NAME.fullmatch(entry.name)) for entry in storage.entries(folder))
    return sorted(
        TableFile(int(name[1]), int(name[2] or name[1]), f"{folder}/{entry.name}", entry.size, entry.modified_s)
        for entry, name in found
        if name is not None
    )


def without_replaced(files: Iterable[TableFile]) -> list[TableFile]:
    """Return `files` without those that a merged file in `files` replaces, sorted by their batches."""
    kept: list[TableFile] = []
    for file in sorted(files, key=lambda f: (f.first, -f.last)):
        if not (kept and kept[-1].stands_for(file)):
            kept.append(file)
    return kept


def table_files(storage: Storage, name: str, *, dates: Collection[str] | None = None) -> list[TableFile]:
    """Return the files that have the rows of the table `name`, oldest date first. `dates` (yyyy-mm-dd) selects dates;
    None: all. Files that a merged file has replaced are left out.
    """
    return [
        file
        for folder in date_folders(storage, name)
        if dates is None or date_of(folder) in dates
        for file in without_replaced(files_of_date(storage, folder))
    ]


def live_files(root: Path, name: str, *, dates: Collection[str] | None = None) -> list[Path]:
    """Return the result of `table_files` as paths for any Parquet reader. `root` is the folder `tables` of a local data
    directory.
    """
    storage = LocalStorage(root.parent)
    return [storage.root / file.path for file in table_files(storage, name, dates=dates)]


def with_lacking_columns(rows: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the columns `columns` of `rows` (None: all columns of the table `name`). A column that `rows` lacks
    becomes null, if the table allows null in it: files of older releases lack such columns.

    Raises:
        KeyError: `rows` lacks a column that cannot be null.
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
    """Return the paths of the date folders of the table `name`, oldest first."""
    folder = f"{TABLES_FOLDER}/{name}"
    return [f"{folder}/{entry.name}" for entry in storage.entries(folder) if _DATE.fullmatch(entry.name)]


def utc_date(ms: int) -> str:
    """Return the UTC date (yyyy-mm-dd) of a time in epoch ms."""
    return time.strftime("%Y-%m-%d", time.gmtime(ms // 1000))


def date_of(folder: str) -> str:
    """Return the date (yyyy-mm-dd) in the path of a date folder of a table."""
    return folder.rpartition(DATE_PREFIX)[2]


class Tables:
    """Writes the tables of a data directory. Only one process at a time may do so."""

    def __init__(self, storage: Storage, table_log: TableLog = NO_LOG) -> None:
        self._storage = storage
        self._log = table_log
        self._batch = -1
        self._written: dict[str, list[str]] = {}
        """The paths that the current batch wrote, by table."""

    def newest_batches(self) -> list[int]:
        """Return for each table the id of the newest batch in its newest date folder. Tables without files are left
        out. If the stored states are lost, new batches must get greater ids.
        """
        newest = [folders[-1] for name in TABLES if (folders := date_folders(self._storage, name))]
        return [files[-1].last for folder in newest if (files := files_of_date(self._storage, folder))]

    def clear_unfinished(self, newest_batch: int | None) -> None:
        """Delete unfinished files, and files with rows of batches after `newest_batch`, the newest completed batch.

        Those batches will run again, perhaps with other reports. `newest_batch` None: it is unknown which batches were
        completed; then only unfinished files are deleted. The log of each table is updated before its files are
        deleted.
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
        """Write the rows of a batch to the table `name`, one file per date. Files that an earlier run of the same batch
        wrote for these dates are replaced.

        `dates` has the date (yyyy-mm-dd) of each row; None: the dates of the table's time column. Without rows nothing
        is written.
        """
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
        """Add the files that the batch wrote to the logs of the tables. The caller must have stored the state of the
        batch before, so that the batch cannot run again.
        """
        written = self._written if batch_id == self._batch else {}
        self._log.commit(batch_id, written)
        self._written = {}
