"""Small inputs that could cost a broker much: commands with many parts. Each is refused, or processed in steps."""

import asyncio
import struct
from typing import Any

import pytest

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.wire.bounds import HASH_RANGES, IDS_AT_ONCE, PROPERTIES_LENGTH
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import MAX_COMMAND_BYTES, MAX_HANDSHAKE_BYTES
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient
from support.wire_consumer import TOPIC

DEADLINE_S = 30
STICKY = 1


def frame(command: api.BaseCommand) -> bytes:
    data = command.SerializeToString()
    return struct.pack(">II", len(data) + 4, len(data)) + data


def command(kind: Any) -> api.BaseCommand:
    return api.BaseCommand(type=kind)


async def closed_after(port: int, data: bytes) -> bytes:
    """Send bytes on a connection of their own, and return what is answered until the broker closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            writer.write(data)
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("more", ["auth data", "unknown fields"])
async def test_a_large_command_before_connect_costs_the_connection_and_is_not_parsed(
    broker: OneBroker, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = command(TYPE.CONNECT)
    connect.connect.client_version = "test"
    padding = b""
    if more == "auth data":
        connect.connect.auth_data = bytes(MAX_HANDSHAKE_BYTES)
    else:
        padding = b"\xf8\x7f\x01" * (MAX_HANDSHAKE_BYTES // 3)
    data = connect.SerializeToString() + padding
    monkeypatch.setattr("pulsar_barycenter.protocol.connection_state.parse_command", None)
    assert await closed_after(broker.port, struct.pack(">II", len(data) + 4, len(data)) + data) == b""


async def test_a_large_command_costs_the_connection_and_a_large_entry_does_not(
    broker: OneBroker, client: WireClient
) -> None:
    client.send(0, bytes(2 * MAX_COMMAND_BYTES))
    await client.expect(TYPE.SEND_RECEIPT)
    large = command(TYPE.ACK)
    large.ack.consumer_id, large.ack.ack_type = 1, api.CommandAck.Individual
    one = large.ack.message_id.add(ledgerId=1, entryId=1)
    large.ack.message_id.extend([one] * (MAX_COMMAND_BYTES // 6))
    client.write(frame(large))
    async with asyncio.timeout(DEADLINE_S):
        await client.closed.wait()


@pytest.mark.parametrize("kind", ["producer", "consumer", "subscription"])
async def test_blank_properties_are_counted(broker: OneBroker, client: WireClient, kind: str) -> None:
    request_id = client.request_id()
    if kind == "producer":
        asked = command(TYPE.PRODUCER)
        asked.producer.topic, asked.producer.producer_id, asked.producer.request_id = TOPIC, 7, request_id
        pairs = asked.producer.metadata
    else:
        asked = command(TYPE.SUBSCRIBE)
        asked.subscribe.topic, asked.subscribe.subscription = TOPIC, "s"
        asked.subscribe.subType = api.CommandSubscribe.Shared
        asked.subscribe.consumer_id, asked.subscribe.request_id = 7, request_id
        pairs = asked.subscribe.metadata if kind == "consumer" else asked.subscribe.subscription_properties
    blank = api.KeyValue(key="", value="")
    pairs.extend([blank] * (PROPERTIES_LENGTH * 16 + 1))
    client.write(frame(asked))
    refused = await client.expect(TYPE.ERROR)
    assert (refused.request_id, refused.error) == (request_id, api.NotAllowedError)
    assert "at most" in refused.message


async def test_hash_ranges_are_counted(broker: OneBroker, client: WireClient) -> None:
    asked = command(TYPE.SUBSCRIBE)
    request = asked.subscribe
    request.topic, request.subscription, request.subType = TOPIC, "s", api.CommandSubscribe.Key_Shared
    request.consumer_id, request.request_id = 7, client.request_id()
    request.keySharedMeta.keySharedMode = STICKY
    for slot in range(HASH_RANGES + 1):
        request.keySharedMeta.hashRanges.add(start=slot, end=slot)
    client.write(frame(asked))
    refused = await client.expect(TYPE.ERROR)
    assert refused.error == api.NotAllowedError
    assert "hash ranges; at most" in refused.message


async def consumer_of(broker: OneBroker, client: WireClient, messages: int) -> list[tuple[int, int]]:
    """Have a Shared consumer receive messages; return their ids."""
    asked = command(TYPE.SUBSCRIBE)
    asked.subscribe.topic, asked.subscribe.subscription = TOPIC, "s"
    asked.subscribe.subType = api.CommandSubscribe.Shared
    asked.subscribe.consumer_id, asked.subscribe.request_id = 7, client.request_id()
    client.write(frame(asked))
    await client.expect(TYPE.SUCCESS)
    await client.send_all(messages)
    flow = command(TYPE.FLOW)
    flow.flow.consumer_id, flow.flow.messagePermits = 7, 10 * messages
    client.write(frame(flow))
    received = [await client.expect(TYPE.MESSAGE) for _ in range(messages)]
    return [(each.message_id.ledgerId, each.message_id.entryId) for each in received]


async def test_many_acknowledgements_in_one_command_are_worked_off_in_steps_and_answered_once(
    broker: OneBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_barycenter.broker.wire.consume_requests.IDS_AT_ONCE", 2)
    ids = await consumer_of(broker, client, 15)
    ack = command(TYPE.ACK)
    ack.ack.consumer_id, ack.ack.ack_type, ack.ack.request_id = 7, api.CommandAck.Individual, 99
    for ledger_id, entry_id in ids:
        ack.ack.message_id.add(ledgerId=ledger_id, entryId=entry_id)
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    steps: list[int] = []
    subscription = topic.subscriptions["s"]
    whole = type(subscription).ack_individual

    def counted(self: Any, consumer: Any, positions: Any) -> None:
        steps.append(len(positions))
        whole(self, consumer, positions)

    monkeypatch.setattr(type(subscription), "ack_individual", counted)
    client.write(frame(ack))
    answer = await client.expect(TYPE.ACK_RESPONSE)
    assert (answer.request_id, answer.HasField("error")) == (99, False)
    assert steps == [2] * 7 + [1]
    assert subscription.cursor.backlog.messages == 0


async def test_many_redeliveries_in_one_command_are_worked_off_in_steps(
    broker: OneBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_barycenter.broker.wire.consume_requests.IDS_AT_ONCE", 2)
    ids = await consumer_of(broker, client, 9)
    again = command(TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    again.redeliverUnacknowledgedMessages.consumer_id = 7
    for ledger_id, entry_id in ids:
        again.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=ledger_id, entryId=entry_id)
    client.write(frame(again))
    received = [await client.expect(TYPE.MESSAGE) for _ in ids]
    assert sorted((each.message_id.ledgerId, each.message_id.entryId) for each in received) == ids


def test_what_clients_group_is_one_step() -> None:
    assert IDS_AT_ONCE >= 1_000
