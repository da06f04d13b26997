"""Converts Pulsar's record of a cursor to ours, and back.

A cursor's state is in its key of the metadata store, or, if it has many ranges, in the last entry of a ledger that the
key names. Then the mark-delete position in the key is that from when the ledger was created.

Pulsar's cursors have numbers (`properties`, of the mark-delete position) and texts (`cursorProperties`, of the
subscription). Ours have texts. For the cursors of deduplication and compaction ours correspond to Pulsar's numbers, for
all others to its texts. The other kind stays as it was read, like all fields that our record does not have.

Source: `ManagedCursorImpl` of Pulsar.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import UNSET

from pulsar_barycenter.ledger.managed.partial_acks import WORD_BITS, bits_of, words_of
from pulsar_barycenter.ledger.managed.records import CursorRecord
from pulsar_barycenter.ledger.pulsar_records.acked_words import (
    Range,
    joined_ranges,
    messages_of_ranges,
    ranges_of_messages,
    ranges_of_words,
)
from pulsar_barycenter.ledger.pulsar_records.errors import ForeignRecordError, PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    BatchedEntryDeletionIndexInfo,
    LongProperty,
    ManagedCursorInfo,
    NestedPositionInfo,
    PositionInfo,
    StringProperty,
)

NO_LEDGER: Final = -1
"""The value of `cursorsLedgerId` for a cursor whose state is in its key."""

MAX_RANGES_IN_KEY: Final = 1000
"""The maximum number (inclusive) of ranges and partly acknowledged entries that a cursor's key may have. Source:
Pulsar's managedLedgerMaxUnackedRangesToPersistInMetadataStore.
"""

COMPACTION: Final = "__compaction"
COMPACTED_LEDGER: Final = "CompactedTopicLedger"
_WITH_NUMBERS: Final = frozenset({COMPACTION, "pulsar.dedup"})
_WORD: Final = 1 << WORD_BITS


def record_of_cursor(name: str, info: ManagedCursorInfo) -> CursorRecord:
    """Convert Pulsar's record of the cursor `name` to a CursorRecord. `info` is the value of the cursor's key, which
    must contain the state of the cursor and not name a ledger.

    Raises:
        PulsarRecordError: the record contradicts itself.
        ForeignRecordError: the record contains something that cursors of Python brokers do not support.
    """
    if not info.HasField("markDeleteLedgerId") or not info.HasField("markDeleteEntryId"):
        raise PulsarRecordError("the cursor's record has neither a mark-delete position nor a ledger that contains one")
    return _record(
        name,
        info,
        NestedPositionInfo(ledgerId=info.markDeleteLedgerId, entryId=info.markDeleteEntryId),
        [*ranges_of_messages(info.individualDeletedMessages)],
        info.batchedEntryDeletionIndexInfo,
        info.properties,
    )


def record_of_position(name: str, info: ManagedCursorInfo, position: PositionInfo) -> CursorRecord:
    """Convert Pulsar's record of the cursor `name` to a CursorRecord. The state of the cursor is in a ledger that its
    key names. `info` is the value of the key, `position` the last entry of that ledger.

    Raises:
        PulsarRecordError: the record contradicts itself.
        ForeignRecordError: the record contains something that cursors of Python brokers do not support.
    """
    ranges = (
        ranges_of_messages(position.individualDeletedMessages)
        if position.individualDeletedMessages
        else ranges_of_words(position.individualDeletedMessageRanges)
    )
    return _record(
        name,
        info,
        NestedPositionInfo(ledgerId=position.ledgerId, entryId=position.entryId),
        ranges,
        position.batchedEntryDeletionIndexInfo,
        position.properties,
    )


def needs_ledger(record: CursorRecord) -> bool:
    """Return whether a cursor's record is too large to be stored in the cursor's key, so that it has to be stored in a
    ledger.
    """
    return len(record.ranges) + len(record.partial_acks) > MAX_RANGES_IN_KEY


def info_of_cursor(
    name: str, before: ManagedCursorInfo, record: CursorRecord, *, ledger_id: int, now_ms: int
) -> ManagedCursorInfo:
    """Convert the record of the cursor `name` to Pulsar's value of its key. `before` is the stored value; fields that
    `record` does not have keep the values that they have in `before`.

    `ledger_id` is the ledger that the key names, whose last entry is the result of `position_of_cursor` for the same
    record; NO_LEDGER if the state is in the key. If the mark-delete position differs from that in `before`, `now_ms`
    (ms since 1970) is stored as the time when the cursor was last active.

    Raises:
        ForeignRecordError: a Java broker could not use the result.
    """
    info = ManagedCursorInfo()
    info.CopyFrom(before)
    info.cursorsLedgerId = ledger_id
    mark = (before.markDeleteLedgerId, before.markDeleteEntryId)
    if record.mark_delete != mark or not before.HasField("lastActive"):
        info.lastActive = max(now_ms, before.lastActive)
        info.ClearField("idleSince")
    info.markDeleteLedgerId, info.markDeleteEntryId = record.mark_delete
    del info.individualDeletedMessages[:], info.batchedEntryDeletionIndexInfo[:]
    if ledger_id == NO_LEDGER:
        info.individualDeletedMessages.extend(messages_of_ranges(record.ranges))
        info.batchedEntryDeletionIndexInfo.extend(_batches(record))
    if name in _WITH_NUMBERS:
        del info.properties[:]
        info.properties.extend(_numbers(name, record))
    else:
        del info.cursorProperties[:]
        info.cursorProperties.extend(StringProperty(name=key, value=text) for key, text in record.properties.items())
    return info


def position_of_cursor(key: ManagedCursorInfo, record: CursorRecord) -> PositionInfo:
    """Convert a cursor's record to the entry that is written to the cursor's ledger. `key` is the result of
    `info_of_cursor` for the same record.
    """
    return PositionInfo(
        ledgerId=record.mark_delete[0],
        entryId=record.mark_delete[1],
        individualDeletedMessages=messages_of_ranges(record.ranges),
        properties=key.properties,
        batchedEntryDeletionIndexInfo=_batches(record),
    )


def _record(
    name: str,
    info: ManagedCursorInfo,
    mark: NestedPositionInfo,
    ranges: Iterable[Range],
    batches: Iterable[BatchedEntryDeletionIndexInfo],
    numbers: Iterable[LongProperty],
) -> CursorRecord:
    if mark.ledgerId < -1 or mark.entryId < -1:
        raise PulsarRecordError(
            f"the mark-delete position is {mark.ledgerId}:{mark.entryId}, which is not a possible position"
        )
    complete, partial = _parts(batches)
    if name in _WITH_NUMBERS:
        properties = {number.name: str(number.value) for number in numbers}
    else:
        properties = {text.name: text.value for text in info.cursorProperties}
    if name == COMPACTION and COMPACTED_LEDGER in properties:
        raise ForeignRecordError(
            f"ledger {properties[COMPACTED_LEDGER]} has the compacted messages of the topic, in a format that only "
            "Java brokers read"
        )
    return CursorRecord(
        mark_delete=(mark.ledgerId, mark.entryId),
        ranges=joined_ranges([*ranges, *complete]),
        properties=properties,
        partial=partial or UNSET,
    )


def _parts(
    batches: Iterable[BatchedEntryDeletionIndexInfo],
) -> tuple[list[Range], tuple[tuple[int, int, tuple[int, ...]], ...]]:
    """Split the partly acknowledged entries of Pulsar's record. The first result are the entries of which all messages
    are acknowledged, as ranges. The second are the other entries, each with the bit set of its messages that are not
    acknowledged.
    """
    complete: list[Range] = []
    partial = {}
    for batch in batches:
        place = batch.position
        if place.ledgerId < 0 or place.entryId < 0:
            raise PulsarRecordError(
                f"the cursor has acknowledged messages of entry {place.ledgerId}:{place.entryId}, which cannot exist"
            )
        words = words_of(bits_of(batch.deleteSet))
        if words:
            partial[place.ledgerId, place.entryId] = words
        else:
            complete.append((place.ledgerId, place.entryId, place.entryId))
    return complete, tuple((*place, partial[place]) for place in sorted(partial))


def _batches(record: CursorRecord) -> Iterator[BatchedEntryDeletionIndexInfo]:
    for ledger, entry, words in record.partial_acks:
        yield BatchedEntryDeletionIndexInfo(
            position=NestedPositionInfo(ledgerId=ledger, entryId=entry),
            deleteSet=[word - _WORD if word >= _WORD // 2 else word for word in words],
        )


def _numbers(name: str, record: CursorRecord) -> Iterator[LongProperty]:
    for key, text in record.properties.items():
        if name == COMPACTION and key == COMPACTED_LEDGER:
            raise ForeignRecordError(
                "the topic has a compacted ledger, which Java brokers cannot read, so the record is not stored: compact"
                " the topic on a Java broker"
            )
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and -(1 << 63) <= int(text) < 1 << 63):
            raise ForeignRecordError(
                f"the property {key} of cursor {name} is {text[:40]!r}, but must be a whole number in Pulsar's form"
            )
        yield LongProperty(name=key, value=int(text))
