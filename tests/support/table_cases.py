"""The pipeline's tables, written from load reports without the pipeline."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.load.reports.load_report import BundleData, LocalBrokerData, TimeAverageBrokerData
from pulsar_barycenter.load.reports.windows import LiveFold

_FIGURES = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


def write_tables(
    root: Path, batches: Iterable[Iterable[tuple[str, LocalBrokerData]]], *, usage: bool = True
) -> LiveFold:
    """Write one file per table and batch, as the pipeline does; return the fold of all reports."""
    fold = LiveFold()
    for number, batch in enumerate(batches):
        reports = dict(batch)
        for broker, report in reports.items():
            fold.accept(broker, report)
        as_of = max(report.last_update for report in reports.values())
        _write(root, "bundle_samples", number, _samples(reports), "reported_at")
        bundles = {name: fold.bundles[name] for report in reports.values() for name in report.last_stats}
        _write(root, "bundle_data", number, [_windows(*item, as_of) for item in bundles.items()], "as_of")
        _write(root, "broker_data", number, [_averages(*item, as_of) for item in fold.averages().items()], "as_of")
        if usage:
            _write(root, "broker_usage", number, [_usage(*item) for item in reports.items()], "reported_at")
            _write(root, "load_reports", number, [_report(*item) for item in reports.items()], "reported_at")
    return fold


def _write(root: Path, name: str, number: int, rows: list[dict[str, Any]], time: str) -> None:
    for day in sorted({row[time].strftime("%Y-%m-%d") for row in rows}):
        folder = root / name / f"date={day}"
        folder.mkdir(parents=True, exist_ok=True)
        of_day = [row for row in rows if row[time].strftime("%Y-%m-%d") == day]
        pq.write_table(pa.Table.from_pylist(of_day), folder / f"batch-{number:012d}.parquet")


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _identity(broker: str, report: LocalBrokerData) -> dict[str, Any]:
    return {
        "broker": broker,
        "incarnation": report.incarnation,
        "sequence": report.sequence,
        "reported_at": at(report.last_update),
    }


def _samples(reports: Mapping[str, LocalBrokerData]) -> list[dict[str, Any]]:
    return [
        {
            "bundle": bundle,
            **_identity(broker, report),
            **{figure: getattr(stats, figure) for figure in _FIGURES},
            "topics": stats.topics,
            "consumers": stats.consumer_count,
            "producers": stats.producer_count,
        }
        for broker, report in reports.items()
        for bundle, stats in report.last_stats.items()
    ]


def _windows(bundle: str, data: BundleData, as_of: int) -> dict[str, Any]:
    row: dict[str, Any] = {"bundle": bundle, "as_of": at(as_of)}
    for name, window in (("short", data.short_term_data), ("long", data.long_term_data)):
        row[f"{name}_num_samples"] = window.num_samples
        row |= {f"{name}_{figure}": getattr(window, figure) for figure in _FIGURES}
    return row


def _averages(broker: str, data: TimeAverageBrokerData, as_of: int) -> dict[str, Any]:
    figures = {name: getattr(data, name) for name in TimeAverageBrokerData.__struct_fields__}
    return {"broker": broker, "as_of": at(as_of), **figures}


def _usage(broker: str, report: LocalBrokerData) -> dict[str, Any]:
    row = _identity(broker, report)
    for name in _RESOURCES:
        resource = getattr(report, name)
        row |= {f"{name}_usage": resource.usage, f"{name}_limit": resource.limit, f"{name}_percent": resource.percent}
    return row


def _report(broker: str, report: LocalBrokerData) -> dict[str, Any]:
    return {
        **_identity(broker, report),
        "started_at": at(report.start_timestamp),
        "version": report.broker_version_string,
        "load_manager": report.load_manager_class_name,
        **{figure: getattr(report, figure) for figure in _FIGURES},
        "topics": report.num_topics,
    }
