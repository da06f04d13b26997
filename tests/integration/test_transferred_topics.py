"""The stock Pulsar client while its topics are handed from one broker to another and back, in two phases."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support import client_requests, stock_client
from support.one_broker import BrokerThread
from support.short_forms import params
from support.two_brokers import BUNDLE, TwoBrokers
from support.wire_client import TYPE, WireClient

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/default/numbers"
RECEIVE_MS = 20_000
TRANSFERS = 6
KEYS = 5


class TwoBrokersThread(BrokerThread):
    """Two brokers on an event loop in a thread of its own, for clients that block."""

    broker: Any

    @property
    def cluster(self) -> TwoBrokers:
        assert isinstance(self.broker, TwoBrokers)
        return self.broker

    @property
    def url(self) -> str:
        return self.cluster.a.lookup.url

    def transfer(self) -> None:
        owner = self.cluster.owner
        assert owner is not None
        self.run(self.cluster.transfer(owner))


@pytest.fixture
def brokers() -> Iterator[TwoBrokersThread]:
    with TwoBrokersThread(lambda: TwoBrokers()) as thread:  # type: ignore[arg-type, return-value]
        yield thread


@pytest.fixture
def client(brokers: TwoBrokersThread) -> Iterator[pulsar.Client]:
    connected = connect(brokers)
    keep(connected)
    yield connected
    connected.close()


def connect(brokers: TwoBrokersThread) -> pulsar.Client:
    return stock_client.connect(brokers.url)


def keep(client: pulsar.Client) -> None:
    """Have nothing trimmed, so that what is stored can be read at the end."""
    client.subscribe(TOPIC, "keeps all").close()


class Sender:
    """Sends numbers as fast as the client takes them, from a thread, until it is stopped; many are in flight."""

    def __init__(self, producer: Any) -> None:
        self.count = 0
        self.confirmed: list[int] = []
        self.failures: list[Any] = []
        self._producer = producer
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._send, name="sender", daemon=True)

    def _send(self) -> None:
        while not self._stop.is_set():
            self._send_one(self.count)
            self.count += 1
        self._producer.flush()

    def _send_one(self, number: int) -> None:
        def done(result: Any, _: Any) -> None:
            with self._news:
                (self.confirmed if result == pulsar.Result.Ok else self.failures).append(number)
                self._news.notify_all()

        self._producer.send_async(b"%d" % number, done, partition_key=f"key-{number % KEYS}")

    def wait_confirmed(self, more: int) -> None:
        """Wait until so many were confirmed that are sent from now on."""
        with self._news:
            wanted = self.count + more
            assert self._news.wait_for(lambda: len(self.confirmed) >= wanted, 30), "no receipts come"

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Taker:
    """Receives and acknowledges in a thread until it has seen `stop` different numbers, or somebody has."""

    def __init__(self, consumer: Any, seen: "set[int] | None" = None) -> None:
        self.received: list[int] = []
        self.seen = seen if seen is not None else set()
        self._consumer = consumer
        self._stop_at: int | None = None
        self._thread = threading.Thread(target=self._take, name="taker", daemon=True)
        self._thread.start()

    def _take(self) -> None:
        receive = self._consumer.receive if hasattr(self._consumer, "receive") else self._consumer.read_next
        while self._stop_at is None or len(self.seen) < self._stop_at:
            try:
                message = receive(200)
            except pulsar.Timeout:
                continue
            number = int(message.data())
            self.received.append(number)
            self.seen.add(number)
            if hasattr(self._consumer, "acknowledge"):
                self._consumer.acknowledge(message)

    def finish(self, count: int) -> list[int]:
        """Return what was received, once all of so many numbers were."""
        self._stop_at = count
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{count - len(self.seen)} of {count} did not come"
        return self.received


def first_time(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def stored(brokers: TwoBrokersThread) -> list[int]:
    """Read the topic from its beginning."""
    client = connect(brokers)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    numbers = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(RECEIVE_MS).data()))
    client.close()
    return numbers


def send_over_transfers(brokers: TwoBrokersThread, client: pulsar.Client, **options: Any) -> Sender:
    """Send while the topic goes to and fro; nobody may look it up meanwhile."""
    producer = client.create_producer(TOPIC, block_if_queue_full=True, **options)
    with Sender(producer) as sender:
        sender.wait_confirmed(100)
        look_ups = brokers.cluster.look_ups
        for _ in range(TRANSFERS):
            brokers.transfer()
            sender.wait_confirmed(100)
        assert brokers.cluster.look_ups == look_ups
    assert sender.failures == []
    if options.get("batching_type") is not pulsar.BatchingType.KeyBased:  # those are of every fifth number
        assert sender.confirmed == list(range(sender.count))
    assert sorted(sender.confirmed) == list(range(sender.count))
    return sender


CASES = {
    f"{kind}-{'batches' if is_batched else 'single messages'}": (kind, is_batched)
    for kind in ("exclusive", "failover", "reader")
    for is_batched in (True, False)
}


@pytest.mark.parametrize(
    ("kind", "is_batched"), params(CASES, short=("exclusive-single messages", "failover-batches", "reader-batches"))
)
def test_in_order_nothing_lost_and_no_look_up(
    brokers: TwoBrokersThread, client: pulsar.Client, kind: str, is_batched: bool
) -> None:
    """Every message is stored once, as its receipt was sent before its producer was sent on."""
    if kind == "reader":
        takers = [Taker(client.create_reader(TOPIC, pulsar.MessageId.earliest))]
    else:
        kinds = {"exclusive": pulsar.ConsumerType.Exclusive, "failover": pulsar.ConsumerType.Failover}
        seen: set[int] = set()
        consumers = 2 if kind == "failover" else 1
        takers = [Taker(client.subscribe(TOPIC, "s", kinds[kind]), seen) for _ in range(consumers)]
    sender = send_over_transfers(brokers, client, batching_enabled=is_batched)
    received = [taker.finish(sender.count) for taker in takers]
    assert set().union(*received) == set(range(sender.count))
    for numbers in received:
        assert first_time(numbers) == sorted(set(numbers))
    assert stored(brokers) == list(range(sender.count))
    assert brokers.cluster.a.registry.counters.transfers == TRANSFERS / 2


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=str)
def test_those_who_share_get_everything_between_them(
    brokers: TwoBrokersThread, client: pulsar.Client, kind: pulsar.ConsumerType
) -> None:
    seen: set[int] = set()
    takers = [Taker(client.subscribe(TOPIC, "s", kind), seen) for _ in range(3)]
    batches = pulsar.BatchingType.KeyBased if kind is pulsar.ConsumerType.KeyShared else pulsar.BatchingType.Default
    sender = send_over_transfers(brokers, client, batching_enabled=True, batching_type=batches)
    received = [taker.finish(sender.count) for taker in takers]
    assert set().union(*received) == set(range(sender.count))
    if kind is pulsar.ConsumerType.KeyShared:
        for numbers in received:
            for key in range(KEYS):
                of_key = first_time([number for number in numbers if number % KEYS == key])
                assert of_key == sorted(of_key)
    assert sorted(stored(brokers)) == list(range(sender.count))


def test_producers_that_are_deduplicated_go_on_where_they_were() -> None:
    config = BrokerConfig(broker_deduplication_enabled=True)
    with TwoBrokersThread(lambda: TwoBrokers(config)) as brokers:  # type: ignore[arg-type, return-value]
        client = connect(brokers)
        keep(client)
        sender = send_over_transfers(brokers, client, producer_name="mine", max_pending_messages=5000)
        assert stored(brokers) == list(range(sender.count))
        client.close()


def test_a_transfer_that_is_given_up_brings_the_clients_back(brokers: TwoBrokersThread, client: pulsar.Client) -> None:
    """They are told no address, look the topic up and find it where it was."""
    cluster = brokers.cluster
    taker = Taker(client.subscribe(TOPIC, "s"))
    with Sender(client.create_producer(TOPIC, block_if_queue_full=True)) as sender:
        sender.wait_confirmed(10)
        look_ups = cluster.look_ups
        brokers.run(cluster.begin(cluster.a))
        brokers.run(cluster.take(cluster.a))
        brokers.run(cluster.a.registry.finish_transfer(BUNDLE, None, reason="test"))
        sender.wait_confirmed(100)
        assert cluster.look_ups > look_ups
    assert first_time(taker.finish(sender.count)) == list(range(sender.count))
    assert stored(brokers) == list(range(sender.count))
    topic = cluster.a.registry.get_loaded(TopicName.parse(TOPIC))
    assert topic is not None
    assert topic.state is TopicState.OPEN


@pytest.mark.parametrize("why", ["gone", "not ready"])
def test_clients_look_up_when_the_assigned_broker_does_not_take_them(
    brokers: TwoBrokersThread, client: pulsar.Client, why: str
) -> None:
    """Nobody listens at the address that they were told, or who does has not got the bundle yet."""
    cluster = brokers.cluster
    taker = Taker(client.subscribe(TOPIC, "s"))
    with Sender(client.create_producer(TOPIC, block_if_queue_full=True)) as sender:
        sender.wait_confirmed(10)
        look_ups = cluster.look_ups
        brokers.run(cluster.begin(cluster.a))
        if why == "gone":
            with socket.socket() as nobody:
                nobody.bind(("127.0.0.1", 0))
                urls = ServiceUrls("gone", f"pulsar://127.0.0.1:{nobody.getsockname()[1]}")
                brokers.run(cluster.take(cluster.b))
                brokers.run(cluster.a.registry.finish_transfer(BUNDLE, urls, reason="test"))
                sender.wait_confirmed(100)
        else:
            brokers.run(cluster.a.registry.finish_transfer(BUNDLE, cluster.urls(cluster.b), reason="test"))
            brokers.run(asked(cluster, look_ups))
            brokers.run(cluster.take(cluster.b))
            sender.wait_confirmed(100)
        assert cluster.look_ups > look_ups
    assert first_time(taker.finish(sender.count)) == list(range(sender.count))
    assert stored(brokers) == list(range(sender.count))


async def asked(cluster: TwoBrokers, before: int) -> None:
    """Wait until somebody looked up, which is after the assigned broker refused."""
    async with asyncio.timeout(30):
        while cluster.look_ups == before:
            await asyncio.sleep(0.01)


def test_a_client_that_does_not_know_the_address_finds_the_owner_by_look_up(brokers: TwoBrokersThread) -> None:
    brokers.run(_ignoring_the_address(brokers.cluster))


async def _ignoring_the_address(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port)
    await client.produce(TOPIC)
    await cluster.transfer(cluster.a)
    assert (await client.expect(TYPE.CLOSE_PRODUCER)).assignedBrokerServiceUrl == cluster.b.lookup.url
    question = client_requests.lookup(client.request_id(), TOPIC)
    _, answer = await client.ask(question, TYPE.LOOKUP_RESPONSE)
    assert answer.brokerServiceUrl == cluster.b.lookup.url
    there = await WireClient.connect(cluster.b.port)
    await there.produce(TOPIC)
    await there.send_all(1)
    client.close()
    there.close()
