"""How many producers, consumers and subscriptions a topic takes: held against each newcomer, those there may stay.

The names of BROKERS_CURSORS are not for clients: what compaction and deduplication know is kept with these cursors.

Source: Pulsar's `AbstractTopic.isProducersExceeded`, `isConsumersExceededOnTopic` and
`checkMaxSubscriptionsPerTopicExceed`, and its dispatchers' `isConsumersExceededOnSubscription`. System topics have no
limits. A limit of a namespace wins over the broker's; 0 is none.
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
from pulsar_barycenter.broker.namespaces.topic_policies import TopicLimits
from pulsar_barycenter.broker.topics.deduplication import CURSOR_NAME as DEDUPLICATION_CURSOR
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.naming.topic import TopicName

BROKERS_CURSORS: Final = frozenset({COMPACTION_CURSOR, DEDUPLICATION_CURSOR})
"""Names of subscriptions of persistent topics that are the broker's own."""


class ConsumedTopic(Protocol):
    """A topic, as its limits look at it."""

    name: TopicName

    @property
    def consumer_count(self) -> int: ...


def require_producer_room(topic: TopicName, attached: int, limits: TopicLimits) -> None:
    """Raise TooManyProducersError if the topic, which has so many producers, takes no further one."""
    if limits.producers and attached >= limits.producers:
        raise TooManyProducersError(topic, limits.producers)


def require_consumer_room(
    topic: ConsumedTopic, subscription: str, consumers: Collection[Consumer], limits: TopicLimits
) -> None:
    """Raise TooManyConsumersError if the subscription, which has `consumers`, or the topic takes no further one."""
    if limits.consumers and topic.consumer_count >= limits.consumers:
        detail = f"Topic reached max consumers limit, {limits.consumers}"
        raise TooManyConsumersError(topic.name, subscription, detail)
    of_subscription = limits.consumers_per_subscription
    if of_subscription and len(consumers) >= of_subscription:
        detail = f"Subscription reached max consumers limit, {of_subscription}"
        raise TooManyConsumersError(topic.name, subscription, detail)


def require_subscription_room(topic: TopicName, subscriptions: Mapping[str, object], limits: TopicLimits) -> None:
    """Raise TooManySubscriptionsError if the topic takes no further one; that of compaction does not count."""
    if limits.subscriptions and len(subscriptions) - (COMPACTION_CURSOR in subscriptions) >= limits.subscriptions:
        raise TooManySubscriptionsError(topic, limits.subscriptions)


def require_free_subscription(subscription: str) -> None:
    """Raise NotAllowedError if a subscription of that name would share a cursor with the broker."""
    if subscription in BROKERS_CURSORS:
        raise NotAllowedError(f"The subscription {subscription} is the broker's own")
