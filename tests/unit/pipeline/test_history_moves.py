"""Which bundles moved and which moved too often, by their owners over time."""

import csv
import io
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.history.command import command
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.pipeline.history import History
from pulsar_barycenter.pipeline.moves import Owned, moves_of
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import TABLES

BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
BUNDLE, OTHER = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def owned(bundle: str, *stays: tuple[str, float, float | None]) -> list[Owned]:
    """Intervals of one bundle: broker, begin and end in minutes."""
    return [
        Owned(bundle, broker, at(since), None if until is None else at(until), None if until is None else "moved")
        for broker, since, until in stays
    ]


LIFE = owned(BUNDLE, ("a", 0, 10), ("b", 10.5, 20), ("a", 20.5, 90), ("a", 91, 100), ("c", 99, None))


def test_a_move_is_from_one_broker_to_another() -> None:
    moves = moves_of(LIFE)
    assert [(move.source, move.destination, move.at) for move in moves] == [
        ("a", "b", at(10.5)),
        ("b", "a", at(20.5)),
        ("a", "c", at(99)),
    ]
    assert [move.since_last for move in moves] == [None, timedelta(minutes=10), timedelta(minutes=78.5)]
    assert [move.is_back for move in moves] == [False, True, False]
    assert [move.unreported for move in moves] == [timedelta(seconds=30), timedelta(seconds=30), timedelta(0)]
    assert [move.is_flap() for move in moves] == [False, True, False]
    assert moves[1].is_flap(timedelta(minutes=10))
    assert not moves[1].is_flap(timedelta(minutes=9.9))


@pytest.mark.parametrize("seed", range(20))
def test_moves_chain_and_do_not_depend_on_the_order_of_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for name in (BUNDLE, OTHER):
        times = sorted(rng.sample(range(1000), 12))
        rows += owned(name, *((rng.choice("abc"), since, until) for since, until in pairwise(times)))
    moves = moves_of(rows)
    shuffled = rng.sample(rows, len(rows))
    assert moves_of(shuffled) == moves
    for name in (BUNDLE, OTHER):
        of_one = [move for move in moves if move.bundle == name]
        assert all(before.destination == after.source for before, after in pairwise(of_one))
        assert all(after.since_last == after.at - before.at for before, after in pairwise(of_one))
        assert all(after.is_back == (after.destination == before.source) for before, after in pairwise(of_one))


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    """A bundle's life, another that moved once, and the decisions of two of the moves."""
    layout = PipelineLayout.of(tmp_path)
    intervals = [*LIFE, *owned(OTHER, ("a", 0, 30), ("b", 30, None))]
    _write(
        layout,
        "ownership",
        [
            {
                "bundle": each.bundle,
                "broker": each.broker,
                "incarnation": "i",
                "owned_from": each.since,
                "owned_to": each.until,
                "ended": each.ended,
            }
            for each in intervals
        ],
    )
    why = [("a", 9.9, "it is hot"), ("a", 98.8, "hot again"), ("b", 9.9, "another broker"), ("a", 5, "earlier")]
    _write(
        layout,
        "decisions",
        [
            {
                "at": at(minute),
                "by": "a",
                "number": number,
                "kind": "unload",
                "bundle": BUNDLE,
                "source": source,
                "strategy": "ThresholdShedder",
                "sentence": sentence,
            }
            for number, (source, minute, sentence) in enumerate(why)
        ],
    )
    return layout


def _write(layout: PipelineLayout, name: str, rows: list[dict[str, Any]]) -> None:
    schema = TABLES[name].arrow_schema
    blank = {field.name: None if field.nullable else "" for field in schema}
    Tables(layout).write(name, 0, pa.Table.from_pylist([{**blank, **row} for row in rows], schema=schema))


def ask(layout: PipelineLayout, *words: str) -> Result:
    return CliRunner().invoke(command, [words[0], "--data", str(layout.data), *words[1:]])


def test_moves_are_told_with_the_decision_that_made_them(layout: PipelineLayout) -> None:
    lines = [msgspec.json.decode(line) for line in ask(layout, "moves", "--json").stdout.splitlines()]
    assert [(line["bundle"], line["source"], line["destination"], line["sentence"]) for line in lines] == [
        (BUNDLE, "a", "b", "it is hot"),
        (BUNDLE, "b", "a", None),
        (OTHER, "a", "b", None),
        (BUNDLE, "a", "c", "hot again"),
    ]
    of_broker = csv.DictReader(io.StringIO(ask(layout, "moves", "--broker", "c", "--format", "csv").stdout))
    assert [row["destination"] for row in of_broker] == ["c"]
    last = History(layout).moves(1, bundle=OTHER)
    assert last.column("at").to_pylist() == [at(30)]
    assert "no bundle moved" in ask(layout, "moves", "--broker", "nobody").stdout


