"""Dispatches to one active consumer (Exclusive and Failover).

A new active consumer starts at the first entry that is not acknowledged. With Failover it waits `failover_delay_s`
first, if the former active consumer is still connected: acknowledgements of the former one may still arrive. Clients
are notified of a new active consumer after the same time: the client for Go ignores a notification that arrives right
after the answer to its SUBSCRIBE.
Source: Pulsar's `PersistentDispatcherSingleActiveConsumer`.
"""

from collections import deque
from collections.abc import Collection, Sequence

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.errors import SubscriptionBusyError
from pulsar_barycenter.broker.subscriptions.dispatch import READ_BYTES, Dispatcher
from pulsar_barycenter.broker.subscriptions.failover_choice import FailoverChoice
from pulsar_barycenter.broker.subscriptions.parts import part_of
from pulsar_barycenter.broker.subscriptions.source import DispatchSource
from pulsar_barycenter.ledger.position import Entry, Position
from pulsar_barycenter.protocol.frames import is_readable


class SingleActiveDispatcher(Dispatcher):
    """The dispatcher of Exclusive and Failover subscriptions. One consumer, the active one, gets all entries in order.
    The other consumers of a Failover subscription stand by.
    """

    __slots__ = ("_announcing", "_choice", "_paused", "active", "is_failover")

    def __init__(self, subscription: DispatchSource, *, is_failover: bool) -> None:
        super().__init__(subscription)
        self.is_failover = is_failover
        self.active: Consumer | None = None
        self._choice: FailoverChoice[Consumer] = FailoverChoice(
            str(subscription.topic_name), subscription.partition_index
        )
        # Between the choice of a new active consumer and its first message, while acks of the old one may arrive.
        self._paused: object | None = None
        # Between the choice of a new active consumer and its announcement to the clients.
        self._announcing: object | None = None

    def add(self, consumer: Consumer) -> None:
        if self.consumers and not self.is_failover:
            raise SubscriptionBusyError(
                self.subscription.topic_name, self.subscription.name, "Exclusive consumer is already connected"
            )
        self.consumers.append(consumer)
        self._choice.add(consumer)

    def attached(self, consumer: Consumer) -> None:
        if not self._pick_active_consumer() and self.is_failover:
            consumer.link.send_active_consumer(consumer, is_active=consumer is self.active)
        self.dispatch()

    def remove(self, consumers: Collection[Consumer]) -> None:
        leaving = set(consumers)
        self.consumers = [consumer for consumer in self.consumers if consumer not in leaving]
        for consumer in consumers:
            self._choice.remove(consumer)
        self._pick_active_consumer()
        self.dispatch()

    def close(self) -> None:
        super().close()
        self._choice.clear()
        self.active = None

    def _pick_active_consumer(self) -> bool:
        """Choose the active consumer by `FailoverChoice`, and return whether it is another one than before. If it is,
        and the type is Failover, notify all consumers `failover_delay_s` seconds later.
        """
        previous = self.active
        chosen = self._choice.active
        if chosen is previous:
            return False
        self.active = chosen
        self.rewind()
        if self.is_failover:
            self._announce()
            # A consumer that left has no acknowledgements under way; one that became standby may have.
            if previous is not None and previous in self.consumers:
                self._pause()
        return True

    def _announce(self) -> None:
        delay_s = self.subscription.settings.failover_delay_s
        if delay_s <= 0:
            self._tell_active()
        elif self._announcing is None:
            self._announcing = self.subscription.call_later(delay_s, self._tell_active)

    def _tell_active(self) -> None:
        self._announcing = None
        for consumer in self.consumers:
            consumer.link.send_active_consumer(consumer, is_active=consumer is self.active)

    def _pause(self) -> None:
        delay_s = self.subscription.settings.failover_delay_s
        if delay_s > 0 and self._paused is None:
            self._paused = self.subscription.call_later(delay_s, self._resume)

    def _resume(self) -> None:
        self._paused = None
        self.rewind()
        self.dispatch()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None) -> None:
        # `positions` is ignored: to keep the order, everything that is not acknowledged is sent again.
        if consumer is self.active:
            self.rewind()
            self.dispatch()

    def dispatch(self) -> None:
        while self._paused is None and (consumer := self.active) is not None and consumer.permits > 0:
            link = consumer.link
            if not link.writable:
                link.wake_when_writable(self)
                return
            permits = consumer.permits
            if self.subscription.is_bounded and not (permits := self._allowance(permits)):
                return
            if not self._ready:
                if self._deliver_run(consumer, permits):
                    continue
                if not self._read_more_entries(permits):
                    return
            self._deliver(consumer, permits)

    def _read_done(self, start: Position, entries: Sequence[Entry]) -> None:
        # Entries in the ledger's cache were checked when they were published. Older entries possibly were not.
        readable = []
        for entry in entries:
            if is_readable(entry.data):
                readable.append(entry)
            else:
                self._pass_over(entry.position, "metadata lacks a required field or does not parse")
        super()._read_done(start, entries)
        if len(readable) < len(entries):
            self._ready = deque(readable)

    def _deliver_run(self, consumer: Consumer, permits: int) -> bool:
        """Send entries from the cache as one run of consecutive entries, until they have `permits` messages together or
        no more are cached, and return True.

        Return False and send nothing if the next entry is not cached, or if an entry after the read position is
        possibly acknowledged, so that each entry has to be checked.
        """
        subscription = self.subscription
        start = self.read_position
        if self._reading or not subscription.cursor.is_unacked_from(start):
            return False
        run = subscription.ledger.cached_run(start, subscription.settings.max_read_entries, READ_BYTES, permits)
        if run is None:
            return False
        self.read_position = Position(run.ledger_id, run.first + len(run.data))
        consumer.link.send_messages(consumer, run)
        consumer.sent(run.num_messages, run.size)
        subscription.sent(run.num_messages, run.size)
        return True

    def _deliver(self, consumer: Consumer, permits: int) -> None:
        ready = self._ready
        is_acked = self.subscription.cursor.is_acked
        partly_acked = self.subscription.cursor.partly_acked
        send = consumer.link.send_message
        messages = size = 0
        while ready and messages < permits:
            position, data, num_messages, _ = ready.popleft()
            if is_acked(position):
                continue
            if partly_acked and position in partly_acked:
                num_messages, ack_set = part_of(num_messages, partly_acked[position])
                send(consumer, position, 0, data, ack_set)
            else:
                send(consumer, position, 0, data)
            messages += num_messages
            size += len(data)
        consumer.sent(messages, size)
        self.subscription.sent(messages, size)
