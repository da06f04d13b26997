"""Consumers of a lost connection leave at once: none that leaves next gets a message, and no work is done for each."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions, detach_all
from pulsar_barycenter.broker.clients.producer import ProducerOptions
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.wire_client import entry_of

SHARED_KINDS = [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED]
MANY = 30


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker(BrokerConfig(active_consumer_failover_delay_time_millis=0)).start()
    yield running
    await running.stop()


async def topic_of(broker: OneBroker, domain: str = "persistent", name: str = "t") -> Topic:
    return await broker.registry.get_or_create(TopicName.parse(f"{domain}://public/default/{name}"))


async def join(topic: Topic, link: RecordingLink, kind: SubscriptionType, number: int, permits: int = 100) -> Consumer:
    options = ConsumerOptions(f"c{number}")
    request = SubscribeRequest(number, "s", kind, options, KeySharedMode.AUTO_SPLIT, from_earliest=True)
    consumer = await topic.subscribe(link, request)
    consumer.subscription.attached(consumer)
    consumer.flow(permits)
    return consumer


async def publish(topic: Topic, count: int) -> None:
    producer = await topic.add_producer(RecordingLink(), 1, ProducerOptions("p"))
    for number in range(count):
        entry = entry_of(b"x", sequence_id=number, key=f"k{number}")
        topic.publish([(producer, number, 0, 1, len(entry), 0)], [(entry, 1, 0)])
    await topic.wait_drained()


@pytest.mark.parametrize("kind", SHARED_KINDS)
async def test_what_they_held_comes_once_more_to_those_that_stay(broker: OneBroker, kind: SubscriptionType) -> None:
    """None of it goes from one that leaves to the next, each time counted as a redelivery."""
    topic, leaving, staying = await topic_of(broker), RecordingLink(), RecordingLink()
    gone = [await join(topic, leaving, kind, number) for number in range(MANY)]
    rest = await join(topic, staying, kind, MANY, permits=1_000)
    await publish(topic, 200)
    held, own = list(leaving.delivered), list(staying.delivered)
    assert len(held) + len(own) == 200
    assert held
    detach_all(gone)
    assert leaving.delivered == held
    again = staying.delivered[len(own) :]
    assert [(consumer, count) for consumer, _, count in again] == [(rest, 1)] * len(held)
    assert sorted(position for _, position, _ in again) == sorted(position for _, position, _ in held)


@pytest.mark.parametrize("kind", SHARED_KINDS)
async def test_none_that_leaves_is_asked_whether_it_can_take_more(
    broker: OneBroker, kind: SubscriptionType, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, link = await topic_of(broker), RecordingLink()
    gone = [await join(topic, link, kind, number) for number in range(MANY)]
    await join(topic, RecordingLink(), kind, MANY)
    asked: list[int] = []
    is_available = SharedDispatcher._is_available

    def counted(self: SharedDispatcher, consumer: Consumer) -> bool:
        asked.append(consumer.consumer_id)
        return is_available(self, consumer)

    monkeypatch.setattr(SharedDispatcher, "_is_available", counted)
    detach_all(gone)
    assert set(asked) <= {MANY}


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize("name", ["t", "t-partition-1"])
async def test_the_next_active_consumer_is_chosen_once(broker: OneBroker, domain: str, name: str) -> None:
    topic, link, staying = await topic_of(broker, domain, name), RecordingLink(), RecordingLink()
    gone = [await join(topic, link, SubscriptionType.FAILOVER, number) for number in range(MANY)]
    rest = [await join(topic, staying, SubscriptionType.FAILOVER, MANY + number) for number in range(2)]
    before, heard = len(link.active), len(staying.active)
    detach_all(gone)
    assert len(link.active) == before
    assert len(staying.active) - heard <= len(rest)
    assert rest[0].subscription.active_consumer in rest  # type: ignore[attr-defined]


async def test_of_several_subscriptions_each_loses_its_own(broker: OneBroker) -> None:
    topic, other, link = await topic_of(broker), await topic_of(broker, name="u"), RecordingLink()
    gone = [await join(each, link, SubscriptionType.SHARED, number) for number, each in enumerate((topic, other))]
    rest = await join(other, RecordingLink(), SubscriptionType.SHARED, 9)
    detach_all(gone)
    detach_all(gone)
    assert (topic.consumer_count, other.consumer_count) == (0, 1)
    assert all(consumer.closed for consumer in gone)
    assert not rest.closed
