"""An Avro schema as a value. Named types are represented by references to their names, so that recursive schemas are
finite.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

Properties: TypeAlias = Mapping[str, Any]
"""Attributes that Avro does not define, such as `logicalType`; they belong to the identity of a schema."""


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
"""The value of `Field.default` for a field without a default. (None is the JSON value null.)"""


@dataclass(frozen=True, slots=True)
class Primitive:
    kind: str
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Array:
    items: "AvroType"
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Map:
    values: "AvroType"
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Union:
    branches: tuple["AvroType", ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a named type, by its full name."""

    name: str


AvroType: TypeAlias = Primitive | Array | Map | Union | Reference


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an Avro record. `default` is a JSON value, or NO_DEFAULT."""

    name: str
    type: AvroType
    default: Any = NO_DEFAULT
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    fields: tuple[Field, ...]
    aliases: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Enum:
    """An Avro enum. `known` has the same symbols as `symbols`, as a set for look-ups."""

    name: str
    symbols: tuple[str, ...]
    known: frozenset[str]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    properties: Properties = field(default_factory=dict)


Named: TypeAlias = Record | Enum | Fixed


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed Avro schema: `root` is the type of the data, `named` has the definition of each named type by its full
    name. All names and aliases in it are full names.
    """

    root: AvroType
    named: Mapping[str, Named]

    def definition(self, type_: AvroType) -> Primitive | Array | Map | Union | Named:
        """Return the type itself, or, for a reference, the named type that it refers to."""
        return self.named[type_.name] if isinstance(type_, Reference) else type_


def kind_of(type_: AvroType | Named) -> str:
    """Return the word that Avro has for a type, for messages."""
    return type_.kind if isinstance(type_, Primitive) else type(type_).__name__.lower()


def short_name(full_name: str) -> str:
    """Return the full name of an Avro type without its namespace."""
    return full_name.rpartition(".")[2]
