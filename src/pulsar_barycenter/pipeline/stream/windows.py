"""Folds the samples of a batch into the windows of bundles: the interface (`Windows`), and folding in the driver.

`pipeline.sharded` folds in Spark's tasks instead. Both return the same values, bit for bit.
"""

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.folds.live_windows import fold_samples, overtaken_reports
from pulsar_barycenter.pipeline.reports.acceptance import Acceptance, TakenKey
from pulsar_barycenter.pipeline.reports.columns import ReportColumns, ReportTables


@dataclass(frozen=True, slots=True)
class FoldedWindows:
    """The result of folding the samples of a batch.

    `kept` has the rows of accepted and late reports, for the tables; `accepted` those of accepted reports (without
    samples if folded by shard). `with_samples` is BUNDLE_STATE after the batch, only bundles with samples, sorted by
    bundle. `overtaken`: see `folds.live_windows.overtaken_reports`.
    """

    kept: ReportTables
    accepted: ReportTables
    with_samples: pa.Table
    overtaken: list[TakenKey]


class Windows(Protocol):
    """The way to fold a batch: reads the reports of the batch, then folds the samples of the accepted reports into
    windows.

    For each batch `read`, `fold` and `held` are called in this order; if the batch fails, from `read` on again.
    """

    def read(self, rows: DataFrame, held: pa.Table | None, batch_id: int) -> tuple[pa.Table, pa.Table | None]:
        """Return `rows` and `held` as Arrow tables, as `ReportColumns.of` takes them.

        `rows` has the columns of `parsing.report_rows`, and `file`; `held` has the reports held back, None if none.
        """
        ...

    def fold(
        self, before: int, rows: BundleRows, reports: ReportColumns, acceptance: Acceptance, *, history_gap_ms: int
    ) -> FoldedWindows:
        """Fold the samples of the accepted reports into the windows of `rows`, and return the new windows.

        `rows` is the state after the batch `before` and is not changed. `reports` are those that `read` returned.
        """
        ...

    def held(self, reports: ReportColumns, acceptance: Acceptance) -> pa.Table:
        """Return the reports that the batch holds back, with the columns of `parsing.report_rows`."""
        ...


class DriverWindows:
    """Folds the samples in Spark's driver, without tasks, which takes milliseconds for a batch of usual size."""

    def read(self, rows: DataFrame, held: pa.Table | None, batch_id: int) -> tuple[pa.Table, pa.Table | None]:
        return rows.toArrow(), held

    def fold(
        self, before: int, rows: BundleRows, reports: ReportColumns, acceptance: Acceptance, *, history_gap_ms: int
    ) -> FoldedWindows:
        accepted = reports.rows(acceptance.accepted)
        kept = reports.rows((*acceptance.accepted, *acceptance.late)) if acceptance.late else accepted
        known = rows.of(accepted.bundle_samples.column("bundle").to_pylist())
        overtaken = overtaken_reports(known, accepted.bundle_samples)
        _, with_samples = fold_samples(known, accepted.bundle_samples, history_gap_ms=history_gap_ms)
        return FoldedWindows(kept, accepted, with_samples, overtaken)

    def held(self, reports: ReportColumns, acceptance: Acceptance) -> pa.Table:
        return reports.chosen(acceptance.held)
