"""Skipped entries are read in steps: other clients are served between two of them."""

import asyncio
import itertools

import pytest

from pulsar_barycenter.broker.clients.consumer import ConsumerOptions
from pulsar_barycenter.broker.clients.producer import ProducerOptions
from pulsar_barycenter.broker.subscriptions.dispatch import STEP_ENTRIES
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import SubscribeRequest
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry
from support.one_broker import OneBroker
from support.recording_link import RecordingLink

PASSED_OVER = 3 * STEP_ENTRIES
DUE = 5
FAR_AWAY_MS = 4_000_000_000_000


async def topic_of(broker: OneBroker, *, delayed: bool) -> PersistentTopic:
    """Return a topic with PASSED_OVER entries, and DUE behind them."""
    topic = await broker.registry.get_or_create(TopicName.parse("persistent://public/default/t"))
    assert isinstance(topic, PersistentTopic)
    producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions("p"))
    for number in range(PASSED_OVER + DUE):
        metadata = api.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        if delayed and number < PASSED_OVER:
            metadata.deliver_at_time = FAR_AWAY_MS
        entry = encode_entry(metadata.SerializeToString(), b"x")
        topic.publish([(producer, number, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    await topic.wait_drained()
    return topic


async def reads_in_steps(topic: PersistentTopic, subscription: PersistentSubscription, kind: SubscriptionType) -> None:
    link = RecordingLink()
    request = SubscribeRequest(1, "s", kind, ConsumerOptions("c"), KeySharedMode.AUTO_SPLIT)
    consumer = await topic.subscribe(link, request)
    assert consumer.subscription is subscription
    subscription.attached(consumer)
    consumer.flow(1_000)
    dispatcher = subscription.dispatcher
    assert dispatcher is not None
    steps: list[Position] = []
    while len(link.delivered) < DUE:
        steps.append(dispatcher.read_position)
        await asyncio.sleep(0)
    read = [step.entry_id for step in steps]
    most = topic.settings.max_read_entries
    assert read, "all of it was read in one step"
    assert read[0] <= STEP_ENTRIES + most
    assert max(after - before for before, after in itertools.pairwise(read)) <= STEP_ENTRIES + most


@pytest.mark.parametrize("kind", [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED])
async def test_delayed_messages_are_read_in_steps(kind: SubscriptionType) -> None:
    broker = await OneBroker().start()
    topic = await topic_of(broker, delayed=True)
    subscription = await topic.create_subscription("s", EARLIEST)
    await reads_in_steps(topic, subscription, kind)
    await broker.stop()


async def test_acknowledged_messages_are_read_in_steps() -> None:
    broker = await OneBroker().start()
    topic = await topic_of(broker, delayed=False)
    subscription = await topic.create_subscription("s", EARLIEST)
    ledger_id = topic.ledger.last_position.ledger_id
    subscription.cursor.ack_individual([Position(ledger_id, number) for number in range(1, PASSED_OVER, 2)])
    subscription.cursor.ack_individual([Position(ledger_id, number) for number in range(2, PASSED_OVER, 2)])
    link = RecordingLink()
    request = SubscribeRequest(1, "s", SubscriptionType.SHARED, ConsumerOptions("c"), KeySharedMode.AUTO_SPLIT)
    consumer = await topic.subscribe(link, request)
    subscription.attached(consumer)
    consumer.flow(1_000)
    assert len(link.delivered) == 1
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(link.delivered) == 1 + DUE
    await broker.stop()
