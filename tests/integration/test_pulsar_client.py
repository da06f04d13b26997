"""The stock Pulsar client against the data plane of one broker."""

import re
import threading
import time
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar import schema as pulsar_schema

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk
from support.one_broker import BrokerThread, OneBroker
from support.stock_client import connect
from support.waiting import until

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/default/numbers"
RECEIVE_MS = 20_000


def take(consumer: Any, count: int, *, ack: bool = True) -> list[bytes]:
    received = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        received.append(message.data())
        if ack:
            consumer.acknowledge(message)
    return received


def numbers(first: int, stop: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, stop)]


def send_all(producer: Any, payloads: list[bytes]) -> None:
    """Send without waiting for each receipt, then wait for all."""
    failures: list[Any] = []

    def done(result: Any, _: Any) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    for payload in payloads:
        producer.send_async(payload, done)
    producer.flush()
    assert failures == []


async def loaded(broker: OneBroker, topic: str = TOPIC) -> PersistentTopic:
    found = broker.registry.get_loaded(TopicName.parse(topic))
    assert isinstance(found, PersistentTopic)
    return found


def wait_backlog(broker: BrokerThread, subscription: str, entries: int) -> None:
    """Wait until the acknowledgements of the client, which it sends in groups, have arrived."""

    async def backlog() -> int:
        topic = await loaded(broker.broker)
        return topic.subscriptions[subscription].cursor.backlog.entries

    until(lambda: broker.run(backlog()) == entries, "the backlog has this many entries")


# ------------------------------------------------------------------------------------------------ produce, consume


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batching_enabled": True, "batching_max_messages": 7},
        {"compression_type": pulsar.CompressionType.LZ4},
        {"batching_enabled": True, "compression_type": pulsar.CompressionType.ZSTD},
        {"batching_enabled": True, "batching_type": pulsar.BatchingType.KeyBased},
    ],
    ids=["single", "batched", "lz4", "batched-zstd", "key-batches"],
)
def test_what_is_sent_is_received_in_order(client: pulsar.Client, options: dict[str, Any]) -> None:
    """Entries pass through unopened, whatever the client put into them."""
    consumer = client.subscribe(TOPIC, "all")
    producer = client.create_producer(TOPIC, **options)
    send_all(producer, numbers(0, 500))
    assert take(consumer, 500) == numbers(0, 500)


