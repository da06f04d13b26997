"""Which schemas a topic accepts by each strategy, for every type of schema."""

import base64
import struct
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from pulsar_barycenter.broker.schemas.bounds import MAX_PROPERTIES_LENGTH, MAX_SCHEMA_BYTES
from pulsar_barycenter.broker.schemas.compatibility import (
    Strategy,
    compared,
    comparing,
    effective,
    identity_of,
    require_compatible,
)
from pulsar_barycenter.broker.schemas.errors import IncompatibleSchemaError, InvalidSchemaError
from pulsar_barycenter.broker.schemas.key_value import from_json, parts_of, to_json
from pulsar_barycenter.broker.schemas.schema import (
    Schema,
    SchemaType,
    StoredSchema,
    type_of_name,
    type_of_number,
    version_bytes,
    version_of_bytes,
)
from pulsar_barycenter.broker.schemas.validation import require_valid

STRING = Schema(SchemaType.STRING)
MANY = [
    Strategy.BACKWARD,
    Strategy.BACKWARD_TRANSITIVE,
    Strategy.FORWARD,
    Strategy.FORWARD_TRANSITIVE,
    Strategy.FULL,
    Strategy.FULL_TRANSITIVE,
]


def avro(*fields: Any, kind: SchemaType = SchemaType.AVRO) -> Schema:
    made = [field if isinstance(field, dict) else {"name": field, "type": "int"} for field in fields]
    return Schema(kind, msgspec.json.encode({"type": "record", "name": "R", "fields": made}))


def is_allowed(old: Schema, new: Schema, strategy: Strategy) -> bool:
    try:
        require_compatible(StoredSchema(0, old, 0), new, strategy)
    except IncompatibleSchemaError:
        return False
    return True


OPTIONAL = {"name": "b", "type": "int", "default": 0}


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF])
@pytest.mark.parametrize("strategy", MANY)
def test_fields_are_added_and_removed_by_the_strategy(kind: SchemaType, strategy: Strategy) -> None:
    backward, forward = "FORWARD" not in strategy, "BACKWARD" not in strategy
    one, two, with_default = avro("a", kind=kind), avro("a", "b", kind=kind), avro("a", OPTIONAL, kind=kind)
    assert is_allowed(one, two, strategy) is not backward
    assert is_allowed(two, one, strategy) is not forward
    assert is_allowed(one, with_default, strategy)
    assert is_allowed(with_default, one, strategy)


def test_nothing_else_is_allowed_by_always_incompatible_and_all_by_always_compatible() -> None:
    assert not is_allowed(avro("a"), avro("a", OPTIONAL), Strategy.ALWAYS_INCOMPATIBLE)
    assert is_allowed(avro("a"), avro("a"), Strategy.ALWAYS_INCOMPATIBLE)
    assert is_allowed(avro("a"), STRING, Strategy.ALWAYS_COMPATIBLE)


@pytest.mark.parametrize("strategy", MANY)
def test_another_type_is_incompatible(strategy: Strategy) -> None:
    assert not is_allowed(avro("a"), avro("a", kind=SchemaType.JSON), strategy)
    assert not is_allowed(STRING, Schema(SchemaType.INT32), strategy)
    assert is_allowed(STRING, Schema(SchemaType.STRING, b"null"), strategy)


def test_the_reason_names_the_version_the_strategy_and_the_field() -> None:
    with pytest.raises(IncompatibleSchemaError, match=r"version 4 by strategy BACKWARD: .*cannot read.*b: the writer"):
        require_compatible(StoredSchema(4, avro("a"), 0), avro("a", "b"), Strategy.BACKWARD)


