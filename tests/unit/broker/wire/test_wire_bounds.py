"""What one client can make a broker hold or count is bounded, whatever it sends, with or without reading."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.bounded_log import MOST_A_SECOND
from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.wire.bounds import FULL_READ_BYTES, QUEUED_BYTES
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry
from support import client_requests
from support.memory_ledgers import MemoryDisk
from support.one_broker import OneBroker
from support.proofs import SetClock
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"
SHARED = api.CommandSubscribe.Shared
EARLIEST = api.CommandSubscribe.Earliest
READ = 256 * 1024
"""What is received at once at most."""


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker().start()
    yield running
    await running.stop()


async def topic_of(broker: OneBroker) -> PersistentTopic:
    found = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    assert isinstance(found, PersistentTopic)
    return found


# ------------------------------------------------------------------------------------------- messages of an entry


@pytest.mark.parametrize(
    ("said", "in_metadata"),
    [(2**31 - 1, None), (2**31 - 1, 1), (0, None), (0, 0), (2, None), (None, 2), (2, 3), (3, 2), (None, -1),
     (MAX_MESSAGES_IN_ENTRY + 1, MAX_MESSAGES_IN_ENTRY + 1), (2**31 - 1, 2**31 - 1)],
)  # fmt: skip
async def test_a_send_and_its_entry_agree_on_how_many_messages_they_are(
    broker: OneBroker, said: int | None, in_metadata: int | None
) -> None:
    """One that does not is refused in its turn, and costs a Shared consumer no permit."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC, permits=10, sub_type=SHARED)
    entry = entry_of(b"wrong", sequence_id=1, batch=in_metadata)
    client.write(
        client_commands.send(1, 0, entry_of(b"0"))
        + client_commands.send(1, 1, entry, num_messages=said)
        + client_commands.send(1, 2, entry_of(b"2", sequence_id=2))
    )
    refused = await client.expect(TYPE.SEND_ERROR)
    assert refused.sequence_id == 1
    assert re.search(r"has [\d,]+ messages?(, but the metadata of its entry says|: send from 1 to)", refused.message)
    assert [(await client.expect(TYPE.SEND_RECEIPT)).sequence_id for _ in range(2)] == [0, 2]
    assert len(await client.messages(2)) == 2
    (consumer,) = (await topic_of(broker)).consumers()
    assert consumer.permits == 8


@pytest.mark.parametrize(("said", "in_metadata"), [(None, None), (1, None), (None, 1), (1, 1), (7, 7),
                                                  (MAX_MESSAGES_IN_ENTRY, MAX_MESSAGES_IN_ENTRY)])  # fmt: skip
async def test_one_message_may_be_said_in_any_way(broker: OneBroker, said: int | None, in_metadata: int | None) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    client.write(client_commands.send(1, 0, entry_of(b"x", batch=in_metadata), num_messages=said))
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 0


@pytest.mark.parametrize("sub_type", [api.CommandSubscribe.Exclusive, SHARED, api.CommandSubscribe.Key_Shared])
async def test_no_entry_takes_permits_below_what_a_batch_may_hold(broker: OneBroker, sub_type: Any) -> None:
    """A data folder may have entries that were counted without a bound."""
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=5, sub_type=sub_type)
    await client.produce(TOPIC)
    await client.settled()
    topic = await topic_of(broker)
    (producer,) = topic.producers.values()
    topic.publish([(producer, 0, 0, 2**31 - 1, 1, 0)], [(entry_of(b"x"), 2**31 - 1, 1)])
    await client.messages(1)
    (consumer,) = topic.consumers()
    assert consumer.permits == -MAX_MESSAGES_IN_ENTRY


# ------------------------------------------------------------------------------------- entries that cannot be read


def unreadable() -> list[bytes]:
    lacking = api.MessageMetadata(producer_name="p", sequence_id=1)
    return [
        encode_entry(lacking.SerializePartialToString(), b"lacks its publish time"),
        encode_entry(b"\xff\xff\xff", b"does not parse"),
        b"\x00\x00\xff\xffcut",
        b"",
    ]


