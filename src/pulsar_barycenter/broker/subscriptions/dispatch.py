"""The common part of all dispatchers, which read entries ahead and send them to the consumers of a subscription.

A dispatcher has the position of the next entry to read, and the entries that it has read and not sent yet. `dispatch`
sends what can be sent now and returns. It is called again after every event that may allow more: new entries, new
permits, a drained connection, an acknowledgement, a finished read. Entries at the tail of the topic come from the
ledger's cache, in the same step in which they became durable. Older entries are read by a task, one read at a time.

Source: Pulsar's `AbstractBaseDispatcher`.
"""

import asyncio
from asyncio import TimerHandle
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import structlog

from pulsar_barycenter.bounds.token_bucket import Allotment
from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.ledger.position import Entry, Position

log = structlog.get_logger(__name__)

READ_BYTES: Final = 1 << 20
"""The maximum number of bytes of one read after its first entry. With `max_read_entries` this limits the memory of a
dispatcher.
"""

READ_RETRY_DELAY_S: Final = 1.0

STORABLE_CHECK_S: Final = 0.2
"""While the acknowledgements of a subscription do not fit into its record, this is checked again after this number of
seconds.
"""
LEAST_WAIT_S: Final = 0.001

STEP_ENTRIES: Final = 1_000
"""The maximum number of entries that are read from the cache in one step; other tasks run between two steps. The
permits do not limit this, because entries that are delayed or acknowledged are not delivered and cost no permits.
"""


