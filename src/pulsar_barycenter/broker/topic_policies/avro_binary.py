"""Encodes and decodes values of one Avro schema in Avro's binary form. No I/O.

A value is what JSON has: None, booleans, numbers, texts, lists and dicts. A union is `null` and one other type, as in
schemas of Java's classes. Schemas are not resolved: data is read with the schema that wrote it.

Source: the specification of Apache Avro 1.12, "Binary Encoding".
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = "str | list[Any] | dict[str, Any]"

_DOUBLE: Final = struct.Struct("<d")
_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "double", "string"})
_LONGEST_NUMBER: Final = 10
"""The maximum number of bytes of an encoded number, which has 64 bits."""


class NotOfSchemaError(ValueError):
    """Raised if a value, or encoded data, does not fit the Avro schema. The text of the error says where."""


class AvroCodec:
    """Encodes values to Avro's binary format and decodes them. `schema` is an Avro schema, as decoded JSON; each of its
    named types is defined before it is used.
    """

    def __init__(self, schema: Schema) -> None:
        self._named: dict[str, dict[str, Any]] = {}
        self._schema = self._resolved(schema, "")

    def encode(self, value: Any) -> bytes:
        """Encode a value; fields that a dict does not have are null.

        Raises:
            NotOfSchemaError: the value does not fit the schema.
        """
        out = bytearray()
        try:
            _WRITERS[_kind(self._schema)](out, self._schema, value)
        except (TypeError, ValueError, AttributeError, KeyError, struct.error) as error:
            raise NotOfSchemaError(f"the value does not fit the schema: {error!r}") from error
        return bytes(out)

    def decode(self, data: bytes) -> Any:
        """Decode `data`, which must contain one value and nothing else.

        Raises:
            NotOfSchemaError: the bytes are not data of the schema.
        """
        source = _Source(data)
        try:
            value = _READERS[_kind(self._schema)](source, self._schema)
        except (IndexError, UnicodeDecodeError, struct.error) as error:
            raise NotOfSchemaError(f"{len(data)} bytes are not data of the schema: {error!r}") from error
        if source.offset != len(data):
            raise NotOfSchemaError(
                f"{len(data)} bytes are too many for one value of the schema: the value ends at byte {source.offset}"
            )
        return value

    def _resolved(self, schema: Schema, namespace: str) -> Schema:
        """Return a schema in which each reference to a named type is replaced by that type's definition. `namespace` is
        the Avro namespace for names without one.
        """
        if isinstance(schema, list):
            return [self._resolved(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self._named[_full_name(schema, namespace)]
        kind = schema["type"]
        if kind in ("record", "enum"):
            own = schema.get("namespace", namespace)
            definition = self._named[_full_name(schema["name"], own)] = dict(schema)
            if kind == "record":
                definition["fields"] = [
                    {"name": field["name"], "type": self._resolved(field["type"], own)} for field in schema["fields"]
                ]
            return definition
        part = {"array": "items", "map": "values"}[kind]
        return {"type": kind, part: self._resolved(schema[part], namespace)}


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name else f"{namespace}.{name}"


def _kind(schema: Schema) -> str:
    if isinstance(schema, str):
        return schema
    return "union" if isinstance(schema, list) else str(schema["type"])


# ---- writing ----


def _write_number(out: bytearray, _schema: Schema, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{value!r} is not a number of 64 bits")
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def _write_text(out: bytearray, _schema: Schema, value: Any) -> None:
    encoded = value.encode()
    _write_number(out, "long", len(encoded))
    out += encoded


def _write_boolean(out: bytearray, _schema: Schema, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    out.append(value)


def _write_union(out: bytearray, schema: Any, value: Any) -> None:
    for index, branch in enumerate(schema):
        if (branch == "null") is (value is None):
            _write_number(out, "long", index)
            _write(out, branch, value)
            return
    raise ValueError(f"the union in the schema has no type for the value {value!r}")


def _write_record(out: bytearray, schema: Any, value: Any) -> None:
    for field in schema["fields"]:
        _write(out, field["type"], value.get(field["name"]))


def _write_array(out: bytearray, schema: Any, value: Any) -> None:
    if value:
        _write_number(out, "long", len(value))
        for item in value:
            _write(out, schema["items"], item)
    out.append(0)


def _write_map(out: bytearray, schema: Any, value: Any) -> None:
    if value:
        _write_number(out, "long", len(value))
        for key, item in value.items():
            _write_text(out, "string", key)
            _write(out, schema["values"], item)
    out.append(0)


def _write(out: bytearray, schema: Any, value: Any) -> None:
    _WRITERS[_kind(schema)](out, schema, value)


_WRITERS: Final[Mapping[str, Callable[[bytearray, Any, Any], None]]] = {
    "null": lambda _out, _schema, _value: None,
    "boolean": _write_boolean,
    "int": _write_number,
    "long": _write_number,
    "double": lambda out, _schema, value: out.extend(_DOUBLE.pack(value)),
    "string": _write_text,
    "union": _write_union,
    "record": _write_record,
    "enum": lambda out, schema, value: _write_number(out, "int", schema["symbols"].index(value)),
    "array": _write_array,
    "map": _write_map,
}


# ---- reading ----


class _Source:
    """The bytes to decode, which are read from `offset` on."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.offset:
            raise NotOfSchemaError(f"the length at byte {self.offset} announces {size} bytes, but fewer bytes follow")
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def number(self) -> int:
        value = 0
        for position in range(_LONGEST_NUMBER):
            byte = self.data[self.offset]
            self.offset += 1
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise NotOfSchemaError(f"the number before byte {self.offset} has more than 64 bits")

    def text(self) -> str:
        return self.take(self.number()).decode()

    def items(self) -> int:
        """Return the number of items in the next block of an array or map, 0 at its end."""
        count = self.number()
        if count < 0:  # the size of the block in bytes follows
            count = -count
            self.number()
        if count > len(self.data) - self.offset:
            raise NotOfSchemaError(f"the block at byte {self.offset} announces {count} items, but fewer bytes follow")
        return count


def _chosen(symbols: Any, index: int) -> Any:
    if not 0 <= index < len(symbols):
        raise NotOfSchemaError(f"a union or enum with {len(symbols)} choices has no choice with the number {index}")
    return symbols[index]


def _read_array(source: _Source, schema: Any) -> list[Any]:
    found: list[Any] = []
    while count := source.items():
        found += [_read(source, schema["items"]) for _ in range(count)]
    return found


def _read_map(source: _Source, schema: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while count := source.items():
        for _ in range(count):
            key = source.text()
            found[key] = _read(source, schema["values"])
    return found


def _read(source: _Source, schema: Any) -> Any:
    return _READERS[_kind(schema)](source, schema)


_READERS: Final[Mapping[str, Callable[[_Source, Any], Any]]] = {
    "null": lambda _source, _schema: None,
    "boolean": lambda source, _schema: source.take(1) != b"\0",
    "int": lambda source, _schema: source.number(),
    "long": lambda source, _schema: source.number(),
    "double": lambda source, _schema: _DOUBLE.unpack(source.take(8))[0],
    "string": lambda source, _schema: source.text(),
    "union": lambda source, schema: _read(source, _chosen(schema, source.number())),
    "record": lambda source, schema: {field["name"]: _read(source, field["type"]) for field in schema["fields"]},
    "enum": lambda source, schema: _chosen(schema["symbols"], source.number()),
    "array": _read_array,
    "map": _read_map,
}
