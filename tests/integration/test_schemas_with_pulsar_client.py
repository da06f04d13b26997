"""Schemas of the stock Pulsar client: evolution, refusals, and versions that outlive a broker."""

import os
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from pulsar import schema

from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from support.memory_ledgers import MemoryDisk
from support.one_broker import BrokerThread, OneBroker
from support.stock_client import connect

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/default/clicks"
RECEIVE_MS = 20_000

KINDS = [schema.JsonSchema]
if schema.schema_avro.HAS_AVRO:
    KINDS.append(schema.AvroSchema)
"""The client has AvroSchema if fastavro is installed."""


def click(**fields: schema.Field) -> Any:
    """Return a class of records of the name Click with these fields."""
    return type(schema.Record)("Click", (schema.Record,), fields)


def of_version_1() -> Any:
    return click(page=schema.String(required=True))


def of_version_2() -> Any:
    return click(page=schema.String(required=True), user=schema.String(default="nobody", required_default=True))


def incompatible() -> Any:
    return click(page=schema.String(required=True), user=schema.Integer(required=True))


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(OneBroker) as running:
        yield running


def versions(messages: list[Any]) -> list[int]:
    """Return the schema versions in messages, which the client's own schemas read too."""
    return [message._message.int_schema_version() for message in messages]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_evolves_and_consumers_read_old_and_new_messages(broker: BrokerThread, kind: Any) -> None:
    client = connect(broker.url)
    first, second = of_version_1(), of_version_2()
    client.create_producer(TOPIC, schema=kind(first)).send(first(page="a"))
    client.create_producer(TOPIC, schema=kind(second)).send(second(page="b", user="me"))
    consumer = client.subscribe(TOPIC, "s", schema=kind(second), initial_position=pulsar.InitialPosition.Earliest)
    messages = [consumer.receive(RECEIVE_MS) for _ in range(2)]
    assert versions(messages) == [0, 1]
    assert [message.value().page for message in messages] == ["a", "b"]
    assert [message.value().user for message in messages][1] == "me"
    client.close()


@pytest.mark.parametrize("kind", KINDS)
def test_incompatible_clients_are_refused(broker: BrokerThread, kind: Any) -> None:
    client = connect(broker.url)
    client.create_producer(TOPIC, schema=kind(of_version_1()))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(TOPIC, schema=kind(incompatible()))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(TOPIC, "s", schema=kind(incompatible()))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(TOPIC, schema=schema.StringSchema())
    client.subscribe(TOPIC, "s", schema=kind(of_version_1()))
    client.close()


def test_versions_outlive_the_broker() -> None:
    backend, disk = MemoryBackend(), MemoryDisk()
    first, second = of_version_1(), of_version_2()
    with BrokerThread(lambda: OneBroker(backend=backend, disk=disk)) as broker:
        client = connect(broker.url)
        client.create_producer(TOPIC, schema=schema.JsonSchema(first)).send(first(page="a"))
        client.close()
    with BrokerThread(lambda: OneBroker(backend=backend, disk=disk, first_epoch=100)) as broker:
        client = connect(broker.url)
        with pytest.raises(pulsar.IncompatibleSchema):
            client.create_producer(TOPIC, schema=schema.JsonSchema(incompatible()))
        client.create_producer(TOPIC, schema=schema.JsonSchema(second)).send(second(page="b"))
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, schema=schema.JsonSchema(second))
        messages = [reader.read_next(RECEIVE_MS) for _ in range(2)]
        assert versions(messages) == [0, 1]
        client.close()


def test_texts_and_bytes_work_side_by_side_with_schemas(broker: BrokerThread) -> None:
    client = connect(broker.url)
    consumer = client.subscribe(TOPIC, "s", schema=schema.StringSchema())
    client.create_producer(TOPIC, schema=schema.StringSchema()).send("grüß")
    client.create_producer(TOPIC).send(os.fsencode("plain"))
    assert [consumer.receive(RECEIVE_MS).value() for _ in range(2)] == ["grüß", "plain"]
    client.close()
