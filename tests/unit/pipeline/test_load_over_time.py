"""The load over time from tables of the pipeline's own writer, compared with means computed second by second."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pulsar_barycenter.load.reports.load_over_time import LoadQuestion, RecordedLoad
from pulsar_barycenter.pipeline import load_over_time
from pulsar_barycenter.pipeline.held import LONGEST_HELD
from pulsar_barycenter.pipeline.load_over_time import Bounds, read_load
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.compaction import merge_files
from pulsar_barycenter.pipeline.tables.files import Tables, table_files
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from support.mean_oracles import Sample, mean_and_ticks

BEGIN = datetime(2026, 11, 20, 23, 50, tzinfo=UTC)
"""Ten minutes before midnight: two dates."""
BEGIN_MS = int(BEGIN.timestamp() * 1000)
STEP_MS = 60_000
LONG = 1e9
QUESTION = LoadQuestion(BEGIN_MS + 2 * STEP_MS, BEGIN_MS + 18 * STEP_MS, STEP_MS)
BUNDLE = "t/n/0x00000000_0x80000000"
Row = dict[str, Any]


def rows_of(name: str, rows: list[Row]) -> pa.Table:
    schema = TABLES[name].arrow_schema
    blank: Row = {each.name: None if each.nullable else "" if pa.types.is_string(each.type) else 0 for each in schema}
    return pa.Table.from_pylist([{**blank, **row} for row in rows], schema=schema)


@pytest.fixture
def reports() -> list[Row]:
    """Rows with the columns of all three tables."""
    rng = random.Random(3)
    return [
        {
            "broker": broker,
            "bundle": BUNDLE if broker == "a:1" else "t/n/0x80000000_0xffffffff",
            "incarnation": "i",
            "sequence": number,
            "reported_at": BEGIN + timedelta(seconds=15 * number + rng.randrange(15)),
            "cpu_percent": rng.choice((0.0, rng.uniform(0, 100))),
            "memory_percent": rng.uniform(0, 100),
            "msg_rate_in": rng.uniform(0, 1000),
            "msg_rate_out": rng.uniform(0, 1000),
            "msg_throughput_in": rng.uniform(0, 1e6),
            "msg_throughput_out": 0.0,
            "bundles": rng.randrange(1, 9),
        }
        for number in range(200)
        for broker in ("a:1", "b:1", "c:1")
        if rng.random() < 0.8
    ]


def write(layout: PipelineLayout, name: str, reports: list[Row], batches: int = 8) -> None:
    names = set(TABLES[name].schema.names)
    rows, size = [{key: row[key] for key in row if key in names} for row in reports], -(-len(reports) // batches)
    for batch in range(batches):
        Tables(layout).write(name, batch, rows_of(name, rows[batch * size : (batch + 1) * size]))


@pytest.fixture
def layout(tmp_path: Path, reports: list[Row]) -> PipelineLayout:
    layout = PipelineLayout.of(tmp_path)
    for name in ("load_reports", "broker_usage", "bundle_samples"):
        write(layout, name, reports)
    return layout


def expected(
    reports: list[Row], question: LoadQuestion, figure: Callable[[Row], float], thing: str = "broker"
) -> dict[tuple[int, str], float]:
    """Return the mean of each step with a valid report, tick by tick of a second."""
    ticks = {id(row): int(row["reported_at"].timestamp()) - BEGIN_MS // 1000 for row in reports}
    of_brokers: dict[str, list[int]] = {}
    of_things: dict[str, list[Sample]] = {}
    for row in reports:
        of_brokers.setdefault(row["broker"], []).append(ticks[id(row)])
        sample = Sample(row[thing], row["broker"], ticks[id(row)], figure(row))
        of_things.setdefault(row[thing], []).append(sample)
    found = {}
    for begin in range(question.since_ms, question.until_ms, question.step_ms):
        since = (begin - BEGIN_MS) // 1000
        for name, samples in of_things.items():
            mean, _ = mean_and_ticks(
                samples, of_brokers, since, since + question.step_ms // 1000, round(LONGEST_HELD.total_seconds())
            )
            if mean is not None:
                found[begin, name] = mean
    return found


def total_rate(row: Row) -> float:
    return float(row["msg_rate_in"] + row["msg_rate_out"])


def told(load: RecordedLoad, figure: str) -> dict[tuple[int, str], Any]:
    return {(at, row.broker): getattr(row, figure) for at, rows in load.loads.items() for row in rows}


def test_brokers_have_means_weighted_by_how_long_reports_hold(layout: PipelineLayout, reports: list[Row]) -> None:
    found = read_load(layout, QUESTION)
    assert (found.whole_since_ms, found.note) == (QUESTION.since_ms, "")
    usage = expected(reports, QUESTION, lambda row: max(row["cpu_percent"], row["memory_percent"]))
    assert told(found, "usage") == pytest.approx(usage, abs=0.06)
    rate = expected(reports, QUESTION, total_rate)
    assert told(found, "msg_rate") == pytest.approx(rate, abs=0.01)
    assert told(found, "msg_throughput") == pytest.approx(
        expected(reports, QUESTION, lambda row: row["msg_throughput_in"]), abs=0.1
    )
    assert all(1 <= bundles <= 8 for bundles in told(found, "bundles").values())


def test_one_broker_and_one_bundle_are_told_of_alone(layout: PipelineLayout, reports: list[Row]) -> None:
    found = read_load(layout, LoadQuestion(QUESTION.since_ms, QUESTION.until_ms, STEP_MS, broker="b:1"))
    assert {broker for _, broker in told(found, "usage")} == {"b:1"}
    question = LoadQuestion(QUESTION.since_ms, QUESTION.until_ms, STEP_MS, bundle=BUNDLE)
    of_bundle = read_load(layout, question)
    mine = [row for row in reports if row["bundle"] == BUNDLE]
    rate = expected(mine, question, total_rate)
    assert told(of_bundle, "msg_rate") == pytest.approx(rate, abs=0.01)
    assert set(told(of_bundle, "usage").values()) == {None}


def test_a_bundle_that_moved_within_a_step_has_one_row_in_it(tmp_path: Path) -> None:
    layout = PipelineLayout.of(tmp_path)
    samples = [
        {"bundle": BUNDLE, "broker": broker, "incarnation": "i", "sequence": 1, "msg_rate_in": rate}
        | {"reported_at": BEGIN + timedelta(seconds=second)}
        for broker, rate, second in (("a:1", 10.0, 5), ("b:1", 30.0, 45))
    ]
    write(layout, "bundle_samples", samples, 1)
    found = read_load(layout, LoadQuestion(BEGIN_MS, BEGIN_MS + STEP_MS, STEP_MS, bundle=BUNDLE))
    assert told(found, "msg_rate") == {(BEGIN_MS, "b:1"): round((40 * 10.0 + 15 * 30.0) / 55, 2)}


def test_compacted_files_count_once(layout: PipelineLayout) -> None:
    before = read_load(layout, QUESTION)
    for name in ("load_reports", "broker_usage"):
        files = [file for file in table_files(layout, name) if "date=2026-11-20" in file.path]
        merge_files(layout, name, files)
    assert told(read_load(layout, QUESTION), "msg_rate") == pytest.approx(told(before, "msg_rate"), abs=0.01)


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(files=5, seconds=LONG),
        Bounds(rows=320, seconds=LONG),
        Bounds(stored_bytes=25_000, seconds=LONG),
        Bounds(seconds=32.0),
    ],
)
def test_what_goes_beyond_the_bounds_is_left_out_and_the_rest_is_whole(layout: PipelineLayout, bounds: Bounds) -> None:
    """The newest is read first; each read of the clock takes a second. What is not read may be valid for
    LONGEST_HELD."""
    seconds, question = count(), LoadQuestion(QUESTION.since_ms, BEGIN_MS + 48 * STEP_MS, STEP_MS)
    found = read_load(layout, question, bounds, now=lambda: float(next(seconds)))
    assert question.since_ms < found.whole_since_ms < question.until_ms
    assert "more than one answer may read" in found.note
    rest = LoadQuestion(found.whole_since_ms, question.until_ms, STEP_MS)
    for figure in ("usage", "msg_rate"):
        whole = told(read_load(layout, rest), figure)
        assert whole
        assert {key: value for key, value in told(found, figure).items() if key[0] >= rest.since_ms} == whole


def test_nothing_is_read_of_other_times(layout: PipelineLayout) -> None:
    later = LoadQuestion(BEGIN_MS + 100 * STEP_MS, BEGIN_MS + 110 * STEP_MS, STEP_MS)
    found = read_load(layout, later, Bounds(rows=0, stored_bytes=0))
    assert (found.loads, found.whole_since_ms, found.note) == ({}, later.since_ms, "")


def test_a_spoiled_file_is_left_out_and_told_of(layout: PipelineLayout) -> None:
    [first, *_] = table_files(layout, "load_reports")
    (layout.data / first.path).write_bytes(b"PAR1 and no more")
    found = read_load(layout, QUESTION)
    assert found.note.startswith(f"{first.path} cannot be read: ")
    assert "barycenter history" in found.note
    assert found.loads


def test_without_tables_the_answer_says_so(tmp_path: Path) -> None:
    found = read_load(PipelineLayout.of(tmp_path), QUESTION)
    assert found.loads == {}
    assert "no tables" in found.note


def test_figures_that_are_none_are_not_told(tmp_path: Path) -> None:
    layout = PipelineLayout.of(tmp_path)
    identity = {"broker": "a:1", "incarnation": "i", "sequence": 1, "reported_at": BEGIN}
    write(layout, "load_reports", [{**identity, "msg_rate_in": float("nan"), "msg_throughput_in": -5.0}], 1)
    found = read_load(layout, LoadQuestion(BEGIN_MS, BEGIN_MS + STEP_MS, STEP_MS))
    [[row]] = found.loads.values()
    assert (row.usage, row.msg_rate, row.msg_throughput) == (None, None, None)


def sparse(seed: int) -> list[Row]:
    """Reports of two brokers over some hours: a few seconds to twenty minutes apart, each with one of two bundles."""
    rng, rows = random.Random(seed), list[Row]()
    for broker in ("a:1", "b:1"):
        at = 0
        for number in range(1, 25):
            at += rng.choice((rng.randrange(1, 60), rng.randrange(1, 1_200)))
            rows.append(
                {"broker": broker, "bundle": rng.choice((BUNDLE, "t/n/0x80000000_0xffffffff")), "incarnation": "i"}
                | {"sequence": number, "reported_at": BEGIN + timedelta(seconds=at), "cpu_percent": 50.0}
                | {"msg_rate_in": rng.uniform(0, 5_000), "msg_rate_out": 0.0, "bundles": 1}
            )
    return sorted(rows, key=lambda row: row["reported_at"])


@pytest.mark.drawn(8)
@pytest.mark.parametrize("kept", [4, 1_000_000])
@pytest.mark.parametrize("step_s", [60, 600, 3_600])
@pytest.mark.parametrize("seed", range(4))
def test_reports_count_for_the_seconds_that_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, step_s: int, kept: int
) -> None:
    """Also if few rows are kept at once; a step that no report covers is left out."""
    monkeypatch.setattr(load_over_time, "_ROWS_KEPT", kept)
    layout, rows, step_ms = PipelineLayout.of(tmp_path), sparse(seed), 1_000 * step_s
    for name in ("load_reports", "bundle_samples"):
        write(layout, name, rows)
    since_ms = (BEGIN_MS // 3_600_000 + 1) * 3_600_000
    question = LoadQuestion(since_ms, since_ms + 2 * 3_600_000, step_ms)
    found = read_load(layout, question)
    assert told(found, "msg_rate") == pytest.approx(expected(rows, question, total_rate), abs=0.01)

    of_bundle = read_load(layout, LoadQuestion(since_ms, question.until_ms, step_ms, bundle=BUNDLE))
    rates = {(at, BUNDLE): row.msg_rate for at, loads in of_bundle.loads.items() for row in loads}
    wanted = {key: mean for key, mean in expected(rows, question, total_rate, "bundle").items() if key[1] == BUNDLE}
    assert rates == pytest.approx(wanted, abs=0.01)


def test_the_newest_report_holds_until_now_at_most(tmp_path: Path) -> None:
    """A step that is not over yet, of which the last report has one second."""
    layout = PipelineLayout.of(tmp_path)
    reports = [
        {"broker": "a:1", "incarnation": "i", "sequence": number, "msg_rate_in": rate}
        | {"reported_at": BEGIN + timedelta(seconds=second)}
        for number, (rate, second) in enumerate(((10.0, 0), (20.0, 9)), 1)
    ]
    write(layout, "load_reports", reports, 1)
    question = LoadQuestion(BEGIN_MS, BEGIN_MS + 2 * STEP_MS, STEP_MS)
    found = read_load(layout, question, now_ms=BEGIN_MS + 10_000)
    assert told(found, "msg_rate") == {(BEGIN_MS, "a:1"): 11.0}
