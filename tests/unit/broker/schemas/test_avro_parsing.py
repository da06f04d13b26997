"""Definitions of Avro schemas: names and references, what is not valid, and the limits."""

from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.schemas.avro.identity import identity
from pulsar_barycenter.broker.schemas.avro.parsing import parse
from pulsar_barycenter.broker.schemas.avro.types import Reference
from pulsar_barycenter.broker.schemas.bounds import MAX_DEPTH, MAX_TYPES
from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError


def read(schema: Any) -> Any:
    return parse(msgspec.json.encode(schema))


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, **more}


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return named("record", name, fields=[{"name": f"f{index}", "type": type_} for index, type_ in enumerate(types)])


def test_names_are_resolved_in_the_namespace_of_their_record() -> None:
    enum = named("enum", "E", symbols=["A"])
    schema = read({**record(enum, "E", "x.y.E"), "namespace": "x.y"})
    assert set(schema.named) == {"x.y.R", "x.y.E"}
    assert {field.type for field in schema.named["x.y.R"].fields} == {Reference("x.y.E")}


def test_a_name_falls_back_to_no_namespace() -> None:
    inner = named("record", "n.Inner", fields=[{"name": "a", "type": "E"}])
    schema = read(record(named("enum", "E", symbols=["A"]), inner))
    assert schema.named["n.Inner"].fields[0].type == Reference("E")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (42, "is not a type"),
        ("nope", "is not defined before it is used"),
        ({"type": {"type": "string"}}, "has no type"),
        ({"type": "array"}, "has no items"),
        ({"type": "map"}, "has no values"),
        ({"type": "record", "fields": []}, "has no name"),
        ({"type": "record", "name": "R"}, "has no list of fields"),
        (record("int", name=""), "is not a name"),
        (record("int", name="a..b"), "is not a name"),
        (record("int", name="a-b"), "not a letter, a digit"),
        (record("int", name="1a"), "begins with a character"),
        (record("int", name="int"), "the name of a primitive type"),
        (record(record("int")), "is defined twice"),
        (named("record", "R", fields=[{"name": "a", "type": "int"}] * 2), "the field a twice"),
        (named("record", "R", fields=["a"]), "a field that is not an object"),
        (named("record", "R", fields=[{"name": "a", "type": "int", "order": "up"}]), "the order of field a"),
        (named("record", "R", fields=[{"name": "a", "type": "int", "order": []}]), "the order of field a"),
        (named("record", "R", fields=[], aliases="S"), "not a list of names"),
        (named("enum", "E", symbols=["A", "A"]), "a symbol twice"),
        (named("enum", "E", symbols=["A", {}]), "is not a name"),
        (named("enum", "E", symbols=["A"], default="B"), "not one of its symbols"),
        (named("fixed", "F", size=-1), "the size of fixed F"),
        (named("fixed", "F", size=True), "the size of fixed F"),
        (["null", "null"], "twice"),
        (["null", ["int"]], "a direct branch of a union"),
        (record("E", named("enum", "E", symbols=["A"])), "is not defined before"),
    ],
)
def test_what_is_not_a_schema_is_refused_with_the_reason(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        read(schema)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b'{"type":' * 50_000])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(data)


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels - 1):
        schema = {"type": "array", "items": schema}
    return schema


def test_the_depth_is_limited_also_through_references() -> None:
    read(nested(MAX_DEPTH))
    with pytest.raises(InvalidSchemaError, match=f"more than {MAX_DEPTH} levels"):
        read(nested(MAX_DEPTH + 1))
    chained = [record(name="C0"), *(record(f"C{index}", name=f"C{index + 1}") for index in range(MAX_DEPTH))]
    with pytest.raises(InvalidSchemaError, match=f"more than {MAX_DEPTH} levels"):
        read(record(*chained))


def test_the_number_of_types_is_limited() -> None:
    read(record(*["int"] * (MAX_TYPES - 1)))
    with pytest.raises(InvalidSchemaError, match=f"more than {MAX_TYPES} types"):
        read(record(*["int"] * MAX_TYPES))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"type": "record", "name": "R", "doc": "x", "fields": [{"type": "int", "doc": "y", "name": "f0"}]}, True),
        ({**record("int"), "aliases": ["Q"]}, True),
        (record({"type": "int"}), True),
        (record({"type": "int", "logicalType": "date"}), False),
        ({**record("int"), "owner": "me"}, False),
        (named("record", "R", fields=[{"name": "f0", "type": "int", "default": 0}]), False),
        (named("record", "R", fields=[{"name": "f0", "type": "int", "order": "ignore"}]), False),
        (record("int", name="S"), False),
        (record("int", "int"), False),
    ],
)
def test_documentation_aliases_and_form_do_not_change_the_identity(other: Any, same: bool) -> None:
    assert (identity(read(other)) == identity(read(record("int")))) is same
