"""The files of a batch by shard: `pipeline/shards/<batch>-<run>/`, in Arrow's file format, deleted two batches later.

part-<number>.arrow       the samples of some reports, one record batch per shard: `TAGGED`
reports-<number>.arrow    these reports, with the columns of `parsing.report_rows`
block-<shard>.arrow       BUNDLE_STATE of a shard after the batch
samples-<shard>.arrow     the samples of accepted and late reports in a shard: `TAGGED`
touched-<shard>.arrow     BUNDLE_STATE of the bundles of a shard that had samples
before/block-<shard>.arrow   the state before the batch, if there are no blocks of it

A file appears as a whole, by a rename. If it is written again, it has the same content. Does not use Spark.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pulsar_barycenter.pipeline.reports.columns import columns_of, exploded
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES
from pulsar_barycenter.whole_files.appearing import appearing

TAGGED: Final = pa.schema(
    [
        ("report", pa.int64()),
        ("position", pa.int64()),
        *((field.name, field.type) for field in BUNDLE_SAMPLES.arrow),
    ]
)
"""Samples with the row number of their report in its part, and their position in the report."""

HELD: Final = -1
"""The number of the part that has the reports that were held back."""


def shard_of(names: Sequence[str], shards: int) -> Any:
    """Return for each bundle in `names` the number of its shard (the part of the bundles that one task handles), from 0
    to `shards` - 1.
    """
    return np.fromiter((zlib.crc32(name.encode()) % shards for name in names), np.int64, len(names))


def split_samples(reports: pa.Table, shards: int) -> list[pa.RecordBatch]:
    """Return the samples of `reports` (columns of `parsing.report_rows`) as one record batch for each shard, in the
    order of the shards' numbers. Each sample also has the row number of its report and its position in the report
    (schema TAGGED).
    """
    parents, samples = exploded(reports.column("samples"))
    identity = columns_of(reports.column("load_report")).select(["broker", "incarnation", "sequence", "reported_at"])
    report = np.asarray(parents, np.int64)
    first = np.searchsorted(report, report)
    columns = {name: samples.column(name) for name in samples.column_names}
    columns |= {name: identity.column(name).take(parents) for name in identity.column_names}
    columns |= {"report": pa.array(report), "position": pa.array(np.arange(len(report)) - first)}
    tagged = pa.table({name: columns[name] for name in TAGGED.names}).cast(TAGGED)
    codes = shard_of(tagged.column("bundle").to_pylist(), shards)
    return [_one_batch(tagged.filter(pa.array(codes == shard))) for shard in range(shards)]


def split_state(bundles: pa.Table, shards: int) -> list[pa.Table]:
    """Divide the rows of `bundles` (columns BUNDLE_STATE) among the shards. Return one table for each shard, in the
    order of the shards' numbers; rows keep their order.
    """
    codes = shard_of(bundles.column("bundle").to_pylist(), shards)
    return [bundles.filter(pa.array(codes == shard)) for shard in range(shards)]


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def write_arrow(file: Path, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write `batches` to an Arrow file. The file appears only when it is complete, and replaces an existing one."""
    with (
        appearing(file) as unfinished,
        pa.OSFile(str(unfinished), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def write_table(file: Path, table: pa.Table) -> None:
    write_arrow(file, table.to_batches(), table.schema)


def read_table(file: Path) -> pa.Table:
    """Return the rows of an Arrow file as a table. The file is mapped into memory, not copied."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def read_batch(file: Path, number: int) -> pa.RecordBatch:
    """Return the record batch with the index `number` of an Arrow file. The file is mapped into memory, not copied."""
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).get_batch(number)
