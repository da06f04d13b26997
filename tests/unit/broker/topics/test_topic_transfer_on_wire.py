"""A transfer as clients see it on the wire: their commands meanwhile, and the broker that they are sent to."""

import asyncio

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import ListenerUrls
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.transferred_topic import LOOSE, TOPIC, ledgers_of, open_topic
from support.two_brokers import BUNDLE, TwoBrokers, turns
from support.wire_client import TYPE, WireClient


async def test_a_non_persistent_topic_stops_and_sends_its_clients_on(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port)
    await client.produce(str(LOOSE))
    await client.subscribe(str(LOOSE), permits=10)
    await client.send_all(1)
    await client.messages(1)
    assert await cluster.begin(cluster.a) == 1
    assert isinstance(next(iter(cluster.a.registry.loaded())), NonPersistentTopic)
    client.send(1)
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.MESSAGE) == []
    await cluster.a.registry.finish_transfer(BUNDLE, cluster.urls(cluster.b), reason="test")
    for kind in (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER):
        assert (await client.expect(kind)).assignedBrokerServiceUrl == cluster.b.lookup.url


async def test_what_clients_say_during_a_transfer_is_dropped_and_counted(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC), permits=2)
    ids = [commands.message_id(*position) for position in await client.send_all(3)]
    await client.messages(2)
    await cluster.begin(cluster.a)
    client.send(3)
    client.send(4, batch=10)
    client.write(client_commands.flow(1, 100))
    client.write(client_commands.ack(1, ids[:2]))
    client.write(client_requests.redeliver(1))
    await client.settled()
    assert client.received == []
    _, answer = await client.ask(client_commands.ack(1, ids[:1], request_id=99), TYPE.ACK_RESPONSE)
    assert answer.error == api.ConsumerNotFound
    for question in (
        client_requests.unsubscribe(client.request_id(), 1),
        client_requests.seek(client.request_id(), 1, position=ids[0]),
    ):
        _, answer = await client.ask(question, TYPE.ERROR)
        assert answer.error == api.MetadataError
    assert (await client.produce(str(TOPIC), 2)).error == api.ServiceNotReady
    assert (await client.subscribe(str(TOPIC), "other", 2)).error == api.ServiceNotReady
    counters = cluster.a.registry.counters
    assert (counters.dropped_sends, counters.dropped_acks) == (11, 3)
    await cluster.a.registry.finish_transfer(BUNDLE, None, reason="test")
    client.send(5)
    client.write(client_commands.ack(1, ids[:2]))
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.SEND_ERROR) == []
    assert (counters.dropped_sends, counters.dropped_acks) == (11, 3)
    topic = await later_state(cluster)
    assert topic.subscriptions["s"].cursor.backlog.entries == 3


async def test_readers_are_told_the_last_message_during_a_transfer(held: TwoBrokers) -> None:
    """In both states of the first phase; else every reader that looks whether there is more would fail."""
    client = await WireClient.connect(held.a.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC))
    positions = await client.send_all(2)
    ledgers_of(held).held = True
    client.send(2, batch=7)
    await client.settled()
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    question = client_commands.get_last_message_id(client.request_id(), 1)
    _, answer = await client.ask(question, TYPE.GET_LAST_MESSAGE_ID_RESPONSE)
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == positions[1]
    ledgers_of(held).let_go()
    await begun
    _, answer = await client.ask(question, TYPE.GET_LAST_MESSAGE_ID_RESPONSE)
    assert (answer.last_message_id.entryId, answer.last_message_id.batch_index) == (2, 6)
    await held.a.registry.finish_transfer(BUNDLE, None, reason="test")


async def later_state(cluster: TwoBrokers) -> PersistentTopic:
    await cluster.take(cluster.b)
    topic = await open_topic(cluster.b)
    assert isinstance(topic, PersistentTopic)
    return topic


LISTENERS = {
    "inside": ListenerUrls("pulsar://inside:6650", "pulsar+ssl://inside:6651"),
    "outside": ListenerUrls("pulsar://outside:6650"),
}
MANY = ServiceUrls("b:8080", "pulsar://b:6650", "pulsar+ssl://b:6651", listeners=LISTENERS)
ONE = ServiceUrls("b:8080", "pulsar://b:6650", "pulsar+ssl://b:6651")


@pytest.mark.parametrize(
    ("owner", "asked", "told"),
    [
        pytest.param(ONE, None, ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="one address, no look-up here"),
        pytest.param(ONE, "", ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="the default listener"),
        pytest.param(MANY, "", ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="the default one of many"),
        pytest.param(MANY, "inside", ("pulsar://inside:6650", "pulsar+ssl://inside:6651"), id="a listener"),
        pytest.param(MANY, "outside", ("pulsar://outside:6650", None), id="a listener without TLS"),
        pytest.param(MANY, None, (None, None), id="many, and not known which"),
        pytest.param(MANY, "unknown", (None, None), id="a listener that the owner has not"),
        pytest.param(ONE, "inside", (None, None), id="a listener, and the owner has none"),
        pytest.param(None, "inside", (None, None), id="no owner"),
        pytest.param(MANY.owner(is_local=False, epoch=3), "outside", ("pulsar://outside:6650", None), id="an Owner"),
    ],
)
async def test_a_client_is_sent_to_the_listener_for_which_it_looked_up(
    cluster: TwoBrokers, owner: ServiceUrls | None, asked: str | None, told: tuple[str | None, str | None]
) -> None:
    client = await WireClient.connect(cluster.a.port)
    if asked is not None:
        question = client_requests.lookup(client.request_id(), str(TOPIC), listener=asked)
        await client.ask(question, TYPE.LOOKUP_RESPONSE)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC))
    await cluster.begin(cluster.a)
    await cluster.a.registry.finish_transfer(BUNDLE, owner, reason="test")
    for kind in (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER):
        close = await client.expect(kind)
        fields = ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")
        assert tuple(getattr(close, name) if close.HasField(name) else None for name in fields) == told


async def test_a_client_that_knows_no_close_from_a_broker_loses_its_connection(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port, version=4)
    await client.produce(str(TOPIC))
    await cluster.transfer(cluster.a)
    await client.expect_closed()


async def test_closing_a_producer_during_a_transfer_is_confirmed(held: TwoBrokers) -> None:
    client = await WireClient.connect(held.a.port)
    await client.produce(str(TOPIC))
    ledgers_of(held).held = True
    client.send(0)
    await client.settled()
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    client.write(commands.close_producer(1, 77))
    await client.settled()
    assert client.pending(TYPE.SUCCESS) == []
    ledgers_of(held).let_go()
    await begun
    await client.expect(TYPE.SEND_RECEIPT)
    assert (await client.expect(TYPE.SUCCESS)).request_id == 77
    await held.a.registry.finish_transfer(BUNDLE, None, reason="test")
    await client.settled()
    assert client.pending(TYPE.CLOSE_PRODUCER) == []
