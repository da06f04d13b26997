"""What namespaces allow their topics, as the registry asks for it; answered by `resources`."""

from typing import Protocol

from barycenter.naming.namespace import NamespaceName
from barycenter.naming.topic import TopicName


class TopicPolicies(Protocol):
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
