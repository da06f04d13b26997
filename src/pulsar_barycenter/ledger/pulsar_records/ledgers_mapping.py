"""Converts Pulsar's record of a topic's list of ledgers to ours, and back.

| ours | Pulsar's |
|---|---|
| ledgers: id, entries, size | the same |
| `closed` | every ledger but the last: what the record says of the last one is never final |
| `created_at` of a ledger | `timestamp` of the ledger before, the moment when it ended |
| `messages`, `max_publish_time` | properties of the ledger, `barycenter.…`, if they say more than its other fields |
| `terminated`, `properties` | the same |
| `deleting` | the property `barycenter.deleting` of the topic |
| `compacted` | refused: Java brokers could not read our compacted ledgers |
| `epoch`, `open`, `opened_by` | not stored: the version of the record proves who has the topic |

Our record is written into the record of Pulsar that was read, so fields that ours does not have stay as they are.

Source: `ManagedLedgerImpl.buildManagedLedgerInfo` of Pulsar.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from msgspec import UNSET, UnsetType

from pulsar_barycenter.ledger.managed.records import LedgerRecord, ManagedLedgerRecord
from pulsar_barycenter.ledger.pulsar_records.errors import ForeignRecordError, PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import KeyValue, ManagedLedgerInfo
from pulsar_barycenter.naming.counted import count_of

MAX_LEDGERS: Final = 100_000
"""The maximum number (inclusive) of ledgers in a topic's record that is read."""

DELETING: Final = "barycenter.deleting"
MESSAGES: Final = "barycenter.messages"
MAX_PUBLISH_TIME: Final = "barycenter.maxPublishTime"
_OWN: Final = frozenset({MESSAGES, MAX_PUBLISH_TIME})
_MAX_DIGITS: Final = 18


def record_of_ledgers(info: ManagedLedgerInfo) -> ManagedLedgerRecord:
    """Convert Pulsar's record of a topic to a ManagedLedgerRecord. Pulsar's record has no epoch and no field `open`:
    they are 0 and False in the result.

    Raises:
        PulsarRecordError: the record contradicts itself, or has more than MAX_LEDGERS ledgers.
        ForeignRecordError: a ledger of the topic is in tiered storage, or is being copied there.
    """
    _check_offloads(info)
    return listed_in(info)


def listed_in(info: ManagedLedgerInfo) -> ManagedLedgerRecord:
    """Convert Pulsar's record of a topic for command-line tools, as `record_of_ledgers` does. But ledgers in tiered
    storage are no error: the result has all ledgers of the topic that may be on bookies, including ledgers that were
    also copied to tiered storage.

    Raises:
        PulsarRecordError: the record contradicts itself, or has more than MAX_LEDGERS ledgers.
    """
    _check(info)
    properties = {pair.key: pair.value for pair in info.properties}
    deleting = _ids(properties.pop(DELETING, ""))
    listed = {part.ledgerId for part in info.ledgerInfo}
    if listed.intersection(deleting):
        raise PulsarRecordError(
            f"the topic's property {DELETING} names ledgers to delete, but the topic's list of ledgers has some of them"
        )
    return ManagedLedgerRecord(
        ledgers=_ledgers(info),
        deleting=deleting,
        terminated=_terminated(info),
        properties=properties,
    )


def info_of_ledgers(before: ManagedLedgerInfo, record: ManagedLedgerRecord) -> ManagedLedgerInfo:
    """Convert the record of a topic to Pulsar's record. `before` is the stored record; fields that `record` does not
    have keep the values that they have in `before`.

    Raises:
        ForeignRecordError: Java brokers could not use the result, because `record` has a compacted ledger, or because a
            ledger is open that is not the last one.
    """
    if record.compacted_ledgers:
        raise ForeignRecordError(
            "the topic has a compacted ledger, which Java brokers cannot read, so the record is not stored: compact the"
            " topic on a Java broker"
        )
    for ledger in record.ledgers[:-1]:
        if not ledger.closed:
            raise ForeignRecordError(
                f"ledger {ledger.ledger_id} is open, and another ledger follows it, but Java brokers recover only the "
                "last ledger of a topic; close this ledger first"
            )
    info = ManagedLedgerInfo()
    info.CopyFrom(before)
    known = {part.ledgerId: part for part in before.ledgerInfo}
    del info.ledgerInfo[:]
    for number, ledger in enumerate(record.ledgers):
        part = known.get(ledger.ledger_id, ManagedLedgerInfo.LedgerInfo())
        following = record.ledgers[number + 1 : number + 2]
        info.ledgerInfo.append(_info_of(part, ledger, following[0].created_at if following else 0))
    _set_terminated(info, record)
    _set_properties(info, record)
    return info


