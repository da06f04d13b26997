"""Machines of a ledger one by one: what they ask for, how they end. tests/simulation plays them against each other."""

from dataclasses import replace

import pytest

from pulsar_barycenter.bookkeeper.errors import (
    CloseConflictError,
    EntryTooLargeError,
    NoSuchLedgerError,
    RecoveryError,
    TooFewBookiesError,
    WriterClosedError,
    WriterFencedError,
    WriterStoppedError,
    WrongPasswordError,
)
from pulsar_barycenter.bookkeeper.machines.actions import (
    Confirmed,
    Ended,
    Failed,
    ReadMetadata,
    SendAdds,
    SendRead,
    Stopped,
    StoredLedger,
    SwapMetadata,
    Verdict,
    verdict_of,
)
from pulsar_barycenter.bookkeeper.machines.entry_read import EntryRead, ReadState
from pulsar_barycenter.bookkeeper.machines.last_confirmed import Coverage, LastConfirmedRead
from pulsar_barycenter.bookkeeper.machines.placement import ANYWHERE, BookieGroups, choose, preferred, replace_failed
from pulsar_barycenter.bookkeeper.machines.recovery import Recovery
from pulsar_barycenter.bookkeeper.machines.writer import Writer
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment
from pulsar_barycenter.bookkeeper.wire.digests import LAST_ENTRY, DigestType, EntryCodec
from pulsar_barycenter.bookkeeper.wire.packets import Code

LEDGER = 3
CODEC = EntryCodec(LEDGER, DigestType.CRC32C, b"")
DONE, ABSENT, UNKNOWN = Verdict.DONE, Verdict.ABSENT, Verdict.UNKNOWN


def packed(entry: int, last_confirmed: int, length: int, data: bytes) -> bytes:
    return b"".join(CODEC.pack(entry, last_confirmed, length, data))


def opened(ensemble: int = 3, write: int = 2, ack: int = 2) -> StoredLedger:
    members = tuple("abcdef"[:ensemble])
    return StoredLedger(LedgerMetadata(ensemble, write, ack, (Segment(0, members),)), 0)


def writer(stored: StoredLedger, *spare: str) -> Writer:
    return Writer(
        LEDGER, stored, CODEC, lambda ensemble, failed: replace_failed(ensemble, failed, spare, {}), max_data_bytes=10
    )


def sent(actions: list[object]) -> list[tuple[str, int]]:
    return [(action.bookie, entry) for action in actions if isinstance(action, SendAdds) for entry in action.entries]


# --- writer


def test_entries_go_to_their_write_sets_and_are_confirmed_in_order():
    machine = writer(opened())
    assert [sent(machine.append(b"x")) for _ in range(3)] == [
        [("a", 0), ("b", 0)],
        [("b", 1), ("c", 1)],
        [("c", 2), ("a", 2)],
    ]
    for bookie, entry in (("b", 1), ("c", 1), ("c", 2), ("a", 0), ("a", 2)):
        assert machine.adds_answered(bookie, [entry], DONE) == []
    assert machine.adds_answered("a", [0], DONE) == []  # a second answer of the same bookie is no second bookie
    assert machine.adds_answered("b", [0], DONE) == [Confirmed(2)]
    assert (machine.last_confirmed, machine.confirmed_length) == (2, 3)


def test_a_run_of_entries_goes_to_each_bookie_as_one_and_is_answered_as_one():
    machine = writer(opened())
    machine.append(b"x")
    actions = machine.extend([b"a", b"bc", b"def"])
    assert [(action.bookie, list(action.entries)) for action in actions] == [
        ("b", [1, 3]),
        ("c", [1, 2]),
        ("a", [2, 3]),
    ]
    bodies = {entry: body for action in actions for entry, body in zip(action.entries, action.bodies, strict=True)}
    assert [CODEC.unpack(entry, b"".join(bodies[entry])).data for entry in (1, 2, 3)] == [b"a", b"bc", b"def"]
    assert [CODEC.unpack(entry, b"".join(bodies[entry])).length for entry in (1, 2, 3)] == [2, 4, 7]
    assert machine.adds_answered("a", [0, 2, 3], DONE) == []
    assert machine.adds_answered("b", [0, 1, 2, 3], DONE) == [Confirmed(0)]  # it is no member of entry 2
    assert machine.adds_answered("c", [1], DONE) == [Confirmed(1)]
    assert machine.adds_answered("c", [2], DONE) == [Confirmed(3)]
    assert machine.confirmed_length == 7


