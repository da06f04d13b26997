"""A non-persistent topic: messages go to the consumers that are ready for them, or nowhere.

Nothing is stored, so there is nothing to acknowledge, to deliver again or to seek; a subscription ends with its
last consumer. Source: Pulsar's `NonPersistentTopic` and its dispatchers. There every message has the id 0:0;
here ids count up, so that clients who track batches by id do not mix them up.
"""

from collections.abc import Iterable, Sequence

from barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from barycenter.broker.clients.link import ClientLink
from barycenter.broker.clients.producer import Producer
from barycenter.broker.clients.rates import Rates
from barycenter.broker.errors import NotAllowedError, SubscriptionBusyError, SubscriptionNotFoundError
from barycenter.broker.ownership.serving import OwnedBundle
from barycenter.broker.subscriptions.sticky_keys import (
    AutoSplitSelector,
    StickyRangeSelector,
    StickySelector,
    active_consumer,
    slot_of,
    sticky_key,
)
from barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from barycenter.broker.topics.topic import SubscribeRequest, Topic, TopicHost, TopicState
from barycenter.ledger.position import Position
from barycenter.naming.topic import TopicName
from barycenter.protocol.frames import read_metadata


class NonPersistentSubscription:
    """A subscription of a non-persistent topic."""

    __slots__ = (
        "_active",
        "_selector",
        "_turn",
        "dropped",
        "members",
        "name",
        "partition_index",
        "rates",
        "topic",
        "type",
    )

    is_durable = False

    def __init__(self, topic: "NonPersistentTopic", name: str, request: SubscribeRequest) -> None:
        self.topic = topic
        self.name = name
        self.type = request.sub_type
        self.partition_index = topic.name.partition_index
        self.members: list[Consumer] = []
        self.rates = Rates()
        self.dropped = 0
        """Messages that no consumer was ready for."""
        self._turn = 0
        self._active: Consumer | None = None
        self._selector: StickySelector[Consumer] | None = None
        if self.type is SubscriptionType.KEY_SHARED:
            sticky = request.key_shared_mode is KeySharedMode.STICKY
            self._selector = StickyRangeSelector() if sticky else AutoSplitSelector()

    @property
    def consumers(self) -> Sequence[Consumer]:
        return self.members

    @property
    def active_consumer(self) -> Consumer | None:
        return None if self.type.is_shared else self._active

    def attach(self, link: ClientLink, consumer_id: int, options: ConsumerOptions) -> Consumer:
        """Add a consumer.

        Raises:
            SubscriptionBusyError: an exclusive consumer is connected.
            ConsumerAssignError: hash ranges that overlap.
        """
        if self.type is SubscriptionType.EXCLUSIVE and self.members:
            raise SubscriptionBusyError(self.topic.name, self.name, "Exclusive consumer is already connected")
        consumer = Consumer(link, consumer_id, self, options, self.topic.clock.now_ms())
        if self._selector is not None:
            self._selector.add(consumer)
        self.members.append(consumer)
        return consumer

    def attached(self, consumer: Consumer) -> None:
        """The client knows that `consumer` is attached."""
        if not consumer.closed and not self._choose() and self.type is SubscriptionType.FAILOVER:
            consumer.link.send_active_consumer(consumer, is_active=consumer is self._active)

    def detach(self, consumer: Consumer) -> None:
        if consumer.closed:
            return
        consumer.closed = True
        self.members.remove(consumer)
        if self._selector is not None:
            self._selector.remove(consumer)
        self._choose()
        self.topic.consumer_left(self)

    def disconnect_all(self) -> None:
        members, self.members = self.members, []
        for consumer in members:
            consumer.closed = True
            consumer.link.close_consumer(consumer)
        self._active = None

    def _choose(self) -> bool:
        chosen = active_consumer(self.members, str(self.topic.name), self.partition_index)
        if chosen is self._active:
            return False
        self._active = chosen
        if self.type is SubscriptionType.FAILOVER:
            for consumer in self.members:
                consumer.link.send_active_consumer(consumer, is_active=consumer is chosen)
        return True

    def flow(self, consumer: Consumer) -> None:
        """Permits count for what comes from now on."""

    def deliver(self, position: Position, messages: int, entry: bytes) -> None:
        """Give an entry to the consumer that is due, or drop it."""
        consumer = self._due(entry)
        if consumer is None or consumer.permits <= 0 or not consumer.link.writable:
            self.dropped += messages
            return
        consumer.link.send_message(consumer, position, 0, entry)
        consumer.sent(messages, len(entry))
        self.rates.messages += messages
        self.rates.bytes += len(entry)
        self.topic.dispatched(messages, len(entry))

    def _due(self, entry: bytes) -> Consumer | None:
        if self._selector is not None:
            return self._selector.select(slot_of(sticky_key(read_metadata(entry))))
        if self.type is not SubscriptionType.SHARED:
            return self._active
        for _ in self.members:
            self._turn = (self._turn + 1) % len(self.members)
            consumer = self.members[self._turn]
            if consumer.permits > 0 and consumer.link.writable:
                return consumer
        return None

    def ack_individual(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Nothing is kept, so nothing changes."""

    def ack_cumulative(self, consumer: Consumer, position: Position) -> bool:
        return True

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int | None) -> None:
        """Nothing is kept, so nothing comes again."""

    async def seek(self, position: Position) -> None:
        raise NotAllowedError("a non-persistent topic keeps nothing to seek")


class NonPersistentTopic(Topic):
    __slots__ = ("_next_entry_id", "subscriptions")

    def __init__(self, name: TopicName, owned: OwnedBundle, host: TopicHost) -> None:
        super().__init__(name, owned, host)
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self._next_entry_id = 0

    def publish(
        self,
        producer: Producer,
        sequence_id: int,
        highest_id: int,
        num_messages: int,
        entry: bytes,
        *,
        is_chunk: bool = False,
    ) -> None:
        position = Position(0, self._next_entry_id)
        self._next_entry_id += 1
        size = len(entry)
        self.published(producer, num_messages, size)
        producer.link.send_receipt(producer, sequence_id, highest_id, position, size)
        for subscription in self.subscriptions.values():
            subscription.deliver(position, num_messages, entry)

    async def subscribe(self, link: ClientLink, request: SubscribeRequest) -> Consumer:
        self.check_open()
        present = self.subscriptions.get(request.subscription)
        if present is not None and present.type is not request.sub_type and present.consumers:
            raise SubscriptionBusyError(
                self.name, request.subscription, f"consumers of a different type are connected ({present.type.label})"
            )
        if present is None or not present.consumers:
            present = NonPersistentSubscription(self, request.subscription, request)
        consumer = present.attach(link, request.consumer_id, request.options)
        self.subscriptions[request.subscription] = present
        return consumer

    def consumer_left(self, subscription: NonPersistentSubscription) -> None:
        self.last_active_ms = self.clock.now_ms()
        if not subscription.members and self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    def consumers(self) -> Iterable[Consumer]:
        for subscription in self.subscriptions.values():
            yield from subscription.consumers

    @property
    def subscription_count(self) -> int:
        return len(self.subscriptions)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        subscription = self.subscriptions.get(consumer.subscription.name)
        if subscription is None:
            raise SubscriptionNotFoundError(self.name, consumer.subscription.name)
        if not force and len(subscription.consumers) > 1:
            raise SubscriptionBusyError(self.name, subscription.name, "other consumers are connected")
        subscription.detach(consumer)
        subscription.disconnect_all()
        self.subscriptions.pop(subscription.name, None)

    async def delete_subscription(self, name: str, *, force: bool) -> None:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise SubscriptionNotFoundError(self.name, name)
        if subscription.consumers and not force:
            raise SubscriptionBusyError(self.name, name, "consumers are connected")
        subscription.disconnect_all()
        del self.subscriptions[name]

    async def last_message_id(self) -> tuple[Position, int]:
        raise NotAllowedError("a non-persistent topic keeps no message")

    async def position_at(self, publish_time_ms: int) -> Position:
        raise NotAllowedError("a non-persistent topic keeps nothing to seek")

    async def close(self, reason: str) -> None:
        if self.state is not TopicState.CLOSED:
            self.state = TopicState.CLOSED
            self.disconnect_all()
            self._cancel_tasks()

    def disconnect_all(self) -> None:
        self.close_producers()
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect_all()
        self.subscriptions.clear()

    async def delete(self, *, force: bool) -> None:
        self.check_deletable(force=force)
        await self.close("deleted")

    def update_rates(self, seconds: float) -> None:
        super().update_rates(seconds)
        for subscription in self.subscriptions.values():
            subscription.rates.update(seconds)
