"""A subscription of a persistent topic: its cursor, its type and its consumers.

The connected consumers give the subscription its type. When no consumer is connected, the next one may bring another
type. The dispatcher is created for the first consumer, so that a subscription without consumers needs little memory.
Source: Pulsar's `PersistentSubscription`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import structlog

from pulsar_barycenter.bounds.token_bucket import UNLIMITED, Allotment, Throttle
from pulsar_barycenter.broker.clients.consumer import ConsumableTopic, Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.errors import SubscriptionBusyError
from pulsar_barycenter.broker.namespaces.policies import DispatchRate
from pulsar_barycenter.broker.namespaces.topic_rules import NO_DISPATCH_RATE, TopicRules
from pulsar_barycenter.broker.subscriptions.compacted_dispatch import CompactedDispatcher
from pulsar_barycenter.broker.subscriptions.dispatch import Dispatcher
from pulsar_barycenter.broker.subscriptions.key_shared_dispatch import KeySharedDispatcher
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.single_active_dispatch import SingleActiveDispatcher
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.partial_acks import ALL
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


class SubscriptionHost(ConsumableTopic, Protocol):
    """The methods of a topic that its subscriptions need; see `PersistentTopic`."""

    @property
    def ledger(self) -> ManagedLedger[Any]: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> DispatchSettings: ...
    def throttle_of(self, rate: DispatchRate) -> Throttle | None: ...
    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None: ...
    def dispatched(self, messages: int, size: int) -> None: ...
    def consumer_left(self, subscription: "PersistentSubscription") -> None: ...


class PersistentSubscription:
    __slots__ = (
        "_expired_before",
        "_held",
        "_opened",
        "_own_rate",
        "_own_throttle",
        "allotment",
        "allow_out_of_order",
        "cursor",
        "dispatcher",
        "expired_messages",
        "expired_rate",
        "is_bounded",
        "is_durable",
        "is_sought",
        "key_shared_mode",
        "last_acked_at_ms",
        "last_active_ms",
        "last_expired_at_ms",
        "last_flow_at_ms",
        "name",
        "partition_index",
        "pauses",
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
        self.allotment: Allotment = UNLIMITED
        """How much the rates of deliveries of the topic and of this subscription allow now."""
        self.pauses = False
        """Whether nothing is delivered while the cursor has more ranges of acknowledged entries than it stores."""
        self.is_bounded = False
        """Whether deliveries have to keep a rate, or wait for acknowledgements."""
        self._own_rate = NO_DISPATCH_RATE
        self._own_throttle: Throttle | None = None
        self.rates: Rates | None = None
        self.redelivered = 0
        """The number of messages that are delivered again, in this interval of the statistics."""
        self.redelivery_rate = 0.0
        """The messages a second that were delivered again in the last interval of the statistics."""
        self.expired_messages = 0
        """The number of messages that expired or were evicted since the topic was loaded."""
        self.expired_rate = 0.0
        """The messages a second that expired or were evicted in the last interval of the statistics."""
        self._expired_before = 0
        self.last_active_ms = topic.clock.now_ms()
        """When the last consumer left, or the topic was loaded."""
        self.last_flow_at_ms = 0
        self.last_acked_at_ms = 0
        self.last_expired_at_ms = 0
        # Set while a seek is under way; done when consumers may attach again.
        self._opened: asyncio.Future[None] | None = None
        self.is_sought = False
        """Whether a seek closed the consumers and none has attached again. In this time a non-durable cursor is kept,
        and the start position in the next SUBSCRIBE is ignored."""
        if topic.ledger.terminated_at is not None:
            self.watch_end()

    def __str__(self) -> str:
        return f"{self.topic.name}/{self.name}"

    # ---- what dispatchers need (DispatchSource) ----

    @property
    def ledger(self) -> ManagedLedger[Any]:
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
        """Count messages that were sent to consumers, `size` bytes in total."""
        rates = self.rates
        if rates is None:
            rates = self.rates = Rates()
        rates.messages += messages
        rates.bytes += size
        if self.is_bounded and not self.allotment.take(messages, size):
            self.return_allotment()
        self.topic.dispatched(messages, size)

    def return_allotment(self) -> None:
        """Give the messages and bytes that the throttles allowed this subscription in advance, and that it has not
        used, back to the throttles. Other subscriptions that share the throttles can use them.
        """
        self.allotment.give_back(asyncio.get_running_loop().time())

    def given_back(self, messages: int) -> None:
        """Count messages that have to be delivered again."""
        self.redelivered += messages

    def update_rates(self, seconds: float) -> None:
        """Compute the rates of this subscription over the `seconds` since the last update."""
        self.redelivery_rate = self.redelivered / seconds
        self.redelivered = 0
        self.expired_rate = (self.expired_messages - self._expired_before) / seconds
        self._expired_before = self.expired_messages
        if self.rates is not None:
            self.rates.update(seconds)

    def follow(self, rules: TopicRules, of_topic: Throttle | None, *, is_new_rate: bool = False) -> None:
        """Apply the rules of the topic from now on. `of_topic` is the throttle that all subscriptions of the topic
        share, None without a limit.

        The subscription's own throttle is replaced if its rate in `rules` changed, or if `is_new_rate` is True.
        """
        rate = rules.rate_of(self.name)
        if is_new_rate or rate != self._own_rate:
            self._own_rate = rate
            self._own_throttle = self.topic.throttle_of(self._own_rate)
        throttles = tuple(throttle for throttle in (of_topic, self._own_throttle) if throttle is not None)
        if throttles != self.allotment.throttles:
            self.return_allotment()
            self.allotment = Allotment(throttles) if throttles else UNLIMITED
        self.pauses = rules.pauses_unstorable_acks
        self.is_bounded = bool(throttles) or self.pauses
        if self.dispatcher is not None:
            self.dispatcher.rules_changed()

    # ---- consumers ----

    @property
    def consumers(self) -> Sequence[Consumer]:
        return self.dispatcher.consumers if self.dispatcher is not None else self._held

    @property
    def active_consumer(self) -> Consumer | None:
        """The consumer that gets the messages of an Exclusive or Failover subscription; None if there is none now, and
        for other types.
        """
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
        """Attach a consumer to the subscription. It gets no messages before `attached` is called for it.

        Raises:
            SubscriptionBusyError: consumers of another type or mode, or an exclusive consumer, are connected.
            ConsumerAssignError: the hash ranges are not valid, or overlap.
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
            present_kind = "that read the compacted topic" if was_compacted and not read_compacted else self.type.label
            raise SubscriptionBusyError(
                self.topic.name,
                self.name,
                f"consumers of a different type or Key_Shared mode are connected ({present_kind}): "
                "subscribe with the same type and mode, or close these consumers first",
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
        """Begin to send messages to `consumer`. The caller has sent the consumer's client the answer to SUBSCRIBE."""
        if self.dispatcher is not None and not consumer.closed:
            self.dispatcher.attached(consumer)
        self._check_end()

    def detach(self, *consumers: Consumer) -> None:
        """Remove consumers, which closed themselves or whose connection is closed. Idempotent."""
        leaving = [consumer for consumer in consumers if not consumer.closed]
        for consumer in leaving:
            consumer.closed = True
        if self._held:
            gone = set(consumers)
            self._held = [consumer for consumer in self._held if consumer not in gone]
        if not leaving:
            return
        self.last_active_ms = self.now_ms()
        if self.dispatcher is not None:
            self.dispatcher.remove(leaving)
        self.topic.consumer_left(self)

    def hold(self) -> None:
        """Stop dispatch, and ignore all requests of the consumers from now on. The consumers stay attached until
        `disconnect_all` is called.
        """
        held = list(self.consumers)
        for consumer in held:
            consumer.closed = True
        self._drop_dispatcher()
        self._held = held

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        """Close every consumer and notify its client, with the topic's next owner if `owner` is given; without it, the
        client looks up the topic.
        """
        for consumer in list(self.consumers):
            consumer.closed = True
            consumer.link.close_consumer(consumer, owner)
        self._drop_dispatcher()
        self._held = []

    def _drop_dispatcher(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.close()
            self.dispatcher = None
            self.return_allotment()

    # ---- flow and acknowledgement ----

    def flow(self, consumer: Consumer) -> None:
        self.last_flow_at_ms = self.now_ms()
        if self.dispatcher is not None:
            self.dispatcher.flow(consumer)

    def ack_individual(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Acknowledge whole entries. Positions that are acknowledged already, or at which no entry exists, are
        ignored.
        """
        self.last_acked_at_ms = self.now_ms()
        if self.dispatcher is None or not self.dispatcher.keeps_acks:
            self.cursor.ack_individual(positions)
        if self.dispatcher is not None:
            self.dispatcher.acked(consumer, positions)

    def ack_parts(self, consumer: Consumer, parts: Sequence[tuple[Position, int]]) -> None:
        """Acknowledge messages of batches. `parts` has, for each entry, its position and the bit set of its messages
        that are still not acknowledged (see `partial_acks`); with an empty bit set, the whole entry is acknowledged.

        An entry is ignored if it is acknowledged already, does not exist, or has fewer messages than the bit set.
        """
        self.last_acked_at_ms = self.now_ms()
        done = []
        for position, bits in parts:
            left = self.cursor.ack_part(position, bits)
            if not left:
                done.append(position)
            elif left != ALL and self.dispatcher is not None:
                self.dispatcher.acked_part(consumer, position, left.bit_count())
        if done:
            self.ack_individual(consumer, done)

    def ack_cumulative(self, consumer: Consumer, position: Position) -> bool:
        """Acknowledge everything up to `position` (inclusive); return False if the subscription's type does not
        allow it.
        """
        if self.type.is_shared:
            log.warning("cumulative_ack_dropped", subscription=str(self), type=self.type.label, consumer=consumer.name)
            return False
        self.last_acked_at_ms = self.now_ms()
        self.cursor.ack_cumulative(position)
        if self.dispatcher is not None:
            self.dispatcher.acked_through(position)
        return True

    def expire(self, position: Position, now_ms: int) -> int:
        """Remove everything up to `position` (inclusive) from the backlog, because it is expired. Return the number of
        removed messages, which is the difference of `Cursor.backlog` before and after; like these, it may be an
        estimate.

        Consumers stay attached. Expired entries that were delivered to them do not count as unacknowledged any more.
        """
        before = self.cursor.backlog.messages
        if not self.cursor.ack_cumulative(position):
            return 0
        if self.dispatcher is not None:
            self.dispatcher.passed_over(self.cursor.mark_delete)
        expired = max(before - self.cursor.backlog.messages, 0)
        self.expired_messages += expired
        self.last_expired_at_ms = now_ms
        return expired

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int | None) -> None:
        """Deliver unacknowledged entries of a consumer again: those at `positions`, or all if `positions` is None; see
        `Dispatcher.redeliver`.

        Messages sent after this carry `epoch` if it is given, so that the client can drop earlier ones.
        """
        if epoch is not None:
            consumer.epoch = epoch
        if self.dispatcher is not None:
            self.dispatcher.redeliver(consumer, positions)

    # ---- the end of a terminated topic ----

    def watch_end(self) -> None:
        """Notify the consumers of the end of the terminated topic, as soon as every entry is acknowledged: now, or by a
        later acknowledgement.
        """
        self.cursor.on_mark_delete = lambda _mark: self._check_end()
        self._check_end()

    def _check_end(self) -> None:
        if self.ledger.terminated_at is None or self.cursor.backlog_entries:
            return
        for consumer in self.consumers:
            if not consumer.is_at_end and not consumer.closed:
                consumer.is_at_end = True
                consumer.link.send_end_of_topic(consumer)

    # ---- moves that an operator requests ----

    async def pass_over(self, position: Position) -> None:
        """Acknowledge everything up to `position` (inclusive), deliver the entries after it, and store the cursor.

        Consumers stay attached. Entries up to `position` that were delivered to them are not delivered again.

        Raises:
            LedgerFencedError: a later owner of the topic's bundle has fenced the ledger; the cursor was not stored.
            LedgerUnavailableError: the metadata store did not answer. The entries are acknowledged in memory, and the
                cursor is stored later.
        """
        if not self.cursor.ack_cumulative(position):
            return
        if self.dispatcher is not None:
            self.dispatcher.passed_over(self.cursor.mark_delete)
        await self.cursor.store()
        log.info("subscription_passed_over", subscription=str(self), position=str(self.cursor.mark_delete))

    # ---- seek ----

    async def wait_open(self) -> None:
        """Wait until no seek is in progress."""
        while self._opened is not None:
            await asyncio.shield(self._opened)

    async def seek(self, position: Position, bits: int = ALL) -> None:
        """Move the cursor, so that the entry at `position` is the next to be delivered. Of the messages in this entry,
        only those in the bit set `bits` are delivered; ALL means all.

        Before the move, all consumers are closed. Their clients attach them again by themselves: if they stayed
        attached, the permits for the messages in their queues would be lost. If the cursor cannot be stored, the error
        of `Cursor.reset` is raised; the consumers are closed nevertheless.
        """
        await self.wait_open()
        self._opened = asyncio.get_running_loop().create_future()
        self.is_sought = True
        try:
            self.disconnect_all()
            await self.cursor.reset(position, bits)
        finally:
            self._opened.set_result(None)
            self._opened = None
        log.info("subscription_sought", subscription=str(self), position=str(position))
