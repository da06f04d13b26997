"""The position of an entry in a managed ledger, and an entry as it is read for delivery to consumers."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

NewEntry: TypeAlias = tuple[bytes, int, int]
"""An entry to append: data, number of messages, publish time in ms."""


class Position(NamedTuple):
    """The position of an entry: ledger id and entry id. The position of a later entry compares greater. `(ledger, -1)`
    is the position before the first entry of a ledger.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


def positions_text(ledger_id: int, first: int, last: int) -> str:
    """Return a range of entries of one ledger, both ends inclusive, as text: `3:7` for one entry, `3:7-3:9` for
    several.
    """
    begin = str(Position(ledger_id, first))
    return begin if first == last else f"{begin}-{Position(ledger_id, last)}"


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges (first, last), both inclusive, sorted. Ranges that overlap or follow one another without a gap
    are joined.
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


EARLIEST: Final = Position(-1, -1)
"""The position before every entry; also the last position of a topic that was never written."""


class EntryInfo(NamedTuple):
    """The size, message count and publish time of an entry, which are stored with it, so that the entry need not be
    decoded. `publish_time_ms` (ms since 1970) is the time of the producer's clock.
    """

    size: int
    num_messages: int
    publish_time_ms: int


class Entry(NamedTuple):
    """An entry as it is read for delivery. `data` are the bytes that were appended, unchanged. `publish_time_ms` is in
    ms since 1970.
    """

    position: Position
    data: bytes
    num_messages: int
    publish_time_ms: int

    @property
    def info(self) -> EntryInfo:
        return EntryInfo(len(self.data), self.num_messages, self.publish_time_ms)


class EntryRun(NamedTuple):
    """One or more consecutive entries of a ledger.

    `first` is the id of the first entry, `data` has the bytes of each entry. `num_messages` and `size` (in bytes) are
    totals over these entries.
    """

    ledger_id: int
    first: int
    data: Sequence[bytes]
    num_messages: int
    size: int


_new_position = partial(tuple.__new__, Position)
_new_entry = partial(tuple.__new__, Entry)


def positions(ledger_id: int, first: int, stop: int) -> Iterator[Position]:
    """Yield the positions of the entries `first` (inclusive) to `stop` (exclusive) of a ledger. Faster than a loop that
    creates each `Position`.
    """
    return map(_new_position, zip(repeat(ledger_id), range(first, stop)))


def positions_of(pairs: Iterable[tuple[int, int]]) -> list[Position]:
    """Convert pairs (ledger id, entry id) to positions."""
    return list(map(_new_position, pairs))


def entries(
    ledger_id: int, first: int, data: Sequence[bytes], counts: Iterable[int], times: Iterable[int]
) -> list[Entry]:
    """Return consecutive entries of a ledger. `first` is the id of the first entry. `data`, `counts` and `times` are
    the data, message count and publish time (ms since 1970) of each entry.
    """
    places = positions(ledger_id, first, first + len(data))
    return list(map(_new_entry, zip(places, data, counts, times, strict=True)))
