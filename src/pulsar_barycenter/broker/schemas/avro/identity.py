"""Decides whether two Avro definitions are the same schema. Source: the `equals` of Java's `Schema`.

Names, types, fields with defaults and order, symbols, sizes and further attributes are compared. Documentation,
aliases, the default of an enum and the form of the JSON are not.
"""

import hashlib
from typing import Any

import msgspec

from pulsar_barycenter.broker.schemas.avro.types import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)


def identity(schema: AvroSchema) -> str:
    """Return a digest of a parsed schema. Two definitions have the same digest if and only if they parse to the same
    types, names, fields, defaults and properties. White space and the order of JSON members do not matter.
    """
    named = {name: _named(definition) for name, definition in schema.named.items()}
    form = msgspec.json.encode([_type(schema.root), named], order="deterministic")
    return hashlib.sha256(form).hexdigest()


def _type(type_: AvroType) -> Any:
    match type_:
        case Primitive():
            return [type_.kind, dict(type_.properties)]
        case Array():
            return ["array", _type(type_.items), dict(type_.properties)]
        case Map():
            return ["map", _type(type_.values), dict(type_.properties)]
        case Union():
            return ["union", [_type(branch) for branch in type_.branches]]
        case _:
            return ["named", type_.name]


def _named(definition: Named) -> Any:
    match definition:
        case Record():
            return ["record", [_field(field) for field in definition.fields], dict(definition.properties)]
        case Enum():
            return ["enum", definition.symbols, dict(definition.properties)]
        case Fixed():
            return ["fixed", definition.size, dict(definition.properties)]


def _field(field: Field) -> Any:
    default = [] if field.default is NO_DEFAULT else [field.default]
    return [field.name, _type(field.type), default, field.order, dict(field.properties)]
