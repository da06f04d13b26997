"""Makes the stats of topics for other packages: per bundle for load reports, per topic for the admin API.

Names and order of the fields are Pulsar's (admin-api reference, 5.4). A field that this broker does not measure is 0.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.types import SubscriptionType
from pulsar_barycenter.broker.topics.backlog_age import NO_BACKLOG, OldestInBacklog, oldest_in_backlog
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.request import TopicLoad

_NO_RATES = Rates()


def bundle_stats(topics: Iterable[Topic]) -> NamespaceBundleStats:
    """Return the sums of the stats over `topics`. Rates (per second) are those of the last `update_rates`."""
    rate_in = rate_out = throughput_in = throughput_out = 0.0
    count = producers = consumers = 0
    for topic in topics:
        count += 1
        rate_in += topic.in_rates.rate
        throughput_in += topic.in_rates.throughput
        rate_out += topic.out_rates.rate
        throughput_out += topic.out_rates.throughput
        producers += len(topic.producers)
        consumers += topic.consumer_count
    return NamespaceBundleStats(
        msg_rate_in=rate_in,
        msg_throughput_in=throughput_in,
        msg_rate_out=rate_out,
        msg_throughput_out=throughput_out,
        consumer_count=consumers,
        producer_count=producers,
        topics=count,
    )


def topic_loads(topics: Iterable[Topic]) -> list[TopicLoad]:
    """Return the load of each topic for the choice of a split boundary: its hash, and its messages and bytes per
    second, inbound plus outbound. The rates are those of the last `update_rates`.
    """
    return [
        TopicLoad(
            topic.name.hash32,
            topic.in_rates.rate + topic.out_rates.rate,
            topic.in_rates.throughput + topic.out_rates.throughput,
        )
        for topic in topics
    ]


def topic_stats(topic: Topic, *, owner_broker: str) -> dict[str, Any]:
    """Return the stats of one topic as the admin API shows them; `owner_broker` is this broker's id."""
    subscriptions = _subscriptions(topic)
    inward, outward = topic.in_rates, topic.out_rates
    storage = topic.ledger.stats.size if isinstance(topic, PersistentTopic) else 0
    oldest = oldest_in_backlog(topic) if isinstance(topic, PersistentTopic) else OldestInBacklog("", NO_BACKLOG)
    return {
        "msgRateIn": inward.rate,
        "msgThroughputIn": inward.throughput,
        "msgRateOut": outward.rate,
        "msgThroughputOut": outward.throughput,
        "bytesInCounter": inward.bytes,
        "msgInCounter": inward.messages,
        "bytesOutCounter": outward.bytes,
        "msgOutCounter": outward.messages,
        "averageMsgSize": inward.average_size,
        "msgChunkPublished": any(producer.chunked_messages for producer in topic.producers.values()),
        "storageSize": storage,
        "backlogSize": max((s["backlogSize"] for s in subscriptions.values()), default=0),
        "oldestBacklogMessageAgeSeconds": oldest.age_s,
        "oldestBacklogMessageSubscriptionName": oldest.subscription or None,
        "publishRateLimitedTimes": 0,
        "earliestMsgPublishTimeInBacklogs": 0,
        "offloadedStorageSize": 0,
        "lastOffloadLedgerId": 0,
        "lastOffloadSuccessTimeStamp": 0,
        "lastOffloadFailureTimeStamp": 0,
        "ongoingTxnCount": 0,
        "abortedTxnCount": 0,
        "committedTxnCount": 0,
        "publishers": [_publisher(producer) for producer in topic.producers.values()],
        "waitingPublishers": topic.waiting_producers,
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Enabled" if topic.deduplicates else "Disabled",
        "topicEpoch": topic.producer_epoch,
        "nonContiguousDeletedMessagesRanges": sum(
            s["nonContiguousDeletedMessagesRanges"] for s in subscriptions.values()
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "compaction": _compaction(topic),
        "ownerBroker": owner_broker,
    }


def _compaction(topic: Topic) -> dict[str, int]:
    done = topic.compactions if isinstance(topic, PersistentTopic) else None
    return {
        "lastCompactionRemovedEventCount": 0 if done is None else done.removed,
        "lastCompactionSucceedTimestamp": 0 if done is None else done.succeeded_at_ms,
        "lastCompactionFailedTimestamp": 0 if done is None else done.failed_at_ms,
        "lastCompactionDurationTimeInMills": 0 if done is None else done.duration_ms,
    }


def _publisher(producer: Producer) -> dict[str, Any]:
    rates = producer.rates
    return {
        "producerId": producer.producer_id,
        "producerName": producer.name,
        "accessMode": producer.access_mode.label,
        "msgRateIn": rates.rate,
        "msgThroughputIn": rates.throughput,
        "averageMsgSize": rates.average_size,
        "chunkedMessageRate": 0.0,
        "supportsPartialProducer": False,
        **_client(producer),
    }


def _client(session: Producer | Consumer) -> dict[str, Any]:
    return {
        "address": session.link.address,
        "connectedSince": timestamp(session.connected_since_ms),
        "clientVersion": session.link.client_version,
        "metadata": dict(session.metadata or {}),
    }


def timestamp(time_ms: int) -> str:
    """Return a time in the format of Pulsar's stats: ISO 8601 in UTC with milliseconds. `time_ms` is in ms since
    1970.
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _subscriptions(topic: Topic) -> dict[str, dict[str, Any]]:
    if isinstance(topic, PersistentTopic):
        return {name: subscription_stats(subscription) for name, subscription in topic.subscriptions.items()}
    if isinstance(topic, NonPersistentTopic):
        return {
            name: _subscription(
                subscription.type,
                subscription.rates,
                subscription.consumers,
                subscription.active_consumer,
                {
                    "isDurable": False,
                    "msgDropRate": 0.0,
                    "subscriptionProperties": dict(subscription.properties),
                },
            )
            for name, subscription in topic.subscriptions.items()
        }
    return {}


def subscription_stats(subscription: PersistentSubscription) -> dict[str, Any]:
    """Return the stats of a subscription of a persistent topic, as the admin API shows them."""
    dispatcher = subscription.dispatcher
    shared = dispatcher if isinstance(dispatcher, SharedDispatcher) else None
    backlog = subscription.cursor.backlog
    ranges = len(subscription.cursor.acked_ranges)
    delayed = shared.delayed if shared is not None else 0
    return _subscription(
        subscription.type,
        subscription.rates or _NO_RATES,
        subscription.consumers,
        subscription.active_consumer,
        {
            "msgRateRedeliver": subscription.redelivery_rate,
            "msgBacklog": backlog.messages,
            "backlogSize": _backlog_size(subscription, backlog.entries),
            "msgBacklogNoDelayed": max(0, backlog.messages - delayed),
            "blockedSubscriptionOnUnackedMsgs": shared is not None and shared.is_blocked,
            "msgDelayed": delayed,
            "unackedMessages": shared.unacked if shared is not None else 0,
            "msgRateExpired": subscription.expired_rate,
            "totalMsgExpired": subscription.expired_messages,
            "lastExpireTimestamp": subscription.last_expired_at_ms,
            "lastConsumedFlowTimestamp": subscription.last_flow_at_ms,
            "lastAckedTimestamp": subscription.last_acked_at_ms,
            "isDurable": subscription.is_durable,
            "allowOutOfOrderDelivery": subscription.allow_out_of_order,
            "keySharedMode": subscription.key_shared_mode.name
            if subscription.type is SubscriptionType.KEY_SHARED
            else None,
            "nonContiguousDeletedMessagesRanges": ranges,
            "subscriptionProperties": dict(subscription.cursor.properties),
        },
    )


def _backlog_size(subscription: PersistentSubscription, entries: int) -> int:
    """Return an estimate of the size of a subscription's backlog in bytes: the number of entries in it (`entries`)
    times the mean size of the topic's entries.
    """
    stats = subscription.ledger.stats
    return round(stats.size * entries / stats.entries) if stats.entries else 0


def _subscription(
    kind: SubscriptionType,
    rates: Rates,
    consumers: Iterable[Consumer],
    active: Consumer | None,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    members = list(consumers)
    stats: dict[str, Any] = {
        "msgRateOut": rates.rate,
        "msgThroughputOut": rates.throughput,
        "bytesOutCounter": rates.bytes,
        "msgOutCounter": rates.messages,
        "msgRateRedeliver": 0.0,
        "messageAckRate": 0.0,
        "msgBacklog": 0,
        "backlogSize": 0,
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0,
        "unackedMessages": 0,
        "type": kind.label,
        "activeConsumerName": active.name if active is not None else None,
        "msgRateExpired": 0.0,
        "totalMsgExpired": 0,
        "lastExpireTimestamp": 0,
        "lastConsumedFlowTimestamp": 0,
        "lastConsumedTimestamp": 0,
        "lastAckedTimestamp": 0,
        "lastMarkDeleteAdvancedTimestamp": 0,
        "consumers": [consumer_stats(consumer) for consumer in members],
        "isDurable": True,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
        "keySharedMode": None,
        "consumersAfterMarkDeletePosition": {},
        "nonContiguousDeletedMessagesRanges": 0,
        "subscriptionProperties": {},
    }
    stats.update(more)
    return stats


def consumer_stats(consumer: Consumer) -> dict[str, Any]:
    """Return the stats of a consumer, as the admin API shows them."""
    rates = consumer.rates
    return {
        "consumerName": consumer.name,
        "msgRateOut": rates.rate,
        "msgThroughputOut": rates.throughput,
        "bytesOutCounter": rates.bytes,
        "msgOutCounter": rates.messages,
        "msgRateRedeliver": 0.0,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": 0,
        "blockedConsumerOnUnackedMsgs": consumer.is_blocked,
        **_client(consumer),
    }