class Dispatcher:
    """The base class of dispatchers, which send the entries of one subscription to its consumers. This class reads the
    entries in advance; a subclass decides in `dispatch` which consumer gets an entry.
    """

    __slots__ = (
        "_generation",
        "_in_step",
        "_reading",
        "_ready",
        "_rest_timer",
        "_retry_timer",
        "_throttle_timer",
        "consumers",
        "read_position",
        "subscription",
    )

    keeps_acks = False
    """Whether the dispatcher, and not the subscription, passes acknowledgements of single entries to the cursor."""

    def __init__(self, subscription: DispatchSource) -> None:
        self.subscription = subscription
        self.consumers: list[Consumer] = []
        self.read_position = subscription.cursor.first_unacked
        self._ready: deque[Entry] = deque()
        self._reading = False
        # Grows with each rewind. The result of a read is dropped if a rewind happened since it began.
        self._generation = 0
        self._retry_timer: object | None = None
        self._throttle_timer: TimerHandle | None = None
        self._in_step = 0
        self._rest_timer: object | None = None

    # ---- what subclasses define ----

    def dispatch(self) -> None:
        """Send the entries that can be sent to consumers now."""
        raise NotImplementedError

    def add(self, consumer: Consumer) -> None:
        """Attach a consumer to this dispatcher. It gets no entries before `attached` is called for it.

        Raises:
            SubscriptionBusyError: the subscription's type allows one consumer, and one is attached.
            ConsumerAssignError: the consumer's hash ranges are not valid.
        """
        raise NotImplementedError

    def remove(self, consumers: Collection[Consumer]) -> None:
        """Detach the given consumers. The entries that they have not acknowledged are delivered again, to consumers
        that stay or attach later. Consumers of one lost connection are given in one call, so that none of them gets
        such an entry.
        """
        raise NotImplementedError

    def attached(self, consumer: Consumer) -> None:
        """Begin to send entries to `consumer`. The caller has sent the consumer's client the answer to SUBSCRIBE."""
        self.dispatch()

    def flow(self, consumer: Consumer) -> None:
        self.dispatch()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        """Deliver unacknowledged entries of `consumer` again: those at `positions`, or all if `positions` is None.

        A dispatcher of Exclusive and Failover subscriptions ignores `positions`. If `consumer` is the active consumer,
        it delivers all unacknowledged entries again, in order; otherwise it does nothing.
        """
        raise NotImplementedError

    def acked(self, consumer: Consumer, positions: Iterable[Position]) -> None:
        """Note that `consumer` acknowledged the entries at `positions`: they do not count as unacknowledged any more.
        Then send more entries if this allows it.

        The cursor has recorded the acknowledgements before this call. Only if `keeps_acks` is True has it not: then the
        dispatcher passes them to the cursor itself.
        """

    def acked_part(self, consumer: Consumer, position: Position, left: int) -> None:
        """Note that `consumer` acknowledged some messages of the batch at `position`; `left` messages of it are still
        not acknowledged. Then send more entries if this allows it. The cursor has recorded the acknowledgement before
        this call.
        """

    def acked_through(self, position: Position) -> None:
        """Note that everything up to `position` (inclusive) was acknowledged. Then send more entries if this allows it.
        The cursor has recorded the acknowledgement before this call.
        """

    def passed_over(self, position: Position) -> None:
        """Skip all entries up to `position` (inclusive), because an operator acknowledged them or they expired:
        continue with the entries after it. The cursor has recorded the acknowledgement before this call.
        """
        if self.read_position <= position:
            self.rewind()  # all that was read ahead is acknowledged
        self.dispatch()

    def rules_changed(self) -> None:
        """Apply the changed settings and throttles of the subscription from now on."""
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
            self._throttle_timer = None
        self.dispatch()

    # ---- rates ----

    def _allowance(self, most: int) -> int:
        """Return how many messages may be delivered now, at most `most`. If the result is 0, a timer calls `dispatch`
        again later, when more may be allowed.

        Subclasses call this only if the subscription `is_bounded`.
        """
        subscription = self.subscription
        if subscription.pauses and not subscription.cursor.is_storable:
            return self._wait_for(STORABLE_CHECK_S)
        allowed = subscription.allotment.messages
        if allowed <= 0:
            allowed = self._more_allowed(subscription.allotment)
        return allowed if allowed < most else most

    def _more_allowed(self, allotment: Allotment) -> int:
        """Return how many messages the throttles in `allotment` allow now. If they allow none, or a timer is already
        set because they allowed none, return 0; the timer calls `dispatch` again.
        """
        if self._throttle_timer is not None:
            return 0
        now_s = asyncio.get_running_loop().time()
        return allotment.allowance(now_s) or self._wait_for(allotment.wait_s(now_s))

    def _wait_for(self, seconds: float) -> int:
        """Set a timer that dispatches again after `seconds`; if a timer is set already, keep that one. Return the
        number of messages that are allowed now, which is 0.
        """
        if self._throttle_timer is None:
            self._throttle_timer = self.subscription.call_later(max(seconds, LEAST_WAIT_S), self._allowed_again)
        return 0

    def _allowed_again(self) -> None:
        self._throttle_timer = None
        self.dispatch()

    def close(self) -> None:
        """Remove the consumers. Nothing is sent after this, even if a read is still running."""
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
            self._throttle_timer = None
        self.consumers.clear()
        self._ready.clear()
        self._generation += 1

    # ---- reading ----

    def rewind(self) -> None:
        """Drop the entries that were read ahead, and read again from the first entry that is not acknowledged."""
        self._ready.clear()
        self._generation += 1
        self.read_position = self.subscription.cursor.first_unacked

    def _read_more_entries(self, max_messages: int) -> bool:
        """Add entries from the cache, starting at `read_position`, to `_ready`, and return True. Return False if none
        were added: the topic has no more entries, or `dispatch` is called again later, for example when a task has read
        the entries from the ledger.
        """
        if self._reading or self._rest_timer is not None:
            return False
        if self._in_step >= STEP_ENTRIES:
            self._rest_timer = self.subscription.call_later(0, self._go_on)
            return False
        ledger = self.subscription.ledger
        start = self.read_position
        if start > ledger.last_position:
            return False
        max_entries = self.subscription.settings.max_read_entries
        entries = ledger.read_cached(start, max_entries, READ_BYTES, max_messages)
        if entries is None:
            self._start_read(start, max_entries, max_messages)
            return False
        self._in_step += len(entries)
        return self._add_ready(entries)

    def _go_on(self) -> None:
        self._rest_timer = None
        self._in_step = 0
        self.dispatch()

    def _add_ready(self, entries: Sequence[Entry]) -> bool:
        if not entries:
            return False
        last = entries[-1].position
        self.read_position = Position(last.ledger_id, last.entry_id + 1)
        self._ready.extend(entries)
        return True

    def _pass_over(self, position: Position, error: str) -> None:
        """Acknowledge an entry whose metadata cannot be read, because no client can decode it; Pulsar does so, too.
        `error` says why, for the log.
        """
        log.warning("entry_unreadable", subscription=str(self.subscription), position=str(position), error=error)
        self.subscription.cursor.ack_individual((position,))

    def _start_read(self, start: Position, max_entries: int, max_messages: int | None) -> None:
        if self._retry_timer is not None:
            return
        self._reading = True
        self.subscription.start_task(self._read(start, max_entries, max_messages, self._generation), "read")

    async def _read(self, start: Position, max_entries: int, max_messages: int | None, generation: int) -> None:
        try:
            entries = await self._fetch(start, max_entries, max_messages)
        except Exception as error:  # noqa: BLE001 (a subscription must not stop forever)
            log.error("read_failed", subscription=str(self.subscription), position=str(start), error=str(error))
            self._reading = False
            if generation == self._generation:
                self._read_failed()
            self._retry_timer = self.subscription.call_later(READ_RETRY_DELAY_S, self._retry)
            return
        self._reading = False
        if generation == self._generation:
            self._read_done(start, entries)
        self.dispatch()

    async def _fetch(self, start: Position, max_entries: int, max_messages: int | None) -> Sequence[Entry]:
        return await self.subscription.ledger.read(start, max_entries, READ_BYTES, max_messages)

    def _read_done(self, start: Position, entries: Sequence[Entry]) -> None:
        self._add_ready(entries)

    def _read_failed(self) -> None:
        """Clean up after a failed read. This is not called if `rewind` was called since the read began. After
        READ_RETRY_DELAY_S seconds, `dispatch` is called and reads again.
        """

    def _retry(self) -> None:
        self._retry_timer = None
        self.dispatch()
