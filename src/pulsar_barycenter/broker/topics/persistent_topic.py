"""A persistent topic: a managed ledger that producers append to, and the subscriptions that read it.

An entry is stored as the client sent it. When a group of entries is durable, and the term of ownership still allows
it, the topic sends the receipts in the order of the SENDs. In the same step it gives the entries to every consumer
that waits for them.

If a write fails, all entries after it fail too. Their producers get errors and are closed, and what they sent meanwhile
is dropped: a later entry must not be stored before an earlier one that its client will send again.
Source: Pulsar's `PersistentTopic`.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

import structlog

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.clients.consumer import Consumer, remove_dead
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import Producer, Sent
from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.compaction.topic_compactions import TopicCompactions
from pulsar_barycenter.broker.errors import (
    BacklogQuotaExceededError,
    CompactionRunningError,
    MessagePendingError,
    NotAllowedError,
    ProducerHeldError,
    SubscriptionBusyError,
    SubscriptionNotFoundError,
    TopicFencedError,
    TopicTerminatedError,
)
from pulsar_barycenter.broker.namespaces.policies import DispatchRate
from pulsar_barycenter.broker.namespaces.topic_limits import QuotaPolicy, StoragePolicies
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.subscriptions.cursor_moves import clear_backlog
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics import deduplication
from pulsar_barycenter.broker.topics.backlogs import Excess, excess
from pulsar_barycenter.broker.topics.deduplication import Deduplication, DuplicateStatus
from pulsar_barycenter.broker.topics.delivery_rates import has_relative_rate, throttle_for
from pulsar_barycenter.broker.topics.limits import (
    require_consumer_room,
    require_free_subscription,
    require_subscription_room,
)
from pulsar_barycenter.broker.topics.producer_access import EPOCH_PROPERTY, stored_epoch
from pulsar_barycenter.broker.topics.states import TopicEvent, TopicState
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic, TopicHost
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError, LedgerTerminatedError
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, NewEntry, Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol.frames import last_batch_index

log = structlog.get_logger(__name__)

LATEST: Final = Position(2**63 - 1, 2**63 - 1)
"""The position after every entry, as clients encode it."""

_PRODUCER: Final = itemgetter(0)


class PersistentTopic(Topic):
    __slots__ = ("_dispatch", "_last_message_id", "_lock", "compactions", "deduplication", "ledger", "subscriptions")

    ledger: ManagedLedger[Sent]
    compactions: TopicCompactions

    def __init__(self, name: TopicName, owned: OwnedBundle, host: TopicHost) -> None:
        super().__init__(name, owned, host)
        self.subscriptions: dict[str, PersistentSubscription] = {}
        self._dispatch: Throttle | None = None
        """The rate of the deliveries of all subscriptions together; None: no limit."""
        self._lock: asyncio.Lock | None = None
        self.deduplication: Deduplication | None = None
        # Set while the topic is in transfer: its ledger is closed then.
        self._last_message_id: tuple[Position, int] | None = None

    async def opened(self, ledger: ManagedLedger[Sent], *, deduplicate: bool) -> None:
        """Make the topic ready for clients after its managed ledger was opened. The durable cursors of the ledger
        become the subscriptions. With `deduplicate`, the sequence ids of producers are read; without it, the cursor of
        a former deduplication is deleted.

        Raises:
            LedgerFencedError: a later owner has opened the ledger.
            LedgerError: the entries that deduplication needs could not be read.
        """
        ledger.check_open()
        self.ledger = ledger
        self.compactions = TopicCompactions(self.name, ledger, self.host.compactions)
        for name, cursor in ledger.cursors.items():
            if name != deduplication.CURSOR_NAME:
                self.subscriptions[name] = PersistentSubscription(self, name, cursor, is_durable=True)
        if deduplicate:
            self.deduplication = await Deduplication.open(ledger, self.settings.deduplication, self.clock)
        elif deduplication.CURSOR_NAME in ledger.cursors:
            await ledger.delete_cursor(deduplication.CURSOR_NAME)

    def stored_producer_epoch(self) -> int | None:
        return stored_epoch(self.name, self.ledger.properties)

    async def store_producer_epoch(self, epoch: int) -> None:
        await self.ledger.update_properties({EPOCH_PROPERTY: str(epoch)})

    @property
    def deduplicates(self) -> bool:
        return self.deduplication is not None

    def last_sequence_id(self, producer_name: str) -> int:
        return self.deduplication.last_sequence_id(producer_name) if self.deduplication is not None else -1

    def _attach(self, producer: Producer) -> None:
        super()._attach(producer)
        if self.deduplication is not None:
            self.deduplication.producer_attached(producer.name)

    def _detach(self, producer: Producer) -> None:
        if self.deduplication is not None and self.producers.get(producer.name) is producer:
            self.deduplication.producer_detached(producer.name)
        super()._detach(producer)

    # ---- publishing ----

    def accept(self, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool) -> None:
        if are_chunks:
            sent[0][0].chunked_messages += len(sent)
        if self.deduplication is None:
            self._append(sent, entries)
        else:
            self._publish_new(self.deduplication, sent, entries, are_chunks=are_chunks)

    def _append(self, sent: Sequence[Sent], entries: Sequence[NewEntry]) -> bool:
        """Append entries of one producer to the ledger. Return False if the ledger accepted none of them. Then nothing
        is left to do for the caller: `write_failed` has sent errors to the producer, or, if the topic is being
        terminated, `_drop` has dropped the entries.
        """
        sent[0][0].pushed += len(sent)
        self.pending += len(sent)
        try:
            self.ledger.extend(entries, sent)
        except LedgerTerminatedError:
            self._drop(sent)
            return False
        except LedgerError as error:
            self.write_failed(sent, error)
            return False
        except BaseException:
            sent[0][0].pushed -= len(sent)
            self.completed(len(sent))
            raise
        return True

    def _drop(self, sent: Sequence[Sent]) -> None:
        """Drop entries that arrived while the topic is being terminated, and send no answer. When the end is stored,
        the producer gets CLOSE_PRODUCER. Its client then reconnects, and gets the error that the topic is terminated.

        Pulsar, too, sends CLOSE_PRODUCER before the errors. If an error came first, the client for Go would remove the
        producer, miss the CLOSE_PRODUCER, and wait for ever.
        """
        producer = sent[0][0]
        producer.pushed -= len(sent)
        for _, _, _, _, size, _ in sent:
            producer.link.publish_failed(producer, size)
        self.completed(len(sent))

    def _publish_new(
        self, known: Deduplication, sent: Sequence[Sent], entries: Sequence[NewEntry], *, are_chunks: bool
    ) -> None:
        """Publish those messages that are no duplicates. If one of them is possibly a duplicate, they are handled one
        by one: each message is checked after the one before it was published.
        """
        _, sequence_ids, highest_ids, _, _, _ = zip(*sent, strict=True)
        first = sent[0][0]
        ids = known.ids_of_new(first.name, sequence_ids, highest_ids)
        if ids and not are_chunks and not first.closed:
            if self._append(sent, entries):
                known.pushed_new(first.name, ids)
            return
        for send, entry in zip(sent, entries, strict=True):
            producer, sequence_id, highest_id, _, size, _ = send
            if producer.closed:  # by the answer to an earlier message; its client sends these again
                producer.link.publish_failed(producer, size)
            elif self._is_new(known, producer, sequence_id, highest_id, size) and self._append([send], [entry]):
                known.pushed(producer.name, sequence_id, highest_id, entry[0], is_chunk=are_chunks)

    def _is_new(self, known: Deduplication, producer: Producer, sequence_id: int, highest_id: int, size: int) -> bool:
        """Return whether a message is new and has to be stored. If it is a duplicate, send the answer: a receipt if it
        is stored already; an error and CLOSE_PRODUCER if it is still being written.
        """
        status = known.check(producer.name, sequence_id, highest_id)
        if status is DuplicateStatus.NEW:
            return True
        log.debug("duplicate_dropped", topic=str(self.name), producer=producer.name, sequence_id=sequence_id)
        if status is DuplicateStatus.STORED:
            producer.link.send_duplicate(producer, sequence_id, highest_id, size)
        else:
            producer.link.publish_failed(producer, size)
            producer.link.send_error(producer, sequence_id, MessagePendingError(self.name, producer.name, sequence_id))
            self.close_producer(producer)
        return False

    def write_durable(self, group: Sequence[Sent], first: Position) -> None:
        """Called by the managed ledger when the entries of `group` are durable, the first one at position `first`. Send
        their receipts, then dispatch to consumers. If this broker may not acknowledge messages any more, because its
        term has ended, send no receipts.
        """
        owned = self.owned
        if self.room.is_full:
            self.room.write_succeeded()
        if self.deduplication is not None and self.deduplication.persisted(len(group)):
            self.start_task(self.deduplication.snapshot(), f"deduplication-snapshot:{self.name}")
        if owned.may_acknowledge:
            owned.acknowledged(len(group), self.clock.now_ms())
            self._send_receipts(group, first)
        else:
            log.warning("receipts_withheld", topic=str(self.name), epoch=owned.epoch, entries=len(group))
            for producer, _, _, _, size, _ in group:
                producer.completed += 1
                producer.link.publish_failed(producer, size)
        self.completed(len(group))
        for subscription in self.subscriptions.values():
            if subscription.dispatcher is not None:
                try:
                    subscription.dispatcher.dispatch()
                except Exception:  # an error of one subscription must not stop the ledger or other subscriptions
                    log.exception("dispatch_failed", subscription=str(subscription))

    def _send_receipts(self, group: Iterable[Sent], first: Position) -> None:
        ledger_id, entry_id = first
        for producer, run in groupby(group, key=_PRODUCER):
            # With a deferred answer, send the receipts one by one: the answer may have to follow any of them.
            for sent in [list(run)] if producer.deferred is None else [[send] for send in run]:
                _, sequence_ids, highest_ids, messages, sizes, _ = zip(*sent, strict=True)
                size = sum(sizes)
                producer.completed += len(sent)
                producer.link.send_receipts(producer, sequence_ids, highest_ids, Position(ledger_id, entry_id), size)
                self.published(producer, sum(messages), size)
                entry_id += len(sent)

    def fenced(self, error: LedgerFencedError) -> None:
        """Called by the ledger when a later owner has fenced it. Refuse clients and messages from now on, end the term
        of the bundle, and close the topic. While the topic is being opened, do nothing: then `opened` raises the error.
        """
        if not hasattr(self, "ledger"):
            return
        self.begin_closing()
        self.host.ledger_fenced(self, str(error))

    def write_failed(self, group: Sequence[Sent], error: LedgerError) -> None:
        """Called by the ledger when the messages of `group` could not be stored. Send an error for each message, and
        close their producers. If the ledger was fenced, do neither: `fenced` disconnects the clients, which look the
        topic up and send the messages to the next owner.
        """
        fenced = isinstance(error, LedgerFencedError)
        self.room.write_failed(error, asyncio.get_running_loop().time())
        if self.deduplication is not None:
            self.deduplication.failed()
        log.error("write_failed", topic=str(self.name), entries=len(group), error=str(error))
        producers: dict[Producer, None] = {}
        for producer, sequence_id, _, _, size, _ in group:
            producer.completed += 1
            producer.link.publish_failed(producer, size)
            if not fenced and self.state is TopicState.OPEN:
                producer.link.send_error(producer, sequence_id, error)
            producers[producer] = None
        self.completed(len(group))
        for producer in producers if not fenced else ():
            if not producer.closed:
                self.close_producer(producer)

    # ---- subscriptions ----

    @property
    def lock(self) -> asyncio.Lock:
        """The lock of the topic's set of subscriptions: hold it while a subscription is created or deleted."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    async def subscribe(self, link: ClientLink, request: SubscribeRequest) -> Consumer:
        """Attach a consumer; create its subscription if it does not exist.

        Raises:
            SubscriptionBusyError, ConsumerAssignError: for the reasons in `PersistentSubscription.attach`. Consumers
                whose clients do not answer are removed before a consumer is refused as SubscriptionBusyError.
            TooManyConsumersError, TooManySubscriptionsError: the topic has reached the limit.
            SubscriptionNotFoundError: the subscription does not exist, and the policies do not allow to create it.
            TopicFencedError: the topic is being closed, moved or changed.
            NotAllowedError: a shared subscription asks for the compacted topic, the name is one of BROKERS_CURSORS, or
                for the reasons in `require_subscribable`.
        """
        if request.options.read_compacted and request.sub_type.is_shared:
            raise NotAllowedError("readCompacted only allowed on failover or exclusive subscriptions")
        require_free_subscription(request.subscription)
        self.require_subscribable(link, request)
        limits = await self.host.policies.limits(self.name)
        while True:
            self.check_open()
            subscription = await self._subscription_for(request)
            await subscription.wait_open()
            self.check_open()
            self.check_subscription_open(subscription.name)
            if self.subscriptions.get(request.subscription) is not subscription:
                continue
            try:
                require_consumer_room(self, subscription.name, subscription.consumers, limits)
                return subscription.attach(
                    link,
                    request.consumer_id,
                    request.sub_type,
                    request.options,
                    request.key_shared_mode,
                    allow_out_of_order=request.allow_out_of_order,
                )
            except SubscriptionBusyError:
                if not await remove_dead(subscription.consumers):
                    raise

    async def _subscription_for(self, request: SubscribeRequest) -> PersistentSubscription:
        name = request.subscription
        async with self.lock:
            self.check_open()
            present = self.subscriptions.get(name)
            if present is not None:
                if present.is_durable != request.is_durable and present.consumers:
                    raise SubscriptionBusyError(
                        self.name,
                        name,
                        "a subscription cannot have durable and non-durable consumers at the same time; "
                        "close the connected consumers first, or use another subscription",
                    )
                if present.is_durable or present.consumers or present.is_sought:
                    if request.properties and present.is_durable and not present.cursor.properties:
                        await present.cursor.set_properties(request.properties)
                    return present
                # The last reader has left: the start position in the new reader's request counts, not the old cursor.
                self.remove_subscription(present)
            if not request.is_durable:
                require_subscription_room(self.name, self.subscriptions, await self.host.policies.limits(self.name))
                return self._read_from(name, await self._start_of(request))
            if not await self.host.policies.may_subscribe(self.name):
                raise SubscriptionNotFoundError(self.name, name)
            return await self.create_subscription(
                name, EARLIEST if request.from_earliest else LATEST, request.properties
            )

    async def create_subscription(
        self, name: str, start: Position, properties: dict[str, str] | None = None
    ) -> PersistentSubscription:
        """Create a durable subscription that gets the entry at `start` first; EARLIEST and LATEST are the ends of the
        topic.

        The caller holds `lock`.

        Raises:
            NotAllowedError: the name is one of BROKERS_CURSORS, or the topic has reached its limit of subscriptions.
            TopicFencedError: a change of the partitioned topic is deleting the subscription.
        """
        self.check_subscription_open(name)
        await self.check_subscription_allowed(name)
        return await self.make_subscription(name, start, properties)

    async def check_subscription_allowed(self, name: str) -> None:
        """Check that a subscription of this name may be created. Raises NotAllowedError: the name is one of
        BROKERS_CURSORS, or the topic has reached its limit of subscriptions.
        """
        require_free_subscription(name)
        require_subscription_room(self.name, self.subscriptions, await self.host.policies.limits(self.name))

    async def make_subscription(
        self, name: str, start: Position, properties: dict[str, str] | None = None
    ) -> PersistentSubscription:
        """Create a durable subscription that gets the entry at `start` first, without the checks of
        `create_subscription`. The caller holds `lock`.

        Raises:
            LedgerError: the cursor could not be stored.
        """
        cursor = await self.ledger.open_cursor(name, start, properties)
        subscription = self.subscriptions[name] = PersistentSubscription(self, name, cursor, is_durable=True)
        subscription.follow(self.rules, self._dispatch)
        log.debug("subscription_created", topic=str(self.name), subscription=name, mark_delete=str(cursor.mark_delete))
        return subscription

    def _read_from(self, name: str, start: Position) -> PersistentSubscription:
        cursor = self.ledger.new_non_durable_cursor(start, name)
        subscription = self.subscriptions[name] = PersistentSubscription(self, name, cursor, is_durable=False)
        subscription.follow(self.rules, self._dispatch)
        return subscription

    async def _start_of(self, request: SubscribeRequest) -> Position:
        if request.start_rollback_s > 0:
            time_ms = self.clock.now_ms() - request.start_rollback_s * 1000
            return await self.position_at(time_ms, compacted=request.options.read_compacted)
        return request.start if request.start is not None else LATEST

    async def position_at(self, publish_time_ms: int, *, compacted: bool = False) -> Position:
        """Return the position of the first entry published at or after that time, LATEST if there is none. With
        `compacted`, search the compacted ledger, too, and return the lower of the two positions.
        """
        found = await self.ledger.find_by_publish_time(publish_time_ms)
        kept = await self.ledger.compacted.find_by_publish_time(publish_time_ms) if compacted else None
        return min(found or LATEST, kept or LATEST)

    def remove_subscription(self, subscription: PersistentSubscription) -> None:
        """Remove a subscription from memory and disconnect its consumers. Its stored cursor stays."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
        subscription.disconnect_all()

    def consumer_left(self, subscription: PersistentSubscription) -> None:
        self.last_active_ms = self.clock.now_ms()
        if not subscription.is_durable and not subscription.consumers and not subscription.is_sought:
            self.remove_subscription(subscription)

    async def unsubscribe(self, consumer: Consumer, *, force: bool) -> None:
        subscription = self.subscriptions.get(consumer.subscription.name)
        if subscription is None:
            raise SubscriptionNotFoundError(self.name, consumer.subscription.name)
        if not force and len(subscription.consumers) > 1:
            raise SubscriptionBusyError(self.name, subscription.name, "other consumers are connected")
        subscription.detach(consumer)
        await self.delete_subscription(subscription.name, force=True)

    def check_subscription_deletable(self, name: str, *, force: bool) -> None:
        subscription = self.subscriptions.get(name)
        if subscription is None and not self.ledger.is_deleting(name):
            raise SubscriptionNotFoundError(self.name, name)
        if subscription is not None and subscription.consumers and not force:
            raise SubscriptionBusyError(self.name, name, "consumers are connected")
        if name == COMPACTION_CURSOR and self.ledger.compacted.is_running:
            raise SubscriptionBusyError(self.name, name, "the topic is being compacted")

    async def delete_subscription(self, name: str, *, force: bool) -> None:
        """Delete a subscription and its cursor.

        Raises:
            SubscriptionNotFoundError: the subscription does not exist.
            SubscriptionBusyError: consumers are connected and `force` is not set, or it is the broker's own
                subscription for compaction and the topic is being compacted.
        """
        async with self.lock:
            self.check_subscription_deletable(name, force=force)
            subscription = self.subscriptions.get(name)
            if subscription is not None:
                self.remove_subscription(subscription)
            if name == COMPACTION_CURSOR:
                await self.ledger.compacted.forget()
            elif subscription is None or subscription.is_durable:
                await self.ledger.delete_cursor(name)
        log.debug("subscription_deleted", topic=str(self.name), subscription=name)

    def consumers(self) -> Iterable[Consumer]:
        for subscription in self.subscriptions.values():
            yield from subscription.consumers

    @property
    def has_messages(self) -> bool:
        return self.ledger.stats.size > 0

    @property
    def has_backlog(self) -> bool:
        return any(subscription.cursor.backlog_entries for subscription in self.subscriptions.values())

    @property
    def subscription_count(self) -> int:
        return len(self.subscriptions)

    async def last_message_id(self, *, compacted: bool = False) -> tuple[Position, int]:
        if self._last_message_id is not None:
            return self._last_message_id
        while True:
            last = self.ledger.last_position
            if compacted and last <= self.ledger.compacted.horizon:
                kept = await self.ledger.compacted.last_entry()
                if kept is None:
                    return EARLIEST, -1
                return kept.position, last_batch_index(kept.data) if kept.last_kept is None else kept.last_kept
            if last.entry_id < 0:
                return EARLIEST, -1
            entries = await self.ledger.read(last, 1, 1 << 20)
            if entries:
                break  # else the read found that the entry is missing, and another entry is the last now
        return last, last_batch_index(entries[0].data)

    # ---- retention and backlog quotas ----

    async def check_backlog(self) -> None:
        exceeded = await self.backlog_excess(self.clock.now_ms())
        if exceeded is None or exceeded.policy is QuotaPolicy.EVICT:
            return
        is_held = exceeded.policy is QuotaPolicy.HOLD
        raise (ProducerHeldError if is_held else BacklogQuotaExceededError)(self.name, str(exceeded))

    async def backlog_excess(self, now_ms: int) -> Excess | None:
        """Return the quota that the backlog exceeds. None if it exceeds none, or the backlog cannot be measured because
        entries cannot be read.
        """
        try:
            return await excess(self, self.storage.backlog, now_ms)
        except LedgerError as error:
            log.warning("backlog_not_measured", topic=str(self.name), error=str(error))
            return None

    def disconnect_producers(self) -> None:
        """Close every attached producer and notify its client, which may connect again. If producers wait for exclusive
        access, the first of them attaches.
        """
        for producer in list(self.producers.values()):
            self.close_producer(producer)

    @property
    def storage(self) -> StoragePolicies:
        """The rules for how long and how much of this topic's messages is stored."""
        return self.rules.storage

    def follow(self, rules: TopicRules) -> None:
        """Apply the given rules to the topic and its subscriptions from now on. If the retention changed, start to
        delete the consumed ledgers that the new rules no longer keep.
        """
        before, settings_before = self.rules, self.settings
        super().follow(rules)
        if rules == before and self.settings is settings_before:
            return
        settings = self.ledger.settings
        retention = rules.storage.retention
        self.ledger.settings = replace(settings, retention=retention, mark_delete_per_second=rules.mark_delete_rate)
        if settings.retention != retention:
            self.ledger.trim()
        if self.deduplication is not None:
            self.deduplication.settings = self.settings.deduplication
        if before.dispatch_rate != rules.dispatch_rate:
            self._dispatch = self.throttle_of(rules.dispatch_rate)
        for subscription in self.subscriptions.values():
            subscription.follow(rules, self._dispatch)

    def throttle_of(self, rate: DispatchRate) -> Throttle | None:
        """Return a new throttle for a rate of deliveries from this topic, None if the rate sets no limit."""
        inbound = self.in_rates
        return throttle_for(rate, inbound.rate, inbound.throughput, asyncio.get_running_loop().time())

    # ---- truncation ----

    async def truncate(self) -> None:
        """Acknowledge every entry on all subscriptions, also on the broker's own, so that closed ledgers are deleted.

        The ledger that is being written is kept with its entries until it is full. Compacted messages are not deleted.

        Raises:
            CompactionRunningError: the topic is being compacted.
            TopicFencedError: the topic is closing.
            LedgerError: a cursor could not be stored. Call this again to complete it.
        """
        self.check_open()
        if self.ledger.compacted.is_running:
            raise CompactionRunningError(self.name)
        if self.deduplication is not None:
            await self.deduplication.snapshot()
        for subscription in list(self.subscriptions.values()):
            await clear_backlog(subscription)

    # ---- termination ----

    def check_writable(self) -> None:
        if self.ledger.is_ended:
            raise TopicTerminatedError(self.name)

    async def terminate(self) -> Position:
        """Terminate the topic: accept no message any more. Return the position of the last message, EARLIEST if there
        is none. If the topic is terminated already, the same position is returned.

        Messages that are being written get their receipts; then the producers are closed. Messages that arrive during
        this call get no answer. Consumers can read to the end of the topic.

        Raises:
            TopicFencedError: the topic is closing.
            LedgerError: the end could not be stored. The topic refuses messages nevertheless. Call this again to
                complete it.
        """
        async with self.lock:
            self.check_open()
            try:
                end = await self.ledger.terminate()
            finally:
                self.close_producers()
        for subscription in self.subscriptions.values():
            subscription.watch_end()
        log.info("topic_terminated", topic=str(self.name), position=str(end))
        return end

    # ---- compaction ----

    async def prepare_compaction(self) -> None:
        """Create the broker's own subscription for compaction, if it does not exist. Its cursor protects entries that
        are not compacted from being trimmed.

        Raises:
            LedgerError: the cursor could not be stored.
        """
        async with self.lock:
            cursor = await self.ledger.compacted.open_cursor()
            if COMPACTION_CURSOR not in self.subscriptions:
                self.subscriptions[COMPACTION_CURSOR] = PersistentSubscription(
                    self, COMPACTION_CURSOR, cursor, is_durable=True
                )

    async def compact(self) -> None:
        """Start a compaction, and return while it runs.

        Raises:
            CompactionRunningError: a compaction is running already.
            NotAllowedError: compaction is switched off, because the records of ledgers are in Pulsar's form.
            TopicFencedError: the topic is closing.
            LedgerError: the cursor of the compaction could not be stored.
        """
        self.check_open()
        if refusal := self.ledger.compacted.refusal:
            raise NotAllowedError(f"Topic {self.name}: {refusal}")
        await self.prepare_compaction()
        self.compactions.trigger()

    # ---- closing ----

    async def close(self, reason: str, owner: NextOwner | None = None) -> None:
        if self.state is TopicState.CLOSED:
            return
        self.begin_closing()
        try:
            await self.wait_drained()
        finally:
            self.disconnect_all(owner)
        try:
            await self.release()
        finally:
            self.on(TopicEvent.END)
        log.debug("topic_closed", topic=str(self.name), reason=reason)

    def hold_consumers(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.hold()

    async def release(self) -> None:
        try:
            await self.wait_drained()
        finally:
            self._cancel_tasks()
        try:
            if self.deduplication is not None:
                await self.deduplication.snapshot()
            if self.state.is_transfer and self.consumer_count:
                await self._keep_last_message_id()
        finally:
            await self.ledger.close()

    async def _keep_last_message_id(self) -> None:
        """Keep the last message id in memory before the ledger is closed. Readers that request it during the transfer
        get this one: without an answer, their clients would report an error.
        """
        try:
            self._last_message_id = await self.last_message_id()
        except LedgerError:
            self._last_message_id = self.ledger.last_position, -1

    def disconnect_all(self, owner: NextOwner | None = None) -> None:
        self.close_producers(owner)
        for subscription in list(self.subscriptions.values()):
            subscription.disconnect_all(owner)

    async def delete(self, *, force: bool, only_unused: bool = False) -> None:
        self.check_deletable(force=force, only_unused=only_unused)
        if self.state is not TopicState.OPEN:
            raise TopicFencedError(self.name, "the topic is being closed")
        self.begin_closing()
        try:
            await self.wait_drained()
        finally:
            self.disconnect_all()
            self._cancel_tasks()
        await self.ledger.delete()
        self.on(TopicEvent.END)

    def update_rates(self, seconds: float) -> None:
        super().update_rates(seconds)
        self.ledger.end_interval(seconds)
        for subscription in self.subscriptions.values():
            subscription.update_rates(seconds)
        if has_relative_rate(self.rules):
            self._dispatch = self.throttle_of(self.rules.dispatch_rate)
            for subscription in self.subscriptions.values():
                subscription.follow(self.rules, self._dispatch, is_new_rate=True)
