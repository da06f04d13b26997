"""Every delivered message is counted once by its subscription, of each type, also if it waited for a consumer."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.clients.consumer import ConsumerOptions
from pulsar_barycenter.broker.clients.producer import ProducerOptions
from pulsar_barycenter.broker.clients.rates import Rates
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import SubscribeRequest
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.wire_client import entry_of

MESSAGES = 60


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    broker = await OneBroker().start()
    yield broker
    await broker.stop()


@pytest.mark.parametrize("kind", SubscriptionType)
async def test_deliveries_are_counted_once_and_at_once(broker: OneBroker, kind: SubscriptionType) -> None:
    topic = await broker.registry.get_or_create(TopicName.parse("persistent://public/default/t"))
    assert isinstance(topic, PersistentTopic)
    link, size = RecordingLink(), 0
    consumers = []
    for consumer_id in (1, 2) if kind.is_shared else (1,):
        options = ConsumerOptions(f"c{consumer_id}")
        mode = KeySharedMode.AUTO_SPLIT
        consumer = await topic.subscribe(link, SubscribeRequest(consumer_id, "s", kind, options, mode))
        consumer.subscription.attached(consumer)
        consumers.append(consumer)
    rates = topic.subscriptions["s"].rates = Rates()
    producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions("p"))
    consumers[0].flow(MESSAGES)  # messages for the other one, if there is one, wait
    for number in range(MESSAGES):
        entry = entry_of(b"x", sequence_id=number, key=f"k{number % 7}")
        size += len(entry)
        topic.publish([(producer, number, 0, 1, len(entry), 0)], [(entry, 1, 0)])
        await topic.wait_drained()
        assert rates.messages == len(link.delivered)
    for _ in range(4):
        consumers[-1].flow(MESSAGES // 4)
        assert rates.messages == len(link.delivered)
    assert (rates.messages, rates.bytes) == (MESSAGES, size)
