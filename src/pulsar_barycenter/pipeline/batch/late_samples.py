"""Computes the windows of bundles whose samples are not in the order of time: sorts the rows, then folds whole bundles.

All rows of a bundle are folded in one piece. So the result is the same to the last bit whether Spark or Arrow sorts the
rows. This module does not use Spark.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.folds.stretches import FOLDED, NAMES, StretchFold
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES

SAMPLE_ORDER: Final = ("reported_at", "broker", "incarnation", "sequence")
"""The sort order of the samples of a bundle."""
_PIECE_ROWS: Final = 200_000


def fold_sorted(rows: Iterable[pa.RecordBatch], gap_ms: int) -> pa.Table:
    """Compute the average rates of bundles (their windows) from the samples in `rows`; return a table with the schema
    STRETCH, one row per bundle.

    The rows are sorted by bundle and then by `SAMPLE_ORDER`, and have the columns FOLDED. After more than `gap_ms`
    without a sample, earlier samples of a bundle no longer count.
    """
    return StretchFold(None, gap_ms).fold(map(with_dictionaries, whole_bundles(rows)))


def sorted_samples(pieces: Iterable[pa.Table], bundles: pa.Array) -> pa.Table:
    """Return those rows of `pieces` whose bundle is in `bundles`, sorted by bundle and then by `SAMPLE_ORDER`. `pieces`
    have the columns FOLDED.

    All returned rows are in memory at once, about 100 bytes each, and twice as much while they are sorted.
    """
    schema = pa.schema([(name, BUNDLE_SAMPLES.arrow.field(name).type) for name in FOLDED])
    chosen = (piece.filter(pc.is_in(piece.column("bundle").cast(pa.string()), value_set=bundles)) for piece in pieces)
    found = pa.concat_tables([schema.empty_table(), *(rows.select(FOLDED).cast(schema) for rows in chosen)])
    return found.sort_by([(name, "ascending") for name in ("bundle", *SAMPLE_ORDER)])


def whole_bundles(batches: Iterable[pa.RecordBatch], least: int = _PIECE_ROWS) -> Iterator[pa.Table]:
    """Combine `batches`, whose rows are sorted by bundle, into tables. All rows of a bundle are in the same table.

    A table is yielded as soon as at least `least` rows are there. The rows of the last bundle are kept for the next
    table, because more rows of this bundle may follow. The last table may have any size.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) < least:
            continue
        rows = pa.Table.from_batches(held)
        names = rows.column("bundle")
        # the last bundle may continue in the next batch
        begins = pc.index(pc.equal(names, names[-1]), True).as_py()
        if begins:
            yield rows.slice(0, begins)
        held = rows.slice(begins).combine_chunks().to_batches()
    if held:
        yield pa.Table.from_batches(held)


def with_dictionaries(rows: pa.Table) -> pa.Table:
    """Return `rows` with the columns that `folds.stretches.NAMES` lists encoded as Arrow dictionaries; `StretchFold`
    needs them so.
    """
    rows = rows.combine_chunks()
    for position, name in enumerate(rows.column_names):
        if name in NAMES and not pa.types.is_dictionary(rows.schema.field(name).type):
            rows = rows.set_column(position, name, rows.column(name).dictionary_encode())
    return rows
