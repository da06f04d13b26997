"""The ledgers of a topic in order, and the arithmetic of positions over them.

`LedgerOwner` is the interface of the managed ledger for the modules that it uses.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Coroutine, Iterable, Iterator
from typing import Protocol

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerFencedError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.missing_entries import MissingEntries
from pulsar_barycenter.ledger.managed.records import LedgerRecord
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.ledger.reader import LedgerReader, LedgerTotals
from pulsar_barycenter.metadata.clock import Clock


class Segment:
    """One ledger of a managed ledger. `entries`, `size` (in bytes) and `messages` are the totals of its durable
    entries.

    `missing` are the ids, all below `entries`, of entries that a repair removed or that a read skipped. They are found
    only when the ledger is read; until then `size` and `messages` may include them.
    """

    __slots__ = (
        "closed", "created_at_ms", "entries", "ledger_id", "max_publish_time_ms", "messages", "missing", "reader",
        "size",
    )  # fmt: skip

    def __init__(self, ledger_id: int, *, created_at_ms: int) -> None:
        self.ledger_id = ledger_id
        self.created_at_ms = created_at_ms
        self.entries = 0
        self.size = 0
        self.messages = 0
        self.max_publish_time_ms = 0
        self.closed = False
        self.reader: LedgerReader | None = None
        self.missing = MissingEntries()

    @property
    def last_position(self) -> Position:
        return Position(self.ledger_id, self.entries - 1)

    @property
    def index(self) -> EntryIndex | None:
        """Sizes, message counts and publish times of the ledger's entries; None if they are not in memory."""
        return None if self.reader is None else self.reader.index

    def recovered(self, entries: int, totals: LedgerTotals) -> None:
        """Set the number of entries and the totals of this ledger to the values that its recovery found."""
        self.entries = entries
        self.size, self.messages, self.max_publish_time_ms = totals

    def miss(self, ranges: Iterable[tuple[int, int]], index: EntryIndex | None) -> bool:
        """Record that the entries in `ranges` (first, last), both ends inclusive, are missing. Return True if at least
        one of them was not recorded as missing before.

        `index` has the sizes and message counts of the ledger's entries; with it, `size` and `messages` are computed
        again without the missing entries. If it is None, they change only if all entries are missing: then they become
        0.
        """
        is_new = self.missing.add(
            (first, min(last, self.entries - 1)) for first, last in ranges if first < self.entries
        )
        if is_new and index is not None:
            self.size = index.bytes_between(0, self.entries)
            self.messages = index.messages_between(0, self.entries)
            for first, last in self.missing:
                self.size -= index.bytes_between(first, last + 1)
                self.messages -= index.messages_between(first, last + 1)
        elif is_new and self.missing.count == self.entries:
            self.size = self.messages = 0
        return is_new

    def grow(self, index: EntryIndex, entries: int) -> None:
        """Count the entries up to the id `entries` (exclusive) that are not counted yet, because they are now durable.
        `index` has their sizes, message counts and publish times.
        """
        first = self.entries
        if entries <= first:
            return
        self.size += index.bytes_between(first, entries)
        self.messages += index.messages_between(first, entries)
        self.max_publish_time_ms = max(self.max_publish_time_ms, index.max_publish_time(first, entries))
        self.entries = entries

    def entries_before(self, size: int) -> int:
        """Return the smallest number of entries at the start of the ledger after which at most `size` bytes follow in
        the ledger.
        """
        counts = range(self.entries + 1)
        return bisect_left(counts, True, key=lambda count: self.bytes_between(count, self.entries) <= size)

    def messages_between(self, first: int, stop: int) -> int:
        """Return the number of messages in the entries `first` (inclusive) to `stop` (exclusive).

        The result is exact in three cases: the range is the whole ledger; no entry is a batch; or the ledger's entry
        index is in memory. Otherwise it is an estimate from the mean number of messages per entry.
        """
        count = stop - first - self.missing.between(first, stop)
        present = self.entries - self.missing.count
        if count == present:
            return self.messages
        if self.messages == present:
            return count
        index = self.index
        if index is None:
            return round(self.messages * count / present)
        overlaps = ((max(begin, first), min(last + 1, stop)) for begin, last in self.missing)
        lost = sum(index.messages_between(begin, end) for begin, end in overlaps if begin < end)
        return index.messages_between(first, stop) - lost

    def messages_in(self, entry_id: int) -> int:
        """Return the number of messages of an entry; 0 if the ledger's entry index is not in memory."""
        return 0 if self.index is None else self.index.messages_between(entry_id, entry_id + 1)

    def bytes_between(self, first: int, stop: int) -> int:
        """Return the size of the entries `first` (inclusive) to `stop` (exclusive), in bytes. The size is exact for the
        whole ledger, or if the ledger's entry index is in memory. Otherwise it is an estimate from the mean size of an
        entry.
        """
        if stop - first == self.entries:
            return self.size
        index = self.index
        if index is None:
            return round(self.size * (stop - first) / self.entries)
        return index.bytes_between(first, stop)


