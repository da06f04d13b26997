"""Dispatches by key (Key_Shared): entries with one key go to one consumer at a time, in order.

The key of an entry gives its slot, and a selector gives the consumer of the slot. An entry has to wait

- while an older entry of its slot waits or has to be delivered again,
- while its consumer has no permits,
- while another consumer, which had the slot before, has unacknowledged entries of it (unless out-of-order delivery is
  allowed).

Entries after those that wait are read and sent, up to a bound, so that one slow consumer does not block the others.
Source: Pulsar's `PersistentStickyKeyDispatcherMultipleConsumers`, with the draining of slots of 4.0.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    AutoSplitSelector,
    StickyRangeSelector,
    StickySelector,
    slot_of,
    sticky_key,
)
from pulsar_barycenter.ledger.position import Entry, Position

LOOK_AHEAD_ENTRIES: Final = 2000
LOOK_AHEAD_BYTES: Final = 16 << 20


class KeySharedDispatcher(SharedDispatcher):
    __slots__ = ("_in_flight", "_replay_slots", "_waiting", "_waiting_bytes", "_waiting_entries", "is_ordered",
                 "is_sticky", "selector")  # fmt: skip

    def __init__(self, subscription: DispatchSource, *, is_sticky: bool, is_ordered: bool) -> None:
        super().__init__(subscription)
        self.is_sticky = is_sticky
        self.is_ordered = is_ordered
        self.selector: StickySelector[Consumer] = StickyRangeSelector() if is_sticky else AutoSplitSelector()
        self._waiting: dict[int, list[Entry]] = {}
        self._waiting_entries = 0
        self._waiting_bytes = 0
        # The consumer that has unacknowledged entries of a slot, and their number; at most one consumer for each slot.
        self._in_flight: dict[int, tuple[Consumer, int]] = {}
        self._replay_slots: Counter[int] = Counter()

    # ---- consumers ----

    def add(self, consumer: Consumer) -> None:
        self.selector.add(consumer)
        super().add(consumer)

    def remove(self, consumer: Consumer) -> None:
        if consumer in self.consumers:
            self.selector.remove(consumer)
        super().remove(consumer)

    def rewind(self) -> None:
        super().rewind()
        self._waiting.clear()
        self._waiting_entries = 0
        self._waiting_bytes = 0

    def close(self) -> None:
        super().close()
        self._waiting.clear()

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
        return slot

    def acked(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        super().acked(consumer, positions)
        if self._waiting:
            self.dispatch()

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

    # ---- dispatch ----

    def dispatch(self) -> None:
        if self._waiting:
            self._send_waiting()
        while not self.is_blocked and self._may_look_ahead() and any(map(self._is_available, self.consumers)):
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
        """Send each entry that was read to the consumer of its slot, or let it wait."""
        ready = self._ready
        while ready and not self.is_blocked and self._may_look_ahead():
            entry = ready.popleft()
            metadata = self._due_metadata(entry)
            if metadata is None:
                continue
            slot = slot_of(sticky_key(metadata))
            is_redelivery = entry.position in self._replay
            consumer = self._available_owner(slot)
            if consumer is None or slot in self._waiting or (slot in self._replay_slots and not is_redelivery):
                self._hold_back(slot, entry)
            else:
                self._send_entry(consumer, entry, slot)

    def _available_owner(self, slot: int) -> Consumer | None:
        """Return the consumer of the slot if it can take an entry now, else None."""
        consumer = self.selector.select(slot)
        if consumer is None or not self._is_available(consumer):
            return None
        held = self._in_flight.get(slot)
        if held is not None and held[0] is not consumer and self.is_ordered:
            return None
        return consumer

    def _hold_back(self, slot: int, entry: Entry) -> None:
        insort(self._waiting.setdefault(slot, []), entry, key=lambda waiting: waiting.position)
        self._waiting_entries += 1
        self._waiting_bytes += len(entry.data)
        self._remove_replay(entry.position)

    def _send_waiting(self) -> None:
        """Send the waiting entries that can be sent now, the oldest first, so that a busy key cannot starve others."""
        heads = [(entries[0].position, slot) for slot, entries in self._waiting.items()]
        heapify(heads)
        while heads and not self.is_blocked:
            _, slot = heappop(heads)
            entries = self._waiting[slot]
            entry = entries[0]
            if not self.subscription.cursor.is_acked(entry.position):
                consumer = self._available_owner(slot) if slot not in self._replay_slots else None
                if consumer is None:
                    continue
                self._send_entry(consumer, entry, slot)
            del entries[0]
            self._waiting_entries -= 1
            self._waiting_bytes -= len(entry.data)
            if entries:
                heappush(heads, (entries[0].position, slot))
            else:
                del self._waiting[slot]

    def _send_entry(self, consumer: Consumer, entry: Entry, slot: int) -> None:
        super()._send_entry(consumer, entry, slot)
        held = self._in_flight.get(slot)
        self._in_flight[slot] = (consumer, held[1] + 1 if held else 1)