def test_members_that_failed_for_a_part_of_a_run_are_replaced_for_that_part():
    machine = writer(opened(2, 2, 2), "c")
    machine.extend([b"x", b"y", b"z"])
    assert machine.adds_answered("a", [0, 1, 2], DONE) == []
    assert machine.adds_answered("b", [0], DONE) == [Confirmed(0)]
    (swap,) = machine.adds_answered("b", [1, 2], UNKNOWN)
    assert swap.metadata.segments == (Segment(0, ("a", "b")), Segment(1, ("a", "c")))
    assert machine.adds_answered("b", [1, 2], DONE) == []  # late, while its replacement is being stored
    assert sent(machine.swapped(1)) == [("c", 1), ("c", 2)]
    assert machine.adds_answered("c", [1, 2], DONE) == [Confirmed(2)]


def test_an_entry_carries_what_was_confirmed_and_the_length_when_it_was_packed():
    machine = writer(opened(1, 1, 1))
    machine.append(b"abc")
    machine.adds_answered("a", [0], DONE)
    (add,) = machine.append(b"de")
    assert isinstance(add, SendAdds)
    entry = CODEC.unpack(1, b"".join(add.bodies[0]))
    assert (entry.last_confirmed, entry.length, entry.data) == (0, 5, b"de")


def test_a_member_is_replaced_once_the_ack_quorum_is_out_of_reach():
    machine = writer(opened(3, 3, 2), "d", "e")
    first = machine.append(b"x")
    assert machine.adds_answered("a", [0], UNKNOWN) == []
    (swap,) = machine.adds_answered("b", [0], UNKNOWN)
    assert isinstance(swap, SwapMetadata)
    assert (swap.version, swap.metadata.segments) == (0, (Segment(0, ("d", "e", "c")),))
    assert machine.adds_answered("c", [0], DONE) == []
    later = machine.append(b"y")
    assert sent(later) == [("b", 1), ("c", 1), ("a", 1)]
    again = machine.swapped(1)
    assert sent(again) == [("d", 0), ("e", 0), ("e", 1), ("d", 1)]
    assert {action.bodies[0] for action in again if action.entries[0] == 0} == {first[0].bodies[0]}
    assert machine.adds_answered("a", [0], DONE) == []  # replaced
    assert machine.adds_answered("d", [0], DONE) == [Confirmed(0)]


def test_a_writer_continues_at_the_last_segment_that_a_former_one_left():
    left = LedgerMetadata(2, 2, 2, (Segment(0, ("a", "b")), Segment(2, ("b", "c"))))
    machine = Writer(LEDGER, StoredLedger(left, 4), CODEC, lambda members, _: members, max_data_bytes=10, length=7)
    assert (machine.next_entry, machine.last_confirmed, machine.confirmed_length) == (2, 1, 7)
    adds = machine.append(b"abc")
    assert sent(adds) == [("b", 2), ("c", 2)]
    assert isinstance(adds[0], SendAdds)
    entry = CODEC.unpack(2, b"".join(adds[0].bodies[0]))
    assert (entry.last_confirmed, entry.length) == (1, 10)
    machine.adds_answered("b", [2], DONE)
    assert machine.adds_answered("c", [2], DONE) == [Confirmed(2)]
    (swap,) = machine.close()
    assert isinstance(swap, SwapMetadata)
    assert (swap.version, swap.metadata.last_entry, swap.metadata.length) == (4, 2, 10)


def test_a_change_that_was_stored_by_an_answer_that_was_lost_is_taken():
    machine = writer(opened(2, 2, 2), "c")
    machine.append(b"x")
    (swap,) = machine.adds_answered("a", [0], UNKNOWN)
    assert machine.swap_failed() == [ReadMetadata()]
    assert sent(machine.metadata_read(StoredLedger(swap.metadata, 1))) == [("c", 0)]


