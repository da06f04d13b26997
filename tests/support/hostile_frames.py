"""Frames that no client would send, made from the definitions of the protocol.

`streams` draws them: every command, missing fields, extreme numbers, long and broken names, entries that contradict
their SEND. `frames_field_by_field` sets one field of one command after the other to values that break programs: that
finds the same faults in every run.
"""

import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry, payload_header, simple_frame
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE
from support import client_requests
from support.wire_client import TYPE, entry_of

TOPIC = "persistent://public/default/t"
ALONE = "persistent://public/default/alone"
"""A topic for an exclusive producer."""
SHARED = api.CommandSubscribe.Shared
NUMBERS = [0, 1, 2, 7, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31), -(2**63)]
LOWEST = {1: -(2**31), 2: -(2**63), 3: 0, 4: 0}
HIGHEST = {1: 2**31 - 1, 2: 2**63 - 1, 3: 2**32 - 1, 4: 2**64 - 1}
"""The least and the greatest number of each kind (CPPTYPE of protobuf)."""

ids = st.sampled_from([1, 1, 1, 2, 0, 2**63, 2**64 - 1])
texts = st.sampled_from([TOPIC, TOPIC, "s", "", "x" * 5000, "\x00", "what://is/this", "persistent://a/b/c-partition-1"])


def _number(draw: Any, field: Any) -> int:
    if field.name.endswith(("producer_id", "consumer_id")):
        return int(draw(ids))
    number: int = draw(st.sampled_from(NUMBERS))
    return min(max(number, LOWEST[field.cpp_type]), HIGHEST[field.cpp_type])


@st.composite
def messages(draw: Any, descriptor: Any, depth: int = 0) -> Any:
    """Draw a message of that type, with some of its fields missing."""
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
    elif field.cpp_type in LOWEST:
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
    fields = list(api.MessageMetadata.DESCRIPTOR.fields)
    metadata = api.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    for field in draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda field: field.number)):
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
        client_requests.consumer_stats(5, 1),
        commands.close_producer(1, 6),
        commands.close_consumer(1, 7),
        client_requests.lookup(8, TOPIC),
        commands.PING,
    ]


frames = st.one_of(any_command(), sends(), st.sampled_from(valid_frames()), st.sampled_from(valid_frames()),
                   st.binary(max_size=12))  # fmt: skip


@st.composite
def streams(draw: Any) -> list[bytes]:
    """Draw what a client sends, cut into reads."""
    data = b"".join(draw(st.lists(frames, max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=4)))
    return [data[lower:upper] for lower, upper in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def frames_field_by_field() -> Iterator[tuple[str, bytes]]:
    """Yield the change and the frame: a command or an entry with one field that is missing or extreme."""
    for number, name in FIELD_OF_TYPE.items():
        command: Any = api.BaseCommand()
        command.type = number
        field = api.BaseCommand.DESCRIPTOR.fields_by_name[name]
        for message in (_least(field.message_type), *_COMMON.get(number, ())):
            for change, changed in _changed(message):
                getattr(command, name).CopyFrom(changed)
                yield f"{name}: {change}", simple_frame(_bytes(command))
    for change, metadata in _changed(api.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)):
        entry = encode_entry(_bytes(metadata), b"payload")
        yield f"entry: {change}", client_commands.send(1, 1, entry)


_NO_TEXT = "no UTF-8"
"""Stands for bytes that are no text: a message takes none."""


def _bytes(message: Any) -> bytes:
    return bytes(message.SerializePartialToString().replace(_NO_TEXT.encode(), b"\xff" * len(_NO_TEXT)))


_COMMON: dict[Any, tuple[Any, ...]] = {
    TYPE.PRODUCER: (
        api.CommandProducer(topic=ALONE, producer_id=7, request_id=70, producer_access_mode=api.Exclusive),
        api.CommandProducer(topic=TOPIC, producer_id=7, request_id=70),
    ),
    TYPE.SUBSCRIBE: (
        api.CommandSubscribe(topic=TOPIC, subscription="s", subType=SHARED, consumer_id=7, request_id=70),
        api.CommandSubscribe(topic=TOPIC, subscription="new", subType=SHARED, consumer_id=7, request_id=70),
    ),
    TYPE.FLOW: (api.CommandFlow(consumer_id=1, messagePermits=10),),
}
"""Commands that a broker carries out; what is required alone it often refuses."""


def _least(descriptor: Any) -> Any:
    """Return a message with the required fields, for the existing topic, producers and consumers."""
    message = getattr(api, descriptor.full_name.rpartition(".")[2])()
    for field in descriptor.fields:
        if not field.is_required:
            continue
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(_least(field.message_type))
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, b"s")
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, TOPIC if "topic" in field.name else "s")
        elif field.cpp_type == field.CPPTYPE_ENUM:
            setattr(message, field.name, field.enum_type.values[0].number)
        else:
            setattr(message, field.name, 1)
    return message


def _changed(message: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for field in message.DESCRIPTOR.fields:
        for value in _extremes(field, depth):
            changed = type(message)()
            changed.CopyFrom(message)
            changed.ClearField(field.name)
            if value is not None:
                _put(changed, field, value)
            yield f"{field.name} = {str(value)[:40]}", changed


def _put(message: Any, field: Any, value: Any) -> None:
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        (getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)).CopyFrom(value)
    elif field.is_repeated:
        getattr(message, field.name).extend([value, value])
    else:
        setattr(message, field.name, value)


def _extremes(field: Any, depth: int) -> Iterator[Any]:
    """None means a missing field."""
    if field.is_required:
        yield None
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.containing_type is None and depth < 2:
            yield from (changed for _, changed in _changed(_least(field.message_type), depth + 1))
    elif field.type == field.TYPE_STRING:
        yield from ("", "\x00", "x" * 5_000, "ü" * 5_000, "what://is/this", TOPIC, _NO_TEXT)
    elif field.type == field.TYPE_BYTES:
        yield from (b"", b"\xff" * 20, b"\x00" * 70_000)
    elif field.cpp_type == field.CPPTYPE_ENUM:
        yield from (each.number for each in field.enum_type.values)
    elif field.cpp_type == field.CPPTYPE_BOOL:
        yield from (True, False)
    elif field.cpp_type not in LOWEST:
        yield from (-1.0, math.nan, math.inf)
    else:
        yield from {0, 2**31 - 1, LOWEST[field.cpp_type], HIGHEST[field.cpp_type]}
