"""Computes the rules for one topic: from its own policies, else those of its namespace, else the configuration. No I/O.

Source: Pulsar's `AbstractTopic.updateTopicPolicyByBrokerConfig` and `HierarchyTopicPolicies`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.broker.namespaces.own_policies import OwnPolicies, overlaid
from pulsar_barycenter.broker.namespaces.policies import (
    DelayedDeliveryPolicies,
    DispatchRate,
    InactiveDeleteMode,
    InactiveTopicPolicies,
    PersistencePolicies,
    Policies,
    PublishRate,
    SubscribeRate,
)
from pulsar_barycenter.broker.namespaces.storage_policies import storage_policies_of
from pulsar_barycenter.broker.namespaces.topic_limits import NO_STORAGE_POLICIES, StoragePolicies
from pulsar_barycenter.config.broker_config import BrokerConfig

NO_DISPATCH_RATE: Final = DispatchRate()
NO_PUBLISH_RATE: Final = PublishRate()
NO_SUBSCRIBE_RATE: Final = SubscribeRate()
SUBSCRIPTION_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The rules for one topic. A limit of 0 means no limit.

    `mark_delete_rate` is the number of times a second that a cursor is stored. `expiration_s` is the time without
    consumers after which a subscription is deleted, 0: never. `max_message_size` is the largest entry in bytes.
    """

    storage: StoragePolicies = NO_STORAGE_POLICIES
    max_unacked_per_consumer: int = 0
    max_unacked_per_subscription: int = 0
    delayed: DelayedDeliveryPolicies = field(default_factory=lambda: DelayedDeliveryPolicies(active=True))
    inactive: InactiveTopicPolicies = field(default_factory=InactiveTopicPolicies)
    expiration_s: int = 0
    deduplication_interval_s: float = 0.0
    mark_delete_rate: float = 1.0
    subscription_types: tuple[str, ...] = SUBSCRIPTION_TYPES
    max_message_size: int = 0
    publish_rate: PublishRate = NO_PUBLISH_RATE
    dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    subscription_dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    subscribe_rate: SubscribeRate = NO_SUBSCRIBE_RATE
    pauses_unstorable_acks: bool = False
    requires_encryption: bool = False


def rules_of(policies: Policies, own: OwnPolicies, config: BrokerConfig) -> TopicRules:
    """Return the rules for a topic that clients use, from the policies of its namespace and its own."""
    followed = overlaid(policies, own)
    return TopicRules(
        storage_policies_of(followed, config),
        *unacked_of(followed, config),
        delayed=delayed_of(followed, config),
        inactive=inactive_of(followed, config),
        expiration_s=expiration_minutes_of(followed, config) * 60,
        deduplication_interval_s=deduplication_interval_of(followed, config),
        mark_delete_rate=mark_delete_rate_of(followed, config),
        subscription_types=subscription_types_of(followed, config),
        max_message_size=own.max_message_size or 0,
        publish_rate=publish_rate_of(followed, own, config),
        dispatch_rate=dispatch_rate_of(followed, own, config),
        subscription_dispatch_rate=subscription_dispatch_rate_of(followed, own, config),
        subscribe_rate=subscribe_rate_of(followed, own, config),
        pauses_unstorable_acks=pauses_of(followed, config),
        requires_encryption=followed.encryption_required,
    )


def rules_of_system_topic(config: BrokerConfig) -> TopicRules:
    """Return the rules for a topic of the brokers themselves: no policies apply, only the configuration of delivery."""
    none = Policies()
    return TopicRules(
        NO_STORAGE_POLICIES,
        *unacked_of(none, config),
        deduplication_interval_s=deduplication_interval_of(none, config),
        mark_delete_rate=mark_delete_rate_of(none, config),
    )


def unacked_of(followed: Policies, config: BrokerConfig) -> tuple[int, int]:
    """Return the maximum numbers of unacknowledged messages of a consumer and of a subscription."""
    consumer, subscription = followed.max_unacked_messages_per_consumer, followed.max_unacked_messages_per_subscription
    return (
        config.max_unacked_messages_per_consumer if consumer is None else max(consumer, 0),
        config.max_unacked_messages_per_subscription if subscription is None else max(subscription, 0),
    )


