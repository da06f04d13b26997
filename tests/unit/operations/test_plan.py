"""Plans as `decide --json` prints them, and texts that are not plans."""

import msgspec
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.operations import plan as plans
from pulsar_barycenter.operations.plan import PlanError, PlannedMove, plan_of, read_plan

BUNDLE = "t/n/0x00000000_0x80000000"
MOVE = {"kind": "unload", "bundle": BUNDLE, "source": "a:1", "destination": "b:1", "sentence": "why"}


def lines(*objects: object) -> bytes:
    return b"\n".join(map(msgspec.json.encode, objects))


def test_what_decide_prints_is_a_plan() -> None:
    told = CliRunner().invoke(
        main, ["decide", "docs/examples/snapshot.json", "--strategy", "ThresholdShedder", "--json"]
    )
    moves = [line for line in map(msgspec.json.decode, told.stdout.splitlines()) if line["kind"] == "unload"]
    plan = read_plan(told.stdout.encode())
    assert moves
    assert [(move.bundle, move.source, move.destination, move.sentence) for move in plan.moves] == [
        (line["bundle"], line["source"], line["destination"], line["sentence"]) for line in moves
    ]


def test_other_lines_are_passed_over_and_the_moves_make_the_name() -> None:
    plan = read_plan(lines({"kind": "verdict", "broker": "a:1"}, MOVE) + b"\n\n")
    assert plan.moves == (PlannedMove(bundle=BUNDLE, source="a:1", destination="b:1", sentence="why"),)
    assert plan.name == read_plan(lines(MOVE)).name
    assert plan.name != read_plan(lines(MOVE | {"destination": "c:1"})).name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "there is no move"),
        (b"[]", "line 1 is not a move"),
        (lines({"kind": "verdict"}), "no move"),
        (lines(MOVE) + b"\n{", "line 2 is not a move"),
        (lines({key: MOVE[key] for key in ("kind", "bundle", "source")}), "run decide with a placement strategy"),
        (lines(MOVE | {"destination": ""}), "line 1 is not a move"),
        (lines(MOVE | {"destination": "a:1"}), "the same source and destination"),
        (lines(MOVE, MOVE | {"bundle": "t/n/0_0x80000000"}), "has two moves of"),
        (lines(MOVE | {"bundle": "t/n"}), "t/n"),
    ],
)
def test_what_is_no_plan_is_said_with_its_line(text: bytes, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        read_plan(text)


def test_a_plan_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MOST_MOVES", 1)
    with pytest.raises(PlanError, match="more than 1 moves"):
        read_plan(lines(MOVE, MOVE))
    assert plan_of(read_plan(lines(MOVE)).moves)
