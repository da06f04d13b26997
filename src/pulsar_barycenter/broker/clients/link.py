"""The interface through which topics, producers and consumers send to their client.

`wire/connection.py` implements it with a socket; tests implement it with a list.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.ledger.position import EntryRun, Position


class StalledDispatcher(Protocol):
    def dispatch(self) -> None:
        """Send the entries that can be sent to consumers now."""
        ...


class LinkedConsumer(Protocol):
    """The fields of a consumer that a link needs: its id at the client, and those that each MESSAGE to it contains."""

    @property
    def consumer_id(self) -> int: ...

    @property
    def partition(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...


class LinkedProducer(Protocol):
    """The fields of a producer that a link needs: its id at the client, and which of its SENDs are answered; see
    `Producer`.
    """

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
    """The connection to a client, as the client's producers and consumers use it. Methods raise no errors and do not
    wait for I/O.
    """

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def writable(self) -> bool:
        """Whether more may be queued for this client. While it is False, dispatch stops: see `wake_when_writable`."""
        ...

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None:
        """When more may be queued for this client again, call `dispatcher.dispatch` once."""
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
        """Send consecutive entries that were not delivered before, so without a redelivery count."""
        ...

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        """Send the receipts for entries that are durable. Their total size is `size` bytes.

        The first entry is at `first`; the others follow it in the same ledger.
        """
        ...

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None:
        """Send the receipt for a message that is stored already, after the answers to all earlier SENDs."""
        ...

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        """Record that an entry of `size` bytes has failed: it is no longer pending and gets no receipt."""
        ...

    def refuse_message(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        """Send the error for one message after the answers to all earlier ones; the producer stays attached."""
        ...

    def hold_reading(self, throttle: Throttle) -> None:
        """Read nothing more from the client until `throttle` allows a message."""
        ...

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None: ...

    def send_end_of_topic(self, consumer: LinkedConsumer) -> None:
        """Tell the client that the topic was terminated and has no more messages for this consumer."""
        ...

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_PRODUCER, and remove the producer from this link. SENDs that the client sent before it received
        this are dropped.

        If `owner` is given, the topic's next owner, the client attaches there without a look-up.
        """
        ...

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_CONSUMER, and remove the consumer from this link. `owner`, if given, is the topic's next owner,
        where the client attaches without a look-up.
        """
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once, and log the reason."""
        ...

    async def is_alive(self) -> bool:
        """Send a PING. Return True as soon as anything arrives from the client, False if nothing arrives within the
        liveness timeout or the connection closes.
        """
        ...
