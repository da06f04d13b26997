"""A topic that stores nothing: it passes each message to its subscriptions at once.

A subscription is removed when its last consumer leaves.
Source: Pulsar's `NonPersistentTopic`. There every message has the id 0:0. Here the entry id counts up, so that a client
that tracks batches by id can distinguish them.
"""

from collections.abc import Iterable, Sequence

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import Sent
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.errors import NotAllowedError, SubscriptionBusyError, SubscriptionNotFoundError
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.subscriptions.non_persistent_subscription import NonPersistentSubscription
from pulsar_barycenter.broker.topics.limits import require_consumer_room, require_subscription_room
from pulsar_barycenter.broker.topics.states import TopicEvent, TopicState
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic, TopicHost
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.naming.topic import TopicName


class NonPersistentTopic(Topic):
    __slots__ = ("_next_entry_id", "subscriptions")

    def __init__(self, name: TopicName, owned: OwnedBundle, host: TopicHost) -> None:
        super().__init__(name, owned, host)
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self._next_entry_id = 0

    def accept(self, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool) -> None:
        for send, (entry, _, _) in zip(sent, entries, strict=True):
            producer, sequence_id, highest_id, num_messages, size, _ = send
            position = Position(0, self._next_entry_id)
            self._next_entry_id += 1
            self.published(producer, num_messages, size)
            producer.link.send_receipts(producer, (sequence_id,), (highest_id,), position, size)
            for subscription in self.subscriptions.values():
                subscription.deliver(position, num_messages, entry)

    async def subscribe(self, link: ClientLink, request: SubscribeRequest) -> Consumer:
        if request.options.read_compacted:
            raise NotAllowedError("readCompacted only valid on persistent topics")
        self.require_subscribable(link, request)
        limits = await self.host.policies.limits(self.name)
        self.check_open()
        self.check_subscription_open(request.subscription)
        present = self.subscriptions.get(request.subscription)
        if present is not None and present.type is not request.sub_type and present.consumers:
            raise SubscriptionBusyError(
                self.name,
                request.subscription,
                f"consumers of a different type are connected ({present.type.label}): "
                "subscribe with the same type, or close these consumers first",
            )
        attached = () if present is None else present.consumers
        require_consumer_room(self, request.subscription, attached, limits)
        if present is None:
            require_subscription_room(self.name, self.subscriptions, limits)
        if present is None or not present.consumers:
            present = NonPersistentSubscription(
                self, request.subscription, request.sub_type, request.key_shared_mode, request.properties or {}
            )
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

    def check_subscription_deletable(self, name: str, *, force: bool) -> None:
        subscription = self.subscriptions.get(name)
        if subscription is None:
            raise SubscriptionNotFoundError(self.name, name)
        if subscription.consumers and not force:
            raise SubscriptionBusyError(self.name, name, "consumers are connected")

    async def delete_subscription(self, name: str, *, force: bool) -> None:
        self.check_subscription_deletable(name, force=force)
        self.subscriptions.pop(name).disconnect_all()

    async def last_message_id(self, *, compacted: bool = False) -> tuple[Position, int]:
        raise NotAllowedError("a non-persistent topic stores no messages, so it has no last message id")

    async def position_at(self, publish_time_ms: int, *, compacted: bool = False) -> Position:
        raise NotAllowedError("a non-persistent topic stores no messages, so seek is not possible")

    async def close(self, reason: str, owner: NextOwner | None = None) -> None:
        if self.state is not TopicState.CLOSED:
            self.begin_closing()
            self.disconnect_all(owner)
            await self.release()
            self.on(TopicEvent.END)

    def hold_consumers(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.hold()

    async def release(self) -> None:
        self._cancel_tasks()

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        self.close_producers(owner)
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect_all(owner)
        self.subscriptions.clear()

    async def delete(self, *, force: bool, only_unused: bool = False) -> None:
        self.check_deletable(force=force, only_unused=only_unused)
        await self.close("deleted")

    def update_rates(self, seconds: float) -> None:
        super().update_rates(seconds)
        for subscription in self.subscriptions.values():
            subscription.rates.update(seconds)
