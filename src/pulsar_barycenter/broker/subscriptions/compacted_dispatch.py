"""Dispatches a compacted topic to one active consumer: the compacted entries up to the horizon, then all entries.

A position up to the compaction horizon is read from the compacted ledger. This may become true for any position at any
time: the next compaction moves the horizon past the position of a consumer.

**Acknowledgement.** Entries that compaction removed are never delivered, so no consumer acknowledges them. They may
also be trimmed, and then the cursor does not know their positions. So this dispatcher records the order of delivery:
the mark-delete position moves to the last delivered entry up to which every delivered entry is acknowledged, and skips
the removed entries in between. Acknowledged entries after a gap are known only in memory: they are delivered again
after a restart. Source: Pulsar's `CompactedTopicUtils`. There the cursor keeps a gap for each removed entry.
"""

from collections import deque
from collections.abc import Iterable, Sequence

import structlog

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.subscriptions.dispatch import READ_BYTES
from pulsar_barycenter.broker.subscriptions.parts import part_of
from pulsar_barycenter.broker.subscriptions.single_active_dispatch import SingleActiveDispatcher
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.ledger.managed.compacted_topic import KeptEntry
from pulsar_barycenter.ledger.managed.partial_acks import bits_of
from pulsar_barycenter.ledger.position import Entry, Position

log = structlog.get_logger(__name__)


class CompactedDispatcher(SingleActiveDispatcher):
    """The dispatcher of Exclusive and Failover subscriptions whose consumers read a topic compacted.

    All attributes are about entries after the mark-delete position. `_delivered` has, in order, those that were
    delivered since the last rewind. `_unacked` has those that were delivered at any time and are not acknowledged;
    `_acked` has those that were delivered at any time and are acknowledged.
    """

    __slots__ = ("_acked", "_delivered", "_next", "_unacked")

    keeps_acks = True

    def __init__(self, subscription: DispatchSource, *, is_failover: bool) -> None:
        super().__init__(subscription, is_failover=is_failover)
        self._delivered: deque[Position] = deque()
        self._unacked: set[Position] = set()
        self._acked: set[Position] = set()
        self._next: Position | None = None
        self.read_position = self._after_mark()

    def _after_mark(self) -> Position:
        # Not the first entry of the topic: the compacted ledger may have entries that the topic has trimmed.
        mark = self.subscription.cursor.mark_delete
        return Position(mark.ledger_id, mark.entry_id + 1)

    # ---- reading ----

    def rewind(self) -> None:
        super().rewind()
        mark = self.subscription.cursor.mark_delete
        self.read_position = self._after_mark()
        self._delivered.clear()
        self._unacked = {position for position in self._unacked if position > mark}
        self._acked = {position for position in self._acked if position > mark}

    def _read_more_entries(self, max_messages: int) -> bool:
        start = self.read_position
        if start > self.subscription.ledger.compacted.horizon:
            return super()._read_more_entries(max_messages)
        if not self._reading:
            self._start_read(start, self.subscription.settings.max_read_entries, max_messages)
        return False

    async def _fetch(self, start: Position, max_entries: int, max_messages: int | None) -> Sequence[Entry]:
        ledger = self.subscription.ledger
        kept, self._next = await ledger.compacted.read(start, max_entries, READ_BYTES, max_messages)
        if kept or self._next > start:
            return kept
        return await ledger.read(start, max_entries, READ_BYTES, max_messages)

    def _read_done(self, start: Position, entries: Sequence[Entry]) -> None:
        super()._read_done(start, entries)
        if not entries and self._next is not None and self._next > start:
            # The compacted ledger has no more entries. When all delivered ones are acknowledged, the mark-delete
            # position may move up to the horizon.
            self.read_position = self._next
            passed = Position(self._next.ledger_id, self._next.entry_id - 1)
            if passed > self.subscription.cursor.mark_delete:
                self._delivered.append(passed)
                self._unacked.discard(passed)
                self._acked.add(passed)
                self._settle()

    def _pass_over(self, position: Position, error: str) -> None:
        log.warning("entry_unreadable", subscription=str(self.subscription), position=str(position), error=error)

    # ---- delivery ----

    def _deliver_run(self, consumer: Consumer, permits: int) -> bool:
        return False  # each entry has to be recorded

    def _deliver(self, consumer: Consumer, permits: int) -> None:
        subscription, ready = self.subscription, self._ready
        partly_acked = subscription.cursor.partly_acked
        messages = size = 0
        while ready and messages < permits:
            entry = ready.popleft()
            position, data, num_messages, _ = entry
            self._delivered.append(position)
            if position in self._acked or subscription.cursor.is_acked(position):
                self._acked.add(position)
                continue
            self._unacked.add(position)
            # C++ clients return removed messages of a batch as empty messages without a key, unless an ack set
            # excludes them. With an ack set they never acknowledge the rest of the batch. Readers do not need to.
            ack_set: Sequence[int] = (
                entry.kept if isinstance(entry, KeptEntry) and not subscription.cursor.is_durable else ()
            )
            if partly_acked and position in partly_acked:
                left = partly_acked[position]
                num_messages, ack_set = part_of(num_messages, (left & bits_of(ack_set)) or left)
            consumer.link.send_message(consumer, position, 0, data, ack_set)
            messages += num_messages
            size += len(data)
        consumer.sent(messages, size)
        subscription.sent(messages, size)
        self._settle()

    # ---- acknowledgement ----

    def acked(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        for position in positions:
            if position in self._unacked:
                self._unacked.remove(position)
                self._acked.add(position)
        self._settle()

    def acked_through(self, position: Position) -> None:
        self._settle()

    def passed_over(self, position: Position) -> None:
        super().passed_over(position)
        self._settle()

    def _settle(self) -> None:
        """Move the mark-delete position to the last entry for which this holds: it and all entries delivered before it
        are acknowledged. If there is no such entry, do nothing.
        """
        mark = reached = self.subscription.cursor.mark_delete
        delivered = self._delivered
        while delivered and (delivered[0] <= mark or delivered[0] in self._acked):
            reached = max(reached, delivered[0])
            position = delivered.popleft()
            self._acked.discard(position)
            self._unacked.discard(position)
        if reached > mark:
            self.subscription.cursor.ack_cumulative(reached)
