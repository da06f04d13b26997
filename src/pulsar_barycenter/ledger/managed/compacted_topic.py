"""The compacted form of a topic: a separate ledger with the entries that compaction kept, at their original positions.

The cursor `__compaction` names that ledger in its property `CompactedTopicLedger`. Its mark-delete position is the
*horizon*: the compacted ledger represents all entries of the topic up to there. Both are in one record, so one write
makes readers use a new compacted ledger (puts it *in force*). The order of the other steps makes them safe:

1. The id of a compacted ledger is written to the topic's record before its file is created, and its length before it is
put in force.
2. Then it is put in force. The topic's own ledgers are trimmed after that.
3. The previous compacted ledger is moved to the ledgers to be deleted, and is deleted.

An owner that opens the topic after a crash deletes every listed compacted ledger that is not in force: before the
second step that is the new one, after it the previous one. Another package, the broker, decides which messages are kept
and when compaction runs.

Source: Pulsar's `CompactedTopicImpl`, whose ledgers have the same content in another format.
"""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, Self

import structlog

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.ledger.errors import ForeignTopicError, LedgerClosedError, LedgerError
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.entry_reads import EntryReads
from pulsar_barycenter.ledger.managed.ledger_list import LedgerList
from pulsar_barycenter.ledger.managed.losses import Losses
from pulsar_barycenter.ledger.managed.records import LedgerRecord
from pulsar_barycenter.ledger.managed.segments import Segment, Segments, record_of, segment_of
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from pulsar_barycenter.ledger.storage import LedgerStorage, LedgerWriter
from pulsar_barycenter.ledger.tail_cache import TailWindow
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

COMPACTION_CURSOR: Final = "__compaction"
LEDGER_PROPERTY: Final = "CompactedTopicLedger"

_HEAD: Final = struct.Struct(">qqH")
"""The start of an entry of a compacted ledger: its position in the topic (ledger id, entry id), and the number of words
that say which messages of it were kept.
"""
_WORD: Final = 8
_MAX_CACHED_STARTS: Final = 64
_MAX_CACHED_POSITIONS: Final = 1024
_MAX_IN_FLIGHT_BYTES: Final = 4 << 20


def compacted_ledger_id(properties: Mapping[str, str]) -> int | None:
    """Return the id of the topic's compacted ledger from the properties of the compaction cursor; None if they contain
    no id.
    """
    text = properties.get(LEDGER_PROPERTY, "")
    return int(text) if text.isdecimal() else None


class CompactedOwner(Protocol):
    """The part of a managed ledger that its `CompactedTopic` uses."""

    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def cursors(self) -> Mapping[str, Cursor]: ...
    def check_open(self) -> None: ...
    async def open_cursor(self, name: str, initial: Position) -> Cursor: ...
    async def delete_cursor(self, name: str) -> None: ...


class KeptEntry(Entry):
    """An entry that compaction kept, with the position that it has in the topic.

    `kept` says which messages of a batch were kept, as 64-bit words: bit 0 of the first word is the first message, and
    a set bit means kept. An empty tuple means that the whole entry was kept.
    """

    kept: tuple[int, ...] = ()

    @property
    def last_kept(self) -> int | None:
        """The index, from 0 on, of the last message of the batch that was kept; None if the whole entry was kept."""
        return (len(self.kept) - 1) * 64 + self.kept[-1].bit_length() - 1 if self.kept else None


