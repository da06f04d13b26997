"""Reads the definition of an Avro schema: JSON, names, references.

Source: the Avro specification, and Java's `Schema.Parser` as Pulsar calls it: letters and digits of any script and `$`
are allowed in names, and defaults are not checked.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec

from pulsar_barycenter.broker.schemas.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Reference,
    Union,
)
from pulsar_barycenter.broker.schemas.bounds import MAX_DEPTH, MAX_TYPES
from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError

_OF_SCHEMA: Final = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values", "default"}
)
_OF_FIELD: Final = frozenset({"name", "type", "doc", "aliases", "default", "order"})
_ORDERS: Final = frozenset({"ascending", "descending", "ignore"})
_MAX_SHOWN: Final = 80
_MAX_FIXED: Final = 2**31 - 1
_KEPT: Final = 16
"""The maximum number of parsed schemas that are cached. Each has up to MAX_TYPES types."""


@lru_cache(maxsize=_KEPT)
def parse(data: bytes) -> AvroSchema:
    """Return the Avro schema that `data` defines. The results for the definitions used last are cached, because a
    definition is parsed several times.

    Raises:
        InvalidSchemaError: the definition is not valid, has more than MAX_TYPES types or more than MAX_DEPTH levels.
    """
    parser = _Parser()
    root, _ = parser.type_of(read_json(data), "", 1)
    return AvroSchema(root, parser.named)


def read_json(data: bytes) -> Any:
    """Return the JSON value of a definition.

    Raises:
        InvalidSchemaError: the definition is not JSON, or nested too deeply to be read.
    """
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise InvalidSchemaError(f"the definition is nested too deeply: at most {MAX_DEPTH} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSchemaError(f"the definition is not valid JSON: {error}") from None


class _Parser:
    """Parses one definition. `named` has the named types that were completely read. `_heights` has, for each named
    type, how many levels of nesting its definition has; 0 while it is being read.
    """

    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self._heights: dict[str, int] = {}
        self._count = 0

    def type_of(self, value: Any, namespace: str, depth: int) -> tuple[AvroType, int]:
        """Return the type that the JSON value defines, and how many levels of nesting it has. `namespace` is the Avro
        namespace for names without one; `depth` is the depth of nesting at which the value is.
        """
        self._count += 1
        if self._count > MAX_TYPES:
            raise InvalidSchemaError(f"the schema has more than {MAX_TYPES} types")
        _require_depth(depth)
        if isinstance(value, str):
            return self._by_name(value, namespace, depth)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if isinstance(value, dict):
            return self._by_object(value, namespace, depth)
        raise InvalidSchemaError(f"{_shown(value)} is not a type: use a name, an object or a list")

    def _by_name(self, name: str, namespace: str, depth: int) -> tuple[AvroType, int]:
        if name in PRIMITIVES:
            return Primitive(name), 1
        full = _full_name(name, namespace)
        found = full if full in self._heights else name
        if found not in self._heights:
            raise InvalidSchemaError(f"type {_shown(name)} is not defined before it is used")
        height = self._heights[found]
        _require_depth(depth + height)
        return Reference(found), max(1, height)

    def _union(self, branches: list[Any], namespace: str, depth: int) -> tuple[AvroType, int]:
        read: list[AvroType] = []
        seen: set[str] = set()
        height = 1
        for branch in branches:
            type_, levels = self.type_of(branch, namespace, depth + 1)
            if isinstance(type_, Union):
                raise InvalidSchemaError("a union is a direct branch of a union: join their branches")
            key = type_.name if isinstance(type_, Reference) else _unnamed(type_)
            if key in seen:
                raise InvalidSchemaError(f"a union has the branch {_shown(key)} twice")
            seen.add(key)
            read.append(type_)
            height = max(height, 1 + levels)
        return Union(tuple(read)), height

    def _by_object(self, value: dict[str, Any], namespace: str, depth: int) -> tuple[AvroType, int]:
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"{_shown(value)} has no type")
        properties = {key: item for key, item in value.items() if key not in _OF_SCHEMA}
        match kind:
            case "record" | "error":
                return self._record(value, namespace, depth, properties)
            case "enum":
                return self._enum(value, namespace, properties)
            case "fixed":
                return self._fixed(value, namespace, properties)
            case "array":
                items, height = self.type_of(_required(value, "items", "array"), namespace, depth + 1)
                return Array(items, properties), height + 1
            case "map":
                values, height = self.type_of(_required(value, "values", "map"), namespace, depth + 1)
                return Map(values, properties), height + 1
        if kind in PRIMITIVES:
            return Primitive(kind, properties), 1
        return self._by_name(kind, namespace, depth)

    def _record(
        self, value: dict[str, Any], namespace: str, depth: int, properties: Properties
    ) -> tuple[AvroType, int]:
        name = self._new_name(value, namespace)
        inner = name.rpartition(".")[0]
        fields: dict[str, Field] = {}
        height = 1
        for item in _listed(value, "fields", f"record {_shown(name)}"):
            field, levels = self._field(item, name, inner, depth)
            if field.name in fields:
                raise InvalidSchemaError(f"record {_shown(name)} has the field {_shown(field.name)} twice")
            fields[field.name] = field
            height = max(height, 1 + levels)
        aliases = _aliases(value, inner)
        return self._defined(Record(name, tuple(fields.values()), aliases, properties), height)

    def _field(self, item: Any, record: str, namespace: str, depth: int) -> tuple[Field, int]:
        if not isinstance(item, dict):
            raise InvalidSchemaError(f"record {_shown(record)} has a field that is not an object: {_shown(item)}")
        name = _required(item, "name", f"a field of record {_shown(record)}")
        _require_name(name)
        type_, levels = self.type_of(
            _required(item, "type", f"field {_shown(name)} of record {_shown(record)}"), namespace, depth + 1
        )
        order = item.get("order", "ascending")
        if order not in _ORDERS if isinstance(order, str) else True:
            raise InvalidSchemaError(
                f"the order of field {_shown(name)} is {_shown(order)}: use ascending, descending or ignore"
            )
        properties = {key: value for key, value in item.items() if key not in _OF_FIELD}
        default = item.get("default", NO_DEFAULT)
        return Field(name, type_, default, order, _aliases(item, ""), properties), levels

    def _enum(self, value: dict[str, Any], namespace: str, properties: Properties) -> tuple[AvroType, int]:
        name = self._new_name(value, namespace)
        symbols = _listed(value, "symbols", f"enum {_shown(name)}")
        for symbol in symbols:
            _require_name(symbol)
        known = frozenset(symbols)
        if len(known) < len(symbols):
            raise InvalidSchemaError(f"enum {_shown(name)} has a symbol twice")
        default = value.get("default")
        if default is not None and (not isinstance(default, str) or default not in known):
            raise InvalidSchemaError(
                f"the default of enum {_shown(name)} is {_shown(default)}, which is not one of its symbols"
            )
        aliases = _aliases(value, name.rpartition(".")[0])
        return self._defined(Enum(name, tuple(symbols), known, default, aliases, properties), 1)

    def _fixed(self, value: dict[str, Any], namespace: str, properties: Properties) -> tuple[AvroType, int]:
        name = self._new_name(value, namespace)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_FIXED:
            raise InvalidSchemaError(f"the size of fixed {_shown(name)} is {_shown(size)}: use a number from 0 on")
        aliases = _aliases(value, name.rpartition(".")[0])
        return self._defined(Fixed(name, size, aliases, properties), 1)

    def _new_name(self, value: dict[str, Any], namespace: str) -> str:
        """Return the full name of the named type that a JSON object defines. From this call on, other types in the
        definition may refer to that name.
        """
        name = _required(value, "name", f"a {value['type']}")
        own = value.get("namespace")
        space = own if isinstance(own, str) else namespace
        full = _full_name(name, space) if isinstance(name, str) else name
        _require_full_name(full)
        if full.rpartition(".")[2] in PRIMITIVES:
            raise InvalidSchemaError(f"{_shown(full)} is the name of a primitive type: use another name")
        if full in self._heights:
            raise InvalidSchemaError(f"type {_shown(full)} is defined twice")
        self._heights[full] = 0
        return str(full)

    def _defined(self, definition: Named, height: int) -> tuple[AvroType, int]:
        self.named[definition.name] = definition
        self._heights[definition.name] = height
        return Reference(definition.name), height


def _require_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidSchemaError(f"the schema has more than {MAX_DEPTH} levels")


def _unnamed(type_: AvroType) -> str:
    return type_.kind if isinstance(type_, Primitive) else type(type_).__name__.lower()


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _aliases(value: dict[str, Any], namespace: str) -> tuple[str, ...]:
    aliases = value.get("aliases")
    if aliases is None:
        return ()
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchemaError(f"the aliases {_shown(aliases)} are not a list of names")
    return tuple(_full_name(alias, namespace) for alias in aliases)


def _required(value: dict[str, Any], key: str, of: str) -> Any:
    if key not in value:
        raise InvalidSchemaError(f"{of} has no {key}: {_shown(value)}")
    return value[key]


def _listed(value: dict[str, Any], key: str, of: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise InvalidSchemaError(f"{of} has no list of {key}")
    return found


def _require_full_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidSchemaError(f"{_shown(name)} is not a name")
    for part in name.split("."):
        _require_name(part)


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidSchemaError(f"{_shown(name)} is not a name")
    if not (name[0].isalpha() or name[0] in "_$"):
        raise InvalidSchemaError(f"name {_shown(name)} begins with a character that is not a letter, _ or $")
    if not all(character.isalnum() or character in "_$" for character in name):
        raise InvalidSchemaError(f"name {_shown(name)} has a character that is not a letter, a digit, _ or $")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
