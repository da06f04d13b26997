"""The files of a table (`TableFile`), and the log from which other engines read which files count (`TableLog`).

Readers of this project need only the names of the files (see `files`). Other engines list a folder, and find a
compacted file next to its sources. A log changes the list of files of a table in one atomic step. The file names stay
the authoritative copy: a log is derived from them, lists only files of completed batches, and is updated from them at
each start. So a kill at any moment leaves nothing to repair.

Two table formats implement `TableLog`: plain Parquet has no log (`NO_LOG`), Delta Lake has one per table (see `delta`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER

DELTA_LOG: Final = "_delta_log"
"""The name of the folder of a table's Delta log."""


class TableFormat(StrEnum):
    """The form in which other programs than Barycenter read the tables: as plain Parquet files, or with a log of Delta
    Lake, which lists the files.
    """

    PARQUET = "parquet"
    DELTA = "delta"


def log_folder(name: str) -> str:
    """Return the path of the Delta log of the table `name`."""
    return f"{TABLES_FOLDER}/{name}/{DELTA_LOG}"


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """A Parquet file of a table. It has the rows of one date that the batches from `first` to `last` (both inclusive)
    wrote.
    """

    first: int
    last: int
    path: str
    """Relative to the data directory."""
    size: int = field(default=0, compare=False)
    modified_s: float = field(default=0.0, compare=False)

    def stands_for(self, other: "TableFile") -> bool:
        """Return whether this file replaces `other`: it has all batches of `other`, and at least one more."""
        is_within = self.first <= other.first and other.last <= self.last
        return is_within and (self.first, self.last) != (other.first, other.last)


class TableLog(Protocol):
    """The logs of all tables of a data directory: for each table, the list of its files, for programs other than
    Barycenter. Only one process may write them. Thread-safe.

    Every method raises OSError if a log cannot be written.
    """

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        """Change the log of the table `name` so that it lists exactly `files`, which have only completed batches.
        `completed` is the id of the newest completed batch, or infinity if that is unknown; then all present files
        count as completed.
        """
        ...

    def settle(self, name: str, folder: str, files: Iterable[TableFile]) -> None:
        """Change the log of the table `name` so that, in the folder `folder` of a date, it lists exactly those of
        `files` that have only completed batches.
        """
        ...

    def commit(self, batch_id: int, written: Mapping[str, Sequence[str]]) -> None:
        """Add files of a completed batch to the logs; `written` has the paths of the files that the batch wrote, by
        table.
        """
        ...

    def withdraw(self, name: str, batch_id: int) -> None:
        """Remove the files of the batch `batch_id` from the log of the table `name`, if it lists them. The caller does
        this before the batch writes the files again.
        """
        ...


class NoLog:
    """The log of plain Parquet tables: they have no log, so every method does nothing."""

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        pass

    def settle(self, name: str, folder: str, files: Iterable[TableFile]) -> None:
        pass

    def commit(self, batch_id: int, written: Mapping[str, Sequence[str]]) -> None:
        pass

    def withdraw(self, name: str, batch_id: int) -> None:
        pass


NO_LOG: Final[TableLog] = NoLog()
