"""The stock Pulsar client on compacted topics: consumers, readers and table views end with the newest values."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import BrokerThread, OneBroker, brokers_in
from support.stock_client import connect
from support.waiting import until

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/default/table"
RECEIVE_MS = 20_000
CONFIG = BrokerConfig(
    managed_ledger_max_entries_per_ledger=20,
    broker_service_compaction_threshold_in_bytes=1 << 40,  # so that nothing is trimmed before it is compacted
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


async def _settle(broker: OneBroker) -> None:
    """Wait for what the topic does beside its clients: rolling and trimming ledgers."""
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    if isinstance(topic, PersistentTopic):
        await topic.ledger.settled()


async def _compact(broker: OneBroker) -> tuple[int, int]:
    """Compact the topic; return how many messages were removed, and how many entries the topic itself still has."""
    topic = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    await topic.compact()
    assert topic.ledger.compacted.is_running
    await _settle(broker)
    return topic.compactions.removed, topic.ledger.stats.entries


def compact(broker: BrokerThread) -> tuple[int, int]:
    return broker.run(_compact(broker.broker))


def publish(broker: BrokerThread, producer: Any, pairs: list[tuple[str, bytes]]) -> None:
    failures: list[Any] = []
    for at, (key, value) in enumerate(pairs):
        producer.send_async(value, lambda result, _: failures.append(result), partition_key=key)
        if at % 10 == 9:
            producer.flush()
            broker.run(_settle(broker.broker))  # so that full ledgers are followed by others
    producer.flush()
    assert set(failures) <= {pulsar.Result.Ok}


def history(count: int, keys: int, *, first: int = 0) -> list[tuple[str, bytes]]:
    """Return so many values of so many keys in turn; each 17th deletes its key."""
    return [(f"k{n % keys}", b"" if n % 17 == 16 else b"%d" % n) for n in range(first, first + count)]


def newest(pairs: list[tuple[str, bytes]]) -> dict[str, bytes]:
    return {key: value for key, value in dict(pairs).items() if value}


def read_all(reader: Any) -> list[tuple[str, bytes]]:
    found = []
    while reader.has_message_available():
        message = reader.read_next(RECEIVE_MS)
        found.append((message.partition_key(), message.data()))
    return found


def reader_of(client: pulsar.Client) -> Any:
    return client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=True)


OPTIONS = [
    {},
    {"batching_enabled": True, "batching_max_messages": 7},
    {"compression_type": pulsar.CompressionType.LZ4},
    {"batching_enabled": True, "compression_type": pulsar.CompressionType.LZ4, "batching_max_messages": 7},
    {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZLib, "batching_max_messages": 7},
    {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD, "batching_max_messages": 7},
    {"batching_enabled": True, "compression_type": pulsar.CompressionType.SNAPPY, "batching_max_messages": 7},
    {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())) or "single")
def test_readers_get_the_newest_value_of_each_key(
    broker: BrokerThread, client: pulsar.Client, options: dict[str, Any]
) -> None:
    """Before the first compaction everything, then what was kept, and what came since."""
    first, second = history(300, 40), history(100, 30, first=300)
    with_reader = reader_of(client)
    producer = client.create_producer(TOPIC, **options)
    publish(broker, producer, first)
    assert newest(read_all(with_reader)) == newest(first)
    removed, left = compact(broker)
    assert (removed > 200, left < 60) == (True, True)
    kept = read_all(reader_of(client))
    assert dict(kept) == newest(first)
    assert len(kept) == len(newest(first))
    publish(broker, producer, second)
    assert dict(read_all(with_reader)).items() <= dict(second).items()
    assert newest(read_all(reader_of(client))) == newest(first + second)
    compact(broker)
    kept = read_all(reader_of(client))
    assert (dict(kept), len(kept)) == (newest(first + second), len(newest(first + second)))


def receive_table(consumer: Any, keys: int) -> dict[str, bytes]:
    """Receive and acknowledge until so many keys came. What is compacted out of a batch this client gives out as
    messages without key and value, those behind the last key too."""
    found: dict[str, bytes] = {}
    while True:
        try:
            message = consumer.receive(RECEIVE_MS if len(found) < keys else 200)
        except pulsar.Timeout:
            return found
        consumer.acknowledge(message)
        assert message.partition_key() or not message.data()
        if message.partition_key():
            found[message.partition_key()] = message.data()


def backlog(broker: BrokerThread, subscription: str) -> int:
    async def entries() -> int:
        topic = await broker.broker.registry.get_or_create(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        return topic.subscriptions[subscription].cursor.backlog.entries

    return broker.run(entries())


def test_a_consumer_of_the_compacted_topic_and_one_of_all_of_it(broker: BrokerThread, client: pulsar.Client) -> None:
    everything = client.subscribe(TOPIC, "all", initial_position=pulsar.InitialPosition.Earliest)
    pairs = history(200, 20)
    publish(broker, client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=9), pairs)
    compact(broker)
    consumer = client.subscribe(
        TOPIC, "table", is_read_compacted=True, initial_position=pulsar.InitialPosition.Earliest
    )
    expected = newest(pairs)
    assert receive_table(consumer, len(expected)) == expected
    until(lambda: backlog(broker, "table") == 0, "the acknowledgements have arrived")
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_table(consumer, len(expected)) == expected
    assert [everything.receive(RECEIVE_MS).data() for _ in pairs] == [value for _, value in pairs]
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(TOPIC, "shared", consumer_type=pulsar.ConsumerType.Shared, is_read_compacted=True)


def table(client: pulsar.Client) -> dict[str, bytes]:
    view = client.create_table_view(TOPIC)
    found: dict[str, bytes] = {}
    view.for_each(lambda key, value: found.update({key: value}))
    view.close()
    return found


def test_a_table_view_is_the_newest_values(broker: BrokerThread, client: pulsar.Client) -> None:
    """Also where the last of all messages deleted its key, and where nothing is left."""
    pairs = history(150, 25)
    producer = client.create_producer(TOPIC, batching_enabled=True)
    publish(broker, producer, pairs)
    assert table(client) == newest(pairs)
    compact(broker)
    assert table(client) == newest(pairs)
    publish(broker, producer, [("k0", b"last"), ("k1", b"")])
    compact(broker)
    expected = newest([*pairs, ("k0", b"last"), ("k1", b"")])
    assert table(client) == expected
    publish(broker, producer, [(key, b"") for key in expected])
    compact(broker)
    assert table(client) == {}


def test_a_large_message_in_chunks_survives_compaction_whole(broker: BrokerThread, client: pulsar.Client) -> None:
    payload = bytes(range(256)) * (12 << 12)
    producer = client.create_producer(TOPIC, chunking_enabled=True)
    for value in (payload[::-1], payload, b"small"):
        producer.send(value, partition_key="small" if value == b"small" else "large")
    removed, _ = compact(broker)
    assert removed > 1
    assert read_all(reader_of(client)) == [("large", payload), ("small", b"small")]


def test_compaction_while_producers_publish_and_the_topic_moves(broker: BrokerThread, client: pulsar.Client) -> None:
    """Compactions that a move ends, and those that it does not, lose nothing."""
    producer = client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=5)
    pairs: list[tuple[str, bytes]] = []

    async def begin() -> None:
        topic = await broker.broker.registry.get_or_create(TopicName.parse(TOPIC))
        assert isinstance(topic, PersistentTopic)
        if not topic.ledger.compacted.is_running:
            await topic.compact()

    for turn in range(12):
        more = history(60, 35, first=len(pairs))
        pairs += more
        broker.run(begin())
        publish(broker, producer, more)
        if turn % 3 == 2:
            broker.run(begin())
            broker.run(broker.broker.unload())
        assert newest(read_all(reader_of(client))) == newest(pairs)
    broker.run(_until_idle(broker.broker))
    compact(broker)
    assert dict(read_all(reader_of(client))) == newest(pairs)


async def _until_idle(broker: OneBroker) -> None:
    topic = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    await topic.ledger.compacted.ended()


def test_a_broker_that_starts_again_goes_on_with_what_was_compacted(make: Callable[[int], OneBroker]) -> None:
    pairs = history(200, 20)
    with BrokerThread(lambda: make(1)) as first:
        client = connect(first.url)
        publish(first, client.create_producer(TOPIC), pairs)
        _, left = compact(first)
        client.close()
    assert left < 60
    with BrokerThread(lambda: make(2)) as second:
        client = connect(second.url)
        assert table(client) == newest(pairs)
        more = history(50, 15, first=200)
        publish(second, client.create_producer(TOPIC), more)
        assert table(client) == newest(pairs + more)
        compact(second)
        assert table(client) == newest(pairs + more)
        assert dict(read_all(reader_of(client))) == newest(pairs + more)
        client.close()
