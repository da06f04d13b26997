"""Returns the tables as they were after a batch: which files, and how many rows of each.

Rows are only added, so the tables as of a batch are the rows of all batches up to it. File names contain the batches,
and compacted files record which rows belong to which batch (see `segments`). So this needs no copies, and works for as
long as the dates are kept. Rows that retention or the deletion of a tenant deleted are missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.tables.files import date_folders, date_of, table_files, utc_date
from pulsar_barycenter.pipeline.tables.reading import opened_table
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.segments import rows_as_of, segments_of

_TIMES = "broker_data"
"""The table with the times of batches: each batch that accepted reports writes rows whose `as_of` is the time of the
newest report."""


class TimeTravelError(Exception):
    """The tables cannot be read as they were after a batch or at a time. The text is a sentence with the reason."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a table's file: its first `rows` rows. `rows` None: the whole file."""

    path: str
    rows: int | None = None


def all_parts(storage: Storage, name: str) -> list[FilePart]:
    """Return all files of the table `name` as parts that have all rows of their file. Files that a merged file has
    replaced are left out.
    """
    return [FilePart(file.path) for file in table_files(storage, name)]


def parts_as_of(storage: Storage, name: str, batch_id: int) -> list[FilePart]:
    """Return the files, or first rows of files, that have the rows of the table `name` as it was after the batch
    `batch_id`.

    Raises:
        TimeTravelError: a merged file has rows of earlier and of later batches, and does not record which is which,
            because an early release wrote it.
        DamagedTableError: a merged file cannot be read.
    """
    found: list[FilePart] = []
    for file in table_files(storage, name):
        if file.last <= batch_id:
            found.append(FilePart(file.path))
        elif file.first <= batch_id:
            with opened_table(storage, file.path) as opened:
                rows = rows_as_of(segments_of(file, opened), batch_id)
            if rows is None:
                raise TimeTravelError(
                    f"{storage.address(file.path)} has the batches {file.first} to {file.last}, but does not record"
                    f" which rows each batch wrote: ask for the tables after batch {file.last} or a later one, or"
                    f" after a batch before {file.first}"
                )
            found.append(FilePart(file.path, rows))
    return found


def check_batch(storage: Storage, batch_id: int) -> None:
    """Check that the tables have data of the batch `batch_id`, so that they can be read as they were after it.

    Raises:
        TimeTravelError: the id is below that of the oldest batch in the tables or above that of the newest, or there
            are no tables.
    """
    files = [file for name in TABLES for file in table_files(storage, name)]
    if not files:
        raise TimeTravelError(f"there are no tables in {storage.address()}: `barycenter pipeline run` writes them")
    oldest, newest = min(file.first for file in files), max(file.last for file in files)
    if not oldest <= batch_id <= newest:
        raise TimeTravelError(f"there is no batch {batch_id}: the tables have the batches {oldest} to {newest}")


def batch_as_of(storage: Storage, at_ms: int) -> int:
    """Return the id of the newest batch after which the tables have no report later than `at_ms` (epoch ms by the
    brokers' clocks; a report at this time is allowed).

    Raises:
        TimeTravelError: there is no such batch.
        DamagedTableError: a file cannot be read.
    """
    dates = [date for date in map(date_of, date_folders(storage, _TIMES)) if date <= utc_date(at_ms)]
    for date in reversed(dates):
        found = [batch for batch, as_of in _times(storage, date) if as_of <= at_ms]
        if found:
            return max(found)
    raise TimeTravelError("the tables have no batch of that time or before: ask for a later time")


def _times(storage: Storage, date: str) -> Iterator[tuple[int, int]]:
    """Yield pairs for the batches of a date: the batch id, and the time (epoch ms) of the newest report up to this
    batch. For a merged file that does not record which rows are of which batch, only its last batch is yielded.
    """
    for file in table_files(storage, _TIMES, dates=[date]):
        with opened_table(storage, file.path) as opened:
            times = opened.read(columns=["as_of"]).column("as_of").cast(pa.int64())
            segments = segments_of(file, opened)
        yield from _newest(times, [(segment.last, segment.rows) for segment in segments])


def _newest(times: pa.ChunkedArray, batches: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    for batch, rows in batches:
        if rows:
            yield batch, pc.max(times.slice(start, rows)).as_py() // 1000
        start += rows
