"""What is done to loaded topics from time to time: unused ones are found, ones that have much to compact compacted."""

from collections.abc import Awaitable, Callable, Iterable

import structlog

from pulsar_barycenter.broker.errors import CompactionRunningError, ServiceError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


async def compact_due(topics: Iterable[Topic], threshold_of: Callable[[TopicName], Awaitable[int]]) -> int:
    """Start compacting the topics that have more bytes to be compacted than their threshold; return how many.

    A topic whose threshold is 0 is compacted by request only.
    """
    loaded = [topic for topic in topics if isinstance(topic, PersistentTopic)]
    started = 0
    for topic in loaded:
        try:
            threshold = await threshold_of(topic.name)
            if threshold and topic.state is TopicState.OPEN:
                await topic.prepare_compaction()
                if topic.compactions.uncompacted_bytes() > threshold:
                    await topic.compact()
                    started += 1
        except CompactionRunningError:
            continue
        except (ServiceError, LedgerError, MetadataError) as error:  # one topic must not keep the others
            log.warning("topic_not_compacted", topic=str(topic.name), error=str(error))
    return started


def inactive_topics(topics: Iterable[Topic], now_ms: int, idle_ms: int) -> list[Topic]:
    """Return the open topics that nobody has used for `idle_ms`; a broker's internal topics are in use always."""
    return [
        topic
        for topic in topics
        if topic.is_inactive
        and now_ms - topic.last_active_ms >= idle_ms
        and topic.state is TopicState.OPEN
        and not is_internal_topic(topic.name)
    ]
