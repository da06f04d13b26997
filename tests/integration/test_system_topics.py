"""Our client of system topics beside the stock Pulsar client, at a broker of ours."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.reader import Start
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import BrokerThread, OneBroker
from support.running_cluster import running_cluster
from support.system_topic_process import DEADLINE_S, Whereabouts, system_topic_client, system_topic_clients, until

pytestmark = pytest.mark.integration

RECEIVE_MS = 20_000
NAMESPACE = "pulsar/system"
COMPRESSIONS = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


@pytest.fixture
def where(broker: BrokerThread) -> Whereabouts:
    return Whereabouts(broker.url)


@pytest.fixture
def reader(client: pulsar.Client) -> Iterator[Any]:
    """A stock reader of the ownership channel from its beginning."""
    reader = client.create_reader(SERVICE_UNIT_STATE_TOPIC, pulsar.MessageId.earliest)
    yield reader
    reader.close()


async def keep_everything(broker: OneBroker) -> None:
    """Have a subscription hold all entries, as that of the compaction would: else closed ledgers may be deleted."""
    topic = await broker.registry.get_or_create(TopicName.parse(SERVICE_UNIT_STATE_TOPIC))
    assert isinstance(topic, PersistentTopic)
    async with topic.lock:
        await topic.create_subscription("keep", EARLIEST)


async def read(reader: Any) -> tuple[str, bytes]:
    message = await asyncio.to_thread(reader.read_next, RECEIVE_MS)
    return message.partition_key(), message.data()


async def test_a_stock_reader_sees_what_we_publish(where: Whereabouts, reader: Any) -> None:
    async with system_topic_client(where) as ours:
        publisher = ours.publisher(SERVICE_UNIT_STATE_TOPIC)
        places = [await publisher.publish(f"k{number}", b"%d" % number) for number in range(3)]
        await publisher.publish("k1", None)
        assert [await read(reader) for _ in range(4)] == [("k0", b"0"), ("k1", b"1"), ("k2", b"2"), ("k1", b"")]
    assert places == sorted(set(places))


async def test_a_stock_table_view_holds_what_ours_does(where: Whereabouts, client: pulsar.Client) -> None:
    async with system_topic_client(where) as ours:
        view = ours.table_view(SERVICE_UNIT_STATE_TOPIC)
        await view.start(DEADLINE_S)
        await asyncio.gather(*(view.put(f"k{number % 7}", b"%d" % number) for number in range(100)))
        await view.remove("k3")
        await until(lambda: len(view) == 6)
        stock = await asyncio.to_thread(client.create_table_view, SERVICE_UNIT_STATE_TOPIC)
        held: dict[str, bytes] = {}
        stock.for_each(lambda key, value: held.__setitem__(key, value))
        assert {key: value for key, value in held.items() if value} == dict(view.items())
        stock.close()


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
async def test_we_see_what_a_stock_producer_writes(
    where: Whereabouts, client: pulsar.Client, compression: str, batched: bool
) -> None:
    """Every key and value, in order and once, before and after the reader attached."""
    got: list[tuple[str | None, bytes | None]] = []
    wanted: list[tuple[str, bytes]] = [(f"k{number}", b"value %d " % number * number) for number in range(40)]

    def write(messages: list[tuple[str, bytes]]) -> None:
        for key, value in messages:
            producer.send_async(value, lambda *_: None, partition_key=key)
        producer.flush()

    producer = client.create_producer(
        SERVICE_UNIT_STATE_TOPIC,
        compression_type=COMPRESSIONS[compression],
        batching_enabled=batched,
        batching_max_publish_delay_ms=1000,
    )
    await asyncio.to_thread(write, wanted[:20])
    async with system_topic_client(where) as ours:
        reader = ours.reader(SERVICE_UNIT_STATE_TOPIC, lambda key, value, *_: got.append((key, value)))
        await reader.caught_up()
        assert got == wanted[:20]
        await asyncio.to_thread(write, wanted[20:])
        await until(lambda: len(got) == len(wanted))
        assert reader.skipped == 0
    assert got == wanted


async def test_an_unload_in_the_middle_loses_and_doubles_nothing(
    where: Whereabouts, broker: BrokerThread, reader: Any
) -> None:
    got: list[bytes | None] = []
    broker.run(keep_everything(broker.broker))
    async with system_topic_client(where) as ours:
        ours.reader(SERVICE_UNIT_STATE_TOPIC, lambda key, value, *_: got.append(value))
        publisher = ours.publisher(SERVICE_UNIT_STATE_TOPIC)
        await publisher.publish("first", b"-1")
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(2000)]
        await until(lambda: len(got) > 100)
        await asyncio.to_thread(lambda: broker.run(broker.broker.unload(NAMESPACE)))
        await asyncio.gather(*publishing)
        await until(lambda: len(got) == 2001)
    assert got == [b"%d" % number for number in range(-1, 2000)]


async def test_a_restart_at_another_address_in_the_middle_loses_and_doubles_nothing() -> None:
    """The stores outlive the broker, as a cluster's do."""
    first = await OneBroker().start()
    await keep_everything(first)
    got: list[bytes | None] = []
    where = Whereabouts(first.lookup.url)
    async with system_topic_client(where) as ours:
        view = ours.table_view(SERVICE_UNIT_STATE_TOPIC)
        await view.start(DEADLINE_S)
        view.listen(lambda key, before, after: got.append(after))
        publishing = [asyncio.create_task(view.put(f"k{number % 10}", b"%d" % number)) for number in range(1000)]
        await until(lambda: len(got) > 100)
        await first.stop()
        second = await OneBroker(backend=first.backend, disk=first.disk, first_epoch=100).start()
        where.url = second.lookup.url
        ours.owner_changed()
        await asyncio.gather(*publishing)
        await until(lambda: len(got) == 1000)
        assert dict(view.items()) == {f"k{number}": b"%d" % (990 + number) for number in range(10)}
    assert got == [b"%d" % number for number in range(1000)]
    await second.stop()


