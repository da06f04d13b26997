"""The interface by which the topic registry reads policies of topics. `resources` implements it."""

from typing import Protocol

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import BookieAffinityGroup
from pulsar_barycenter.broker.namespaces.topic_limits import TopicLimits
from pulsar_barycenter.broker.namespaces.topic_rules import TopicRules
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.naming.topic import TopicName


class TopicPolicies(Protocol):
    async def limits(self, topic: TopicName) -> TopicLimits:
        """Return the limits of a topic."""
        ...

    async def known(self, topic: TopicName) -> None:
        """Wait until the policies that are set for the topic itself are known. The other methods do not wait: they use
        those that are known.

        There is no time limit here; the caller has to set one.
        """
        ...

    async def deleted(self, topic: TopicName) -> None:
        """Remove the policies that are set for a topic itself, because the topic is being deleted."""
        ...

    async def deduplicates(self, topic: TopicName) -> bool:
        """Return whether the topic uses deduplication."""
        ...

    async def compaction_threshold(self, topic: TopicName) -> int:
        """Return the number of uncompacted bytes above which the topic is compacted; 0: never."""
        ...

    async def rules(self, topic: TopicName) -> TopicRules:
        """Return the rules for the topic, made from its policies and the configuration, without its limits."""
        ...

    async def bookies(self, topic: TopicName) -> BookieAffinityGroup:
        """Return the groups of bookies on which the entries of the topic's new ledgers are stored."""
        ...

    async def schema_rules(self, topic: TopicName) -> SchemaRules:
        """Return the rules for the schemas of a topic."""
        ...

    async def may_create(self, topic: TopicName) -> bool:
        """Return whether the topic, which does not exist, is created when a client uses it."""
        ...

    async def may_subscribe(self, topic: TopicName) -> bool:
        """Return whether a subscription of the topic that does not exist is created when a client uses it."""
        ...

    async def pending_change(self, partition: TopicName) -> PartitionedChange | None:
        """Return the change of a partitioned topic that is in progress and concerns `partition`, read from the store;
        None if there is none.
        """
        ...
