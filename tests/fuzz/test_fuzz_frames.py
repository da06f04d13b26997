"""Whatever a client says over the binary protocol, in whatever order and cuts, the broker goes on serving the others.

    .venv/bin/python -m pytest tests/fuzz --fuzz-examples 100000        # the long form

Frames are drawn from the definitions of the protocol: every command, fields missing, extreme numbers, long and broken
names, entries that contradict their SEND. A broker on the running loop hears them through a connection of its own.
"""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from barycenter.broker.wire.connection import Connection
from barycenter.protocol import client_commands, commands
from barycenter.protocol import pulsar_api_pb2 as api
from barycenter.protocol.frames import encode_entry, payload_header, simple_frame
from barycenter.protocol.parsing import FIELD_OF_TYPE
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"
SHARED = api.CommandSubscribe.Shared
NUMBERS = [0, 1, 2, 7, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31), -(2**63)]
LOWEST = {1: -(2**63), 2: -(2**63), 3: 0, 4: 0}
"""The least a number of that kind in Python (CPPTYPE) may be."""
BITS = {1: 31, 2: 63, 3: 32, 4: 64}

ids = st.sampled_from([1, 1, 1, 2, 0, 2**63, 2**64 - 1])
texts = st.sampled_from([TOPIC, TOPIC, "s", "", "x" * 5000, "\x00", "what://is/this", "persistent://a/b/c-partition-1"])


def _number(draw: Any, field: Any) -> int:
    if field.name.endswith(("producer_id", "consumer_id")):
        return int(draw(ids))
    bits = BITS[field.cpp_type]
    lowest = -(2**bits) if LOWEST[field.cpp_type] else 0
    return min(max(int(draw(st.sampled_from(NUMBERS))), lowest), 2**bits - 1)


@st.composite
def messages(draw: Any, descriptor: Any, depth: int = 0) -> Any:
    """A message of that type, of whose fields some are missing."""
    message = getattr(api, descriptor.name)()
    for field in descriptor.fields:
        wanted = 9 if field.is_required else 4
        if draw(st.integers(0, 9)) > wanted or depth > 2:
            continue
        count = draw(st.integers(0, 3)) if field.is_repeated else 1
        for _ in range(count):
            _set(draw, message, field, depth)
    return message


def _set(draw: Any, message: Any, field: Any, depth: int) -> None:
    value: Any
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.containing_type is not None:
            return
        value = draw(messages(field.message_type, depth + 1))
        (getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)).CopyFrom(value)
        return
    if field.cpp_type == field.CPPTYPE_STRING:
        value = draw(texts) if field.type == field.TYPE_STRING else draw(st.binary(max_size=20))
    elif field.cpp_type == field.CPPTYPE_ENUM:
        value = draw(st.sampled_from([each.number for each in field.enum_type.values]))
    elif field.cpp_type == field.CPPTYPE_BOOL:
        value = draw(st.booleans())
    elif field.cpp_type in BITS:
        value = _number(draw, field)
    else:
        value = 1.0
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


@st.composite
def any_command(draw: Any) -> bytes:
    number = draw(st.sampled_from(sorted(FIELD_OF_TYPE)))
    command = api.BaseCommand(type=number)
    field = api.BaseCommand.DESCRIPTOR.fields_by_name[FIELD_OF_TYPE[number]]
    getattr(command, field.name).CopyFrom(draw(messages(field.message_type)))
    return simple_frame(command.SerializePartialToString())


@st.composite
def entries(draw: Any) -> bytes:
    metadata = api.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    for field in draw(st.sets(st.sampled_from(list(api.MessageMetadata.DESCRIPTOR.fields)), max_size=3)):
        _set(draw, metadata, field, 2)
    if draw(st.integers(0, 9)) == 0:
        metadata.ClearField("publish_time")
    raw = metadata.SerializePartialToString() + draw(st.sampled_from([b"", b"", b"", b"\x32\x02\xff\xfe"]))
    entry = encode_entry(raw, b"payload", checksum=draw(st.booleans()))
    return entry if draw(st.integers(0, 9)) else entry[: draw(st.integers(0, len(entry)))]


