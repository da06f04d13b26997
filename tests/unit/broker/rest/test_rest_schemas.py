"""Schemas over REST: versions, uploads, checks, deletions, and the rules of a namespace."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.schemas.bounds import MAX_SCHEMA_BYTES
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

NS = "/admin/v2/namespaces/public/ns"
S = "/admin/v2/schemas/public/ns/t"
TOPIC = "persistent://public/ns/t"


def payload(*fields: str, kind: str = "AVRO", **properties: str) -> dict[str, Any]:
    """A record with int fields; a field with `=` has a default."""
    made = [
        {"name": field.removesuffix("="), "type": "int", **({"default": 0} if field.endswith("=") else {})}
        for field in fields
    ]
    schema = msgspec.json.encode({"type": "record", "name": "R", "fields": made}).decode()
    return {"type": kind, "schema": schema, "properties": properties}


@pytest.fixture
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster(2) as running:
        await running.create_namespace()
        yield running


async def produce(cluster: RestCluster, topic: str = "persistent/public/ns/t", **options: Any) -> Any:
    broker = await cluster.owner(topic)
    client = await WireClient.connect(int(str(broker.urls.broker_url).rpartition(":")[2]))
    answer = await client.produce(topic.replace("persistent/", "persistent://"), **options)
    client.close()
    return answer


async def test_versions_are_uploaded_to_any_broker_and_shown(cluster: RestCluster) -> None:
    first, second = cluster.brokers
    assert (await cluster.expect(404, "GET", f"{S}/schema")).reason.startswith("Schema not found")
    added = await cluster.expect(200, "POST", f"{S}/schema", payload("a", k="v"), at=first)
    assert added.json == {"version": {"version": 0}}
    await cluster.expect(200, "POST", f"{S}/schema", payload("a", "b="), at=second)
    shown = (await cluster.expect(200, "GET", f"{S}/schema/0", at=second)).json
    assert shown.pop("timestamp") > 0
    assert shown == {"version": 0, "type": "AVRO", "data": payload("a")["schema"], "properties": {"k": "v"}}
    assert (await cluster.expect(200, "GET", f"{S}/schema", at=first)).json["version"] == 1
    listed = (await cluster.expect(200, "GET", f"{S}/schemas")).json["getSchemaResponses"]
    assert [each["version"] for each in listed] == [0, 1]
    await cluster.expect(404, "GET", f"{S}/schema/2")
    await cluster.expect(404, "GET", f"{S}/schema/{'9' * 255}")
    assert (await cluster.expect(200, "POST", f"{S}/version", payload("a"))).json == {"version": 0}
    assert (await cluster.expect(200, "POST", f"{S}/version", payload("z"))).json == {"version": -1}


async def test_an_incompatible_schema_is_refused_and_the_check_says_why(cluster: RestCluster) -> None:
    await cluster.expect(200, "POST", f"{S}/schema", payload("a"))
    assert "strategy FULL" in (await cluster.expect(409, "POST", f"{S}/schema", payload("a", "b"))).reason
    verdict = (await cluster.expect(202, "POST", f"{S}/compatibility", payload("a", "b"))).json
    assert (verdict["compatibility"], verdict["schemaCompatibilityStrategy"]) == (False, "FULL")
    assert "b: the writer does not have this field" in verdict["reason"]
    verdict = (await cluster.expect(202, "POST", f"{S}/compatibility", payload("a", "b="))).json
    assert verdict == {"compatibility": True, "schemaCompatibilityStrategy": "FULL"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 400),
        ([], 400),
        ({"type": "AVRO", "schema": 1}, 400),
        ({"type": "AVRO", "schema": "", "unknown": 1}, 400),
        ({"type": "AVRO", "schema": "x" * (MAX_SCHEMA_BYTES + 1)}, 400),
        ({"type": "AVRO", "schema": "{"}, 422),
        ({"type": "AVRO"}, 422),
        ({"type": "AVRO", "schema": '{"type":' * 20_000}, 422),
        ({"type": "NOPE", "schema": ""}, 422),
        ({"type": "AUTO_CONSUME", "schema": ""}, 422),
        ({"type": "KEY_VALUE", "schema": "[]"}, 422),
        ({"type": "BYTES", "schema": ""}, 406),
    ],
)
async def test_what_is_no_schema_is_refused(cluster: RestCluster, body: Any, status: int) -> None:
    await cluster.expect(status, "POST", f"{S}/schema", body)
    await cluster.expect(404, "GET", f"{S}/schema")


async def test_the_schema_none_is_accepted_as_any_other(cluster: RestCluster) -> None:
    await cluster.expect(200, "POST", f"{S}/schema", {"type": "NONE", "schema": ""})
    assert (await cluster.expect(200, "GET", f"{S}/schema")).json["type"] == "NONE"
    assert "exists schema type NONE" in (await cluster.expect(409, "POST", f"{S}/schema", payload("a"))).reason


async def test_a_large_schema_is_accepted(cluster: RestCluster) -> None:
    await cluster.expect(200, "POST", f"{S}/schema", payload(*(f"field_{index}" for index in range(4_000))))


async def test_a_deletion_is_marked_or_forced(cluster: RestCluster) -> None:
    await cluster.expect(200, "POST", f"{S}/schema", payload("a"))
    assert (await cluster.expect(200, "DELETE", f"{S}/schema")).json == {"version": 1}
    await cluster.expect(404, "GET", f"{S}/schema")
    await cluster.expect(404, "GET", f"{S}/schema/0")
    assert (await cluster.expect(200, "POST", f"{S}/schema", payload("z"))).json == {"version": {"version": 2}}
    assert (await cluster.expect(200, "DELETE", f"{S}/schema?force=true")).json == {"version": 2}
    assert (await cluster.expect(200, "POST", f"{S}/schema", payload("y"))).json == {"version": {"version": 0}}


async def test_key_value_schemas_are_objects(cluster: RestCluster) -> None:
    value = msgspec.json.decode(payload("a")["schema"])
    body = {
        "type": "KEY_VALUE",
        "schema": msgspec.json.encode({"key": "", "value": value}).decode(),
        "properties": {"key.schema.type": "STRING", "value.schema.type": "AVRO"},
    }
    await cluster.expect(200, "POST", f"{S}/schema", body)
    shown = (await cluster.expect(200, "GET", f"{S}/schema")).json
    assert msgspec.json.decode(shown["data"]) == {"key": "", "value": value}
    assert (await cluster.expect(200, "POST", f"{S}/version", body)).json == {"version": 0}


async def test_a_namespace_that_does_not_exist_has_no_schemas(cluster: RestCluster) -> None:
    for path in ("schema", "schemas"):
        await cluster.expect(404, "GET", f"/admin/v2/schemas/public/nope/t/{path}")
    await cluster.expect(404, "POST", "/admin/v2/schemas/public/nope/t/schema", payload("a"))


async def test_the_rules_of_a_namespace_are_applied(cluster: RestCluster) -> None:
    assert (await cluster.expect(200, "GET", f"{NS}/schemaCompatibilityStrategy")).json == "UNDEFINED"
    assert (await cluster.expect(200, "GET", f"{NS}/isAllowAutoUpdateSchema")).json is True
    assert (await cluster.expect(200, "GET", f"{NS}/schemaValidationEnforced")).json is False
    await cluster.expect(200, "POST", f"{S}/schema", payload("a"))
    await cluster.expect(204, "PUT", f"{NS}/schemaCompatibilityStrategy", "FORWARD")
    assert (await cluster.expect(200, "GET", f"{NS}/schemaCompatibilityStrategy")).json == "FORWARD"
    await cluster.expect(200, "POST", f"{S}/schema", payload("a", "b"))
    await cluster.expect(204, "POST", f"{NS}/schemaValidationEnforced", True)
    for broker in cluster.brokers:
        assert (await cluster.expect(200, "GET", f"{NS}/schemaValidationEnforced?applied=true", at=broker)).json is True
    assert (await produce(cluster)).error == api.IncompatibleSchema
    await cluster.expect(204, "POST", f"{NS}/isAllowAutoUpdateSchema", False)
    assert (await cluster.expect(200, "GET", f"{NS}/isAllowAutoUpdateSchema")).json is False
    schema = api.Schema(name="s", schema_data=payload("a", "b", "c")["schema"].encode(), type=api.Schema.Avro)
    assert (await produce(cluster, schema=schema)).error == api.IncompatibleSchema
    await cluster.expect(200, "POST", f"{S}/schema", payload("a", "b", "c"))
    assert (await produce(cluster, schema=schema)).producer_name


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "schemaCompatibilityStrategy", "BEST", 412),
        ("PUT", "schemaCompatibilityStrategy", None, 412),
        ("PUT", "schemaCompatibilityStrategy", 3, 412),
        ("POST", "isAllowAutoUpdateSchema", None, 400),
        ("POST", "schemaValidationEnforced", "x", 400),
    ],
)
async def test_a_rule_that_is_none_is_refused(
    cluster: RestCluster, method: str, path: str, body: Any, status: int
) -> None:
    before = (await cluster.expect(200, "GET", f"{NS}/{path}")).json
    await cluster.expect(status, method, f"{NS}/{path}", body)
    assert (await cluster.expect(200, "GET", f"{NS}/{path}")).json == before


async def test_a_new_namespace_may_have_rules(cluster: RestCluster) -> None:
    rules = {"schema_compatibility_strategy": "BACKWARD", "is_allow_auto_update_schema": False}
    await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ruled", rules)
    found = (await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ruled")).json
    assert {name: found[name] for name in rules} == rules
    await cluster.expect(400, "PUT", "/admin/v2/namespaces/public/other", {"schema_compatibility_strategy": "BEST"})


async def test_partitions_share_a_schema_until_their_topic_is_deleted(cluster: RestCluster) -> None:
    await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/p/partitions", 3)
    schema = api.Schema(name="s", schema_data=payload("a")["schema"].encode(), type=api.Schema.Avro)
    await produce(cluster, "persistent/public/ns/p-partition-2", schema=schema)
    for name in ("p", "p-partition-0"):
        assert (await cluster.expect(200, "GET", f"/admin/v2/schemas/public/ns/{name}/schema")).json["version"] == 0
    await cluster.expect(204, "DELETE", "/admin/v2/persistent/public/ns/p/partitions?force=true")
    await cluster.expect(404, "GET", "/admin/v2/schemas/public/ns/p/schema")


async def test_every_broker_writes_schemas_where_the_leader_writes_for_all() -> None:
    async with rest_cluster(2, leader_only_metadata_writes="true") as cluster:
        await cluster.create_namespace()
        large = payload(*(f"field_{index}" for index in range(4_000)))
        for number, broker in enumerate(cluster.brokers):
            path = f"/admin/v2/schemas/public/ns/t{number}"
            await cluster.expect(200, "POST", f"{path}/schema", large, at=broker)
            await cluster.expect(409, "POST", f"{path}/schema", payload("a"), at=broker)
            assert (await cluster.expect(200, "DELETE", f"{path}/schema?force=true", at=broker)).json == {"version": 0}


async def test_a_deleted_namespace_has_no_schemas_any_more(cluster: RestCluster) -> None:
    await cluster.expect(200, "POST", f"{S}/schema", payload("a"))
    await cluster.expect(204, "DELETE", NS)
    await cluster.create_namespace()
    await cluster.expect(404, "GET", f"{S}/schema")