def test_a_change_is_made_again_to_what_auto_recovery_left():
    machine = writer(opened(1, 1, 1), "b", "c")
    machine.append(b"x")
    machine.adds_answered("a", [0], DONE)
    machine.append(b"y")
    machine.adds_answered("a", [1], UNKNOWN)
    machine.swapped(1)
    machine.adds_answered("b", [1], DONE)
    machine.append(b"z")
    (swap,) = machine.adds_answered("b", [2], UNKNOWN)
    assert [segment.first for segment in swap.metadata.segments] == [0, 1, 2]
    machine.swap_failed()
    moved = replace(swap.metadata, segments=(Segment(0, ("e",)), Segment(1, ("b",))))
    assert machine.metadata_read(StoredLedger(moved, 2)) == [SwapMetadata(moved.with_ensemble(2, ("c",)), 2)]


def test_without_replacement_the_writer_stops_and_the_ledger_can_be_closed():
    machine = writer(opened(2, 2, 2))
    machine.append(b"abc")
    machine.adds_answered("a", [0], DONE)
    machine.adds_answered("b", [0], DONE)
    machine.append(b"de")
    (stopped,) = machine.adds_answered("b", [1], UNKNOWN)
    assert isinstance(stopped, Stopped)
    assert isinstance(stopped.error, TooFewBookiesError)
    assert "entry 1 cannot be stored: b failed" in str(stopped.error)
    with pytest.raises(WriterStoppedError, match="entry 1 cannot"):
        machine.append(b"x")
    (swap,) = machine.close()
    assert (swap.metadata.last_entry, swap.metadata.length) == (0, 3)
    assert machine.swapped(1) == [Ended(StoredLedger(swap.metadata, 1))]
    assert machine.close() == []


@pytest.mark.parametrize(
    ("verdict", "error"), [(Verdict.FENCED, WriterFencedError), (Verdict.UNAUTHORIZED, WrongPasswordError)]
)
def test_a_refused_writer_reports_nothing_any_more(verdict, error):
    machine = writer(opened(2, 2, 1))
    machine.append(b"x")
    (stopped,) = machine.adds_answered("a", [0], verdict)
    assert isinstance(stopped, Stopped)
    assert isinstance(stopped.error, error)
    assert machine.adds_answered("b", [0], DONE) == machine.close() == machine.swap_failed() == []
    with pytest.raises(WriterStoppedError):
        machine.append(b"x")


def test_a_fence_while_a_change_is_stored_ends_the_writer_once():
    machine = writer(opened(2, 2, 2), "c")
    machine.append(b"x")
    machine.adds_answered("a", [0], UNKNOWN)
    assert isinstance(machine.adds_answered("b", [0], Verdict.FENCED)[0], Stopped)
    assert machine.swapped(1) == machine.swap_failed() == machine.metadata_read(None) == []


def test_a_close_gives_up_what_is_not_confirmed_and_waits_for_a_change():
    machine = writer(opened(2, 2, 2), "c")
    machine.append(b"x")
    machine.adds_answered("a", [0], UNKNOWN)
    assert machine.close() == []
    with pytest.raises(WriterClosedError):
        machine.append(b"x")
    (swap,) = machine.swapped(1)
    assert (swap.version, swap.metadata.last_entry, swap.metadata.length) == (1, -1, 0)


def ended(found: LedgerMetadata | None) -> object:
    """Close a ledger of one confirmed entry, and let the compare-and-set be lost to `found`."""
    machine = writer(opened(1, 1, 1))
    machine.append(b"abc")
    machine.adds_answered("a", [0], DONE)
    machine.close()
    assert machine.swap_failed() == [ReadMetadata()]
    (action,) = machine.metadata_read(None if found is None else StoredLedger(found, 2))
    return action


