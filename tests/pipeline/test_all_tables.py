"""Every table, by three ways: the stream in pieces, one batch over the logs, and a sequential definition in Python."""

import itertools
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, Kind
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, encode_report
from pulsar_barycenter.pipeline.folds.balance import BalanceSettings
from pulsar_barycenter.pipeline.spark.table_reader import read_table
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.stream.micro_batches import StreamSettings
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.load_history import START_MS, make_history
from support.pipeline_oracles import PipelineOracle, assert_tables_follow, moment
from support.pipeline_runs import (
    assert_tables_equal_history,
    rows_of,
    run_available,
    write_reports,
)

pytestmark = pytest.mark.pipeline

GAP_MS = 20_000
SETTINGS = StreamSettings(
    history_gap_ms=GAP_MS, balance=BalanceSettings(interval_ms=10_000, settle_ms=10_000, history_gap_ms=GAP_MS)
)
SEED = 21
REPORTS = 120
SILENT_BROKER, SILENCE = "127.0.0.1:8081", range(45, 75)
LAST_OF_ANOTHER = "127.0.0.1:8082", 90


def eventful_history() -> list[LocalBrokerData]:
    """Moves, splits and restarts; one broker is silent for longer than the gap, another never comes back."""
    kept = [
        report
        for number, report in enumerate(make_history(SEED, reports=REPORTS))
        if not (report.broker_id == SILENT_BROKER and number in SILENCE)
        and not (report.broker_id == LAST_OF_ANOTHER[0] and number > LAST_OF_ANOTHER[1])
    ]
    counts: dict[tuple[str | None, str], int] = {}
    numbered = []
    for report in kept:
        name = report.broker_id, report.incarnation
        counts[name] = counts.get(name, 0) + 1
        numbered.append(msgspec.structs.replace(report, sequence=counts[name]))
    return numbered


def overtaken(reports: list[LocalBrokerData], start: int, end: int) -> int:
    """The number of a report that its broker's next one, before `end`, may overtake: no other reports its bundles."""
    for number in range(start, end):
        report, later = reports[number], reports[number + 1 : end]
        successors = [r for r in later if (r.broker_id, r.incarnation) == (report.broker_id, report.incarnation)]
        others = {bundle for r in later if r.broker_id != report.broker_id for bundle in r.last_stats}
        if successors and report.sequence > 1 and report.last_stats and not others & set(report.last_stats):
            return number
    raise AssertionError("no such report; take another seed")


def write_decisions(layout: PipelineLayout, broker: str, times: dict[int, Kind]) -> DecisionLog:
    log = DecisionLog(broker, layout.decisions)
    for at, kind in times.items():
        compared = Compared("usage", 0.1 + 1e-9 * at, ">", "limit", 0.85, "%")
        reason = Reason(code=Code.ABOVE_LIMIT, strategy="S", compared=(compared,))
        log.record(at, kind, reason, bundle="a/b/c", manager="modular")
    return log


@pytest.mark.drawn(1, of="all tables by several ways")
def test_stream_batch_and_definition_agree_about_every_table(
    spark: SparkSession, layout: PipelineLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With copies, an overtaken report, broken files and lines, a crash before the state is kept, and a restart."""
    reports = eventful_history()
    hole = overtaken(reports, 20, 29)
    kinds: list[Kind] = ["unload", "split", "shed", "unload", "assign", "refuse", "elect"]
    times = [START_MS + 3_700 * number for number in range(24)]
    decisions = dict(zip(times, itertools.cycle(kinds), strict=False))
    write_reports(layout, [report for number, report in enumerate(reports[:30]) if number != hole])
    log = write_decisions(layout, "127.0.0.1:8080", dict(list(decisions.items())[:12]))
    (first,) = run_available(spark, layout, settings=SETTINGS)
    assert first.held > 0
    assert (first.reports, first.late) == (29 - first.held, 0)
    write_reports(layout, [reports[hole], *reports[30:70]])
    folder = next(layout.report_log.iterdir())
    (folder / "copy.json").write_bytes(encode_report(reports[10]))
    (folder / "torn.json").write_bytes(encode_report(reports[11])[:-40])
    (folder / "wrong-usage.json").write_bytes(encode_report(reports[40]).replace(b'"usage":', b'"usage":"x",', 1))
    newer = encode_report(reports[70]).replace(b"{", b'{"ofTheFuture":[1],', 1)
    (folder / "newer.json").write_bytes(newer)
    for at, kind in list(decisions.items())[12:]:
        log.record(at, kind, Reason(code=Code.ADMIN))
    with next(layout.decisions.iterdir()).open("ab") as lines:
        lines.write(b'not json\n{"at":1,"by":"half')
    with monkeypatch.context() as patch:
        patch.setattr(StateFolder, "write", _crash)
        with pytest.raises(StreamingQueryException, match="crash"):
            run_available(spark, layout, settings=SETTINGS)
    (second,) = run_available(spark, layout, settings=SETTINGS)
    assert (second.batch_id, second.reports, second.duplicates, second.corrupt_decisions) == (1, 42 + first.held, 1, 1)
    assert sorted(Path(file).name for file in second.corrupt_files) == ["torn.json", "wrong-usage.json"]
    write_reports(layout, reports[71:])
    run_available(spark, layout, settings=SETTINGS)
    assert_tables_equal_history(spark, layout, SETTINGS)
    oracle = PipelineOracle(reports, SETTINGS)
    assert_tables_follow(spark, layout, oracle, decisions)
    assert {row["ended"] for row in oracle.ownership()} == {None, "moved", "split", "broker gone"}
    balance = oracle.balance(decisions.items())
    assert len(balance) > 8
    assert {row["brokers"] for row in balance} == {2, 3}
    assert any(row["bundles_without_owner"] for row in balance)
    assert sum(row["unloads"] for row in balance) > 3
    found = rows_of(read_table(spark, layout, "decisions"))
    told = [msgspec.json.decode(msgspec.json.encode(r)) | {"at": moment(r.at)} for r in log.recent()]
    assert [{name: row[name] for name in ("at", "by", "number", "kind", "sentence")} for row in found] == [
        {name: record[name] for name in ("at", "by", "number", "kind", "sentence")} for record in told
    ]
    assert [msgspec.json.decode(row["reason"]) for row in found] == [record["reason"] for record in told]
    assert_files_keep_their_schemas(layout)


def _crash(*_: object) -> None:
    raise RuntimeError("crash")


def assert_files_keep_their_schemas(layout: PipelineLayout) -> None:
    """The files themselves have exactly the documented columns, and nulls only where these are announced."""
    assert {folder.name for folder in layout.tables.iterdir() if folder.name[0] != "_"} == TABLES.keys()
    for name, table in TABLES.items():
        for file in (layout.tables / name).rglob("*.parquet"):
            assert file.parent.name.startswith("date=")
            rows = pq.read_table(file, partitioning=None)
            assert rows.schema.equals(table.arrow_schema), name
            for field in table.schema:
                assert field.nullable or rows.column(field.name).null_count == 0
