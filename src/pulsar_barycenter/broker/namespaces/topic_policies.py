"""The interface by which the topic registry reads policies of topics. `resources` implements it."""

from typing import Protocol

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.topic_limits import TopicLimits
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.naming.topic import TopicName


class TopicPolicies(Protocol):
    async def limits(self, topic: TopicName) -> TopicLimits:
        """Return the limits of a topic."""
        ...

    async def known(self, topic: TopicName) -> None:
        """Wait until the topic's own policies are known. The other methods do not wait for them.

        The caller limits the time.
        """
        ...

    async def deleted(self, topic: TopicName) -> None:
        """Remove the own policies of a topic that is being deleted."""
        ...

    async def deduplicates(self, topic: TopicName) -> bool:
        """Return whether the topic uses deduplication."""
        ...

    async def compaction_threshold(self, topic: TopicName) -> int:
        """Return the number of uncompacted bytes above which the topic is compacted; 0: never."""
        ...

    async def rules(self, topic: TopicName) -> TopicRules:
        """Return the rules for the topic from policies and configuration, except its limits."""
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
        """Return the change that the partitioned topic of this partition is making now, read from the store; None if
        there is none.
        """
        ...
