"""The interface through which topics, producers and consumers send to their client.

`wire/connection.py` implements it with a socket; tests implement it with a list.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.ledger.position import EntryRun, Position


class StalledDispatcher(Protocol):
    def dispatch(self) -> None:
        """Send the entries that can be sent now."""
        ...


class LinkedConsumer(Protocol):
    """The part of a consumer that a link needs: its id at the client, and the fields that each MESSAGE to it has."""

    @property
    def consumer_id(self) -> int: ...

    @property
    def partition(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...


class LinkedProducer(Protocol):
    """The part of a producer that a link needs: its id at the client, and which SENDs are answered; see `Producer`."""

    deferred: deque[tuple[int, bytes]] | None

    @property
    def producer_id(self) -> int: ...

    @property
    def pushed(self) -> int: ...

    @property
    def completed(self) -> int: ...

    @property
    def pending(self) -> int: ...


class ClientLink(Protocol):
    """The part of a client connection that its producers and consumers need. Methods do not raise, nor wait for I/O."""

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def writable(self) -> bool:
        """Whether more may be queued for this client. While it is False, dispatch stops: see `wake_when_writable`."""
        ...

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None:
        """Call `dispatcher.dispatch` once when the link is writable again."""
        ...

    def send_message(
        self,
        consumer: LinkedConsumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None:
        """Send an entry. `ack_set` is the bit set of the messages of a batch that the client should pass to the
        application, as in `commands.message_header`; empty means all.
        """
        ...

    def send_messages(self, consumer: LinkedConsumer, run: EntryRun) -> None:
        """Send a run of entries that were not delivered before, so without a redelivery count."""
        ...

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        """Send the receipts for entries that are durable, `size` bytes together.

        The first entry is at `first`; the others follow it in the same ledger.
        """
        ...

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None:
        """Send the receipt for a message that is stored already, after the answers to all earlier SENDs."""
        ...

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        """Record that an entry of `size` bytes is no longer pending and gets no receipt."""
        ...

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None: ...

    def send_end_of_topic(self, consumer: LinkedConsumer) -> None:
        """Send that the topic was terminated and has no more messages for this consumer."""
        ...

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_PRODUCER, remove the producer from this link, and drop its late SENDs for a while.

        With an `owner` whose address for this client is known, the client attaches there without a look-up.
        """
        ...

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_CONSUMER and remove the consumer from this link; `owner` as in `close_producer`."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, and log the reason."""
        ...

    async def is_alive(self) -> bool:
        """Send a PING; return False if the client sends nothing within the liveness timeout."""
        ...
