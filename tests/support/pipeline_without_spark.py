"""Batches of the pipeline without Spark: this module makes the rows of reports, and Arrow reads the tables."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.pipeline.reports.acceptance import ReportKey
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream import micro_batches
from pulsar_barycenter.pipeline.stream.backlog import FileHeader, in_order
from pulsar_barycenter.pipeline.stream.batch_result import BatchResult
from pulsar_barycenter.pipeline.stream.micro_batches import BatchFold, StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.files import live_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.pipeline_oracles import PipelineOracle
from support.pipeline_runs import Row, assert_same, first_columns

_STRUCTS = {name: pa.struct(list(TABLES[name].arrow_schema)) for name in ("load_reports", "broker_usage")}
_OF_REPORT = ("broker", "incarnation", "sequence", "reported_at")
_SAMPLE = pa.struct([field for field in TABLES["bundle_samples"].arrow_schema if field.name not in _OF_REPORT])
_KEY = pa.struct(
    [("brokerId", pa.string()), ("incarnation", pa.string()), ("sequence", pa.int64()), ("lastUpdate", pa.int64())]
)


class Lines:
    """Represents the lines of some reports, and the rows that `parsing.report_rows` makes of them."""

    def __init__(self, reports: Sequence[LocalBrokerData]) -> None:
        self._reports = reports

    def toArrow(self) -> pa.Table:
        keys = [
            {"brokerId": r.broker_id, "incarnation": r.incarnation, "sequence": r.sequence, "lastUpdate": r.last_update}
            for r in self._reports
        ]
        rows = [PipelineOracle([report]) for report in self._reports]
        samples = [[{k: v for k, v in row.items() if k not in _OF_REPORT} for row in o.bundle_samples()] for o in rows]
        return pa.table(
            {
                "file": pa.array(map(file_of, self._reports), pa.string()),
                "key": pa.array(keys, _KEY),
                "gains": pa.array([[] for _ in rows], pa.list_(pa.string())),
                "load_report": pa.array([_in_utc(o.load_reports()[0]) for o in rows], _STRUCTS["load_reports"]),
                "broker_usage": pa.array([_in_utc(o.broker_usage()[0]) for o in rows], _STRUCTS["broker_usage"]),
                "samples": pa.array(samples, pa.list_(_SAMPLE)),
            }
        )


def file_of(report: LocalBrokerData) -> str:
    return f"{report.broker_id}-{report.incarnation}-{report.sequence}-{report.last_update}"


def run_once(
    layout: PipelineLayout,
    reports: Sequence[LocalBrokerData],
    settings: StreamSettings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    before_batch: Callable[[int], None] = lambda batch: None,
) -> list[BatchResult]:
    """Fold reports in the given order as a run of the pipeline does: those of one batch at once, more as a backlog."""
    monkeypatch.setattr(micro_batches, "report_rows", lambda lines, *_: lines)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no machine loses power
    results: list[BatchResult] = []
    fold = BatchFold(layout, settings=settings, clock_ms=lambda: 0, on_batch=results.append)
    by_file = {file_of(report): report for report in reports}
    parts: list[tuple[str, ...]] = [tuple(map(file_of, reports))]
    if len(reports) > settings.max_files:
        parts = in_order([FileHeader(name, key_of(report)) for name, report in by_file.items()], settings.max_files)
    for part in parts:
        kept = StateFolder(layout).batch_ids()
        batch = kept[-1] + 1 if kept else 0
        before_batch(batch)
        lines: Any = Lines([by_file[name] for name in part])
        fold.run(lines, batch)
    return results


def key_of(report: LocalBrokerData) -> ReportKey:
    return ReportKey(report.last_update, str(report.broker_id), report.incarnation, report.sequence)


def differences(layout: PipelineLayout, oracle: PipelineOracle, decisions: Iterable[tuple[int, str]]) -> list[str]:
    """Return the names of the tables that do not follow their definitions."""
    as_of = max(row["as_of"] for row in rows_of(layout, "broker_data"))
    gap = datetime.timedelta(milliseconds=oracle.gap_ms)
    newest = {row["bundle"]: row for row in sorted(rows_of(layout, "bundle_data"), key=lambda row: row["as_of"])}
    found = {
        **{name: rows_of(layout, name) for name in ("load_reports", "broker_usage", "bundle_samples", "balance")},
        "ownership": _intervals(rows_of(layout, "ownership")),
        "bundle_data": [row for row in newest.values() if as_of - row["as_of"] <= gap],
        "broker_data": [row for row in rows_of(layout, "broker_data") if row["as_of"] == as_of],
    }
    differing = []
    for name, rows in found.items():
        expected = oracle.balance(decisions) if name == "balance" else getattr(oracle, name)()
        try:
            assert_same(sorted(rows, key=first_columns), sorted(expected, key=first_columns))
        except AssertionError:
            differing.append(name)
    return differing


def rows_of(layout: PipelineLayout, name: str) -> list[Row]:
    """All rows in the files, with times in the form of `pipeline_oracles.moment`."""
    tables = [pq.read_table(file, partitioning=None) for file in live_files(layout.tables, name)]
    rows = pa.concat_tables(tables).to_pylist() if tables else []
    return [{key: _local(value) for key, value in row.items()} for row in rows]


def _intervals(rows: Iterable[Row]) -> list[Row]:
    """Each interval once: the row with its end counts, and of two such rows the one that says split."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (row["owned_to"] is not None, row["ended"] == "split")):
        found[tuple(row[name] for name in TABLES["ownership"].key)] = row
    return list(found.values())


def _local(value: Any) -> Any:
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _in_utc(row: Row) -> Row:
    is_time = {name: isinstance(value, datetime.datetime) for name, value in row.items()}
    return {name: value.astimezone(datetime.UTC) if is_time[name] else value for name, value in row.items()}
