"""A journal that is truncated anywhere shows what is left of its plan."""

from pathlib import Path

import pytest

from pulsar_barycenter.operations import journal_file as journals
from pulsar_barycenter.operations.journal import Entry, MoveState, backward, left_of, move_journal
from pulsar_barycenter.operations.journal_file import JournalError
from pulsar_barycenter.operations.plan import PlannedMove, plan_of, verified

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
        move_journal(file).append(each)
    whole = file.read_bytes()
    assert move_journal(file).read() == ENTRIES
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert move_journal(file).read() == ENTRIES[: whole[:length].count(b"\n")]
        move_journal(file).append(ENTRIES[0])
        assert move_journal(file).read() == [*ENTRIES[: whole[:length].count(b"\n")], ENTRIES[0]]


def test_what_is_no_journal_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plan.journal"
    assert move_journal(file).read() == []
    file.write_text("{}\n")
    with pytest.raises(JournalError, match="--journal"):
        move_journal(file).read()
    monkeypatch.setattr(journals, "_MAX_BYTES", 1)
    with pytest.raises(JournalError, match="larger"):
        move_journal(file).read()


def test_one_process_at_a_time_holds_a_journal(tmp_path: Path) -> None:
    journal, again = move_journal(tmp_path / "j"), move_journal(tmp_path / "j")
    assert not again.is_held()
    with journal.held():
        assert again.is_held()
        with pytest.raises(JournalError, match="barycenter cancel"), again.held():
            pass
        journal.append(ENTRIES[0])
        assert again.is_held()
        assert again.read() == ENTRIES[:1]
    assert not again.is_held()


def test_a_holder_is_asked_to_stop_and_the_next_one_is_not(tmp_path: Path) -> None:
    journal, other = move_journal(tmp_path / "j"), move_journal(tmp_path / "j")
    with journal.held():
        assert journal.asked_to_stop() == ""
        other.ask_to_stop(1, "me", "lunch")
        assert journal.asked_to_stop() == "me asked to stop: lunch"
        (tmp_path / "j.cancel").write_text("{")
        assert "asked to stop" in journal.asked_to_stop()
    with other.held():
        assert other.asked_to_stop() == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j"]


def test_that_somebody_stopped_a_plan_says_nothing_of_its_moves() -> None:
    stopped = Entry(at=2, plan=PLAN.name, by="me", bundle="", source="", destination="", state=MoveState.CANCELLED)
    assert left_of(PLAN, [*ENTRIES, stopped]) == left_of(PLAN, ENTRIES)
    assert backward([stopped]) == ()


def test_the_way_back_begins_with_what_was_moved_last() -> None:
    x, y, z, _ = BUNDLES

    def moved(bundle: str, source: str, destination: str) -> Entry:
        state = MoveState.BEGUN
        return Entry(at=1, plan="p", by="me", bundle=bundle, source=source, destination=destination, state=state)

    steps = [moved(x, "a:1", "b:1"), moved(y, "a:1", "b:1"), moved(x, "b:1", "c:1")]
    there_and_back = [moved(z, "a:1", "b:1"), moved(z, "b:1", "a:1")]
    back = backward([*steps, *there_and_back, entry(z, MoveState.SERVED)])
    assert [(move.bundle, move.source, move.destination) for move in back] == [
        (x, "c:1", "a:1"),
        (y, "b:1", "a:1"),
    ]


def test_a_move_is_verified_by_the_brokers_own_word() -> None:
    x, y, z, u = BUNDLES
    owned = {"a:1": frozenset({y, z}), "b:1": frozenset({x, z})}
    found = verified(PLAN.moves, owned)
    assert [(each.bundle, each.served_by, each.is_done) for each in found] == [
        (x, ("b:1",), True),
        (y, ("a:1",), False),
        (z, ("a:1", "b:1"), False),
        (u, (), False),
    ]
