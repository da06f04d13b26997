"""The micro-batches of the running pipeline: new reports in, tables, state and publication out.

Batch N does, in this order: read the new reports; leave out those folded in before; append to `bundle_samples`; fold
the samples into the windows of state N-1; append the bundles that had samples to `bundle_data` and all brokers to
`broker_data`; keep state N; publish. Spark may run N again after a crash, with the same files. It then starts from
state N-1 again and writes the same files over, so each report takes effect exactly once, wherever the crash was.

A report reaches at most one batch through Spark's own record of files, and counts at most once through the sequences
kept in the state. The second holds alone: the record of files may be thrown away (see `pipeline.job`).

The stream equals `batch.fold_history` over the same reports as long as reports of one bundle arrive in the order of
their times. A sample that arrives late, in a later batch than a newer one of its bundle, counts as if it
were the newest.

Bundles and brokers not heard of for an hour (`HISTORY_GAP_MS`) leave the state. A bundle in no broker's newest report
thus stays for a while: it is being moved, or was split, or its topics are idle, and the leader may have to place it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from barycenter.load.publication import PipelinePublication
from barycenter.load.windows import HISTORY_GAP_MS
from barycenter.pipeline.batch import JSON_OPTIONS
from barycenter.pipeline.broker_averages import broker_averages
from barycenter.pipeline.layout import PipelineLayout
from barycenter.pipeline.publication import make_publication, write_publication
from barycenter.pipeline.samples import IS_REPORT, bundle_samples, valid_reports
from barycenter.pipeline.schemas import BROKER_DATA, BUNDLE_DATA, BUNDLE_STATE, CORRUPT, LOAD_REPORT_LINE, MEMBERSHIP
from barycenter.pipeline.state import (
    Acceptance,
    FoldedReports,
    PriorState,
    ReportHeader,
    ReportKey,
    StateFolder,
    accept_reports,
)
from barycenter.pipeline.tables import Tables
from barycenter.pipeline.windows import fold_windows

_SMALL_SAMPLES = 20_000
"""Up to so many samples a batch is folded by one task."""

_FILE = "file"
_ROW = "row"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How reports are read. A batch takes at most `max_files` reports, oldest files first."""

    max_files: int = 500
    history_gap_ms: int = HISTORY_GAP_MS
    archive: bool = True
    """Move read reports to the archive: listing the log then costs what is new, not what was ever written."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did. `lag_ms` and `newest_lag_ms` are None for a batch without an acceptable report."""

    batch_id: int
    reports: int
    samples: int
    bundles: int
    duplicates: int
    corrupt_files: tuple[str, ...]
    lag_ms: int | None
    newest_lag_ms: int | None
    seconds: float


def read_reports(session: SparkSession, layout: PipelineLayout, settings: StreamSettings) -> DataFrame:
    """The stream of report lines: LOAD_REPORT_LINE and `file`, the path a line came from.

    Listing: only the date folders' direct files. Spark remembers each file it read for two days, longer than the log
    keeps one; `pipeline.job` begins a new record before that memory grows large.
    """
    options: dict[str, str | int] = {**JSON_OPTIONS, "maxFilesPerTrigger": settings.max_files, "maxFileAge": "48h"}
    if settings.archive:
        options |= {"cleanSource": "archive", "sourceArchiveDir": str(layout.archive)}
    reader = session.readStream.schema(LOAD_REPORT_LINE).options(**options)
    return reader.json(f"{layout.report_log}/*").selectExpr("*", f"_metadata.file_path as {_FILE}")


