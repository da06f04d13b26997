"""The two jobs of a batch by shard without Spark: its tasks one after the other, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from pulsar_barycenter.pipeline.reports.acceptance import TakenKey
from pulsar_barycenter.pipeline.sharded.tasks import ShardPlan, fold_shard, keep_part


class LocalJobs:
    """`parts` is the number of partitions that the rows of a batch come in; reports go to them in turn."""

    def __init__(self, parts: int = 3) -> None:
        self._parts = parts

    def keep(self, rows: Any, folder: Path, shards: int) -> pa.Table:
        table = rows.toArrow()
        pieces = [table.take(pa.array(range(part, len(table), self._parts), pa.int64())) for part in range(self._parts)]
        kept = [keep_part(folder, shards, part, piece) for part, piece in enumerate(pieces) if len(piece)]
        return pa.concat_tables(kept or [keep_part(folder, shards, 0, table)])

    def fold(self, plan: ShardPlan, shards: int) -> list[TakenKey]:
        return [key for shard in range(shards) for key in fold_shard(plan, shard)]
