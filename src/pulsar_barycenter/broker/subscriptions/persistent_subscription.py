"""A subscription of a persistent topic: its cursor, its type, and who consumes it.

The type is that of the consumers connected; when none is, the next one decides. The dispatcher is made with the
first consumer, so that a subscription without any costs little.
Source: Pulsar's `PersistentSubscription`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import structlog

from pulsar_barycenter.broker.clients.consumer import ConsumableTopic, Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.errors import SubscriptionBusyError
from pulsar_barycenter.broker.subscriptions.compacted_dispatch import CompactedDispatcher
from pulsar_barycenter.broker.subscriptions.dispatch import Dispatcher
from pulsar_barycenter.broker.subscriptions.key_shared_dispatch import KeySharedDispatcher
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.single_active_dispatch import SingleActiveDispatcher
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


class SubscriptionHost(ConsumableTopic, Protocol):
    """The topic of a subscription, as the subscription uses it; see `PersistentTopic`."""

    @property
    def ledger(self) -> ManagedLedger: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> DispatchSettings: ...
    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None: ...
    def dispatched(self, messages: int, size: int) -> None: ...
    def consumer_left(self, subscription: "PersistentSubscription") -> None: ...


class PersistentSubscription:
    __slots__ = (
        "_held",
        "_opened",
        "allow_out_of_order",
        "cursor",
        "dispatcher",
        "is_durable",
        "is_sought",
        "key_shared_mode",
        "last_acked_at_ms",
        "last_flow_at_ms",
        "name",
        "partition_index",
        "rates",
        "redelivered",
        "redelivery_rate",
        "topic",
        "type",
    )

    def __init__(self, topic: SubscriptionHost, name: str, cursor: Cursor, *, is_durable: bool) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.is_durable = is_durable
        self.partition_index = topic.name.partition_index
        self.type = SubscriptionType.EXCLUSIVE
        self.key_shared_mode = KeySharedMode.AUTO_SPLIT
        self.allow_out_of_order = False
        self.dispatcher: Dispatcher | None = None
        self._held: list[Consumer] = []
        self.rates: Rates | None = None
        self.redelivered = 0
        """Messages in this interval that consumers had and gave back, or lost."""
        self.redelivery_rate = 0.0
        """The same, messages a second, in the last interval."""
        self.last_flow_at_ms = 0
        self.last_acked_at_ms = 0
        # Set while a seek or deletion is under way; done when consumers may attach again.
        self._opened: asyncio.Future[None] | None = None
        self.is_sought = False
        """A reader was sought: its cursor waits for it to attach again, whatever start it brings."""

    def __str__(self) -> str:
        return f"{self.topic.name}/{self.name}"

    # ---- what dispatchers ask (DispatchSource) ----

    @property
    def ledger(self) -> ManagedLedger:
        return self.topic.ledger

    @property
    def topic_name(self) -> TopicName:
        return self.topic.name

    @property
    def settings(self) -> DispatchSettings:
        return self.topic.settings

    def now_ms(self) -> int:
        return self.topic.clock.now_ms()

    def start_task(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self.topic.start_task(work, f"{what}:{self}")

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, callback)

    def sent(self, messages: int, size: int) -> None:
        """Account for messages given to consumers, `size` bytes together."""
        rates = self.rates
        if rates is None:
            rates = self.rates = Rates()
        rates.messages += messages
        rates.bytes += size
        self.topic.dispatched(messages, size)

    def given_back(self, messages: int) -> None:
        """Account for messages that are to be delivered again."""
        self.redelivered += messages

    def update_rates(self, seconds: float) -> None:
        """Set the rates to those of the `seconds` since the last update."""
        self.redelivery_rate = self.redelivered / seconds
        self.redelivered = 0
        if self.rates is not None:
            self.rates.update(seconds)

    # ---- consumers ----

    @property
    def consumers(self) -> Sequence[Consumer]:
        return self.dispatcher.consumers if self.dispatcher is not None else self._held

    @property
    def active_consumer(self) -> Consumer | None:
        """Who gets the messages of an Exclusive or Failover subscription."""
        return self.dispatcher.active if isinstance(self.dispatcher, SingleActiveDispatcher) else None

    def attach(
        self,
        link: ClientLink,
        consumer_id: int,
        sub_type: SubscriptionType,
        options: ConsumerOptions,
        key_shared_mode: KeySharedMode = KeySharedMode.AUTO_SPLIT,
        *,
        allow_out_of_order: bool = False,
    ) -> Consumer:
        """Add a consumer; it gets nothing before `Dispatcher.attached` is called for it.

        Raises:
            SubscriptionBusyError: consumers of another type or mode are connected, or an exclusive one is.
            ConsumerAssignError: hash ranges that overlap.
        """
        dispatcher = self._dispatcher_for(sub_type, key_shared_mode, allow_out_of_order, options.read_compacted)
        consumer = Consumer(link, consumer_id, self, options, self.now_ms())
        dispatcher.add(consumer)
        self.is_sought = False
        return consumer

    def _dispatcher_for(
        self, sub_type: SubscriptionType, mode: KeySharedMode, allow_out_of_order: bool, read_compacted: bool
    ) -> Dispatcher:
        wanted = (sub_type, mode, allow_out_of_order) if sub_type is SubscriptionType.KEY_SHARED else (sub_type,)
        present = (self.type, self.key_shared_mode, self.allow_out_of_order)[: len(wanted)]
        was_compacted = isinstance(self.dispatcher, CompactedDispatcher)
        if self.dispatcher is not None and wanted == present and read_compacted == was_compacted:
            return self.dispatcher
        if self.consumers:
            how = "that read the compacted topic" if was_compacted and not read_compacted else self.type.label
            raise SubscriptionBusyError(
                self.topic.name, self.name, f"consumers of a different type are connected ({how})"
            )
        if self.dispatcher is not None:
            self.dispatcher.close()
        self.type, self.key_shared_mode, self.allow_out_of_order = sub_type, mode, allow_out_of_order
        if sub_type is SubscriptionType.SHARED:
            self.dispatcher = SharedDispatcher(self)
        elif sub_type is SubscriptionType.KEY_SHARED:
            is_sticky = mode is KeySharedMode.STICKY
            self.dispatcher = KeySharedDispatcher(self, is_sticky=is_sticky, is_ordered=not allow_out_of_order)
        else:
            kind = CompactedDispatcher if read_compacted else SingleActiveDispatcher
            self.dispatcher = kind(self, is_failover=sub_type is SubscriptionType.FAILOVER)
        return self.dispatcher

    def attached(self, consumer: Consumer) -> None:
        """The client knows that `consumer` is attached: messages may follow."""
        if self.dispatcher is not None and not consumer.closed:
            self.dispatcher.attached(consumer)

    def detach(self, *consumers: Consumer) -> None:
        """Remove consumers, on their own wish or because their connection is gone; idempotent."""
        leaving = [consumer for consumer in consumers if not consumer.closed]
        for consumer in leaving:
            consumer.closed = True
        if self._held:
            gone = set(consumers)
            self._held = [consumer for consumer in self._held if consumer not in gone]
        if not leaving:
            return
        if self.dispatcher is not None:
            self.dispatcher.remove(leaving)
        self.topic.consumer_left(self)

    def hold(self) -> None:
        """Dispatch nothing more; the consumers stay until `disconnect_all`, and what they ask for is ignored."""
        held = list(self.consumers)
        for consumer in held:
            consumer.closed = True
        self._drop_dispatcher()
        self._held = held

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        """Close every consumer and tell the clients, also of the next owner if it is known."""
        for consumer in list(self.consumers):
            consumer.closed = True
            consumer.link.close_consumer(consumer, owner)
        self._drop_dispatcher()
        self._held = []

    def _drop_dispatcher(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.close()
            self.dispatcher = None

    # ---- flow and acknowledgement ----

    def flow(self, consumer: Consumer) -> None:
        self.last_flow_at_ms = self.now_ms()
        if self.dispatcher is not None:
            self.dispatcher.flow(consumer)

    def ack_individual(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Acknowledge whole entries; those acknowledged before, or unknown, change nothing."""
        self.last_acked_at_ms = self.now_ms()
        if self.dispatcher is None or not self.dispatcher.keeps_acks:
            self.cursor.ack_individual(positions)
        if self.dispatcher is not None:
            self.dispatcher.acked(consumer, positions)

    def ack_cumulative(self, consumer: Consumer, position: Position) -> bool:
        """Acknowledge everything up to and including `position`; False where the type does not allow it."""
        if self.type.is_shared:
            log.warning("cumulative_ack_dropped", subscription=str(self), type=self.type.label, consumer=consumer.name)
            return False
        self.last_acked_at_ms = self.now_ms()
        self.cursor.ack_cumulative(position)
        if self.dispatcher is not None:
            self.dispatcher.acked_through(position)
        return True

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int | None) -> None:
        """Deliver unacknowledged entries again; `epoch` marks what comes after this request."""
        if epoch is not None:
            consumer.epoch = epoch
        if self.dispatcher is not None:
            self.dispatcher.redeliver(consumer, positions)

    # ---- seek ----

    async def wait_open(self) -> None:
        """Wait while a seek is under way."""
        while self._opened is not None:
            await asyncio.shield(self._opened)

    async def seek(self, position: Position) -> None:
        """Deliver `position` next, to consumers that attach again: those connected are closed.

        Without closing them the permits of what they have queued would be lost (reference 3.8).
        """
        await self.wait_open()
        self._opened = asyncio.get_running_loop().create_future()
        self.is_sought = True
        try:
            self.disconnect_all()
            await self.cursor.reset(position)
        finally:
            self._opened.set_result(None)
            self._opened = None
        log.info("subscription_sought", subscription=str(self), position=str(position))
