"""What topics, producers and consumers say to the client behind them, whoever carries it.

`wire/connection.py` says it over a socket; tests say it to a list.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.ledger.position import EntryRun, Position


class StalledDispatcher(Protocol):
    def dispatch(self) -> None:
        """Send what can be sent now."""
        ...


class LinkedConsumer(Protocol):
    """What a link asks of a consumer: how the client calls it, and what goes with each of its messages."""

    @property
    def consumer_id(self) -> int: ...

    @property
    def partition(self) -> int: ...

    @property
    def epoch(self) -> int | None: ...


class LinkedProducer(Protocol):
    """What a link asks of a producer: how the client calls it, and how far its SENDs are answered; see `Producer`."""

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
    """One client connection, as its producers and consumers use it. Nothing here waits or raises."""

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def writable(self) -> bool:
        """False while too much is queued towards this client: dispatch stops, and asks to be woken."""
        ...

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None:
        """Call `dispatcher.dispatch` once, when the queue has drained."""
        ...

    def send_message(
        self,
        consumer: LinkedConsumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None:
        """Send an entry. `ack_set` are the messages of a batch to be given out, all of them if empty; see
        `commands.message_header`."""
        ...

    def send_messages(self, consumer: LinkedConsumer, run: EntryRun) -> None:
        """Send entries that were not delivered before."""
        ...

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        """Answer SENDs whose entries, of `size` bytes together, are no longer pending.

        The first entry is at `first`, the others follow it in the same ledger.
        """
        ...

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None:
        """Answer a SEND whose message was stored before, after those that came before it."""
        ...

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        """An entry of `size` bytes is no longer pending, and no receipt will be sent for it."""
        ...

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None: ...

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        """Tell the client that this producer is closed, forget it, and drop its late SENDs for a while.

        With an `owner` it attaches there without a look-up, if the owner's address for this client is known.
        """
        ...

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None:
        """As `close_producer`."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        ...

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life; False if none came within the liveness time-out."""
        ...
