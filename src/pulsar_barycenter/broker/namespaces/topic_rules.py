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
    ResourceGroup,
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
class GroupRate:
    """How many messages and bytes the topics of one resource group accept together in a second, on each broker.

    A number that is 0 or below is no limit.
    """

    group: str
    messages: int
    size: int

    @property
    def is_limit(self) -> bool:
        """Whether this rate limits messages or bytes."""
        return self.messages > 0 or self.size > 0


NO_GROUP_RATE: Final = GroupRate("", 0, 0)
"""The rate of topics whose namespace has no resource group, or a group without a limit."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """The rules for one topic. A limit of 0 means no limit.

    `mark_delete_rate` is the maximum number of times in a second that a cursor is stored. `expiration_s`: a
    subscription is deleted after this number of seconds without consumers; 0: never. `max_message_size` is the maximum
    size of an entry in bytes.
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
    group_rate: GroupRate = NO_GROUP_RATE
    dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    subscription_dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    subscription_rates: tuple[tuple[str, DispatchRate], ...] = ()
    """The rates of deliveries of single subscriptions by their names, which replace `subscription_dispatch_rate`."""
    subscribe_rate: SubscribeRate = NO_SUBSCRIBE_RATE
    pauses_unstorable_acks: bool = False
    requires_encryption: bool = False

    def rate_of(self, subscription: str) -> DispatchRate:
        """Return the limit of a subscription's deliveries: the one of the subscription itself, else the one of all
        subscriptions of the topic.
        """
        if not self.subscription_rates:
            return self.subscription_dispatch_rate
        return dict(self.subscription_rates).get(subscription, self.subscription_dispatch_rate)


def rules_of(
    policies: Policies, own: OwnPolicies, config: BrokerConfig, group_rate: GroupRate = NO_GROUP_RATE
) -> TopicRules:
    """Return the rules for a topic that clients use. `policies` are those of its namespace, `own` those of the topic
    itself. `group_rate` is the rate of the namespace's resource group.
    """
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
        group_rate=group_rate,
        dispatch_rate=dispatch_rate_of(followed, own, config),
        subscription_dispatch_rate=subscription_dispatch_rate_of(followed, own, config),
        subscription_rates=subscription_rates_of(own),
        subscribe_rate=subscribe_rate_of(followed, own, config),
        pauses_unstorable_acks=pauses_of(followed, config),
        requires_encryption=followed.encryption_required,
    )


def rules_of_system_topic(config: BrokerConfig) -> TopicRules:
    """Return the rules for a topic that only brokers use. No policies apply to it, only the configuration of
    deliveries.
    """
    none = Policies()
    return TopicRules(
        NO_STORAGE_POLICIES,
        *unacked_of(none, config),
        deduplication_interval_s=deduplication_interval_of(none, config),
        mark_delete_rate=mark_delete_rate_of(none, config),
    )


def unacked_of(followed: Policies, config: BrokerConfig) -> tuple[int, int]:
    """Return two maximum numbers of unacknowledged messages: of one consumer, and of one subscription. `followed` are
    the policies that apply to the topic.
    """
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
    """Return the rule that says which unused topics are deleted, and when. Its mode is always set. `followed` are the
    policies that apply to the topic.
    """
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
    """Return the policies about how entries are stored. Only the rate at which cursors are stored has an effect, not
    the numbers of bookies.
    """
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


def group_rate_of(name: str, group: ResourceGroup) -> GroupRate:
    """Return the rate at which the topics of a resource group accept messages.

    Source: Pulsar's `ResourceGroupPublishLimiter`. The rates of deliveries have no effect there either.
    """
    rate = GroupRate(name, max(group.publish_rate_in_msgs or 0, 0), max(group.publish_rate_in_bytes or 0, 0))
    return rate if rate.is_limit else NO_GROUP_RATE


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


def subscription_rates_of(own: OwnPolicies) -> tuple[tuple[str, DispatchRate], ...]:
    """Return the rates that are set for single subscriptions, each with the subscription's name, sorted by name."""
    rates = {name: found.dispatch_rate for name, found in (own.subscription_policies or {}).items()}
    return tuple((name, rate) for name, rate in sorted(rates.items()) if rate is not None)


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
