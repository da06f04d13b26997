"""A subscription of a non-persistent topic: each message goes to a consumer that is ready for it, or is dropped.

Nothing is stored. So acknowledgements and redelivery requests have no effect, and seek is refused.
Source: Pulsar's `NonPersistentSubscription` and its dispatchers.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pulsar_barycenter.broker.clients.consumer import ConsumableTopic, Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.errors import NotAllowedError, SubscriptionBusyError
from pulsar_barycenter.broker.subscriptions.failover_choice import FailoverChoice
from pulsar_barycenter.broker.subscriptions.source import DispatchSettings
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    StickyRangeSelector,
    StickySelector,
    sticky_key,
)
from pulsar_barycenter.broker.subscriptions.turns import ConsumerTurns
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.ledger.managed.partial_acks import ALL
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.protocol.frames import read_metadata


class NonPersistentSubscriptionHost(ConsumableTopic, Protocol):
    """The methods of a topic that its subscriptions need; see `NonPersistentTopic`."""

    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> DispatchSettings: ...
    def dispatched(self, messages: int, size: int) -> None: ...
    def consumer_left(self, subscription: "NonPersistentSubscription") -> None: ...


class NonPersistentSubscription:
    __slots__ = (
        "_active",
        "_choice",
        "_selector",
        "_turns",
        "dropped",
        "members",
        "name",
        "partition_index",
        "properties",
        "rates",
        "topic",
        "type",
    )

    is_durable = False

    def __init__(
        self,
        topic: NonPersistentSubscriptionHost,
        name: str,
        sub_type: SubscriptionType,
        mode: KeySharedMode,
        properties: Mapping[str, str],
    ) -> None:
        self.topic = topic
        self.name = name
        self.type = sub_type
        self.partition_index = topic.name.partition_index
        self.members: list[Consumer] = []
        self.properties = dict(properties)
        self.rates = Rates()
        self.dropped = 0
        """The number of messages that were dropped, because no consumer was ready."""
        self._turns: ConsumerTurns[Consumer] = ConsumerTurns()
        self._active: Consumer | None = None
        self._choice: FailoverChoice[Consumer] = FailoverChoice(str(topic.name), topic.name.partition_index)
        self._selector: StickySelector[Consumer] | None = None
        if self.type is SubscriptionType.KEY_SHARED:
            self._selector = StickyRangeSelector() if mode is KeySharedMode.STICKY else topic.settings.auto_split()

    @property
    def consumers(self) -> Sequence[Consumer]:
        return self.members

    @property
    def active_consumer(self) -> Consumer | None:
        return None if self.type.is_shared else self._active

    def attach(self, link: ClientLink, consumer_id: int, options: ConsumerOptions) -> Consumer:
        """Attach a consumer to the subscription.

        Raises:
            SubscriptionBusyError: the subscription is exclusive, and a consumer is connected.
            ConsumerAssignError: the hash ranges are not valid, or overlap.
        """
        if self.type is SubscriptionType.EXCLUSIVE and self.members:
            raise SubscriptionBusyError(self.topic.name, self.name, "Exclusive consumer is already connected")
        consumer = Consumer(link, consumer_id, self, options, self.topic.clock.now_ms())
        if self._selector is not None:
            self._selector.add(consumer)
        self.members.append(consumer)
        self._turns.add(consumer)
        if not self.type.is_shared:
            self._choice.add(consumer)
        return consumer

    def attached(self, consumer: Consumer) -> None:
        """Send the clients of a Failover subscription which consumer is active, after `consumer` attached. The caller
        has sent the consumer's client the answer to SUBSCRIBE.
        """
        if not consumer.closed and not self._pick_active_consumer() and self.type is SubscriptionType.FAILOVER:
            consumer.link.send_active_consumer(consumer, is_active=consumer is self._active)

    def detach(self, *consumers: Consumer) -> None:
        """Remove consumers, which closed themselves or whose connection is closed. Idempotent."""
        leaving = [consumer for consumer in consumers if not consumer.closed]
        for consumer in leaving:
            consumer.closed = True
        gone = set(consumers)
        self.members = [consumer for consumer in self.members if consumer not in gone]  # also those that are held
        for consumer in consumers:
            self._turns.remove(consumer)
        if not leaving:
            return
        for consumer in leaving:
            self._choice.remove(consumer)
        if self._selector is not None:
            self._selector.remove(leaving)
        self._pick_active_consumer()
        self.topic.consumer_left(self)

    def hold(self) -> None:
        """Ignore all requests of the consumers from now on. The consumers stay attached until `disconnect_all` is
        called.
        """
        for consumer in self.members:
            consumer.closed = True

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        members, self.members = self.members, []
        for consumer in members:
            consumer.closed = True
            consumer.link.close_consumer(consumer, owner)
        self._turns.clear()
        self._choice.clear()
        self._active = None

    def _pick_active_consumer(self) -> bool:
        chosen = self._choice.active
        if chosen is self._active:
            return False
        self._active = chosen
        if self.type is SubscriptionType.FAILOVER:
            for consumer in self.members:
                consumer.link.send_active_consumer(consumer, is_active=consumer is chosen)
        return True

    def flow(self, consumer: Consumer) -> None:
        """Do nothing. More permits do not cause a delivery, because no message is stored; they count for messages
        published later.
        """

    def deliver(self, position: Position, messages: int, entry: bytes) -> None:
        """Send an entry to the next consumer by the rules of the subscription's type. If that consumer has no permits,
        or its connection cannot take more now, drop the entry: no other consumer gets it.
        """
        consumer = self._next_consumer(entry)
        if consumer is None or not _is_able(consumer):
            self.dropped += messages
            return
        consumer.link.send_message(consumer, position, 0, entry)
        consumer.sent(messages, len(entry))
        self._turns.took(consumer, messages)
        self.rates.messages += messages
        self.rates.bytes += len(entry)
        self.topic.dispatched(messages, len(entry))

    def _next_consumer(self, entry: bytes) -> Consumer | None:
        if self._selector is not None:
            return self._selector.select(self._selector.slot_of(sticky_key(read_metadata(entry))))
        if self.type is not SubscriptionType.SHARED:
            return self._active
        return self._turns.next(_is_able)

    def ack_individual(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Do nothing: no message is stored."""

    def ack_parts(self, consumer: Consumer, parts: Sequence[tuple[Position, int]]) -> None:
        """Do nothing: no message is stored."""

    def ack_cumulative(self, consumer: Consumer, position: Position) -> bool:
        return True

    def redeliver(self, consumer: Consumer, positions: Sequence[Position] | None, epoch: int | None) -> None:
        """Do nothing: no message is stored."""

    async def seek(self, position: Position, bits: int = ALL) -> None:
        raise NotAllowedError("a non-persistent topic stores no messages, so seek is not possible")


def _is_able(consumer: Consumer) -> bool:
    return consumer.permits > 0 and consumer.link.writable
