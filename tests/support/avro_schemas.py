"""Avro schemas, schemas that they may have evolved into, and data, for property tests."""

import copy
from typing import Any

from hypothesis import strategies as st

SYMBOLS = ("A", "B", "C", "D")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 8,
    "float": 1.5,
    "double": 2.5,
    "bytes": "\u00ff",
    "string": "text",
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=4).filter(lambda data: data.isascii()),
    "string": st.text(st.characters(max_codepoint=127), max_size=4),
}


class _Names:
    """New names of types, all different also without their namespaces."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0

    def new(self, letter: str) -> str:
        self._count += 1
        return f"{self._prefix}{letter}{self._count}"


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A record of few levels, which may refer to itself."""
    return _record(draw, _Names("w"), 0, ())


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A writer's schema, and a reader's that differs from it in some places."""
    writer = draw(schemas())
    return writer, _evolved(draw, copy.deepcopy(writer), _Names("r"))


def _type(draw: st.DrawFn, names: _Names, depth: int, enclosing: tuple[str, ...]) -> Any:
    kinds = ["primitive"] * 3 if depth > 2 else ["primitive", "array", "map", "union", "record", "enum", "fixed"]
    match draw(st.sampled_from(kinds)):
        case "array":
            return {"type": "array", "items": _type(draw, names, depth + 1, enclosing)}
        case "map":
            return {"type": "map", "values": _type(draw, names, depth + 1, enclosing)}
        case "record":
            return _record(draw, names, depth + 1, enclosing)
        case "enum":
            return _enum(draw, names)
        case "fixed":
            return {"type": "fixed", "name": names.new("F"), "size": draw(st.integers(1, 3))}
        case "union":
            return _union(draw, names, depth, enclosing)
    return draw(st.sampled_from(PRIMITIVES))


def _union(draw: st.DrawFn, names: _Names, depth: int, enclosing: tuple[str, ...]) -> list[Any]:
    branches: list[Any] = draw(st.lists(st.sampled_from(PRIMITIVES), unique=True, min_size=1, max_size=3))
    if enclosing and bool(draw(st.booleans())):
        branches.append(draw(st.sampled_from(enclosing)))
    elif depth < 2 and draw(st.booleans()):
        branches.append(_record(draw, names, depth + 1, enclosing))
    return branches


def _enum(draw: st.DrawFn, names: _Names) -> dict[str, Any]:
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), unique=True, min_size=1))
    return {"type": "enum", "name": names.new("E"), "symbols": symbols}


def _record(draw: st.DrawFn, names: _Names, depth: int, enclosing: tuple[str, ...]) -> dict[str, Any]:
    name = names.new("R")
    count = draw(st.integers(0, 3))
    fields = [
        {"name": f"f{index}", "type": _type(draw, names, depth + 1, (*enclosing, name))} for index in range(count)
    ]
    return {"type": "record", "name": name, "fields": fields}


def _evolved(draw: st.DrawFn, schema: Any, names: _Names) -> Any:
    """Return a schema that differs from `schema`, which may be changed."""
    if draw(st.integers(0, 9)) == 0 and isinstance(schema, str) and schema in PRIMITIVES:
        return draw(st.sampled_from(PRIMITIVES))
    if isinstance(schema, list):
        return _evolved_union(draw, schema, names)
    if isinstance(schema, dict):
        _evolve_object(draw, schema, names)
    if draw(st.integers(0, 9)) == 0 and schema != "null":
        return ["null", schema]
    return schema


def _evolved_union(draw: st.DrawFn, branches: list[Any], names: _Names) -> list[Any]:
    changed = [_evolved(draw, branch, names) if isinstance(branch, dict) else branch for branch in branches]
    changed = [branch for branch in changed if not isinstance(branch, list)]
    new = draw(st.sampled_from(PRIMITIVES))
    if new not in changed and draw(st.booleans()):
        changed.insert(draw(st.integers(0, len(changed))), new)
    return changed


def _evolve_object(draw: st.DrawFn, schema: dict[str, Any], names: _Names) -> None:
    match schema["type"]:
        case "array":
            schema["items"] = _evolved(draw, schema["items"], names)
        case "map":
            schema["values"] = _evolved(draw, schema["values"], names)
        case "enum" if draw(st.booleans()):
            schema["symbols"] = draw(st.permutations(SYMBOLS))[: draw(st.integers(1, 4))]
            if draw(st.booleans()):
                schema["default"] = schema["symbols"][0]
        case "fixed" if draw(st.integers(0, 5)) == 0:
            schema["size"] = draw(st.integers(1, 3))
        case "record":
            _evolve_fields(draw, schema, names)


def _evolve_fields(draw: st.DrawFn, record: dict[str, Any], names: _Names) -> None:
    fields = []
    for field in record["fields"]:
        if _defines(field["type"]) or draw(st.integers(0, 5)):  # a removed definition would leave references without it
            field["type"] = _evolved(draw, field["type"], names)
            if draw(st.integers(0, 5)) == 0:
                field["aliases"] = [field["name"]]
                field["name"] = f"renamed_{field['name']}"
            fields.append(field)
    if draw(st.booleans()):
        new = draw(st.sampled_from(PRIMITIVES))
        added: dict[str, Any] = {"name": names.new("new"), "type": new}
        if draw(st.integers(0, 3)):
            added["default"] = DEFAULTS[draw(st.sampled_from([new] * 5 + list(PRIMITIVES)))]
        fields.append(added)
    record["fields"] = fields


def _defines(schema: Any) -> bool:
    return "name" in str(schema)


@st.composite
def values(draw: st.DrawFn, schema: Any) -> Any:
    """A value of a schema, with recursive types cut short where a union allows it."""
    return _value(draw, schema, {}, 0)


def _value(draw: st.DrawFn, schema: Any, named: dict[str, Any], depth: int) -> Any:
    if isinstance(schema, list):
        flat = [branch for branch in schema if branch in PRIMITIVES] if depth > 4 else []
        return _value(draw, draw(st.sampled_from(flat or schema)), named, depth)
    if isinstance(schema, str):
        return draw(_VALUES[schema]) if schema in _VALUES else _value(draw, named[schema], named, depth + 1)
    if "name" in schema:
        named[schema["name"]] = schema
    length = draw(st.integers(0, 2)) if depth < 5 else 0
    match schema["type"]:
        case "array":
            return [_value(draw, schema["items"], named, depth + 1) for _ in range(length)]
        case "map":
            return {str(index): _value(draw, schema["values"], named, depth + 1) for index in range(length)}
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "fixed":
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
    return {field["name"]: _value(draw, field["type"], named, depth + 1) for field in schema["fields"]}


def has_values(schema: Any) -> bool:
    """Return whether values of a schema can be drawn: each recursion passes through a union with another branch."""
    return _is_finite(schema, ())


def _is_finite(schema: Any, within: tuple[str, ...]) -> bool:
    if isinstance(schema, list):
        return any(_is_finite(branch, within) for branch in schema) and any(branch in PRIMITIVES for branch in schema)
    if isinstance(schema, str):
        return schema not in within
    match schema["type"]:
        case "record":
            inner = (*within, schema["name"])
            return all(_is_finite(field["type"], inner) for field in schema["fields"])
        case "array":
            return _is_finite(schema["items"], within)
        case "map":
            return _is_finite(schema["values"], within)
    return True
