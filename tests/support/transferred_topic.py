"""Topics of the bundle that one broker transfers to another, and clients of them without a wire."""

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.link import ClientLink
from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.two_brokers import HeldLedgers, TwoBrokers
from support.wire_client import entry_of

TOPIC = TopicName.parse("persistent://public/default/t")
LOOSE = TopicName.parse("non-persistent://public/default/t")


def ledgers_of(cluster: TwoBrokers) -> HeldLedgers:
    assert isinstance(cluster.a.ledgers, HeldLedgers)
    return cluster.a.ledgers


async def open_topic(broker: OneBroker, name: TopicName = TOPIC) -> Topic:
    return await broker.registry.get_or_create(name)


async def attach_producer(topic: Topic, link: ClientLink, name: str = "p", number: int = 1) -> Producer:
    return await topic.add_producer(link, number, ProducerOptions(name))


async def attach_consumer(
    topic: Topic, link: ClientLink, kind: SubscriptionType = SubscriptionType.EXCLUSIVE, permits: int = 0
) -> Consumer:
    request = SubscribeRequest(
        1, "s", kind, ConsumerOptions("c"), KeySharedMode.AUTO_SPLIT, from_earliest=True, start=EARLIEST
    )
    consumer = await topic.subscribe(link, request)
    consumer.subscription.attached(consumer)
    consumer.flow(permits)
    return consumer


def publish(topic: Topic, producer: Producer, first: int, number: int) -> None:
    for sequence_id in range(first, first + number):
        entry = entry_of(b"%d" % sequence_id, sequence_id=sequence_id)
        topic.publish([(producer, sequence_id, 0, 1, len(entry), 0)], [(entry, 1, 0)])
