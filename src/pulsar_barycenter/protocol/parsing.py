"""Parses the bytes of a command to its type number and its sub-message, which is all that a handler needs.

Source: binary-protocol reference, section 2.
"""

from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError, Message

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.errors import MalformedCommandError, UnsupportedCommandError

_FIELDS: Final = tuple(
    field for field in api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields if field.number > 1
)
FIELD_OF_TYPE: Final[dict[int, str]] = {field.number: field.name for field in _FIELDS}
"""For each command type: the name of the field of BaseCommand that contains its sub-message. Type numbers are field
numbers.
"""

_TEXT_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    field.number: tuple(
        text.name
        for text in field.message_type.fields  # type: ignore[union-attr]
        if text.type == text.TYPE_STRING and not text.is_repeated
    )
    for field in _FIELDS
}
Send: TypeAlias = tuple[int, int, int, int, bool, bool]
"""A parsed SEND command: producer id, sequence id, highest sequence id, number of messages, whether it is a chunk, and
whether it belongs to a transaction.
"""

_SEND: Final = int(api.BaseCommand.SEND)
PLAIN_SENDS: Final = {
    b"\x08\x06\x32" + bytes((3 + size, 0x08, producer_id, 0x10)): producer_id
    for size in range(1, 5)
    for producer_id in range(128)
}
"""The first bytes of a SEND that has only a producer id below 128 and a sequence id of one to four bytes: a single
message.
"""
_LOOKUP_HEAD: Final = b"\x08\x17\xba\x01"
_NO_MORE_TEXT: Final = frozenset(
    authoritative + listener for authoritative in (b"", b"\x18\x00", b"\x18\x01") for listener in (b"", b"\x3a\x00")
)
"""The bytes that may follow the request id of a LOOKUP: whether it is authoritative, and an empty listener name."""


def parse_command(data: bytes) -> tuple[int, Any]:
    """Return the type of the command in `data` and its sub-message (for a SEND, a `Send`). All required fields of the
    sub-message are present.

    Raises:
        UnsupportedCommandError: the type number is not defined.
        MalformedCommandError: `data` is not a command.
    """
    producer_id = PLAIN_SENDS.get(data[:7])
    if producer_id is not None and (sequence_id := plain_sequence_id(data)) >= 0:
        return _SEND, (producer_id, sequence_id, 0, 1, False, False)
    if data[:4] == _LOOKUP_HEAD and _is_plain_lookup(data):
        try:
            return 23, api.CommandLookupTopic.FromString(data[5:])
        except DecodeError as error:
            raise MalformedCommandError(f"a LOOKUP cannot be parsed: {error}") from error
    return parse_any(data)


def plain_sequence_id(data: bytes) -> int:
    """Return the sequence id of a plain SEND command: the varint from offset 7 of `data` to its end, which has at most
    four bytes; -1 if these bytes are not exactly one varint.
    """
    size = len(data) - 7
    if size != data[3] - 3 or data[-1] > 0x7F:
        return -1
    # Unrolled. The last byte ends the number at the latest, so nothing after it is read.
    number = data[7]
    if number < 0x80:
        return number if size == 1 else -1
    more = data[8]
    number += (more << 7) - 0x80
    if more < 0x80:
        return number if size == 2 else -1
    more = data[9]
    number += (more << 14) - 0x4000
    if more < 0x80:
        return number if size == 3 else -1
    return number + (data[10] << 21) - 0x200000


def _is_plain_lookup(data: bytes) -> bool:
    """Return whether the LOOKUP in `data` has only a topic name in ASCII, a request id, and no other text field. If so,
    all required fields are present and valid.
    """
    size = len(data)
    if not (8 < size < 133 and data[4] == size - 5 and data[5] == 0x0A):
        return False
    at = 7 + data[6]
    if at + 1 >= size or data[at] != 0x10 or not data[7:at].isascii():
        return False
    at += 1
    while at < size and data[at] >= 0x80:
        at += 1
    return at < size and data[at + 1 :] in _NO_MORE_TEXT


def parse_any(data: bytes) -> tuple[int, Any]:
    """Return the same result as `parse_command`, without its faster parsers: protobuf parses all commands.

    Raises:
        MalformedCommandError: for the same reasons as in `parse_command`.
    """
    try:
        command = api.BaseCommand.FromString(data)
    except DecodeError as error:
        raise MalformedCommandError(f"a command cannot be parsed: {error}") from error
    if not command.HasField("type"):
        number = _undefined_type(data)
        if number is None:
            raise MalformedCommandError("a command has no type")
        raise UnsupportedCommandError(number)
    number = int(command.type)
    name = FIELD_OF_TYPE[number]
    if not command.HasField(name):  # type: ignore[arg-type]
        raise MalformedCommandError(f"a command of type {number} lacks its field {name}")
    message: Message = getattr(command, name)
    if not message.IsInitialized():
        raise MalformedCommandError(f"{name} lacks a required field")
    for field in _TEXT_FIELDS[number]:
        if not isinstance(getattr(message, field), str):
            raise MalformedCommandError(f"{name}.{field} is not UTF-8")
    if number == _SEND:
        return number, _send(command.send)
    return number, message


def _send(message: api.CommandSend) -> Send:
    if message.num_messages < 0:
        raise MalformedCommandError(f"a SEND has {message.num_messages} messages; the number must not be negative")
    return (
        message.producer_id,
        message.sequence_id,
        message.highest_sequence_id,
        message.num_messages,
        message.is_chunk,
        message.HasField("txnid_most_bits") or message.HasField("txnid_least_bits"),
    )


def _undefined_type(data: bytes) -> int | None:
    """Return the number in field 1, the command's type, if the command begins with this field, as every encoder writes
    it; otherwise None.
    """
    if data[:1] != b"\x08":
        return None
    number = shift = 0
    for byte in data[1:11]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number
    return None
