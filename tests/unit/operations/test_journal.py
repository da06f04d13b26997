"""A journal that is truncated anywhere shows what is left of its plan."""

from pathlib import Path

import pytest

from pulsar_barycenter.operations import journal_file as journals
from pulsar_barycenter.operations.journal import Entry, MoveState, backward, left_of, made_of, move_journal
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


@pytest.mark.parametrize("text", [b"a-token", b'{"a":1}', b"\0\x7fELF", b'{"at":1}\nmore'])
def test_a_file_that_no_line_break_ends_and_that_is_no_journal_is_kept(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "strange"
    file.write_bytes(text)
    with pytest.raises(JournalError, match="--journal"):
        move_journal(file).read()
    assert file.read_bytes() == text


@pytest.mark.parametrize("rest", [b"{", b'{"at', b'{"at":17', b'{"at":17\0\0', b"\0\0"])
def test_what_a_crash_left_of_an_entry_is_replaced(tmp_path: Path, rest: bytes) -> None:
    file = tmp_path / "plan.journal"
    move_journal(file).append(ENTRIES[0])
    file.write_bytes(file.read_bytes() + rest)
    assert move_journal(file).read() == ENTRIES[:1]
    move_journal(file).append(ENTRIES[1])
    assert move_journal(file).read() == ENTRIES[:2]


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


def test_the_way_back_of_a_bundle_that_another_broker_got_begins_there() -> None:
    x, y, *_ = BUNDLES

    def noted(bundle: str, state: MoveState, destination: str) -> Entry:
        return Entry(at=1, plan="p", by="me", bundle=bundle, source="a:1", destination=destination, state=state)

    entries = [noted(x, MoveState.BEGUN, "b:1"), noted(x, MoveState.FAILED, "c:1")]
    entries += [noted(y, MoveState.BEGUN, "b:1"), noted(y, MoveState.FAILED, "b:1")]
    back = [(move.bundle, move.source, move.destination) for move in backward(entries)]
    assert back == [(y, "b:1", "a:1"), (x, "c:1", "a:1")]
    assert made_of([*entries, noted(y, MoveState.BEGUN, "b:1"), noted(y, MoveState.SERVED, "b:1")]) == {x: 1, y: 1}


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
