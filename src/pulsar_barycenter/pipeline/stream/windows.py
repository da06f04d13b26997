"""Where the windows of bundles are folded in a batch: the interface, and the way that needs no Spark task, the driver.

`pipeline.sharded` is the other way. Both make the same values, to the last bit.
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
    """The samples of a batch, folded.

    `kept` are the rows for the tables of reports, `accepted` are the rows of accepted reports (in sharded mode without
    samples). `with_samples` is BUNDLE_STATE after the batch of the bundles that had samples, sorted by bundle.
    `overtaken`: see `folds.live_windows.overtaken_reports`.
    """

    kept: ReportTables
    accepted: ReportTables
    with_samples: pa.Table
    overtaken: list[TakenKey]


class Windows(Protocol):
    """Reads the reports of a batch, then folds the samples of those accepted. A batch that fails is read again."""

    def read(self, rows: DataFrame, held: pa.Table | None, batch_id: int) -> tuple[pa.Table, pa.Table | None]:
        """Return `rows` (what `parsing.report_rows` makes, and `file`) and `held` as `ReportColumns.of` takes them."""
        ...

    def fold(
        self, before: int, rows: BundleRows, reports: ReportColumns, acceptance: Acceptance, *, history_gap_ms: int
    ) -> FoldedWindows:
        """Fold the samples of the accepted reports, which `read` returned, into the windows in `rows`.

        `rows` are those after the batch `before`; they are not changed.
        """
        ...

    def held(self, reports: ReportColumns, acceptance: Acceptance) -> pa.Table:
        """Return the reports that wait, as `parsing.report_rows` makes them."""
        ...


class DriverWindows:
    """Folds in the driver: of the rows that a batch has, that takes milliseconds."""

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
