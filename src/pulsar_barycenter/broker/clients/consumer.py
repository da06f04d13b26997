"""A consumer of a subscription: its permits, its unacknowledged entries and its stats.

Permits count messages, not entries. An entry is always sent as a whole, while at least one permit is left. So permits
may become negative, down to the size of a batch, and later FLOWs have to make up for it. Messages of a batch that are
acknowledged already cost no permits, because the client skips them. A consumer that subscribes again starts with no
permits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.ledger.managed.partial_acks import ALL
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName

MAX_MESSAGES_IN_ENTRY: Final = 100_000
"""The maximum number of messages of a batch, and of permits that one entry costs.

The broker does not open a batch: it relies on the number that the producer sends. Clients make batches of at most 1000
messages by default.
"""


class ConsumableTopic(Protocol):
    """Those methods of a topic that a consumer calls; see `Topic` for what they do."""

    @property
    def name(self) -> TopicName: ...
    async def position_at(self, publish_time_ms: int, *, compacted: bool = False) -> Position: ...
    async def last_message_id(self, *, compacted: bool = False) -> tuple[Position, int]: ...
    async def unsubscribe(self, consumer: "Consumer", *, force: bool) -> None: ...
    def acks_dropped(self, acks: int) -> None: ...


class Consumable(Protocol):
    """Those methods of a subscription that its consumers call; see `PersistentSubscription` for what they do."""

    @property
    def topic(self) -> ConsumableTopic: ...
    @property
    def name(self) -> str: ...
    @property
    def partition_index(self) -> int: ...
    def attached(self, consumer: "Consumer") -> None: ...
    def detach(self, *consumers: "Consumer") -> None: ...
    def flow(self, consumer: "Consumer") -> None: ...
    def ack_individual(self, consumer: "Consumer", positions: Sequence[Position]) -> None: ...
    def ack_parts(self, consumer: "Consumer", parts: Sequence[tuple[Position, int]]) -> None: ...
    def ack_cumulative(self, consumer: "Consumer", position: Position) -> bool: ...
    def redeliver(self, consumer: "Consumer", positions: Sequence[Position] | None, epoch: int | None) -> None: ...
    async def seek(self, position: Position, bits: int = ALL) -> None: ...


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options with which a client subscribed. `hash_ranges` (STICKY): both ends are inclusive. `takes_any_schema`:
    the consumer decodes messages with the schema of the topic (AUTO_CONSUME).
    """

    name: str = ""
    priority_level: int = 0
    metadata: Mapping[str, str] | None = None
    hash_ranges: Sequence[tuple[int, int]] = ()
    epoch: int | None = None
    read_compacted: bool = False
    takes_any_schema: bool = False


class Consumer:
    """A consumer that is attached to a subscription.

    `pending` is used by Shared and Key_Shared only: the entries that were delivered and are not acknowledged. It maps
    the position of each entry to the number of messages that are not acknowledged, and the hash slot of the entry's key
    (-1 in Shared).
    """

    __slots__ = (
        "address",
        "closed",
        "connected_since_ms",
        "consumer_id",
        "epoch",
        "hash_ranges",
        "is_at_end",
        "is_blocked",
        "link",
        "metadata",
        "name",
        "partition",
        "pending",
        "permits",
        "priority_level",
        "rates",
        "read_compacted",
        "subscription",
        "takes_any_schema",
        "unacked",
    )

    def __init__(
        self, link: ClientLink, consumer_id: int, subscription: Consumable, options: ConsumerOptions, now_ms: int
    ) -> None:
        self.link = link
        self.consumer_id = consumer_id
        self.subscription = subscription
        self.name = options.name
        self.priority_level = options.priority_level
        self.hash_ranges = options.hash_ranges
        self.metadata = options.metadata
        self.epoch = options.epoch
        self.read_compacted = options.read_compacted
        self.takes_any_schema = options.takes_any_schema
        self.connected_since_ms = now_ms
        self.partition = subscription.partition_index
        self.permits = 0
        self.unacked = 0
        self.pending: dict[Position, tuple[int, int]] = {}
        self.is_blocked = False
        self.is_at_end = False
        """Whether the client knows that a terminated topic has no more messages for it."""
        self.closed = False
        self.rates = Rates()

    def flow(self, permits: int) -> None:
        """Add `permits` to the number of messages that may be sent to this consumer, and send entries that wait for
        permits. With 0, nothing changes.
        """
        if permits > 0:
            self.permits += permits
            self.subscription.flow(self)

    def sent(self, messages: int, size: int) -> None:
        """Record that entries with `messages` messages and `size` bytes in all were sent, and reduce the consumer's
        permits by `messages`.

        The number of permits may become negative, because an entry is always sent as a whole.
        """
        self.permits -= messages
        if self.permits < -MAX_MESSAGES_IN_ENTRY:
            # A stored entry may claim any number of messages; the client would never send enough permits to make up.
            self.permits = -MAX_MESSAGES_IN_ENTRY
        rates = self.rates
        rates.messages += messages
        rates.bytes += size


def detach_all(consumers: Iterable[Consumer]) -> None:
    """Detach consumers that leave at the same time. The consumers of one subscription are detached in one step, so that
    entries that one of them has not acknowledged are not delivered to another one that is also leaving.
    """
    leaving: dict[Consumable, list[Consumer]] = {}
    for consumer in consumers:
        leaving.setdefault(consumer.subscription, []).append(consumer)
    for subscription, of_subscription in leaving.items():
        subscription.detach(*of_subscription)


async def remove_dead(consumers: Sequence[Consumer]) -> bool:
    """Send a PING to the client of each consumer that is not closed, one after the other, and wait for the answer. If a
    client does not answer within the liveness timeout, close its connection, which removes its consumers.

    Return True if this closed a connection, or if one of `consumers` was closed for another cause.
    """
    removed = False
    for consumer in list(consumers):
        if not consumer.closed and not await consumer.link.is_alive():
            consumer.link.abort("no answer to PING when another consumer came")
            removed = True
        removed = removed or consumer.closed
    return removed