class CompactedLedger:
    """A compacted ledger that is open for reading. It has those entries of the topic up to `horizon` (inclusive) that
    compaction kept, in the topic's order.
    """

    __slots__ = ("_places", "_reads", "_segments", "_starts", "_unused", "_users", "horizon", "segment")

    def __init__(self, segment: Segment, horizon: Position, storage: LedgerStorage, losses: Losses) -> None:
        self.segment = segment
        self.horizon = horizon
        self._segments = Segments()
        self._segments.append(segment)
        self._reads = EntryReads(storage, self._segments, TailWindow(storage.caches.tail), losses, _content)
        # Two caches: where readers that continue will start, and positions that a bisection has read.
        self._starts: Recent[Position, int] = Recent(_MAX_CACHED_STARTS)
        self._places: Recent[int, tuple[int, Position]] = Recent(_MAX_CACHED_POSITIONS)
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()

    def __enter__(self) -> Self:
        """Until the end of the `with` statement, the ledger counts as used: `wait_unused` waits, and the ledger is not
        deleted.
        """
        self._users += 1
        self._unused.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._unused.set()

    async def wait_unused(self) -> None:
        """Wait until no `with` statement of this object is running, so that the ledger can be deleted."""
        await self._unused.wait()

    async def read(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None = None
    ) -> list[KeptEntry]:
        """Return the kept entries whose positions in the topic are `start` or later, in order; an empty list if there
        is none.

        Otherwise at least one entry is returned. The result ends after `max_entries` entries, before the entry with
        which it would exceed `max_bytes` in total, or after the entry with which it reaches `max_messages` messages
        (None: no limit).

        Raises:
            LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: the first entry cannot be read, and the
                settings do not allow to skip it.
        """
        first = await self._find(start)
        found = await self._reads.read(Position(self.segment.ledger_id, first), max_entries, max_bytes, max_messages)
        if not found:
            return []
        entries = [_original(entry) for entry in found]
        last = entries[-1].position
        self._starts.put(Position(last.ledger_id, last.entry_id + 1), found[-1].position.entry_id + 1)
        return entries

    async def _find(self, start: Position) -> int:
        """Convert the position `start` in the topic to an entry id in the compacted ledger: the id of the first kept
        entry whose position in the topic is `start` or later. If there is none, return the id after the last entry.
        """
        if start.ledger_id < 0:
            return 0
        known = self._starts.get(start)
        if known is not None:
            return known
        first, stop = 0, self.segment.entries
        while first < stop:
            middle = (first + stop) // 2
            place = await self._place(middle)
            if place is None or place[1] >= start:
                stop = middle
            else:
                first = place[0] + 1
        return first

    async def _place(self, entry_id: int) -> tuple[int, Position] | None:
        """Read the entry `entry_id` of the compacted ledger, or the next entry that can be read. Return the id of the
        entry that was read and its position in the topic; None if neither this entry nor a later one can be read.
        """
        place = self._places.get(entry_id)
        if place is None:
            found = await self._reads.read(Position(self.segment.ledger_id, entry_id), 1, 0, None)
            if not found:
                return None
            place = found[0].position.entry_id, _original(found[0]).position
            self._places.put(entry_id, place)
        return place

    async def last_entry(self) -> KeptEntry | None:
        """Return the last entry that compaction kept; None if it kept none."""
        last = self._segments.last_position
        found = await self._reads.read(last, 1, 0, None) if last.entry_id >= 0 else []
        return _original(found[0]) if found else None

    async def find_by_publish_time(self, time_ms: int) -> Position | None:
        """Return the position in the topic of the first kept entry that was published at `time_ms` (ms since 1970) or
        later. None if all kept entries are older.
        """
        found = await self._reads.find_by_publish_time(time_ms, EARLIEST)
        place = None if found is None else await self._place(found.entry_id)
        return None if place is None else place[1]


def _content(stored: bytes) -> bytes:
    """Return the data that compaction kept of a topic's entry. `stored` is an entry of a compacted ledger: a head and
    this data.
    """
    words = _HEAD.unpack_from(stored)[2]
    return stored[_HEAD.size + words * _WORD :]


def _original(entry: Entry) -> KeptEntry:
    """Convert an entry of a compacted ledger to the topic's entry: with the data that compaction kept, and with the
    position that it has in the topic.
    """
    ledger_id, entry_id, words = _HEAD.unpack_from(entry.data)
    begin = _HEAD.size + words * _WORD
    found = KeptEntry(Position(ledger_id, entry_id), entry.data[begin:], entry.num_messages, entry.publish_time_ms)
    if words:
        found.kept = struct.unpack_from(f">{words}Q", entry.data, _HEAD.size)
    return found