def test_a_topic_stands_for_the_bundle_that_it_was_in_last(layout: PipelineLayout) -> None:
    topics = (f"persistent://{BUNDLE.rpartition('/')[0]}/{number}" for number in range(1_000_000))
    topic = next(each for each in topics if Bundle.parse(BUNDLE).contains(TopicName.parse(each)))
    assert (
        ask(layout, "moves", "--bundle", topic, "--json").stdout
        == ask(layout, "moves", "--bundle", BUNDLE, "--json").stdout
    )
    told = ask(layout, "bundle", topic)
    assert (told.exit_code, f"topic {topic} is in {BUNDLE}" in told.stderr) == (0, True)
    assert "in no bundle that had an owner" in ask(layout, "bundle", "no/where/topic").stderr
    assert ask(layout, "bundle", "a/b").exit_code == 2


@pytest.mark.parametrize("words", [("bundle", "orders"), ("bundle", BUNDLE), ("moves", "--bundle", "orders")])
def test_a_folder_without_tables_is_named_with_the_command_that_makes_them(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "load-reports").mkdir()
    told = ask(PipelineLayout.of(tmp_path), *words)
    assert told.exit_code == 1
    assert "has no tables: there is no history yet" in told.stderr
    assert f"`barycenter pipeline run --data {tmp_path}`" in told.stderr
    assert "in no bundle" not in told.stderr


def test_a_period_tells_its_own_moves(layout: PipelineLayout) -> None:
    history = History(layout, since_ms=_ms(at(11)), until_ms=_ms(at(99)))
    assert history.moves(9).column("at").to_pylist() == [at(20.5), at(30)]


def test_flapping_bundles_are_told_the_worst_first(layout: PipelineLayout) -> None:
    (line,) = [msgspec.json.decode(line) for line in ask(layout, "flapping", "--json").stdout.splitlines()]
    assert (line["bundle"], line["moves"], line["flaps"], line["back"], line["soonest_s"]) == (BUNDLE, 3, 1, 1, 600.0)
    assert line["brokers"] == "a, b, c"
    wide = ask(layout, "flapping", "--within", "2h")
    assert BUNDLE in wide.stdout
    assert "no bundle moved again within this time" in ask(layout, "flapping", "--within", "9m").stdout
    assert ask(layout, "flapping", "--within", "soon").exit_code == 2


def test_what_people_move_and_the_move_after_it_is_no_flapping_and_is_told_with_who(tmp_path: Path) -> None:
    """A drain and its undo, with the load manager's moves around it; of the five moves two are flaps."""
    layout = PipelineLayout.of(tmp_path)
    life = owned(BUNDLE, ("a", 0, 10), ("b", 10, 12), ("a", 12, 14), ("b", 14, 16), ("c", 16, 18), ("a", 18, None))
    names = {"bundle": "bundle", "broker": "broker", "since": "owned_from", "until": "owned_to", "ended": "ended"}
    _write(layout, "ownership", [{names[key]: value for key, value in each._asdict().items()} for each in life])
    asked = [("a", 9.5, "anonymous"), ("b", 11.5, "anonymous"), ("a", 13.5, None), ("b", 15.5, None)]
    rows = [
        {
            "at": at(minute),
            "by": "a",
            "number": number,
            "kind": "unload",
            "bundle": BUNDLE,
            "source": source,
            "principal": who,
            "request": None if who is None else "PUT /unload",
            "sentence": "why",
        }
        for number, (source, minute, who) in enumerate(asked)
    ]
    _write(layout, "decisions", rows)
    history = History(layout)
    told = history.moves(9).select(["principal", "request"]).to_pylist()
    assert [(row["principal"], row["request"]) for row in told] == [
        *[("anonymous", "PUT /unload")] * 2,
        *[(None, None)] * 3,
    ]
    (flapping,) = history.flapping(9).to_pylist()
    assert (flapping["moves"], flapping["flaps"], flapping["first"]) == (5, 2, at(16))
    assert "anonymous" in ask(layout, "moves").stdout


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
