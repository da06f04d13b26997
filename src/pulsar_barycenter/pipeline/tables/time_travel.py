"""The tables as they were after a batch: which files, and how many rows of each.

Rows are only ever added, so the tables as of a batch are the rows of the batches up to it. Files name their batches and
compacted ones say which rows are of which (see `segments`), so this needs no copies and holds for as long as the dates
are kept. It does not bring back what retention or the deletion of a tenant took away.
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
"""A batch that accepted reports wrote rows to this table, whose `as_of` is the time of the newest report."""


class TimeTravelError(Exception):
    """The tables are not known as of that batch or time; the text is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The first `rows` rows of a file; None stands for all of them."""

    path: str
    rows: int | None = None


def all_parts(storage: Storage, name: str) -> list[FilePart]:
    """Return the whole table `name` as of now."""
    return [FilePart(file.path) for file in table_files(storage, name)]


def parts_as_of(storage: Storage, name: str, batch_id: int) -> list[FilePart]:
    """Return the table `name` as of a batch: as the batch left it.

    Raises:
        TimeTravelError: a file was compacted of batches before and after, by a release that did not note their rows.
        DamagedTableError: a compacted file cannot be read.
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
                    f"{storage.address(file.path)} holds batches {file.first} to {file.last} without a note of which"
                    f" rows are of which: ask for batch {file.last} or a later one, or one before {file.first}"
                )
            found.append(FilePart(file.path, rows))
    return found


def check_batch(storage: Storage, batch_id: int) -> None:
    """Return if the tables are known as of a batch.

    Raises:
        TimeTravelError: it is before the oldest batch that is kept, or after the newest.
    """
    files = [file for name in TABLES for file in table_files(storage, name)]
    if not files:
        raise TimeTravelError(f"there are no tables in {storage.address()}")
    oldest, newest = min(file.first for file in files), max(file.last for file in files)
    if not oldest <= batch_id <= newest:
        raise TimeTravelError(f"there is no batch {batch_id}: the tables hold batches {oldest} to {newest}")


def batch_as_of(storage: Storage, at_ms: int) -> int:
    """Return the newest batch whose reports are all of a time (epoch ms, by the clocks of brokers) or before it.

    Raises:
        TimeTravelError: there is none.
        DamagedTableError: a file cannot be read.
    """
    dates = [date for date in map(date_of, date_folders(storage, _TIMES)) if date <= utc_date(at_ms)]
    for date in reversed(dates):
        found = [batch for batch, as_of in _times(storage, date) if as_of <= at_ms]
        if found:
            return max(found)
    raise TimeTravelError("the tables hold no batch of that time or before it")


def _times(storage: Storage, date: str) -> Iterator[tuple[int, int]]:
    """The batches of a date, each with the time of its newest report, epoch ms; of rows without a note the last one."""
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
