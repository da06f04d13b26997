"""How stored messages are printed: their id, times and properties, and their bytes as a hex dump.

An answer with a message has its metadata in headers. The body of a batch has a size, the metadata and the payload of
each message. Source: Pulsar's `CmdTopics.PeekMessages`, `TopicsImpl` and Netty's `ByteBufUtil.prettyHexDump`.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote

from pulsar_barycenter.admin.client import Answer
from pulsar_barycenter.admin.commands.output import pretty
from pulsar_barycenter.naming.counted import count_of

BETWEEN: Final = "-" * 73
_PREFIX: Final = "x-pulsar-"
_PROPERTY: Final = "x-pulsar-property-"
_NOT_OF_APPLICATIONS: Final = frozenset({"TOTAL-CHUNKS", "CHUNK-ID"})
_U32: Final = struct.Struct(">I")
_ROW: Final = 16

_PROPERTIES, _PAYLOAD_SIZE, _EVENT_TIME = 1, 3, 5
"""Fields of Pulsar's `SingleMessageMetadata`; in a property, 1 is the key and 2 the value."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it is printed; times in ms since 1970, 0 for none. `position` is `LEDGER:ENTRY`; for a message of a
    batch, the index in the batch follows.
    """

    position: str
    is_in_batch: bool
    publish_time_ms: int
    event_time_ms: int
    deliver_at_ms: int
    properties: Mapping[str, str]
    data: bytes = field(repr=False)


def messages_in(answer: Answer) -> list[ShownMessage]:
    """Return the message in an answer, or the messages of the batch.

    Raises:
        ValueError: the body is not a batch, though the headers say so.
    """
    headers = answer.headers
    position = headers[f"{_PREFIX}message-id"]
    publish, event, deliver = (_time_ms(headers, name) for name in ("publish-time", "event-time", "deliver-at-time"))
    properties = {
        unquote(name[len(_PROPERTY) :]): value
        for name, value in answer.sent_headers
        if name.lower().startswith(_PROPERTY) and name[len(_PROPERTY) :] not in _NOT_OF_APPLICATIONS
    }
    count = headers.get(f"{_PREFIX}num-batch-message")
    if count is None or headers.get(f"{_PREFIX}is-encrypted") == "true":
        return [ShownMessage(position, False, publish, event, deliver, dict(sorted(properties.items())), answer.body)]
    found = []
    for index, (fields, payload) in enumerate(_batch(answer.body, int(count))):
        own = dict(_pair(value) for number, value in fields if number == _PROPERTIES and isinstance(value, bytes))
        times = [value for number, value in fields if number == _EVENT_TIME and isinstance(value, int)]
        own_event = times[-1] if times else 0
        found.append(ShownMessage(f"{position}:{index}", True, publish, own_event, deliver, own, payload))
    return found


def _time_ms(headers: Mapping[str, str], name: str) -> int:
    text = headers.get(_PREFIX + name)
    return 0 if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _batch(body: bytes, count: int) -> Iterator[tuple[list[tuple[int, int | bytes]], bytes]]:
    """Yield each message of a batch: the fields of its metadata, as pairs of field number and value, and its payload.
    `count` is the number of messages in the batch.

    Raises:
        ValueError: the bytes in `body` end before the last message does.
    """
    at = 0
    for _ in range(count):
        if at + _U32.size > len(body):
            raise ValueError(f"the batch of {count_of(count, 'message')} is incomplete: it ends at byte {len(body)}")
        begin = at + _U32.size
        end = begin + _U32.unpack_from(body, at)[0]
        fields = list(_fields(body[begin:end]))
        size = next((value for number, value in fields if number == _PAYLOAD_SIZE and isinstance(value, int)), 0)
        if end + size > len(body):
            raise ValueError(f"the batch of {count_of(count, 'message')} is incomplete: it ends at byte {len(body)}")
        yield fields, body[end : end + size]
        at = end + size


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message in the encoding of Protocol Buffers: an int for a varint, bytes
    for a field with a length (bytes, text or an inner message).

    Raises:
        ValueError: a field is of another wire type.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(data, at)
            yield number, data[at : at + length]
            at += length
        else:
            raise ValueError(
                f"the metadata of a message in a batch has a field of wire type {wire}, which is not known"
            )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("the metadata of a message in a batch is damaged: it ends within a number")


def _pair(data: bytes) -> tuple[str, str]:
    parts = {number: value.decode(errors="replace") for number, value in _fields(data) if isinstance(value, bytes)}
    return parts.get(1, ""), parts.get(2, "")


def shown(messages: Sequence[ShownMessage]) -> str:
    """Return the text that shows messages as `pulsar-admin` prints them."""
    return "\n".join(line for index, message in enumerate(messages) for line in _lines(message, is_first=not index))


def _lines(message: ShownMessage, *, is_first: bool) -> Iterator[str]:
    if not is_first:
        yield BETWEEN
        yield ""
    yield f"{'Batch ' if message.is_in_batch else ''}Message ID: {message.position}"
    yield f"Publish time: {message.publish_time_ms}"
    yield f"Event time: {message.event_time_ms}"
    if message.deliver_at_ms:
        yield f"Deliver at time: {message.deliver_at_ms}"
    if message.properties:
        yield "Properties:"
        yield pretty(dict(message.properties))
    yield hex_dump(message.data)


def hex_dump(data: bytes) -> str:
    """Return bytes as a table with a row for each 16 bytes; "" for none."""
    if not data:
        return ""
    rule = f"+--------+{'-' * 49}+{'-' * 16}+"
    lines = [
        f"         +{'-' * 49}+",
        f"         |{''.join(f'  {column:x}' for column in range(_ROW))} |",
        rule,
    ]
    for at in range(0, len(data), _ROW):
        row = data[at : at + _ROW]
        words = "".join(f" {byte:02x}" for byte in row)
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"|{at:08x}|{words:<48} |{text:<16}|")
    return "\n".join([*lines, rule])
