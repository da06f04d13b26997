"""The work of the tasks of both jobs, as functions that read and write files. Does not use Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pulsar_barycenter.pipeline.folds.live_windows import fold_samples, overtaken_reports, without_silent
from pulsar_barycenter.pipeline.reports.acceptance import TakenKey
from pulsar_barycenter.pipeline.sharded.blocks import (
    TAGGED,
    read_batch,
    read_table,
    split_samples,
    write_arrow,
    write_table,
)
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES

PART = "part"
REPORT = "report"


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What the tasks of all shards need to know to fold one batch.

    `before` and `folder` are the folders of the batch before and of this batch. `orders` has, for each part, the rank
    of each of its reports among the kept reports, or -1. `accepted` has, for each rank, whether the report is accepted.
    """

    before: Path
    folder: Path
    orders: Mapping[int, NDArray[np.int64]]
    accepted: NDArray[np.bool_]
    as_of_ms: int
    history_gap_ms: int


def keep_part(folder: Path, shards: int, part: int, reports: pa.Table) -> pa.Table:
    """Write the samples of the part `part` of the reports to files. Return `reports` with the added columns PART and
    REPORT, and of each sample only the bundle name.

    Input: the columns of `parsing.report_rows`, and others; rows are null for lines that are not reports.
    """
    reports = reports.combine_chunks()
    write_arrow(folder / f"part-{part}.arrow", split_samples(reports, shards), TAGGED)
    write_table(folder / f"reports-{part}.arrow", reports)
    column = reports.schema.get_field_index("samples")
    named = reports.set_column(column, "samples", _names_alone(reports.column("samples")))
    count = len(reports)
    return named.append_column(PART, pa.array([part] * count, pa.int64())).append_column(
        REPORT, pa.array(range(count), pa.int64())
    )


def _names_alone(samples: pa.ChunkedArray) -> pa.Array:
    lists = samples.combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    bundles = lists.values.field("bundle")
    structs = pa.StructArray.from_arrays([bundles], fields=[pa.field("bundle", pa.string())])
    # a null row keeps its offsets, which are those of an empty list
    return pa.ListArray.from_arrays(lists.offsets, structs, mask=lists.is_null() if lists.null_count else None)


def fold_shard(plan: ShardPlan, shard: int) -> list[TakenKey]:
    """Fold the samples of a shard into its block of windows, and write the samples and the new block to files.

    Returns the keys of the overtaken reports: those with a sample that is not newer than the newest sample of its
    bundle in earlier batches.
    """
    chosen, ranks = [], []
    for part, orders in sorted(plan.orders.items()):
        rows = read_batch(plan.folder / f"part-{part}.arrow", shard)
        rank = orders[rows.column("report").to_numpy()]
        kept = np.flatnonzero(rank >= 0)
        chosen.append(pa.Table.from_batches([rows]).take(pa.array(kept)))
        ranks.append(rank[kept])
    rank = np.concatenate([np.zeros(0, np.int64), *ranks])
    samples = pa.concat_tables([TAGGED.empty_table(), *chosen]).set_column(0, "report", pa.array(rank))
    order = np.lexsort((samples.column("position").to_numpy(), rank))
    samples = samples.take(pa.array(order)).combine_chunks()
    counted = samples.filter(pa.array(plan.accepted[rank[order]])).select(BUNDLE_SAMPLES.names)
    before = read_table(plan.before / f"block-{shard}.arrow")
    overtaken = overtaken_reports(before, counted)
    after, touched = fold_samples(before, counted, history_gap_ms=plan.history_gap_ms)
    after = without_silent(after, as_of_ms=plan.as_of_ms, history_gap_ms=plan.history_gap_ms)
    write_table(plan.folder / f"samples-{shard}.arrow", samples)
    write_table(plan.folder / f"touched-{shard}.arrow", touched)
    write_table(plan.folder / f"block-{shard}.arrow", after)
    return overtaken


def ranks_of(reports: pa.Table, sizes: Mapping[int, int]) -> dict[int, NDArray[Any]]:
    """Return `ShardPlan.orders` for the kept reports, in their order. `sizes` has the number of reports per part."""
    orders = {part: np.full(size, -1, np.int64) for part, size in sizes.items()}
    parts, numbers = (reports.column(name).to_pylist() for name in (PART, REPORT))
    for rank, (part, number) in enumerate(zip(parts, numbers, strict=True)):
        orders[part][number] = rank
    return orders
