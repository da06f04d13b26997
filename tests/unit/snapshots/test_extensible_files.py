"""Snapshots in files with the reports of brokers of the extensible load manager: messages, and round trips."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    NamespaceBundleStats,
    ResourceUsage,
    TimeAverageMessageData,
    encode_without_none,
)
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, decode_snapshot, encode_snapshot
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, Ownership, TrafficFigures
from pulsar_barycenter.load.snapshot.extensible_snapshot import windows_of_owners
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFileError, read_snapshot_file, write_snapshot
from support.load_cases import bundle_name
from support.snapshot_cases import assert_same_snapshot

NOON_MS = 1_790_000_000_000
MEBIBYTE = 1_048_576
DOCUMENTS = Path(__file__).parents[4] / "shared" / "documents"


def load(usage: float, throughput: float = 0.0, bundles: int = 0) -> BrokerLoadData:
    return BrokerLoadData(
        cpu=ResourceUsage(usage * 100, 100.0),
        msg_throughput_in=throughput,
        bundle_count=bundles,
        max_resource_usage=usage,
        weighted_max_ema=usage,
        msg_throughput_ema=throughput,
        updated_at=NOON_MS,
        reported_at=NOON_MS - 1,
    )


def top(first: int, count: int, throughput: float) -> TopBundlesLoadData:
    stats = NamespaceBundleStats(msg_throughput_in=throughput / count, msg_rate_in=10.0, topics=2)
    return TopBundlesLoadData(tuple(BundleLoadData(bundle_name(first + n), stats) for n in range(count)))


def a_document() -> ExtensibleDocument:
    """A busy broker with six bundles, one with two, an idle one."""
    return ExtensibleDocument.of(
        [
            ("a:1", load(0.9, 120 * MEBIBYTE, 6)),
            ("b:1", load(0.3, 20 * MEBIBYTE, 2)),
            ("c:1", load(0.1)),
            ("a:1", top(0, 6, 120 * MEBIBYTE)),
            ("b:1", top(10, 2, 20 * MEBIBYTE)),
        ]
    )


def message(key: str, value: Any) -> str:
    content = encode_without_none(value) if not isinstance(value, Ownership) else msgspec.json.encode(value)
    return f"----- got message -----\nkey:[{key}], properties:[], content:{content.decode()}\n"


def test_a_folder_of_messages_is_a_cluster(tmp_path: Path) -> None:
    document = a_document()
    loads = "".join(message(broker, each) for broker, each in document.loads.items())
    (tmp_path / "loads.txt").write_text(message("a:1", load(0.2)) + loads)
    (tmp_path / "tops.txt").write_text("".join(message(broker, each) for broker, each in document.top_bundles.items()))
    found = read_snapshot_file(tmp_path)
    assert (found.manager, found.source) == (ManagerKind.EXTENSIBLE, "loads of 3 brokers")
    wanted = SnapshotDocument(taken_at=NOON_MS, brokers={}, extensible=document).snapshot()
    assert_same_snapshot(found.snapshot, wanted)
    assert found.snapshot.extensible is not None
    assert found.snapshot.extensible.owned.all()
    assert found.snapshot.extensible.live.all()


def test_who_owns_what_and_who_is_registered_is_told_by_other_files(tmp_path: Path) -> None:
    (tmp_path / "a:1.json").write_bytes(encode_without_none(load(0.5)))
    (tmp_path / "tops.txt").write_text(message("a:1", top(0, 2, 7)))
    (tmp_path / "owners.txt").write_text(
        message(bundle_name(0), Ownership("Owned", "a:1"))
        + message(bundle_name(1), Ownership("Owned", "a:1"))
        + message(bundle_name(1), Ownership("Releasing", "b:1", "a:1"))
        + message(bundle_name(2), Ownership("Free", None, "a:1"))
        + message(bundle_name(3), Ownership("Owned", "b:1"))
    )
    lookup = BrokerLookupData(web_service_url="http://b:1", broker_version="4.1.0", load_manager_class_name="X")
    (tmp_path / "lookup.json").write_bytes(encode_without_none(lookup))
    snapshot = read_snapshot_file(tmp_path).snapshot
    assert snapshot.brokers.names == ("a:1", "b:1")
    assert snapshot.brokers.versions == (None, "4.1.0")
    assert snapshot.extensible is not None
    assert snapshot.extensible.live.tolist() == [False, True]
    owned = [name for name, flag in zip(snapshot.bundles.names, snapshot.extensible.owned, strict=True) if flag]
    assert owned == [bundle_name(0), bundle_name(1), bundle_name(3)]


@pytest.mark.parametrize("name", ["s.json", "s.parquet"])
def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    odd = msgspec.structs.replace(load(0.4), weighted_max_ema=float("nan"))
    document = SnapshotDocument(
        taken_at=NOON_MS,
        brokers={},
        extensible=msgspec.structs.replace(a_document(), loads={**a_document().loads, "d:1": odd}),
    )
    again = decode_snapshot(encode_snapshot(document))
    assert_same_snapshot(again.snapshot(), document.snapshot())
    assert again.extensible is not None
    assert again.extensible.owners == a_document().owners
    write_snapshot(tmp_path / name, document)
    found = read_snapshot_file(tmp_path / name)
    assert found.manager is ManagerKind.EXTENSIBLE
    assert_same_snapshot(found.snapshot, document.snapshot())
    assert found.snapshot.brokers.suspect.tolist() == [False, False, False, True]


def test_the_transfer_shedder_decides_once_the_imbalance_lasted(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    write_snapshot(file, SnapshotDocument(taken_at=NOON_MS, brokers={}, extensible=a_document()))
    words = ["decide", "--snapshot", str(file), "--strategy", "TransferShedder", "--cycles", "5", "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    moves = [(line["cycle"], line["source"], line["destination"]) for line in found if line["kind"] == "unload"]
    assert moves
    assert set(moves) == {(4, "a:1", "c:1")}
    rounds = [line["reason"]["code"] for line in found if line["kind"] == "shed"]
    assert rounds[:3] == ["condition_too_new"] * 3
    assert rounds[4] == "cooling_down"
    placed = CliRunner().invoke(main, ["decide", "--snapshot", str(file), "--place", bundle_name(99), "--json"])
    assert json.loads(placed.stdout)["destination"] == "c:1"


@pytest.mark.parametrize("name", ["s.json", "s.parquet"])
@pytest.mark.parametrize(
    ("traffic", "upon", "carries"),
    [
        (TrafficFigures.NEWEST, "", "20 MiB/s"),
        (TrafficFigures.WINDOWS, "based on the pipeline's short-term traffic windows", "1 MiB/s"),
        (TrafficFigures.LATE, "based on the newest traffic values, because the pipeline is late", "20 MiB/s"),
    ],
)
def test_what_is_decided_upon_is_said_with_every_kind_of_file(
    tmp_path: Path, name: str, traffic: TrafficFigures, upon: str, carries: str
) -> None:
    window = TimeAverageMessageData(max_samples=10, num_samples=10, msg_throughput_in=MEBIBYTE)
    data = {bundle_name(n): BundleData(short_term_data=window, long_term_data=window) for n in (*range(6), 10, 11)}
    known = msgspec.structs.replace(a_document(), traffic=traffic)
    found = windows_of_owners(known, data)
    document = SnapshotDocument(
        taken_at=NOON_MS,
        brokers={},
        extensible=known,
        bundle_data=dict(found.bundles),
        broker_data=dict(found.brokers),
    )
    write_snapshot(tmp_path / name, document)
    words = ["decide", str(tmp_path / name), "--set", "loadBalancerSheddingConditionHitCountThreshold=0"]
    shown = CliRunner().invoke(main, words).stdout
    headline = shown.partition("\n")[0]
    assert headline.endswith(upon)
    assert ("based on" in headline) == bool(upon)
    moves = [line for line in shown.splitlines() if "a:1 → c:1" in line]
    assert any(line.endswith(f" msg/s and {carries}") for line in moves)
    window = "short window" if upon.startswith("based on the pipeline's") else "newest report"
    assert f": load is in + out, {window}\n" in shown
    told = [json.loads(line) for line in CliRunner().invoke(main, [*words, "--json"]).stdout.splitlines()]
    reasons = [line["reason"].get("cause", line["reason"]) for line in told]
    assert {f"based on {each['upon']}" if "upon" in each else "" for each in reasons} == {upon}
    explained = CliRunner().invoke(main, ["explain", "--snapshot", str(tmp_path / name), "--broker", "a:1"]).stdout
    assert upon in " ".join(explained.split())


def test_large_bundles_are_split_once_they_stayed_so(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    write_snapshot(file, SnapshotDocument(taken_at=NOON_MS, brokers={}, extensible=a_document()))
    base = ["decide", "--snapshot", str(file), "--split", "--json", "--cycles", "4"]
    result = CliRunner().invoke(main, [*base, "--set", "loadBalancerNamespaceBundleMaxBandwidthMbytes=15"])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert {(line["cycle"], line["kind"]) for line in found} == {(n, "refuse") for n in (1, 2, 3)} | {(4, "split")}


def test_the_transfer_shedder_needs_what_its_brokers_report(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"brokers": {"a:1": {}}}')
    words = ["decide", "--snapshot", str(tmp_path / "s.json"), "--strategy", "TransferShedder"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "needs load data of the extensible load manager" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("key:[a:1], properties:[], content:{no}\n", "line 1 is not a JSON object"),
        ('\nkey:[a:1], properties:[], content:{"a": 1}\n', "line 2: the message is not one of the extensible"),
        ('key:[a:1], properties:[], content:{"weightedMaxEMA": "x"}\n', "line 1: Expected `float`"),
        ('{"topBundlesLoadData": [{}]}', "Object missing required field `bundleName`"),
    ],
)
def test_what_is_no_message_is_refused_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "m.txt"
    file.write_text(content)
    with pytest.raises(SnapshotFileError, match=re.escape(f"{file}: {said}")):
        read_snapshot_file(file)


def test_the_output_of_pulsars_own_brokers_is_read(tmp_path: Path) -> None:
    """Of all three load managers, where a page of Pulsar's documentation with such output is at hand."""
    documents = [file.read_text() for file in DOCUMENTS.glob("004_*.txt")]
    for text in documents:
        reports = [line for line in text.splitlines() if line.startswith('{"') and "loadReportType" in line]
        kinds = set()
        for number, line in enumerate(reports):
            (tmp_path / f"{number}.json").write_text(line)
            found = read_snapshot_file(tmp_path / f"{number}.json")
            assert len(found.snapshot.brokers) == 1
            assert found.snapshot.brokers.reported_at_ms[0] > 0
            kinds.add(found.manager)
        assert kinds == {ManagerKind.SIMPLE, ManagerKind.MODULAR}
        (tmp_path / "m.txt").write_text(text)
        found = read_snapshot_file(tmp_path / "m.txt")
        assert found.manager is ManagerKind.EXTENSIBLE
        assert found.snapshot.extensible is not None
        assert found.snapshot.extensible.max_usage.tolist() == [0.15625]
