"""Segments of a file: which rows belong to which batches.

A compacted file has the rows of its sources one after another, in the order of their batches. Its metadata has the
number of rows of each source (a segment), so the rows as of a batch are the first rows of the file. A file that an
early release of Barycenter compacted has no such metadata: it is one segment, which cannot be divided.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.tables.table_log import TableFile

SEGMENTS: Final = "barycenter.batches"
"""The key of the metadata: a JSON array of [first batch, last batch, rows]."""


class Segment(NamedTuple):
    """A segment of a table's file: `rows` consecutive rows, which the batches from `first` to `last` (both inclusive)
    wrote.
    """

    first: int
    last: int
    rows: int


def segments_of(file: TableFile, opened: pq.ParquetFile) -> list[Segment]:
    """Return the segments of a file, in the order of its rows.

    If the file has rows of one batch only, or does not record segments that match its rows, the result is one segment
    with all rows. Raises the errors of reading the opened file.
    """
    metadata = opened.metadata
    whole = [Segment(file.first, file.last, metadata.num_rows)]
    kept = (metadata.metadata or {}).get(SEGMENTS.encode())
    if file.first == file.last or kept is None:
        return whole
    try:
        found = msgspec.json.decode(kept, type=list[Segment])
    except msgspec.DecodeError:
        return whole
    return found if sum(segment.rows for segment in found) == metadata.num_rows else whole


def as_metadata(segments: Iterable[Segment]) -> dict[str, str]:
    """Return the key-value metadata of a Parquet file that records `segments`."""
    return {SEGMENTS: msgspec.json.encode(list(segments)).decode()}


def rows_as_of(segments: Sequence[Segment], batch_id: int) -> int | None:
    """Return how many rows at the begin of the file belong to batches up to `batch_id` (inclusive).

    Return None if one segment has rows of these batches and of later ones, so that they cannot be told apart.
    """
    rows = 0
    for segment in segments:
        if segment.first > batch_id:
            break
        if segment.last > batch_id:
            return None
        rows += segment.rows
    return rows