async def test_a_view_of_a_non_persistent_topic_is_shared_with_stock_clients(
    where: Whereabouts, client: pulsar.Client
) -> None:
    async with system_topic_clients(where, 2) as (ours, others):
        view, other = ours.table_view(BROKER_LOAD_TOPIC), others.table_view(BROKER_LOAD_TOPIC)
        await asyncio.gather(view.start(DEADLINE_S), other.start(DEADLINE_S))
        await view.put("a:1", b"1")
        await other.put("b:1", b"2")
        producer = await asyncio.to_thread(client.create_producer, BROKER_LOAD_TOPIC)
        await asyncio.to_thread(lambda: producer.send(b"3", partition_key="c:1"))
        await asyncio.to_thread(lambda: producer.send(b"", partition_key="a:1"))
        wanted = {"b:1": b"2", "c:1": b"3"}
        await until(lambda: dict(view.items()) == wanted and dict(other.items()) == wanted)


async def test_a_reader_from_the_latest_gets_what_comes_after_it(where: Whereabouts, broker: BrokerThread) -> None:
    got: list[bytes | None] = []
    async with system_topic_client(where) as ours:
        publisher = ours.publisher(SERVICE_UNIT_STATE_TOPIC)
        await publisher.publish("k", b"before")
        reader = ours.reader(SERVICE_UNIT_STATE_TOPIC, lambda key, value, *_: got.append(value), start=Start.LATEST)
        await reader.caught_up()
        await asyncio.to_thread(lambda: broker.run(broker.broker.unload(NAMESPACE)))
        await publisher.publish("k", b"after")
        await until(lambda: bool(got))
    assert got == [b"after"]


async def test_a_killed_broker_process_in_a_cluster(tmp_path: Path) -> None:
    """Processes: the owner is killed, another one loads the topic, and nothing acknowledged is missing."""
    async with running_cluster(tmp_path, brokers=2) as (cluster, admin):
        await admin.create_namespace("public/channel", 1)
        topic = "persistent://public/channel/loadbalancer-service-unit-state"
        path = topic.replace("://", "/")
        await admin.expect(204, "PUT", f"/admin/v2/{path}")
        await admin.expect(204, "PUT", f"/admin/v2/{path}/subscription/keep", json={"ledgerId": -1, "entryId": -1})
        alive = 0

        async def find() -> str | None:
            return (await admin.owner(topic, broker=alive)).service_url

        got: list[bytes | None] = []
        client: SystemTopicClient
        async with system_topic_client(find) as client:
            view = client.table_view(topic)
            view.listen(lambda key, before, after: got.append(after))
            await view.start(DEADLINE_S)
            victim = await admin.owner(topic)
            publishing = [asyncio.create_task(view.put("k", b"%d" % number)) for number in range(500)]
            await until(lambda: len(got) > 50)
            alive = 1 - cluster.brokers.index(victim)
            await cluster.kill_broker(victim)
            publishing += [
                asyncio.create_task(view.put("k", b"%d" % number, timeout_s=DEADLINE_S)) for number in range(500, 600)
            ]
            await asyncio.gather(*publishing)
            await until(lambda: len(got) == 600)
            assert view.get("k") == b"599"
        assert got == [b"%d" % number for number in range(600)]
