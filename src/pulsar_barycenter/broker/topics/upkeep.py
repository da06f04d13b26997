"""The periodic work on loaded topics: delete unused topics, start compactions, store snapshots of deduplication.

If the work on one topic fails, the error is logged and the other topics get their turn.
"""

import structlog

from pulsar_barycenter.broker.errors import CompactionRunningError, ServiceError
from pulsar_barycenter.broker.topics.deduplication import Deduplication
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.internal_topics import is_internal_topic

log = structlog.get_logger(__name__)


class TopicUpkeep:
    """The periodic work on the topics that `registry` has loaded. Each method is one round; a timer calls it."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    def _persistent(self) -> list[PersistentTopic]:
        return [topic for topic in self._registry.loaded() if isinstance(topic, PersistentTopic)]

    async def delete_inactive(self, now_ms: int, idle_ms: int) -> int:
        """Delete the persistent topics that had no producer and no subscription for `idle_ms`; return the number of
        topics.

        This is Pulsar's mode `delete_when_no_subscriptions`. Non-persistent topics are only removed from memory.
        """
        idle = [
            topic
            for topic in self._registry.loaded()
            if topic.is_inactive
            and now_ms - topic.last_active_ms >= idle_ms
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
