"""The periodic work on loaded topics: delete unused topics and consumed ledgers, expire messages, bound backlogs, start
compactions, store snapshots of deduplication.

If the work on one topic fails, the error is logged and the other topics get their turn.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import structlog

from pulsar_barycenter.broker.errors import CompactionRunningError, ServiceError
from pulsar_barycenter.broker.namespaces.topic_policies import QuotaPolicy
from pulsar_barycenter.broker.topics.backlogs import evict, expire
from pulsar_barycenter.broker.topics.deduplication import Deduplication
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.internal_topics import is_internal_topic

log = structlog.get_logger(__name__)

STEP_TOPICS: Final = 50
"""The topics that are looked at in one step of the event loop, if nothing has to be read for them."""


class TopicUpkeep:
    """The periodic work on the topics that `registry` has loaded. Each method is one round; a timer calls it."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    def _persistent(self) -> list[PersistentTopic]:
        return [topic for topic in self._registry.loaded() if isinstance(topic, PersistentTopic)]

    async def _open(self) -> AsyncIterator[PersistentTopic]:
        """Yield the persistent topics that are open; others have their turn after each STEP_TOPICS topics."""
        for number, topic in enumerate(self._persistent(), 1):
            if topic.state is TopicState.OPEN:
                yield topic
            if number % STEP_TOPICS == 0:
                await asyncio.sleep(0)

    async def delete_inactive(self, now_ms: int, idle_ms: int) -> int:
        """Delete the persistent topics that had no producer and no subscription for `idle_ms` and for the time of their
        retention; return the number of topics.

        This is Pulsar's mode `delete_when_no_subscriptions`. Non-persistent topics are only removed from memory.
        """
        idle = [
            topic
            for topic in self._registry.loaded()
            if topic.is_inactive
            and now_ms - topic.last_active_ms >= idle_ms
            and not _is_retained(topic, now_ms)
            and topic.state is TopicState.OPEN
            and not is_internal_topic(topic.name)
        ]
        deleted = 0
        for topic in idle:
            if topic.is_inactive and topic.state is TopicState.OPEN:
                try:
                    await self._registry.delete_topic(topic.name, force=False, only_unused=True)
                    deleted += 1
                except Exception as error:  # noqa: BLE001 (an error of one topic must not stop the others)
                    log.warning("inactive_topic_not_deleted", topic=str(topic.name), error=str(error))
        return deleted

    async def trim(self) -> int:
        """For each topic, start to end its ledger if the ledger is too old, and to delete consumed ledgers whose
        retention has ended; return the number of topics.
        """
        trimmed = 0
        async for topic in self._open():
            topic.ledger.roll_if_old()
            topic.ledger.trim()
            trimmed += 1
        return trimmed

    async def expire_messages(self, now_ms: int) -> int:
        """Let messages older than the TTL of their namespace leave every backlog; return the number of messages, summed
        over the subscriptions.
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
        """Disconnect the producers of topics whose backlog exceeds a quota, or evict the oldest messages, as the
        policy of the quota says; return the number of topics.
        """
        exceeded = 0
        async for topic in self._open():
            try:
                exceeded += await _bound_backlog(topic, now_ms)
            except LedgerError as error:  # must not stop the other topics
                log.warning("backlog_not_bounded", topic=str(topic.name), error=str(error))
        return exceeded

    async def compact_due(self) -> int:
        """Start to compact the topics with more uncompacted bytes than their namespace's threshold; return the number
        of topics.

        A topic without a threshold is compacted on request only.
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
        """Store the snapshots of deduplication that are due by time; return the number of topics that stored one.

        The interval is `brokerDeduplicationSnapshotIntervalSeconds`.
        """
        now_ms = self._registry.clock.now_ms()
        return await self._store([memory for memory in self._deduplications() if memory.is_due(now_ms)])

    async def forget_producers(self) -> int:
        """Forget the producer names of deduplication that are inactive; return the number of topics that stored a
        snapshot because of this.

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


def _is_retained(topic: Topic, now_ms: int) -> bool:
    """Return whether the time of retention keeps an unused topic. Source: Pulsar's
    `PersistentTopic.shouldTopicBeRetained`.
    """
    if not isinstance(topic, PersistentTopic):
        return False
    time_ms = topic.ledger.settings.retention.time_ms
    return time_ms < 0 or now_ms - topic.last_active_ms < time_ms


async def _bound_backlog(topic: PersistentTopic, now_ms: int) -> bool:
    """Enforce the backlog quotas of a topic; return whether its backlog exceeds one."""
    exceeded = await topic.backlog_excess(now_ms)
    if exceeded is None or topic.state is not TopicState.OPEN:
        return False
    if exceeded.policy is QuotaPolicy.EVICT:
        await evict(topic, exceeded, now_ms)
    elif topic.producers:
        log.info("producers_disconnected", topic=str(topic.name), reason=str(exceeded))
        topic.disconnect_producers()
    return True
