"""Reads the values of topics, their subscriptions, consumers and producers, and sums them by namespace.

Rates are those of the last statistics interval. Subscriptions of non-persistent topics have no backlog, and so no
backlog metrics.
"""

from collections.abc import Iterator, Sequence
from operator import add

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.rest.metrics.catalogue import (
    BACKLOG_AGE,
    BACKLOG_QUOTA,
    COMPACTION,
    CONSUMER,
    OF_BROKER,
    PRODUCER,
    SUBSCRIPTION,
    SUBSCRIPTION_ALSO_HERE,
    TOPIC,
)
from pulsar_barycenter.broker.rest.metrics.text import Lines, Sample, labels_text
from pulsar_barycenter.broker.subscriptions.non_persistent_subscription import NonPersistentSubscription
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.topics.backlog_age import oldest_in_backlog
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.stats import NOTHING_WRITTEN

_TOPIC = tuple(TOPIC)
_SUBSCRIPTION = tuple(SUBSCRIPTION)
_NON_PERSISTENT_SUBSCRIPTION = tuple(SUBSCRIPTION_ALSO_HERE)
_CONSUMER = tuple(CONSUMER)
_PRODUCER = tuple(PRODUCER)
_BACKLOG_AGE = tuple(BACKLOG_AGE)
_COMPACTION = tuple(COMPACTION)
_BACKLOG_QUOTA = tuple(BACKLOG_QUOTA)
_INDEX = {name: index for index, name in enumerate(_TOPIC)}
_OF_NAMESPACE = ("pulsar_subscription_delayed", "pulsar_out_bytes_total", "pulsar_out_messages_total")
_NAMESPACE = (*(name for name in _TOPIC if name != "pulsar_msg_backlog"), *_OF_NAMESPACE)


