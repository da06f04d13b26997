"""What topics, producers and consumers say to the client behind them, whoever carries it.

`connection.py` says it over a socket; tests say it to a list.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barycenter.broker.clients.consumer import Consumer
    from barycenter.broker.clients.producer import Producer
    from barycenter.ledger.position import Position


class Stalled(Protocol):
    def dispatch(self) -> None:
        """Send what can be sent now."""
        ...


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

    def wake_when_writable(self, dispatcher: Stalled) -> None:
        """Call `dispatcher.dispatch` once, when the queue has drained."""
        ...

    def send_message(self, consumer: "Consumer", position: "Position", redelivery_count: int, entry: bytes) -> None: ...

    def send_receipt(
        self, producer: "Producer", sequence_id: int, highest_id: int, position: "Position", size: int
    ) -> None:
        """Answer a SEND whose entry of `size` bytes is no longer pending."""
        ...

    def send_duplicate(self, producer: "Producer", sequence_id: int, highest_id: int, size: int) -> None:
        """Answer a SEND whose message was stored before, after those that came before it."""
        ...

    def publish_failed(self, producer: "Producer", size: int) -> None:
        """An entry of `size` bytes is no longer pending, and no receipt will be sent for it."""
        ...

    def send_error(self, producer: "Producer", sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: "Consumer", *, is_active: bool) -> None: ...

    def close_producer(self, producer: "Producer") -> None:
        """Tell the client that this producer is closed, forget it, and drop its late SENDs for a while."""
        ...

    def close_consumer(self, consumer: "Consumer") -> None: ...

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        ...

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life; False if none came within the liveness time-out."""
        ...
