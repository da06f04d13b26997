"""Where an entry stands in a managed ledger, what is kept beside it, and an entry as dispatch gets it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

NewEntry: TypeAlias = tuple[bytes, int, int]
"""What is to be appended: data, number of messages, publish time in ms."""


class Position(NamedTuple):
    """An entry's place. Later entries compare greater; `(ledger, -1)` is just before a ledger's first entry."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


def positions_text(ledger_id: int, first: int, last: int) -> str:
    """Return a range of entries, both ends inclusive, for people: `3:7` or `3:7-3:9`."""
    begin = str(Position(ledger_id, first))
    return begin if first == last else f"{begin}-{Position(ledger_id, last)}"


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges (first, last) in order, those that touch or overlap as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


EARLIEST: Final = Position(-1, -1)
"""Before every entry; also the last position of a topic that was never written."""


class EntryInfo(NamedTuple):
    """What is kept beside an entry, so that dispatch never opens it. `publish_time_ms` is the producer's."""

    size: int
    num_messages: int
    publish_time_ms: int


class Entry(NamedTuple):
    """An entry with what dispatch needs beside it; `data` is as it was appended."""

    position: Position
    data: bytes
    num_messages: int
    publish_time_ms: int

    @property
    def info(self) -> EntryInfo:
        return EntryInfo(len(self.data), self.num_messages, self.publish_time_ms)


class EntryRun(NamedTuple):
    """Consecutive entries of a ledger, at least one: the id of the first, the data of each, and the messages and
    bytes in all of them together."""

    ledger_id: int
    first: int
    data: Sequence[bytes]
    num_messages: int
    size: int


_new_position = partial(tuple.__new__, Position)
_new_entry = partial(tuple.__new__, Entry)


def positions(ledger_id: int, first: int, stop: int) -> Iterator[Position]:
    """Yield the positions `first` (inclusive) to `stop` (exclusive) of a ledger, made without Python code per item."""
    return map(_new_position, zip(repeat(ledger_id), range(first, stop)))


def positions_of(pairs: Iterable[tuple[int, int]]) -> list[Position]:
    """Return pairs of a ledger's and an entry's id as positions."""
    return list(map(_new_position, pairs))


def entries(
    ledger_id: int, first: int, data: Sequence[bytes], counts: Iterable[int], times: Iterable[int]
) -> list[Entry]:
    """Join consecutive entries of a ledger, `first` being the id of the first, with their columns."""
    places = positions(ledger_id, first, first + len(data))
    return list(map(_new_entry, zip(places, data, counts, times, strict=True)))
