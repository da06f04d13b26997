"""What persistent and non-persistent topics have in common: producers, state, figures, tasks.

Its states are in `states`. Once it is not OPEN nothing attaches any more, and what is sent is dropped without an
answer, because the client is about to be told to go elsewhere and sends it again there.
Source: Pulsar's `AbstractTopic`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions, Sent
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.compaction.topic_compactions import BrokerCompactions
from pulsar_barycenter.broker.errors import NotAllowedError, ProducerBusyError, TopicBusyError, TopicFencedError
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.topic_policies import TopicPolicies
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.limits import require_producer_room
from pulsar_barycenter.broker.topics.producer_admission import ProducerAdmission
from pulsar_barycenter.broker.topics.states import TopicEvent, TopicState, after
from pulsar_barycenter.broker.topics.topic_settings import TopicSettings
from pulsar_barycenter.ledger.disk_full import DiskFullState
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """A SUBSCRIBE in the broker's terms.

    `start` is for non-durable subscriptions: the entry to deliver first. `EARLIEST` and `LATEST` stand for both
    ends of the topic there.
    """

    consumer_id: int
    subscription: str
    sub_type: SubscriptionType
    options: ConsumerOptions
    key_shared_mode: KeySharedMode
    is_durable: bool = True
    from_earliest: bool = False
    start: Position | None = None
    start_rollback_s: int = 0
    allow_out_of_order: bool = False
    properties: dict[str, str] | None = None


class BrokerCounters:
    """Bytes and messages of the whole broker since it started; they only grow.

    `dropped_sends` counts the messages and `dropped_acks` the acknowledged ids that came for topics in transfer, of
    which there were `transfers`.
    """

    __slots__ = ("bytes_in", "bytes_out", "dropped_acks", "dropped_sends", "messages_in", "messages_out", "transfers")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.messages_out = 0
        self.dropped_sends = 0
        self.dropped_acks = 0
        self.transfers = 0


class TopicHost(Protocol):
    """The registry, as its topics use it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def settings(self) -> TopicSettings: ...

    @property
    def counters(self) -> BrokerCounters: ...

    @property
    def compactions(self) -> BrokerCompactions: ...

    def ledger_fenced(self, topic: "Topic", detail: str) -> None:
        """A later owner writes the topic's ledger: this broker's term is over."""
        ...

    @property
    def policies(self) -> TopicPolicies: ...