def _check(info: ManagedLedgerInfo) -> None:
    if len(info.ledgerInfo) > MAX_LEDGERS:
        raise PulsarRecordError(
            f"the topic has {count_of(len(info.ledgerInfo), 'ledger')}, more than the maximum of {MAX_LEDGERS:,}"
        )
    for part in info.ledgerInfo:
        if min(part.ledgerId, part.entries, part.size, part.timestamp) < 0:
            raise PulsarRecordError(
                f"ledger {part.ledgerId} has a negative id, size, time or number of entries in the topic's record"
            )
    for sooner, later in pairwise(part.ledgerId for part in info.ledgerInfo):
        if later <= sooner:
            raise PulsarRecordError(
                f"ledger {later} follows ledger {sooner} in the topic's list, but ledger ids must increase"
            )


def _check_offloads(info: ManagedLedgerInfo) -> None:
    for part in info.ledgerInfo:
        if has_offload(part):
            raise ForeignRecordError(
                f"ledger {part.ledgerId} was offloaded to tiered storage, which only Java brokers read"
            )


def has_offload(part: ManagedLedgerInfo.LedgerInfo) -> bool:
    """Return whether a ledger is in tiered storage, or is being copied there. `part` is the ledger in Pulsar's record
    of the topic.
    """
    return part.HasField("offloadContext") and part.offloadContext.ByteSize() > 0


def _ledgers(info: ManagedLedgerInfo) -> tuple[LedgerRecord, ...]:
    last = len(info.ledgerInfo) - 1
    begun_at = 0
    found = []
    for number, part in enumerate(info.ledgerInfo):
        if part.offloadContext.bookkeeperDeleted:
            begun_at = part.timestamp
            continue
        hints = {pair.key: pair.value for pair in part.properties}
        found.append(
            LedgerRecord(
                ledger_id=part.ledgerId,
                entries=part.entries,
                size=part.size,
                messages=max(_number(hints, MESSAGES, part.entries), part.entries),
                max_publish_time=_number(hints, MAX_PUBLISH_TIME, part.timestamp),
                closed=number < last,
                created_at=begun_at,
            )
        )
        begun_at = part.timestamp
    return tuple(found)


def _info_of(before: ManagedLedgerInfo.LedgerInfo, ledger: LedgerRecord, ended_at: int) -> ManagedLedgerInfo.LedgerInfo:
    part = ManagedLedgerInfo.LedgerInfo()
    part.CopyFrom(before)
    part.ledgerId = ledger.ledger_id
    if not ledger.closed:
        return part
    part.entries, part.size = ledger.entries, ledger.size
    part.timestamp = before.timestamp or ended_at
    kept = [pair for pair in before.properties if pair.key not in _OWN]
    if ledger.messages != ledger.entries:
        kept.append(KeyValue(key=MESSAGES, value=str(ledger.messages)))
    if ledger.max_publish_time != part.timestamp:
        kept.append(KeyValue(key=MAX_PUBLISH_TIME, value=str(ledger.max_publish_time)))
    del part.properties[:]
    part.properties.extend(kept)
    return part


def _terminated(info: ManagedLedgerInfo) -> tuple[int, int] | UnsetType:
    if not info.HasField("terminatedPosition"):
        return UNSET
    end = info.terminatedPosition
    if end.ledgerId < -1 or end.entryId < -1:
        raise PulsarRecordError(
            f"the topic is terminated at {end.ledgerId}:{end.entryId}, which is not a possible position"
        )
    return end.ledgerId, end.entryId


def _set_terminated(info: ManagedLedgerInfo, record: ManagedLedgerRecord) -> None:
    if isinstance(record.terminated, UnsetType):
        info.ClearField("terminatedPosition")
    else:
        info.terminatedPosition.ledgerId, info.terminatedPosition.entryId = record.terminated


def _set_properties(info: ManagedLedgerInfo, record: ManagedLedgerRecord) -> None:
    if DELETING in record.properties:
        raise ForeignRecordError(f"the property {DELETING} of a topic is reserved; choose another name")
    del info.properties[:]
    info.properties.extend(KeyValue(key=key, value=value) for key, value in record.properties.items())
    if record.deleting:
        info.properties.add(key=DELETING, value=",".join(map(str, record.deleting)))


def _ids(text: str) -> tuple[int, ...]:
    parts = text.split(",") if text else []
    if not all(_is_number(part) for part in parts):
        raise PulsarRecordError(
            f"the topic's property {DELETING} is {text[:40]!r}, expected ids of ledgers, separated by commas"
        )
    return tuple(map(int, parts))


def _number(hints: Mapping[str, str], key: str, otherwise: int) -> int:
    text = hints.get(key, "")
    return int(text) if _is_number(text) else otherwise


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
