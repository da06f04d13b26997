"""The driver's part of a batch whose samples are folded in tasks; see the package."""

import uuid
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.parsing.report_rows import REPORT_ROW
from pulsar_barycenter.pipeline.reports.acceptance import Acceptance
from pulsar_barycenter.pipeline.reports.columns import ReportColumns, ReportTables, columns_of
from pulsar_barycenter.pipeline.sharded.blocks import HELD, read_table, split_state, write_table
from pulsar_barycenter.pipeline.sharded.jobs import Jobs
from pulsar_barycenter.pipeline.sharded.tasks import PART, REPORT, ShardPlan, keep_part, ranks_of
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import SHARDS
from pulsar_barycenter.pipeline.stream.windows import FoldedWindows
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES

_BEFORE: Final = "before"


class UnsharedFolderError(Exception):
    """The data directory is not a local folder, so Spark's tasks cannot write files there."""


class ShardedWindows:
    """Computes the averages of bundles in Spark's tasks: the bundles are divided into `shards` parts, and each task
    handles one. All workers must have the data directory under the same path.
    """

    def __init__(self, jobs: Jobs, storage: Storage, *, shards: int) -> None:
        """Store the arguments. `shards` is the number of parts into which bundles are divided.

        Raises:
            UnsharedFolderError: the data directory is not a local folder, so tasks cannot write there.
        """
        if storage.local_root is None:
            raise UnsharedFolderError(
                f"--fold sharded cannot be used with {storage.address()}: the tasks write to a folder that all workers"
                " have under one path, such as NFS. Use --fold driver"
            )
        self._jobs = jobs
        self._storage = storage
        self._root = storage.local_root / SHARDS
        self._shards = shards
        self._folder = self._root
        self._batch_id = -1
        """The id of the batch that was read last."""
        self._blocks: tuple[int, Path] | None = None
        """The batch whose blocks this process wrote last, and their folder."""

    def read(self, rows: DataFrame, held: pa.Table | None, batch_id: int) -> tuple[pa.Table, pa.Table | None]:
        # A separate folder: a task of an earlier run of this batch may still be writing.
        self._batch_id = batch_id
        self._folder = self._root / f"{batch_id:012d}-{uuid.uuid4().hex[:8]}"
        for entry in self._storage.entries(SHARDS):
            if self._blocks is None or entry.name != self._blocks[1].name:
                self._storage.delete(f"{SHARDS}/{entry.name}")
        self._storage.make_folder(f"{SHARDS}/{self._folder.name}")
        read = self._jobs.keep(rows, self._folder, self._shards)
        return read, None if held is None or not len(held) else keep_part(self._folder, self._shards, HELD, held)

    def fold(
        self, before: int, rows: BundleRows, reports: ReportColumns, acceptance: Acceptance, *, history_gap_ms: int
    ) -> FoldedWindows:
        kept = reports.chosen((*acceptance.accepted, *acceptance.late))
        accepted = reports.chosen(acceptance.accepted)
        plan = self._plan(self._blocks_of(before, rows), kept, accepted, acceptance, history_gap_ms)
        overtaken = self._jobs.fold(plan, self._shards)
        self._blocks = self._batch_id, self._folder
        samples = self._gathered("samples")
        order = np.lexsort((samples.column("position").to_numpy(), samples.column("report").to_numpy()))
        kept_samples = samples.take(pa.array(order)).select(BUNDLE_SAMPLES.names)
        return FoldedWindows(
            _tables(kept, kept_samples),
            _tables(accepted, BUNDLE_SAMPLES.arrow.empty_table()),
            self._gathered("touched").sort_by("bundle"),
            overtaken,
        )

    def held(self, reports: ReportColumns, acceptance: Acceptance) -> pa.Table:
        chosen = reports.chosen(acceptance.held)
        found = []
        for part, number in zip(chosen.column(PART).to_pylist(), chosen.column(REPORT).to_pylist(), strict=True):
            rows = read_table(self._folder / f"reports-{part}.arrow").slice(number, 1)
            found.append(rows.select(REPORT_ROW))
        return pa.concat_tables(found).combine_chunks() if found else chosen.select(REPORT_ROW)

    def _plan(
        self,
        before: Path,
        kept: pa.Table,
        accepted: pa.Table,
        acceptance: Acceptance,
        history_gap_ms: int,
    ) -> ShardPlan:
        parts = kept.column(PART).unique().to_pylist()
        sizes = {part: len(read_table(self._folder / f"reports-{part}.arrow")) for part in parts}
        orders, counted = ranks_of(kept, sizes), ranks_of(accepted, sizes)
        is_accepted = np.zeros(len(kept), bool)
        for part, ranks in orders.items():
            here = ranks >= 0
            is_accepted[ranks[here]] = counted[part][here] >= 0
        return ShardPlan(before, self._folder, orders, is_accepted, acceptance.reports.as_of, history_gap_ms)

    def _blocks_of(self, batch_id: int, rows: BundleRows) -> Path:
        """Return the folder with the averages of bundles after the batch `batch_id`, one file (block) for each shard.
        If this process has not written them for that batch, write them from `rows`.
        """
        if self._blocks is not None and self._blocks[0] == batch_id:
            return self._blocks[1]
        self._storage.make_folder(f"{SHARDS}/{self._folder.name}/{_BEFORE}")
        for shard, block in enumerate(split_state(rows.table(), self._shards)):
            write_table(self._folder / _BEFORE / f"block-{shard}.arrow", block)
        return self._folder / _BEFORE

    def _gathered(self, kind: str) -> pa.Table:
        return pa.concat_tables([read_table(self._folder / f"{kind}-{shard}.arrow") for shard in range(self._shards)])


def _tables(reports: pa.Table, samples: pa.Table) -> ReportTables:
    return ReportTables(columns_of(reports.column("load_report")), columns_of(reports.column("broker_usage")), samples)
