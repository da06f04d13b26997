"""The stored versions of a topic's schema: added by the rules, kept, deleted, and shared by several brokers."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.broker.schemas import schema_registry
from pulsar_barycenter.broker.schemas.compatibility import Strategy
from pulsar_barycenter.broker.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
)
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType
from pulsar_barycenter.broker.schemas.schema_records import SchemaRecords
from pulsar_barycenter.broker.schemas.schema_registry import NO_VERSION, SchemaRegistry
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName

TOPIC = TopicName.parse("persistent://t/ns/a topic")
PATH = "/barycenter/schemas/t/ns/a+topic"
RULES = SchemaRules()
BACKWARD = SchemaRules(Strategy.BACKWARD)
TRANSITIVE = SchemaRules(Strategy.BACKWARD_TRANSITIVE)
STRING = Schema(SchemaType.STRING, b"", {"a": "b"})


def avro(*fields: str) -> Schema:
    """A record with int fields; a field with `=` has a default."""
    made = [
        {"name": field.removesuffix("="), "type": "int", **({"default": 0} if field.endswith("=") else {})}
        for field in fields
    ]
    return Schema(SchemaType.AVRO, msgspec.json.encode({"type": "record", "name": "R", "fields": made}))


class Cluster:
    """Registries of several brokers on one store."""

    def __init__(self) -> None:
        self._backend = MemoryBackend()
        self.store = self.connect()
        self.registry = SchemaRegistry(self.store, SystemClock())

    def connect(self) -> MetadataStore:
        return self._backend.connect(SystemClock(), 30_000)

    def broker(self) -> SchemaRegistry:
        return SchemaRegistry(self.connect(), SystemClock())


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


async def test_versions_count_from_zero_and_are_kept(cluster: Cluster) -> None:
    registry = cluster.registry
    assert await registry.add(TOPIC, avro("a"), RULES, user="me") == 0
    assert await registry.add(TOPIC, avro("a", "b="), RULES) == 1
    assert await registry.add(TOPIC, avro("a"), RULES) == 0
    other = cluster.broker()
    assert [stored.schema for stored in await other.versions(TOPIC)] == [avro("a"), avro("a", "b=")]
    latest, first = await other.latest(TOPIC), await other.version(TOPIC, 0)
    assert latest is not None
    assert first is not None
    assert (latest.version, first.user, first.timestamp_ms > 0) == (1, "me", True)
    assert await other.version_of(TOPIC, avro("a", "b=")) == 1
    assert await other.version_of(TOPIC, avro("z")) == NO_VERSION


async def test_properties_are_kept(cluster: Cluster) -> None:
    await cluster.registry.add(TOPIC, STRING, RULES)
    latest = await cluster.broker().latest(TOPIC)
    assert latest is not None
    assert latest.schema == STRING


async def test_partitions_share_the_schema_of_their_topic(cluster: Cluster) -> None:
    await cluster.registry.add(TOPIC.partition(3), avro("a"), RULES)
    assert await cluster.registry.has_schema(TOPIC)
    assert await cluster.registry.add(TOPIC.partition(1), avro("a"), RULES) == 0


async def test_a_refusal_changes_nothing(cluster: Cluster) -> None:
    await cluster.registry.add(TOPIC, avro("a"), RULES)
    before = await cluster.store.get(PATH)
    with pytest.raises(IncompatibleSchemaError, match="strategy FULL"):
        await cluster.registry.add(TOPIC, avro("a", "b"), RULES)
    with pytest.raises(IncompatibleSchemaError, match="schema auto updating is disabled"):
        await cluster.registry.add(TOPIC, avro("a", "b="), SchemaRules(may_update=False))
    with pytest.raises(InvalidSchemaError):
        await cluster.registry.add(TOPIC, Schema(SchemaType.AVRO, b"{"), RULES)
    after = await cluster.store.get(PATH)
    assert before is not None
    assert after is not None
    assert (after.value, len(await cluster.store.children(PATH))) == (before.value, 1)
    assert await cluster.registry.add(TOPIC, avro("a"), SchemaRules(may_update=False)) == 0


async def test_a_transitive_strategy_compares_with_all_versions(cluster: Cluster) -> None:
    await cluster.registry.add(TOPIC, avro(), RULES)
    await cluster.registry.add(TOPIC, avro("a="), RULES)
    with pytest.raises(IncompatibleSchemaError, match="version 0"):
        await cluster.registry.add(TOPIC, avro("a"), TRANSITIVE)
    assert await cluster.registry.add(TOPIC, avro("a"), BACKWARD) == 2


async def test_after_a_deletion_any_schema_may_follow_and_numbers_go_on(cluster: Cluster) -> None:
    registry = cluster.registry
    assert await registry.delete(TOPIC, force=False) == NO_VERSION
    await registry.add(TOPIC, avro("a"), RULES)
    assert await registry.delete(TOPIC, force=False) == 1
    assert await registry.delete(TOPIC, force=False) == 1
    assert await registry.latest(TOPIC) is None
    assert await registry.version(TOPIC, 0) is None
    assert await registry.versions(TOPIC) == []
    assert await registry.add(TOPIC, STRING, RULES) == 2


async def test_a_forced_deletion_leaves_nothing(cluster: Cluster) -> None:
    registry = cluster.registry
    assert await registry.delete(TOPIC, force=True) == NO_VERSION
    await registry.add(TOPIC, avro("a"), RULES)
    await registry.add(TOPIC, avro("a", "b="), RULES)
    assert await registry.delete(TOPIC, force=True) == 1
    assert await cluster.store.children(PATH) == []
    assert await registry.add(TOPIC, STRING, RULES) == 0


async def test_a_writer_that_was_slow_does_not_add_to_the_schemas_of_a_later_topic(cluster: Cluster) -> None:
    """The topic was deleted and created again while the writer compared; the key must not look as it did before."""
    records = SchemaRecords(cluster.store)
    await cluster.registry.add(TOPIC, avro("a"), RULES)
    read_before = await records.history(TOPIC)
    await cluster.registry.delete(TOPIC, force=True)
    await cluster.registry.add(TOPIC, STRING, RULES)
    with pytest.raises(BadVersionError):
        await records.append(TOPIC, read_before, avro("a", "b="), "identity", now_ms=0, user="")
    assert [stored.schema for stored in await cluster.registry.versions(TOPIC)] == [STRING]


async def test_a_definition_whose_writer_ended_does_no_harm(cluster: Cluster) -> None:
    await cluster.store.put(f"{PATH}/v9999999999", b"of a writer that ended before it was done")
    assert not await cluster.registry.has_schema(TOPIC)
    assert await cluster.registry.add(TOPIC, avro("a"), RULES) == 0
    assert await cluster.registry.delete(TOPIC, force=True) == 0
    assert await cluster.store.children(PATH) == ["v9999999999"]
    assert not await cluster.registry.has_schema(TOPIC)
    assert await cluster.registry.add(TOPIC, STRING, RULES) == 0


async def test_the_number_of_versions_is_limited(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "MAX_VERSIONS", 2)
    await cluster.registry.add(TOPIC, avro("a"), RULES)
    await cluster.registry.delete(TOPIC, force=False)
    with pytest.raises(
        IncompatibleSchemaError, match="at most 2 are allowed: delete the schema of the topic with force"
    ):
        await cluster.registry.add(TOPIC, avro("a"), RULES)


async def test_the_bytes_of_all_versions_are_limited(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "MAX_TOPIC_BYTES", 200)
    await cluster.registry.add(TOPIC, avro("a="), RULES)
    with pytest.raises(IncompatibleSchemaError, match="bytes together; at most 200"):
        await cluster.registry.add(TOPIC, avro(*(f"f{index}=" for index in range(5))), RULES)
    assert await cluster.registry.delete(TOPIC, force=False) == 1
    assert await cluster.registry.add(TOPIC, avro("b="), RULES) == 2


async def test_a_consumers_schema_has_to_read_the_latest(cluster: Cluster) -> None:
    registry = cluster.registry
    with pytest.raises(SchemaNotFoundError):
        await registry.require_compatible(TOPIC, avro("a"), Strategy.FULL, of_consumer=True)
    await registry.require_compatible(TOPIC, avro("a"), Strategy.ALWAYS_COMPATIBLE, of_consumer=True)
    await registry.add(TOPIC, avro("a"), RULES)
    await registry.require_compatible(TOPIC, avro(), Strategy.FORWARD, of_consumer=True)
    with pytest.raises(IncompatibleSchemaError, match="strategy BACKWARD"):
        await registry.require_compatible(TOPIC, avro("b"), Strategy.FORWARD, of_consumer=True)


async def test_brokers_that_add_at_once_lose_no_version(cluster: Cluster) -> None:
    brokers = [cluster.broker() for _ in range(4)]
    schemas = [avro(*(f"f{number}=" for number in range(count))) for count in range(6)]
    added = await asyncio.gather(*(brokers[index % 4].add(TOPIC, schemas[index % 6], RULES) for index in range(24)))
    found = await cluster.registry.versions(TOPIC)
    assert [stored.version for stored in found] == list(range(6))
    assert {stored.schema.data for stored in found} == {schema.data for schema in schemas}
    assert [found[version].schema for version in added] == [schemas[index % 6] for index in range(24)]
    assert len(await cluster.store.children(PATH)) == 6


async def test_brokers_never_add_two_that_contradict(cluster: Cluster) -> None:
    brokers = [cluster.broker() for _ in range(4)]
    outcomes = await asyncio.gather(
        *(broker.add(TOPIC, avro(f"only_{index}"), RULES) for index, broker in enumerate(brokers)),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["IncompatibleSchemaError"] * 3 + ["int"]
    assert len(await cluster.registry.versions(TOPIC)) == 1


async def test_adding_and_removing_at_once_keeps_what_is_listed_readable(cluster: Cluster) -> None:
    brokers = [cluster.broker() for _ in range(3)]

    async def add(index: int) -> None:
        await brokers[index % 3].add(TOPIC, avro(f"f{index}="), RULES)

    async def remove() -> None:
        await asyncio.sleep(0)
        await cluster.registry.delete(TOPIC, force=True)

    await asyncio.gather(*(add(index) for index in range(12)), remove(), remove())
    for broker in brokers:
        assert [stored.version for stored in await broker.versions(TOPIC)] == list(
            range(len(await broker.versions(TOPIC)))
        )


@pytest.mark.parametrize("key", [PATH, f"{PATH}/v0000000000"])
async def test_a_damaged_record_is_reported_with_its_key(cluster: Cluster, key: str) -> None:
    await cluster.registry.add(TOPIC, avro("a"), RULES)
    keys = [PATH, *(f"{PATH}/{name}" for name in await cluster.store.children(PATH))]
    await cluster.store.put(keys[key != PATH], b"{")
    with pytest.raises(InvalidValueError, match=PATH.replace("+", r"\+")):
        await cluster.broker().latest(TOPIC)