@pytest.mark.parametrize("sub_type", list(api.CommandSubscribe.SubType.values()))
async def test_entries_that_cannot_be_read_are_passed_over_and_acknowledged(sub_type: Any) -> None:
    """As Pulsar does with corrupt metadata: a client could do nothing but reconnect over them, for ever."""
    disk, store = MemoryDisk(), OneBroker().backend
    before = await OneBroker(disk=disk, backend=store).start()
    client = await WireClient.connect(before.port)
    await client.produce(TOPIC)
    await client.send_all(2)
    topic = await topic_of(before)
    (producer,) = topic.producers.values()
    for entry in unreadable():
        topic.publish([(producer, 9, 0, 1, len(entry), 0)], [(entry, 1, 1)])
        await client.expect(TYPE.SEND_RECEIPT)
    await client.send_all(2, first=2)
    await before.stop()
    after = await OneBroker(disk=disk, backend=store, first_epoch=9).start()
    client = await WireClient.connect(after.port)
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type, initial_position=EARLIEST)
    messages = await client.messages(4)
    assert [entry[-1:] for _, entry in messages] == [b"0", b"1", b"2", b"3"]
    for message, _ in messages:
        client.write(client_commands.ack(1, [message.message_id]))
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == []
    (subscription,) = (await topic_of(after)).subscriptions.values()
    assert subscription.cursor.backlog.entries == 0
    await after.stop()


@pytest.mark.parametrize("entry", unreadable(), ids=["lacking", "unparsable", "cut", "empty"])
async def test_the_last_message_id_is_told_also_of_an_entry_that_cannot_be_read(
    broker: OneBroker, entry: bytes
) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC)
    topic = await topic_of(broker)
    (producer,) = topic.producers.values()
    topic.publish([(producer, 9, 0, 1, len(entry), 0)], [(entry, 1, 1)])
    stored = (await client.expect(TYPE.SEND_RECEIPT)).message_id
    frame = client_commands.get_last_message_id(client.request_id(), 1)
    last = (await client.ask(frame, TYPE.GET_LAST_MESSAGE_ID_RESPONSE, TYPE.ERROR))[1].last_message_id
    assert (last.ledgerId, last.entryId, last.batch_index) == (stored.ledgerId, stored.entryId, -1)


# ------------------------------------------------------------------------------------ answers that are not read


