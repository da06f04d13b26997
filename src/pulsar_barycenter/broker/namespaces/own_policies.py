"""The policies that are set for a single topic, and how they replace those of its namespace.

A policy of a topic replaces that of its namespace, which replaces the configuration. So the policies that a topic
follows are those of its namespace with the topic's own put over them (`overlaid`), in a record of the same type.

Names of fields are those of Pulsar's `TopicPolicies`, which is stored with an Avro schema (`broker.topic_policies`).
Fields of the type `Any` are stored and returned unchanged.

Source: Pulsar's `TopicPolicies`, `HierarchyTopicPolicies`, `AbstractTopic.updateTopicPolicy`.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    BacklogQuota,
    DelayedDeliveryPolicies,
    DispatchRate,
    EntryFilters,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    RetentionPolicies,
    SubscribeRate,
)
from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.naming.topic import TopicName


class SubscriptionPolicies(msgspec.Struct, frozen=True, rename="camel"):
    """The policies that are set for one subscription of a topic. None: not set."""

    dispatch_rate: DispatchRate | None = None


class OwnPolicies(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The policies that are set for one topic; for a partitioned topic they apply to all partitions. None: not set."""

    auto_subscription_creation_override: AutoSubscriptionCreationOverride | None = None
    back_log_quota_map: Mapping[str, BacklogQuota] | None = None
    compaction_threshold: int | None = None
    deduplication_enabled: bool | None = None
    deduplication_snapshot_interval_seconds: int | None = None
    delayed_delivery_enabled: bool | None = None
    delayed_delivery_max_delay_in_millis: int | None = None
    delayed_delivery_tick_time_millis: int | None = None
    dispatch_rate: DispatchRate | None = None
    dispatcher_pause_on_ack_state_persistent_enabled: bool | None = None
    entry_filters: EntryFilters | None = None
    inactive_topic_policies: InactiveTopicPolicies | None = None
    max_consumer_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_message_size: int | None = None
    max_producer_per_topic: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_unacked_messages_on_consumer: int | None = None
    max_unacked_messages_on_subscription: int | None = None
    message_ttl_in_seconds: int | None = msgspec.field(name="messageTTLInSeconds", default=None)
    offload_policies: Any = None
    persistence: PersistencePolicies | None = None
    publish_rate: PublishRate | None = None
    replication_clusters: tuple[str, ...] | None = None
    replicator_dispatch_rate: DispatchRate | None = None
    retention_policies: RetentionPolicies | None = None
    schema_compatibility_strategy: Strategy | None = None
    schema_validation_enforced: bool | None = None
    shadow_topics: Any = None
    subscribe_rate: SubscribeRate | None = None
    subscription_dispatch_rate: DispatchRate | None = None
    subscription_expiration_time_in_minutes: int | None = None
    subscription_policies: dict[str, SubscriptionPolicies] | None = None
    subscription_types_enabled: tuple[str, ...] | None = None


NO_OWN_POLICIES: Final = OwnPolicies()

_FIELDS: Final[Mapping[str, str]] = {
    "auto_subscription_creation_override": "auto_subscription_creation_override",
    "compaction_threshold": "compaction_threshold",
    "deduplication_enabled": "deduplication_enabled",
    "deduplication_snapshot_interval_seconds": "deduplication_snapshot_interval_seconds",
    "dispatcher_pause_on_ack_state_persistent_enabled": "dispatcher_pause_on_ack_state_persistent_enabled",
    "inactive_topic_policies": "inactive_topic_policies",
    "max_consumer_per_topic": "max_consumers_per_topic",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_producer_per_topic": "max_producers_per_topic",
    "max_subscriptions_per_topic": "max_subscriptions_per_topic",
    "max_unacked_messages_on_consumer": "max_unacked_messages_per_consumer",
    "max_unacked_messages_on_subscription": "max_unacked_messages_per_subscription",
    "message_ttl_in_seconds": "message_ttl_in_seconds",
    "persistence": "persistence",
    "retention_policies": "retention_policies",
    "schema_compatibility_strategy": "schema_compatibility_strategy",
    "schema_validation_enforced": "schema_validation_enforced",
    "subscription_expiration_time_in_minutes": "subscription_expiration_time_minutes",
    "subscription_types_enabled": "subscription_types_enabled",
}
"""Those fields of a topic's own policies that have the same meaning in its namespace's policies and replace them
there.
"""


class OwnPolicySource(Protocol):
    """Reads the policies that are set for single topics. They are received in the background, so this broker may not
    know those of a topic yet.
    """

    async def known(self, topic: TopicName) -> None:
        """Wait until the policies that are set for a topic have been received. There is no time limit here; the caller
        has to set one.
        """
        ...

    def of(self, topic: TopicName) -> OwnPolicies:
        """Return the policies that are set for a topic; for a partition, those of its partitioned topic. If they have
        not been received yet, the result is as if none were set.
        """
        ...

    async def remove(self, topic: TopicName) -> None:
        """Remove the policies of a deleted topic. A failure is logged, and no error is raised: then a new topic of the
        same name has these policies.
        """
        ...


class NoOwnPolicies:
    """Implements `OwnPolicySource` for brokers without topic policies: no topic has policies of its own."""

    async def known(self, topic: TopicName) -> None:
        return

    def of(self, topic: TopicName) -> OwnPolicies:
        return NO_OWN_POLICIES

    async def remove(self, topic: TopicName) -> None:
        return


def overlaid(policies: Policies, own: OwnPolicies) -> Policies:
    """Return the policies that apply to a topic: each policy in `own`, those of the topic itself, replaces the one in
    `policies`, those of the namespace.
    """
    if own == NO_OWN_POLICIES:
        return policies
    changed: dict[str, Any] = {
        of_namespace: value
        for of_topic, of_namespace in _FIELDS.items()
        if (value := getattr(own, of_topic)) is not None
    }
    if own.back_log_quota_map:
        changed["backlog_quota_map"] = {**policies.backlog_quota_map, **own.back_log_quota_map}
    if own.delayed_delivery_enabled is not None:
        changed["delayed_delivery_policies"] = DelayedDeliveryPolicies(
            own.delayed_delivery_tick_time_millis or 0,
            own.delayed_delivery_enabled,
            own.delayed_delivery_max_delay_in_millis or 0,
        )
    return replace(policies, **changed)
