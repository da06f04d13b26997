"""The policies of namespaces that the topic registry needs; `resources` implements them."""

import enum
from dataclasses import dataclass
from typing import Final, Protocol

from pulsar_barycenter.broker.namespaces.partitioned_changes import PartitionedChange
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.ledger.ledger_settings import NO_RETENTION, Retention
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


class QuotaPolicy(enum.Enum):
    """The action when a backlog exceeds its quota. The values are Pulsar's names (`BacklogQuota.RetentionPolicy`).

    HOLD: producers are disconnected with an error after which clients try again. REFUSE: producers are disconnected
    with an error after which clients fail. EVICT: the oldest messages leave the backlog.
    """

    HOLD = "producer_request_hold"
    REFUSE = "producer_exception"
    EVICT = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """The backlog quotas of a topic: `size` in bytes, below 0 no limit; `age_s` in seconds, 0 no limit."""

    size: int = -1
    size_policy: QuotaPolicy = QuotaPolicy.HOLD
    age_s: int = 0
    age_policy: QuotaPolicy = QuotaPolicy.HOLD


NO_BACKLOG_LIMITS: Final = BacklogLimits()


@dataclass(frozen=True, slots=True)
class StoragePolicies:
    """How long the stored messages of a topic stay.

    `retention` applies to acknowledged messages. Messages that are not acknowledged leave every backlog at an age of
    `ttl_s` seconds (0: never). `backlog` has the quotas of the backlog.
    """

    retention: Retention = NO_RETENTION
    ttl_s: int = 0
    backlog: BacklogLimits = NO_BACKLOG_LIMITS


NO_STORAGE_POLICIES: Final = StoragePolicies()


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

    async def storage(self, topic: TopicName) -> StoragePolicies:
        """Return how long the stored messages of the topic stay."""
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
