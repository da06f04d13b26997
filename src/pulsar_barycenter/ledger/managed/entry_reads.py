"""Reads a topic's entries: from the tail cache if they are in it, otherwise from the ledgers."""

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.managed.losses import LOSSES, Losses
from pulsar_barycenter.ledger.managed.segments import Segment, Segments
from pulsar_barycenter.ledger.managed.unacked import Stretch
from pulsar_barycenter.ledger.position import Entry, EntryInfo, EntryRun, Position, entries
from pulsar_barycenter.ledger.reader import LedgerReader
from pulsar_barycenter.ledger.storage import Content, LedgerStorage, whole_entry
from pulsar_barycenter.ledger.tail_cache import TailWindow


class EntryReads:
    """Reads the entries of a topic, or of one compacted ledger, for `ManagedLedger` and `CompactedLedger`.
    `ManagedLedger` documents the methods of the same names. `content` returns the part of a stored entry that is the
    topic's entry.
    """

    __slots__ = ("_content", "_losses", "_segments", "_storage", "_tail", "entries_read", "rate")

    def __init__(
        self,
        storage: LedgerStorage,
        segments: Segments,
        tail: TailWindow,
        losses: Losses,
        content: Content = whole_entry,
    ) -> None:
        self._content = content
        self._losses = losses
        self._storage = storage
        self._segments = segments
        self._tail = tail
        self.entries_read = 0
        """The number of entries read in this interval of the statistics, from memory or files. An entry
        counts each time it is read.
        """
        self.rate = 0.0
        """The number of entries read per second in the last interval of the statistics."""

    def end_interval(self, seconds: float) -> None:
        self.rate = self.entries_read / seconds
        self.entries_read = 0

    def read_cached(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None
    ) -> list[Entry] | None:
        cached = self._cached(start, max_entries, max_bytes, max_messages)
        if cached is None:
            return [] if self._segments.at_or_after(start) is None else None
        ledger_id, first, data, index = cached
        stop = first + len(data)
        return entries(ledger_id, first, data, index.message_counts(first, stop), index.publish_times(first, stop))

    def cached_run(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None
    ) -> EntryRun | None:
        cached = self._cached(start, max_entries, max_bytes, max_messages)
        if cached is None:
            return None
        ledger_id, first, data, index = cached
        stop = first + len(data)
        return EntryRun(ledger_id, first, data, index.messages_between(first, stop), index.bytes_between(first, stop))

    def _cached(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None
    ) -> tuple[int, int, list[bytes], EntryIndex] | None:
        """Return the entries, from `start` (inclusive) on and within the limits, that are in memory: ledger id, id of
        the first entry, the data of at least one entry, and the index of the ledger's entries. None if the first entry
        is not in memory, or if there is none.
        """
        found = self._segments.at_or_after(start)
        if found is None:
            return None
        segment, first = found
        chunk = self._tail.find(segment.ledger_id, first)
        if chunk is None:
            return None
        chunk_first, data, index = chunk
        stop = index.stop_within(first, min(first + max_entries, chunk_first + len(data)), max_bytes, max_messages)
        self.entries_read += stop - first
        return segment.ledger_id, first, data[first - chunk_first : stop - chunk_first], index

    async def read(self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None) -> list[Entry]:
        while True:
            cached = self.read_cached(start, max_entries, max_bytes, max_messages)
            if cached is not None:
                return cached
            found = self._segments.at_or_after(start)
            if found is None:
                return []
            segment, first = found
            try:
                reader = await self._reader(segment)
                if not self._segments.has(Position(segment.ledger_id, first)):
                    continue  # it is known to be missing since the ledger was opened
                stop = segment.missing.next_after(first, min(first + max_entries, segment.entries))
                found_entries = await reader.read_stored(first, stop - 1, max_bytes, max_messages)
            except LOSSES as error:
                if segment in self._segments and not self._losses.skips(segment, error, segment.reader):
                    raise
                continue  # skipped, or trimmed meanwhile
            self.entries_read += len(found_entries.data)
            return entries(segment.ledger_id, first, *found_entries)

    async def _reader(self, segment: Segment) -> LedgerReader:
        readers = self._storage.caches.readers
        if segment.reader is not None:
            readers.touch(segment)
            return segment.reader
        self._losses.check_readable(segment)
        reader = await self._storage.open(segment.ledger_id, entry_count=segment.entries, content=self._content)
        self._losses.opened(segment, reader)
        if segment in self._segments:
            readers.open(segment, reader)
        return reader

    async def info(self, position: Position) -> EntryInfo | None:
        if not self._segments.has(position):
            return None
        segment = self._segments.find(position.ledger_id)
        assert segment is not None, "the position is in a segment"
        return await (await self._reader(segment)).info(position.entry_id)

    async def messages_in(self, stretch: Stretch) -> int:
        segment, first, stop = stretch
        try:
            await self._reader(segment)
            return segment.messages_between(first, stop)
        except LOSSES:
            if segment in self._segments:
                raise
            return 0

    async def find_by_publish_time(self, time_ms: int, start: Position) -> Position | None:
        for segment in list(self._segments):
            if segment.ledger_id < start.ledger_id:
                continue
            if segment.entries and segment.max_publish_time_ms >= time_ms:
                try:
                    reader = await self._reader(segment)
                    first = max(start.entry_id, 0) if segment.ledger_id == start.ledger_id else 0
                    entry_id = await reader.first_published_at_or_after(time_ms, first)
                except LOSSES as error:
                    if segment in self._segments and not self._losses.skips(segment, error, segment.reader):
                        raise
                    continue
                if entry_id is not None and entry_id < segment.entries:
                    return Position(segment.ledger_id, entry_id)
        return None
