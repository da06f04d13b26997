"""The windows of bundles whose samples do not lie in the order of time: rows are sorted first, whole bundles folded.

What sorts, Spark or Arrow, does not matter to the last bit: all rows of a bundle are folded in one piece, so the result
depends on them alone. Free of Spark.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.folds.stretches import FOLDED, NAMES, StretchFold
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES

SAMPLE_ORDER: Final = ("reported_at", "broker", "incarnation", "sequence")
"""The order of the samples of a bundle."""
_PIECE_ROWS: Final = 200_000


def fold_sorted(rows: Iterable[pa.RecordBatch], gap_ms: int) -> pa.Table:
    """Return STRETCH of all bundles in `rows`, which are sorted by bundle and `SAMPLE_ORDER`; columns FOLDED."""
    return StretchFold(None, gap_ms).fold(map(with_dictionaries, whole_bundles(rows)))


def sorted_samples(pieces: Iterable[pa.Table], bundles: pa.Array) -> pa.Table:
    """Return the rows of `bundles` among `pieces` (columns FOLDED), sorted as `fold_sorted` needs them.

    Holds all of these rows in memory: 100 bytes each, twice while they are sorted.
    """
    schema = pa.schema([(name, BUNDLE_SAMPLES.arrow.field(name).type) for name in FOLDED])
    chosen = (piece.filter(pc.is_in(piece.column("bundle").cast(pa.string()), value_set=bundles)) for piece in pieces)
    found = pa.concat_tables([schema.empty_table(), *(rows.select(FOLDED).cast(schema) for rows in chosen)])
    return found.sort_by([(name, "ascending") for name in ("bundle", *SAMPLE_ORDER)])


def whole_bundles(batches: Iterable[pa.RecordBatch], least: int = _PIECE_ROWS) -> Iterator[pa.Table]:
    """Put sorted batches together to pieces of at least `least` rows, the last one aside, that no bundle spans."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) < least:
            continue
        rows = pa.Table.from_batches(held)
        names = rows.column("bundle")
        # the last bundle may go on in the next batch
        begins = pc.index(pc.equal(names, names[-1]), True).as_py()
        if begins:
            yield rows.slice(0, begins)
        held = rows.slice(begins).combine_chunks().to_batches()
    if held:
        yield pa.Table.from_batches(held)


def with_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the rows as the kernel has them, with `NAMES` as dictionaries."""
    rows = rows.combine_chunks()
    for position, name in enumerate(rows.column_names):
        if name in NAMES and not pa.types.is_dictionary(rows.schema.field(name).type):
            rows = rows.set_column(position, name, rows.column(name).dictionary_encode())
    return rows
