"""Decides whether a JSON value can be the default of a field. Source: the table of defaults in the Avro
specification.
"""

from typing import Any, Final

from pulsar_barycenter.broker.schemas.avro.budget import Budget
from pulsar_barycenter.broker.schemas.avro.types import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
)

_INTEGERS: Final = {"int": 2**31, "long": 2**63}
_NUMBERS: Final = frozenset({"float", "double"})
_LARGEST_BYTE: Final = 0xFF


def is_valid_default(schema: AvroSchema, type_: AvroType, value: Any, budget: Budget, depth: int) -> bool:
    """Return whether `value` is a valid default for the type `type_` of `schema`. For a union it must be valid for at
    least one branch. For a record, a field that `value` lacks gets the default of that field.

    The check counts its steps in `budget`. `depth` is the depth of nesting at which it begins.

    Raises:
        TooComplexError: `budget` allows no more steps or no greater depth, for example because a default contains
            itself.
    """
    budget.spend(1, depth)

    def is_valid(inner: AvroType, item: Any) -> bool:
        return is_valid_default(schema, inner, item, budget, depth + 1)

    definition = schema.definition(type_)
    match definition:
        case Primitive():
            return _is_primitive(definition.kind, value)
        case Enum():
            return isinstance(value, str) and value in definition.known
        case Fixed():
            return _is_bytes(value) and len(value) == definition.size
        case Array():
            return isinstance(value, list) and all(is_valid(definition.items, item) for item in value)
        case Map():
            return isinstance(value, dict) and all(is_valid(definition.values, item) for item in value.values())
        case Union():
            return any(is_valid(branch, value) for branch in definition.branches)
        case Record():
            return isinstance(value, dict) and all(
                (item := value.get(field.name, field.default)) is not NO_DEFAULT and is_valid(field.type, item)
                for field in definition.fields
            )


def _is_primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _INTEGERS:
        limit = _INTEGERS[kind]
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) if kind == "string" else _is_bytes(value)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and all(ord(character) <= _LARGEST_BYTE for character in value)
