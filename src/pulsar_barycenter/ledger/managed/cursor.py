"""The position of a subscription in a topic: every entry up to it is acknowledged, and some entries after it.

A durable cursor is a record in the metadata store, whose write rate is limited. Entries that were acknowledged but not
yet written when a broker crashes are delivered again; this is Pulsar's at-least-once delivery.

Source: Pulsar's `ManagedCursorImpl`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import structlog
from msgspec import UNSET

from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.managed.acked_ranges import AckedRanges
from pulsar_barycenter.ledger.managed.partial_acks import ALL, PartialAcks, bits_of
from pulsar_barycenter.ledger.managed.records import CursorRecord, RecordKeeper
from pulsar_barycenter.ledger.managed.segments import LedgerOwner
from pulsar_barycenter.ledger.managed.unacked import Stretch, unacked_stretches
from pulsar_barycenter.ledger.position import EARLIEST, Position

log = structlog.get_logger(__name__)

_RETRY_S = 1.0


class Backlog(NamedTuple):
    """The number of entries, and of messages in them, that a subscription has not acknowledged.

    `messages` may be an estimate; `Segment.messages_between` says when it is exact.
    """

    entries: int
    messages: int


class Cursor:
    """The acknowledgements of one subscription: which entries of the topic are acknowledged. Created by
    `ManagedLedger.open_cursor` (durable: stored in the metadata store) and `ManagedLedger.new_non_durable_cursor`.
    """

    __slots__ = (
        "_closed", "_dirty", "_keeper", "_last_write_s", "_mark_delete", "_owner", "_partial", "_ranges", "_timer",
        "_writing", "name", "on_mark_delete", "opened_at_ms", "partly_acked", "properties",
    )  # fmt: skip

    def __init__(
        self,
        owner: LedgerOwner,
        name: str,
        mark_delete: Position,
        *,
        keeper: RecordKeeper[CursorRecord] | None,
        properties: Mapping[str, str],
    ) -> None:
        self._owner = owner
        self.name = name
        self._mark_delete = mark_delete
        self._keeper = keeper
        self.properties: dict[str, str] = dict(properties)
        self.opened_at_ms: Final = owner.clock.now_ms()
        """When this owner of the topic opened or created the cursor, in ms since 1970."""
        self._ranges = AckedRanges()
        self._partial = PartialAcks(owner.settings.max_partly_acked_entries)
        self.partly_acked: Final[Mapping[Position, int]] = self._partial.left
        """For each partly acknowledged entry: the bit set of its other messages; see `partial_acks`."""
        self.on_mark_delete: Callable[[Position], None] | None = None
        """Called with the new mark-delete position after acknowledgements have moved it."""
        self._dirty = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._last_write_s = float("-inf")

    @property
    def is_durable(self) -> bool:
        return self._keeper is not None

    @property
    def path(self) -> str:
        """The path of the cursor's record in the metadata store; "" for a cursor that is not durable."""
        return "" if self._keeper is None else self._keeper.path

    @property
    def mark_delete(self) -> Position:
        """The mark-delete position: all entries up to it (inclusive) are acknowledged. The entry at this position may
        be deleted, or may never have existed.
        """
        return self._mark_delete

    @property
    def first_unacked(self) -> Position:
        """The position of the first entry after the mark-delete position. If there is none, the position that the next
        appended entry will get. After a restart, delivery begins here.
        """
        return self._owner.segments.next_valid(self._mark_delete)

    @property
    def is_storable(self) -> bool:
        """Whether all ranges of acknowledged entries fit into the cursor's record. If False, some acknowledged entries
        are delivered again after a restart.
        """
        return self._ranges.count <= self._owner.settings.max_persisted_ranges

    @property
    def acked_ranges(self) -> list[tuple[int, int, int]]:
        """The entries after the mark-delete position that are acknowledged, as ranges (ledger, first, last), both ends
        inclusive, in order.
        """
        return list(self._ranges)

    @property
    def backlog_entries(self) -> int:
        segments = self._owner.segments
        return segments.entries_between(self._mark_delete, self._owner.last_position) - self._ranges.entries

    @property
    def backlog(self) -> Backlog:
        """The number of entries and messages that are not acknowledged. The time to compute it is proportional to the
        number of ledgers and of ranges of acknowledged entries.
        """
        segments = self._owner.segments
        messages = segments.messages_between(self._mark_delete, self._owner.last_position)
        for ledger_id, first, last in self._ranges:
            segment = segments.find(ledger_id)
            if segment is not None:
                messages -= segment.messages_between(first, last + 1)
        return Backlog(self.backlog_entries, max(messages, 0))

    def unacked(self) -> Iterator[Stretch]:
        """Yield the entries that are not acknowledged, in order, as stretches: ranges of consecutive entries of one
        ledger.
        """
        return unacked_stretches(self._owner.segments, self._mark_delete, self._ranges, self._owner.last_position)

    def is_acked(self, position: Position) -> bool:
        return position <= self._mark_delete or self._ranges.contains(*position)

    def is_unacked_from(self, position: Position) -> bool:
        """Return True if it is certain that no message from `position` (inclusive) on is acknowledged. To be fast, this
        method does not search: it returns False if any entry after the mark-delete position is acknowledged, even one
        before `position`.
        """
        return position > self._mark_delete and not (
            self._ranges.entries or (self.partly_acked and self._partial.has_from(position))
        )

    def ack_individual(self, positions: Iterable[Position]) -> int:
        """Acknowledge entries, in any order; return how many of them were not acknowledged before. Entries that do not
        exist are ignored.
        """
        before = self._mark_delete
        ledger_id, entry_id = before
        last, segments, ranges = self._owner.last_position, self._owner.segments, self._ranges
        fresh = 0
        if self.partly_acked:
            positions = tuple(positions)
            self._partial.remove(positions)
        for position in positions:
            ledger, entry = position
            if ledger == ledger_id and entry == entry_id + 1 and not ranges.entries and position <= last:
                # Most acknowledgements come in order: the mark moves and no range is created. The entry exists unless
                # an older ledger ended before it.
                if not segments.has(position):
                    continue
                entry_id = entry
                fresh += 1
            elif (ledger, entry) > (ledger_id, entry_id) and position <= last and segments.has(position):
                fresh += ranges.add(ledger, entry)
        if fresh:
            self._move(before, self._absorb(Position(ledger_id, entry_id)))
        return fresh

    def ack_part(self, position: Position, bits: int) -> int:
        """Acknowledge the messages of the entry at `position` that are not in the bit set `bits`. Return the bit set of
        the messages that are still not acknowledged.

        If 0 is returned, all messages are acknowledged. The cursor then has no bit set for the entry any more, and the
        caller has to acknowledge the entry by `ack_individual`. If ALL (the bit set of all messages, whatever their
        number is) is returned, nothing has changed: the entry is acknowledged already, does not exist, or has fewer
        messages than `bits`, or too many entries are partly acknowledged.
        """
        if self.is_acked(position) or position > self._owner.last_position:
            return ALL
        segment = self._owner.segments.find(position.ledger_id)
        if segment is None or not self._owner.segments.has(position):
            return ALL
        messages = segment.messages_in(position.entry_id)
        if messages and (bits.bit_length() > messages or bits.bit_count() == messages):
            return ALL
        before = self.partly_acked.get(position, ALL)
        left = self._partial.acknowledge(position, bits)
        if left != before:
            self.changed()
        return left

    def ack_cumulative(self, position: Position) -> bool:
        """Acknowledge every entry up to `position` (inclusive). If the entry id of `position` is -1, this is every
        entry before its ledger. A position after the topic's last entry counts as the position of the last entry.

        Return True if the mark-delete position was before `position`. Otherwise do nothing and return False.
        """
        before = self._mark_delete
        position = Position(*min(position, self._owner.last_position))
        if position <= before:
            return False
        self._ranges.remove_through(*position)
        self._move(before, self._absorb(position))
        return True

    def _absorb(self, mark: Position) -> Position:
        """Return the new mark-delete position if all entries up to `mark` (inclusive) are acknowledged: `mark`, or the
        last entry of the acknowledged ranges that follow `mark` without a gap. These ranges are removed from the
        cursor.
        """
        while self._ranges.entries:
            ledger_id, entry_id = self._owner.segments.next_valid(mark)
            last = self._ranges.take_from(ledger_id, entry_id)
            if last is None:
                break
            mark = Position(ledger_id, last)
        return mark

    def _move(self, before: Position, mark: Position) -> None:
        self._mark_delete = mark
        self.changed()
        if mark != before:
            if self.partly_acked:
                self._partial.remove_through(mark)
            self._owner.cursor_moved(before, mark)
            if self.on_mark_delete is not None:
                self.on_mark_delete(mark)

    async def reset(self, position: Position, bits: int = ALL) -> None:
        """Make `position` the next entry to deliver, and store the cursor. All entries before `position` are
        acknowledged after that, and no entry from `position` on. But of the entry at `position`, the messages that are
        not in the bit set `bits` are acknowledged; with ALL, none is.

        If `position` is EARLIEST, delivery begins with the first entry that exists. If it is after the last entry,
        delivery begins with the next entry that is appended.

        Raises:
            LedgerFencedError: a later owner has written the cursor's record. The cursor in memory is reset
                nevertheless.
            LedgerUnavailableError: the metadata store did not accept the record. The cursor in memory is reset
                nevertheless.
        """
        ledger_id, entry_id = max(position, Position(0, 0))
        self._mark_delete = min(Position(ledger_id, max(entry_id - 1, -1)), self._owner.last_position)
        if position <= EARLIEST:
            self._mark_delete = EARLIEST
        self._ranges.clear()
        self._partial.clear()
        if bits != ALL:
            self.ack_part(position, bits)
        await self.store()

    async def move(self, position: Position, properties: Mapping[str, str]) -> None:
        """Acknowledge all entries up to `position` (inclusive), and replace the cursor's properties by `properties`.
        Both are stored in one write, and change in memory only after it. So a ledger is not deleted while the stored
        record still needs it.

        Raises:
            LedgerFencedError: a later owner has the topic.
            LedgerUnavailableError: the metadata store did not accept the record, or did not answer; nothing has changed
                in memory.
        """
        keeper = self._keeper
        assert keeper is not None, "a durable cursor"
        async with keeper.lock:
            record = CursorRecord(epoch=keeper.epoch, mark_delete=position, properties=dict(properties))
            try:
                await keeper.write(record)
            except LedgerFencedError as error:
                self._closed = True
                self._owner.fenced(error)
                raise
            except BaseException:
                self._dirty = True
                raise
            before, self._mark_delete = self._mark_delete, position
            self.properties = record.properties
            self._ranges.remove_through(*position)
            self._partial.remove_through(position)
        self._owner.cursor_moved(before, position)

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        """Replace all properties of the cursor, and store them.

        Raises:
            LedgerFencedError: a later owner has written the cursor's record. The properties in memory are replaced
                nevertheless.
            LedgerUnavailableError: the metadata store did not accept the record. The properties in memory are replaced
                nevertheless.
        """
        self.properties = dict(properties)
        await self.store()

    async def store(self) -> None:
        """Write the cursor's record now, even if it has not changed.

        Raises:
            LedgerFencedError: a later owner has written the record; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not accept the record.
        """
        self._dirty = True
        await self.flush()

    def changed(self) -> None:
        """Record that the cursor has changed, and schedule a write of its record in the background. The writes are not
        more frequent than `LedgerSettings.mark_delete_per_second` allows.
        """
        self._dirty = True
        if self._keeper is None or self._closed or self._timer is not None or self._writing is not None:
            return
        rate = self._owner.settings.mark_delete_per_second
        loop = asyncio.get_running_loop()
        due_s = self._last_write_s + 1 / rate if rate > 0 else 0.0
        self._timer = loop.call_at(max(due_s, loop.time()), self._write_soon)

    def _write_soon(self) -> None:
        self._timer = None
        self._writing = self._owner.start(self._write_in_background(), f"write-cursor-{self.name}")

    async def _write_in_background(self) -> None:
        loop = asyncio.get_running_loop()
        self._last_write_s = loop.time()
        try:
            await self.flush()
        except LedgerFencedError:
            return  # flush has fenced the managed ledger
        except LedgerError as error:
            log.warning("cursor_not_written", cursor=self.name, error=str(error))
            self._last_write_s = loop.time() + _RETRY_S
        finally:
            self._writing = None
        if self._dirty:
            self.changed()

    async def flush(self) -> None:
        """Write the cursor's record if the cursor has changed since the last write. Do nothing for a cursor that is not
        durable.

        Raises:
            LedgerFencedError: a later owner has written the record; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not accept the record.
        """
        keeper = self._keeper
        if keeper is None:
            self._dirty = False
            return
        async with keeper.lock:
            if not self._dirty:
                return
            self._dirty = False
            try:
                await keeper.write(self._record(keeper.epoch))
            except LedgerFencedError as error:
                self._closed = True
                self._owner.fenced(error)
                raise
            except BaseException:
                self._dirty = True
                raise

    def _record(self, epoch: int) -> CursorRecord:
        ranges = tuple(self._ranges)[: self._owner.settings.max_persisted_ranges]
        partial = tuple(self._partial.stored()) or UNSET
        return CursorRecord(
            epoch=epoch, mark_delete=self._mark_delete, ranges=ranges, properties=self.properties, partial=partial
        )

    def restore(self, record: CursorRecord) -> None:
        """Add the acknowledgements after the mark-delete position that the stored `record` contains. Those of entries
        that do not exist any more are ignored.
        """
        for ledger_id, first, last in record.ranges:
            segment = self._owner.segments.find(ledger_id)
            if segment is not None and (ledger_id, first) > self._mark_delete and last < segment.entries:
                self._ranges.restore(ledger_id, first, last)
        for ledger_id, entry_id, words in record.partial_acks:
            position, bits = Position(ledger_id, entry_id), bits_of(words)
            if bits and not self.is_acked(position) and self._owner.segments.has(position):
                self._partial.restore(position, bits)

    def abandon(self) -> None:
        """Never write the cursor's record again. Acknowledgements that are not stored are lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Write the cursor's record if the cursor has changed since the last write, or if the stored form does not
        contain all that the next owner, a Python or a Java broker, needs. After that, never write it again. Idempotent.

        Raises:
            LedgerFencedError: a later owner has written the record. The cursor is closed nevertheless.
            LedgerUnavailableError: the metadata store did not accept the record. The cursor is closed nevertheless.
        """
        if not self._closed:
            self.abandon()
            await self.flush()
            await self._leave()

    async def _leave(self) -> None:
        if self._keeper is not None:
            async with self._keeper.lock:
                try:
                    await self._keeper.leave()
                except LedgerFencedError as error:
                    self._owner.fenced(error)
                    raise

    async def delete(self) -> None:
        """Delete the cursor's record from the metadata store. The caller has called `abandon`, so that the record is
        not written again.
        """
        if self._keeper is not None:
            async with self._keeper.lock:
                self._dirty = False
                await self._keeper.delete()

    def check_open(self) -> None:
        if self._closed:
            raise LedgerClosedError(f"cursor {self.name} is closed")
