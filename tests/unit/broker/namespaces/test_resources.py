"""The stored records of namespaces and topics, and when a topic is created by use."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.lookup_answers import NamespaceNotFoundError
from pulsar_barycenter.broker.namespaces.policies import (
    AutoSubscriptionCreationOverride,
    AutoTopicCreationOverride,
    BundlesData,
    PartitionedTopicMetadata,
    Policies,
    TenantInfo,
)
from pulsar_barycenter.broker.namespaces.records import Records, delete_tree
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.errors import AlreadyExistsError, BadVersionError, NotFoundError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.store import Stat
from pulsar_barycenter.naming.errors import InvalidBundlesError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.virtual_time import World, on_virtual_time

NAMESPACE = NamespaceName.parse("t/ns")
TOPIC = TopicName.parse("persistent://t/ns/x")


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryBackend().connect(SystemClock(), 10_000)
    yield store
    await store.close()


async def resources(store: MemoryStore, policies: Policies | None = None, **config: Any) -> Resources:
    made = Resources(store, ConfigHolder(BrokerConfig(**config)))
    await made.namespaces.create("t/ns", policies or Policies())
    return made


async def exists(store: MemoryStore, *names: str) -> None:
    for name in names:
        await store.put(f"/managed-ledgers/{TopicName.parse(name).persistence_name}", b"{}")


def test_records_are_read_again_at_the_age_that_is_configured() -> None:
    async def scenario(world: World) -> None:
        store, other = world.machine("reader").store, world.machine("writer").store
        world.backend.route_notifications(store, lambda change: None)
        config = BrokerConfig(metadata_store_cache_expiry_seconds=10)
        await Resources(other, ConfigHolder(config)).tenants.create("t", TenantInfo())
        tenants = Resources(store, ConfigHolder(config)).tenants
        assert await tenants.get("t") is not None
        await other.delete(tenants.path("t"))
        await asyncio.sleep(9)
        assert await tenants.get("t") is not None
        await asyncio.sleep(2)
        assert await tenants.get("t") is not None, "this reader sets off the refresh"
        await asyncio.sleep(1)
        assert await tenants.get("t") is None

    on_virtual_time(scenario)


async def test_a_topic_is_created_by_use_if_configuration_and_namespace_allow_it(store: MemoryStore) -> None:
    found = await resources(store)
    assert await found.may_create(TOPIC)
    assert found.may_create_if_cached(TOPIC)
    await found.namespaces.update("t/ns", lambda p: msgspec.structs.replace(p, deleted=True))
    assert not await found.may_create(TOPIC)
    assert not found.may_create_if_cached(TOPIC)
    assert not await found.may_create(TopicName.parse("t/missing/x"))


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_namespace_overrides_the_configuration(store: MemoryStore, allowed: bool) -> None:
    override = AutoTopicCreationOverride(allow_auto_topic_creation=allowed)
    found = await resources(
        store, Policies(auto_topic_creation_override=override), allow_auto_topic_creation=not allowed
    )
    assert await found.may_create(TOPIC) is allowed


async def test_system_topics_are_created_whatever_is_allowed(store: MemoryStore) -> None:
    found = await resources(store, allow_auto_topic_creation=False)
    assert not await found.may_create(TOPIC)
    for name in ("t/ns/__change_events", "pulsar/127.0.0.1:8080/healthcheck", "pulsar/system/x"):
        assert await found.may_create(TopicName.parse(name))
        assert await found.may_subscribe(TopicName.parse(name))


async def test_a_partition_is_created_by_use_if_its_topic_has_it(store: MemoryStore) -> None:
    """Even if creation by use is not allowed: the partitioned topic was created with its partitions."""
    found = await resources(store, allow_auto_topic_creation=False)
    await found.partitioned_topics.create(TOPIC.persistence_name, PartitionedTopicMetadata(2))
    assert await found.may_create(TOPIC.partition(1))
    assert not await found.may_create(TOPIC.partition(2))
    assert not await found.may_create(TOPIC)
    assert not await found.may_create(TopicName.parse("t/ns/other-partition-0"))


async def test_the_limit_of_topics_counts_users_topics(store: MemoryStore) -> None:
    found = await resources(store, Policies(max_topics_per_namespace=2), max_topics_per_namespace=1)
    await exists(store, "t/ns/a", "t/ns/__change_events")
    assert await found.may_create(TOPIC)
    await exists(store, "t/ns/b")
    assert not await found.may_create(TOPIC)
    assert await found.lookup_exists(TopicName.parse("t/ns/b"))
    assert not await found.lookup_exists(TOPIC)


async def test_subscriptions_follow_the_same_order(store: MemoryStore) -> None:
    found = await resources(store, allow_auto_subscription_creation=False)
    assert not await found.may_subscribe(TOPIC)
    override = AutoSubscriptionCreationOverride(allow_auto_subscription_creation=True)
    await found.namespaces.update(
        "t/ns", lambda p: msgspec.structs.replace(p, auto_subscription_creation_override=override)
    )
    assert await found.may_subscribe(TOPIC)


async def test_partitions_come_from_the_record_or_are_made_by_use(store: MemoryStore) -> None:
    found = await resources(store, allow_auto_topic_creation_type="partitioned", default_num_partitions=3)
    assert await found.partitions(TOPIC, auto_create=False) == 0
    assert await found.partitions(TOPIC, auto_create=True) == 3
    assert await found.partitions(TOPIC, auto_create=False) == 3
    assert await found.partitions(TOPIC.partition(0), auto_create=True) == 0
    await exists(store, "t/ns/plain")
    assert await found.partitions(TopicName.parse("t/ns/plain"), auto_create=True) == 0
    with pytest.raises(NamespaceNotFoundError):
        await found.partitions(TopicName.parse("t/missing/x"), auto_create=True)


async def test_the_number_of_partitions_is_the_namespaces_within_the_limit(store: MemoryStore) -> None:
    override = AutoTopicCreationOverride(True, "partitioned", 9)
    found = await resources(
        store, Policies(auto_topic_creation_override=override), max_num_partitions_per_partitioned_topic=5
    )
    assert await found.partitions(TOPIC, auto_create=True) == 5


async def test_topics_are_listed_from_the_store_and_from_memory(store: MemoryStore) -> None:
    found = await resources(store)
    await exists(store, "t/ns/b c", "t/ns/a-partition-0", "t/other/z")
    memory = [TopicName.parse(name) for name in ("non-persistent://t/ns/m", "non-persistent://t/other/m", "t/ns/b c")]
    found.attach_loaded_topics(lambda: memory)
    persistent = ["persistent://t/ns/a-partition-0", "persistent://t/ns/b c"]
    assert await found.topics_of_namespace(NAMESPACE, "PERSISTENT") == persistent
    assert await found.topics_of_namespace(NAMESPACE, "NON_PERSISTENT") == ["non-persistent://t/ns/m"]
    assert await found.topics_of_namespace(NAMESPACE, "ALL") == ["non-persistent://t/ns/m", *persistent]
    assert await found.topic_exists(memory[0])
    assert not await found.topic_exists(TOPIC)


async def test_only_records_of_policies_are_namespaces(store: MemoryStore) -> None:
    found = await resources(store)
    await found.tenants.create("t", TenantInfo())
    await store.put("/admin/policies/t/left-over", b'"not policies"')
    await store.put("/admin/policies/t/cluster/ns", b"{}")
    assert await found.namespaces_of("t") == [NAMESPACE]


async def test_an_update_keeps_unknown_fields_and_outlasts_others(store: MemoryStore) -> None:
    """Another writer comes in between once: the change is made to what that one wrote."""
    records = Records(store, PartitionedTopicMetadata, "/r")
    await store.put("/r/x", b'{"partitions":1,"newer":[1]}')
    calls = 0
    put = store.put

    async def put_after_another(path: str, value: bytes, **options: Any) -> Stat:
        nonlocal calls
        calls += 1
        if calls == 1:
            await put(path, b'{"partitions":5,"newer":[2]}')
        return await put(path, value, **options)

    store.put = put_after_another  # type: ignore[method-assign]
    changed = await records.update("x", lambda p: msgspec.structs.replace(p, partitions=p.partitions + 1))
    assert changed.partitions == 6
    record = await store.get("/r/x")
    assert record is not None
    assert msgspec.json.decode(record.value) == {"partitions": 6, "deleted": False, "properties": None, "newer": [2]}
    with pytest.raises(NotFoundError):
        await records.update("y", lambda p: p)
    with pytest.raises(AlreadyExistsError):
        await records.create("x", changed)


async def test_an_update_that_never_wins_says_so(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsar_barycenter.broker.namespaces.records._PAUSE_S", 0)
    records = Records(store, PartitionedTopicMetadata, "/r")
    await records.create("x", PartitionedTopicMetadata(1))

    async def refuse(path: str, value: bytes, **options: Any) -> Stat:
        raise BadVersionError(path, 1, 2)

    store.put = refuse  # type: ignore[method-assign]
    with pytest.raises(BadVersionError):
        await records.update("x", lambda p: p)


async def test_a_tree_is_deleted_from_its_leaves(store: MemoryStore) -> None:
    for path in ("/a", "/a/b/c", "/a/b/d", "/ab"):
        await store.put(path, b"")
    assert await delete_tree(store, "/a") == 3
    assert await store.children("/") == ["ab"]
    assert await delete_tree(store, "/nothing") == 0


def test_bundles_data_describe_bundles_by_boundaries_or_by_number() -> None:
    assert len(BundlesData(("0x0", "0xffffffff")).to_bundles(NAMESPACE)) == 1
    assert len(BundlesData(num_bundles=7).to_bundles(NAMESPACE, default_count=3)) == 7
    made = BundlesData().to_bundles(NAMESPACE, default_count=3, version=4)
    assert (len(made), made.version) == (3, 4)
    assert BundlesData.from_bundles(made).to_bundles(NAMESPACE, version=4) == made
    with pytest.raises(InvalidBundlesError):
        BundlesData(("0x0", "0x5")).to_bundles(NAMESPACE)


def test_policies_have_pulsars_names() -> None:
    decoded = msgspec.json.decode(
        b'{"bundles":{"numBundles":2,"boundaries":["0x0"]},"autoTopicCreationOverride":{"allowAutoTopicCreation":true,'
        b'"topicType":"partitioned","defaultNumPartitions":2},"unknown":1,"retention_policies":{"retentionTimeInMinutes":7},"offload_policies":{"x":1}}',
        type=Policies,
    )
    assert decoded.bundles == BundlesData(("0x0",), 2)
    assert decoded.auto_topic_creation_override == AutoTopicCreationOverride(True, "partitioned", 2)
    encoded = msgspec.json.decode(msgspec.json.encode(decoded))
    assert encoded["retention_policies"] == {"retentionTimeInMinutes": 7, "retentionSizeInMB": 0}
    assert encoded["offload_policies"] == {"x": 1}
    assert {"replication_clusters", "deleted", "max_topics_per_namespace", "clusterDispatchRate"} <= set(encoded)