def segment_of(record: LedgerRecord) -> Segment:
    """Return a `Segment` with the id, the counts and the times of `record`, a ledger in a topic's list."""
    segment = Segment(record.ledger_id, created_at_ms=record.created_at)
    segment.entries, segment.size, segment.messages = record.entries, record.size, record.messages
    segment.max_publish_time_ms = record.max_publish_time
    segment.closed = record.closed
    return segment


def record_of(segment: Segment) -> LedgerRecord:
    """Return the record with which the ledger `segment` is stored in the topic's list."""
    return LedgerRecord(
        ledger_id=segment.ledger_id,
        entries=segment.entries,
        size=segment.size,
        messages=segment.messages,
        max_publish_time=segment.max_publish_time_ms,
        closed=segment.closed,
        created_at=segment.created_at_ms,
    )


class Segments:
    """The ledgers of a topic, oldest first."""

    __slots__ = ("_ids", "_segments")

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._ids: list[int] = []

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __contains__(self, segment: object) -> bool:
        return segment in self._segments

    def append(self, segment: Segment) -> None:
        assert not self._ids or segment.ledger_id > self._ids[-1], "ledger ids grow"
        self._segments.append(segment)
        self._ids.append(segment.ledger_id)

    def remove(self, segment: Segment) -> None:
        at = self._segments.index(segment)
        del self._segments[at], self._ids[at]

    def find(self, ledger_id: int) -> Segment | None:
        if self._ids and self._ids[-1] == ledger_id:  # most look-ups are for the ledger that is being written
            return self._segments[-1]
        at = bisect_left(self._ids, ledger_id)
        return self._segments[at] if at < len(self._ids) and self._ids[at] == ledger_id else None

    def has(self, position: Position) -> bool:
        """Return whether an entry exists at `position`: it was appended and is durable, and it is not missing."""
        segment = self.find(position.ledger_id)
        entry_id = position.entry_id
        return (
            segment is not None
            and 0 <= entry_id < segment.entries
            and segment.missing.present_from(entry_id) == entry_id
        )

    @property
    def size(self) -> int:
        """The total size of all ledgers in bytes."""
        return sum(segment.size for segment in self._segments)

    def ended_at_ms(self, segment: Segment) -> int | None:
        """Return when a ledger of the topic ended, in ms since 1970: when the next ledger was created. If the list does
        not have the time of that creation, return the publish time of the ledger's last entry. None if there is no next
        ledger.
        """
        at = bisect_right(self._ids, segment.ledger_id)
        if at == len(self._ids):
            return None
        return self._segments[at].created_at_ms or segment.max_publish_time_ms

    def ends_at(self, position: Position) -> bool:
        """Return True if no entry of the ledger of `position` can follow `position`: the ledger is closed and all its
        entries after `position` are missing, or the ledger is not in the list.
        """
        segment = self.find(position.ledger_id)
        return segment is None or (
            segment.closed and segment.missing.present_from(position.entry_id + 1) >= segment.entries
        )

    @property
    def last_position(self) -> Position:
        """The position of the last durable entry that is not missing; EARLIEST if there is none."""
        return self.at_or_before(Position(self._ids[-1], self._segments[-1].entries)) if self._ids else EARLIEST

    def at_or_before(self, position: Position) -> Position:
        """Return `position` if an entry exists there, otherwise the position of the last entry before it; EARLIEST if
        there is no such entry.
        """
        for segment in reversed(self._segments[: bisect_right(self._ids, position.ledger_id)]):
            last = segment.entries - 1
            if segment.ledger_id == position.ledger_id:
                last = min(last, position.entry_id)
            last = segment.missing.present_until(last)
            if last >= 0:
                return Position(segment.ledger_id, last)
        return EARLIEST

    def at_or_after(self, position: Position) -> tuple[Segment, int] | None:
        """Return the ledger and the entry id of the first entry whose position is `position` or after it; None if there
        is no such entry.
        """
        ledger_id, entry_id = position
        for at in range(bisect_left(self._ids, ledger_id), len(self._ids)):
            segment = self._segments[at]
            first = max(entry_id, 0) if segment.ledger_id == ledger_id else 0
            first = segment.missing.present_from(first)
            if first < segment.entries:
                return segment, first
        return None

    def next_valid(self, position: Position) -> Position:
        """Return the position of the first entry after `position` (exclusive). If there is none, return the position
        after the topic's last entry, or after `position` if that is later.
        """
        found = self.at_or_after(Position(position.ledger_id, position.entry_id + 1))
        if found is not None:
            return Position(found[0].ledger_id, found[1])
        last = max(position, self.last_position)
        return Position(last.ledger_id, last.entry_id + 1)

    def consumed(self, last: Position, marks: Collection[Position]) -> list[Segment]:
        """Return the ledgers that no cursor needs any more, oldest first. `last` is the topic's last entry. `marks` are
        the mark-delete positions of all durable cursors.

        A ledger is returned if it is closed, ends before the ledger of `last`, and has only missing entries after each
        position in `marks`. Ledgers after the first one that a cursor needs are not returned. A closed ledger without
        entries is returned if all closed ledgers before it are.
        """
        consumed = []
        for segment in self._segments:
            if not segment.closed:
                continue
            if segment.entries:
                end = segment.last_position
                if end.ledger_id == last.ledger_id or any(
                    mark < end and self.next_valid(mark) <= end for mark in marks
                ):
                    break
            consumed.append(segment)
        return consumed

    def entries_between(self, after: Position, upto: Position) -> int:
        """Return the number of entries after `after` (exclusive) up to `upto` (inclusive)."""
        return sum(stop - first - s.missing.between(first, stop) for s, first, stop in self._spans(after, upto))

    def messages_between(self, after: Position, upto: Position) -> int:
        """Return the number of messages in the entries after `after` (exclusive) up to `upto` (inclusive).
        `Segment.messages_between` says when the number is an estimate.
        """
        return sum(segment.messages_between(first, stop) for segment, first, stop in self._spans(after, upto))

    def bytes_between(self, after: Position, upto: Position) -> int:
        """Return the size of the entries after `after` (exclusive) up to `upto` (inclusive), in bytes. If only a part
        of a ledger is in this range, and its entry index is not in memory, its part is an estimate from the mean size
        of its entries.
        """
        return sum(segment.bytes_between(first, stop) for segment, first, stop in self._spans(after, upto))

    def before_last(self, size: int) -> Position:
        """Return the lowest position after which the topic has at most `size` bytes. `bytes_between` says when sizes
        are estimates.
        """
        for segment in reversed(self._segments):
            if segment.size > size:
                return Position(segment.ledger_id, segment.entries_before(size) - 1)
            size -= segment.size
        return EARLIEST

    def _spans(self, after: Position, upto: Position) -> Iterator[tuple[Segment, int, int]]:
        """Yield (segment, first, stop) for each ledger that has entries after `after` (exclusive) and up to `upto`
        (inclusive): its entries in this range have the ids `first` (inclusive) to `stop` (exclusive).
        """
        for at in range(bisect_left(self._ids, after.ledger_id), len(self._ids)):
            segment = self._segments[at]
            if segment.ledger_id > upto.ledger_id:
                return
            first = max(after.entry_id + 1, 0) if segment.ledger_id == after.ledger_id else 0
            stop = min(upto.entry_id + 1, segment.entries) if segment.ledger_id == upto.ledger_id else segment.entries
            if first < stop:
                yield segment, first, stop


class LedgerOwner(Protocol):
    """The part of a managed ledger that its list of ledgers, its losses and its cursors use."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> LedgerSettings: ...
    @property
    def segments(self) -> Segments: ...
    @property
    def last_position(self) -> Position: ...
    @property
    def clock(self) -> Clock: ...

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run `work` in a task named `name`, and return the task. When the managed ledger is closed, it waits for the
        end of the task.
        """
        ...

    def fenced(self, error: LedgerFencedError) -> None:
        """Stop the managed ledger permanently, because a later owner has the topic. `error` says which epoch that owner
        has.
        """
        ...

    def entries_missing(self) -> None:
        """Called after entries were found to be missing. Determine the topic's last entry again, and start to delete
        ledgers that no cursor needs any more.
        """
        ...

    def cursor_moved(self, before: Position, after: Position) -> None: ...
