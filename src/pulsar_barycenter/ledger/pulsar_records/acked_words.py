"""Converts the acknowledged entries of a cursor from and to the two formats in which Pulsar stores them.

A range in Pulsar excludes its lower position and includes its upper one. Our ranges are [ledger, first, last], both
ends inclusive. Instead of ranges, a cursor ledger may have 64-bit words for each ledger: bit i of all of them is entry
i.

Source: `ManagedCursorImpl.recoverIndividualDeletedMessages` and `buildIndividualDeletedMessageRanges` of Pulsar.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from pulsar_barycenter.ledger.pulsar_records.errors import ForeignRecordError, PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LongListMap,
    MessageRange,
    NestedPositionInfo,
)

MAX_RANGES: Final = 100_000
"""The maximum number (inclusive) of ranges of a cursor that are read. Pulsar writes 10,000 by default."""

Range: TypeAlias = tuple[int, int, int]
"""A ledger, the first and the last entry, both inclusive."""

_WORD_BITS: Final = 64
_FULL: Final = (1 << _WORD_BITS) - 1


def ranges_of_messages(stored: Iterable[MessageRange]) -> Iterator[Range]:
    """Convert the ranges of acknowledged entries from Pulsar's format to ranges (ledger, first, last), both ends
    inclusive, in the same order.

    Raises:
        PulsarRecordError: a range ends before it begins.
        ForeignRecordError: a range begins in one ledger and ends in another. It does not say how many entries of the
            first ledger belong to it.
    """
    for part in stored:
        lower, upper = part.lowerEndpoint, part.upperEndpoint
        text = f"({lower.ledgerId}:{lower.entryId}, {upper.ledgerId}:{upper.entryId}]"
        if lower.ledgerId != upper.ledgerId:
            raise ForeignRecordError(
                f"the acknowledged range {text} spans two ledgers; let a Java broker that keeps ranges by ledger"
                " (managedLedgerUnackedRangesOpenCacheSetEnabled=true) load and unload the topic"
            )
        if lower.ledgerId < 0 or not -1 <= lower.entryId < upper.entryId:
            raise PulsarRecordError(f"the acknowledged range {text} contains no entry")
        yield upper.ledgerId, lower.entryId + 1, upper.entryId


def messages_of_ranges(ranges: Iterable[Range]) -> list[MessageRange]:
    """Convert ranges of acknowledged entries (ledger, first, last), both ends inclusive, to Pulsar's format
    of ranges.
    """
    return [
        MessageRange(
            lowerEndpoint=NestedPositionInfo(ledgerId=ledger, entryId=first - 1),
            upperEndpoint=NestedPositionInfo(ledgerId=ledger, entryId=last),
        )
        for ledger, first, last in ranges
    ]


def ranges_of_words(stored: Iterable[LongListMap]) -> Iterator[Range]:
    """Convert the acknowledged entries of a cursor to ranges (ledger, first, last), both ends inclusive. In `stored`,
    each ledger has 64-bit words, in which bit i is set if entry i is acknowledged. The ranges of each ledger are in
    order.

    Raises:
        PulsarRecordError: a ledger id is negative.
    """
    for part in stored:
        if part.key < 0:
            raise PulsarRecordError(
                f"the cursor has acknowledged entries of the ledger {part.key}, but a ledger id is never negative"
            )
        for first, last in _runs(part.values):
            yield part.key, first, last


def _runs(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive set bits as (first, last), both inclusive. Bit 0 of the first word is number 0,
    bit 0 of the second word is number 64.
    """
    start = -1
    for number, signed in enumerate(words):
        base, word = number * _WORD_BITS, signed & _FULL
        if word == _FULL if start >= 0 else not word:
            continue  # long runs and long gaps cost a step a word
        for bit in range(_WORD_BITS):
            if word >> bit & 1:
                start = base + bit if start < 0 else start
            elif start >= 0:
                yield start, base + bit - 1
                start = -1
    if start >= 0:
        yield start, len(words) * _WORD_BITS - 1


def joined_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges, sorted. Ranges that overlap or follow one another without a gap are joined to one.

    Raises:
        PulsarRecordError: `ranges` has more than MAX_RANGES ranges.
    """
    found: list[Range] = []
    for count, range_ in enumerate(ranges, 1):
        if count > MAX_RANGES:
            raise PulsarRecordError(f"the cursor has more than {MAX_RANGES:,} acknowledged ranges, the maximum")
        found.append(range_)
    joined: list[Range] = []
    for ledger, first, last in sorted(found):
        if joined and joined[-1][0] == ledger and first <= joined[-1][2] + 1:
            joined[-1] = ledger, joined[-1][1], max(joined[-1][2], last)
        else:
            joined.append((ledger, first, last))
    return tuple(joined)
