"""KEY_VALUE schemas: one definition with the schemas of the keys and of the values.

The two definitions follow each other, each after its length in 4 bytes, big-endian (-1: there is none). Their types and
properties are properties of the KEY_VALUE schema. In JSON, the definitions are the fields `key` and `value`, "" if
there is none.
Source: Pulsar's `KeyValueSchemaInfo`, `SchemaUtils.convertKeyValueSchemaInfoDataToString`.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pulsar_barycenter.broker.schemas.avro.parsing import read_json
from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType, type_of_name

_LENGTH: Final = struct.Struct(">i")
_PARTS: Final = ("key", "value")


def parts_of(schema: Schema) -> tuple[Schema, Schema]:
    """Return the schemas of the keys and of the values; a part without a type is BYTES.

    Raises:
        InvalidSchemaError: the definition or the properties are not those of a KEY_VALUE schema.
    """
    key, value = _definitions(schema.data)
    return _part("key", key, schema.properties), _part("value", value, schema.properties)


def from_json(text: str) -> bytes:
    """Return the definition of a KEY_VALUE schema whose parts are the fields `key` and `value` of a JSON object.

    Raises:
        InvalidSchemaError: the text is not such an object.
    """
    found = read_json(text.encode())
    if not isinstance(found, dict) or set(found) != set(_PARTS):
        raise InvalidSchemaError('a KEY_VALUE schema is an object with "key" and "value", and nothing else')
    definition = b""
    for name in _PARTS:
        data = b"" if found[name] == "" else msgspec.json.encode(found[name])
        definition += _LENGTH.pack(len(data)) + data
    return definition


def to_json(data: bytes) -> str:
    """Convert the definition of a KEY_VALUE schema to the JSON that `from_json` reads. A part that is not JSON becomes
    a string.

    Raises:
        InvalidSchemaError: the definition is not that of a KEY_VALUE schema.
    """
    shown = {name: _json_of(part) for name, part in zip(_PARTS, _definitions(data), strict=True)}
    return msgspec.json.encode(shown).decode()


def _definitions(data: bytes) -> tuple[bytes, bytes]:
    parts: list[bytes] = []
    position = 0
    for name in _PARTS:
        if position + _LENGTH.size > len(data):
            raise InvalidSchemaError(f"the definition ends before the length of the {name}")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        length = max(0, length)
        if position + length > len(data):
            raise InvalidSchemaError(f"the definition ends within the {name}, which has {length} bytes")
        parts.append(data[position : position + length])
        position += length
    if position < len(data):
        raise InvalidSchemaError(f"the definition has {len(data) - position} bytes after the end of the value")
    return parts[0], parts[1]


def _part(name: str, data: bytes, properties: Mapping[str, str]) -> Schema:
    type_name = properties.get(f"{name}.schema.type")
    if not type_name:
        return Schema(SchemaType.BYTES)
    kind = type_of_name(type_name)
    if kind is SchemaType.KEY_VALUE:
        raise InvalidSchemaError(
            f"the {name} of a KEY_VALUE schema cannot be a KEY_VALUE schema, too: use a record schema"
        )
    inner = read_json((properties.get(f"{name}.schema.properties") or "{}").encode())
    if not isinstance(inner, dict) or not all(isinstance(item, str) for item in inner.values()):
        raise InvalidSchemaError(f"the property {name}.schema.properties is not a JSON object whose values are strings")
    return Schema(kind, data, inner)


def _json_of(data: bytes) -> Any:
    if not data:
        return ""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode(errors="replace")