def test_a_large_message_is_chunked_and_put_together_again(client: pulsar.Client) -> None:
    """Chunk frames are larger than the largest message and share one sequence id."""
    consumer = client.subscribe(TOPIC, "all", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(TOPIC, chunking_enabled=True)
    payload = bytes(range(256)) * (12 << 12)
    producer.send(payload)
    producer.send(b"small")
    assert take(consumer, 2) == [payload, b"small"]


def test_a_consumer_that_is_behind_reads_from_the_ledger(tmp_path: Path) -> None:
    """Entries that are no longer in memory are read back in order, by several subscriptions at their own pace."""
    caches = Caches.of(tail_bytes=100_000)
    config = BrokerConfig(managed_ledger_max_entries_per_ledger=100)
    with BrokerThread(lambda: OneBroker(config, ledgers=FileLedgerStorage(tmp_path, caches=caches))) as small:
        client = connect(small.url)
        slow = [client.subscribe(TOPIC, f"slow-{n}", receiver_queue_size=10) for n in range(2)]
        producer = client.create_producer(TOPIC, block_if_queue_full=True)
        send_all(producer, [b"%06d" % n + bytes(2000) for n in range(3000)])
        for consumer in slow:
            assert [data[:6] for data in take(consumer, 3000)] == [b"%06d" % n for n in range(3000)]
        client.close()


def test_texts_are_sent_with_their_schema(client: pulsar.Client) -> None:
    consumer = client.subscribe(TOPIC, "all", schema=pulsar_schema.StringSchema())
    producer = client.create_producer(TOPIC, schema=pulsar_schema.StringSchema())
    producer.send("grüß")
    assert consumer.receive(RECEIVE_MS).value() == "grüß"


def test_partitions_are_topics_of_their_own(broker: BrokerThread, client: pulsar.Client) -> None:
    broker.broker.lookup.partitioned[TOPIC] = 3
    consumer = client.subscribe(TOPIC, "all")
    producer = client.create_producer(TOPIC, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    send_all(producer, numbers(0, 30))
    assert sorted(take(consumer, 30)) == sorted(numbers(0, 30))
    assert len(broker.broker.registry.loaded()) == 3


def test_a_pattern_subscription_finds_the_topics_of_a_namespace(client: pulsar.Client) -> None:
    producers = [client.create_producer(f"{TOPIC}-{n}") for n in range(3)]
    consumer = client.subscribe(
        re.compile("persistent://public/default/numbers-.*"), "all", initial_position=pulsar.InitialPosition.Earliest
    )
    for n, producer in enumerate(producers):
        producer.send(b"%d" % n)
    assert sorted(take(consumer, 3)) == numbers(0, 3)


def test_a_non_persistent_topic_delivers_to_those_who_listen(client: pulsar.Client) -> None:
    topic = "non-persistent://public/default/numbers"
    producer = client.create_producer(topic)
    producer.send(b"to nobody")
    consumers = [client.subscribe(topic, f"s{n}") for n in range(2)]
    send_all(producer, numbers(0, 20))
    for consumer in consumers:
        assert take(consumer, 20) == numbers(0, 20)


# ------------------------------------------------------------------------------------------------ subscriptions


def test_an_exclusive_subscription_has_one_consumer(client: pulsar.Client) -> None:
    client.subscribe(TOPIC, "one")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(TOPIC, "one")


def test_shared_consumers_divide_the_messages(client: pulsar.Client) -> None:
    consumers = [
        client.subscribe(TOPIC, "pool", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=10)
        for _ in range(3)
    ]
    producer = client.create_producer(TOPIC)
    send_all(producer, numbers(0, 90))
    received: list[bytes] = []
    shares = [0, 0, 0]
    while len(received) < 90:
        for at, consumer in enumerate(consumers):
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            received.append(message.data())
            shares[at] += 1
    assert sorted(received) == sorted(numbers(0, 90))
    assert all(shares)


@pytest.mark.parametrize("members", [2, 4])
def test_shared_consumers_get_about_as_much_each(client: pulsar.Client, members: int) -> None:
    """Messages sent one at a time go round among consumers with the queue that a client has by default."""
    consumers = [client.subscribe(TOPIC, "even", consumer_type=pulsar.ConsumerType.Shared) for _ in range(members)]
    producer = client.create_producer(TOPIC)
    for payload in numbers(0, 100):
        producer.send(payload)
    received = [data for consumer in consumers for data in take(consumer, 100 // members)]
    assert sorted(received) == sorted(numbers(0, 100))


def test_key_shared_consumers_get_each_key_in_order(client: pulsar.Client) -> None:
    consumers = [client.subscribe(TOPIC, "keys", consumer_type=pulsar.ConsumerType.KeyShared) for _ in range(2)]
    producer = client.create_producer(TOPIC)
    for n in range(200):
        producer.send_async(b"%d" % n, None, partition_key=f"key-{n % 10}")
    producer.flush()
    by_key: dict[str, list[int]] = {}
    owners: dict[str, set[int]] = {}
    count = 0
    while count < 200:
        for at, consumer in enumerate(consumers):
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            by_key.setdefault(message.partition_key(), []).append(int(message.data()))
            owners.setdefault(message.partition_key(), set()).add(at)
            count += 1
    assert all(values == sorted(values) for values in by_key.values())
    assert all(len(owner) == 1 for owner in owners.values())


def test_a_standby_takes_over_what_the_active_consumer_did_not_acknowledge(broker: BrokerThread) -> None:
    """Failover: one consumer gets everything; when it goes the other starts with the first unacknowledged message."""
    first_client, second_client = connect(broker.url), connect(broker.url)
    failover = pulsar.ConsumerType.Failover
    consumers = {
        name: client.subscribe(TOPIC, "fail", consumer_type=failover, consumer_name=name)
        for name, client in (("a", first_client), ("b", second_client))
    }
    producer = second_client.create_producer(TOPIC)
    send_all(producer, numbers(0, 20))

    async def active() -> str:
        chosen = (await loaded(broker.broker)).subscriptions["fail"].active_consumer
        assert chosen is not None
        return chosen.name

    name = broker.run(active())
    assert take(consumers[name], 10) == numbers(0, 10)
    wait_backlog(broker, "fail", 10)
    consumers[name].close()
    other = "b" if name == "a" else "a"
    assert take(consumers[other], 10) == numbers(10, 20)
    first_client.close()
    second_client.close()


def test_messages_not_acknowledged_come_again(client: pulsar.Client) -> None:
    """A negative acknowledgement brings one message again, with its count; others stay."""
    consumer = client.subscribe(
        TOPIC, "again", consumer_type=pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    producer = client.create_producer(TOPIC)
    send_all(producer, numbers(0, 3))
    messages = [consumer.receive(RECEIVE_MS) for _ in range(3)]
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    consumer.negative_acknowledge(messages[1])
    again = consumer.receive(RECEIVE_MS)
    assert (again.data(), again.redelivery_count()) == (b"1", 1)


def test_an_exclusive_consumer_can_ask_for_everything_again(client: pulsar.Client) -> None:
    consumer = client.subscribe(TOPIC, "again")
    producer = client.create_producer(TOPIC)
    send_all(producer, numbers(0, 5))
    assert take(consumer, 5, ack=False) == numbers(0, 5)
    consumer.redeliver_unacknowledged_messages()
    assert take(consumer, 5) == numbers(0, 5)


def test_the_messages_of_a_consumer_that_left_go_to_the_others(broker: BrokerThread) -> None:
    first_client, second_client = connect(broker.url), connect(broker.url)
    shared = pulsar.ConsumerType.Shared
    first = first_client.subscribe(TOPIC, "pool", consumer_type=shared)
    producer = second_client.create_producer(TOPIC)
    send_all(producer, numbers(0, 10))
    assert len(take(first, 10, ack=False)) == 10
    second = second_client.subscribe(TOPIC, "pool", consumer_type=shared)
    first_client.close()
    assert sorted(take(second, 10)) == numbers(0, 10)
    second_client.close()


def test_an_acknowledgement_in_the_middle_of_a_batch_keeps_the_batch(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    """A cumulative acknowledgement inside a batch covers the entries before it; the batch comes again as a whole."""
    consumer = client.subscribe(TOPIC, "middle")
    producer = client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=5)
    send_all(producer, numbers(0, 10))
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    consumer.acknowledge_cumulative(messages[6])
    wait_backlog(broker, "middle", 1)
    consumer.close()
    assert take(client.subscribe(TOPIC, "middle"), 5) == numbers(5, 10)


def wait_partly_acked(broker: BrokerThread, subscription: str, left: list[int]) -> None:
    """Wait until the subscription has these bit sets of batches of which parts are acknowledged, oldest first."""

    async def bits() -> list[int]:
        topic = await loaded(broker.broker)
        return [bits for _, bits in sorted(topic.subscriptions[subscription].cursor.partly_acked.items())]

    until(lambda: broker.run(bits()) == left, "these messages of the batch are left")


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared])
def test_of_a_batch_only_what_is_not_acknowledged_comes_again(
    broker: BrokerThread, client: pulsar.Client, kind: pulsar.ConsumerType
) -> None:
    """To a client that acknowledges messages of batches; after it comes back, and after an unload."""
    options = {"consumer_type": kind, "batch_index_ack_enabled": True}
    consumer = client.subscribe(TOPIC, "parts", **options)
    producer = client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=5)
    send_all(producer, numbers(0, 10))
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    for number in (1, 3, 5, 6, 7, 9):
        consumer.acknowledge(messages[number])
    wait_partly_acked(broker, "parts", [0b10101, 0b01000])
    consumer.close()
    consumer = client.subscribe(TOPIC, "parts", **options)
    again = [consumer.receive(RECEIVE_MS) for _ in range(4)]
    assert [message.data() for message in again] == [b"0", b"2", b"4", b"8"]
    consumer.acknowledge(again[1])
    wait_partly_acked(broker, "parts", [0b10001, 0b01000])
    broker.run(broker.broker.unload())
    last = [consumer.receive(RECEIVE_MS) for _ in range(3)]
    assert [message.data() for message in last] == [b"0", b"4", b"8"]
    for message in last:
        consumer.acknowledge(message)
    wait_backlog(broker, "parts", 0)


def test_a_cumulative_acknowledgement_in_a_batch_covers_its_first_messages(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    consumer = client.subscribe(TOPIC, "prefix", batch_index_ack_enabled=True)
    producer = client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=5)
    send_all(producer, numbers(0, 10))
    messages = [consumer.receive(RECEIVE_MS) for _ in range(10)]
    consumer.acknowledge_cumulative(messages[6])
    wait_partly_acked(broker, "prefix", [0b11100])
    consumer.close()
    again = client.subscribe(TOPIC, "prefix", batch_index_ack_enabled=True)
    assert take(again, 3) == numbers(7, 10)
    wait_backlog(broker, "prefix", 0)


def test_a_delayed_message_comes_in_its_time(client: pulsar.Client) -> None:
    consumer = client.subscribe(TOPIC, "later", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(TOPIC)
    producer.send(b"late", deliver_at=int(time.time() * 1000) + 700)
    producer.send(b"now")
    assert take(consumer, 2) == [b"now", b"late"]


def test_unsubscribing_forgets_the_subscription(broker: BrokerThread, client: pulsar.Client) -> None:
    consumer = client.subscribe(TOPIC, "gone")
    client.create_producer(TOPIC).send(b"0")
    consumer.unsubscribe()
    assert broker.run(loaded(broker.broker)).subscriptions == {}


# ------------------------------------------------------------------------------------------------ seek and readers


def test_seek_moves_the_subscription(client: pulsar.Client) -> None:
    """To the start, to a message, to a time, to the end; and the consumer gets messages afterwards."""
    consumer = client.subscribe(TOPIC, "moved", receiver_queue_size=10)
    producer = client.create_producer(TOPIC)
    ids = [producer.send(b"%d" % n) for n in range(20)]
    messages = [consumer.receive(RECEIVE_MS) for _ in range(20)]
    consumer.seek(pulsar.MessageId.earliest)
    assert take(consumer, 20, ack=False) == numbers(0, 20)
    consumer.seek(ids[15])
    # The client drops messages up to and including the id it sought, unless the start is inclusive.
    assert take(consumer, 4, ack=False)[-1] == b"19"
    consumer.seek(messages[10].publish_timestamp())
    assert consumer.receive(RECEIVE_MS).publish_timestamp() >= messages[10].publish_timestamp()
    consumer.seek(pulsar.MessageId.latest)
    producer.send(b"new")
    assert take(consumer, 1) == [b"new"]


def test_a_reader_starts_where_it_is_told(client: pulsar.Client) -> None:
    producer = client.create_producer(TOPIC)
    ids = [producer.send(b"%d" % n) for n in range(10)]
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(10)] == numbers(0, 10)
    assert not reader.has_message_available()
    reader = client.create_reader(TOPIC, ids[4])
    assert reader.read_next(RECEIVE_MS).data() == b"5"
    reader = client.create_reader(TOPIC, ids[4], start_message_id_inclusive=True)
    assert reader.read_next(RECEIVE_MS).data() == b"4"
    assert reader.has_message_available()
    reader.seek(ids[7])
    assert reader.read_next(RECEIVE_MS).data() in (b"7", b"8")


def test_a_reader_goes_on_after_an_unload(broker: BrokerThread, client: pulsar.Client) -> None:
    """It brings the last message that the application took as its start; nothing is lost or seen twice."""
    producer = client.create_producer(TOPIC)
    send_all(producer, numbers(0, 10))
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(4)] == numbers(0, 4)
    assert broker.run(broker.broker.unload()) == 1
    assert [reader.read_next(RECEIVE_MS).data() for _ in range(6)] == numbers(4, 10)


def test_a_reader_sought_by_time_reads_from_that_time(client: pulsar.Client) -> None:
    producer = client.create_producer(TOPIC)
    send_all(producer, numbers(0, 10))
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    published = [reader.read_next(RECEIVE_MS).publish_timestamp() for _ in range(10)]
    reader.seek(published[3])
    assert reader.read_next(RECEIVE_MS).publish_timestamp() >= published[3]


def test_the_last_message_id_names_the_last_message(client: pulsar.Client) -> None:
    consumer = client.subscribe(TOPIC, "last")
    assert consumer.get_last_message_id().entry_id() == -1
    single = client.create_producer(TOPIC)
    last = single.send(b"0")
    found = consumer.get_last_message_id()
    assert (found.ledger_id(), found.entry_id(), found.batch_index()) == (last.ledger_id(), last.entry_id(), -1)
    batched = client.create_producer(TOPIC, batching_enabled=True, batching_max_messages=5)
    send_all(batched, numbers(1, 6))
    assert consumer.get_last_message_id().batch_index() == 4


# ------------------------------------------------------------------------------------------------ unload, restart


def test_clients_come_through_unloads_without_loss(broker: BrokerThread, client: pulsar.Client) -> None:
    """A producer sends while its bundle is unloaded five times; every number arrives, in order of first arrival."""
    consumer = client.subscribe(TOPIC, "through")
    producer = client.create_producer(TOPIC, send_timeout_millis=30_000, block_if_queue_full=True)
    total = 20_000
    sender = threading.Thread(target=send_all, args=(producer, numbers(0, total)))
    sender.start()
    for _ in range(5):
        broker.run(broker.broker.unload())
        until(lambda: len(broker.broker.registry.loaded()) == 1, "the topic is loaded")
    seen: set[int] = set()
    expected = 0
    while expected < total:
        message = consumer.receive(RECEIVE_MS)
        number = int(message.data())
        assert number <= expected, "a number was passed over"
        if number == expected:
            expected += 1
        seen.add(number)
        consumer.acknowledge(message)
    sender.join()
    assert seen == set(range(total))


def test_everything_is_there_again_when_a_broker_starts_on_the_same_storage(tmp_path: Path) -> None:
    """Messages and acknowledgements outlive the broker; the next one serves them under a higher epoch."""
    backend = MemoryBackend()

    def broker(epoch: int) -> OneBroker:
        return OneBroker(backend=backend, ledgers=FileLedgerStorage(tmp_path), first_epoch=epoch)

    with BrokerThread(lambda: broker(1)) as first:
        client = connect(first.url)
        consumer = client.subscribe(TOPIC, "kept")
        send_all(client.create_producer(TOPIC), numbers(0, 100))
        take(consumer, 40)
        client.close()
    with BrokerThread(lambda: broker(2)) as second:
        client = connect(second.url)
        assert take(client.subscribe(TOPIC, "kept"), 60) == numbers(40, 100)
        client.close()


def test_a_full_disk_fails_sends_and_nothing_else() -> None:
    """While there is no space a send gets no receipt, what is stored is read, and afterwards sending goes on."""
    disk = MemoryDisk()
    with BrokerThread(lambda: OneBroker(disk=disk)) as limited:
        client = connect(limited.url)
        consumer = client.subscribe(TOPIC, "full")
        producer = client.create_producer(TOPIC)
        send_all(producer, numbers(0, 5))
        assert take(consumer, 2) == numbers(0, 2)
        wait_backlog(limited, "full", 3)
        disk.capacity_bytes = disk.used_bytes
        answers: list[Any] = []
        producer.send_async(b"5", lambda result, _: answers.append(result))
        # The client reconnects at the refusal, so a message may be taken more than once.
        received: set[bytes] = set()
        while received < set(numbers(2, 5)):
            received.add(consumer.receive(RECEIVE_MS).data())
        assert answers == []
        disk.capacity_bytes = None
        producer.flush()
        assert answers == [pulsar.Result.Ok]
        while b"5" not in received:
            received.add(consumer.receive(RECEIVE_MS).data())
        assert received >= set(numbers(2, 6))
        client.close()


def test_a_producer_name_is_taken_while_its_holder_lives(broker: BrokerThread, client: pulsar.Client) -> None:
    client.create_producer(TOPIC, producer_name="mine")
    other = connect(broker.url)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(TOPIC, producer_name="mine")
    other.close()


def test_an_exclusive_producer_is_alone(client: pulsar.Client) -> None:
    first = client.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(TOPIC)
    first.close()
    client.create_producer(TOPIC).send(b"0")


def test_a_producer_that_waits_gets_the_topic_when_the_one_before_it_closes(
    broker: BrokerThread, client: pulsar.Client
) -> None:
    holder = client.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.WaitForExclusive)
    standby = connect(broker.url)
    ready: list[Any] = []
    waiting = threading.Thread(
        target=lambda: ready.append(
            standby.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.WaitForExclusive)
        )
    )
    waiting.start()
    while not broker.run(_waiting_producers(broker)):
        holder.send(b"before")
    assert ready == []
    holder.close()
    waiting.join(30)
    ready[0].send(b"after")
    standby.close()


async def _waiting_producers(broker: BrokerThread) -> int:
    topic = broker.broker.registry.get_loaded(TopicName.parse(TOPIC))
    return topic.waiting_producers if topic is not None else 0


def test_a_producer_that_was_displaced_is_fenced_after_an_unload(broker: BrokerThread, client: pulsar.Client) -> None:
    """Both reconnect with the epochs that they had; the client gives up on ProducerFenced."""
    displaced = client.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.Exclusive)
    displaced.send(b"0")
    other = connect(broker.url)
    successor = other.create_producer(TOPIC, access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing)
    for _ in range(2):
        broker.run(broker.broker.unload())
        successor.send(b"1")
        with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
            displaced.send(b"2")
    other.close()


def test_an_absent_topic_is_an_error_where_topics_are_not_created_by_use() -> None:
    with BrokerThread(lambda: OneBroker(BrokerConfig(allow_auto_topic_creation=False))) as strict:
        client = connect(strict.url)
        with pytest.raises(pulsar.TopicNotFound):
            client.create_producer(TOPIC)
        with pytest.raises(pulsar.TopicNotFound):
            client.subscribe(TOPIC, "none")
        client.close()
