"""The stock Pulsar client on topics whose cursors an operator moves, and that end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.broker.subscriptions import cursor_moves
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import BrokerThread, OneBroker, brokers_in
from support.stock_client import connect

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/default/numbers"
RECEIVE_MS = 20_000
# Acknowledged messages are kept: a cursor can be moved back to them.
CONFIG = BrokerConfig(
    managed_ledger_max_entries_per_ledger=20, default_retention_time_in_minutes=-1, default_retention_size_in_mb=-1
)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[int], OneBroker]:
    """Make brokers one after the other, on one store and one folder."""
    return brokers_in(tmp_path, CONFIG)


@pytest.fixture
def broker(make: Callable[[int], OneBroker]) -> Iterator[BrokerThread]:
    with BrokerThread(lambda: make(1)) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[pulsar.Client]:
    client = connect(broker.url)
    yield client
    client.close()


def send(client: pulsar.Client, first: int, stop: int, **options: Any) -> Any:
    producer = client.create_producer(TOPIC, **options)
    for number in range(first, stop):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    return producer


def numbers(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


def take(consumer: Any, count: int) -> list[bytes]:
    received: list[bytes] = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        received.append(message.data())
        consumer.acknowledge(message)
    return received


def on_topic(broker: BrokerThread, work: Callable[[PersistentTopic], Any]) -> Any:
    async def run() -> Any:
        topic = await broker.broker.registry.get_or_create(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        return await work(topic)

    return broker.run(run())


@pytest.mark.parametrize(
    "kind",
    [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared],
    ids=lambda kind: kind.name,
)
def test_a_connected_consumer_gets_what_follows_a_skip_and_all_again_after_a_reset(
    broker: BrokerThread, client: pulsar.Client, kind: Any
) -> None:
    consumer = client.subscribe(TOPIC, "s", kind, receiver_queue_size=10)
    send(client, 0, 200, batching_enabled=False)
    assert take(consumer, 5) == numbers(0, 5)
    on_topic(broker, lambda topic: cursor_moves.skip(topic.subscriptions["s"], 150))
    received: list[bytes] = []
    while not received or received[-1] != b"199":
        received += take(consumer, 1)
    assert received[-40:] == numbers(160, 200)  # what was in the queue of the client came before
    assert len(received) < 100

    def first_of(topic: PersistentTopic) -> Any:
        return topic.subscriptions["s"].seek(Position(-1, -1))

    on_topic(broker, first_of)
    assert sorted(take(consumer, 200)) == sorted(numbers(0, 200))


def test_a_terminated_topic_is_read_to_its_end_and_refuses_producers(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    consumer = client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest)
    producer = send(client, 0, 50, batching_enabled=True)
    on_topic(broker, lambda topic: topic.terminate())
    with pytest.raises(pulsar.PulsarException) as refused:
        client.create_producer(TOPIC)
    assert "TopicTerminated" in str(refused.value)
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"too late")
    assert take(consumer, 50) == numbers(0, 50)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    read = []
    while reader.has_message_available():
        read.append(reader.read_next(RECEIVE_MS).data())
    assert read == numbers(0, 50)


def test_the_end_of_a_topic_outlives_its_broker(make: Callable[[int], OneBroker]) -> None:
    """The broker is gone without a word: it closes nothing."""
    abandoned = BrokerThread(lambda: make(1)).__enter__()
    client = connect(abandoned.url)
    client.subscribe(TOPIC, "s")
    send(client, 0, 30)
    end = on_topic(abandoned, lambda topic: topic.terminate())
    client.close()
    with BrokerThread(lambda: make(100)) as later:
        client = connect(later.url)
        with pytest.raises(pulsar.PulsarException) as refused:
            client.create_producer(TOPIC)
        assert "TopicTerminated" in str(refused.value)
        consumer = client.subscribe(TOPIC, "s")
        assert take(consumer, 30) == numbers(0, 30)
        assert on_topic(later, lambda topic: topic.terminate()) == end
        client.close()
