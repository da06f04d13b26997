"""Seek and readers over the wire: where reading begins, the last message, topics that store none."""

from typing import Any

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient
from support.wire_consumer import TOPIC, assert_no_message, ids, payloads


async def seek(client: WireClient, request_id: int, **where: Any) -> list[int]:
    """Seek and return the types of the answers until SUCCESS or ERROR, inclusive."""
    client.write(client_requests.seek(request_id, 1, **where))
    said = []
    while not said or said[-1] not in (TYPE.SUCCESS, TYPE.ERROR):
        said.append((await client.take(lambda number, _: number != TYPE.MESSAGE))[0])
    client.received.clear()
    return said


async def test_seek_closes_the_consumer_first_and_delivers_the_message_sought(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=100)
    sent = await client.send_all(10)
    await client.messages(10)
    assert await seek(client, 20, position=commands.message_id(*sent[6])) == [TYPE.CLOSE_CONSUMER, TYPE.SUCCESS]
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 4) == [6, 7, 8, 9]
    await seek(client, 21, position=client_commands.EARLIEST)
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 10) == list(range(10))
    await seek(client, 22, position=client_commands.LATEST)
    await client.subscribe(TOPIC, permits=100)
    await assert_no_message(client)
    await seek(client, 23, publish_time_ms=1)
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 10) == list(range(10))


async def test_a_seek_without_a_place_is_refused(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    assert await seek(client, 20) == [TYPE.ERROR]


async def read_from(client: WireClient, position: Any) -> None:
    await client.subscribe(TOPIC, "reader-x", 1, permits=100, durable=False, start_message_id=position)


async def test_a_reader_gets_its_start_first_and_is_forgotten_when_it_goes(
    broker: OneBroker, client: WireClient
) -> None:
    sent = await client.send_all(5)
    await read_from(client, commands.message_id(*sent[2]))
    assert await payloads(client, 3) == [2, 3, 4]
    client.write(client_commands.ack(1, ids(sent[4]), cumulative=True))
    await client.ask(commands.close_consumer(1, 80), TYPE.SUCCESS)
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert topic is not None
    assert topic.subscription_count == 0
    await read_from(client, commands.message_id(*sent[3]))
    assert await payloads(client, 2) == [3, 4]


async def test_a_reader_sought_by_time_keeps_that_place_whatever_start_it_brings(client: WireClient) -> None:
    sent = await client.send_all(5)
    await read_from(client, commands.message_id(*sent[4]))
    await client.messages(1)
    await seek(client, 20, publish_time_ms=1)
    await read_from(client, commands.message_id(*sent[4]))
    assert await payloads(client, 5) == [0, 1, 2, 3, 4]


async def test_the_last_message_id_of_an_empty_topic_is_minus_one(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    answer = (await client.ask(client_commands.get_last_message_id(5, 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE))[1]
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
    client.send(0, batch=3)
    await client.expect(TYPE.SEND_RECEIPT)
    answer = (await client.ask(client_commands.get_last_message_id(6, 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE))[1]
    assert (answer.last_message_id.entryId, answer.last_message_id.batch_index) == (0, 2)


async def test_non_persistent_messages_without_a_ready_consumer_are_gone(broker: OneBroker) -> None:
    topic = "non-persistent://public/default/t"
    client = await WireClient.connect(broker.port)
    await client.produce(topic)
    await client.subscribe(topic, permits=2)
    await client.send_all(5)
    assert await payloads(client, 2) == [0, 1]
    client.write(client_commands.flow(1, 10))
    await assert_no_message(client)
    assert await seek(client, 20, position=client_commands.EARLIEST) == [TYPE.ERROR]
    assert (await client.ask(client_commands.get_last_message_id(5, 1), TYPE.ERROR))[1].error == api.NotAllowedError
    await client.ask(commands.close_consumer(1, 80), TYPE.SUCCESS)
    found = broker.registry.get_loaded(TopicName.parse(topic))
    assert found is not None
    assert found.subscription_count == 0