@pytest.mark.parametrize(
    ("strategy", "of_consumer", "versions", "by"),
    [
        (Strategy.BACKWARD, False, 1, Strategy.BACKWARD),
        (Strategy.FULL_TRANSITIVE, False, 3, Strategy.FULL_TRANSITIVE),
        (Strategy.ALWAYS_INCOMPATIBLE, False, 1, Strategy.ALWAYS_INCOMPATIBLE),
        (Strategy.ALWAYS_COMPATIBLE, False, 0, Strategy.ALWAYS_COMPATIBLE),
        (Strategy.FULL, True, 1, Strategy.BACKWARD),
        (Strategy.FORWARD_TRANSITIVE, True, 1, Strategy.BACKWARD),
        (Strategy.BACKWARD_TRANSITIVE, True, 3, Strategy.BACKWARD_TRANSITIVE),
        (Strategy.ALWAYS_INCOMPATIBLE, True, 3, Strategy.ALWAYS_INCOMPATIBLE),
    ],
)
def test_what_a_schema_is_compared_with(strategy: Strategy, of_consumer: bool, versions: int, by: Strategy) -> None:
    assert len(compared((0, 1, 2), strategy, of_consumer=of_consumer)) == versions
    assert comparing(strategy, of_consumer=of_consumer) is by


def test_the_first_defined_strategy_counts() -> None:
    assert effective(Strategy.UNDEFINED, Strategy.BACKWARD) is Strategy.BACKWARD
    assert effective(Strategy.UNDEFINED, Strategy.UNDEFINED) is Strategy.FULL


def test_identity_is_meaning_for_avro_and_bytes_for_others() -> None:
    spaced = Schema(SchemaType.AVRO, msgspec.json.format(avro("a").data, indent=2))
    assert identity_of(avro("a")) == identity_of(spaced)
    assert identity_of(avro("a")) != identity_of(avro("a", kind=SchemaType.JSON))
    assert identity_of(STRING) != identity_of(Schema(SchemaType.STRING, b"null"))


# ---- old JSON definitions ----


def json_schema(id_: str) -> Schema:
    return Schema(SchemaType.JSON, msgspec.json.encode({"type": "object", "id": id_, "properties": {}}))


def test_json_definitions_of_old_clients_differ_by_their_id_only() -> None:
    require_valid(json_schema("a"))
    assert is_allowed(json_schema("a"), avro("a", kind=SchemaType.JSON), Strategy.FULL)
    assert is_allowed(avro("a", kind=SchemaType.JSON), json_schema("a"), Strategy.FULL)
    assert not is_allowed(json_schema("a"), json_schema("b"), Strategy.FULL)


# ---- KEY_VALUE ----


def key_value(key: Schema, value: Schema) -> Schema:
    data = b"".join(struct.pack(">i", len(part.data)) + part.data for part in (key, value))
    properties = {"key.schema.type": key.type.name, "value.schema.type": value.type.name}
    return Schema(SchemaType.KEY_VALUE, data, properties)


def test_key_and_value_are_compared_one_by_one() -> None:
    old = key_value(STRING, avro("a"))
    require_valid(old)
    assert is_allowed(old, key_value(STRING, avro("a", OPTIONAL)), Strategy.FULL)
    assert not is_allowed(old, key_value(STRING, avro("a", "b")), Strategy.FULL)
    assert not is_allowed(old, key_value(Schema(SchemaType.INT8), avro("a", OPTIONAL)), Strategy.FULL)


def test_key_value_is_an_object_in_json() -> None:
    schema = key_value(STRING, avro("a"))
    text = to_json(schema.data)
    assert msgspec.json.decode(text)["key"] == ""
    assert from_json(text) == schema.data
    assert parts_of(Schema(SchemaType.KEY_VALUE, schema.data))[0].type is SchemaType.BYTES


