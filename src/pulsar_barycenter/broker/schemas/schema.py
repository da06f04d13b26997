"""A schema as clients send it, and its types. Source: Pulsar's `SchemaInfo`, `SchemaType`, `LongSchemaVersion`."""

import enum
import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError

_VERSION: Final = struct.Struct(">q")


class SchemaType(enum.IntEnum):
    """The types of schemas, with their names in Java. A number of 0 or more is also the type's number in the binary
    protocol; negative numbers are not sent.
    """

    AUTO_PUBLISH = -4
    AUTO_CONSUME = -3
    AUTO = -2
    BYTES = -1
    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20


WIRE_AUTO_CONSUME: Final = 21
"""The number of AUTO_CONSUME in the binary protocol, from version 21 of the protocol on."""

OPAQUE: Final = frozenset({SchemaType.NONE, SchemaType.BYTES})
"""The types of bytes without a form: a definition of such a schema is not checked. Java's client sends no schema for
them. NONE is stored if another client sends it, such as that for Go; BYTES has no number in the binary protocol.
"""
CLIENT_SIDE: Final = frozenset({SchemaType.AUTO, SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH})
"""The types with which a client uses the schema that the topic has. They are never stored."""
AVRO_DEFINED: Final = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})
"""The types of schemas whose definition is an Avro schema."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema: its type, its definition as bytes, and properties, which are stored but not interpreted (except those
    of KEY_VALUE).
    """

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 of the definition, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of a topic's schema. `timestamp_ms` is when it was stored, `user` the role that stored it."""

    version: int
    schema: Schema
    timestamp_ms: int
    user: str = ""


def type_of_number(number: int) -> SchemaType:
    """Return the type with a number of the binary protocol.

    Raises:
        InvalidSchemaError: this broker does not know the number.
    """
    if number == WIRE_AUTO_CONSUME:
        return SchemaType.AUTO_CONSUME
    if 0 <= number <= SchemaType.PROTOBUF_NATIVE:
        return SchemaType(number)
    raise InvalidSchemaError(f"Schema type {number} is not supported: use one from 0 to {SchemaType.PROTOBUF_NATIVE}")


def type_of_name(name: str) -> SchemaType:
    """Return the type with a name, in upper, lower or mixed case.

    Raises:
        InvalidSchemaError: there is no such type.
    """
    try:
        return SchemaType[name.upper()]
    except KeyError:
        known = ", ".join(kind.name for kind in SchemaType if kind is not SchemaType.BYTES and kind not in CLIENT_SIDE)
        raise InvalidSchemaError(f"Schema type {name[:40]!r} is not known: use one of {known}") from None


def version_bytes(version: int) -> bytes:
    """Return a schema version in the form of the binary protocol: 8 bytes, big-endian."""
    return _VERSION.pack(version)


def version_of_bytes(data: bytes) -> int:
    """Return the schema version in the first 8 bytes of `data`. (Clients before Pulsar 2.4 send 64 bytes.)

    Raises:
        InvalidSchemaError: there are fewer than 8 bytes.
    """
    if len(data) < _VERSION.size:
        raise InvalidSchemaError(f"A schema version has 8 bytes, not {len(data)}")
    version: int = _VERSION.unpack_from(data)[0]
    return version
