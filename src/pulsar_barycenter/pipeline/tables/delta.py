"""The log of Delta Lake of each table, by the library deltalake: `<root>/<name>/_delta_log`.

The log names the files that the pipeline wrote, where they lie; their names and content are those of plain Parquet, so
the readers of this package need neither the log nor the library. A batch is one commit a table, with the batch id as
the version of the application transaction `APPLICATION`; a compaction is one commit that adds the compacted file and
removes its sources. `date` is the partition column, which the files themselves do not have.

Only the process that runs the pipeline commits. Other engines read: a version stays readable for the time of grace of
compaction, after which its files are deleted. Statistics hold counts of rows and no values of columns, so that no name
of a tenant gets into the log.
"""

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import structlog
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER
from pulsar_barycenter.pipeline.tables.files import date_of, table_file_name
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFile, log_folder

log = structlog.get_logger(__name__)

APPLICATION: Final = "barycenter"
PARTITION: Final = "date"

_CONFIGURATION: Final = {
    "delta.checkpointInterval": "100",
    # files of older versions are deleted by then, and a commit a second makes many small files
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


class TableLogError(OSError):
    """A log of Delta Lake cannot be read or written; the text names it."""


class DeltaLog:
    """The logs of all tables of a data directory of this machine; those that are absent are made."""

    def __init__(self, storage: LocalStorage, *, clock_ms: Callable[[], int]) -> None:
        """Raises TableLogError if a log cannot be made; one that is damaged is made anew by `adopt`."""
        self._storage = storage
        self._lock = threading.RLock()
        self._completed = -1.0
        self._tables = {name: _OneLog(storage, name, clock_ms) for name in TABLES}

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        with self._lock:
            newest = max((file.last for file in files), default=-1)
            # all batches there count as completed if nothing is known of them, but none that is to come
            self._completed = max(self._completed, newest) if math.isinf(completed) else completed
            self._tables[name].settle("", files, completed)

    def settle(self, name: str, folder: str, files: Iterable[TableFile]) -> None:
        with self._lock:
            completed = [file for file in files if file.last <= self._completed]
            self._tables[name].settle(f"{folder}/", completed, self._completed)

    def commit(self, batch_id: int, written: Mapping[str, Sequence[str]]) -> None:
        with self._lock:
            for name, paths in written.items():
                self._tables[name].change(paths, (), batch_id)
            self._completed = max(self._completed, batch_id)

    def withdraw(self, name: str, batch_id: int) -> None:
        with self._lock:
            self._tables[name].withdraw_batch(batch_id)


class _OneLog:
    """The log of one table. Paths are those of the storage."""

    def __init__(self, storage: LocalStorage, name: str, clock_ms: Callable[[], int]) -> None:
        self._storage = storage
        self._clock_ms = clock_ms
        self._name = name
        self._folder = f"{TABLES_FOLDER}/{name}/"
        self._schema = _schema(name)
        with self._naming():
            self._table = self._opened()
            self._sizes = self._listed()

    def settle(self, prefix: str, files: Sequence[TableFile], completed: float) -> None:
        """Have the log name exactly `files` below a prefix of paths."""
        wanted = {file.path: file.size for file in files}
        listed = {path: size for path, size in self._sizes.items() if path.startswith(prefix)}
        # of a path that another file came to, the old one leaves in a commit of its own: one commit names a path once
        self.withdraw([path for path, size in listed.items() if wanted.get(path, size) != size])
        added = [path for path in wanted if path not in self._sizes]
        removed = [path for path in listed if path not in wanted]
        newest = max((file.last for file in files), default=-1)
        self.change(added, removed, int(min(completed, newest)))

    def withdraw(self, paths: Iterable[str]) -> None:
        """Remove those of `paths` that are listed."""
        self.change((), [path for path in paths if path in self._sizes], -1)

    def withdraw_batch(self, batch_id: int) -> None:
        """Remove the files of a batch, all at once: the table is then as before it."""
        file = f"/{table_file_name(batch_id, batch_id)}"
        self.withdraw([path for path in self._sizes if path.endswith(file)])

    def change(self, added: Sequence[str], removed: Sequence[str], batch_id: int) -> None:
        """Commit what changes, if anything does; a batch id of -1 leaves the one of the log."""
        if not (added or removed):
            return
        self.withdraw([path for path in added if path in self._sizes])
        with self._naming():
            adds = [self._add(path) for path in added]
            removes = [self._remove(path) for path in removed]
            is_of_a_batch = batch_id > (self._table.transaction_version(APPLICATION) or -1)
            transactions = [Transaction(APPLICATION, batch_id)] if is_of_a_batch else None
            self._table.create_write_transaction(
                [*removes, *adds],
                mode="append",
                schema=self._schema,
                partition_by=[PARTITION],
                commit_properties=CommitProperties(app_transactions=transactions),
            )
            self._table.update_incremental()
        for path in removed:
            del self._sizes[path]
        self._sizes |= {f"{self._folder}{add.path}": add.size for add in adds}

    def _add(self, path: str) -> AddAction:
        file = self._storage.root / path
        stat = file.stat()
        rows = pq.read_metadata(file).num_rows
        return AddAction(
            path=path.removeprefix(self._folder),
            size=stat.st_size,
            partition_values={PARTITION: _date(path)},
            modification_time=int(stat.st_mtime * 1000),
            data_change=True,
            stats=json.dumps({"numRecords": rows}),
        )

    def _remove(self, path: str) -> RemoveAction:
        relative = path.removeprefix(self._folder)
        return RemoveAction(relative, True, self._clock_ms(), self._sizes[path], {PARTITION: _date(path)})

    def _opened(self) -> DeltaTable:
        address = self._storage.address(self._folder)
        if not self._storage.exists(log_folder(self._name)):
            return self._created()
        try:
            table = DeltaTable(address)
        except (DeltaError, ValueError) as error:
            log.warning("delta_log_made_anew", table=self._name, reason=str(error).partition("\n")[0])
            self._storage.delete(log_folder(self._name))
            return self._created()
        known = {field.name for field in table.schema().fields}
        lacking = [field for field in self._schema.fields if field.name not in known]
        if lacking:
            table.alter.add_columns(lacking)
            table.update_incremental()
        return table

    def _created(self) -> DeltaTable:
        self._storage.make_folder(self._folder.rstrip("/"))
        return DeltaTable.create(
            self._storage.address(self._folder),
            self._schema,
            partition_by=[PARTITION],
            name=self._name,
            configuration=_CONFIGURATION,
        )

    def _listed(self) -> dict[str, int]:
        actions = pa.table(self._table.get_add_actions(flatten=True)).select(["path", "size_bytes"])
        paths, sizes = (column.to_pylist() for column in actions.columns)
        return {f"{self._folder}{path}": size for path, size in zip(paths, sizes, strict=True)}

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except (DeltaError, ValueError) as error:
            folder = self._storage.address(log_folder(self._name))
            reason = str(error).partition("\n")[0]
            raise TableLogError(f"the Delta log {folder} cannot be written: {reason}") from error


def _date(path: str) -> str:
    return date_of(path.rpartition("/")[0])


def _schema(name: str) -> Schema:
    """The columns of a table, and its partition column."""
    columns = [pa.field(field.name, field.type, field.nullable) for field in TABLES[name].arrow_schema]
    return Schema.from_arrow(pa.schema([*columns, pa.field(PARTITION, pa.date32(), nullable=True)]))
