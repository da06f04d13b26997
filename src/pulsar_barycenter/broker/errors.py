"""Errors of topics, subscriptions, producers and consumers, one shallow tree.

ServiceError
├── TopicNotFoundError            the topic does not exist, and it is not allowed to create it
├── TopicFencedError              the topic is closing or moving; look it up again
├── TopicTerminatedError          the topic accepts no message any more
├── TopicBusyError                the topic still has producers, consumers or subscriptions
├── SubscriptionNotFoundError
├── SubscriptionBusyError         another consumer, or another type, uses the subscription
│   └── TooManyConsumersError     the subscription, or its topic, has as many as allowed
├── ConsumerAssignError           Key_Shared hash ranges overlap those of a connected consumer
├── ProducerBusyError             a producer with this name is connected and alive
├── ExclusiveProducerError        a shared producer, while an exclusive one has the topic or waits for it
├── TooManyProducersError         the topic has as many as allowed
├── BacklogQuotaExceededError     the backlog exceeds its quota
│   └── ProducerHeldError         the same; the client tries again by itself
├── EncryptionRequiredError       the topic accepts encrypted messages only
├── ProducerFencedError           an exclusive producer that is not alone, or was replaced
├── MessagePendingError           the message is being stored, and may still fail
├── CompactionRunningError        the topic is being compacted
├── NotAllowedError               the request is not possible for this topic or subscription
│   ├── TransactionsNotServedError a request or a message belongs to a transaction
│   └── TooManySubscriptionsError the topic has as many as allowed
└── InvalidPositionError          a message id or time to which no cursor can be set

In addition, attaching fails with `NotServedError` (broker/ownership/serving.py), `InvalidNameError`, `LedgerError` and
`MetadataError`. `wire/errors.py` has their codes in the binary protocol, `rest/errors.py` their HTTP status codes.
"""

from typing import Final

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.topic import TopicName

NO_TRANSACTIONS: Final = (
    "Transactions are not served by this cluster: create the client without transactions, "
    "and send and acknowledge messages without one"
)
"""Why a request or a message of a transaction is refused, and what to do."""


class ServiceError(Exception):
    """The base class of errors with which a request about a topic is refused."""


class TopicNotFoundError(ServiceError):
    def __init__(self, topic: TopicName) -> None:
        super().__init__(f"Topic {topic} not found. Create it first, or allow automatic topic creation.")
        self.topic = topic


class TopicFencedError(ServiceError):
    def __init__(self, topic: TopicName, detail: str) -> None:
        super().__init__(f"Topic {topic} is temporarily unavailable: {detail}. Look the topic up again.")
        self.topic = topic
        self.detail = detail


class TopicTerminatedError(ServiceError):
    def __init__(self, topic: TopicName) -> None:
        super().__init__(f"Topic {topic} was terminated: it accepts no message any more. Use another topic.")
        self.topic = topic


class TopicBusyError(ServiceError):
    """A request is refused because the topic is still used. `subscriptions`, `producers` and `consumers` are the
    numbers of those that use it.
    """

    def __init__(self, topic: TopicName, *, subscriptions: int, producers: int, consumers: int) -> None:
        super().__init__(
            f"Topic {topic} has {count_of(producers, 'producer')}, {count_of(subscriptions, 'subscription')} and "
            f"{count_of(consumers, 'consumer')}. "
            "Close and unsubscribe them first, or force the deletion."
        )
        self.topic = topic
        self.subscriptions = subscriptions
        self.producers = producers
        self.consumers = consumers


class SubscriptionNotFoundError(ServiceError):
    def __init__(self, topic: TopicName, subscription: str) -> None:
        super().__init__(f"Subscription {subscription!r} of topic {topic} does not exist")
        self.topic = topic
        self.subscription = subscription


class SubscriptionBusyError(ServiceError):
    def __init__(self, topic: TopicName, subscription: str, detail: str) -> None:
        super().__init__(f"Subscription {subscription!r} of topic {topic} is in use: {detail}")
        self.topic = topic
        self.subscription = subscription


class TooManyConsumersError(SubscriptionBusyError):
    pass


class ConsumerAssignError(ServiceError):
    pass


class ProducerBusyError(ServiceError):
    def __init__(self, topic: TopicName, producer: str) -> None:
        super().__init__(f"Producer with name {producer!r} is already connected to topic {topic}")
        self.topic = topic
        self.producer = producer


class ExclusiveProducerError(ServiceError):
    def __init__(self, topic: TopicName, detail: str) -> None:
        super().__init__(f"Topic {topic} accepts no shared producer: {detail}. Try again after that one has closed.")
        self.topic = topic
        self.detail = detail


class TooManyProducersError(ServiceError):
    def __init__(self, topic: TopicName, limit: int) -> None:
        super().__init__(f"Topic '{topic}' reached max producers limit, {limit}")


class BacklogQuotaExceededError(ServiceError):
    """A request is refused because the backlog of the topic exceeds its quota. `detail` is a text with the backlog and
    the quota.
    """

    def __init__(self, topic: TopicName, detail: str) -> None:
        super().__init__(
            f"Cannot create producer on topic with backlog quota exceeded: {topic} {detail}. Consume or skip messages, "
            "or raise the quota"
        )
        self.topic = topic
        self.detail = detail


class ProducerHeldError(BacklogQuotaExceededError):
    pass


class EncryptionRequiredError(ServiceError):
    def __init__(self, topic: TopicName) -> None:
        super().__init__(f"Encryption is required in {topic}: set a crypto key reader and encryption keys")


class ProducerFencedError(ServiceError):
    pass


class MessagePendingError(ServiceError):
    def __init__(self, topic: TopicName, producer: str, sequence_id: int) -> None:
        super().__init__(
            f"Message {sequence_id} of producer {producer!r} is being stored in topic {topic} already, and the outcome "
            "is not known yet. Send it again."
        )
        self.topic = topic
        self.producer = producer
        self.sequence_id = sequence_id


class CompactionRunningError(ServiceError):
    def __init__(self, topic: TopicName) -> None:
        super().__init__(f"Compaction already in progress: {topic}")
        self.topic = topic


class NotAllowedError(ServiceError):
    pass


class TransactionsNotServedError(NotAllowedError):
    """A request or a message is refused because it belongs to a transaction; Barycenter has no transactions."""

    def __init__(self) -> None:
        super().__init__(NO_TRANSACTIONS)


class TooManySubscriptionsError(NotAllowedError):
    def __init__(self, topic: TopicName, limit: int) -> None:
        super().__init__(f"Exceed the maximum number of subscriptions of the topic: {topic} may have {limit}")


class InvalidPositionError(ServiceError):
    pass
