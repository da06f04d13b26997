"""A client that records what topics send to it, without a socket."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.clients.link import StalledDispatcher
from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.ledger.position import EntryRun, Position


@dataclass(eq=False)
class RecordingLink:
    """`delivered` holds (consumer, position, redelivery count) in order, `ack_sets` the ack set of each; `writable` may
    be switched.

    `owners` holds, for each of `closed`, the broker that it was sent to.
    """

    address: str = "test"
    client_version: str = "test"
    writable: bool = True
    delivered: list[tuple[Consumer, Position, int]] = field(default_factory=list)
    ack_sets: list[tuple[int, ...]] = field(default_factory=list)
    receipts: list[tuple[int, Position]] = field(default_factory=list)
    closed: list[Consumer | Producer] = field(default_factory=list)
    owners: list[NextOwner | None] = field(default_factory=list)
    stalled: list[StalledDispatcher] = field(default_factory=list)
    active: list[tuple[Consumer, bool]] = field(default_factory=list)
    ended: list[Consumer] = field(default_factory=list)

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None:
        self.stalled.append(dispatcher)

    def drain(self) -> None:
        """The client has read everything: dispatch continues."""
        self.writable = True
        stalled, self.stalled = self.stalled, []
        for dispatcher in stalled:
            dispatcher.dispatch()

    def send_message(
        self,
        consumer: Consumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None:
        assert not consumer.closed, "a message for a consumer that is gone"
        self.delivered.append((consumer, position, redelivery_count))
        self.ack_sets.append(tuple(ack_set))

    def send_messages(self, consumer: Consumer, run: EntryRun) -> None:
        for place, entry in enumerate(run.data, run.first):
            self.send_message(consumer, Position(run.ledger_id, place), 0, entry)

    def send_receipts(
        self, producer: Producer, sequence_ids: Sequence[int], highest_ids: Sequence[int], first: Position, size: int
    ) -> None:
        for place, sequence_id in enumerate(sequence_ids, first.entry_id):
            self.receipts.append((sequence_id, Position(first.ledger_id, place)))

    def send_duplicate(self, producer: Producer, sequence_id: int, highest_id: int, size: int) -> None: ...

    def publish_failed(self, producer: Producer, size: int) -> None: ...

    def send_error(self, producer: Producer, sequence_id: int, error: Exception) -> None: ...

    def send_active_consumer(self, consumer: Consumer, *, is_active: bool) -> None:
        self.active.append((consumer, is_active))

    def refuse_message(self, producer: Producer, sequence_id: int, error: Exception) -> None:
        self.send_error(producer, sequence_id, error)

    def hold_reading(self, throttle: object) -> None:
        self.sent.append(("hold_reading", throttle))

    def send_end_of_topic(self, consumer: Consumer) -> None:
        self.ended.append(consumer)

    def close_producer(self, producer: Producer, owner: NextOwner | None = None) -> None:
        self.closed.append(producer)
        self.owners.append(owner)

    def close_consumer(self, consumer: Consumer, owner: NextOwner | None = None) -> None:
        self.closed.append(consumer)
        self.owners.append(owner)

    def abort(self, reason: str) -> None: ...

    async def is_alive(self) -> bool:
        return True