def test_a_lost_close_is_answered_by_what_is_stored():
    metadata = opened(1, 1, 1).metadata
    assert ended(metadata.closed(0, 3)) == Ended(StoredLedger(metadata.closed(0, 3), 2))
    assert ended(metadata) == SwapMetadata(metadata.closed(0, 3), 2)
    for found, error in (
        (metadata.closed(1, 9), CloseConflictError),
        (metadata.closed(0, 4), CloseConflictError),
        (metadata.recovering(), WriterFencedError),
        (replace(metadata, segments=(Segment(0, ("z",)),)), WriterFencedError),
        (None, NoSuchLedgerError),
    ):
        action = ended(found)
        assert isinstance(action, Failed)
        assert isinstance(action.error, error)


def test_an_entry_of_the_limit_is_taken_and_one_byte_more_changes_nothing():
    machine = writer(opened())
    with pytest.raises(EntryTooLargeError, match="11 bytes is larger than the 10 bytes"):
        machine.append(bytes(11))
    assert machine.next_entry == 0
    assert sent(machine.append(bytes(10))) == [("a", 0), ("b", 0)]


# --- reads


@pytest.mark.parametrize(
    ("shape", "down", "covered"),
    [
        ((3, 2, 1), 1, False),
        ((3, 3, 1), 1, False),
        ((3, 3, 2), 2, False),
        ((3, 3, 2), 1, True),
        ((3, 2, 2), 1, True),
        ((3, 2, 2), 2, False),
        ((5, 3, 2), 1, True),
        ((1, 1, 1), 0, True),
    ],
)
def test_a_fence_covers_a_ledger_as_in_java(shape, down, covered):
    """The first three were refused on real bookies, with so many of them down."""
    read = LastConfirmedRead(opened(*shape).metadata, CODEC, is_fencing=True)
    asked = [ask.bookie for ask in read.start()]
    assert all(ask == SendRead(ask.bookie, LAST_ENTRY, True) for ask in read.start())
    for bookie in asked[:down]:
        read.answered(bookie, UNKNOWN, b"")
    for bookie in asked[down:]:
        read.answered(bookie, ABSENT, b"")
    assert (read.coverage is Coverage.COVERED) is covered


def test_damaged_bytes_are_no_answer_and_the_greatest_last_confirmed_counts():
    read = LastConfirmedRead(opened(3, 3, 2).metadata, CODEC, is_fencing=True)
    read.start()
    read.answered("a", DONE, packed(9, 8, 99, b"")[:-1] + b"\0")
    assert read.silent == {"a"}
    read.answered("b", DONE, packed(5, 2, 9, b"x"))
    read.answered("b", DONE, packed(9, 8, 99, b"x"))
    assert read.coverage is Coverage.ASKING
    read.answered("c", DONE, packed(4, 3, 9, b"x"))
    assert (read.coverage, read.last_confirmed) == (Coverage.COVERED, 3)


def test_an_entry_is_asked_of_one_bookie_after_the_other():
    read = EntryRead(4, ("a", "b", "c"), CODEC, absent_after=3)
    assert read.ask_next() == [SendRead("a", 4, False)]
    assert read.answered("b", DONE, packed(4, 0, 1, b"x")) == []  # was not asked
    assert read.answered("a", DONE, b"damaged") == [SendRead("b", 4, False)]
    assert read.ask_next() == [SendRead("c", 4, False)]  # b is slow
    assert read.answered("c", DONE, packed(4, 0, 1, b"x")) == []
    assert (read.state, read.found[0].data) == (ReadState.FOUND, b"x")
    assert read.answered("b", ABSENT, b"") == []
    assert read.state is ReadState.FOUND


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        ((ABSENT, ABSENT, ABSENT), ReadState.ABSENT),
        ((ABSENT, UNKNOWN, ABSENT), ReadState.UNKNOWN),
        ((UNKNOWN, Verdict.UNAUTHORIZED), ReadState.UNAUTHORIZED),
    ],
)
def test_an_entry_is_absent_when_all_bookies_say_so(verdicts, state):
    read = EntryRead(4, ("a", "b", "c"), CODEC, absent_after=3)
    read.ask_next()
    for bookie, verdict in zip("abc", verdicts, strict=False):
        read.answered(bookie, verdict, b"")
    assert read.state is state
    assert len(read.reasons) == sum(verdict is not Verdict.UNAUTHORIZED for verdict in verdicts)


