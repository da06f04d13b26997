"""Snapshots from files of every kind, and the errors for files that are none."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    SystemResourceUsage,
    encode_report,
    encode_without_none,
    with_stats,
)
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.reports.windows import LiveFold
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot
from pulsar_barycenter.pipeline.tables.reading import DamagedTableError
from pulsar_barycenter.snapshots.parquet_snapshot import write_columns
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFileError, read_snapshot_file, write_snapshot
from support.load_cases import Cluster, bundle_name, equal_bundles
from support.snapshot_cases import assert_same_snapshot, document_of, read_snapshot
from support.table_cases import write_tables

NOON_MS = 1_790_000_000_000
MINUTE_MS = 60_000


def report(broker: str, rate: float, at_ms: int = NOON_MS, **changes: Any) -> LocalBrokerData:
    """Return a report with one bundle, named after the broker."""
    plain = LocalBrokerData(
        broker_id=broker,
        web_service_url=f"http://{broker}",
        cpu=ResourceUsage(rate, 100),
        last_update=at_ms,
        start_timestamp=NOON_MS - 1_000,
        broker_version_string="4.0.0",
        load_manager_class_name="ModularLoadManagerImpl",
    )
    stats = {bundle_name(ord(broker[0])): NamespaceBundleStats(msg_rate_in=rate, msg_throughput_in=rate * 10, topics=2)}
    return msgspec.structs.replace(with_stats(plain, stats), last_bundle_gains=(), **changes)


def snapshot_after(*reports: LocalBrokerData) -> LoadSnapshot:
    """Return the snapshot of a leader that saw these reports, one after the other."""
    fold = LiveFold()
    for each in reports:
        fold.accept(each.broker_id or "", each)
    return build_snapshot(fold.reports, fold.bundles, fold.averages())


def timeless(snapshot: LoadSnapshot) -> LoadSnapshot:
    return replace(snapshot, taken_at_ms=0)


# ---- load reports ----


def test_a_load_report_is_a_cluster_of_one_broker(tmp_path: Path) -> None:
    one = report("a:1", 40)
    (tmp_path / "r.json").write_bytes(msgspec.json.format(encode_report(one), indent=2))
    found = read_snapshot_file(tmp_path / "r.json")
    assert_same_snapshot(timeless(found.snapshot), snapshot_after(one))
    assert (found.snapshot.taken_at_ms, found.manager, found.source) == (
        NOON_MS,
        ManagerKind.MODULAR,
        "load reports of 1 broker",
    )


def test_a_folder_of_load_reports_is_a_cluster_and_several_of_a_broker_fill_its_windows(tmp_path: Path) -> None:
    reports = [report("a:1", 40), report("b:1", 10, NOON_MS + 1), report("a:1", 60, NOON_MS + MINUTE_MS)]
    for number, each in enumerate(reversed(reports)):
        (tmp_path / f"{number}.json").write_bytes(encode_report(each))
    snapshot = read_snapshot(tmp_path)
    assert_same_snapshot(timeless(snapshot), snapshot_after(*reports))
    assert snapshot.bundles.short.rate_in.tolist() == [50, 10]


def test_of_a_data_folder_without_tables_the_report_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "load-reports" / "2026-09-21"
    log.mkdir(parents=True)
    (log / "1.json").write_bytes(encode_report(report("a:1", 40)))
    (tmp_path / "collect.json").write_text('{"numbers": {}}')
    assert_same_snapshot(timeless(read_snapshot(tmp_path)), snapshot_after(report("a:1", 40)))


def test_reports_may_stand_on_lines(tmp_path: Path) -> None:
    reports = [report("a:1", 40), report("b:1", 10)]
    (tmp_path / "r.json").write_bytes(b"\n".join(map(encode_report, reports)))
    assert_same_snapshot(timeless(read_snapshot(tmp_path / "r.json")), snapshot_after(*reports))


@pytest.mark.parametrize(
    ("changes", "broker"),
    [
        ({"broker_id": None}, "a:1"),
        ({"broker_id": None, "web_service_url": None, "web_service_url_tls": "https://a:8443"}, "a:8443"),
        ({"broker_id": None, "web_service_url": None}, "a-8080"),
    ],
)
def test_a_report_that_names_no_broker_is_of_the_one_of_its_url_or_file(
    tmp_path: Path, changes: dict[str, Any], broker: str
) -> None:
    (tmp_path / "a-8080.json").write_bytes(encode_report(report("a:1", 40, **changes)))
    assert read_snapshot(tmp_path).brokers.names == (broker,)


def test_reports_of_the_simple_load_manager(tmp_path: Path) -> None:
    reports = {
        name: LoadReport(
            name=name,
            timestamp=NOON_MS + offset,
            system_resource_usage=SystemResourceUsage(cpu=ResourceUsage(40, 100)),
            bundle_stats={bundle_name(offset): NamespaceBundleStats(msg_rate_in=7, topics=1)},
        )
        for offset, name in enumerate(("a:1", "b:1"))
    }
    for name, each in reports.items():
        (tmp_path / f"{name}.json").write_bytes(encode_without_none(each))
    older = msgspec.structs.replace(reports["a:1"], timestamp=1)
    (tmp_path / "z.json").write_bytes(encode_without_none(older))
    found = read_snapshot_file(tmp_path)
    assert found.manager is ManagerKind.SIMPLE
    assert set(found.reports) == {"a:1", "b:1"}
    assert_same_snapshot(found.snapshot, build_simple_snapshot(found.reports, taken_at_ms=NOON_MS + 1))


def test_values_that_are_not_numbers_and_old_reports_are_named(tmp_path: Path) -> None:
    odd = json.loads(encode_report(report("b:1", 10, NOON_MS - 31 * MINUTE_MS)))
    odd["cpu"] = {"usage": "NaN", "limit": "Infinity"}
    (tmp_path / "a.json").write_bytes(encode_report(report("a:1", 40)))
    (tmp_path / "b.json").write_text(json.dumps(odd))
    found = read_snapshot_file(tmp_path)
    assert found.snapshot.brokers.suspect.tolist() == [False, True]
    assert found.warnings == (
        "b:1: values that are not numbers, which count as 0",
        "b:1: the last report is more than 30 minutes older than the snapshot",
        "b:1: no resource with a known limit, so usage counts as 0",
    )


def test_bundles_without_windows_are_told(tmp_path: Path) -> None:
    cluster = Cluster().add("a:1", cpu=10, bundles=equal_bundles(5, throughput=1))
    cluster.data.clear()
    write_snapshot(tmp_path / "s.json", document_of(cluster))
    (warning,) = read_snapshot_file(tmp_path / "s.json").warnings
    names = ", ".join(bundle_name(number) for number in range(3))
    assert warning == f"{names} and 2 more: no load over time is known, so the bundle cannot be shed"


def test_a_garbled_snapshot_file_is_named(tmp_path: Path) -> None:
    """Cut anywhere, or with a byte changed anywhere: it is a snapshot all the same, or the error names the file."""
    file = tmp_path / "s.parquet"
    write_snapshot(file, document_of(Cluster().add("a:1", cpu=10, bundles=equal_bundles(5, throughput=1))))
    content, chance = file.read_bytes(), random.Random(1)
    garbled = [content[: chance.randrange(len(content))] for _ in range(30)]
    for _ in range(150):
        changed = bytearray(content)
        changed[chance.randrange(4, len(content))] ^= chance.randrange(1, 256)
        garbled.append(bytes(changed))
    said = []
    for each in garbled:
        file.write_bytes(each)
        try:
            read_snapshot_file(file)
        except SnapshotFileError as error:
            said.append(str(error))
    assert len(said) > 30
    assert all(str(file) in each for each in said)


# ---- tables ----


def history() -> list[list[tuple[str, LocalBrokerData]]]:
    """Three batches: a bundle moves from a to b, c leaves after the first, and a restarts."""
    a, b, c = (report(name, rate, incarnation="1", sequence=1) for name, rate in (("a:1", 40), ("b:1", 10), ("c:1", 5)))
    moved = with_stats(b, {**b.last_stats, **a.last_stats})
    later = [
        msgspec.structs.replace(with_stats(a, {}), last_update=NOON_MS + MINUTE_MS, sequence=2),
        msgspec.structs.replace(moved, last_update=NOON_MS + MINUTE_MS + 1, sequence=2),
    ]
    last = [
        msgspec.structs.replace(each, last_update=NOON_MS + 45 * MINUTE_MS + place, sequence=3, incarnation="2")
        for place, each in enumerate(later)
    ]
    return [
        [("a:1", a), ("b:1", b), ("c:1", c)],
        [(each.broker_id or "", each) for each in later],
        [(each.broker_id or "", each) for each in last],
    ]


@pytest.mark.parametrize("below", ["tables", "."])
def test_the_tables_hold_the_newest_snapshot(tmp_path: Path, below: str) -> None:
    fold = write_tables(tmp_path / below, history())
    snapshot = read_snapshot(tmp_path)
    live = {name: fold.reports[name] for name in ("a:1", "b:1")}
    expected = build_snapshot(live, fold.bundles, fold.averages())
    assert_same_snapshot(timeless(snapshot), expected)
    assert snapshot.taken_at_ms == NOON_MS + 45 * MINUTE_MS + 1


@pytest.mark.parametrize(("at_ms", "batches"), [(NOON_MS, 1), (NOON_MS + 2 * MINUTE_MS, 2)])
def test_the_tables_hold_the_snapshot_of_any_time(tmp_path: Path, at_ms: int, batches: int) -> None:
    write_tables(tmp_path / "tables", history())
    fold = LiveFold()
    for batch in history()[:batches]:
        for broker, each in batch:
            fold.accept(broker, each)
    averages = write_tables(tmp_path / "other", history()[:batches]).averages()
    snapshot = read_snapshot(tmp_path, at_ms)
    assert_same_snapshot(timeless(snapshot), build_snapshot(fold.reports, fold.bundles, averages))
    assert snapshot.taken_at_ms == at_ms


def test_tables_without_usage_say_so(tmp_path: Path) -> None:
    write_tables(tmp_path, history(), usage=False)
    found = read_snapshot_file(tmp_path)
    assert found.warnings == ("b:1: no resource with a known limit, so usage counts as 0",)
    assert found.snapshot.brokers.names == ("b:1",)
    assert np.all(found.snapshot.bundles.has_windows)


# ---- what is none ----


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("hello", "is not a JSON object"),
        ("[1]", "is not a JSON object"),
        ('{"a": 1}', "it is not a load report: its fields are a"),
        (
            '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}',
            "it is not a load report: its fields are a, b, c, d, e, …",
        ),
        ("{}", "an object without fields, not a load report"),
        ('{"loadReportType": "Other"}', "loadReportType is 'Other'"),
        ('{"format": "barycenter-snapshot"}', "missing required field `brokers`"),
        ('{"format": "other", "brokers": {}}', "$.format"),
        ('{"brokers": {"b:1": {"cpu": {"usage": "much"}}}}', "$.brokers[...].cpu.usage"),
        ('{"brokers": {"b:1": {"lastUpdate": null}}}', "$.brokers[...].lastUpdate"),
        ('{"loadReportType": "LocalBrokerData", "lastStats": 7}', "$.lastStats"),
        ('{"loadReportType": "LoadReport", "bundleStats": {"x": {"topics": "many"}}}', "$.bundleStats[...].topics"),
        ('{"lastStats": {}}\nno', "line 2 is not a JSON object"),
        ('{"lastStats": {}}\n{"lastStats": 1}', "line 2: Expected `object`"),
        ('{"lastStats": {}', "is not a JSON object"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_place_and_what_is_accepted(
    tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "s.json"
    file.write_text(content)
    with pytest.raises(SnapshotFileError) as error:
        read_snapshot_file(file)
    assert str(error.value).startswith(f"{file}: ")
    assert said in str(error.value)
    assert "give a snapshot" in str(error.value)


def test_folders_that_hold_none(tmp_path: Path) -> None:
    with pytest.raises(SnapshotFileError, match=r"the folder has no \*.json or \*.txt files"):
        read_snapshot(tmp_path)
    (tmp_path / "a.json").write_bytes(encode_report(report("a:1", 40)))
    with pytest.raises(SnapshotFileError, match="this input has the load of one time only"):
        read_snapshot(tmp_path, NOON_MS)
    (tmp_path / "b.json").write_bytes(encode_without_none(LoadReport(name="b:1")))
    with pytest.raises(SnapshotFileError, match=r"a.json is of the modular load manager, b.json is of the simple"):
        read_snapshot(tmp_path)
    (tmp_path / "b.json").write_text('{"brokers": {}}')
    with pytest.raises(SnapshotFileError, match=r"b\.json: the file is a snapshot, but is in a folder"):
        read_snapshot(tmp_path)


def test_parquet_files_that_hold_none(tmp_path: Path) -> None:
    file = tmp_path / "s.parquet"
    pq.write_table(pa.table({"bundle": ["x"]}), file)
    with pytest.raises(SnapshotFileError, match=r"the metadata of the file has no key barycenter\.snapshot"):
        read_snapshot_file(file)
    write_columns(file, Cluster().add("a:1", bundles=equal_bundles(2, throughput=1)).snapshot())
    table = pq.read_table(file)
    metadata = table.schema.metadata[b"barycenter.snapshot"]
    newer = {b"barycenter.snapshot": metadata.replace(b'"version":1', b'"version":9')}
    for broken, said in (
        (table.drop_columns(["latest_rate_in"]), "latest_rate_in"),
        (table.set_column(1, "broker", pa.array(["a:1", "z:9"])), "column broker of the table has a name"),
        (table.replace_schema_metadata({b"barycenter.snapshot": b"{"}), "truncated"),
        (table.replace_schema_metadata(newer), "the snapshot has format version 9; this program reads version 1"),
    ):
        pq.write_table(broken, file)
        with pytest.raises(SnapshotFileError, match="not a snapshot") as error:
            read_snapshot_file(file)
        assert said in str(error.value)
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(SnapshotFileError, match="not a snapshot"):
        read_snapshot_file(file)


def test_unfinished_files_are_passed_over_and_rows_that_stand_twice_count_once(tmp_path: Path) -> None:
    write_tables(tmp_path, history())
    wanted = read_snapshot(tmp_path)
    for folder in tmp_path.glob("*/date=*"):
        (first, *_) = sorted(folder.glob("*.parquet"))
        (folder / ".batch-7.parquet").write_bytes(b"unfinished")
        (folder / "batch-000000000000-000000000002.parquet").write_bytes(first.read_bytes())
    assert_same_snapshot(read_snapshot(tmp_path), wanted)


def test_tables_that_hold_none(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables", history())
    with pytest.raises(SnapshotFileError, match="bundle_samples has no row up to 2026-09-20"):
        read_snapshot(tmp_path, NOON_MS - 86_400_000)
    (broken,) = (tmp_path / "tables" / "bundle_data").rglob("batch-000000000001.parquet")
    broken.write_bytes(b"no")
    with pytest.raises(DamagedTableError, match=f"{broken} cannot be read"):
        read_snapshot(tmp_path)


@pytest.mark.parametrize(
    "content", [b'{"brokers": ' + b"[" * 100_000, b'{"brokers": "\xff"}', b'{"loadReportType": "\xff"}'], ids=range(3)
)
def test_text_that_is_too_deep_or_not_utf8_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "snapshot.json"
    file.write_bytes(content)
    with pytest.raises(SnapshotFileError, match=r"snapshot\.json"):
        read_snapshot_file(file)
