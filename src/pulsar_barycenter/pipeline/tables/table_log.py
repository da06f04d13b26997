"""What a table consists of: its files, and the log in which engines read which of them count.

The names of the files alone make up a table for the readers of this package (see `files`). Other engines list a
folder, and find a compacted file beside its sources. A log names the files of each version of a table in one atomic
step. The names stay the truth: a log is derived from them, names files of completed batches only, and is brought up to
them at each start, so a kill at any moment leaves nothing to repair.

Two table formats implement `TableLog`: plain Parquet has no log (`NO_LOG`), Delta Lake has one a table (see `delta`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from pulsar_barycenter.pipeline.storage.layout import TABLES_FOLDER

DELTA_LOG: Final = "_delta_log"
"""The folder of a table's log of Delta Lake."""


class TableFormat(StrEnum):
    """What a folder of tables is to readers of other engines."""

    PARQUET = "parquet"
    DELTA = "delta"


def log_folder(name: str) -> str:
    """Return the path of the log of Delta Lake of the table `name`."""
    return f"{TABLES_FOLDER}/{name}/{DELTA_LOG}"


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """A Parquet file with the rows of the batches `first` to `last`, both included, of one date."""

    first: int
    last: int
    path: str
    """Relative to the data directory."""
    size: int = field(default=0, compare=False)
    modified_s: float = field(default=0.0, compare=False)

    def stands_for(self, other: "TableFile") -> bool:
        is_within = self.first <= other.first and other.last <= self.last
        return is_within and (self.first, self.last) != (other.first, other.last)


class TableLog(Protocol):
    """The logs of all tables of a data directory, for the one process that writes; threads may share it.

    Every method raises OSError if a log cannot be written.
    """

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        """Have the log of the table name exactly `files`, all of batches up to `completed`."""
        ...

    def settle(self, name: str, folder: str, files: Iterable[TableFile]) -> None:
        """Have the log name, of a date's folder, exactly those of `files` that are of completed batches."""
        ...

    def commit(self, batch_id: int, written: Mapping[str, Sequence[str]]) -> None:
        """Add the paths that a completed batch wrote, by table."""
        ...

    def withdraw(self, name: str, batch_id: int) -> None:
        """Take the files of a batch out of the log, if they are in it, before the batch writes them again."""
        ...


class NoLog:
    """Plain Parquet: there is no log to write."""

    def adopt(self, name: str, files: Sequence[TableFile], *, completed: float) -> None:
        pass

    def settle(self, name: str, folder: str, files: Iterable[TableFile]) -> None:
        pass

    def commit(self, batch_id: int, written: Mapping[str, Sequence[str]]) -> None:
        pass

    def withdraw(self, name: str, batch_id: int) -> None:
        pass


NO_LOG: Final[TableLog] = NoLog()