class CompactedLedgerWriter:
    """Writes a compacted ledger. The caller adds kept entries in the order of their positions in the topic, then calls
    `finish`.
    """

    __slots__ = ("_changed", "_durable", "_error", "_in_flight", "_sizes", "entries", "segment", "size", "writer")

    writer: LedgerWriter

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.entries = 0
        self.size = 0
        self._durable = 0
        self._in_flight = 0
        self._sizes: list[int] = []
        self._error: LedgerError | None = None
        self._changed = asyncio.Event()

    def group_done(self, last_id: int, error: LedgerError | None) -> None:
        """Called by the storage after each group of entries. If `error` is None, the entries up to the id `last_id`
        (inclusive) are durable. Otherwise an entry could not be written, and the next `add` or `finish` raises `error`.
        """
        if error is not None:
            self._error = error
        else:
            done = last_id + 1 - self._durable
            self._in_flight -= sum(self._sizes[:done])
            del self._sizes[:done]
            self._durable = last_id + 1
        self._changed.set()

    async def add(self, entry: Entry, data: bytes, kept: Sequence[int] = ()) -> None:
        """Append `data`, the part of `entry` that compaction keeps. `kept` says which messages of a batch this part
        contains (see `KeptEntry`); it is empty if the whole entry is kept. Waits first while more than 4 MiB of earlier
        entries are not durable.

        Raises:
            LedgerError: this entry or an earlier one could not be written.
        """
        while self._in_flight > _MAX_IN_FLIGHT_BYTES and self._error is None:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
        words = b"".join(word.to_bytes(_WORD, "big") for word in kept)
        stored = _HEAD.pack(*entry.position, len(kept)) + words + data
        self.writer.append(stored, entry.num_messages, entry.publish_time_ms)
        self.entries += 1
        self.size += len(stored)
        self._in_flight += len(stored)
        self._sizes.append(len(stored))

    async def finish(self) -> None:
        """Wait until all added entries are durable, and close the ledger. After that, `segment` can be read.

        Raises:
            LedgerError: an entry could not be written.
        """
        await self.writer.close()
        if self._error is not None:
            raise self._error
        segment = self.segment
        segment.reader = self.writer.reader
        segment.grow(self.writer.index, self.entries)
        segment.closed = True