def delayed_of(followed: Policies, config: BrokerConfig) -> DelayedDeliveryPolicies:
    return followed.delayed_delivery_policies or DelayedDeliveryPolicies(
        config.delayed_delivery_tick_time_millis,
        config.delayed_delivery_enabled,
        config.delayed_delivery_max_delay_in_millis,
    )


def inactive_of(followed: Policies, config: BrokerConfig) -> InactiveTopicPolicies:
    """Return the rule when unused topics are deleted. Its mode is always set."""
    configured_s = config.broker_delete_inactive_topics_max_inactive_duration_seconds
    return followed.inactive_topic_policies or InactiveTopicPolicies(
        InactiveDeleteMode(config.broker_delete_inactive_topics_mode),
        configured_s or round(config.broker_delete_inactive_topics_frequency_seconds),
        config.broker_delete_inactive_topics_enabled,
    )


def expiration_minutes_of(followed: Policies, config: BrokerConfig) -> int:
    own = followed.subscription_expiration_time_minutes
    return config.subscription_expiration_time_minutes if own is None else max(own, 0)


def deduplication_interval_of(followed: Policies, config: BrokerConfig) -> float:
    own = followed.deduplication_snapshot_interval_seconds
    return config.broker_deduplication_snapshot_interval_seconds if own is None else float(max(own, 0))


def persistence_of(followed: Policies, config: BrokerConfig) -> PersistencePolicies:
    """Return the policies how entries are stored. Those about bookies have no effect."""
    return followed.persistence or PersistencePolicies(
        managed_ledger_max_mark_delete_rate=config.managed_ledger_default_mark_delete_rate_limit
    )


def mark_delete_rate_of(followed: Policies, config: BrokerConfig) -> float:
    return max(persistence_of(followed, config).managed_ledger_max_mark_delete_rate, 0.0)


def subscription_types_of(followed: Policies, config: BrokerConfig) -> tuple[str, ...]:
    return followed.subscription_types_enabled or config.subscription_types_enabled


def pauses_of(followed: Policies, config: BrokerConfig) -> bool:
    own = followed.dispatcher_pause_on_ack_state_persistent_enabled
    return config.dispatcher_pause_on_ack_state_persistent_enabled if own is None else own


def publish_rate_of(followed: Policies, own: OwnPolicies, config: BrokerConfig) -> PublishRate:
    return (
        own.publish_rate
        or followed.publish_max_message_rate.get(config.cluster_name)
        or PublishRate(config.max_publish_rate_per_topic_in_messages, config.max_publish_rate_per_topic_in_bytes)
    )


def dispatch_rate_of(followed: Policies, own: OwnPolicies, config: BrokerConfig) -> DispatchRate:
    return _dispatch_rate(
        own.dispatch_rate,
        followed.topic_dispatch_rate,
        config,
        DispatchRate(
            config.dispatch_throttling_rate_per_topic_in_msg,
            config.dispatch_throttling_rate_per_topic_in_byte,
            config.dispatch_throttling_rate_relative_to_publish_rate,
        ),
    )


def subscription_dispatch_rate_of(followed: Policies, own: OwnPolicies, config: BrokerConfig) -> DispatchRate:
    return _dispatch_rate(
        own.subscription_dispatch_rate,
        followed.subscription_dispatch_rate,
        config,
        DispatchRate(
            config.dispatch_throttling_rate_per_subscription_in_msg,
            config.dispatch_throttling_rate_per_subscription_in_byte,
            config.dispatch_throttling_rate_relative_to_publish_rate,
        ),
    )


def _dispatch_rate(
    own: DispatchRate | None, of_namespace: Mapping[str, DispatchRate], config: BrokerConfig, configured: DispatchRate
) -> DispatchRate:
    return own or of_namespace.get(config.cluster_name) or configured


def subscribe_rate_of(followed: Policies, own: OwnPolicies, config: BrokerConfig) -> SubscribeRate:
    return (
        own.subscribe_rate
        or followed.cluster_subscribe_rate.get(config.cluster_name)
        or SubscribeRate(
            config.subscribe_throttling_rate_per_consumer, config.subscribe_rate_period_per_consumer_in_second
        )
    )