class Topic:
    __slots__ = (
        "_admission",
        "_drained",
        "_tasks",
        "change",
        "host",
        "in_rates",
        "last_active_ms",
        "name",
        "out_rates",
        "owned",
        "pending",
        "producers",
        "room",
        "state",
    )

    def __init__(self, name: TopicName, owned: OwnedBundle, host: TopicHost) -> None:
        self.name = name
        self.owned = owned
        self.host = host
        self.state = TopicState.OPEN
        self.producers: dict[str, Producer] = {}
        self.in_rates = Rates()
        self.out_rates = Rates()
        self.pending = 0
        """Entries that were given to the ledger and are neither durable nor failed."""
        self.last_active_ms = host.clock.now_ms()
        self.change: PartitionedChange | None = None
        """The change of the partitioned topic for which this partition keeps clients out."""
        self.room = DiskFullState()
        self._drained: asyncio.Future[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] | None = None
        self._admission: ProducerAdmission | None = None

    @property
    def clock(self) -> Clock:
        return self.host.clock

    @property
    def settings(self) -> TopicSettings:
        return self.host.settings

    # ---- tasks ----

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task that ends with the topic at the latest."""
        if self.state is TopicState.CLOSED:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        if self._tasks is None:
            self._tasks = {}
        self._tasks[task] = None
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if self._tasks is not None:
            self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("topic_task_failed", topic=str(self.name), task=task.get_name(), exc_info=error)

    def _cancel_tasks(self) -> None:
        for task in list(self._tasks or ()):
            task.cancel()

    # ---- producers ----

    @property
    def is_served(self) -> bool:
        """Whether producers and consumers may attach."""
        return self.state is TopicState.OPEN and self.owned.active

    def check_open(self) -> None:
        """Raise TopicFencedError unless producers and consumers may attach."""
        if not self.is_served:
            raise TopicFencedError(self.name, "it is being closed or moved to another broker")
        if self.change is not None and self.change.blocks_clients:
            raise TopicFencedError(self.name, f"its partitioned topic is under change: {self.change}")

    def check_subscription_open(self, name: str) -> None:
        """Raise TopicFencedError while a change of the partitioned topic deletes the subscription."""
        if self.change is not None and self.change.blocks_subscription(name):
            raise TopicFencedError(self.name, f"its partitioned topic is under change: {self.change}")

    async def add_producer(
        self,
        link: ClientLink,
        producer_id: int,
        options: ProducerOptions,
        topic_epoch: int | None = None,
        queued: Callable[[], None] | None = None,
    ) -> Producer:
        """Attach a producer. One of the same name gives way if it is this producer's former self, or dead.

        `topic_epoch` is the epoch that an exclusive producer had when it attached before. `queued` is called once if
        the producer has to wait for exclusive access.

        Raises:
            ProducerBusyError: a living producer has the name.
            TooManyProducersError: the topic takes no more.
            TopicFencedError: the topic is closing.
            ExclusiveProducerError, ProducerFencedError, NotAllowedError, LedgerError: see `ProducerAdmission.admit`.
        """
        limits = await self.host.policies.limits(self.name)
        self.check_open()
        former = await self._former_self(link, producer_id, options)
        self.check_open()
        require_producer_room(self.name, len(self.producers) - (former is not None), limits)
        producer = Producer(link, producer_id, self, options, self.clock.now_ms())
        if former is not None:
            self._detach(former)
        if self._admission is None and options.access_mode is not AccessMode.SHARED:
            self._admission = ProducerAdmission(
                self, epoch=self.stored_producer_epoch(), attached=self.producers.values()
            )
        if self._admission is not None:
            await self._admission.admit(producer, topic_epoch, queued, former)
        self._attach(producer)
        return producer

    async def _former_self(self, link: ClientLink, producer_id: int, options: ProducerOptions) -> Producer | None:
        """Return the attached producer whose client now comes as this one; remove one of the name that is dead.

        A living stranger may have the name of a producer that waits for it to leave, or fences it.

        Raises:
            ProducerBusyError: a living producer has the name.
        """
        while (present := self.producers.get(options.name)) is not None:
            if _is_successor(options, producer_id, link, present):
                return present
            if options.access_mode is AccessMode.EXCLUSIVE_WITH_FENCING:
                return None
            if await present.link.is_alive():
                if options.access_mode is AccessMode.WAIT_FOR_EXCLUSIVE:
                    return None
                raise ProducerBusyError(self.name, options.name)
            present.link.abort("no sign of life when another producer of the name came")
            self.forget_producer(present)
        return None

    def stored_producer_epoch(self) -> int | None:
        """Return the epoch of the last exclusive producer that is stored with the topic, None if there is none.

        Raises:
            NotAllowedError: what is stored is no epoch.
        """
        return None

    async def store_producer_epoch(self, epoch: int) -> None:
        """Store the epoch of an exclusive producer, before it is admitted; nothing where nothing is stored.

        Raises:
            LedgerError: it is not known to be stored.
        """

    @property
    def producer_epoch(self) -> int | None:
        """The epoch of the last exclusive producer, None if there never was one, or what is stored is none."""
        if self._admission is not None:
            return self._admission.epoch
        try:
            return self.stored_producer_epoch()
        except NotAllowedError:
            return None

    @property
    def waiting_producers(self) -> int:
        """Producers that wait for exclusive access."""
        return self._admission.waiting if self._admission is not None else 0

    @property
    def deduplicates(self) -> bool:
        return False

    def last_sequence_id(self, producer_name: str) -> int:
        """Return the highest sequence id stored of a producer if that is tracked, else -1."""
        return -1

    def forget_producer(self, producer: Producer) -> None:
        """Detach a producer; what it sent and is pending still becomes durable. Idempotent."""
        self._detach(producer)
        if self._admission is not None:
            self._admission.left(producer)

    def _attach(self, producer: Producer) -> None:
        self.producers[producer.name] = producer
        self.last_active_ms = producer.connected_since_ms

    def _detach(self, producer: Producer) -> None:
        producer.closed = True
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]
            self.last_active_ms = self.clock.now_ms()

    def close_producer(self, producer: Producer, owner: NextOwner | None = None) -> None:
        """Detach a producer and tell its client, also of the next owner if it is known."""
        self.forget_producer(producer)
        producer.link.close_producer(producer, owner)

    def publish(self, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool = False) -> None:
        """Take the entries that one producer sent, at least one, each beside what its SEND says.

        Their receipts, or errors, go to the producer's link in the order of the SENDs.
        """
        raise NotImplementedError

    def published(self, producer: Producer, messages: int, size: int) -> None:
        """Account for messages that were accepted."""
        for rates in (producer.rates, self.in_rates):
            rates.messages += messages
            rates.bytes += size
        counters = self.host.counters
        counters.messages_in += messages
        counters.bytes_in += size

    def sends_dropped(self, messages: int) -> None:
        """Messages came from a producer that is closed."""
        if self.state.is_transfer:
            self.host.counters.dropped_sends += messages

    def acks_dropped(self, acks: int) -> None:
        """Acknowledgements of so many ids came from a consumer that is closed."""
        if self.state.is_transfer:
            self.host.counters.dropped_acks += acks

    def dispatched(self, messages: int, size: int) -> None:
        rates = self.out_rates
        rates.messages += messages
        rates.bytes += size
        counters = self.host.counters
        counters.messages_out += messages
        counters.bytes_out += size

    # ---- consumers ----

    async def subscribe(self, link: ClientLink, request: SubscribeRequest) -> Consumer:
        """Attach a consumer, creating its subscription if need be; `Consumable.attached` must follow."""
        raise NotImplementedError

    def consumers(self) -> Iterable[Consumer]:
        raise NotImplementedError

    @property
    def consumer_count(self) -> int:
        return sum(1 for _ in self.consumers())

    @property
    def subscription_count(self) -> int:
        raise NotImplementedError

    def check_subscription_deletable(self, name: str, *, force: bool) -> None:
        """Raise what `delete_subscription` would, and change nothing."""
        raise NotImplementedError

    async def delete_subscription(self, name: str, *, force: bool) -> None:
        """Delete a subscription with what is stored of it.

        Raises:
            SubscriptionNotFoundError
            SubscriptionBusyError: consumers are connected, and it is not forced.
        """
        raise NotImplementedError

    async def position_at(self, publish_time_ms: int, *, compacted: bool = False) -> Position:
        """Return the first entry published at or after that time, or a position behind all entries.

        `compacted`, here and below, counts what was kept when the topic was compacted in the place of what was written.
        """
        raise NotImplementedError

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Delete the subscription of a consumer, which must be the only one unless forced.

        Raises:
            SubscriptionBusyError: other consumers are connected.
        """
        raise NotImplementedError

    async def last_message_id(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Return the position of the last durable entry (-1, -1 if none), and its last index in the batch, or -1."""
        raise NotImplementedError

    # ---- closing ----

    def on(self, event: TopicEvent) -> None:
        self.state = after(self.state, event)

    def begin_closing(self) -> None:
        """Let nobody attach any more, and drop what is sent from now on: clients will send it again elsewhere."""
        self.on(TopicEvent.CLOSE)
        self._close_to_sends()

    def begin_transfer(self) -> None:
        """As `begin_closing`; and nothing is dispatched, acknowledged or asked for any more. The clients stay."""
        self.on(TopicEvent.TRANSFER)
        self.host.counters.transfers += 1
        self._close_to_sends()
        self.hold_consumers()

    def _close_to_sends(self) -> None:
        for producer in self.producers.values():
            producer.closed = True

    def hold_consumers(self) -> None:
        """Give the consumers nothing more and take nothing more from them, until they are disconnected."""
        raise NotImplementedError

    async def release(self) -> None:
        """Send the receipts of what is pending, then let the ledger go, so that the next owner can open it.

        Raises:
            LedgerError: it did not close well.
        """
        raise NotImplementedError

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        """Tell all clients to go to `owner`, or to look the topic up."""
        raise NotImplementedError

    async def close(self, reason: str, owner: NextOwner | None = None) -> None:
        """Send the receipts of what is pending, tell all clients to go elsewhere, release the ledger. Idempotent.

        Raises:
            LedgerError: the ledger did not close well; the clients were told all the same.
        """
        raise NotImplementedError

    @property
    def is_inactive(self) -> bool:
        """Whether nobody uses the topic: no producer and no subscription."""
        return not self.producers and not self.subscription_count

    def check_deletable(self, *, force: bool, only_unused: bool = False) -> None:
        """Raise TopicBusyError if clients are there and it is not forced, or a subscription and `only_unused`."""
        if (only_unused and self.subscription_count) or (not force and (self.producers or self.consumer_count)):
            raise TopicBusyError(
                self.name,
                subscriptions=self.subscription_count,
                producers=len(self.producers),
                consumers=self.consumer_count,
            )

    async def delete(self, *, force: bool, only_unused: bool = False) -> None:
        """Close all clients and delete what is stored.

        Raises:
            TopicBusyError: see `check_deletable`.
            LedgerError: it could not be deleted; nothing attaches to it any more.
        """
        raise NotImplementedError

    async def wait_drained(self) -> None:
        """Wait until nothing is pending."""
        while self.pending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def completed(self, entries: int) -> None:
        """So many entries are no longer pending."""
        self.pending -= entries
        if not self.pending and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def close_producers(self, owner: NextOwner | None = None) -> None:
        """Turn away the producers that wait, detach all others and tell their clients, as `close_producer` does."""
        if self._admission is not None:
            self._admission.close()
        for producer in list(self.producers.values()):
            self.close_producer(producer, owner)

    def update_rates(self, seconds: float) -> None:
        """Set all rates to those of the `seconds` since the last update."""
        self.in_rates.update(seconds)
        self.out_rates.update(seconds)
        for producer in self.producers.values():
            producer.rates.update(seconds)
        for consumer in self.consumers():
            consumer.rates.update(seconds)


def _is_successor(options: ProducerOptions, producer_id: int, link: ClientLink, present: Producer) -> bool:
    """Tell whether a newcomer is the reconnected self of the producer that has its name.

    A name that a broker generated is nobody else's, so a higher epoch is proof on any connection.
    """
    if options.epoch <= present.epoch:
        return False
    same_connection = present.link is link and present.producer_id == producer_id
    return same_connection or not (options.user_provided_name or present.user_provided_name)
