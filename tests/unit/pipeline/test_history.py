"""Questions to a recorded history, compared with answers computed row by row."""

import csv
import io
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from click.testing import Result as CliResult

from pulsar_barycenter.cli.history.command import command
from pulsar_barycenter.pipeline.history import UNKNOWN, History, NoHistoryError, Ranking
from pulsar_barycenter.pipeline.load_means import Period, bundle_means, report_times
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, TABLES

BEGIN = datetime(2026, 11, 20, 23, 50, tzinfo=UTC)
"""Ten minutes before midnight: a history spans two dates."""

BUNDLES = [f"t/n/0x{i:08x}_0x{i + 1:08x}" for i in range(6)]
Row = dict[str, Any]


def rows_of(name: str, rows: list[Row]) -> pa.Table:
    """Rows of a table; what a row leaves out is 0, blank or null, as its type is."""
    table = TABLES[name]
    blank: Row = {
        field.name: None if field.nullable else "" if pa.types.is_string(field.type) else 0
        for field in table.arrow_schema
    }
    return pa.Table.from_pylist([{**blank, **row} for row in rows], schema=table.arrow_schema)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def make_samples(seed: int) -> list[Row]:
    rng = random.Random(seed)
    return [
        {
            "bundle": bundle,
            "broker": rng.choice("ab"),
            "incarnation": "i",
            "sequence": number,
            "reported_at": at(number * 10),
            "topics": rng.randrange(5),
            **{figure: rng.choice((0.0, rng.uniform(0, 1000))) for figure in FIGURES},
        }
        for number in range(120)
        for bundle in BUNDLES
        if rng.random() < 0.7
    ]


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    return PipelineLayout.of(tmp_path)


