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
        """Send the entries that wait and can be sent to consumers now."""
        ...


class LinkedConsumer(Protocol):
    """The fields of a consumer that its `ClientLink` (the connection to its client) needs: the id that the client gave
    it, and the partition and epoch that are in every MESSAGE command to it.
    """

    @property
    def consumer_id(self) -> int: ...

    @property
    def partition(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...


class LinkedProducer(Protocol):
    """The fields of a producer that its `ClientLink` (the connection to its client) needs: the id that the client gave
    it, and how many of its SENDs have been answered; see `Producer`. `deferred` are answers that wait until all earlier
    SENDs are answered, each with the number of those; None if no answer waits.
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
        """Call `dispatcher.dispatch` once, as soon as more may be queued for this client. Call this only while
        `writable` is False. If the connection closes first, the dispatcher is not called.
        """
        ...

    def send_message(
        self,
        consumer: LinkedConsumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None:
        """Send an entry. `ack_set` is a bit set: it has the bits of those messages of a batch that the client should
        pass to the application, as in `commands.message_header`. If it is empty, the client passes on all messages.
        """
        ...

    def send_messages(self, consumer: LinkedConsumer, run: EntryRun) -> None:
        """Send consecutive entries that were not delivered to any consumer before, so that their redelivery
        count is 0.
        """
        ...

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        """Send one receipt for each of some entries, which are durable. Their total size is `size` bytes.

        The first entry is at `first`; the others follow it in the same ledger, without gaps. `sequence_ids` and
        `highest_ids` have the sequence id and the highest sequence id of each entry, as in its SEND; 0 as highest id:
        the SEND had none.
        """
        ...

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None:
        """Send the receipt for a message that was stored before and that the client sent again. It is sent after the
        answers to all earlier SENDs of the producer. `size` is the size of the entry in bytes, which is not stored
        again.
        """
        ...

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        """Record that an entry of `size` bytes failed. It does not count any more for the limits on entries and bytes
        without an answer, and no receipt is sent for it.
        """
        ...

    def refuse_message(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        """Send an error as the answer to one SEND, after the answers to all SENDs before it. The producer stays
        attached.
        """
        ...

    def hold_reading(self, throttle: Throttle) -> None:
        """Read nothing more from the client until `throttle`, which limits a rate of messages, allows the
        next message.
        """
        ...

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None: ...

    def send_end_of_topic(self, consumer: LinkedConsumer) -> None:
        """Tell the client that the topic was terminated and has no more messages for this consumer."""
        ...

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_PRODUCER, and remove the producer from this connection. SENDs that the client sent before it
        received CLOSE_PRODUCER get no answer and are dropped.

        `owner` is the next owner of the topic, None if it is not known. If it is given, CLOSE_PRODUCER names its URL,
        and the client attaches there without a look-up.
        """
        ...

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None:
        """Send CLOSE_CONSUMER, and remove the consumer from this connection. `owner` is the next owner of the topic,
        None if it is not known. If it is given, CLOSE_CONSUMER names its URL, and the client attaches there without a
        look-up.
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