class CompactedTopic:
    """The compacted ledger of the topic whose managed ledger is `owner`, if it has one, and the compaction that is
    running, if there is one. `refusal` says why this broker compacts no topic; "" if it does.
    """

    __slots__ = ("_ledgers", "_losses", "_owner", "_stopped", "_storage", "_store", "_task", "current", "refusal")

    def __init__(
        self,
        owner: CompactedOwner,
        store: MetadataStore,
        storage: LedgerStorage,
        ledgers: LedgerList,
        losses: Losses,
        *,
        refusal: str,
    ) -> None:
        self._owner = owner
        self._store = store
        self._storage = storage
        self._ledgers = ledgers
        self._losses = losses
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self.current: CompactedLedger | None = None
        """The compacted ledger in force; None if the topic is not compacted."""
        self.refusal = refusal
        """Why this broker compacts no topic; "" if it does."""

    # ---- reading ----

    @property
    def horizon(self) -> Position:
        """The position of the last entry of the topic that compaction has processed: the compacted ledger represents
        all entries up to this position (inclusive). EARLIEST if the topic is not compacted.
        """
        return EARLIEST if self.current is None else self.current.horizon

    async def read(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None = None
    ) -> tuple[list[KeptEntry], Position]:
        """Return the kept entries from `start` (inclusive) on, and the position from which the caller reads next. At
        most `max_entries` entries, `max_bytes` bytes and about `max_messages` messages are returned, as by
        `CompactedLedger.read`.

        If the list is empty, compaction kept no entry from `start` on. The returned position is then after the horizon
        (or is `start`, if that is later), and the caller reads from it in the topic's own ledgers.
        """
        while (current := self.current) is not None and start <= current.horizon:
            with current:
                found = await current.read(start, max_entries, max_bytes, max_messages)
            if found:
                last = found[-1].position
                return found, Position(last.ledger_id, last.entry_id + 1)
            start = Position(current.horizon.ledger_id, current.horizon.entry_id + 1)
        return [], start

    async def last_entry(self) -> KeptEntry | None:
        """Return the last entry that compaction kept; None if it kept no entry, or if the topic is not compacted."""
        if self.current is None:
            return None
        with self.current as current:
            return await current.last_entry()

    async def find_by_publish_time(self, time_ms: int) -> Position | None:
        """Return the position in the topic of the first kept entry that was published at `time_ms` (ms since 1970) or
        later. None if all kept entries are older, or if the topic is not compacted.
        """
        if self.current is None:
            return None
        with self.current as current:
            return await current.find_by_publish_time(time_ms)

    # ---- taking over ----

    def load(self) -> None:
        """Make the compacted ledger that the compaction cursor names the current one. Take all other compacted ledgers
        off the list of ledgers in memory, so that the next trim deletes them. The managed ledger calls this once, after
        it has loaded the cursors.
        """
        cursor = self._owner.cursors.get(COMPACTION_CURSOR)
        ledger_id = None if cursor is None else compacted_ledger_id(cursor.properties)
        for record in list(self._ledgers.compacted):
            if record.ledger_id == ledger_id and record.closed and cursor is not None:
                self.current = CompactedLedger(segment_of(record), cursor.mark_delete, self._storage, self._losses)
            else:
                self._ledgers.drop_compacted(record.ledger_id)
        if ledger_id is not None and self.current is None:
            log.error("compacted_ledger_unknown", topic=self._owner.name, ledger=ledger_id)

    # ---- compaction ----

    async def open_cursor(self) -> Cursor:
        """Return the compaction cursor, which is created if it does not exist. Its mark-delete position is the horizon,
        so entries that are not compacted yet are not trimmed.

        Raises:
            ForeignTopicError: `refusal` is not "": this broker compacts no topic.
            LedgerFencedError, LedgerClosedError, LedgerUnavailableError: the cursor cannot be stored.
        """
        if self.refusal:
            raise ForeignTopicError(f"{self._owner.name}: {self.refusal}")
        return await self._owner.open_cursor(COMPACTION_CURSOR, EARLIEST)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def start(self, work: Coroutine[Any, Any, None], done: Callable[[asyncio.Task[None]], None]) -> None:
        """Run `work`, a compaction, in a task. `done` is called with the task when it has ended. The task is cancelled
        when the topic is closed. The caller has checked that no other compaction of the topic is running.

        Raises:
            LedgerClosedError: the topic is closed or closing; `work` does not run, and `done` is not called.
        """
        assert self._task is None, "one compaction at a time"
        if self._stopped:
            work.close()
            raise LedgerClosedError(
                f"{self._owner.name}: the managed ledger is closed, so the compaction was not started"
            )
        self._task = asyncio.get_running_loop().create_task(work, name=f"compaction-{self._owner.name}")

        def ended(task: asyncio.Task[None]) -> None:
            self._task = None
            done(task)

        self._task.add_done_callback(ended)

    async def stop(self) -> None:
        """Cancel the running compaction, if there is one, and wait for its end. From now on `start` raises
        LedgerClosedError.
        """
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        await self.ended()

    async def ended(self) -> None:
        """Wait until the running compaction, if there is one, has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def begin(self) -> CompactedLedgerWriter:
        """Create a compacted ledger, and list it in the topic's record. When it is complete, the caller calls
        `put_in_force`; if it is not needed, `give_up`, which deletes it.

        Raises:
            LedgerFencedError, LedgerFullError, LedgerUnavailableError: no ledger can be used; if its file was created,
                it is deleted later.
        """
        self._owner.check_open()
        ledger_id = await self._ledgers.new_id(self._store)
        begun = CompactedLedgerWriter(Segment(ledger_id, created_at_ms=self._owner.clock.now_ms()))
        self._ledgers.compacted.append(record_of(begun.segment))
        try:
            await self._ledgers.save()
            begun.writer = await self._storage.create(ledger_id, epoch=self._owner.epoch, on_durable=begun.group_done)
        except BaseException:
            # The file may exist: it is deleted as soon as the record can be written again.
            self._ledgers.drop_compacted(ledger_id)
            raise
        return begun

    async def put_in_force(self, written: CompactedLedgerWriter, horizon: Position) -> None:
        """Make readers of the topic use the ledger `written`, which is complete and represents all entries up to
        `horizon` (inclusive). Then wait until nothing reads the previous compacted ledger, and delete it.

        If an error is raised, readers continue with the previous compacted ledger. The metadata store may name either
        ledger, and both stay until the next compaction, or until the topic is opened again.

        Raises:
            LedgerFencedError: a later owner has the topic.
            LedgerUnavailableError: the metadata store did not answer.
        """
        segment, former = written.segment, self.current
        self._replace(record_of(segment))
        await self._ledgers.save()
        cursor = await self.open_cursor()
        await cursor.move(horizon, {LEDGER_PROPERTY: str(segment.ledger_id)})
        self.current = CompactedLedger(segment, horizon, self._storage, self._losses)
        self._storage.caches.readers.add(segment)
        if former is not None:
            await former.wait_unused()
        self._forget(former)
        for record in list(self._ledgers.compacted):
            if record.ledger_id != segment.ledger_id:
                self._ledgers.drop_compacted(record.ledger_id)
        await self._delete_dropped()

    def _replace(self, record: LedgerRecord) -> None:
        listed = self._ledgers.compacted
        listed[[other.ledger_id for other in listed].index(record.ledger_id)] = record

    async def _delete_dropped(self) -> None:
        """Store the list of ledgers without the compacted ledgers that were taken off it in memory, then delete them.

        If the metadata store does not accept the list now, this is logged, and the next trim deletes the ledgers.
        """
        try:
            await self._ledgers.save()
            await self._ledgers.delete_dropped()
        except LedgerError as error:
            log.warning("compacted_ledger_not_deleted", topic=self._owner.name, error=str(error))

    def _forget(self, ledger: CompactedLedger | None) -> None:
        if ledger is not None:
            self._storage.caches.readers.remove(ledger.segment)
            self._losses.dropped(ledger.segment)

    async def give_up(self, begun: CompactedLedgerWriter) -> None:
        """Delete a compacted ledger that `begin` created and that readers will not use, for example because it is not
        complete.
        """
        await begun.writer.close()
        self._ledgers.drop_compacted(begun.segment.ledger_id)
        await self._delete_dropped()

    async def forget(self) -> None:
        """Delete the compacted ledger and the compaction cursor. After that, the topic is as if it had never been
        compacted. The caller has checked that no compaction is running.

        Raises:
            LedgerFencedError: a later owner has the topic.
            LedgerUnavailableError: the metadata store did not answer; the compacted ledger is not deleted.
        """
        assert self._task is None, "no compaction is under way"
        await self._owner.delete_cursor(COMPACTION_CURSOR)
        former, self.current = self.current, None
        if former is not None:
            await former.wait_unused()
        self._forget(former)
        self.drop_all()
        await self._delete_dropped()

    # ---- closing ----

    def drop_all(self) -> None:
        """Take all compacted ledgers off the topic's list of ledgers in memory. `LedgerList.save` then stores the list,
        and `LedgerList.delete_dropped` deletes the ledgers.
        """
        for record in list(self._ledgers.compacted):
            self._ledgers.drop_compacted(record.ledger_id)

    def release(self) -> None:
        if self.current is not None:
            self._storage.caches.readers.remove(self.current.segment)
