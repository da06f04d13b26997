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
    """The new averages of bundles after a batch, and the rows of its reports.

    `kept` has the rows for the tables: of accepted and late reports. `accepted` has the rows of accepted reports; if
    the samples were handled by shard, it has no samples. `with_samples` has the columns BUNDLE_STATE after the batch,
    only for bundles with samples in accepted reports, sorted by bundle. `overtaken` is the result of
    `folds.live_windows.overtaken_reports`.
    """

    kept: ReportTables
    accepted: ReportTables
    with_samples: pa.Table
    overtaken: list[TakenKey]


class Windows(Protocol):
    """Reads the reports of a batch, and computes the averages of bundles from the samples of the accepted ones.

    For each batch the caller calls `read`, `fold` and `held`, in this order. If the batch fails, it calls them again
    for the same batch, from `read` on.
    """

    def read(self, rows: DataFrame, held: pa.Table | None, batch_id: int) -> tuple[pa.Table, pa.Table | None]:
        """Return `rows` and `held` as Arrow tables, in the form that `ReportColumns.of` needs.

        `rows` are the new lines, with the columns of `parsing.report_rows` and `file`. `held` are the reports that the
        previous batch held back; None if there are none.
        """
        ...

    def fold(
        self, before: int, rows: BundleRows, reports: ReportColumns, acceptance: Acceptance, *, history_gap_ms: int
    ) -> FoldedWindows:
        """Compute the averages of bundles after the batch from the samples of the accepted reports.

        `rows` has the averages after the batch with the id `before`, and is not changed. `reports` are those that
        `read` returned, and `acceptance` says which of them are accepted.
        """
        ...

    def held(self, reports: ReportColumns, acceptance: Acceptance) -> pa.Table:
        """Return those of `reports` that the batch holds back, with the columns of `parsing.report_rows`."""
        ...


class DriverWindows:
    """Computes the averages of bundles in Spark's driver, without Spark tasks. For a batch of usual size this takes
    milliseconds.
    """

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
