"""A journal that is cut off anywhere tells what is left of its plan."""

from pathlib import Path

import pytest

from barycenter.operations import journal as journals
from barycenter.operations.journal import Entry, Journal, JournalError, MoveState, left_of
from barycenter.operations.plan import PlannedMove, plan_of

BUNDLES = [f"t/n/0x{lower:08x}_0x{lower + 1:08x}" for lower in range(4)]
PLAN = plan_of([PlannedMove(bundle=bundle, source="a:1", destination="b:1") for bundle in BUNDLES])


def entry(bundle: str, state: MoveState, plan: str = PLAN.name) -> Entry:
    return Entry(at=1, plan=plan, by="me", bundle=bundle, source="a:1", destination="b:1", state=state)


ENTRIES = [
    entry(BUNDLES[0], MoveState.BEGUN),
    entry(BUNDLES[0], MoveState.SERVED),
    entry(BUNDLES[1], MoveState.BEGUN),
    entry(BUNDLES[2], MoveState.BEGUN),
    entry(BUNDLES[2], MoveState.FAILED),
]


def test_what_is_left_is_what_is_not_served() -> None:
    assert [move.bundle for move in left_of(PLAN, ENTRIES)] == BUNDLES[1:]
    assert left_of(PLAN, []) == PLAN.moves
    with pytest.raises(JournalError, match="another plan"):
        left_of(PLAN, [entry(BUNDLES[0], MoveState.SERVED, plan="other")])


def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "plan.journal"
    for each in ENTRIES:
        Journal(file).append(each)
    whole = file.read_bytes()
    assert Journal(file).read() == ENTRIES
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert Journal(file).read() == ENTRIES[: whole[:length].count(b"\n")]
        Journal(file).append(ENTRIES[0])
        assert Journal(file).read() == [*ENTRIES[: whole[:length].count(b"\n")], ENTRIES[0]]


def test_what_is_no_journal_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plan.journal"
    assert Journal(file).read() == []
    file.write_text("{}\n")
    with pytest.raises(JournalError, match="--journal"):
        Journal(file).read()
    monkeypatch.setattr(journals, "_MOST_BYTES", 1)
    with pytest.raises(JournalError, match="larger"):
        Journal(file).read()
