"""Command bytes to values: the type number and the sub-message, which is all that a handler needs.

Source: binary-protocol reference, section 2.
"""

from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from barycenter.protocol import pulsar_api_pb2 as api
from barycenter.protocol.errors import MalformedCommandError, UnsupportedCommandError

_FIELDS: Final = tuple(
    field for field in api.DESCRIPTOR.message_types_by_name["BaseCommand"].fields if field.number > 1
)
FIELD_OF_TYPE: Final[dict[int, str]] = {field.number: field.name for field in _FIELDS}
"""Command type to the name of its sub-message in BaseCommand: field numbers are type numbers."""

_TEXT_FIELDS: Final[dict[int, tuple[str, ...]]] = {
    field.number: tuple(
        text.name
        for text in field.message_type.fields  # type: ignore[union-attr]
        if text.type == text.TYPE_STRING and not text.is_repeated
    )
    for field in _FIELDS
}
_SEND_HEAD: Final = b"\x08\x06\x32"
_LOOKUP_HEAD: Final = b"\x08\x17\xba\x01"
_NO_MORE_TEXT: Final = frozenset(
    authoritative + listener for authoritative in (b"", b"\x18\x00", b"\x18\x01") for listener in (b"", b"\x3a\x00")
)
"""What clients write behind a LOOKUP's request id: whether it is authoritative, and an empty name of a listener."""


def parse_command(data: bytes) -> tuple[int, Any]:
    """Return the type of the command in `data` and its sub-message, with all required fields present.

    Raises:
        UnsupportedCommandError: a type number that is not defined.
        MalformedCommandError: anything else that is not a command.
    """
    # The hot path: type SEND, then its sub-message up to the end, with both required ids in front (a producer id
    # below 128). Presence has to be seen in the bytes because protobuf reports an absent number as 0.
    if (
        data[:3] == _SEND_HEAD
        and 7 < len(data) < 132
        and data[3] == len(data) - 4
        and data[4] == 0x08
        and data[5] < 0x80
        and data[6] == 0x10
    ):
        try:
            return 6, api.CommandSend.FromString(data[4:])
        except DecodeError as error:
            raise MalformedCommandError(f"a SEND does not parse: {error}") from error
    if data[:4] == _LOOKUP_HEAD and _is_plain_lookup(data):
        try:
            return 23, api.CommandLookupTopic.FromString(data[5:])
        except DecodeError as error:
            raise MalformedCommandError(f"a LOOKUP does not parse: {error}") from error
    return _parse_any(data)


def _is_plain_lookup(data: bytes) -> bool:
    """Whether a LOOKUP is its topic, in ASCII, its request id, and no other text: then all is present and readable."""
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


def _parse_any(data: bytes) -> tuple[int, Any]:
    try:
        command = api.BaseCommand.FromString(data)
    except DecodeError as error:
        raise MalformedCommandError(f"a command does not parse: {error}") from error
    if not command.HasField("type"):
        number = _undefined_type(data)
        if number is None:
            raise MalformedCommandError("a command without a type")
        raise UnsupportedCommandError(number)
    number = int(command.type)
    name = FIELD_OF_TYPE[number]
    if not command.HasField(name):  # type: ignore[arg-type]
        raise MalformedCommandError(f"a command of type {number} without its field {name}")
    message: Message = getattr(command, name)
    if not message.IsInitialized():
        raise MalformedCommandError(f"{name} lacks a required field")
    for field in _TEXT_FIELDS[number]:
        if not isinstance(getattr(message, field), str):
            raise MalformedCommandError(f"{name}.{field} is not UTF-8")
    return number, message


def _undefined_type(data: bytes) -> int | None:
    """Return the number in field 1 if the command begins with it, as every encoder writes it."""
    if data[:1] != b"\x08":
        return None
    number = shift = 0
    for byte in data[1:11]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number
    return None
