"""Schemas on the wire: PRODUCER, SUBSCRIBE, GET_SCHEMA, GET_OR_CREATE_SCHEMA."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.schemas.schema import version_bytes
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
NONE = api.Schema(name="", schema_data=b"", type=api.Schema.Type.Value("None"))
STRING = api.Schema(name="STRING", schema_data=b"null", type=api.Schema.String)


def avro(*fields: str, name: str = "R") -> api.Schema:
    made = [{"name": field, "type": ["null", "int"], "default": None} for field in fields]
    data = msgspec.json.encode({"type": "record", "name": name, "fields": made})
    return api.Schema(
        name="AVRO", schema_data=data, type=api.Schema.Avro, properties=[api.KeyValue(key="k", value="v")]
    )


def required(*fields: str) -> api.Schema:
    made = [{"name": field, "type": "int"} for field in fields]
    data = msgspec.json.encode({"type": "record", "name": "R", "fields": made})
    return api.Schema(name="AVRO", schema_data=data, type=api.Schema.Avro)


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker().start()
    yield running
    await running.stop()


@pytest.fixture
async def client(broker: OneBroker) -> WireClient:
    return await WireClient.connect(broker.port)


async def get_schema(client: WireClient, topic: str = TOPIC, version: bytes | None = None) -> Any:
    frame = client_requests.get_schema(client.request_id(), topic, schema_version=version)
    return (await client.ask(frame, TYPE.GET_SCHEMA_RESPONSE))[1]


async def get_or_create(client: WireClient, schema: api.Schema, topic: str = TOPIC) -> Any:
    frame = commands.command_frame(
        TYPE.GET_OR_CREATE_SCHEMA, request_id=client.request_id(), topic=topic, schema=schema
    )
    return (await client.ask(frame, TYPE.GET_OR_CREATE_SCHEMA_RESPONSE))[1]


async def test_a_producer_learns_the_version_of_its_schema(client: WireClient) -> None:
    assert (await client.produce(TOPIC, schema=avro("a"))).schema_version == version_bytes(0)
    assert (await client.produce(TOPIC, 2, schema=avro("a", "b"))).schema_version == version_bytes(1)
    assert (await client.produce(TOPIC, 3, schema=avro("a"))).schema_version == version_bytes(0)
    again = await client.produce(TOPIC, 2, schema=avro("a", "b"))
    assert again.schema_version == version_bytes(1)
    without = await client.produce(TOPIC, 4)
    assert (without.HasField("schema_version"), without.schema_version) == (True, b"")


async def test_an_incompatible_producer_is_refused_and_the_connection_stays(client: WireClient) -> None:
    await client.produce(TOPIC, schema=required("a"))
    refused = await client.produce(TOPIC, 2, schema=required("a", "b"))
    assert (refused.error, "strategy FULL" in refused.message) == (api.IncompatibleSchema, True)
    assert (await client.produce(TOPIC, 3, schema=STRING)).error == api.IncompatibleSchema
    assert (await client.produce(TOPIC, 4, schema=required("a"))).schema_version == version_bytes(0)


async def test_the_schema_none_is_a_version_as_any_other(broker: OneBroker, client: WireClient) -> None:
    """The client for Go sends it for bytes, and looks for its version in messages."""
    assert (await client.produce(TOPIC, schema=NONE)).schema_version == version_bytes(0)
    assert (await get_schema(client)).schema.type == NONE.type
    refused = await client.produce(TOPIC, 2, schema=avro("a"))
    assert (refused.error, "exists schema type NONE" in refused.message) == (api.IncompatibleSchema, True)
    assert (await client.subscribe(TOPIC, schema=NONE)).request_id
    broker.policies.of_schemas = SchemaRules(Strategy.ALWAYS_COMPATIBLE)
    assert (await client.produce(TOPIC, 3, schema=avro("a"))).schema_version == version_bytes(1)


@pytest.mark.parametrize("kind", ["producer", "consumer"])
async def test_the_schema_none_does_not_fit_a_topic_with_another_one(client: WireClient, kind: str) -> None:
    """But no schema does, which clients for Java send for bytes."""
    await client.produce(TOPIC, schema=avro("a"))
    attach: Any = client.produce if kind == "producer" else client.subscribe
    assert (await attach(TOPIC, **{f"{kind}_id": 2}, schema=NONE)).error == api.IncompatibleSchema
    assert not hasattr(await attach(TOPIC, **{f"{kind}_id": 3}), "error")


async def test_a_consumer_with_the_schema_none_adds_it_to_an_unused_topic_only(client: WireClient) -> None:
    assert (await client.subscribe(TOPIC, schema=NONE)).request_id
    assert (await get_schema(client)).schema_version == version_bytes(0)
    used = "persistent://public/default/used"
    await client.produce(used, 2)
    assert (await client.subscribe(used, "s2", 2, schema=NONE)).error == api.IncompatibleSchema


@pytest.mark.parametrize(
    "schema",
    [
        api.Schema(name="s", schema_data=b"[" * 100_000, type=api.Schema.Avro),
        api.Schema(name="s", schema_data=b" " * 300_000, type=api.Schema.Json),
        api.Schema(name="s", schema_data=b"\xff", type=api.Schema.Protobuf),
        api.Schema(name="s", schema_data=b"\x7f\xff\xff\xff", type=api.Schema.KeyValue),
        api.Schema(name="s", schema_data=b"{}", type=api.Schema.ProtobufNative),
        api.Schema(name="s", schema_data=b"", type=api.Schema.AutoConsume),
        api.Schema(name="s", schema_data=b"", type=api.Schema.External),
    ],
)
async def test_hostile_schemas_are_refused_and_the_connection_stays(client: WireClient, schema: api.Schema) -> None:
    assert (await client.produce(TOPIC, schema=schema)).error == api.IncompatibleSchema
    assert (await get_schema(client)).error_code == api.TopicNotFound


async def test_a_producer_without_a_schema_is_refused_where_schemas_are_enforced(
    broker: OneBroker, client: WireClient
) -> None:
    broker.policies.of_schemas = SchemaRules(are_enforced=True)
    assert (await client.produce(TOPIC)).producer_name
    await client.produce(TOPIC, 2, schema=avro("a"))
    assert (await client.produce(TOPIC, 3)).error == api.IncompatibleSchema
    assert (await client.subscribe(TOPIC)).request_id


async def test_clients_add_no_version_where_updates_are_not_allowed(broker: OneBroker, client: WireClient) -> None:
    await client.produce(TOPIC, schema=avro("a"))
    broker.policies.of_schemas = SchemaRules(may_update=False)
    assert (await client.produce(TOPIC, 2, schema=avro("a", "b"))).error == api.IncompatibleSchema
    assert (await client.produce(TOPIC, 3, schema=avro("a"))).schema_version == version_bytes(0)


async def test_the_first_consumer_adds_its_schema(client: WireClient) -> None:
    await client.subscribe(TOPIC, schema=required("a"))
    assert (await get_schema(client)).schema.schema_data == required("a").schema_data
    assert (await client.subscribe(TOPIC, "s2", 2, schema=required("b"))).error == api.IncompatibleSchema
    assert (await client.subscribe(TOPIC, "s3", 3, schema=avro("a"))).request_id
    assert (await get_schema(client)).schema_version == version_bytes(0)


async def test_a_topic_that_has_clients_without_a_schema_gets_none_from_a_consumer(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    refused = await client.subscribe(TOPIC, "s2", 2, schema=avro("a"))
    assert (refused.error, "active topic" in refused.message) == (api.IncompatibleSchema, True)


async def test_a_topic_that_has_messages_without_a_schema_gets_none_from_a_consumer(client: WireClient) -> None:
    await client.produce(TOPIC)
    client.send(0)
    await client.expect(TYPE.SEND_RECEIPT)
    client.write(commands.command_frame(TYPE.CLOSE_PRODUCER, producer_id=1, request_id=99))
    await client.expect(TYPE.SUCCESS)
    assert (await client.subscribe(TOPIC, schema=avro("a"))).error == api.IncompatibleSchema


async def test_a_consumer_of_any_schema_is_no_client_that_prevents_one(client: WireClient) -> None:
    any_schema = api.Schema(name="a", schema_data=b"", type=api.Schema.AutoConsume)
    assert (await client.subscribe(TOPIC, schema=any_schema)).request_id
    assert (await get_schema(client)).error_code == api.TopicNotFound
    assert (await client.subscribe(TOPIC, "s2", 2, schema=avro("a"))).request_id
    assert (await get_schema(client)).schema.type == api.Schema.Avro


async def test_schemas_are_returned_by_version_with_name_and_properties(client: WireClient) -> None:
    await client.produce(TOPIC, schema=avro("a"))
    await client.produce(TOPIC, 2, schema=avro("a", "b"))
    latest = await get_schema(client)
    assert (latest.schema_version, latest.schema.name) == (version_bytes(1), "public/default/t")
    assert [(pair.key, pair.value) for pair in latest.schema.properties] == [("k", "v")]
    first = await get_schema(client, version=version_bytes(0))
    assert (first.schema_version, first.schema.schema_data) == (version_bytes(0), avro("a").schema_data)
    assert (await get_schema(client, version=version_bytes(2))).error_code == api.TopicNotFound
    assert (await get_schema(client, version=b"x")).error_code == api.IncompatibleSchema
    assert (await get_schema(client, "persistent://public/default/t-partition-3")).schema == latest.schema


async def test_get_or_create_adds_to_an_existing_topic_only(client: WireClient) -> None:
    assert (await get_or_create(client, avro("a"))).error_code == api.TopicNotFound
    await client.produce(TOPIC)
    assert (await get_or_create(client, avro("a"))).schema_version == version_bytes(0)
    assert (await get_or_create(client, avro("a", "b"))).schema_version == version_bytes(1)
    assert (await get_or_create(client, STRING)).error_code == api.IncompatibleSchema


async def test_schemas_outlive_an_unload_and_a_restart(broker: OneBroker, client: WireClient) -> None:
    await client.produce(TOPIC, schema=avro("a"))
    await broker.unload()
    assert (await get_schema(client)).schema_version == version_bytes(0)
    second = await OneBroker(backend=broker.backend, disk=broker.disk).start()
    other = await WireClient.connect(second.port)
    assert (await get_schema(other)).schema.schema_data == avro("a").schema_data
    await second.stop()


async def test_a_deleted_topic_has_no_schema_any_more(broker: OneBroker, client: WireClient) -> None:
    await client.produce(TOPIC, schema=avro("a"))
    topic = next(iter(broker.registry.loaded())).name
    await broker.registry.delete_topic(topic, force=True)
    assert not await broker.registry.schemas.has_schema(topic)
    assert (await client.produce(TOPIC, 5, schema=STRING)).schema_version == version_bytes(0)


async def test_a_deleted_partition_leaves_the_schema_to_the_others(broker: OneBroker, client: WireClient) -> None:
    await client.produce(f"{TOPIC}-partition-0", schema=avro("a"))
    topic = next(iter(broker.registry.loaded())).name
    await broker.registry.delete_topic(topic, force=True)
    assert await broker.registry.schemas.has_schema(topic)


async def test_all_is_accepted_where_all_is_compatible(broker: OneBroker, client: WireClient) -> None:
    broker.policies.of_schemas = SchemaRules(Strategy.ALWAYS_COMPATIBLE)
    assert (await client.produce(TOPIC, schema=required("a"))).schema_version == version_bytes(0)
    assert (await client.produce(TOPIC, 2, schema=STRING)).schema_version == version_bytes(1)
    assert (await client.subscribe(TOPIC, schema=required("z"))).request_id