def write(layout: PipelineLayout, name: str, rows: list[Row], batches: int = 4) -> None:
    size = -(-len(rows) // batches)
    for batch in range(batches):
        Tables(layout).write(name, batch, rows_of(name, rows[batch * size : (batch + 1) * size]))


def asked(layout: PipelineLayout, *arguments: str) -> CliResult:
    return CliRunner().invoke(command, [arguments[0], "--data", str(layout.data), *arguments[1:]])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("by", list(Ranking))
def test_top_bundles_are_those_of_the_greatest_mean(
    layout: PipelineLayout, seed: int, by: Ranking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over files and dates, weighted by time within the period; broker and topics are those of the newest sample. The
    means themselves are checked by `tests/property/test_load_means.py`."""
    at_once = 50 * seed or (1 if by is Ranking.MSG_RATE else 25)
    monkeypatch.setattr("pulsar_barycenter.pipeline.history._ROWS_AT_ONCE", at_once)
    rows = make_samples(seed)[:: 5 if at_once == 1 else 1]  # single rows take long: the files are read for each
    write(layout, "bundle_samples", rows)
    write(layout, "load_reports", [{name: row[name] for name in ("broker", "sequence", "reported_at")} for row in rows])
    since, until = at(200), at(1000)
    for row in rows:
        row |= {"msg_rate": row["msg_rate_in"] + row["msg_rate_out"]}
        row |= {"msg_throughput": row["msg_throughput_in"] + row["msg_throughput_out"]}
    schema = {"bundle": pa.string(), "broker": pa.string(), "topics": pa.int64(), "msg_rate": pa.float64()}
    schema |= {"msg_throughput": pa.float64(), "reported_at": pa.timestamp("us", "UTC")}
    table = pa.Table.from_pylist(rows, schema=pa.schema(schema))
    period = Period(1000 * ms(since), 1000 * ms(until), report_times([table]))
    means = {row["bundle"]: row for row in bundle_means(table, period).to_pylist()}
    expected = sorted(means, key=lambda name: (-means[name][by], name))[:4]
    found = History(layout, since_ms=ms(since), until_ms=ms(until)).top_bundles(4, by=by).to_pylist()
    assert [row["bundle"] for row in found] == expected
    for row in found:
        mean = means[row["bundle"]]
        newest = [each for each in rows if each["bundle"] == row["bundle"] and each["reported_at"] < until][-1]
        assert (row["samples"], row["broker"], row["topics"]) == (mean["samples"], newest["broker"], newest["topics"])
        assert row["covered"] == pytest.approx(mean["covered_s"] / 800)
        for name in Ranking:
            assert row[name] == pytest.approx(mean[name])
            assert row[f"{name}_max"] == mean[f"{name}_max"]


def test_a_period_without_an_end_reaches_until_now_at_most(layout: PipelineLayout) -> None:
    """The last report of a broker is valid until now, and no longer than reports are; there the period ends."""
    (row, *_) = make_samples(1)
    last = {**row, "reported_at": at(0), "msg_rate_in": 10.0, "msg_rate_out": 20.0}
    write(layout, "bundle_samples", [last], batches=1)
    write(layout, "load_reports", [{name: last[name] for name in ("broker", "sequence", "reported_at")}], batches=1)
    for now_s, covered in ((60, 1.0), (1_920, 1.0)):
        (found,) = History(layout, now_ms=ms(at(now_s))).top_bundles(1).to_pylist()
        assert (found["msg_rate"], found["covered"]) == (30.0, covered)
    (found,) = History(layout, since_ms=ms(at(0)), until_ms=ms(at(3_840))).top_bundles(1).to_pylist()
    assert found["covered"] == pytest.approx(0.25)


def test_brokers_over_a_threshold_are_told_with_their_share_of_time(layout: PipelineLayout) -> None:
    """Above, not at; a broker that never was is not listed. The last report of a is valid for 16 minutes, the others
    500 s."""
    usages = {"a": [0.9, 0.85, 0.2, 0.95], "b": [0.85, 0.1], "c": [0.86]}
    rows = [
        {"broker": broker, "incarnation": "i", "sequence": n, "reported_at": at(n * 500), "weighted_usage": usage}
        for broker, series in usages.items()
        for n, usage in enumerate(series)
    ]
    write(layout, "broker_usage", rows)
    found = History(layout).brokers_over(0.85).to_pylist()
    assert [(row["broker"], row["reports"], row["over"], row["share"]) for row in found] == [
        ("c", 1, 1, 1.0),
        ("a", 4, 2, pytest.approx((500 + 960) / (1500 + 960))),
    ]
    assert (found[1]["usage_max"], found[1]["first_over"], found[1]["last_over"]) == (0.95, at(0), at(1500))
    assert found[1]["usage_mean"] == pytest.approx((500 * (0.9 + 0.85 + 0.2) + 960 * 0.95) / 2460)


def test_a_bundles_owners_stand_once_with_their_ends(layout: PipelineLayout) -> None:
    """An interval is written while it is open and again when it has ended; the period leaves out those outside."""
    owned = {"bundle": BUNDLES[0], "incarnation": "i"}
    first = {**owned, "broker": "a", "owned_from": at(0)}
    tables = Tables(layout)
    tables.write("ownership", 0, rows_of("ownership", [first]))
    ended = {**first, "owned_to": at(700), "ended": "moved"}
    open_again = {**owned, "broker": "b", "owned_from": at(700)}
    other = {**owned, "bundle": BUNDLES[1], "broker": "b", "owned_from": at(1)}
    tables.write("ownership", 1, rows_of("ownership", [ended, open_again, other]))
    found = History(layout).bundle_owners(BUNDLES[0]).to_pylist()
    assert [(row["broker"], row["owned_to"], row["ended"]) for row in found] == [
        ("a", at(700), "moved"),
        ("b", None, None),
    ]
    later = History(layout, since_ms=ms(at(700))).bundle_owners(BUNDLES[0]).to_pylist()
    assert [row["broker"] for row in later] == ["b"]


def test_a_bundle_has_one_owner_at_a_time_for_people(layout: PipelineLayout) -> None:
    """Reports of two brokers overlap: the table ends an owner where the next begins. A bundle without a next owner,
    or with the same owner again, was unloaded. JSON has the times of the reports."""
    moved = {"bundle": BUNDLES[0], "incarnation": "i", "ended": "moved"}
    lives = [("a", 0, 15), ("b", 11, 20), ("b", 30, 45)]
    rows = [{**moved, "broker": who, "owned_from": at(since), "owned_to": at(until)} for who, since, until in lives]
    write(layout, "ownership", rows)
    answer = asked(layout, "bundle", BUNDLES[0]).stdout
    assert "times are those of load reports" in answer
    told = [line.split() for line in answer.splitlines() if line.startswith(("a ", "b "))]
    assert [(words[0], words[4], words[5]) for words in told] == [
        ("a", f"{at(11):%H:%M:%S}", "moved"),
        ("b", f"{at(20):%H:%M:%S}", "unloaded"),
        ("b", f"{at(45):%H:%M:%S}", "unloaded"),
    ]
    until = ("--until", f"{at(46):%Y-%m-%dT%H:%M:%S}")
    assert asked(layout, "bundle", BUNDLES[0], *until).stdout.count("unloaded") == 1, "who owned it after is not known"
    ends = [
        msgspec.json.decode(line)
        for line in asked(layout, "bundle", BUNDLES[0], "--format", "json").stdout.splitlines()
    ]
    assert [each["ended"] for each in ends] == ["moved"] * 3
    assert str(at(15)) in str(ends[0]["owned_to"]).replace("T", " ").replace("Z", "+00:00")


def test_decisions_about_a_bundle_are_told_once(layout: PipelineLayout) -> None:
    """A decision that two batches kept is one decision."""
    made = {"by": "a", "number": 1, "at": at(5), "kind": "unload", "bundle": BUNDLES[0], "sentence": "too hot"}
    tables = Tables(layout)
    for batch in range(2):
        tables.write("decisions", batch, rows_of("decisions", [made, {**made, "number": 2, "bundle": BUNDLES[1]}]))
    found = History(layout).bundle_decisions(BUNDLES[0]).to_pylist()
    assert [(row["at"], row["kind"], row["sentence"]) for row in found] == [(at(5), "unload", "too hot")]


def without_manager(layout: PipelineLayout) -> None:
    """Let the files that are there be of a version that did not write which load manager decided."""
    for file in live_files(layout.tables, "decisions"):
        pq.write_table(pq.ParquetFile(file).read().drop_columns(["manager"]), file)


def decided(number: int, manager: str | None = None, kind: str = "unload", bundle: str = BUNDLES[0]) -> Row:
    return {
        "by": "a:1",
        "number": number,
        "at": at(number * 100),
        "kind": kind,
        "bundle": bundle,
        "manager": manager,
        "strategy": "S",
    }


@pytest.fixture
def decisions(layout: PipelineLayout) -> PipelineLayout:
    """Ten decisions on two dates: the first four of a version that did not record the manager, one of those copied."""
    tables = Tables(layout)
    tables.write("decisions", 0, rows_of("decisions", [decided(n) for n in range(4)]))
    without_manager(layout)
    managers = ["modular", "simple", "extensible", "extensible", None, "modular"]
    kinds = ["unload", "unload", "shed", "assign", "unload", "unload"]
    rows = [decided(n, managers[n - 4], kinds[n - 4], BUNDLES[n % 2]) for n in range(4, 10)]
    tables.write("decisions", 1, rows_of("decisions", [decided(3), *rows]))
    return layout


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({}, range(10)),
        ({"limit": 3}, [7, 8, 9]),
        ({"manager": "modular"}, [4, 9]),
        ({"manager": "simple"}, [5]),
        ({"manager": "extensible"}, [6, 7]),
        ({"manager": UNKNOWN}, [0, 1, 2, 3, 8]),
        ({"manager": UNKNOWN, "limit": 2}, [3, 8]),
        ({"manager": "extensible", "kind": "shed"}, [6]),
        ({"manager": "simple", "kind": "shed"}, []),
    ],
)
@pytest.mark.parametrize("at_once", [1, 100_000])
def test_decisions_are_told_by_load_manager_and_those_of_before_as_unknown(
    decisions: PipelineLayout,
    asked: dict[str, Any],
    numbers: list[int],
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pulsar_barycenter.pipeline.history._DECISIONS_AT_ONCE", at_once)
    found = History(decisions).decisions(**{"limit": 100, **asked})
    assert found.column_names[:5] == ["at", "by", "manager", "strategy", "kind"]
    assert found.column("at").to_pylist() == [at(number * 100) for number in numbers]


def test_a_bundles_decisions_say_and_can_be_asked_by_manager(decisions: PipelineLayout) -> None:
    history = History(decisions)
    managers = [(row["at"], row["manager"]) for row in history.bundle_decisions(BUNDLES[0]).to_pylist()]
    assert managers[4:] == [(at(400), "modular"), (at(600), "extensible"), (at(800), None)]
    assert len(history.bundle_decisions(BUNDLES[0], manager=UNKNOWN)) == 5
    assert len(history.bundle_decisions(BUNDLES[0], manager="extensible")) == 1


def test_the_command_has_the_manager_as_a_column_and_as_a_question(decisions: PipelineLayout) -> None:
    words = ["decisions", "--data", str(decisions.data), "--format", "csv"]
    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(command, words).stdout)))
    assert [row["manager"] for row in rows[3:]] == ["", "modular", "simple", "extensible", "extensible", "", "modular"]
    one = CliRunner().invoke(command, [*words, "--manager", "simple"])
    assert [row["manager"] for row in csv.DictReader(io.StringIO(one.stdout))] == ["simple"]
    shown = CliRunner().invoke(command, ["decisions", "--data", str(decisions.data), "--manager", "unknown"])
    assert shown.exit_code == 0
    assert shown.stdout.split()[:4] == ["at", "by", "manager", "strategy"]
    life = ["bundle", BUNDLES[0], "--data", str(decisions.data), "--format", "json", "--manager", "modular"]
    told = CliRunner().invoke(command, life)
    assert told.exit_code == 0, told.output
    assert told.stdout.count('"kind":"unload"') == 1
    wrong = CliRunner().invoke(command, [*words, "--manager", "nobody"])
    assert (wrong.exit_code, "unknown" in wrong.stderr) == (2, True)


def test_where_no_decision_was_kept_the_command_says_so(layout: PipelineLayout) -> None:
    found = CliRunner().invoke(command, ["decisions", "--data", str(layout.data)])
    assert (found.exit_code, "has no tables" in found.stderr) == (1, True)


def test_a_bundles_load_is_averaged_per_interval(layout: PipelineLayout) -> None:
    """Intervals begin at whole multiples of their length; an interval without a valid report has no row."""
    rows = [
        {
            "bundle": BUNDLES[0],
            "broker": "a",
            "incarnation": "i",
            "sequence": n,
            "reported_at": at(second),
            "msg_rate_in": rate,
        }
        for n, (second, rate) in enumerate([(0, 3_000.0), (450, 1_000.0), (4_000, 7.0)])
    ]
    write(layout, "bundle_samples", rows)
    write(layout, "load_reports", [{name: row[name] for name in ("broker", "sequence", "reported_at")} for row in rows])
    found = History(layout, until_ms=ms(at(4_060))).bundle_load(BUNDLES[0], every=timedelta(minutes=5)).to_pylist()
    start = ms(at(0)) // 300_000 * 300
    told = {round(row["interval_start"].timestamp()) - start: (row["msg_rate"], row["samples"]) for row in found}
    assert told[0] == (3_000.0, 1)
    assert sum(row["covered"] for row in found) * 300 == pytest.approx(450 + 960 + 60)
    assert told[max(told)] == (7.0, 1)
    assert len(told) < (max(told) // 300) + 1, "there is a gap"


def test_imbalance_has_no_ratio_over_nothing(layout: PipelineLayout) -> None:
    """An idle cluster is neither balanced nor out of balance."""
    rows = [
        {"interval_start": at(60), "usage_max": 0.8, "usage_mean": 0.2, "msg_rate_max": 0.0, "msg_rate_mean": 0.0},
        {"interval_start": at(0), "usage_max": 0.0, "usage_mean": 0.0, "msg_rate_max": 6.0, "msg_rate_mean": 4.0},
    ]
    write(layout, "balance", rows, batches=2)
    found = History(layout).imbalance().to_pylist()
    assert [(row["usage_ratio"], row["msg_rate_ratio"]) for row in found] == [(None, 1.5), (4.0, None)]


def test_nothing_recorded_is_told_with_what_to_do(layout: PipelineLayout) -> None:
    """Before the pipeline ran there are no tables; with tables the period may be empty."""
    for question in ("top", "brokers", "imbalance"):
        result = asked(layout, question)
        assert result.exit_code == 1
        assert "barycenter pipeline run --data" in result.output
    write(layout, "bundle_samples", make_samples(1))
    with pytest.raises(NoHistoryError, match="no matching rows in this period"):
        History(layout, until_ms=ms(at(0))).top_bundles(1)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_answers_for_machines_hold_the_same_rows(layout: PipelineLayout, form: str) -> None:
    """JSON is one object a line, CSV has a head; both keep every digit."""
    write(layout, "bundle_samples", make_samples(2))
    output = asked(layout, "top", "--format", form).stdout
    rows = (
        [msgspec.json.decode(line) for line in output.splitlines()]
        if form == "json"
        else list(csv.DictReader(io.StringIO(output)))
    )
    expected = History(layout).top_bundles(10).to_pylist()
    assert [(row["bundle"], float(row["msg_rate"])) for row in rows] == [
        (row["bundle"], row["msg_rate"]) for row in expected
    ]


def test_a_bundles_life_is_told_for_people(layout: PipelineLayout) -> None:
    """The known data is printed; an unknown bundle ends with 1, an invalid name with 2."""
    write(layout, "bundle_samples", make_samples(3))
    result = asked(layout, "bundle", BUNDLES[2], "--every", "1m")
    assert result.exit_code == 0
    assert "load" in result.output
    assert "23:50:00" in result.output
    assert asked(layout, "bundle", "t/n/0x10000000_0x20000000").exit_code == 1
    assert asked(layout, "bundle", "a/b").exit_code == 2
    assert asked(layout, "top", "--since", "2026-01-02", "--until", "2026-01-01").exit_code == 2
