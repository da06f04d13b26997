"""The policies of namespaces that the topic registry needs; `resources` implements them."""

from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a topic; 0 means no limit."""

    producers: int = 0
    consumers: int = 0
    consumers_per_subscription: int = 0
    subscriptions: int = 0


NO_LIMITS: Final = TopicLimits()


class TopicPolicies(Protocol):
    async def limits(self, topic: TopicName) -> TopicLimits:
        """Return the limits of a topic."""
        ...

    async def deduplicates(self, namespace: NamespaceName) -> bool:
        """Return whether topics of the namespace use deduplication."""
        ...

    async def compaction_threshold(self, namespace: NamespaceName) -> int:
        """Return the uncompacted bytes above which a topic of the namespace is compacted; 0: it is never due."""
        ...

    async def schema_rules(self, topic: TopicName) -> SchemaRules:
        """Return the rules for the schemas of a topic."""
        ...

    async def may_create(self, topic: TopicName) -> bool:
        """Return whether clients may create the topic by using it."""
        ...

    async def may_subscribe(self, topic: TopicName) -> bool:
        """Return whether clients may create a subscription of the topic by using it."""
        ...

    async def pending_change(self, partition: TopicName) -> PartitionedChange | None:
        """Return the pending change of a partition's partitioned topic, read from the store; None if there is none."""
        ...