class UnreadTransport(asyncio.Transport):
    """A socket whose other end reads nothing until the test lets it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.unread = 0
        self.reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        was_below = self.unread <= self.high
        self.unread += len(data)
        if was_below and self.unread > self.high:
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def read_all(self) -> None:
        self.unread = 0
        self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None: ...
    def close(self) -> None: ...


def requests_of_every_kind() -> list[bytes]:
    """Requests with an answer, each of which a client may repeat without end."""
    return [
        client_requests.lookup(1, TOPIC),
        client_requests.lookup(1, "what://is/this"),
        client_requests.get_schema(1, TOPIC),
        client_requests.consumer_stats(1, 1),
        client_commands.producer(1, 1, TOPIC),
        client_commands.get_last_message_id(1, 404),
    ]


@pytest.mark.parametrize("kind", range(len(requests_of_every_kind())))
async def test_a_client_that_does_not_read_is_not_read_from(
    broker: OneBroker, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it stays bounded, however much it asks; once it reads, it is read from again."""
    limit = 2 * QUEUED_BYTES
    monkeypatch.setattr("pulsar_barycenter.broker.wire.connection.UNREAD_BYTES", limit)
    connection = broker.server.new_connection()
    transport = UnreadTransport(connection)
    connection.connection_made(transport)
    connection.data_received(client_commands.connect("Test") + client_commands.producer(1, 1, TOPIC)
                             + client_commands.subscribe(2, 1, TOPIC, "s"))  # fmt: skip
    async with asyncio.timeout(30):
        while not (connection.producers and connection.consumers):
            await asyncio.sleep(0)
    request = requests_of_every_kind()[kind]
    read = request * (READ // len(request))
    turns = 0
    while transport.reading and turns < 1000:
        connection.data_received(read)
        await asyncio.sleep(0)
        turns += 1
    assert not transport.reading
    assert connection.unread_bytes < limit + 50 * READ
    transport.read_all()
    async with asyncio.timeout(30):
        while not transport.reading:
            await asyncio.sleep(0)
            if transport.unread > QUEUED_BYTES:
                transport.read_all()
    connection.abort("the test is over")


class Greedy:
    """A dispatcher that always has more than fits."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.written = 0

    def dispatch(self) -> None:
        while self.connection.writable:
            self.connection.send(bytes(QUEUED_BYTES))
            self.written += 1
        self.connection.wake_when_writable(self)


async def test_dispatchers_that_wait_for_room_take_turns(broker: OneBroker) -> None:
    """Each is reached before any of them is reached twice, however little room there is at a time."""
    connection = broker.server.new_connection()
    transport = UnreadTransport(connection)
    connection.connection_made(transport)
    dispatchers = [Greedy(connection) for _ in range(3)]
    for dispatcher in dispatchers:
        dispatcher.dispatch()
        dispatcher.written = 0
    for _ in range(30):
        await asyncio.sleep(0)
        transport.read_all()
        counts = [dispatcher.written for dispatcher in dispatchers]
        assert max(counts) - min(counts) <= 1
    assert sum(counts) >= 20
    connection.abort("the test is over")


# -------------------------------------------------------------------------------------------- who sends without end


FULL_READ = commands.PONG * -(-FULL_READ_BYTES // len(commands.PONG))


async def reading(broker: OneBroker) -> tuple[Connection, UnreadTransport]:
    connection = broker.server.new_connection()
    transport = UnreadTransport(connection)
    connection.connection_made(transport)
    connection.data_received(client_commands.connect("Test"))
    await asyncio.sleep(0)
    return connection, transport


async def test_after_a_full_read_others_have_their_turn(broker: OneBroker) -> None:
    connection, transport = await reading(broker)
    connection.data_received(FULL_READ[: FULL_READ_BYTES - 1])
    assert transport.reading
    connection.data_received(FULL_READ[FULL_READ_BYTES - 1 :])
    for _ in range(3):
        connection.data_received(FULL_READ)
        assert not transport.reading
        await asyncio.sleep(0)
        assert transport.reading
    connection.abort("the test is over")


async def test_a_turn_does_not_end_what_else_stopped_the_reading(broker: OneBroker) -> None:
    connection, transport = await reading(broker)
    now_s = asyncio.get_running_loop().time()
    throttle = Throttle(1, 0, 1.0, now_s)
    throttle.take(1000, 0, now_s)
    connection.data_received(FULL_READ)
    connection.hold_reading(throttle)
    await asyncio.sleep(0)
    assert not transport.reading
    connection.abort("the test is over")


# ----------------------------------------------------------------------------------------------- frames too soon


async def test_frames_behind_connect_wait_for_its_answer(broker: OneBroker) -> None:
    client = await WireClient.open(broker.port)
    client.wire.connect("Test")
    client.write(client.wire.data_to_send() + client_requests.lookup(1, TOPIC) + client_requests.get_schema(2, TOPIC))
    await client.expect(TYPE.CONNECTED)
    assert (await client.expect(TYPE.LOOKUP_RESPONSE)).request_id == 1
    assert (await client.expect(TYPE.GET_SCHEMA_RESPONSE)).request_id == 2
    assert (await client.produce(TOPIC)).producer_name


async def test_what_breaks_the_protocol_behind_connect_costs_the_connection(broker: OneBroker) -> None:
    client = await WireClient.open(broker.port)
    client.write(client_commands.connect("Test") + client_commands.connect("Again"))
    await client.expect_closed()


async def test_a_producer_refused_for_its_name_leaves_no_topic_behind(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    for name in ("p" * 1_001, "p\0"):
        assert (await client.produce(TOPIC, producer_name=name)).error == api.NotAllowedError
    assert not broker.registry.loaded()


# ------------------------------------------------------------------------------------------- what the log is told


async def test_a_client_that_is_refused_again_and_again_does_not_fill_the_log() -> None:
    """For every reason of a refusal; the next logged refusal has the number of omitted ones."""
    broker = await OneBroker(clock=SetClock()).start()
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    many = 3 * MOST_A_SECOND
    wrong = entry_of(b"wrong", sequence_id=1, batch=3)
    with capture_logs() as logged:
        for number in range(many):
            client.write(
                client_commands.producer(100 + number, 100 + number, "persistent://none")
                + client_commands.subscribe(200 + number, 200 + number, "persistent://none", "s")
                + client_commands.send(1, number, wrong, num_messages=2)
            )
        refused = [await client.take(lambda kind, _: kind in (TYPE.ERROR, TYPE.SEND_ERROR)) for _ in range(3 * many)]
    told = Counter(each["event"] for each in logged if each["event"].endswith("_refused"))
    kinds = ("producer_refused", "consumer_refused", "message_refused")
    assert told == dict.fromkeys(kinds, MOST_A_SECOND)
    assert len(refused) == 3 * many
    await broker.stop()
