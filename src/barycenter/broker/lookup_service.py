"""Which broker serves a topic: the service behind both lookup front ends.

Source: Pulsar's `NamespaceService.findBrokerServiceUrl` and `searchForCandidateBroker`.
"""

from typing import Protocol

from barycenter.broker.lookup_answers import LookupAnswer, Owner
from barycenter.naming.bundle import Bundle
from barycenter.naming.namespace import NamespaceName
from barycenter.naming.topic import TopicName


class LookupService(Protocol):
    """What connections and REST handlers ask. Errors: see `lookup_answers`."""

    def lookup_cached(self, topic: TopicName, listener: str | None = None) -> Owner | None:
        """Return the owner of the topic's bundle if it is known now; never waits, takes no lookup permit.

        Ask this first. None says nothing about ownership: call `lookup`.
        """
        ...

    async def lookup(
        self, topic: TopicName, *, authoritative: bool = False, listener: str | None = None
    ) -> LookupAnswer:
        """Find the owner of the topic's bundle, or have one chosen. Held while the bundle is in transit.

        Raises:
            LookupError: see `lookup_answers`.
            MetadataError: the store could not be read.
        """
        ...

    async def lookup_bundle(
        self, bundle: Bundle, *, authoritative: bool = False, read_only: bool = False, listener: str | None = None
    ) -> LookupAnswer | None:
        """The same for a bundle, for admin requests. `read_only` never assigns: None if nobody owns the bundle."""
        ...

    async def bundle_of(self, topic: TopicName) -> Bundle:
        """Return the bundle that the topic belongs to; needs no owner."""
        ...

    async def partitions(self, topic: TopicName, *, auto_create: bool) -> int:
        """Return the number of partitions, 0 for a topic that is not partitioned; may create the record."""
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: str) -> list[str]:
        """Return topic names, partitions one by one. `mode`: "PERSISTENT", "NON_PERSISTENT" or "ALL"."""
        ...
