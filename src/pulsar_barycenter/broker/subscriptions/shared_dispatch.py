"""Dispatches to many consumers at once (Shared).

Consumers of the best priority that have permits take turns, see `turns`. Each consumer has the list of the entries that
were delivered to it and are not acknowledged. When the consumer leaves or asks for redelivery, these entries are
delivered again, before new ones and with a redelivery count. Delayed messages wait until their delivery time. All
chunks of one message go to one consumer. Source: Pulsar's `PersistentDispatcherMultipleConsumers`.
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.bounds.token_bucket import NO_LIMIT
from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.subscriptions.dispatch import READ_BYTES, Dispatcher
from pulsar_barycenter.broker.subscriptions.parts import part_of
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.broker.subscriptions.turns import TURN_MESSAGES, ConsumerTurns
from pulsar_barycenter.ledger.position import Entry, Position
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import read_metadata
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

REPLAY_RUN_ENTRIES: Final = 100
"""The maximum number of consecutive entries in one read of entries that have to be delivered again."""

CHUNKED_MESSAGES: Final = 10_000
"""The maximum number of incomplete chunked messages for which it is recorded to which consumer their chunks go. If
there are more, the oldest of these records is removed: the other chunks of its message may go to another consumer.
"""

NO_SLOT: Final = -1


class SharedDispatcher(Dispatcher):
    __slots__ = (
        "_chunked",
        "_delay_timer",
        "_delayed",
        "_redelivery_counts",
        "_replay",
        "_replay_order",
        "_replay_run",
        "_sent_bytes",
        "_sent_messages",
        "_turns",
        "_unacked",
        "is_blocked",
    )

    def __init__(self, subscription: DispatchSource) -> None:
        super().__init__(subscription)
        self._replay_run: list[Position] = []
        self._sent_messages = self._sent_bytes = 0
        """The messages and bytes that were sent and that `_count_sent` has not passed to the subscription yet."""
        self._turns: ConsumerTurns[Consumer] = ConsumerTurns()
        self._unacked = 0
        self.is_blocked = False
        # Entries to deliver again. `_replay` has the slot by position and is authoritative. `_replay_order` is a heap
        # of positions; it may still have some that were removed from `_replay`.
        self._replay: dict[Position, int] = {}
        self._replay_order: list[Position] = []
        self._redelivery_counts: dict[Position, int] = {}
        self._delayed: list[tuple[int, Position]] = []
        self._delay_timer: Any = None
        self._chunked: Recent[int, Consumer] = Recent(CHUNKED_MESSAGES)

    @property
    def unacked(self) -> int:
        return self._unacked

    @property
    def delayed(self) -> int:
        """The number of entries that wait for their delivery time."""
        return len(self._delayed)

    # ---- consumers ----

    def add(self, consumer: Consumer) -> None:
        if not self.consumers:
            self._reset()
        self.consumers.append(consumer)
        self.consumers.sort(key=lambda c: c.priority_level)
        self._turns.add(consumer)

    def remove(self, consumers: Collection[Consumer]) -> None:
        leaving = set(consumers)
        self.consumers = [consumer for consumer in self.consumers if consumer not in leaving]
        for consumer in consumers:
            self._turns.remove(consumer)
        for message in [message for message, owner in self._chunked.items() if owner in leaving]:
            self._chunked.pop(message)
        if not self.consumers:
            self._reset()
            return
        for consumer in consumers:
            self._move_to_replay(consumer, list(consumer.pending))
        self.dispatch()

    def rules_changed(self) -> None:
        for consumer in self.consumers:
            self._unblock(consumer)
        super().rules_changed()

    def close(self) -> None:
        super().close()
        self._turns.clear()
        self._cancel_delay()

    def _reset(self) -> None:
        """Forget which entries were delivered and are not acknowledged. All entries after the mark-delete position that
        are not acknowledged are then delivered as if for the first time.
        """
        self._replay.clear()
        self._replay_order.clear()
        self._redelivery_counts.clear()
        self._delayed.clear()
        self._cancel_delay()
        self._chunked.clear()
        self._unacked = 0
        self.is_blocked = False
        self.rewind()

    # ---- redelivery and acknowledgement ----

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        held = consumer.pending
        wanted = list(held) if positions is None else [position for position in positions if position in held]
        self._move_to_replay(consumer, wanted)
        self.dispatch()

    def _move_to_replay(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        """Stop counting the entries at `positions` as delivered to `consumer`, and mark them to be delivered again, to
        any consumer. Positions that the consumer does not have, or that are acknowledged, are not delivered again.
        """
        cursor = self.subscription.cursor
        counts, unacked = self._redelivery_counts, self._unacked
        for position in positions:
            slot = self._remove_pending(consumer, position)
            if slot is not None and not cursor.is_acked(position):
                counts[position] = counts.get(position, 0) + 1
                self._add_replay(position, slot)
        self.subscription.given_back(unacked - self._unacked)
        self._unblock(consumer)

    def _add_replay(self, position: Position, slot: int) -> None:
        if position not in self._replay:
            self._replay[position] = slot
            heapq.heappush(self._replay_order, position)

    def _remove_replay(self, position: Position) -> None:
        self._replay.pop(position, None)

    def _remove_pending(self, consumer: Consumer, position: Position) -> int | None:
        """Remove an entry from the unacknowledged entries of `consumer`. Return the hash slot of its key, or None if
        the entry was not among them.
        """
        held = consumer.pending.pop(position, None)
        if held is None:
            return None
        messages, slot = held
        consumer.unacked -= messages
        self._unacked -= messages
        return slot

    def acked(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        for position in positions:
            holder = consumer if position in consumer.pending else self._consumer_of(position)
            if holder is not None:
                self._remove_pending(holder, position)
                if holder is not consumer:
                    self._unblock(holder)
            self._remove_replay(position)
            if self._redelivery_counts:
                self._redelivery_counts.pop(position, None)
        if self._unblock(consumer):
            self.dispatch()

    def passed_over(self, position: Position) -> None:
        for consumer in self.consumers:
            for held in [held for held in consumer.pending if held <= position]:
                self._remove_pending(consumer, held)
            self._unblock(consumer)
        for waiting in [waiting for waiting in self._replay if waiting <= position]:
            self._remove_replay(waiting)
        self._redelivery_counts = {p: count for p, count in self._redelivery_counts.items() if p > position}
        self._delayed = [later for later in self._delayed if later[1] > position]
        heapq.heapify(self._delayed)
        self._arm_delay()
        super().passed_over(position)

    def acked_part(self, consumer: Consumer, position: Position, left: int) -> None:
        holder = consumer if position in consumer.pending else self._consumer_of(position)
        if holder is None:
            return
        messages, slot = holder.pending[position]
        left = min(left, messages)
        holder.pending[position] = (left, slot)
        holder.unacked -= messages - left
        self._unacked -= messages - left
        if self._unblock(holder):
            self.dispatch()

    def _consumer_of(self, position: Position) -> Consumer | None:
        return next((consumer for consumer in self.consumers if position in consumer.pending), None)

    def _unblock(self, consumer: Consumer) -> bool:
        """Unblock `consumer` if the number of its unacknowledged messages has fallen to half of its limit or less. Do
        the same for the subscription, with its own number and limit. Return whether at least one of the two was
        unblocked.
        """
        unblocked = False
        limits = self.subscription.settings
        if consumer.is_blocked and _is_few(consumer.unacked, limits.max_unacked_per_consumer):
            consumer.is_blocked = False
            unblocked = True
        if self.is_blocked and _is_few(self._unacked, limits.max_unacked_per_subscription):
            self.is_blocked = False
            unblocked = True
        return unblocked

    # ---- dispatch ----

    def dispatch(self) -> None:
        allowed = NO_LIMIT
        while not self.is_blocked and not (self.subscription.is_bounded and not (allowed := self._allowance(NO_LIMIT))):
            consumer = self._turns.next(self._is_available)
            if consumer is None or not (self._ready or self._read_more_entries(consumer.permits)):
                return
            self._deliver(consumer, allowed)

    def _is_available(self, consumer: Consumer) -> bool:
        if consumer.permits <= 0 or consumer.is_blocked:
            return False
        if not consumer.link.writable:
            consumer.link.wake_when_writable(self)
            return False
        return True

    def _deliver(self, consumer: Consumer, limit: int) -> None:
        """Send entries in `_ready` to a consumer, until they have at least `limit` messages together, the consumer has
        no permits left, or it or the subscription is blocked. If there are other consumers, stop after TURN_MESSAGES
        messages at the latest. An entry is sent whole, so the last one may exceed these numbers.
        """
        ready = self._ready
        if len(self.consumers) > 1 and limit > TURN_MESSAGES:
            limit = TURN_MESSAGES
        taken = 0
        while ready and taken < limit and consumer.permits > 0 and not self.is_blocked and not consumer.is_blocked:
            entry = ready.popleft()
            metadata = self._due_metadata(entry)
            if metadata is None:
                continue
            receiver = self._chunk_owner(metadata, consumer)
            messages = self._send_entry(receiver, entry, NO_SLOT)
            if receiver is consumer:
                taken += messages
            else:
                self._turns.took(receiver, messages)
        if taken:
            self._turns.took(consumer, taken)
        self._count_sent()

    def _count_sent(self) -> None:
        """Report the messages and bytes sent since the last call to the subscription, which counts them for its stats
        and rates.
        """
        if self._sent_messages:
            self.subscription.sent(self._sent_messages, self._sent_bytes)
            self._sent_messages = self._sent_bytes = 0

    def _due_metadata(self, entry: Entry) -> MessageMetadata | None:
        """Return the metadata of an entry that has to be delivered now.

        Return None if the entry is acknowledged already, cannot be read (it is acknowledged then), or must not be
        delivered yet (it is delayed then).
        """
        position = entry.position
        if self.subscription.cursor.is_acked(position):
            self._remove_replay(position)
            return None
        try:
            metadata = read_metadata(entry.data)
        except MalformedFrameError as error:
            self._pass_over(position, str(error))
            return None
        if metadata.deliver_at_time > self.subscription.now_ms() and self.subscription.settings.delays:
            self._delay(metadata.deliver_at_time, position)
            return None
        return metadata

    def _chunk_owner(self, metadata: MessageMetadata, consumer: Consumer) -> Consumer:
        if metadata.num_chunks_from_msg <= 1:
            return consumer
        message = hash(metadata.uuid)  # the client may send an uuid of any length: do not keep it
        owner = self._chunked.get(message)
        if metadata.chunk_id >= metadata.num_chunks_from_msg - 1:
            self._chunked.pop(message)
        elif owner is None:
            self._chunked.put(message, consumer)
        return consumer if owner is None else owner

    def _send_entry(self, consumer: Consumer, entry: Entry, slot: int) -> int:
        """Send an entry to `consumer`, and return how many of its messages count as unacknowledged. `slot` is the hash
        slot of the entry's key, or NO_SLOT. The caller must call `_count_sent` after a series of these calls.
        """
        position, data, messages, _ = entry
        count = 0
        ack_set: Sequence[int] = ()
        if (partly_acked := self.subscription.cursor.partly_acked) and position in partly_acked:
            messages, ack_set = part_of(messages, partly_acked[position])
        if self._replay:
            self._remove_replay(position)
        if self._redelivery_counts:
            count = self._redelivery_counts.get(position, 0)
        consumer.pending[position] = (messages, slot)
        consumer.unacked += messages
        self._unacked += messages
        consumer.link.send_message(consumer, position, count, data, ack_set)
        consumer.sent(messages, len(data))
        self._sent_messages += messages
        self._sent_bytes += len(data)
        limits = self.subscription.settings
        if 0 < limits.max_unacked_per_consumer < consumer.unacked:
            consumer.is_blocked = True
        if 0 < limits.max_unacked_per_subscription < self._unacked:
            self.is_blocked = True
        return messages

    # ---- reading: redeliveries before new entries ----

    def _read_more_entries(self, max_messages: int) -> bool:
        if self._reading or not self._replay_order:
            return super()._read_more_entries(max_messages)
        run = self._next_replay_run()
        if not run:
            return super()._read_more_entries(max_messages)
        # Without a limit of messages: redeliveries do not depend on the permits of one consumer.
        entries = self.subscription.ledger.read_cached(run[0], len(run), READ_BYTES, None)
        if entries is None:
            self._replay_run = run
            self._start_read(run[0], len(run), None)
            return False
        self._add_ready_run(run, entries)
        return bool(self._ready) or self._read_more_entries(max_messages)

    def _next_replay_run(self) -> list[Position]:
        """Take from the positions to deliver again the lowest one and those that follow it without a gap, at most
        REPLAY_RUN_ENTRIES. Return them; the list is empty if nothing has to be delivered again.
        """
        order, members = self._replay_order, self._replay
        run: list[Position] = []
        while order and len(run) < REPLAY_RUN_ENTRIES:
            position = order[0]
            if position in members:
                if run and position != (run[-1].ledger_id, run[-1].entry_id + 1):
                    break
                run.append(position)
            heapq.heappop(order)
        return run

    def _add_ready_run(self, run: Sequence[Position], entries: Sequence[Entry]) -> None:
        """Add the entries that a read for the positions in `run` returned to `_ready`. Positions after the last
        returned entry are read by the next read.
        """
        members = self._replay
        self._ready.extend(entry for entry in entries if entry.position in members)
        read_to = entries[-1].position if entries else run[-1]
        found = {entry.position for entry in entries}
        for position in run:
            if position > read_to:
                heapq.heappush(self._replay_order, position)
            elif position not in found:
                self._remove_replay(position)  # trimmed with its ledger, so it was acknowledged

    def _read_done(self, start: Position, entries: Sequence[Entry]) -> None:
        run, self._replay_run = self._replay_run, []
        if run:
            self._add_ready_run(run, entries)
        else:
            self._add_ready(entries)

    def _read_failed(self) -> None:
        run, self._replay_run = self._replay_run, []
        for position in run:
            heapq.heappush(self._replay_order, position)

    def rewind(self) -> None:
        super().rewind()
        self._replay_run = []

    # ---- delayed delivery ----

    def _delay(self, deliver_at_ms: int, position: Position) -> None:
        self._remove_replay(position)
        heapq.heappush(self._delayed, (deliver_at_ms, position))
        if self._delayed[0][1] == position:
            self._arm_delay()

    def _arm_delay(self) -> None:
        self._cancel_delay()
        if self._delayed:
            # The timer fires at least once a day: the event loop limits the delay of a timer.
            wait_s = min(max(0.0, (self._delayed[0][0] - self.subscription.now_ms()) / 1000), 86_400.0)
            self._delay_timer = self.subscription.call_later(wait_s, self._on_delay_timer)

    def _cancel_delay(self) -> None:
        if self._delay_timer is not None:
            self._delay_timer.cancel()
            self._delay_timer = None

    def _on_delay_timer(self) -> None:
        self._delay_timer = None
        now_ms = self.subscription.now_ms()
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, position = heapq.heappop(self._delayed)
            self._add_replay(position, NO_SLOT)
        self._arm_delay()
        self.dispatch()


def _is_few(unacked: int, limit: int) -> bool:
    """Return whether deliveries may resume: at most half of `limit` messages are unacknowledged. A `limit` of 0 means
    no limit.
    """
    return limit <= 0 or unacked <= limit // 2
