"""Pulsar's records and ours, one from the other."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.ledger.managed.records import CursorRecord, LedgerRecord, ManagedLedgerRecord
from pulsar_barycenter.ledger.pulsar_records import acked_words, ledgers_mapping
from pulsar_barycenter.ledger.pulsar_records.acked_words import joined_ranges, ranges_of_words
from pulsar_barycenter.ledger.pulsar_records.cursors_mapping import (
    NO_LEDGER,
    info_of_cursor,
    needs_ledger,
    position_of_cursor,
    record_of_cursor,
    record_of_position,
)
from pulsar_barycenter.ledger.pulsar_records.errors import ForeignRecordError, PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.ledgers_mapping import DELETING, info_of_ledgers, record_of_ledgers
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LongListMap,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    PositionInfo,
)
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor, read_ledgers, read_position
from pulsar_barycenter.ledger.pulsar_records.taking import reasons_not_to_take
from support.pulsar_record_bytes import java_records

JAVA = java_records()
LEDGERS = read_ledgers("/p", JAVA["ledgers-NONE"]).info
OFFLOADED = read_ledgers("/p", JAVA["ledgers-offloaded"]).info
CURSOR = read_cursor("/p", JAVA["cursor-NONE"]).info
IN_LEDGER = read_cursor("/p", JAVA["cursor-in-ledger"]).info
BATCH = (7, 40, (0b1111110110, (1 << 64) - 1))
NOW = 1_800_000_000_000


def cursor_info(record: CursorRecord, name: str = "sub", before: ManagedCursorInfo | None = None) -> ManagedCursorInfo:
    return info_of_cursor(name, before or ManagedCursorInfo(), record, ledger_id=NO_LEDGER, now_ms=NOW)


# ------------------------------------------------------------------------------------------------------------- ledgers


def test_ledgers_of_java() -> None:
    record = record_of_ledgers(LEDGERS)
    ended_at = 1_700_000_000_123
    assert record.ledgers == (
        LedgerRecord(7, 100, 4280, messages=100, max_publish_time=ended_at, closed=True, created_at=0),
        LedgerRecord(9, created_at=ended_at),
    )
    assert record.terminated == (7, 99)
    assert record.properties == {"owner": "team"}
    assert info_of_ledgers(LEDGERS, record).SerializeToString() == JAVA["ledgers-NONE"]


def test_the_end_of_a_ledger_is_the_beginning_of_the_next() -> None:
    before = record_of_ledgers(LEDGERS)
    rolled = msgspec.structs.replace(
        before,
        ledgers=(
            before.ledgers[0],
            LedgerRecord(9, 5, 50, messages=20, max_publish_time=8, closed=True, created_at=1_700_000_000_123),
            LedgerRecord(12, created_at=1_700_000_000_999),
        ),
        deleting=(3, 4),
        terminated=msgspec.UNSET,
    )
    info = info_of_ledgers(LEDGERS, rolled)
    assert [(part.ledgerId, part.entries, part.size, part.timestamp) for part in info.ledgerInfo] == [
        (7, 100, 4280, 1_700_000_000_123),
        (9, 5, 50, 1_700_000_000_999),
        (12, 0, 0, 0),
    ]
    assert info.ledgerInfo[0].properties == LEDGERS.ledgerInfo[0].properties
    assert record_of_ledgers(info) == rolled


def test_a_ledger_keeps_its_end_when_the_next_one_is_trimmed() -> None:
    info = _listed(3, 4, 5)
    for number, part in enumerate(info.ledgerInfo):
        part.timestamp = 10 * number + 1
    record = record_of_ledgers(info)
    trimmed = msgspec.structs.replace(record, ledgers=(record.ledgers[0], record.ledgers[2]))
    assert [part.timestamp for part in info_of_ledgers(info, trimmed).ledgerInfo] == [1, 21]


@given(
    counts=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(0, 99)), max_size=5),
    deleting=st.lists(st.integers(10_000, 10_009), max_size=3, unique=True),
    properties=st.dictionaries(st.text("ab", max_size=2), st.text("é1", max_size=2), max_size=3),
    is_terminated=st.booleans(),
)
def test_our_ledgers_come_back(
    counts: list[tuple[int, int, int]], deleting: list[int], properties: dict[str, str], is_terminated: bool
) -> None:
    ledgers = [
        LedgerRecord(n, entries, entries * 7, entries + more, time, closed=True, created_at=n and 100 + n)
        for n, (entries, more, time) in enumerate(counts)
    ]
    last = LedgerRecord(len(ledgers), created_at=(ledgers and 100 + len(ledgers)) or 0)
    record = ManagedLedgerRecord(
        ledgers=(*ledgers, last),
        deleting=tuple(deleting),
        terminated=(5, 6) if is_terminated else msgspec.UNSET,
        properties=properties,
    )
    assert record_of_ledgers(info_of_ledgers(ManagedLedgerInfo(), record)) == record


def _listed(*ids: int, **more: Any) -> ManagedLedgerInfo:
    info = ManagedLedgerInfo()
    for ledger_id in ids:
        info.ledgerInfo.add(ledgerId=ledger_id, **more)
    return info


def test_ledgers_that_contradict_themselves_are_refused() -> None:
    deleting = _listed(3)
    deleting.properties.add(key=DELETING, value="3")
    nonsense = _listed(3)
    nonsense.properties.add(key=DELETING, value="3,x")
    terminated = _listed(3)
    terminated.terminatedPosition.ledgerId, terminated.terminatedPosition.entryId = -2, 0
    for info, reason in (
        (_listed(3, 3), "ledger 3 follows ledger 3"),
        (_listed(-1), "ledger -1 has a negative"),
        (_listed(3, size=-1), "ledger 3 has a negative"),
        (deleting, "names ledgers to delete"),
        (nonsense, "expected ids of ledgers"),
        (terminated, "-2:0, which is not a possible position"),
    ):
        with pytest.raises(PulsarRecordError, match=reason):
            record_of_ledgers(info)
    with pytest.raises(ForeignRecordError, match="ledger 7 was offloaded"):
        record_of_ledgers(OFFLOADED)


def test_more_ledgers_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers_mapping, "MAX_LEDGERS", 2)
    assert len(record_of_ledgers(_listed(3, 4)).ledgers) == 2
    with pytest.raises(PulsarRecordError, match="3 ledgers, more than the maximum of 2"):
        record_of_ledgers(_listed(3, 4, 5))


def test_hints_that_are_no_numbers_are_ignored() -> None:
    info = _listed(3, 4, entries=5)
    info.ledgerInfo[0].properties.add(key="barycenter.messages", value="-9")
    info.ledgerInfo[0].properties.add(key="barycenter.maxPublishTime", value="x")
    assert record_of_ledgers(info).ledgers[0].messages == 5


def test_what_java_could_not_go_on_with_is_refused() -> None:
    for record, reason in (
        (ManagedLedgerRecord(compacted=(LedgerRecord(3),)), "compacted ledger, which Java"),
        (ManagedLedgerRecord(ledgers=(LedgerRecord(3), LedgerRecord(4))), "ledger 3 is open"),
        (ManagedLedgerRecord(properties={DELETING: "1"}), "reserved"),
    ):
        with pytest.raises(ForeignRecordError, match=reason):
            info_of_ledgers(ManagedLedgerInfo(), record)


# ------------------------------------------------------------------------------------------------------------- cursors


def test_a_cursor_of_java_in_its_key() -> None:
    record = record_of_cursor("sub", CURSOR)
    assert record == CursorRecord(
        mark_delete=(7, 9), ranges=((7, 20, 20), (7, 30, 35)), properties={"who": "me"}, partial=(BATCH,)
    )
    assert cursor_info(record, before=CURSOR).SerializeToString() == JAVA["cursor-NONE"]


@pytest.mark.parametrize("name", ["position-ranges", "position-words"])
def test_a_cursor_of_java_in_a_ledger(name: str) -> None:
    record = record_of_position("sub", IN_LEDGER, read_position(77, JAVA[name]))
    assert record.ranges == ((7, 20, 20), (7, 30, 35), (7, 63, 64))
    assert (record.mark_delete, record.partial_acks, record.properties) == ((7, 9), (BATCH,), {"who": "me"})
    key = info_of_cursor("sub", IN_LEDGER, record, ledger_id=78, now_ms=NOW)
    assert position_of_cursor(key, record).SerializeToString() == JAVA["position-ranges"]


def test_numbers_of_ordinary_cursors_stay_and_are_properties_of_those_of_pulsar() -> None:
    record = record_of_cursor("pulsar.dedup", CURSOR)
    assert record.properties == {"seq": "-5"}
    info = cursor_info(msgspec.structs.replace(record, properties={"p": "17"}), "pulsar.dedup", CURSOR)
    assert [(number.name, number.value) for number in info.properties] == [("p", 17)]
    assert info.cursorProperties == CURSOR.cursorProperties
    for text in ("x", "", "9" * 19, "1.5", "--1"):
        with pytest.raises(ForeignRecordError, match="must be a whole number"):
            cursor_info(CursorRecord(properties={"p": text}), "pulsar.dedup")


def test_compacted_ledgers_are_neither_read_nor_named() -> None:
    info = ManagedCursorInfo(cursorsLedgerId=NO_LEDGER, markDeleteLedgerId=7, markDeleteEntryId=9)
    assert record_of_cursor("__compaction", info).properties == {}
    info.properties.add(name="CompactedTopicLedger", value=12)
    with pytest.raises(ForeignRecordError, match="ledger 12 has the compacted messages"):
        record_of_cursor("__compaction", info)
    with pytest.raises(ForeignRecordError, match="compact the topic on a Java broker"):
        cursor_info(CursorRecord(properties={"CompactedTopicLedger": "12"}), "__compaction")


def test_a_cursor_that_moves_is_active() -> None:
    before = ManagedCursorInfo()
    before.CopyFrom(CURSOR)
    before.idleSince = 5
    stays = cursor_info(record_of_cursor("sub", before), before=before)
    assert (stays.lastActive, stays.idleSince) == (1_700_000_000_456, 5)
    moves = cursor_info(CursorRecord(mark_delete=(7, 10)), before=before)
    assert (moves.lastActive, moves.HasField("idleSince")) == (NOW, False)


def test_an_entry_without_a_message_left_is_acknowledged() -> None:
    info = cursor_info(CursorRecord(mark_delete=(7, 1), ranges=((7, 4, 4),), partial=((7, 3, (0, 0)), (7, 5, (1, 0)))))
    record = record_of_cursor("sub", info)
    assert (record.ranges, record.partial_acks) == (((7, 3, 4),), ((7, 5, (1,)),))


def test_cursors_that_contradict_themselves_are_refused() -> None:
    def with_range(*places: int) -> ManagedCursorInfo:
        info = ManagedCursorInfo(cursorsLedgerId=NO_LEDGER, markDeleteLedgerId=7, markDeleteEntryId=9)
        part = info.individualDeletedMessages.add()
        part.lowerEndpoint.ledgerId, part.lowerEndpoint.entryId = places[:2]
        part.upperEndpoint.ledgerId, part.upperEndpoint.entryId = places[2:]
        return info

    parts = cursor_info(CursorRecord(partial=((-1, 0, (1,)),)))
    for info, reason in (
        (ManagedCursorInfo(cursorsLedgerId=NO_LEDGER), "neither a mark-delete position"),
        (cursor_info(CursorRecord(mark_delete=(7, -2))), "7:-2, which is not a possible position"),
        (with_range(7, 9, 7, 9), r"\(7:9, 7:9\] contains no entry"),
        (with_range(7, -2, 7, 9), "contains no entry"),
        (with_range(7, 9, 8, 3), "spans two ledgers"),
        (parts, "entry -1:0, which cannot exist"),
    ):
        with pytest.raises(PulsarRecordError, match=reason):
            record_of_cursor("sub", info)
    words = PositionInfo(ledgerId=7, entryId=9, individualDeletedMessageRanges=[LongListMap(key=-1, values=[1])])
    with pytest.raises(PulsarRecordError, match="the ledger -1"):
        record_of_position("sub", IN_LEDGER, words)


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0, -1, 1, 1 << 62, -(1 << 63), 0b1011]), max_size=6))
def test_words_are_their_bits(words: list[int]) -> None:
    bits = {64 * n + bit for n, word in enumerate(words) for bit in range(64) if word >> bit & 1}
    ranges = list(ranges_of_words([LongListMap(key=7, values=words)]))
    assert {entry for _, first, last in ranges for entry in range(first, last + 1)} == bits
    assert joined_ranges(ranges) == tuple(ranges)


@settings(max_examples=60)
@given(
    ranges=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 30)), max_size=8),
    words=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, (1 << 64) - 1)), max_size=4),
    in_ledger=st.booleans(),
)
def test_our_cursors_come_back(
    ranges: list[tuple[int, int, int]], words: list[tuple[int, int, int]], in_ledger: bool
) -> None:
    joined = joined_ranges((ledger, min(a, b), max(a, b)) for ledger, a, b in ranges)
    parts = {(ledger, entry): (5, word) for ledger, entry, word in words}
    record = CursorRecord(
        mark_delete=(-1, -1),
        ranges=joined,
        properties={"k": "v"},
        partial=tuple((*place, parts[place]) for place in sorted(parts)) or msgspec.UNSET,
    )
    if in_ledger:
        key = info_of_cursor("sub", ManagedCursorInfo(), record, ledger_id=9, now_ms=NOW)
        found = record_of_position("sub", key, read_position(9, position_of_cursor(key, record).SerializeToString()))
    else:
        found = record_of_cursor("sub", cursor_info(record))
    assert found == record


def test_when_a_cursor_needs_a_ledger() -> None:
    ranges = tuple((7, 2 * n, 2 * n) for n in range(1000))
    assert not needs_ledger(CursorRecord(ranges=ranges))
    assert needs_ledger(CursorRecord(ranges=ranges, partial=(BATCH,)))


def test_words_with_too_many_ranges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acked_words, "MAX_RANGES", 31)
    stored = [LongListMap(key=7, values=[0x5555555555555555])]
    with pytest.raises(PulsarRecordError, match="more than 31"):
        joined_ranges(ranges_of_words(stored))
    monkeypatch.setattr(acked_words, "MAX_RANGES", 32)
    assert len(joined_ranges(ranges_of_words(stored))) == 32


# -------------------------------------------------------------------------------------------------------------- taking


@dataclass
class Case:
    siblings: tuple[str, ...]
    reason: str
    name: str = "orders"


@pytest.mark.parametrize(
    "case",
    [
        Case(
            ("orders-sub__transaction_pending_ack",), "orders-sub__transaction_pending_ack exists and may have pending"
        ),
        Case(("__transaction_buffer_snapshot",), "transactions that were aborted"),
        Case(("__transaction_buffer_snapshot-partition-0",), "transactions that were aborted"),
        Case((), "a topic of Pulsar's transactions", "orders-sub__transaction_pending_ack"),
        Case((), "a topic of Pulsar's transactions", "__transaction_log_3"),
    ],
)
def test_topics_with_transactions_are_left_to_java(case: Case) -> None:
    (reason,) = reasons_not_to_take(case.name, LEDGERS, {"sub": CURSOR}, case.siblings)
    assert case.reason in reason


def test_an_ordinary_topic_may_be_taken_and_each_reason_is_told() -> None:
    assert (
        reasons_not_to_take("orders", LEDGERS, {"sub": CURSOR}, ["orders", "other-sub__transaction_pending_ack"]) == []
    )
    compaction = ManagedCursorInfo(cursorsLedgerId=NO_LEDGER)
    compaction.properties.add(name="CompactedTopicLedger", value=12)
    assert reasons_not_to_take("orders", OFFLOADED, {"__compaction": compaction}, []) == [
        "1 ledger offloaded to tiered storage, the first is 7",
        "its messages were compacted into ledger 12 by a Java broker",
    ]
