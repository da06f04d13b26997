"""Checks that a schema is within the limits, and that its definition is valid for its type.

Source: Pulsar's `SchemaDataValidator` and the validators of each type.
"""

from typing import Final

from pulsar_barycenter.broker.schemas.avro.parsing import parse, read_json
from pulsar_barycenter.broker.schemas.avro.types import AvroSchema, Union
from pulsar_barycenter.broker.schemas.bounds import MAX_PROPERTIES_LENGTH, MAX_SCHEMA_BYTES
from pulsar_barycenter.broker.schemas.errors import InvalidSchemaError
from pulsar_barycenter.broker.schemas.key_value import parts_of
from pulsar_barycenter.broker.schemas.native_protobuf import root_message
from pulsar_barycenter.broker.schemas.schema import AVRO_DEFINED, CLIENT_SIDE, OPAQUE, Schema, SchemaType

_PYTHON_NONE: Final = b"null"
"""The definition that the Python client sends for a STRING schema."""
_JSON_SCHEMA_TYPES: Final = frozenset(
    {"any", "array", "boolean", "integer", "null", "number", "object", "string", "union"}
)


def require_valid(schema: Schema) -> None:
    """Check that a schema can be stored.

    Raises:
        InvalidSchemaError: the schema exceeds a limit, its type is one that only clients use, or its definition is not
            valid.
    """
    if len(schema.data) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(
            f"the definition has {len(schema.data)} bytes; at most {MAX_SCHEMA_BYTES} are allowed: make it smaller"
        )
    length = sum(len(key) + len(value) for key, value in schema.properties.items())
    if max(length, len(schema.properties)) > MAX_PROPERTIES_LENGTH:
        raise InvalidSchemaError(
            f"the schema's properties have {length} characters; at most {MAX_PROPERTIES_LENGTH} are allowed"
        )
    try:
        _require_definition(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"Invalid schema definition data for {schema.type.name} schema: {error}") from None


def _require_definition(schema: Schema) -> None:
    if schema.type in AVRO_DEFINED:
        _require_avro(schema)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        root_message(schema.data)
    elif schema.type is SchemaType.KEY_VALUE:
        for part in parts_of(schema):
            _require_definition(part)
    elif schema.type in CLIENT_SIDE:
        raise InvalidSchemaError(
            "the types AUTO, AUTO_CONSUME and AUTO_PUBLISH are only for clients: send a schema of another type"
        )
    elif schema.type not in OPAQUE and schema.data not in (b"", _allowed(schema.type)):
        raise InvalidSchemaError(
            f"a primitive type has no definition, but {len(schema.data)} bytes were sent: send an empty definition"
        )


def _allowed(kind: SchemaType) -> bytes:
    return _PYTHON_NONE if kind is SchemaType.STRING else b""


def _require_avro(schema: Schema) -> None:
    if schema.type is SchemaType.JSON and is_json_schema(schema.data):
        return
    if isinstance(parse(schema.data).root, Union) and schema.type is SchemaType.AVRO:
        raise InvalidSchemaError(
            "a union as the whole schema is not supported: use a record with a field of the union type"
        )


def is_json_schema(data: bytes) -> bool:
    """Return whether the definition of a JSON schema is in the format of clients before Pulsar 2.1: JSON Schema, not
    Avro.
    """
    if avro_or_none(data) is not None:
        return False
    found = read_json(data)
    kind = found.get("type") if isinstance(found, dict) else None
    return isinstance(kind, str) and kind in _JSON_SCHEMA_TYPES


def avro_or_none(data: bytes) -> AvroSchema | None:
    """Return the Avro schema that `data` defines, None if `data` is not a valid Avro definition."""
    try:
        return parse(data)
    except InvalidSchemaError:
        return None
