"""When the clients of a failover subscription are notified which consumer is active."""

import asyncio

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.recording_link import RecordingLink

DELAY_MS = 50


async def join(topic: Topic, link: RecordingLink, number: int) -> Consumer:
    options = ConsumerOptions(f"c{number}")
    request = SubscribeRequest(number, "s", SubscriptionType.FAILOVER, options, KeySharedMode.AUTO_SPLIT)
    consumer = await topic.subscribe(link, request)
    consumer.subscription.attached(consumer)
    return consumer


async def test_clients_hear_of_a_change_after_the_delay_and_once() -> None:
    """The client for Go drops what comes before it has handled the answer that its consumer is attached."""
    broker = await OneBroker(BrokerConfig(active_consumer_failover_delay_time_millis=DELAY_MS)).start()
    topic = await broker.registry.get_or_create(TopicName.parse("persistent://public/default/t-partition-1"))
    links = [RecordingLink() for _ in range(3)]
    first = await join(topic, links[0], 0)
    assert links[0].active == []
    rest = [await join(topic, link, number) for number, link in enumerate(links[1:], 1)]
    async with asyncio.timeout(60):
        while not links[0].active:
            await asyncio.sleep(0)
    # each of the first two was active for a moment; the third was told at once that it is not
    assert links[0].active == [(first, False)]
    assert links[1].active == [(rest[0], True)]
    assert links[2].active == [(rest[1], False), (rest[1], False)]
    await broker.stop()
