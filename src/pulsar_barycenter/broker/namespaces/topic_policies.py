"""What namespaces allow their topics, as the registry asks for it; answered by `resources`."""

from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The most of each that a topic takes; 0 is no limit."""

    producers: int = 0
    consumers: int = 0
    consumers_per_subscription: int = 0
    subscriptions: int = 0


NO_LIMITS: Final = TopicLimits()


class TopicPolicies(Protocol):
    async def limits(self, topic: TopicName) -> TopicLimits:
        """Return how many clients and subscriptions a topic takes."""
        ...

    async def deduplicates(self, namespace: NamespaceName) -> bool:
        """Tell whether topics of the namespace drop what a producer sent twice."""
        ...

    async def compaction_threshold(self, namespace: NamespaceName) -> int:
        """Return how many bytes of a topic of the namespace may wait to be compacted; 0 is no limit."""
        ...

    async def may_create(self, topic: TopicName) -> bool:
        """Tell whether a topic that does not exist is created when it is first used."""
        ...

    async def may_subscribe(self, topic: TopicName) -> bool:
        """Tell whether a subscription that does not exist is created when it is first used."""
        ...

    async def pending_change(self, partition: TopicName) -> PartitionedChange | None:
        """Return the change of the partitioned topic that is under way, as the store has it now."""
        ...
