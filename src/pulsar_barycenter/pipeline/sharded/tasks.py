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
    """What the tasks need to know to compute the averages of one batch; it is the same for all shards.

    `before` is the folder with the averages before this batch, `folder` the folder of this batch. The reports that
    count in this batch (accepted and late ones) are numbered from 0 in the order of their times. `orders` has for each
    part, and each report in it, this number, or -1 if the report does not count. `accepted` has for each number whether
    the report is accepted.
    """

    before: Path
    folder: Path
    orders: Mapping[int, NDArray[np.int64]]
    accepted: NDArray[np.bool_]
    as_of_ms: int
    history_gap_ms: int


def keep_part(folder: Path, shards: int, part: int, reports: pa.Table) -> pa.Table:
    """Write the samples of `reports`, which are the part with the number `part`, to files in `folder`. Return `reports`
    with two more columns: PART (the number of the part) and REPORT (the row number of the report in the part).
    `samples` of the result has only the names of the bundles.

    `reports` has the columns of `parsing.report_rows`, and may have more. For a line that is not a valid report they
    are null.
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
    """Update the averages of the bundles of one shard with their samples in this batch. Write the samples, and the new
    averages (the block of the shard), to files in `plan.folder`.

    Return (broker, incarnation, sequence) of each report that has a sample of a bundle for which earlier batches had a
    sample of the same time or a newer one.
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
    """Return `ShardPlan.orders`: for each part an array with one item for each of its reports, the index of the report
    in `reports`, or -1 if it is not there. `sizes` has the number of reports of each part.
    """
    orders = {part: np.full(size, -1, np.int64) for part, size in sizes.items()}
    parts, numbers = (reports.column(name).to_pylist() for name in (PART, REPORT))
    for rank, (part, number) in enumerate(zip(parts, numbers, strict=True)):
        orders[part][number] = rank
    return orders