def test_codes_that_say_nothing_of_the_entry_are_unknown():
    assert [verdict_of(code) for code in (Code.OK, Code.NO_LEDGER, Code.NO_ENTRY)] == [DONE, ABSENT, ABSENT]
    assert (verdict_of(Code.FENCED), verdict_of(Code.UNAUTHORIZED)) == (Verdict.FENCED, Verdict.UNAUTHORIZED)
    others = set(Code) - {Code.OK, Code.NO_LEDGER, Code.NO_ENTRY, Code.FENCED, Code.UNAUTHORIZED}
    assert {verdict_of(code) for code in others} == {UNKNOWN}


# --- recovery


def recovery(stored: StoredLedger, *spare: str) -> Recovery:
    return Recovery(
        LEDGER, stored, CODEC, lambda ensemble, failed: replace_failed(ensemble, failed, spare, {}), read_ahead=1
    )


def test_a_recovery_marks_fences_adds_again_and_closes():
    stored = opened(2, 2, 1)
    machine = recovery(stored)
    assert machine.start() == [SwapMetadata(stored.metadata.recovering(), 0)]
    assert machine.swapped(1) == [SendRead("a", LAST_ENTRY, True), SendRead("b", LAST_ENTRY, True)]
    last = packed(1, 0, 5, b"de")
    assert machine.read_answered("a", LAST_ENTRY, DONE, last) == []
    assert machine.read_answered("b", LAST_ENTRY, ABSENT, b"") == [SendRead("b", 1, True)]
    assert machine.read_answered("b", 1, ABSENT, b"") == [SendRead("a", 1, True)]
    actions = machine.read_answered("a", 1, DONE, last)
    assert sent(actions) == [("b", 1), ("a", 1)]
    assert all(action.is_recovery for action in actions if isinstance(action, SendAdds))
    assert actions[-1] == SendRead("a", 2, True)
    assert machine.read_answered("a", 2, ABSENT, b"") == [SendRead("b", 2, True)]
    assert machine.read_answered("b", 2, ABSENT, b"") == []
    (swap,) = machine.adds_answered("b", [1], DONE)
    assert swap == SwapMetadata(stored.metadata.closed(1, 5), 1)
    assert machine.swapped(2) == [Ended(StoredLedger(swap.metadata, 2))]


def test_the_length_is_read_where_no_answer_tells_it():
    stored = StoredLedger(opened(1, 1, 1).metadata.with_ensemble(4, ("b",)).recovering(), 2)
    machine = recovery(stored)
    assert machine.start() == [SendRead("b", LAST_ENTRY, True)]
    assert machine.read_answered("b", LAST_ENTRY, ABSENT, b"") == [SendRead("b", 4, True)]
    assert machine.read_answered("b", 4, ABSENT, b"") == [SendRead("a", 3, False)]
    (swap,) = machine.read_answered("a", 3, DONE, packed(3, 1, 40, b"x"))
    assert (swap.metadata.last_entry, swap.metadata.length) == (3, 40)


def test_another_recoverers_end_is_the_result():
    machine = recovery(StoredLedger(opened(1, 1, 1).metadata.recovering(), 1))
    machine.start()
    machine.read_answered("a", LAST_ENTRY, ABSENT, b"")
    machine.read_answered("a", 0, ABSENT, b"")
    machine.swap_failed()
    theirs = StoredLedger(opened(1, 1, 1).metadata.closed(7, 70), 3)
    assert machine.metadata_read(theirs) == [Ended(theirs)]
    assert recovery(theirs).start() == [Ended(theirs)]