class BatchFold:
    """Carries out batches, one after the other; give `run` to foreachBatch."""

    def __init__(
        self,
        layout: PipelineLayout,
        *,
        first_batch: int = 0,
        settings: StreamSettings | None = None,
        clock_ms: Callable[[], int],
        on_batch: Callable[[BatchResult], None] = lambda result: None,
    ) -> None:
        """`first_batch` is the id of Spark's batch 0, `clock_ms` the wall clock that lag is measured by."""
        self._settings = settings or StreamSettings()
        self._first_batch = first_batch
        self._clock_ms = clock_ms
        self._on_batch = on_batch
        self._tables = Tables(layout.tables)
        self._states = StateFolder(layout.state)
        self._publication = layout.publication
        self._written: PriorState | None = None

    def run(self, lines: DataFrame, spark_batch: int) -> None:
        """Fold one batch. Input: LOAD_REPORT_LINE and `file`."""
        started = time.perf_counter()
        batch_id = self._first_batch + spark_batch
        prior = self._prior(batch_id)
        cached = lines.selectExpr("*", f"monotonically_increasing_id() as {_ROW}").select(*_NEEDED).persist()
        try:
            headers, corrupt = _collect_headers(cached)
            acceptance = accept_reports(prior.folded, headers, broker_memory_ms=self._settings.history_gap_ms)
            published = self._fold(batch_id, cached, prior, acceptance) if acceptance.accepted else None
        finally:
            cached.unpersist()
        self._on_batch(
            BatchResult(
                batch_id=batch_id,
                reports=len(acceptance.accepted),
                samples=sum(len(header.bundles) for header in acceptance.accepted),
                bundles=len(published.bundle) if published else 0,
                duplicates=len(acceptance.dropped_rows),
                corrupt_files=corrupt,
                lag_ms=published.lag_ms if published else None,
                newest_lag_ms=published.newest_lag_ms if published else None,
                seconds=time.perf_counter() - started,
            )
        )

    def _prior(self, batch_id: int) -> PriorState:
        if self._written is not None and self._written.batch_id < batch_id:
            return self._written
        return self._states.before(batch_id)

    def _fold(self, batch_id: int, cached: DataFrame, prior: PriorState, acceptance: Acceptance) -> PipelinePublication:
        samples = cached.transform(valid_reports).transform(_without_rows, acceptance.dropped_rows)
        samples = samples.transform(bundle_samples)
        if any(header.bundles for header in acceptance.accepted):
            self._tables.write("bundle_samples", batch_id, samples, time="reported_at")
        folded = acceptance.folded
        bundles = self._fold_windows(samples, prior, acceptance)
        session = cached.sparkSession
        brokers = _average_brokers(session, folded, bundles)
        with_samples = bundles.filter(pc.greater(bundles.column("new_samples"), 0)).select(BUNDLE_DATA.names)
        self._tables.write_small("bundle_data", batch_id, with_samples, time="as_of")
        self._tables.write_small("broker_data", batch_id, brokers, time="as_of")
        self._written = self._states.write(batch_id, bundles.select(BUNDLE_STATE.names), folded)
        published = make_publication(
            batch_id,
            bundles,
            brokers,
            folded,
            published_at=self._clock_ms(),
            oldest_report=min(header.key.reported_at for header in acceptance.accepted),
        )
        write_publication(self._publication, published)
        return published

    def _fold_windows(self, samples: DataFrame, prior: PriorState, acceptance: Acceptance) -> pa.Table:
        """BUNDLE_STATE and `new_samples` of every bundle not yet forgotten, sorted by bundle."""
        session = samples.sparkSession
        known = None if prior.bundles is None else session.read.schema(BUNDLE_STATE).parquet(str(prior.bundles))
        gap_ms = self._settings.history_gap_ms
        is_small = sum(len(header.bundles) for header in acceptance.accepted) <= _SMALL_SAMPLES
        folded = fold_windows(samples, known, history_gap_ms=gap_ms, one_task=is_small)
        bundles = folded.toArrow().sort_by("bundle")
        oldest = pa.scalar((acceptance.folded.as_of - gap_ms) * 1000, bundles.schema.field("as_of").type)
        return bundles.filter(pc.greater_equal(bundles.column("as_of"), oldest))


_NEEDED = ("brokerId", "incarnation", "sequence", "lastUpdate", "lastStats", CORRUPT, _FILE, _ROW)


def _collect_headers(cached: DataFrame) -> tuple[list[ReportHeader], tuple[str, ...]]:
    """The headers of the valid lines, and the files of the others."""
    rows = cached.selectExpr(
        *(_ROW, _FILE, f"{IS_REPORT} as is_valid", "brokerId", "incarnation", "sequence", "lastUpdate"),
        "coalesce(map_keys(lastStats), array()) as bundles",
    ).toArrow()
    headers: list[ReportHeader] = []
    corrupt: list[str] = []
    for row in rows.to_pylist():
        if row["is_valid"]:
            key = ReportKey(row["lastUpdate"], row["brokerId"], row["incarnation"], row["sequence"])
            headers.append(ReportHeader(row[_ROW], key, tuple(row["bundles"])))
        else:
            corrupt.append(row[_FILE])
    return headers, tuple(corrupt)


def _without_rows(rows: DataFrame, dropped: tuple[int, ...]) -> DataFrame:
    return rows.where(f"{_ROW} not in ({', '.join(map(str, dropped))})") if dropped else rows


def _average_brokers(session: SparkSession, folded: FoldedReports, bundles: pa.Table) -> pa.Table:
    """BROKER_DATA as of the newest report, sorted by broker."""
    brokers, names = zip(*folded.members, strict=True)
    members = pa.table({"broker": pa.array(brokers, pa.string()), "bundle": pa.array(names, pa.string())})
    assert members.column_names == MEMBERSHIP.names
    averages = broker_averages(
        session.createDataFrame(members).coalesce(1), session.createDataFrame(bundles).coalesce(1)
    ).toArrow()
    # Not a literal in the plan: Spark would compile the plan anew for every batch.
    as_of = pa.array([folded.as_of * 1000] * len(averages), pa.timestamp("us", "UTC"))
    return averages.append_column("as_of", as_of).select(BROKER_DATA.names).sort_by("broker")
