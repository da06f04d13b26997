"""A producer that is attached to a topic: its identity, its pending entries and its stats."""

import enum
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.naming.topic import TopicName

Sent: TypeAlias = "tuple[Producer, int, int, int, int, int]"
"""A SEND command without its entry: producer, sequence id, highest sequence id, number of messages, size of the entry
in bytes, delivery time in ms (0 if the message has none).
"""


class Publishable(Protocol):
    """Those methods of a topic that its producers call; see `Topic` for what they do."""

    @property
    def name(self) -> TopicName: ...
    @property
    def producer_epoch(self) -> int | None: ...
    def publish(self, sent: "Sequence[Sent]", entries: Sequence[NewEntry], *, are_chunks: bool = False) -> None: ...
    def last_sequence_id(self, producer_name: str) -> int: ...
    def forget_producer(self, producer: "Producer") -> None: ...
    async def wait_drained(self) -> None: ...
    def sends_dropped(self, messages: int) -> None: ...


class AccessMode(enum.Enum):
    """The access modes of producers, with the values of the protocol's ProducerAccessMode."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3

    @property
    def label(self) -> str:
        return {0: "Shared", 1: "Exclusive", 2: "WaitForExclusive", 3: "ExclusiveWithFencing"}[self.value]


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options in a client's PRODUCER command. `epoch` is how many times the client has reconnected this producer.

    `schema_version` is the schema version that the client puts into its messages, b"" without a schema. `is_encrypted`
    says that the client encrypts its messages.
    """

    name: str
    epoch: int = 0
    user_provided_name: bool = True
    access_mode: AccessMode = AccessMode.SHARED
    metadata: Mapping[str, str] | None = None
    schema_version: bytes = b""
    is_encrypted: bool = False


class Producer:
    """A producer that is attached to a topic.

    `pushed` counts the entries that were given to the ledger; `completed` counts the pushed entries that are durable or
    failed. After `closed` is set, its SENDs are not accepted, but receipts for pending entries are still sent.
    """

    __slots__ = (
        "access_mode",
        "chunked_messages",
        "closed",
        "completed",
        "connected_since_ms",
        "deferred",
        "epoch",
        "link",
        "metadata",
        "name",
        "producer_id",
        "pushed",
        "rates",
        "schema_version",
        "topic",
        "user_provided_name",
    )

    def __init__(
        self, link: ClientLink, producer_id: int, topic: Publishable, options: ProducerOptions, now_ms: int
    ) -> None:
        self.link = link
        self.producer_id = producer_id
        self.topic = topic
        self.name = options.name
        self.epoch = options.epoch
        self.user_provided_name = options.user_provided_name
        self.access_mode = options.access_mode
        self.metadata = options.metadata
        self.schema_version = options.schema_version
        self.connected_since_ms = now_ms
        self.pushed = 0
        self.completed = 0
        self.deferred: deque[tuple[int, bytes]] | None = None
        """Answers that have to wait for earlier entries, so that answers keep the order of the SENDs: the value of
        `completed` at which to send each, and its frame. None if there are none."""
        self.closed = False
        self.chunked_messages = 0
        self.rates = Rates()

    @property
    def pending(self) -> int:
        """The number of entries of this producer that are neither durable nor failed yet."""
        return self.pushed - self.completed
