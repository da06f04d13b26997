"""The periodic work on loaded topics: delete unused topics and consumed ledgers, expire messages, limit backlogs, start
compactions, and store snapshots of deduplication.

If the work on one topic fails, the error is logged and the work continues with the other topics.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import structlog

from pulsar_barycenter.broker.errors import CompactionRunningError, ServiceError
from pulsar_barycenter.broker.namespaces.policies import InactiveDeleteMode
from pulsar_barycenter.broker.namespaces.topic_limits import QuotaPolicy
from pulsar_barycenter.broker.topics.backlogs import clients_subscriptions, evict, expire
from pulsar_barycenter.broker.topics.deduplication import Deduplication
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.topic import is_system_topic

log = structlog.get_logger(__name__)

STEP_TOPICS: Final = 50
"""The number of topics that are checked in one iteration of the event loop, if nothing has to be read for them."""


class TopicUpkeep:
    """The periodic work on the loaded topics in `registry`. Each public method does one kind of work once for all
    topics; a timer calls it.
    """

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    def _persistent(self) -> list[PersistentTopic]:
        return [topic for topic in self._registry.loaded() if isinstance(topic, PersistentTopic)]

    async def _open(self) -> AsyncIterator[PersistentTopic]:
        """Yield the open persistent topics. After each STEP_TOPICS topics, let other tasks of the event loop run."""
        for number, topic in enumerate(self._persistent(), 1):
            if topic.state is TopicState.OPEN:
                yield topic
            if number % STEP_TOPICS == 0:
                await asyncio.sleep(0)

    async def delete_inactive(self, now_ms: int) -> int:
        """Delete the topics that have been unused for as long as their policies require, and whose retention time has
        passed. Return the number of deleted topics.

        A non-persistent topic stores nothing, so it is only removed from memory; it counts, too. If a topic cannot be
        deleted, this is logged.
        """
        idle = [
            topic
            for topic in self._registry.loaded()
            if _is_idle(topic, now_ms)
            and not _is_retained(topic, now_ms)
            and topic.state is TopicState.OPEN
            and not is_system_topic(topic.name)
        ]
        deleted = 0
        for topic in idle:
            if _is_idle(topic, now_ms) and topic.state is TopicState.OPEN:
                try:
                    only_unused = topic.rules.inactive.inactive_topic_delete_mode is not InactiveDeleteMode.CAUGHT_UP
                    await self._registry.delete_topic(topic.name, force=False, only_unused=only_unused)
                    deleted += 1
                except Exception as error:  # noqa: BLE001 (an error of one topic must not stop the others)
                    log.warning("inactive_topic_not_deleted", topic=str(topic.name), error=str(error))
        return deleted

    async def expire_subscriptions(self, now_ms: int) -> int:
        """Delete the subscriptions of clients that have had no consumer for as long as the policies require. Return the
        number of deleted subscriptions.
        """
        expired = 0
        async for topic in self._open():
            for subscription in clients_subscriptions(topic) if topic.rules.expiration_s else ():
                idle_ms = now_ms - subscription.last_active_ms
                if subscription.consumers or idle_ms < topic.rules.expiration_s * 1000:
                    continue
                try:
                    await topic.delete_subscription(subscription.name, force=False)
                    expired += 1
                    log.info("subscription_expired", subscription=str(subscription), idle_s=idle_ms // 1000)
                except (ServiceError, LedgerError) as error:  # must not stop the other subscriptions
                    log.warning("subscription_not_expired", subscription=str(subscription), error=str(error))
        return expired

    async def trim(self) -> int:
        """For each open persistent topic, start two things: roll its ledger if the ledger is too old, and delete
        consumed ledgers whose retention has ended. Return the number of topics, including those for which neither was
        necessary.
        """
        trimmed = 0
        async for topic in self._open():
            topic.ledger.roll_if_old()
            topic.ledger.trim()
            trimmed += 1
        return trimmed

    async def expire_messages(self, now_ms: int) -> int:
        """Remove messages that are older than the TTL of their topic from the backlog of every subscription of clients;
        return the number of removed messages, summed over the subscriptions.
        """
        expired = 0
        async for topic in self._open():
            try:
                if topic.storage.ttl_s:
                    expired += await expire(topic, topic.storage.ttl_s, now_ms)
            except LedgerError as error:  # must not stop the other topics
                log.warning("messages_not_expired", topic=str(topic.name), error=str(error))
        return expired

    async def check_backlogs(self, now_ms: int) -> int:
        """For each topic whose backlog exceeds a quota, do what the policy of the quota says: disconnect the producers,
        or evict the oldest messages. Return the number of topics whose backlog exceeded a quota before this.
        """
        exceeded = 0
        async for topic in self._open():
            try:
                exceeded += await _bound_backlog(topic, now_ms)
            except LedgerError as error:  # must not stop the other topics
                log.warning("backlog_not_bounded", topic=str(topic.name), error=str(error))
        return exceeded

    async def compact_due(self) -> int:
        """Start a compaction of each topic that has more uncompacted bytes than its threshold. Return the number of
        started compactions.

        A topic without a threshold is compacted only when an operator requests it.
        """
        started = 0
        for topic in self._persistent():
            try:
                threshold = await self._registry.compaction_threshold(topic.name)
                if threshold and topic.state is TopicState.OPEN:
                    await topic.prepare_compaction()
                    if topic.compactions.uncompacted_bytes() > threshold:
                        await topic.compact()
                        started += 1
            except CompactionRunningError:
                continue
            except (ServiceError, LedgerError, MetadataError) as error:  # must not stop the other topics
                log.warning("topic_not_compacted", topic=str(topic.name), error=str(error))
        return started

    async def snapshot_deduplication(self) -> int:
        """Store a snapshot of deduplication for each topic whose interval for this has passed and that has new entries.
        Return the number of topics that stored one.

        The interval is `brokerDeduplicationSnapshotIntervalSeconds`, unless policies set another one.
        """
        now_ms = self._registry.clock.now_ms()
        return await self._store([memory for memory in self._deduplications() if memory.is_due(now_ms)])

    async def forget_producers(self) -> int:
        """Remove inactive producer names from the deduplication of each topic, and store a snapshot for each topic that
        had such names. Return the number of topics that stored one.

        A name is inactive when its producer left more than `brokerDeduplicationProducerInactivityTimeoutMinutes` ago.
        """
        now_ms = self._registry.clock.now_ms()
        return await self._store([memory for memory in self._deduplications() if memory.forget_inactive(now_ms)])

    def _deduplications(self) -> list[Deduplication]:
        found = [topic.deduplication for topic in self._persistent() if topic.state is TopicState.OPEN]
        return [memory for memory in found if memory is not None]

    async def _store(self, due: list[Deduplication]) -> int:
        stored = 0
        for deduplication in due:
            try:
                await deduplication.snapshot()
                stored += 1
            except LedgerError as error:
                log.warning("deduplication_not_stored", topic=deduplication.topic, error=str(error))
        return stored


def _is_idle(topic: Topic, now_ms: int) -> bool:
    """Return whether a topic has been unused for so long that its policies require to delete it.

    Source: Pulsar's `PersistentTopic.checkGC`, `isActive`.
    """
    inactive = topic.rules.inactive
    if (
        not inactive.delete_while_inactive
        or now_ms - topic.last_active_ms < inactive.max_inactive_duration_seconds * 1000
    ):
        return False
    if inactive.inactive_topic_delete_mode is InactiveDeleteMode.CAUGHT_UP:
        return not topic.producers and not topic.consumer_count and not topic.has_backlog
    return topic.is_inactive


def _is_retained(topic: Topic, now_ms: int) -> bool:
    """Return whether an unused topic must be kept, because it has been unused for less than the time of its retention.
    Source: Pulsar's `PersistentTopic.shouldTopicBeRetained`.
    """
    if not isinstance(topic, PersistentTopic):
        return False
    time_ms = topic.ledger.settings.retention.time_ms
    return time_ms < 0 or now_ms - topic.last_active_ms < time_ms


async def _bound_backlog(topic: PersistentTopic, now_ms: int) -> bool:
    """If the backlog of an open topic exceeds a quota, do what the policy of the quota says, and return True. Otherwise
    return False.
    """
    exceeded = await topic.backlog_excess(now_ms)
    if exceeded is None or topic.state is not TopicState.OPEN:
        return False
    if exceeded.policy is QuotaPolicy.EVICT:
        await evict(topic, exceeded, now_ms)
    elif topic.producers:
        log.info("producers_disconnected", topic=str(topic.name), reason=str(exceeded))
        topic.disconnect_producers()
    return True
