"""Limits the number of producers, consumers and subscriptions of a topic.

A limit is checked when a client attaches. Clients that are attached stay when a limit is lowered. A limit of the
namespace overrides that of the broker; 0 means no limit. System topics have no limits.

Clients cannot use the names in BROKERS_CURSORS: compaction and deduplication store their state with these cursors.

Source: Pulsar's `AbstractTopic.isProducersExceeded`, `isConsumersExceededOnTopic` and
`checkMaxSubscriptionsPerTopicExceed`, and its dispatchers' `isConsumersExceededOnSubscription`.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.errors import (
    NotAllowedError,
    TooManyConsumersError,
    TooManyProducersError,
    TooManySubscriptionsError,
)
from pulsar_barycenter.broker.namespaces.topic_limits import TopicLimits
from pulsar_barycenter.broker.topics.deduplication import CURSOR_NAME as DEDUPLICATION_CURSOR
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.naming.topic import TopicName

BROKERS_CURSORS: Final = frozenset({COMPACTION_CURSOR, DEDUPLICATION_CURSOR})
"""Names of subscriptions of persistent topics that are the broker's own."""


class ConsumedTopic(Protocol):
    """The attributes of a topic that are needed to check its number of consumers."""

    name: TopicName

    @property
    def consumer_count(self) -> int: ...


def require_producer_room(topic: TopicName, attached: int, limits: TopicLimits) -> None:
    """Check that a topic with `attached` producers may get another producer.

    Raises:
        TooManyProducersError: the topic has as many producers as it may have.
    """
    if limits.producers and attached >= limits.producers:
        raise TooManyProducersError(topic, limits.producers)


def require_consumer_room(
    topic: ConsumedTopic, subscription: str, consumers: Collection[Consumer], limits: TopicLimits
) -> None:
    """Check that the topic, and the subscription with its `consumers`, may get another consumer.

    Raises:
        TooManyConsumersError: the topic or the subscription has as many consumers as it may have.
    """
    if limits.consumers and topic.consumer_count >= limits.consumers:
        detail = f"Topic reached max consumers limit, {limits.consumers}"
        raise TooManyConsumersError(topic.name, subscription, detail)
    of_subscription = limits.consumers_per_subscription
    if of_subscription and len(consumers) >= of_subscription:
        detail = f"Subscription reached max consumers limit, {of_subscription}"
        raise TooManyConsumersError(topic.name, subscription, detail)


def require_subscription_room(topic: TopicName, subscriptions: Mapping[str, object], limits: TopicLimits) -> None:
    """Check that the topic may get another subscription. `subscriptions` are the present ones by name; the broker's own
    subscription for compaction does not count.

    Raises:
        TooManySubscriptionsError: the topic has as many subscriptions as it may have.
    """
    if limits.subscriptions and len(subscriptions) - (COMPACTION_CURSOR in subscriptions) >= limits.subscriptions:
        raise TooManySubscriptionsError(topic, limits.subscriptions)


def require_free_subscription(subscription: str) -> None:
    """Check that a client may use this subscription name, because no cursor of the broker itself has it.

    Raises:
        NotAllowedError: a cursor of the broker itself has this name.
    """
    if subscription in BROKERS_CURSORS:
        raise NotAllowedError(
            f"The name {subscription} is reserved for a subscription of the broker itself: use another name"
        )
