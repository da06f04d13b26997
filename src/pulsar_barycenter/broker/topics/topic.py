"""What persistent and non-persistent topics have in common: producers, state, stats, tasks.

`states` describes the states. When a topic is not OPEN, no client attaches, and messages are dropped without an answer:
the broker disconnects the client soon, and the client then sends them again to the next owner. Source: Pulsar's
`AbstractTopic`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions, Sent
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.compaction.topic_compactions import BrokerCompactions
from pulsar_barycenter.broker.errors import (
    EncryptionRequiredError,
    NotAllowedError,
    ProducerBusyError,
    TopicBusyError,
    TopicFencedError,
    TopicTerminatedError,
)
from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.topic_policies import TopicPolicies
from pulsar_barycenter.broker.namespaces.topic_rules import GroupRate, TopicRules
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.intake import Intake
from pulsar_barycenter.broker.topics.limits import require_producer_room
from pulsar_barycenter.broker.topics.producer_admission import ProducerAdmission
from pulsar_barycenter.broker.topics.states import TopicEvent, TopicState, after
from pulsar_barycenter.broker.topics.subscribe_limit import SubscribeLimit
from pulsar_barycenter.broker.topics.topic_settings import TopicSettings
from pulsar_barycenter.ledger.disk_full import DiskFullState
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """A decoded SUBSCRIBE command.

    `start` is only for non-durable subscriptions: the position of the entry to deliver first, or EARLIEST or LATEST for
    the ends of the topic; None means LATEST. If `start_rollback_s` is above 0, it replaces `start`: deliver the
    messages that were published in the last `start_rollback_s` seconds, and all later ones.
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
    """Counters of the whole broker since it started: bytes, messages, and transfers of topics. They only grow.

    `dropped_sends` is the number of messages that arrived for topics in transfer, and `dropped_acks` the number of
    acknowledged message ids that did.
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
    """The methods of the topic registry that topics need."""

    @property
    def clock(self) -> Clock: ...

    @property
    def settings(self) -> TopicSettings: ...

    def settings_under(self, rules: TopicRules) -> TopicSettings:
        """Return the settings of topics that follow these rules."""
        ...

    def throttle_of(self, group: GroupRate) -> Throttle | None:
        """Return the throttle that all topics of a resource group on this broker share, None without a limit."""
        ...

    @property
    def counters(self) -> BrokerCounters: ...

    @property
    def compactions(self) -> BrokerCompactions: ...

    def ledger_fenced(self, topic: "Topic", detail: str) -> None:
        """Called by a topic when a later owner has fenced its ledger: end the term of the topic's bundle, and start to
        close the topic.
        """
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
        "intake",
        "last_active_ms",
        "loaded_at_ms",
        "name",
        "out_rates",
        "owned",
        "pending",
        "producers",
        "room",
        "rules",
        "settings",
        "state",
        "subscribe_limit",
    )

    def __init__(self, name: TopicName, owned: OwnedBundle, host: TopicHost) -> None:
        self.name = name
        self.owned = owned
        self.host = host
        self.state = TopicState.OPEN
        self.settings = host.settings
        self.rules = TopicRules()
        """What the policies say; set before the topic is registered, and when the policies change."""
        self.intake: Intake | None = None
        self.subscribe_limit: SubscribeLimit | None = None
        self.producers: dict[str, Producer] = {}
        self.in_rates = Rates()
        self.out_rates = Rates()
        self.pending = 0
        """The number of entries that were given to the ledger and are neither durable nor failed."""
        self.last_active_ms = self.loaded_at_ms = host.clock.now_ms()
        self.change: PartitionedChange | None = None
        """The pending change of the partitioned topic, during which this partition may refuse clients."""
        self.room = DiskFullState()
        self._drained: asyncio.Future[None] | None = None
        self._tasks: dict[asyncio.Task[None], None] | None = None
        self._admission: ProducerAdmission | None = None

    @property
    def clock(self) -> Clock:
        return self.host.clock

    # ---- policies ----

    def follow(self, rules: TopicRules) -> None:
        """Apply the given rules to the topic from now on, together with the present settings of the broker. Attached
        clients stay attached.
        """
        before, self.rules = self.rules, rules
        self.settings = self.host.settings_under(rules)
        if Intake.asked(before) != Intake.asked(rules):
            now_s = asyncio.get_running_loop().time()
            if self.intake is not None:
                self.intake.close(now_s)
            self.intake = Intake.of(rules, self.host.throttle_of(rules.group_rate), now_s)
        if before.subscribe_rate != rules.subscribe_rate:
            self.subscribe_limit = SubscribeLimit.of(rules.subscribe_rate)

    def require_subscribable(self, link: ClientLink, request: SubscribeRequest) -> None:
        """Check that the policies allow the requested type of subscription, and that the consumer does not attach too
        often.

        Raises:
            NotAllowedError: the policies do not allow the type, or the consumer attached as often as they allow.
        """
        if request.sub_type.label not in self.rules.subscription_types:
            allowed = ", ".join(self.rules.subscription_types)
            raise NotAllowedError(
                f"Topic[{self.name}] doesn't support '{request.sub_type.label}' sub type! It supports: {allowed}"
            )
        if self.subscribe_limit is not None:
            host = link.address.rpartition(":")[0]
            now_s = asyncio.get_running_loop().time()
            self.subscribe_limit.require(host, request.options.name, request.consumer_id, now_s)

    # ---- tasks ----

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task; it is cancelled when the topic closes."""
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
        """Check that producers and consumers may attach.

        Raises:
            TopicFencedError: the topic is being closed, moved or changed.
        """
        if not self.is_served:
            raise TopicFencedError(self.name, "the topic is being closed or moved to another broker")
        if self.change is not None and self.change.blocks_clients:
            raise TopicFencedError(self.name, f"a change of the partitioned topic is in progress: {self.change}")

    def check_writable(self) -> None:
        """Check that the topic accepts messages.

        Raises:
            TopicTerminatedError: the topic was terminated.
        """

    def check_subscription_open(self, name: str) -> None:
        """Check that no change of the partitioned topic is deleting the subscription.

        Raises:
            TopicFencedError: a change is deleting the subscription.
        """
        if self.change is not None and self.change.blocks_subscription(name):
            raise TopicFencedError(self.name, f"a change of the partitioned topic is in progress: {self.change}")

    async def add_producer(
        self,
        link: ClientLink,
        producer_id: int,
        options: ProducerOptions,
        topic_epoch: int | None = None,
        queued: Callable[[], None] | None = None,
    ) -> Producer:
        """Attach a producer and return it. If an attached producer has the same name, the new one replaces it if both
        belong to the same client, or if the client of the attached one does not answer a PING.

        `topic_epoch` is the epoch that an exclusive producer had when it was attached before, None if it was not.
        `queued` is called once if the producer has to wait for exclusive access.

        Raises:
            ProducerBusyError: a producer of another client, which answers, has the name.
            TooManyProducersError: the topic has as many producers as it may have.
            TopicFencedError: the topic is being closed, moved or changed.
            BacklogQuotaExceededError: the backlog exceeds a quota whose policy is to refuse producers; see
                `check_backlog`.
            TopicTerminatedError: the topic was terminated.
            EncryptionRequiredError: the topic accepts encrypted messages only, and the client does not encrypt.
            ExclusiveProducerError, ProducerFencedError, NotAllowedError, LedgerError: the errors of
                `ProducerAdmission.admit`.
        """
        await self.check_backlog()
        limits = await self.host.policies.limits(self.name)
        self.check_open()
        former = await self._former_self(link, producer_id, options)
        self.check_open()
        self.check_writable()
        if self.rules.requires_encryption and not options.is_encrypted:
            raise EncryptionRequiredError(self.name)
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
            self._require_writable(producer)
        self._attach(producer)
        return producer

    def _require_writable(self, producer: Producer) -> None:
        """Check that the topic accepts messages, because it may have been terminated while the producer waited.

        Raises:
            TopicTerminatedError: the topic was terminated; the producer is detached.
        """
        try:
            self.check_writable()
        except TopicTerminatedError:
            self.forget_producer(producer)
            raise

    async def _former_self(self, link: ClientLink, producer_id: int, options: ProducerOptions) -> Producer | None:
        """Return the attached producer of the same client that the new producer replaces, None if there is none. If a
        producer of the same name belongs to a client that does not answer a PING, that producer is removed.

        None is also returned if a producer of another client has the name, and the new one waits until that producer
        leaves, or fences it.

        Raises:
            ProducerBusyError: a producer of another client, which answers, has the name.
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
            present.link.abort("no answer to a PING, sent because a producer of the same name wants to attach")
            self.forget_producer(present)
        return None

    async def check_backlog(self) -> None:
        """Check that producers may attach in spite of the backlog quotas: the backlog exceeds no quota, or the policy
        of the exceeded quota is to evict messages.

        Raises:
            BacklogQuotaExceededError: the policy of the exceeded quota is to refuse producers. It is a
                ProducerHeldError if the policy is to hold them, so that their clients try again.
        """

    def stored_producer_epoch(self) -> int | None:
        """Return the epoch of the last exclusive producer, which is stored with the topic. Return None if no epoch is
        stored.

        Raises:
            NotAllowedError: the stored value is not a valid epoch.
        """
        return None

    async def store_producer_epoch(self, epoch: int) -> None:
        """Store the epoch of an exclusive producer with the topic; the producer is admitted after this. A
        non-persistent topic stores nothing.

        Raises:
            LedgerError: the epoch could not be stored, or it is not known whether it is stored.
        """

    @property
    def producer_epoch(self) -> int | None:
        """The epoch of the last exclusive producer; None if there never was one, or the stored value is not valid."""
        if self._admission is not None:
            return self._admission.epoch
        try:
            return self.stored_producer_epoch()
        except NotAllowedError:
            return None

    @property
    def waiting_producers(self) -> int:
        """The number of producers that wait for exclusive access."""
        return self._admission.waiting if self._admission is not None else 0

    @property
    def deduplicates(self) -> bool:
        return False

    def last_sequence_id(self, producer_name: str) -> int:
        """Return the highest stored sequence id of a producer, -1 if there is none or deduplication is off."""
        return -1

    def forget_producer(self, producer: Producer) -> None:
        """Detach a producer without notifying its client. Its messages that are being written still become durable.
        Idempotent.
        """
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
        """Detach a producer and notify its client with CLOSE_PRODUCER. The client then connects to `owner`, or looks
        the topic up if `owner` is None.
        """
        self.forget_producer(producer)
        producer.link.close_producer(producer, owner)

    def publish(self, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool = False) -> None:
        """Publish entries that one producer sent, at least one. `sent` has the fields of the SEND of each entry.
        Policies may refuse some of them.

        This does not wait: for each SEND, the producer's link sends a receipt or an error later, in the order of the
        SENDs.
        """
        intake = self.intake
        if intake is None:
            self.accept(sent, entries, are_chunks=are_chunks)
            return
        if intake.may_refuse(sent):
            self._accept_allowed(intake, sent, entries, are_chunks=are_chunks)
        else:
            self.accept(sent, entries, are_chunks=are_chunks)
        intake.rates.count(sent)

    def accept(self, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool) -> None:
        """Publish entries that the policies allow; `publish` calls this. The arguments and the answers are those of
        `publish`.
        """
        raise NotImplementedError

    def _accept_allowed(
        self, intake: Intake, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool
    ) -> None:
        """Publish those entries that the policies allow. For each of the other entries, the producer gets an error.
        Receipts and errors are sent in the order of the SENDs.
        """
        start = 0
        for index, reason in intake.refusals(sent, entries, self.clock.now_ms(), are_chunks=are_chunks):
            if index > start:
                self.accept(sent[start:index], entries[start:index], are_chunks=are_chunks)
            producer, sequence_id, _, _, size, _ = sent[index]
            producer.link.publish_failed(producer, size)
            producer.link.refuse_message(producer, sequence_id, NotAllowedError(f"{reason}: topic {self.name}"))
            start = index + 1
        if start < len(sent):
            self.accept(sent[start:], entries[start:], are_chunks=are_chunks)

    def published(self, producer: Producer, messages: int, size: int) -> None:
        """Count `messages` published messages of `producer` for the stats; `size` is their total size in bytes."""
        for rates in (producer.rates, self.in_rates):
            rates.messages += messages
            rates.bytes += size
        counters = self.host.counters
        counters.messages_in += messages
        counters.bytes_in += size

    def sends_dropped(self, messages: int) -> None:
        """Called for messages that a closed producer sent. If the topic is in transfer, count them in `dropped_sends`;
        otherwise do nothing.
        """
        if self.state.is_transfer:
            self.host.counters.dropped_sends += messages

    def acks_dropped(self, acks: int) -> None:
        """Called for message ids that a closed consumer acknowledged. If the topic is in transfer, count them in
        `dropped_acks`; otherwise do nothing.
        """
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
        """Attach a consumer and return it; create its subscription if it does not exist. It gets no messages until the
        caller has answered the client and called `attached` of the subscription.
        """
        raise NotImplementedError

    def consumers(self) -> Iterable[Consumer]:
        raise NotImplementedError

    @property
    def has_messages(self) -> bool:
        """Whether the topic has stored messages. For a non-persistent topic: whether it got messages since it was
        loaded.
        """
        return self.in_rates.messages > 0

    @property
    def has_backlog(self) -> bool:
        """Whether at least one subscription has messages that are not acknowledged. Always False for a non-persistent
        topic.
        """
        return False

    @property
    def consumer_count(self) -> int:
        return sum(1 for _ in self.consumers())

    @property
    def subscription_count(self) -> int:
        raise NotImplementedError

    def check_subscription_deletable(self, name: str, *, force: bool) -> None:
        """Check that the subscription may be deleted; delete nothing. Raises the errors of `delete_subscription`."""
        raise NotImplementedError

    async def delete_subscription(self, name: str, *, force: bool) -> None:
        """Delete a subscription, including its stored cursor.

        Raises:
            SubscriptionNotFoundError: the topic has no subscription of that name.
            SubscriptionBusyError: consumers are connected and `force` is not set.
        """
        raise NotImplementedError

    async def position_at(self, publish_time_ms: int, *, compacted: bool = False) -> Position:
        """Return the position of the first entry published at or after that time, or a position after all entries if
        there is none.

        With `compacted`, search the compacted ledger, too, and return the lower of the two positions.
        """
        raise NotImplementedError

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        """Detach a consumer and delete its subscription. With `force`, other consumers of the subscription are closed.

        Raises:
            SubscriptionBusyError: other consumers are connected, and `force` is not set.
        """
        raise NotImplementedError

    async def last_message_id(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Return the position of the last durable entry, (-1, -1) if there is none, and the index of the last message
        in it, -1 if the entry is not a batch.

        With `compacted`, if compaction has reached the end of the topic, the last entry is that of the compacted
        ledger.
        """
        raise NotImplementedError

    # ---- closing ----

    def on(self, event: TopicEvent) -> None:
        self.state = after(self.state, event)

    def begin_closing(self) -> None:
        """From now on, refuse new clients and drop messages that arrive. Producers' clients get no answer to these
        messages, and send them again when they are attached to the next owner.
        """
        self.on(TopicEvent.CLOSE)
        self._close_to_sends()

    def begin_transfer(self) -> None:
        """Refuse new clients and drop messages, as `begin_closing` does; also stop dispatch and ignore all requests of
        consumers. The clients stay attached.
        """
        self.on(TopicEvent.TRANSFER)
        self.host.counters.transfers += 1
        self._close_to_sends()
        self.hold_consumers()

    def _close_to_sends(self) -> None:
        for producer in self.producers.values():
            producer.closed = True
        if self.intake is not None:
            self.intake.rates.close(asyncio.get_running_loop().time())

    def hold_consumers(self) -> None:
        """Stop dispatch to all consumers, and ignore their requests from now on. They stay attached until they are
        disconnected.
        """
        raise NotImplementedError

    async def release(self) -> None:
        """Wait until no entry is pending: each is durable and has its receipt, or has failed. Then close the ledger, so
        that the next owner can open it.

        Raises:
            LedgerError: a snapshot or a cursor could not be stored, or the ledger could not be closed. This topic does
                not use the ledger any more in this case, either.
        """
        raise NotImplementedError

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        """Close all producers and consumers, and notify their clients. The clients connect to `owner`; if it is None,
        they look the topic up.
        """
        raise NotImplementedError

    async def close(self, reason: str, owner: NextOwner | None = None) -> None:
        """Close the topic: wait until no entry is pending, disconnect all clients, then close the ledger. Idempotent.

        Raises:
            LedgerError: as in `release`. The clients are disconnected, and the topic is closed nevertheless.
        """
        raise NotImplementedError

    @property
    def is_inactive(self) -> bool:
        """Whether the topic is unused: it has no producer and no subscription."""
        return not self.producers and not self.subscription_count

    def check_deletable(self, *, force: bool, only_unused: bool = False) -> None:
        """Check that the topic may be deleted.

        Raises:
            TopicBusyError: clients are attached and `force` is False, or a subscription exists and `only_unused` is
                True.
        """
        if (only_unused and self.subscription_count) or (not force and (self.producers or self.consumer_count)):
            raise TopicBusyError(
                self.name,
                subscriptions=self.subscription_count,
                producers=len(self.producers),
                consumers=self.consumer_count,
            )

    async def delete(self, *, force: bool, only_unused: bool = False) -> None:
        """Disconnect all clients and delete everything that is stored.

        Raises:
            TopicBusyError: the topic must not be deleted; see `check_deletable`.
            LedgerError: the topic could not be deleted; clients cannot attach to it any more.
        """
        raise NotImplementedError

    async def wait_drained(self) -> None:
        """Wait until no entry is pending."""
        while self.pending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def completed(self, entries: int) -> None:
        """Record that `entries` entries are no longer pending: they are durable, or have failed."""
        self.pending -= entries
        if not self.pending and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    def close_producers(self, owner: NextOwner | None = None) -> None:
        """Refuse the producers that wait for exclusive access. Detach all attached ones and notify their clients, as
        `close_producer` does.
        """
        if self._admission is not None:
            self._admission.close()
        for producer in list(self.producers.values()):
            self.close_producer(producer, owner)

    def update_rates(self, seconds: float) -> None:
        """Compute all rates for the stats; `seconds` is the time since the last update."""
        self.in_rates.update(seconds)
        self.out_rates.update(seconds)
        for producer in self.producers.values():
            producer.rates.update(seconds)
        for consumer in self.consumers():
            consumer.rates.update(seconds)


def _is_successor(options: ProducerOptions, producer_id: int, link: ClientLink, present: Producer) -> bool:
    """Return whether a new producer and the attached producer `present` of the same name belong to the same client,
    which has reconnected.

    The new one must have a higher epoch. In addition, either it has the same connection and producer id, or a broker
    generated the name, so that no other client can have it.
    """
    if options.epoch <= present.epoch:
        return False
    same_connection = present.link is link and present.producer_id == producer_id
    return same_connection or not (options.user_provided_name or present.user_provided_name)
