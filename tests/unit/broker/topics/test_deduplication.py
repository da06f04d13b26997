"""Deduplication: a message that a producer sends twice is stored once, at any broker."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.topics.deduplication import CURSOR_NAME
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"
NOWHERE = (2**64 - 1, 2**64 - 1)


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker(BrokerConfig(broker_deduplication_enabled=True)).start()
    yield running
    await running.stop()


def topic_of(broker: OneBroker) -> PersistentTopic:
    found = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(found, PersistentTopic)
    return found


async def receipt(client: WireClient) -> tuple[int, tuple[int, int]]:
    answer = await client.expect(TYPE.SEND_RECEIPT)
    return answer.sequence_id, (answer.message_id.ledgerId, answer.message_id.entryId)


async def test_a_message_sent_twice_is_confirmed_twice_and_stored_once(broker: OneBroker) -> None:
    """The second receipt names no position; it does not overtake those of messages under way."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")
    await client.send_all(3)
    client.send(3)
    client.send(1)
    client.send(4)
    answers = [await receipt(client) for _ in range(3)]
    assert [sequence_id for sequence_id, _ in answers] == [3, 1, 4]
    assert answers[1][1] == NOWHERE
    assert topic_of(broker).ledger.last_position.entry_id == 4


async def test_a_message_that_is_still_under_way_must_be_sent_again_later() -> None:
    storage = MemoryLedgerStorage(MemoryDisk(), durability_delay_s=lambda: 0.05)
    running = await OneBroker(BrokerConfig(broker_deduplication_enabled=True), ledgers=storage).start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC, producer_name="p")
    client.send(0)
    client.send(0)
    error = await client.expect(TYPE.SEND_ERROR)
    assert (error.sequence_id, error.error) == (0, api.ServiceNotReady)
    assert "Message 0 of producer 'p' is being stored" in error.message
    await client.expect(TYPE.CLOSE_PRODUCER)
    await running.stop()


async def test_what_comes_in_the_same_read_behind_a_message_still_under_way_is_dropped() -> None:
    """The producer is closed by the answer: its client sends all of it again, and nothing stays pending."""
    storage = MemoryLedgerStorage(MemoryDisk(), durability_delay_s=lambda: 0.05)
    running = await OneBroker(BrokerConfig(broker_deduplication_enabled=True), ledgers=storage).start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC, producer_name="p")
    client.write(
        b"".join(client_commands.send(1, number, entry_of(b"x", sequence_id=number)) for number in (0, 0, 1, 2))
    )
    assert (await client.expect(TYPE.SEND_ERROR)).sequence_id == 0
    await client.expect(TYPE.CLOSE_PRODUCER)
    assert (await receipt(client))[0] == 0
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.SEND_ERROR) == []
    assert (topic_of(running).ledger.last_position.entry_id, topic_of(running).pending) == (0, 0)
    (connection,) = running.server.connections
    assert isinstance(connection, Connection)
    assert (connection._unanswered.count, connection._unanswered.size) == (0, 0)
    await running.stop()


@pytest.mark.parametrize("entries", [5, 1005])
async def test_the_memory_outlives_an_unload(broker: OneBroker, entries: int) -> None:
    """With a snapshot that was written meanwhile, or by reading the entries again."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")
    await client.send_all(entries)
    await broker.unload()
    await client.expect(TYPE.CLOSE_PRODUCER)
    again = await client.produce(TOPIC, producer_name="p", epoch=1)
    assert again.last_sequence_id == entries - 1
    client.send(2)
    assert await receipt(client) == (2, NOWHERE)
    client.send(entries)
    assert (await receipt(client))[1] != NOWHERE


async def test_the_highest_id_of_a_batch_counts(broker: OneBroker) -> None:
    """Java names it; a batch that ends with what was stored is a duplicate, one that goes beyond is not."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")
    duplicates = []
    for first, highest in ((0, 4), (5, 9), (3, 9), (5, 12)):
        entry = entry_of(b"x", sequence_id=first, batch=highest - first + 1)
        client.write(
            client_commands.send(1, first, entry, num_messages=highest - first + 1, highest_sequence_id=highest)
        )
        duplicates.append((await receipt(client))[1] == NOWHERE)
    assert duplicates == [False, False, True, False]


async def test_chunks_of_one_message_are_no_duplicates(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")

    def chunk(chunk_id: int) -> bytes:
        metadata = api.MessageMetadata(
            producer_name="p", sequence_id=7, publish_time=1, uuid="p-7", chunk_id=chunk_id, num_chunks_from_msg=3
        )
        return client_commands.send(1, 7, encode_entry(metadata.SerializeToString(), b"x"), is_chunk=True)

    for chunk_id in range(3):
        client.write(chunk(chunk_id))
    assert all([(await receipt(client))[1] != NOWHERE for _ in range(3)])
    client.write(chunk(0))
    assert (await receipt(client))[1] == NOWHERE


async def test_the_cursor_of_deduplication_is_no_subscription_and_goes_when_it_is_switched_off(
    broker: OneBroker,
) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="p")
    assert topic_of(broker).subscriptions == {}
    assert CURSOR_NAME in topic_of(broker).ledger.cursors
    await broker.unload()
    broker.policies.config = BrokerConfig()
    await client.produce(TOPIC, 2)
    assert topic_of(broker).ledger.cursors == {}
    client.send(0, producer_id=2)
    client.send(0, producer_id=2)
    assert (await receipt(client))[1] < (await receipt(client))[1] < NOWHERE
