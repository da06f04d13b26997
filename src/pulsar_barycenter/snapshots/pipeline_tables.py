"""Builds a snapshot from the pipeline's tables, for now or for any time in the past.

| column of the snapshot | table |
|---|---|
| usage and limits of brokers | `broker_usage` |
| traffic, start, version and load manager of brokers | `load_reports` |
| bundles and their values in the newest report | `bundle_samples` |
| windows of bundles | `bundle_data` |
| averages of brokers | `broker_data` |

The snapshot has the brokers that reported shortly before that time. Without the first two tables, which earlier
versions of Barycenter did not write, the usage of brokers is unknown, and only strategies that use traffic can decide.
The snapshot lacks what the tables do not have: assignments that no broker has confirmed, recent unloads, policies.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.load.reports.load_report import (
    LONG_SAMPLES,
    RESOURCES,
    SHORT_SAMPLES,
    UNKNOWN_USAGE,
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    TimeAverageBrokerData,
    TimeAverageMessageData,
    max_resource_usage,
    with_stats,
)
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.pipeline.tables.reading import opened_file, require_columns
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.snapshots.data_warnings import STALE_MS
from pulsar_barycenter.snapshots.table_folder import TablesError

_RATES: Final = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out")
_IDENTITY: Final = ("broker", "incarnation", "sequence")


def read_tables(root: Path, at_ms: int | None = None, *, silence_ms: int = STALE_MS) -> SnapshotDocument:
    """Return the snapshot at the time `at_ms` (epoch ms, inclusive), or, if it is None, at the newest report.

    The snapshot leaves out brokers whose newest report is more than `silence_ms` older than the newest report of all
    brokers.

    Raises:
        TablesError: the tables have no rows up to that time, or the files of a table do not fit together.
        DamagedTableError: a file is damaged; the error names it.
        OSError: a file cannot be read.
    """
    samples = _rows(root, "bundle_samples", "reported_at", at_ms)
    reports = _rows(root, "load_reports", "reported_at", at_ms)
    usages = _rows(root, "broker_usage", "reported_at", at_ms)
    if not samples and not reports:
        when = "" if at_ms is None else f" up to {datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        raise TablesError(f"bundle_samples has no row{when}")
    newest = _newest((*samples, *reports), "broker", "reported_at")
    now_ms = max(_ms(row["reported_at"]) for row in newest.values())
    live = {broker: row for broker, row in newest.items() if now_ms - _ms(row["reported_at"]) <= silence_ms}
    identity = {tuple(row[key] for key in _IDENTITY) for row in live.values()}

    def of_live(rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        return (row for row in rows if tuple(row[key] for key in _IDENTITY) in identity)

    stats: dict[str, dict[str, NamespaceBundleStats]] = {broker: {} for broker in live}
    for row in of_live(samples):
        stats[row["broker"]][row["bundle"]] = _stats(row)
    known = {row["broker"]: row for row in of_live(reports)}
    used = {row["broker"]: row for row in of_live(usages)}
    wanted = {bundle for bundles in stats.values() for bundle in bundles}
    windows = _newest(_rows(root, "bundle_data", "as_of", at_ms), "bundle", "as_of")
    averages = _newest(_rows(root, "broker_data", "as_of", at_ms), "broker", "as_of")
    return SnapshotDocument(
        taken_at=now_ms if at_ms is None else at_ms,
        brokers={
            broker: with_stats(_report(row, known.get(broker, {}), used.get(broker, {})), stats[broker])
            for broker, row in live.items()
        },
        bundle_data={bundle: _bundle_data(row, stats, bundle) for bundle, row in windows.items() if bundle in wanted},
        broker_data={broker: _averages(row) for broker, row in averages.items() if broker in live} or None,
    )


def _rows(root: Path, name: str, time: str, at_ms: int | None) -> list[dict[str, Any]]:
    """Return the last row, by the column `time`, of each pair of bundle and broker in the table `name`; in a table
    without one of these columns, of each bundle or of each broker. Rows after `at_ms` do not count (None: no limit).
    Only the files of the newest date up to then and of the calendar day before it are read. Empty if the table does not
    exist.

    Raises:
        TablesError: the files do not fit together.
    """
    folders = sorted((root / name).glob("date=*"))
    if at_ms is not None:
        last = f"date={datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"
        folders = [folder for folder in folders if folder.name <= last]
    if not folders:
        return []
    newest_day = datetime.strptime(folders[-1].name, "date=%Y-%m-%d").replace(tzinfo=UTC)
    first = f"date={newest_day - timedelta(days=1):%Y-%m-%d}"
    found = (file for folder in folders if folder.name >= first for file in sorted(folder.glob("*.parquet")))
    # a compacted file and its sources may exist at the same time: of each key only the last row counts
    files = [file for file in found if not file.name.startswith((".", "_"))]
    if not files:
        return []
    try:
        table = pa.concat_tables((_all_rows(file, name) for file in files), promote_options="permissive")
        if at_ms is not None:
            limit = pa.scalar(at_ms * 1000, pa.int64())
            table = table.filter(
                pc.less_equal(pc.cast(table.column(time), pa.timestamp("us", "UTC")).cast(pa.int64()), limit)
            )
        return _last_of_each(table, time)
    except (pa.ArrowInvalid, pa.ArrowTypeError, KeyError) as error:
        raise TablesError(f"cannot read table {name}: {error}".partition("\n")[0]) from error


def _all_rows(file: Path, name: str) -> pa.Table:
    with opened_file(file) as opened:
        rows = opened.read()
        require_columns(rows.column_names, _needed(name))
        rows.validate(full=True)
        return rows


def _needed(name: str) -> Iterable[str]:
    """Return the columns that a file of the table `name` must have so that a snapshot can be made of it."""
    table = TABLES[name]
    if name == "load_reports":
        return table.key
    if name == "broker_usage":
        return (*table.key, *(f"{resource}_{what}" for resource in RESOURCES for what in ("usage", "limit")))
    return (field.name for field in table.arrow_schema if not field.nullable)


def _last_of_each(table: pa.Table, time: str) -> list[dict[str, Any]]:
    """Return the last row, by the column `time`, of each pair of bundle and broker; if the table has only one of these
    two columns, of each bundle or of each broker.
    """
    keys = [name for name in ("bundle", "broker") if name in table.column_names]
    ordered = table.append_column("row", pa.array(np.arange(len(table)))).sort_by(
        [(time, "ascending"), *((name, "ascending") for name in ("sequence",) if name in table.column_names)]
    )
    grouped = ordered.group_by(keys, use_threads=False).aggregate([("row", "last")])
    found: list[dict[str, Any]] = table.take(grouped.column("row_last")).to_pylist()
    return found


def _newest(rows: Iterable[dict[str, Any]], key: str, time: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        before = found.get(row[key])
        if before is None or (before[time], before.get("sequence", 0)) < (row[time], row.get("sequence", 0)):
            found[row[key]] = row
    return found


def _ms(time: datetime) -> int:
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _stats(row: dict[str, Any]) -> NamespaceBundleStats:
    rates = {name: row[name] for name in _RATES}
    return NamespaceBundleStats(
        **rates, consumer_count=row["consumers"], producer_count=row["producers"], topics=row["topics"]
    )


def _report(identity: dict[str, Any], known: dict[str, Any], used: dict[str, Any]) -> LocalBrokerData:
    started = known.get("started_at")
    usages = {
        name: ResourceUsage(used[f"{name}_usage"], used[f"{name}_limit"]) if used else UNKNOWN_USAGE
        for name in RESOURCES
    }
    report = LocalBrokerData(
        broker_id=identity["broker"],
        last_update=_ms(identity["reported_at"]),
        incarnation=identity["incarnation"],
        sequence=identity["sequence"],
        start_timestamp=0 if started is None else _ms(started),
        broker_version_string=known.get("version"),
        load_manager_class_name=known.get("load_manager"),
    )
    measured = msgspec.structs.replace(report, **usages)
    return msgspec.structs.replace(measured, max_resource_usage=max_resource_usage(measured))


def _bundle_data(row: dict[str, Any], stats: dict[str, dict[str, NamespaceBundleStats]], bundle: str) -> BundleData:
    topics = next(bundles[bundle].topics for bundles in stats.values() if bundle in bundles)
    return BundleData(
        short_term_data=_window(row, "short", SHORT_SAMPLES),
        long_term_data=_window(row, "long", LONG_SAMPLES),
        topics=topics,
    )


def _window(row: dict[str, Any], window: str, max_samples: int) -> TimeAverageMessageData:
    rates = {name: row[f"{window}_{name}"] for name in _RATES}
    return TimeAverageMessageData(max_samples=max_samples, num_samples=row[f"{window}_num_samples"], **rates)


def _averages(row: dict[str, Any]) -> TimeAverageBrokerData:
    return TimeAverageBrokerData(**{name: row[name] for name in TimeAverageBrokerData.__struct_fields__})
