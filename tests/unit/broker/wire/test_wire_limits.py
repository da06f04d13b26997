"""Too many connections, and memory of published messages: bounded for all clients of a broker together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pulsar_barycenter.broker.wire.admission.connection_limits import ConnectionLimits
from pulsar_barycenter.broker.wire.admission.publish_buffer import PublishBuffer, Unanswered
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import NO_REQUEST
from support.one_broker import OneBroker
from support.wire_client import DEADLINE_S, TYPE, WireClient

TOPIC = "persistent://public/default/t"
MIB = 1 << 20


@pytest.fixture
async def started() -> AsyncIterator[Callable[..., Any]]:
    running: list[OneBroker] = []

    async def start(**settings: Any) -> OneBroker:
        running.append(await OneBroker(replace(BrokerConfig(), **settings)).start())
        return running[0]

    yield start
    for broker in running:
        await broker.stop()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("broker_max_connections", "Reached the maximum number of connections (brokerMaxConnections=2)"),
        ("broker_max_connections_per_ip", "Reached the maximum number of connections on address 127.0.0.1"),
    ],
)
async def test_one_connection_too_many_is_told_so_and_closed(started: Any, key: str, said: str) -> None:
    broker = await started(**{key: 2})
    first, second = [await WireClient.connect(broker.port) for _ in range(2)]
    third = await WireClient.open(broker.port)
    third.wire.connect("said at once")
    refused = await third.expect(TYPE.ERROR)
    assert (refused.request_id, refused.error) == (NO_REQUEST, api.NotAllowedError)
    assert refused.message.startswith(said)
    await third.expect_closed()
    await first.settled()
    second.close()
    async with asyncio.timeout(DEADLINE_S):
        while len(broker.server.connections) > 1:
            await asyncio.sleep(0)
    await (await WireClient.connect(broker.port)).settled()


HOSTS = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.booleans(), HOSTS)), st.integers(0, 4), st.integers(0, 2))
def test_no_sequence_of_comings_and_goings_passes_the_limits(
    events: list[tuple[bool, str]], most: int, most_of_one: int
) -> None:
    limits = ConnectionLimits()
    config = replace(BrokerConfig(), broker_max_connections=most, broker_max_connections_per_ip=most_of_one)
    there: list[str] = []
    for comes, host in events:
        if comes:
            full = (most and len(there) >= most) or (most_of_one and there.count(host) >= most_of_one)
            assert (limits.admit(host, config) is None) is not bool(full)
            if not full:
                there.append(host)
        elif host in there:
            there.remove(host)
            limits.left(host)


async def test_beyond_the_buffer_no_publisher_is_read_until_half_of_it_is_free(started: Any) -> None:
    broker = await started(max_message_publish_buffer_size_in_mb=1)
    buffer = broker.server._services.publish_buffer
    clients = [await WireClient.connect(broker.port) for _ in range(2)]
    for client in clients:
        await client.produce(TOPIC)
    held = Unanswered(buffer)  # what other connections sent, and is not stored yet
    held.add(3, 2 * MIB)
    for client in clients:
        client.send(0)
    assert [(await client.expect(TYPE.SEND_RECEIPT)).sequence_id for client in clients] == [0, 0], "it was read already"
    async with asyncio.timeout(DEADLINE_S):
        while len(buffer.paused) < 2:
            await asyncio.sleep(0)
    for client in clients:
        client.send(1)
    held.remove(1, MIB)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not [client for client in clients if client.pending(TYPE.SEND_RECEIPT)]
    held.remove(1, MIB // 2)
    assert [(await client.expect(TYPE.SEND_RECEIPT)).sequence_id for client in clients] == [1, 1]
    assert not buffer.paused
    assert buffer.size == MIB // 2, "everything else was accounted for"


@given(st.lists(st.integers(0, 3 * MIB)), st.sampled_from([-1, 0, 1, 2]))
def test_the_buffer_is_full_from_its_limit_until_half_of_it(sizes: list[int], limit: int) -> None:
    buffer = PublishBuffer(limit)
    expected = False
    for size in sizes:
        buffer.add(size)
        expected = expected or 0 < limit * MIB < buffer.size
        assert buffer.is_full is expected
    for size in sizes:
        buffer.remove(size)
        expected = expected and buffer.size * 2 > limit * MIB
        assert buffer.is_full is expected
    assert buffer.size == 0