@pytest.mark.parametrize(
    ("answers", "error", "text"),
    [
        ([("a", LAST_ENTRY, UNKNOWN), ("b", LAST_ENTRY, UNKNOWN)], RecoveryError, "a, b did not answer"),
        ([("a", LAST_ENTRY, Verdict.UNAUTHORIZED)], WrongPasswordError, "another password"),
        (
            [("a", LAST_ENTRY, ABSENT), ("b", LAST_ENTRY, ABSENT), ("a", 0, UNKNOWN), ("b", 0, UNKNOWN)],
            RecoveryError,
            "whether entry 0 is part of it: a gave no answer; b gave no answer",
        ),
    ],
)
def test_a_recovery_that_cannot_know_fails(answers, error, text):
    machine = recovery(StoredLedger(opened(2, 2, 2).metadata.recovering(), 1))
    machine.start()
    actions = []
    for bookie, entry, verdict in answers:
        actions = machine.read_answered(bookie, entry, verdict, b"")
    (failed,) = actions
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, error)
    assert text in str(failed.error)
    assert machine.swap_failed() == machine.read_answered("a", 0, DONE, b"") == []


def test_members_that_cannot_store_again_are_replaced_when_the_ledger_is_closed():
    actions, machine = added_again("c")
    assert sent(actions) == [("c", 0)]
    (swap,) = machine.adds_answered("c", [0], DONE)
    assert swap.metadata.segments == (Segment(0, ("c", "b")),)


def test_without_a_bookie_to_store_again_a_recovery_fails():
    (failed,), _ = added_again()
    assert isinstance(failed, Failed)
    assert "a did not store entry 0 again" in str(failed.error)


def added_again(*spare: str) -> tuple[list[object], Recovery]:
    """Recover entry 0, which `a` then fails to store; return what that leads to."""
    machine = recovery(StoredLedger(opened(2, 2, 2).metadata.recovering(), 1), *spare)
    machine.start()
    body = packed(0, -1, 1, b"x")
    machine.read_answered("a", LAST_ENTRY, ABSENT, b"")
    machine.read_answered("b", LAST_ENTRY, DONE, body)
    machine.read_answered("a", 0, DONE, body)
    machine.read_answered("b", 1, ABSENT, b"")
    machine.adds_answered("b", [0], DONE)
    return machine.adds_answered("a", [0], UNKNOWN), machine


# --- placement


def test_a_ledger_is_on_its_groups_while_they_have_enough_bookies():
    group_of = {"a": "west", "b": "west", "c": "east", "d": "rest", "e": "other"}
    groups = BookieGroups(frozenset({"west"}), frozenset({"rest"}))
    assert preferred("eadbcf", 2, ANYWHERE, group_of) == "eadbcf"
    assert preferred("eadbcf", 2, groups, group_of) == ["a", "b"]
    assert preferred("eadbcf", 3, groups, group_of) == ["a", "d", "b"], "the secondary group"
    assert preferred("eadbcf", 4, groups, group_of) == ["a", "d", "b", "f"], "bookies without a group"
    assert preferred("eadbcf", 5, groups, group_of) == ["a", "d", "b", "f"], "never those of other groups"
    assert preferred("ec", 1, groups, group_of) == []
    both = BookieGroups(frozenset({"west", "east"}))
    assert preferred("eadbcf", 3, both, group_of) == ["a", "b", "c"]


def test_bookies_are_spread_over_racks():
    racks = {"a": "/1", "b": "/1", "c": "/2", "d": "/3"}
    assert choose("abcd", 3, racks) == ("a", "c", "d")
    assert choose("abcd", 2, {}) == ("a", "b")
    assert replace_failed(("a", "c", "d"), {"c"}, "bef", racks | {"e": "/2"}) == ("a", "e", "d")
    assert replace_failed(("a", "c"), {"a", "c"}, "acb", racks) == ("b", "c")


def test_bookies_of_the_last_resort_fill_what_the_others_leave():
    racks = {"a": "/1", "b": "/2", "c": "/1", "d": "/3"}
    assert choose("abcd", 2, racks, last_resort={"a", "b"}) == ("c", "d")
    assert choose("abcd", 3, racks, last_resort={"a", "b", "d"}) == ("c", "b", "d")
    assert choose("abcd", 3, racks, last_resort={"a", "b"}) == ("c", "d", "b"), "the rack of c has a bookie already"


def test_too_few_bookies_are_told():
    with pytest.raises(TooFewBookiesError, match="needs 3 writable bookies, and there are 2"):
        choose("ab", 3, {})
