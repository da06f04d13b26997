"""The log of Delta Lake of each table, by the library deltalake: `<root>/<name>/_delta_log`.

The log lists the files that the pipeline wrote, at their paths. Names and content of the files are those of plain
Parquet, so the readers of this project need neither the log nor the library. A batch is one commit per table, with the
batch id as the version of the application transaction `APPLICATION`. A compaction is one commit that adds the compacted
file and removes its sources. `date` is the partition column, which the files themselves do not have.

Only the process that runs the pipeline commits; other engines read. A version stays readable until compaction deletes
its replaced files (`CompactionSettings.grace_s`). Statistics contain numbers of rows and no values of columns, so that
the log has no names of tenants.
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
    # files of older versions are deleted by then, and one commit per second makes many small files
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


class TableLogError(OSError):
    """A Delta log of a table cannot be created, read or written; the text has its path."""


class DeltaLog:
    """The Delta logs of all tables of a data directory on this machine. Missing logs are created."""

    def __init__(self, storage: LocalStorage, *, clock_ms: Callable[[], int]) -> None:
        """Open the logs. A missing log is created, and a damaged one is replaced by an empty log; the caller then calls
        `adopt` for each table, which adds its files.

        Raises:
            TableLogError: a log cannot be created.
        """
        self._storage = storage
        self._lock = threading.RLock()
        self._completed = -1.0
        self._tables = {name: _OneLog(storage, name, clock_ms) for name in TABLES}

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        with self._lock:
            newest = max((file.last for file in files), default=-1)
            # inf: completed batches are unknown, so all present ones count as completed, but no future ones
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
    """The Delta log of one table. Paths of files are relative to the data directory, as in `Storage`."""

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
        """Change the log so that it lists exactly `files` among the paths that begin with `prefix`. Other paths stay.
        The log also records a batch id: the greatest one in `files`, but at most `completed`.
        """
        wanted = {file.path: file.size for file in files}
        listed = {path: size for path, size in self._sizes.items() if path.startswith(prefix)}
        # a commit may name a path only once, so the former file of a path is removed in a separate commit
        self.withdraw([path for path, size in listed.items() if wanted.get(path, size) != size])
        added = [path for path in wanted if path not in self._sizes]
        removed = [path for path in listed if path not in wanted]
        newest = max((file.last for file in files), default=-1)
        self.change(added, removed, int(min(completed, newest)))

    def withdraw(self, paths: Iterable[str]) -> None:
        """Remove `paths` from the log. Paths that it does not list are ignored."""
        self.change((), [path for path in paths if path in self._sizes], -1)

    def withdraw_batch(self, batch_id: int) -> None:
        """Remove all files that only have rows of the batch `batch_id` from the log, in one commit."""
        file = f"/{table_file_name(batch_id, batch_id)}"
        self.withdraw([path for path in self._sizes if path.endswith(file)])

    def change(self, added: Sequence[str], removed: Sequence[str], batch_id: int) -> None:
        """Add the paths `added` to the log and remove the paths `removed`, in one commit. Without paths nothing is
        committed. The log also records `batch_id` if it is greater than the recorded batch id; -1 never is.
        """
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
    """Return the Delta schema of the table `name`: its columns, and the column with the date by which the files are
    partitioned.
    """
    columns = [pa.field(field.name, field.type, field.nullable) for field in TABLES[name].arrow_schema]
    return Schema.from_arrow(pa.schema([*columns, pa.field(PARTITION, pa.date32(), nullable=True)]))
