"""What the check of Avro schemas promises: fastavro decodes data of the writer's schema with the reader's."""

import io
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.schemas.avro.identity import identity
from pulsar_barycenter.broker.schemas.avro.parsing import parse
from pulsar_barycenter.broker.schemas.avro.resolution import why_unreadable
from support.avro_schemas import has_values, pairs, schemas, values
from support.short_forms import examples

fastavro = pytest.importorskip("fastavro", reason="the decoder of these tests is fastavro, which is not installed")


def read(schema: Any) -> Any:
    return parse(msgspec.json.encode(schema))


@settings(
    max_examples=examples(250), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None
)
@given(pairs(), st.data())
def test_what_is_compatible_decodes(pair: tuple[Any, Any], data: st.DataObject) -> None:
    writer, reader = pair
    assume(has_values(writer))
    assume(why_unreadable(read(reader), read(writer)) is None)
    value = data.draw(values(writer))
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(writer), value)
    encoded.seek(0)
    fastavro.schemaless_reader(encoded, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(schemas())
def test_every_schema_reads_its_own_data_and_is_itself(schema: Any) -> None:
    assert why_unreadable(read(schema), read(schema)) is None
    assert identity(read(schema)) == identity(parse(msgspec.json.format(msgspec.json.encode(schema), indent=4)))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(pairs())
def test_schemas_of_one_identity_read_each_other(pair: tuple[Any, Any]) -> None:
    writer, reader = map(read, pair)
    if identity(writer) == identity(reader):
        assert why_unreadable(reader, writer) is None
        assert why_unreadable(writer, reader) is None
