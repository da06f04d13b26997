"""The versions of a topic's schema on every metadata store: none is lost, none contradicts, all can be removed."""

import asyncio

import msgspec

from pulsar_barycenter.broker.schemas.errors import IncompatibleSchemaError
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType
from pulsar_barycenter.broker.schemas.schema_registry import SchemaRegistry
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.naming.topic import TopicName
from support.metadata_backends import Backend

TOPIC = TopicName.parse("persistent://t/ns/clicks")
RULES = SchemaRules()


def record(*fields: dict[str, object]) -> Schema:
    return Schema(SchemaType.AVRO, msgspec.json.encode({"type": "record", "name": "R", "fields": list(fields)}))


def optional(name: str) -> Schema:
    return record({"name": name, "type": "int", "default": 0})


def required(name: str) -> Schema:
    return record({"name": name, "type": "int"})


async def brokers(backend: Backend, count: int) -> list[SchemaRegistry]:
    return [SchemaRegistry(await backend.connect(), SystemClock()) for _ in range(count)]


async def test_brokers_that_add_at_once_lose_no_version(backend: Backend) -> None:
    registries = await brokers(backend, 3)
    added = await asyncio.gather(
        *(registries[index].add(TOPIC, optional(f"f{index}"), RULES) for index in range(3)),
        *(registries[index].add(TOPIC, optional(f"f{(index + 1) % 3}"), RULES) for index in range(3)),
    )
    found = {stored.version: stored.schema for stored in await registries[0].versions(TOPIC)}
    assert sorted(found) == [0, 1, 2]
    assert [found[version] for version in added] == [optional(f"f{index}") for index in (0, 1, 2, 1, 2, 0)]


async def test_of_schemas_that_contradict_one_is_added(backend: Backend) -> None:
    registries = await brokers(backend, 3)
    outcomes = await asyncio.gather(
        *(registry.add(TOPIC, required(f"f{index}"), RULES) for index, registry in enumerate(registries)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, IncompatibleSchemaError) for outcome in outcomes) == 2
    assert [stored.version for stored in await registries[0].versions(TOPIC)] == [0]


async def test_versions_are_kept_and_removed(backend: Backend) -> None:
    first, second = await brokers(backend, 2)
    await first.add(TOPIC, optional("a"), RULES, user="me")
    latest = await second.latest(TOPIC)
    assert latest is not None
    assert (latest.schema, latest.user) == (optional("a"), "me")
    assert await second.delete(TOPIC, force=True) == 0
    assert not await first.has_schema(TOPIC)
    assert await first.add(TOPIC, required("z"), RULES) == 0
    await asyncio.gather(first.add(TOPIC, optional("b"), SchemaRules()), return_exceptions=True)
    assert await second.delete(TOPIC, force=False) == 1
    assert await first.latest(TOPIC) is None
