"""The lines of a round, as they are printed."""

import json

import msgspec
import pytest

from pulsar_barycenter.balancer.judging.moves_seen import SeenMove, Whose
from pulsar_barycenter.balancer.judging.scoring import Score, Side
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.cli.balance.lines import lines_of, printer
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.splitting import PlannedSplit

BUNDLE = "t/n/0x00000000_0x80000000"
RECORD = RoundRecord(
    at=1_790_000_000_000,
    mode=Mode.OBSERVE,
    brokers=3,
    current=2,
    bundles=1_500,
    failed={"c:1": "503: not now"},
    balance="Balanced: a:1 has the highest usage.",
    above_mean=0.1,
    our_above_mean=0.05,
    decided=(
        PlannedMove(
            bundle=BUNDLE, source="a:1", destination="b:1", sentence=f"{BUNDLE}: too much; because a:1 is full"
        ),
    ),
    seen=(SeenMove(at=1, bundle=BUNDLE, source="b:1", destination="a:1", whose=Whose.FOREIGN),),
    state="observing",
    score=Score(cluster=Side(rounds=2, above_mean_sum=0.3, moves=4), ours=Side(rounds=2, above_mean_sum=0.1, moves=1)),
)


def test_a_round_is_a_line_with_what_was_seen_decided_and_scored_below() -> None:
    assert lines_of(RECORD) == [
        "2026-09-21 14:13:20 UTC  observing  3 brokers, 1,500 bundles  Balanced: a:1 has the highest usage.",
        "  no report: c:1: 503: not now",
        f"  moved: {BUNDLE} from b:1 to a:1",
        f"  would move: {BUNDLE} from a:1 to b:1: a:1 is full",
        "  so far: the cluster 4 moves, 15.0 points above the mean; ours 1 move, 5.0 points above the mean",
    ]


def test_a_mode_that_moves_says_what_it_moves_and_why_it_may_not() -> None:
    record = msgspec.structs.replace(RECORD, mode=Mode.ACT, held_up="the view is old", decided=RECORD.decided * 12)
    lines = lines_of(record)
    assert "  nothing moves: the view is old" in lines
    assert sum(line.startswith("  moves: ") for line in lines) == 10
    assert "  … and 2 more decisions" in lines


def test_splits_and_why_other_large_bundles_stay_whole_are_said() -> None:
    split = PlannedSplit(bundle=BUNDLE, broker="a:1", sentence=f"{BUNDLE}: split, because topics 20 > limit 10")
    record = msgspec.structs.replace(RECORD, decided=(), splits=(split,), whole={"t/m/0x0_0x1": "the hour is full"})
    lines = lines_of(record)
    assert f"  would split: {BUNDLE}: split, because topics 20 > limit 10" in lines
    assert "  too large, stays whole: t/m/0x0_0x1: the hour is full" in lines
    assert f"  splits: {BUNDLE}: split, because topics 20 > limit 10" in lines_of(
        msgspec.structs.replace(record, mode=Mode.ACT)
    )


def test_json_is_one_object_a_round_and_sentences_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    tell = printer(as_json=True)
    tell("this process holds the lease")
    tell(RECORD)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["decided"][0]["destination"] == "b:1"
    assert printed.err == "barycenter: this process holds the lease\n"
