"""The server side of a connection: handshake, invalid frames, heartbeats, general requests."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleUnloadingError,
    ListenerNotFoundError,
    LookupNotReadyError,
    NamespaceNotFoundError,
    Owner,
    Redirect,
    TooManyLookupsError,
)
from pulsar_barycenter.broker.wire.server import PortInUseError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker().start()
    yield running
    await running.stop()


async def test_connect_is_answered_with_the_lower_version_and_the_size_limit(broker: OneBroker) -> None:
    client = await WireClient.open(broker.port)
    client.wire.connect("Test", protocol_version=12)
    client.write(client.wire.data_to_send())
    answer = await client.expect(TYPE.CONNECTED)
    assert answer.protocol_version == 12
    assert answer.max_message_size == 5_242_880
    assert answer.server_version


async def test_a_client_learns_that_it_may_ask_for_partitions_without_creating_the_topic(broker: OneBroker) -> None:
    client = await WireClient.open(broker.port)
    client.wire.connect("Test")
    client.write(client.wire.data_to_send())
    flags = (await client.expect(TYPE.CONNECTED)).feature_flags
    assert flags.supports_get_partitioned_metadata_without_auto_creation
    assert not flags.supports_topic_watchers


@pytest.mark.parametrize(
    "data",
    [
        client_requests.lookup(1, TOPIC),
        (6 << 20).to_bytes(4, "big") + bytes(4),
        b"\x00\x00\x00\x05\x00\x00\x00\x09\x08",
        b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["not-connect", "too-large", "sizes-contradict", "no-protobuf", "http"],
)
async def test_a_first_frame_that_is_not_connect_closes_the_connection(broker: OneBroker, data: bytes) -> None:
    client = await WireClient.open(broker.port)
    client.write(data)
    await client.expect_closed()
    assert (await WireClient.connect(broker.port)).pending(TYPE.ERROR) == []


@pytest.mark.parametrize(
    "data",
    [
        client_commands.connect("Again"),
        (6 << 20).to_bytes(4, "big") + bytes(4),
        b"\x00\x00\x00\x07\x00\x00\x00\x03\x08\xc8\x01",
        commands.success(1),
        client_commands.send(7, 0, entry_of(b"x")),
    ],
    ids=["second-connect", "too-large", "unknown-command", "not-for-brokers", "unknown-producer"],
)
async def test_breaking_the_protocol_costs_the_connection_and_nothing_else(broker: OneBroker, data: bytes) -> None:
    """The producers of other connections go on; what this one had sent before is stored."""
    other = await WireClient.connect(broker.port)
    await other.produce(TOPIC)
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await client.send_all(3)
    client.write(data)
    await client.expect_closed()
    assert len(await other.send_all(3)) == 3
    await other.subscribe(TOPIC, permits=10, initial_position=api.CommandSubscribe.Earliest)
    assert len(await other.messages(6)) == 6


async def test_a_silent_client_is_pinged_and_then_dropped() -> None:
    running = await OneBroker(BrokerConfig(keep_alive_interval_seconds=0.05)).start()
    lively = await WireClient.connect(running.port)
    silent = await WireClient.connect(running.port)
    silent.answers_pings = False
    await silent.expect_closed()
    assert not lively.closed.is_set()
    await running.stop()


async def test_a_client_that_never_says_connect_is_dropped() -> None:
    running = await OneBroker(BrokerConfig(keep_alive_interval_seconds=0.05)).start()
    await (await WireClient.open(running.port)).expect_closed()
    await running.stop()


async def test_connections_are_counted(broker: OneBroker) -> None:
    clients = [await WireClient.connect(broker.port) for _ in range(3)]
    assert await broker.server.drain(0) == 3
    for client in clients:
        client.close()
    assert await broker.server.drain(30) == 0


async def test_a_port_that_is_taken_is_named(broker: OneBroker) -> None:
    with pytest.raises(PortInUseError, match=str(broker.port)):
        await OneBroker().server.listen("127.0.0.1", broker.port)


# ------------------------------------------------------------------------------------------------ lookups, schemas


async def look_up(client: WireClient, topic: str = TOPIC) -> api.CommandLookupTopicResponse:
    answer = await client.ask(client_requests.lookup(client.request_id(), topic), TYPE.LOOKUP_RESPONSE)
    found: api.CommandLookupTopicResponse = answer[1]
    return found


async def test_a_known_owner_is_answered_with_connect(broker: OneBroker) -> None:
    answer = await look_up(await WireClient.connect(broker.port))
    assert answer.response == api.CommandLookupTopicResponse.Connect
    assert answer.brokerServiceUrl == f"pulsar://127.0.0.1:{broker.port}"
    assert answer.authoritative


async def test_another_broker_is_answered_with_redirect(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def elsewhere(*_: object, **__: object) -> Redirect:
        return Redirect("b2", "pulsar://b2:6650", None, None, None, authoritative=True)

    monkeypatch.setattr(broker.lookup, "lookup_cached", lambda *_: None)
    monkeypatch.setattr(broker.lookup, "lookup", elsewhere)
    answer = await look_up(await WireClient.connect(broker.port))
    assert answer.response == api.CommandLookupTopicResponse.Redirect
    assert (answer.brokerServiceUrl, answer.authoritative) == ("pulsar://b2:6650", True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LookupNotReadyError("starting"), api.ServiceNotReady),
        (TooManyLookupsError(1), api.TooManyRequests),
        (BundleUnloadingError("b"), api.MetadataError),
        (NamespaceNotFoundError("a/b"), api.TopicNotFound),
        (ListenerNotFoundError("b1:8080", "outside"), api.NotAllowedError),
        (StoreUnavailableError("/a", "cut"), api.MetadataError),
        (TimeoutError(), api.MetadataError),
    ],
)
async def test_only_a_broker_out_of_service_says_so_in_a_lookup(
    broker: OneBroker, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    """ServiceNotReady makes clients close the connection with everything on it."""

    async def fail(*_: object, **__: object) -> Owner:
        raise error

    monkeypatch.setattr(broker.lookup, "lookup_cached", lambda *_: None)
    monkeypatch.setattr(broker.lookup, "lookup", fail)
    monkeypatch.setattr(broker.lookup, "partitions", fail)
    client = await WireClient.connect(broker.port)
    assert (await look_up(client)).error == code
    frame = client_requests.partitioned_metadata(client.request_id(), TOPIC)
    assert (await client.ask(frame, TYPE.PARTITIONED_METADATA_RESPONSE))[1].error == code


async def test_an_invalid_name_is_refused(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    assert (await look_up(client, "what://is/this/name")).error == api.InvalidTopicName
    assert (await client.produce("persistent://a?/b/c")).error == api.InvalidTopicName


async def test_a_slow_lookup_holds_nothing_up(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other requests of the connection are answered meanwhile."""
    owner_known = asyncio.Event()

    async def wait(*_: object, **__: object) -> Owner:
        await owner_known.wait()
        return Owner("here", "pulsar://later:1", None, None, None)

    monkeypatch.setattr(broker.lookup, "lookup_cached", lambda *_: None)
    monkeypatch.setattr(broker.lookup, "lookup", wait)
    client = await WireClient.connect(broker.port)
    client.write(client_requests.lookup(99, TOPIC))
    await client.settled()
    assert client.pending(TYPE.LOOKUP_RESPONSE) == []
    owner_known.set()
    assert (await client.expect(TYPE.LOOKUP_RESPONSE)).brokerServiceUrl == "pulsar://later:1"


async def test_topics_of_a_namespace_are_listed(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    frame = client_requests.get_topics_of_namespace(client.request_id(), "public/default")
    answer = await client.ask(frame, TYPE.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    assert list(answer[1].topics) == [TOPIC]