@pytest.mark.parametrize(
    ("data", "properties", "reason"),
    [
        (b"", {}, "ends before the length of the key"),
        (struct.pack(">i", 9) + b"x", {}, "ends within the key"),
        (struct.pack(">ii", 0, 0) + b"x", {}, "1 bytes after the end"),
        (struct.pack(">ii", 0, 0), {"key.schema.type": "KEY_VALUE"}, "cannot be a KEY_VALUE schema"),
        (struct.pack(">ii", 0, 0), {"key.schema.type": "AVRO"}, "not valid JSON"),
        (struct.pack(">ii", 0, 0), {"key.schema.type": "NOPE"}, "is not known"),
        (struct.pack(">ii", -1, -1), {"key.schema.type": "INT8", "key.schema.properties": "[]"}, "not a JSON object"),
    ],
)
def test_damaged_key_value_schemas_are_refused(data: bytes, properties: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        require_valid(Schema(SchemaType.KEY_VALUE, data, properties))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": "", "value": "", "more": 1}'])
def test_what_is_no_key_value_in_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        from_json(text)


# ---- native Protobuf ----


def native(root: str, package: str = "p", **changed: Any) -> Schema:
    files = FileDescriptorSet()
    file = files.file.add(name="a.proto", package=package)
    file.message_type.add(name="Outer").nested_type.add(name="Inner")
    file.message_type.add(name="Other")
    definition = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": root,
        "rootFileDescriptorName": "a.proto",
        **changed,
    }
    return Schema(SchemaType.PROTOBUF_NATIVE, msgspec.json.encode(definition))


def test_native_protobuf_keeps_its_root_message() -> None:
    for schema in (native("p.Outer"), native("p.Outer.Inner"), native("Other", package="")):
        require_valid(schema)
    assert is_allowed(native("p.Outer"), native("p.Outer", fileDescriptorSet="CgA="), Strategy.FULL) is False
    assert not is_allowed(native("p.Outer"), native("p.Other"), Strategy.BACKWARD)
    assert is_allowed(native("p.Outer"), native("p.Outer", more=1), Strategy.FULL)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rootMessageTypeName": "p.Nope"}, "has no message 'p.Nope'"),
        ({"rootMessageTypeName": "Outer"}, "has no message"),
        ({"rootFileDescriptorName": "b.proto"}, "has no file 'b.proto'"),
        ({"fileDescriptorSet": "!"}, "not a descriptor set in base64"),
        ({"fileDescriptorSet": "/////w=="}, "not a descriptor set in base64"),
        ({"fileDescriptorSet": 1}, "needs the field fileDescriptorSet with a string"),
    ],
)
def test_damaged_native_schemas_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        require_valid(native("p.Outer", **changed))


# ---- limits and types ----


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema(SchemaType.AVRO, b" " * (MAX_SCHEMA_BYTES + 1)), f"at most {MAX_SCHEMA_BYTES}"),
        (Schema(SchemaType.STRING, b"", {"a": "b" * MAX_PROPERTIES_LENGTH}), "properties have"),
        (Schema(SchemaType.STRING, b"text"), "Invalid schema definition data for STRING schema"),
        (Schema(SchemaType.INT32, b"null"), "a primitive type has no definition"),
        (Schema(SchemaType.AUTO_CONSUME), "only for clients"),
        (Schema(SchemaType.AVRO, b'["null", "int"]'), "a union as the whole schema"),
        (Schema(SchemaType.PROTOBUF_NATIVE, b"[]"), "a JSON object"),
    ],
)
def test_what_cannot_be_stored_is_refused(schema: Schema, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        require_valid(schema)


def test_types_have_the_names_of_java_and_the_numbers_of_the_protocol() -> None:
    assert type_of_name("avro") is SchemaType.AVRO
    assert type_of_number(4) is SchemaType.AVRO
    assert type_of_number(21) is SchemaType.AUTO_CONSUME
    for unknown in (-1, 22):
        with pytest.raises(InvalidSchemaError, match="not supported"):
            type_of_number(unknown)


def test_a_version_is_eight_bytes_and_old_clients_send_more() -> None:
    assert version_bytes(258) == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert version_of_bytes(version_bytes(7) + bytes(56)) == 7
    with pytest.raises(InvalidSchemaError, match="8 bytes, not 3"):
        version_of_bytes(b"abc")
