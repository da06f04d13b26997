"""Dispatches by key (Key_Shared): entries with one key go to one consumer at a time, in order.

The key of an entry gives its slot, and a selector gives the consumer of the slot. An entry has to wait

- while an older entry of its slot waits or has to be delivered again,
- while its consumer has no permits,
- while another consumer, which had the slot before, has unacknowledged entries of it (unless out-of-order delivery is
  allowed).

Entries after those that wait are read and sent, up to a limit, so that one slow consumer does not block the others.

Each consumer has a line of slots whose oldest entry waits only for its permits, oldest first. A slot that waits for
another reason joins the line when that reason ends. So an event of one slot or consumer causes no work for the others.

Source: Pulsar's `PersistentStickyKeyDispatcherMultipleConsumers`, with the draining of slots of 4.0.
"""

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    StickyRangeSelector,
    StickySelector,
    sticky_key,
)
from pulsar_barycenter.ledger.position import Entry, Position

LOOK_AHEAD_ENTRIES: Final = 2000
LOOK_AHEAD_BYTES: Final = 16 << 20


class KeySharedDispatcher(SharedDispatcher):
    __slots__ = (
        "_has_acked_heads",
        "_in_flight",
        "_lined",
        "_lines",
        "_replay_slots",
        "_waiting",
        "_waiting_bytes",
        "_waiting_entries",
        "is_ordered",
        "is_sticky",
        "selector",
    )

    def __init__(self, subscription: DispatchSource, *, is_sticky: bool, is_ordered: bool) -> None:
        super().__init__(subscription)
        self.is_sticky = is_sticky
        self.is_ordered = is_ordered
        auto_split = subscription.settings.auto_split
        self.selector: StickySelector[Consumer] = StickyRangeSelector() if is_sticky else auto_split()
        self._waiting: dict[int, list[Entry]] = {}
        # Of each consumer, as a heap: slots with the position of their oldest entry that waits. One that is not the
        # oldest any more is passed over; `_lined` has what stands in a line.
        self._lines: dict[Consumer, list[tuple[Position, int]]] = {}
        self._lined: dict[int, Position] = {}
        self._has_acked_heads = False
        self._waiting_entries = 0
        self._waiting_bytes = 0
        # The consumer that has unacknowledged entries of a slot, and their number; at most one consumer for each slot.
        self._in_flight: dict[int, tuple[Consumer, int]] = {}
        self._replay_slots: Counter[int] = Counter()

    # ---- consumers ----

    def add(self, consumer: Consumer) -> None:
        self.selector.add(consumer)
        super().add(consumer)
        self._line_up_all()

    def remove(self, consumers: Collection[Consumer]) -> None:
        self.selector.remove(consumers)
        self._line_up_all()
        super().remove(consumers)

    def rewind(self) -> None:
        super().rewind()
        self._waiting.clear()
        self._leave_lines()
        self._waiting_entries = 0
        self._waiting_bytes = 0

    def close(self) -> None:
        super().close()
        self._waiting.clear()
        self._leave_lines()

    def _reset(self) -> None:
        self._in_flight.clear()
        self._replay_slots.clear()
        super()._reset()

    # ---- unacknowledged entries of a slot ----

    def _remove_pending(self, consumer: Consumer, position: Position) -> int | None:
        slot = super()._remove_pending(consumer, position)
        if slot is not None and (held := self._in_flight.get(slot)) is not None:
            owner, count = held
            if count > 1:
                self._in_flight[slot] = (owner, count - 1)
            else:
                del self._in_flight[slot]
                self._line_up(slot)
        return slot

    def acked(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        if self._waiting and any(position not in consumer.pending for position in positions):
            self._has_acked_heads = True  # perhaps: they may have been taken from this consumer and wait again
        super().acked(consumer, positions)
        if self._waiting:
            self.dispatch()

    def passed_over(self, position: Position) -> None:
        self._has_acked_heads = True  # perhaps: entries that wait may be acknowledged now
        super().passed_over(position)

    def _add_replay(self, position: Position, slot: int) -> None:
        if position not in self._replay:
            self._replay_slots[slot] += 1
        super()._add_replay(position, slot)

    def _remove_replay(self, position: Position) -> None:
        slot = self._replay.pop(position, None)
        if slot is not None:
            self._replay_slots[slot] -= 1
            if self._replay_slots[slot] <= 0:
                del self._replay_slots[slot]
                self._line_up(slot)

    # ---- dispatch ----

    def dispatch(self) -> None:
        if self._waiting:
            self._send_waiting()
        while not self.is_blocked and self._may_look_ahead() and any(map(self._is_available, self.consumers)):
            if self.subscription.is_bounded and not self._allowance(1):
                return
            if not (self._ready or self._read_more_entries(max(1, LOOK_AHEAD_ENTRIES - self._waiting_entries))):
                return
            self._dispatch_ready()
            # Newer entries of a slot may have waited for a redelivery that was just sent.
            if self._waiting:
                self._send_waiting()

    def _may_look_ahead(self) -> bool:
        # Redeliveries are always read: newer entries of their slots wait for them.
        return bool(self._replay) or (
            self._waiting_entries < LOOK_AHEAD_ENTRIES and self._waiting_bytes < LOOK_AHEAD_BYTES
        )

    def _dispatch_ready(self) -> None:
        """Send each entry in `_ready` to the consumer of its slot (the hash of its key). If that consumer cannot take
        it now, or an earlier entry of the slot is not sent yet, keep the entry waiting.
        """
        ready = self._ready
        while ready and not self.is_blocked and self._may_look_ahead():
            entry = ready.popleft()
            metadata = self._due_metadata(entry)
            if metadata is None:
                continue
            slot = self.selector.slot_of(sticky_key(metadata))
            is_redelivery = entry.position in self._replay
            consumer = self._available_owner(slot)
            if consumer is None or slot in self._waiting or (slot in self._replay_slots and not is_redelivery):
                self._hold_back(slot, entry)
            else:
                self._send_entry(consumer, entry, slot)
        self._count_sent()

    def _available_owner(self, slot: int) -> Consumer | None:
        """Return the consumer of the slot if it can take an entry of this slot now, else None. It cannot if, for
        example, another consumer still has unacknowledged entries of the slot and their order must be kept.
        """
        consumer = self.selector.select(slot)
        if consumer is None or not self._is_available(consumer):
            return None
        held = self._in_flight.get(slot)
        if held is not None and held[0] is not consumer and self.is_ordered:
            return None
        return consumer

    def _hold_back(self, slot: int, entry: Entry) -> None:
        entries = self._waiting.setdefault(slot, [])
        insort(entries, entry, key=lambda waiting: waiting.position)
        self._waiting_entries += 1
        self._waiting_bytes += len(entry.data)
        self._remove_replay(entry.position)
        if entries[0] is entry:
            self._line_up(slot)

    def _line_up(self, slot: int) -> None:
        """Put the oldest waiting entry of a slot into the queue of the slot's consumer. It is sent when the consumer
        can take it.
        """
        entries = self._waiting.get(slot)
        if not entries or self._lined.get(slot) == entries[0].position:
            return
        consumer = self.selector.select(slot)
        if consumer is not None:
            position = self._lined[slot] = entries[0].position
            heappush(self._lines.setdefault(consumer, []), (position, slot))

    def _line_up_all(self) -> None:
        self._leave_lines()
        for slot in self._waiting:
            self._line_up(slot)

    def _leave_lines(self) -> None:
        self._lines.clear()
        self._lined.clear()

    def _send_waiting(self) -> None:
        """Send the waiting entries whose consumer can take them now, oldest first. Entries of other consumers stay in
        their queues, so that a slow consumer does not hold up the others.
        """
        if self._has_acked_heads:
            self._drop_acked_heads()
        able = filter(self._is_available, list(self._lines))
        heads = [(self._lines[consumer][0], number, consumer) for number, consumer in enumerate(able)]
        heapify(heads)
        while heads and not self.is_blocked:
            _, number, consumer = heads[0]
            line = self._lines.get(consumer)
            if not line:
                self._lines.pop(consumer, None)
                heappop(heads)
            elif not self._is_available(consumer):
                heappop(heads)
            elif line[0] != heads[0][0]:
                heapreplace(heads, (line[0], number, consumer))
            else:
                self._send_head(*heappop(line))
        self._count_sent()

    def _send_head(self, position: Position, slot: int) -> None:
        """Send the oldest waiting entry of a slot if it is the one at `position`, its consumer can take it now, and no
        earlier entry of the slot has to be delivered again first. Drop the entry instead if it is acknowledged.
        """
        if self._lined.get(slot) == position:
            del self._lined[slot]
        entries = self._waiting.get(slot)
        if not entries or entries[0].position != position:
            return
        entry = entries[0]
        if not self.subscription.cursor.is_acked(position):
            consumer = self._available_owner(slot) if slot not in self._replay_slots else None
            if consumer is None:
                return
            self._send_entry(consumer, entry, slot)
        self._drop_head(slot, entries)

    def _drop_head(self, slot: int, entries: list[Entry]) -> None:
        self._waiting_entries -= 1
        self._waiting_bytes -= len(entries.pop(0).data)
        if entries:
            self._line_up(slot)
        else:
            del self._waiting[slot]

    def _drop_acked_heads(self) -> None:
        """Drop the waiting entries that were acknowledged since they were read. Only the oldest entries of each slot
        are checked, up to the first one that is not acknowledged. This makes room to read more entries.
        """
        self._has_acked_heads = False
        is_acked = self.subscription.cursor.is_acked
        for slot, entries in list(self._waiting.items()):
            while entries and is_acked(entries[0].position):
                self._drop_head(slot, entries)

    def _send_entry(self, consumer: Consumer, entry: Entry, slot: int) -> int:
        messages = super()._send_entry(consumer, entry, slot)
        held = self._in_flight.get(slot)
        self._in_flight[slot] = (consumer, held[1] + 1 if held else 1)
        return messages
