"""The rules of Avro's schema resolution one by one, with the answers of Java's validator, except enums."""

from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.schemas.avro.parsing import parse
from pulsar_barycenter.broker.schemas.avro.resolution import why_unreadable

NUMBERS = {"int": {"long", "float", "double"}, "long": {"float", "double"}, "float": {"double"}, "double": set()}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def why(reader: Any, writer: Any) -> str | None:
    return why_unreadable(parse(msgspec.json.encode(reader)), parse(msgspec.json.encode(writer)))


@pytest.mark.parametrize("writer", NUMBERS)
@pytest.mark.parametrize("reader", NUMBERS)
def test_numbers_are_promoted_to_wider_ones(reader: str, writer: str) -> None:
    assert (why(reader, writer) is None) is (reader == writer or reader in NUMBERS[writer])


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("string", "bytes"),
        ("bytes", "string"),
        (["null", "string"], "string"),
        ("string", ["string"]),
        (["double", "string"], ["long", "int"]),
        ("int", []),
        (record(), record(field("a", "int"))),
        (record(field("a", ["null", "int"], default=None)), record()),
        (record(field("a", ["null", "int"], default=3)), record()),
        (record(field("a", "int", aliases=["b"])), record(field("b", "int"))),
        (record(name="R"), record(name="S")),
        (["null", record(name="a.R")], record(name="b.R")),
        (["null", record(name="R")], record(name="S")),
        (enum("B", "A"), enum("A", "B")),
        (enum("A", name="n.E"), enum("A", name="m.E")),
        (enum("A", default="A"), enum("A", "B")),
        (enum("A", name="G", aliases=["E"]), enum("A")),
        (fixed(3, name="G", aliases=["F"]), fixed(3)),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
        (record(field("a", ["null", "R"])), record(field("a", ["null", "R"]), field("b", "int"))),
        (record(field("a", "R")), record(field("a", "R"))),
        ({"type": "int", "logicalType": "date"}, "int"),
    ],
)
def test_readable(reader: Any, writer: Any) -> None:
    assert why(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ("string", ["null", "string"], "string cannot read null"),
        (["int", "string"], "long", "no branch of the reader's union can read long"),
        (["null", enum("A", name="n.E")], enum("A", name="m.E"), "no branch of the reader's union can read enum m.E"),
        (record(field("a", "int")), record(), "a: the writer does not have this field, and it has no default"),
        (record(field("a", "int", default="x")), record(), "its default is not valid"),
        (
            record(field("a", record(field("b", "int"), name="S"))),
            record(field("a", record(field("b", "string"), name="S"))),
            "a.b: a reader of int cannot read string",
        ),
        (enum("A"), enum("A", "B"), "enum E lacks B of the writer, and has no default"),
        (enum("A", name="G"), enum("A"), "the reader has enum G, the writer E"),
        (fixed(3, name="n.F"), fixed(3, name="m.F"), "the reader has fixed n.F, the writer m.F"),
        (fixed(3), fixed(4), "of 3 bytes, the writer of 4"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "[]: a reader of int cannot read long"),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, "{}: a reader of int cannot read long"),
        (
            record(field("a", ["null", "R"]), field("b", "int")),
            record(field("a", ["null", "R"])),
            "b: the writer does not",
        ),
        ("int", record(), "a reader of int cannot read record"),
        (record(), fixed(1), "a reader of record cannot read fixed"),
    ],
)
def test_unreadable(reader: Any, writer: Any, reason: str) -> None:
    assert reason in (why(reader, writer) or "")


def test_a_pair_that_seemed_readable_is_judged_anew() -> None:
    """While A is compared with W, links to both count as readable. A then fails, and B cannot read a link either."""
    first = record(
        field("link", record(field("next", ["null", "A"]), name="Link")), field("x", "int", default=0), name="A"
    )
    second = record(field("link", "Link"), name="B")
    written = record(field("link", record(field("next", ["null", "W"]), name="Link")), field("x", "string"), name="W")
    reason = why(record(field("u", [first, second])), record(field("u", written)))
    assert reason == "u: no branch of the reader's union can read record W"


def chain(length: int, **last: Any) -> dict[str, Any]:
    """A record whose fields are records, each with two fields of the one before: exponential if not remembered."""
    fields = [field("f0", record(name="C0", **last))]
    for index in range(1, length):
        before = f"C{index - 1}"
        fields.append(field(f"f{index}", record(field("a", before), field("b", before), name=f"C{index}")))
    return record(*fields)


def test_pairs_of_named_types_are_compared_once() -> None:
    assert why(chain(60), chain(60)) is None


def test_an_exponential_default_ends_with_a_reason() -> None:
    levels = [field("f0", record(field("x", "int", default="no"), name="D0"))]
    for index in range(1, 20):
        before = [f"D{index - 1}", {"type": "map", "values": f"D{index - 1}"}]
        levels.append(
            field(f"f{index}", record(field("a", before, default={}), field("b", before, default={}), name=f"D{index}"))
        )
    reader = record(*levels, field("top", "D19", default={}))
    assert why(reader, record(*levels)) is not None


def ring(length: int, name: str) -> dict[str, Any]:
    """Records in a circle: each has a field of the next, the last one of the first."""
    schema: Any = f"{name}0"
    for index in reversed(range(length)):
        schema = record(field("next", schema), name=f"{name}{index}")
    assert isinstance(schema, dict)
    return schema


def test_circles_of_different_length_end_with_a_reason() -> None:
    assert "too complex to compare" in (why(ring(61, "A"), ring(60, "B")) or "")
    assert why(ring(60, "A"), ring(60, "B")) is None


def test_huge_unions_end_with_a_reason() -> None:
    readers = [record(field("a", "string"), name=f"A{index}") for index in range(1000)]
    writers = [record(field("a", "int"), name=f"B{index}") for index in range(1000)]
    assert why(record(field("u", readers)), record(field("u", writers))) is not None


def test_a_default_is_checked_once_for_all_records_of_the_writer() -> None:
    """It may be long, and be needed for each record of a union."""
    reader = record(field("a", "bytes", default="x" * 100_000))
    writers = [record(name=f"B{index}") for index in range(1000)]
    assert why(reader, writers) is None
