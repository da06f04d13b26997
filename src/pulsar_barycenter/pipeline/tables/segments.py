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
    """A segment of a table's file: neighbouring rows, written by the batches `first` to `last`, both inclusive."""

    first: int
    last: int
    rows: int


def segments_of(file: TableFile, opened: pq.ParquetFile) -> list[Segment]:
    """Return the segments of a file, in the order of its rows.

    A file without segments in its metadata, or whose segments do not match its rows, is one segment. Raises what
    reading the opened file does.
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
    """Return the key-value metadata that records `segments`."""
    return {SEGMENTS: msgspec.json.encode(list(segments)).decode()}


def rows_as_of(segments: Sequence[Segment], batch_id: int) -> int | None:
    """Return how many of the first rows belong to batches up to `batch_id` (inclusive).

    None if one segment has both batches up to `batch_id` and later ones, so that its rows cannot be divided.
    """
    rows = 0
    for segment in segments:
        if segment.first > batch_id:
            break
        if segment.last > batch_id:
            return None
        rows += segment.rows
    return rows