class TopicsRead:
    """Reads the values of topics, one topic after the other, and adds them to `lines` as samples: one for each topic,
    or one sum for each namespace, as `exposeTopicLevelMetricsInPrometheus` says.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._by_topic = config.expose_topic_level_metrics_in_prometheus
        self._cluster = config.cluster_name
        self._namespaces: dict[str, list[float]] = {}
        self._counts: dict[str, int] = {}
        self.damaged_ledgers = 0
        self.lines = Lines()

    def take(self, topic: Topic) -> Iterator[None]:
        """Read the values of one topic, and yield after each step of some microseconds. The caller may run other tasks
        before it continues.
        """
        values = topic_values(topic)
        namespace = str(topic.name.namespace)
        self._counts[namespace] = self._counts.get(namespace, 0) + 1
        outward, delayed = topic.out_rates, 0
        labels = labels_text(cluster=self._cluster, namespace=namespace, topic=str(topic.name))
        if self._by_topic:
            self.lines.add(_TOPIC, labels, values)
        if isinstance(topic, PersistentTopic):
            self.damaged_ledgers += len(topic.ledger.damaged_ledgers)
            if self._by_topic:
                self.lines.add(_BACKLOG_AGE, labels, (oldest_in_backlog(topic).age_s,))
            if self._by_topic and (compacted := compaction_values(topic)):
                self.lines.add(_COMPACTION, labels, compacted)
            if self._by_topic and (limits := quota_values(topic)):
                self.lines.add(_BACKLOG_QUOTA, labels, limits)
        yield
        for subscription in _subscriptions_of(topic):
            if isinstance(subscription, PersistentSubscription):
                dispatcher = subscription.dispatcher
                delayed += dispatcher.delayed if isinstance(dispatcher, SharedDispatcher) else 0
            if self._by_topic:
                yield from self._take_subscription(subscription, labels)
        if self._by_topic and self._config.expose_producer_level_metrics_in_prometheus:
            for producer in list(topic.producers.values()):
                rates = producer.rates
                own_labels = labels_text(producer_name=producer.name, producer_id=str(producer.producer_id))
                producer_values = (rates.rate, rates.throughput, rates.average_size)
                self.lines.add(_PRODUCER, f"{labels},{own_labels}", producer_values)
                yield
        here = [*values, delayed, outward.bytes, outward.messages]
        before = self._namespaces.get(namespace)
        self._namespaces[namespace] = here if before is None else list(map(add, before, here))

    def _take_subscription(
        self, subscription: PersistentSubscription | NonPersistentSubscription, of_topic: str
    ) -> Iterator[None]:
        labels = f"{of_topic},{labels_text(subscription=subscription.name)}"
        if isinstance(subscription, PersistentSubscription):
            self.lines.add(_SUBSCRIPTION, labels, subscription_values(subscription))
        else:
            rates = subscription.rates
            values = (rates.rate, rates.throughput, rates.bytes, rates.messages, len(subscription.consumers))
            self.lines.add(_NON_PERSISTENT_SUBSCRIPTION, labels, values)
        yield
        if self._config.expose_consumer_level_metrics_in_prometheus:
            for consumer in list(subscription.consumers):
                own_labels = labels_text(consumer_name=consumer.name, consumer_id=str(consumer.consumer_id))
                self.lines.add(_CONSUMER, f"{labels},{own_labels}", consumer_values(consumer))
                yield

    def finish(self) -> None:
        """Add the samples of the namespaces to `lines`: their numbers of topics, and, unless samples are given for each
        topic, the sums of their topics' values. Call this after all topics were read.
        """
        for namespace, sums in self._namespaces.items():
            labels = labels_text(cluster=self._cluster, namespace=namespace)
            self.lines.add(("pulsar_topics_count",), labels, (self._counts[namespace],))
            if not self._by_topic:
                rate, throughput = sums[_INDEX["pulsar_rate_in"]], sums[_INDEX["pulsar_throughput_in"]]
                sums[_INDEX["pulsar_average_msg_size"]] = throughput / rate if rate else 0.0
                backlog = sums.pop(_INDEX["pulsar_msg_backlog"])
                self.lines.add(_NAMESPACE, labels, sums)
                local = f"{labels},{labels_text(remote_cluster='local')}"
                self.lines.add(("pulsar_msg_backlog",), local, (backlog,))

    def of_broker(self) -> Iterator[Sample]:
        """Yield the sums over all topics, without labels; call this before `finish`."""
        for name, of_topic in OF_BROKER.items():
            index = _INDEX[of_topic]
            yield name, {}, sum(sums[index] for sums in self._namespaces.values())
        yield "pulsar_broker_topics_count", {}, sum(self._counts.values())


def topic_values(topic: Topic) -> list[float]:
    """Return the values of a topic in the order of `TOPIC`."""
    size = backlog = backlog_size = subscriptions = 0
    written, read_rate = NOTHING_WRITTEN, 0.0
    if isinstance(topic, PersistentTopic):
        stats = topic.ledger.stats
        size, subscriptions = stats.size, len(topic.subscriptions)
        written, read_rate = topic.ledger.last_interval
        most = 0
        for subscription in topic.subscriptions.values():
            entries, messages = subscription.cursor.backlog
            backlog += messages
            most = max(most, entries)
        backlog_size = round(size * most / stats.entries) if stats.entries else 0
    else:
        subscriptions = topic.subscription_count
    inward, outward = topic.in_rates, topic.out_rates
    return [
        subscriptions,
        len(topic.producers),
        topic.consumer_count,
        inward.rate,
        outward.rate,
        inward.throughput,
        outward.throughput,
        inward.average_size,
        inward.bytes,
        inward.messages,
        size,
        size,
        backlog_size,
        backlog,
        written.rate,
        read_rate,
        *written.latencies,
        sum(written.latencies),
        written.latency_ms,
        *written.sizes,
        written.entries,
        written.bytes,
    ]


def subscription_values(subscription: PersistentSubscription) -> Sequence[float]:
    """Return the values of a subscription in the order of `SUBSCRIPTION`."""
    dispatcher, rates = subscription.dispatcher, subscription.rates
    shared = dispatcher if isinstance(dispatcher, SharedDispatcher) else None
    backlog = subscription.cursor.backlog.messages
    delayed = 0 if shared is None else shared.delayed
    return (
        0.0 if rates is None else rates.rate,
        0.0 if rates is None else rates.throughput,
        0 if rates is None else rates.bytes,
        0 if rates is None else rates.messages,
        len(subscription.consumers),
        backlog,
        max(0, backlog - delayed),
        delayed,
        subscription.redelivery_rate,
        0 if shared is None else shared.unacked,
        int(shared is not None and shared.is_blocked),
        subscription.last_acked_at_ms,
        subscription.last_flow_at_ms,
        subscription.expired_rate,
        subscription.expired_messages,
        subscription.last_expired_at_ms,
    )


def consumer_values(consumer: Consumer) -> Sequence[float]:
    """Return the values of a consumer in the order of `CONSUMER`."""
    rates = consumer.rates
    return (rates.rate, rates.throughput, consumer.unacked, int(consumer.is_blocked), consumer.permits)


def compaction_values(topic: PersistentTopic) -> Sequence[float]:
    """Return the compaction values of a topic that is compacted, or for which a compaction was tried; () for other
    topics, as in Pulsar.
    """
    done, current = topic.compactions, topic.ledger.compacted.current
    if current is None and not done.failures:
        return ()
    return (
        done.total_removed,
        done.successes,
        done.failures,
        done.duration_ms,
        0 if current is None else current.segment.entries,
        0 if current is None else current.segment.size,
    )


def quota_values(topic: PersistentTopic) -> Sequence[float]:
    """Return the backlog quotas of a topic: the limit in bytes, and the limit in seconds (-1 if only the size is
    limited). Return () if the topic has no quota.
    """
    size, age_s = topic.storage.backlog.size, topic.storage.backlog.age_s
    return (size, age_s or -1) if size >= 0 or age_s else ()


def _subscriptions_of(topic: Topic) -> list[PersistentSubscription | NonPersistentSubscription]:
    assert isinstance(topic, (PersistentTopic, NonPersistentTopic)), "there are no other topics"
    return list(topic.subscriptions.values())
