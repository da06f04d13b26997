"""The recorded history as programs get it: the answers of the command, tables for each library, periods, errors."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.history.command import command
from pulsar_barycenter.history import (
    InvalidNameError,
    MissingLibraryError,
    NoHistoryError,
    QueryError,
    RecordedHistory,
    UnknownTableError,
    WrongFolderError,
    open_history,
)
from pulsar_barycenter.history.recorded_history import storage_at
from pulsar_barycenter.pipeline.storage.arrow_storage import ArrowStorage
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.read_only import ReadOnlyStorage
from pulsar_barycenter.pipeline.tables.schemas import TABLES

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "history"
BEGIN = datetime(2026, 1, 1, 9, tzinfo=UTC)


@pytest.fixture
def history() -> RecordedHistory:
    return open_history(EXAMPLE)


def of_command(*arguments: str) -> list[dict[str, object]]:
    found = CliRunner().invoke(command, [arguments[0], "--data", str(EXAMPLE), "--format", "json", *arguments[1:]])
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def in_json(rows: pa.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(msgspec.json.encode(rows.to_pylist()))
    return found


def test_every_subcommand_has_a_method_of_its_name() -> None:
    assert [name for name in command.commands if not callable(getattr(RecordedHistory, name, None))] == []


def test_answers_are_those_of_the_command(history: RecordedHistory) -> None:
    bundle = history.top(1)["bundle"][0].as_py()
    assert in_json(history.top(4, by="throughput")) == of_command("top", "--limit", "4", "--by", "throughput")
    assert in_json(history.moves()) == of_command("moves")
    assert in_json(history.moves(broker="broker-1:8080")) == of_command("moves", "--broker", "broker-1:8080") == []
    assert in_json(history.flapping(within=timedelta(hours=1))) == of_command("flapping", "--within", "1h")
    assert in_json(history.brokers(over=0.3)) == of_command("brokers", "--over", "30")
    assert in_json(history.imbalance()) == of_command("imbalance")
    assert in_json(history.decisions(kind="unload", manager="modular")) == of_command("decisions", "--kind", "unload")
    query = "select broker, count(*) as n from broker_usage group by broker order by broker"
    assert in_json(history.sql(query)) == of_command("sql", query)
    life = history.bundle(bundle, every=timedelta(hours=1))
    parts = {"owners": life.owners, "decisions": life.decisions, "load": life.load}
    expected = of_command("bundle", bundle, "--every", "1h")
    assert [{"kind": kind, **row} for kind, rows in parts.items() for row in in_json(rows)] == expected


def test_a_bundle_without_decisions_has_an_empty_part(history: RecordedHistory) -> None:
    moved = set(history.moves()["bundle"].to_pylist())
    quiet = next(name for name in history.table("ownership")["bundle"].to_pylist() if name not in moved)
    life = history.bundle(quiet)
    moving = history.bundle(min(moved))
    assert (len(life.owners), len(life.decisions)) == (1, 0)
    assert life.decisions.column_names == moving.decisions.column_names
    with pytest.raises(NoHistoryError):
        history.bundle("public/default/0x00000000_0x80000000")


def test_a_topic_stands_for_its_last_bundle(history: RecordedHistory) -> None:
    life = history.bundle("persistent://generated/load-0/orders")
    assert life.bundle.startswith("generated/load-0/")
    with pytest.raises(InvalidNameError):
        history.bundle("persistent://generated")


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_is_the_same_in_each_library(history: RecordedHistory, name: str) -> None:
    rows = history.table(name)
    assert rows.column_names == TABLES[name].schema.names
    assert len(rows) > 0
    assert history.pandas(name).shape == history.polars(name).shape == rows.shape
    times = rows[TABLES[name].time].to_pylist()
    assert times == sorted(times)


def test_a_period_begins_inclusive_and_ends_exclusive() -> None:
    hour = open_history(EXAMPLE, since=BEGIN + timedelta(minutes=10), until=BEGIN + timedelta(minutes=20))
    intervals = hour.imbalance()["interval_start"].to_pylist()
    assert (intervals[0], intervals[-1]) == (BEGIN + timedelta(minutes=10), BEGIN + timedelta(minutes=19))
    assert len(hour.table("ownership")) == 24, "intervals that touch the period"
    nothing = open_history(EXAMPLE, since=BEGIN + timedelta(days=2))
    assert nothing.table("load_reports").num_rows == 0
    with pytest.raises(NoHistoryError):
        nothing.top()


def test_what_cannot_be_opened_says_why(tmp_path: Path, history: RecordedHistory) -> None:
    (tmp_path / "letter.txt").write_text("")
    with pytest.raises(WrongFolderError, match="is not a data folder"):
        open_history(tmp_path)
    with pytest.raises(ValueError, match="has no offset from UTC"):
        open_history(EXAMPLE, since=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(ValueError, match="is not before"):
        open_history(EXAMPLE, since=BEGIN, until=BEGIN)
    with pytest.raises(ValueError, match="Arrow cannot read carrier-pigeon://bucket"):
        open_history("carrier-pigeon://bucket/data")
    with pytest.raises(UnknownTableError, match="did you mean broker_usage"):
        history.table("brokers_usage")
    with pytest.raises(QueryError):
        history.sql("select nothing from nowhere")


@pytest.mark.parametrize(("library", "call"), [("pandas", "pandas"), ("polars", "polars")])
def test_a_missing_library_is_named_with_its_remedy(
    history: RecordedHistory, library: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError, match=f"pip install '{library}'"):
        getattr(history, call)("balance")


def test_a_missing_spark_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, history: RecordedHistory) -> None:
    for name in [name for name in sys.modules if name.startswith(("pyspark", "pulsar_barycenter.pipeline.spark."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingLibraryError, match=r"pulsar-barycenter\[pipeline\]"):
        history.spark(None)  # type: ignore[arg-type]


def test_a_bucket_is_read_by_arrow(history: RecordedHistory) -> None:
    """By the file system of Arrow for this machine: the same class reads S3, GCS, Azure and HDFS."""
    bucket = RecordedHistory(ReadOnlyStorage(ArrowStorage(EXAMPLE.as_uri()), "only read"), 0, 253_402_300_799_000)
    assert bucket.address == EXAMPLE.as_uri()
    assert bucket.moves().equals(history.moves())
    for name in bucket.table_names:
        assert bucket.table(name).equals(history.table(name)), name
    assert isinstance(bucket.polars("balance"), pl.DataFrame)
    with pytest.raises(ValueError, match=r"use spark\(session\)"):
        bucket.sql("select 1")


def test_a_storage_of_arrow_reads_what_that_of_a_folder_does(tmp_path: Path) -> None:
    (tmp_path / "tables" / "a").mkdir(parents=True)
    (tmp_path / "tables" / "b.txt").write_bytes(b"0123456789")
    local, arrow = LocalStorage(tmp_path), ArrowStorage(tmp_path.as_uri())
    assert [(e.name, e.is_folder) for e in arrow.entries("tables")] == [("a", True), ("b.txt", False)]
    assert arrow.entries("tables")[1].size == local.entries("tables")[1].size
    assert arrow.entries("none") == local.entries("none") or not arrow.entries("none")
    for offset, length in ((0, None), (3, 4), (8, 100), (50, 1)):
        assert arrow.read("tables/b.txt", offset=offset, length=length) == local.read(
            "tables/b.txt", offset=offset, length=length
        )
    assert (arrow.exists("tables/b.txt"), arrow.exists("tables"), arrow.exists("c")) == (True, True, False)
    assert arrow.path_of(arrow.address("tables/b.txt")) == "tables/b.txt"
    with arrow.local("tables/b.txt") as file:
        assert file.read_bytes() == b"0123456789"
    for missing in ("c", "tables"):
        with pytest.raises(FileNotFoundError):
            arrow.read(missing)


def test_a_storage_that_is_only_read_refuses_every_change(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"0123456789")
    local = LocalStorage(tmp_path)
    storage = ReadOnlyStorage(local, "ask somebody else")
    assert (storage.read("b.txt", offset=3, length=4), storage.exists("c")) == (b"3456", False)
    assert (storage.entries(""), storage.address("b.txt")) == (local.entries(""), local.address("b.txt"))
    changes = (
        lambda: storage.write("b.txt", b""),
        lambda: storage.new_file("b.txt"),
        lambda: storage.make_folder("b.txt"),
        lambda: storage.move("b.txt", "c"),
        lambda: storage.delete("b.txt"),
    )
    for change in changes:
        with pytest.raises(PermissionError, match=r"b\.txt cannot be written: ask somebody else"):
            change()
    assert local.read("b.txt") == b"0123456789"


def test_addresses_choose_their_storage() -> None:
    assert isinstance(storage_at(str(EXAMPLE)), LocalStorage)
    assert isinstance(storage_at(EXAMPLE.as_uri()), LocalStorage)
    s3 = storage_at("s3a://bucket/cluster?region=eu-west-1")
    assert isinstance(s3, ReadOnlyStorage)
    assert isinstance(s3.files, ArrowStorage)
    assert s3.address("tables") == "s3a://bucket/cluster/tables"
    with_secret = storage_at("s3://key:secret@bucket/cluster?endpoint_override=127.0.0.1:9000&scheme=http")
    assert with_secret.address() == "s3://bucket/cluster", "messages do not show credentials"