@st.composite
def sends(draw: Any) -> bytes:
    counts = st.sampled_from([None, None, 1, 0, 7, MAX_MESSAGES_IN_ENTRY, MAX_MESSAGES_IN_ENTRY + 1, 2**31 - 1, -1])
    send = api.BaseCommand(type=TYPE.SEND)
    send.send.producer_id = draw(ids)
    send.send.sequence_id = draw(st.sampled_from([each for each in NUMBERS if each >= 0]))
    count = draw(counts)
    if count is not None:
        send.send.num_messages = count
    entry = draw(entries()) if draw(st.booleans()) else entry_of(b"x", batch=draw(counts))
    command = send.SerializeToString()
    return payload_header(command, len(entry)) + entry


def valid_frames() -> list[bytes]:
    return [
        client_commands.producer(1, 1, TOPIC),
        client_commands.subscribe(2, 1, TOPIC, "s", sub_type=SHARED),
        client_commands.subscribe(3, 2, TOPIC, "k", sub_type=api.CommandSubscribe.Key_Shared),
        client_commands.flow(1, 100),
        client_commands.flow(2, 100),
        client_commands.send(1, 0, entry_of(b"x", key="k")),
        client_commands.get_last_message_id(4, 1),
        client_commands.consumer_stats(5, 1),
        commands.close_producer(1, 6),
        commands.close_consumer(1, 7),
        client_commands.lookup(8, TOPIC),
        commands.PING,
    ]


frames = st.one_of(any_command(), sends(), st.sampled_from(valid_frames()), st.sampled_from(valid_frames()),
                   st.binary(max_size=12))  # fmt: skip


@st.composite
def streams(draw: Any) -> list[bytes]:
    """What a client says, cut into reads."""
    data = b"".join(draw(st.lists(frames, max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=4)))
    return [data[lower:upper] for lower, upper in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def _play(reads: list[bytes], *, attached: bool) -> None:
    crashes: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
    broker = await OneBroker().start()
    topic = TOPIC + "-of-others"
    good = await WireClient.connect(broker.port)
    await good.produce(topic)
    await good.subscribe(topic, permits=100, sub_type=SHARED)
    with capture_logs() as logged:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        if attached:
            # All in one read, not waiting for CONNECTED.
            writer.write(client_commands.connect("Fuzz") + b"".join(valid_frames()[:5]))
            connection = list(broker.server.connections)[-1]
            assert isinstance(connection, Connection)
            async with asyncio.timeout(5):
                while not (connection.producers and len(connection.consumers) == 2):
                    await asyncio.sleep(0)
            writer.write(client_commands.flow(1, 100) + client_commands.flow(2, 100))
        for read in reads:
            writer.write(read)
            for _ in range(10):
                await asyncio.sleep(0)
            for found in list(broker.registry.loaded()):
                for consumer in found.consumers():
                    assert consumer.permits >= -MAX_MESSAGES_IN_ENTRY
        # It goes in the middle, maybe of a frame.
        async with asyncio.timeout(10):
            with suppress(OSError):
                writer.write_eof()
                await reader.read(-1)
        writer.close()
        assert await good.send_all(3)
        await good.messages(3)
        await broker.unload()
        for found in list(broker.registry.loaded()):
            assert found.pending == 0
    bad = [each for each in logged if "exc_info" in each or each["log_level"] in ("error", "critical")]
    assert not bad + crashes, bad + crashes
    good.close()
    await broker.stop()


def test_no_client_hurts_a_broker(request: pytest.FixtureRequest) -> None:
    examples = request.config.getoption("--fuzz-examples")

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None, print_blob=True)
    @given(streams(), st.sampled_from([True, True, False]))
    def run(reads: list[bytes], attached: bool) -> None:
        asyncio.run(_play(reads, attached=attached))

    run()
