"""Whatever a client sends as a schema is accepted or refused by a SchemaError, and never fails otherwise."""

import struct
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.schemas.compatibility import Strategy, identity_of, require_compatible
from pulsar_barycenter.broker.schemas.errors import SchemaError
from pulsar_barycenter.broker.schemas.key_value import from_json, to_json
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType, StoredSchema
from pulsar_barycenter.broker.schemas.validation import require_valid
from support.avro_schemas import PRIMITIVES, schemas
from support.short_forms import examples

WORDS = ("record", "enum", "fixed", "array", "map", "error", "R", "n.R", "A", "", *PRIMITIVES)
KEYS = (
    *("type", "name", "namespace", "fields", "symbols", "items", "values", "size", "default", "aliases", "order"),
    *("fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName", "id", "key", "value"),
)
PROPERTIES = ("key.schema.type", "value.schema.type", "key.schema.properties", "value.schema.properties")
ATOMS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.sampled_from(WORDS)
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)
JSON = (VALUES | schemas()).map(msgspec.json.encode)


def pair(key: bytes, value: bytes) -> bytes:
    return struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value


DEFINITIONS = JSON | st.binary(max_size=40) | st.builds(pair, JSON, JSON)
SCHEMAS = st.builds(
    Schema,
    st.sampled_from(SchemaType),
    DEFINITIONS,
    st.dictionaries(
        st.sampled_from(PROPERTIES), st.sampled_from([*SchemaType.__members__, "{}", "[]", "{"]), max_size=4
    ),
)
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=examples(300), suppress_health_check=RELAXED, deadline=None)
@given(SCHEMAS)
def test_every_schema_is_accepted_or_refused(schema: Schema) -> None:
    with suppress(SchemaError):
        require_valid(schema)
        assert identity_of(schema) == identity_of(schema)


@settings(max_examples=examples(200), suppress_health_check=RELAXED, deadline=None)
@given(st.sampled_from(SchemaType), DEFINITIONS, DEFINITIONS, st.sampled_from(Strategy))
def test_every_pair_is_compatible_or_refused(kind: SchemaType, old: bytes, new: bytes, strategy: Strategy) -> None:
    """Also of definitions that were stored by an earlier version, which may have accepted others."""
    with suppress(SchemaError):
        require_compatible(StoredSchema(0, Schema(kind, old), 0), Schema(kind, new), strategy)


@settings(max_examples=examples(100), suppress_health_check=RELAXED, deadline=None)
@given(JSON | DEFINITIONS)
def test_key_value_definitions_are_read_or_refused(data: bytes) -> None:
    with suppress(SchemaError):
        assert from_json(to_json(from_json(data.decode(errors="replace"))))
    with suppress(SchemaError):
        to_json(data)
