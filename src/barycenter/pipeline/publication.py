"""Write what the leader reads: `PipelinePublication` from the results of a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from barycenter.load.publication import BROKER_COLUMNS, BUNDLE_COLUMNS, PipelinePublication, encode_publication
from barycenter.pipeline.layout import write_atomically
from barycenter.pipeline.state import FoldedReports


def make_publication(
    batch_id: int, bundles: pa.Table, brokers: pa.Table, folded: FoldedReports, *, published_at: int, oldest_report: int
) -> PipelinePublication:
    """Return the publication of a batch.

    `bundles` is BUNDLE_STATE sorted by bundle, `brokers` BROKER_DATA sorted by broker; times are epoch ms.
    `oldest_report` is the `lastUpdate` of the oldest report of this batch.
    """
    return PipelinePublication(
        batch_id=batch_id,
        published_at=published_at,
        as_of=folded.as_of,
        lag_ms=published_at - oldest_report,
        newest_lag_ms=published_at - folded.as_of,
        last_sequence={report.key.broker: (report.key.incarnation, report.key.sequence) for report in folded.newest},
        **{column: bundles.column(column).to_pylist() for column in ("bundle", *BUNDLE_COLUMNS)},
        **{column: brokers.column(column).to_pylist() for column in ("broker", *BROKER_COLUMNS)},
    )


def write_publication(file: Path, publication: PipelinePublication) -> None:
    """Replace the publication in `file` by an atomic rename."""
    write_atomically(file, encode_publication(publication))
