"""A broker's bundles of a namespace are those of the store, and are computed once for each record."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotFoundError, NamespaceNotFoundError
from pulsar_barycenter.broker.namespaces.boundaries import boundaries_value, local_policies_path
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

NAMESPACE = NamespaceName.parse("t/ns")
PATH = local_policies_path(NAMESPACE)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryBackend().connect(SystemClock(), 10_000)
    yield store
    await store.close()


@pytest.fixture
async def cache(store: MemoryStore) -> AsyncIterator[BundleCache]:
    cache = BundleCache(store)
    yield cache
    cache.close()


async def write(store: MemoryStore, bundles: int, before: bytes | None = None) -> bytes:
    value = boundaries_value(before, NamespaceBundles.equal(NAMESPACE, bundles))
    await store.put(PATH, value)
    return value


async def test_a_record_that_did_not_change_is_not_made_out_again(store: MemoryStore, cache: BundleCache) -> None:
    """Each acquisition reads the record again: with thousands of bundles, all would be created for each of them."""
    await write(store, 3)
    first = await cache.fresh(NAMESPACE)
    assert await cache.fresh(NAMESPACE) is first
    assert await cache.get(NAMESPACE) is first


async def test_a_record_that_changed_is_made_out_again(store: MemoryStore, cache: BundleCache) -> None:
    value = await write(store, 3)
    first = await cache.fresh(NAMESPACE)
    await store.put(PATH, value)
    again = await cache.fresh(NAMESPACE)
    assert (again.boundaries, again.version) == (first.boundaries, 1)
    await write(store, 5)
    assert len((await cache.fresh(NAMESPACE)).bundles) == 5


async def test_a_namespace_that_was_made_anew_has_its_own_bundles(store: MemoryStore, cache: BundleCache) -> None:
    """Its record has the version of the one before it."""
    await write(store, 3)
    first = await cache.fresh(NAMESPACE)
    await store.delete(PATH)
    await write(store, 5)
    again = await cache.fresh(NAMESPACE)
    assert again.version == first.version
    assert len(again.bundles) == 5


async def test_the_bundles_of_a_namespace_that_does_not_exist_are_refused(cache: BundleCache) -> None:
    missing = TopicName.parse("persistent://t/ns/topic")
    with pytest.raises(NamespaceNotFoundError):
        await cache.existing_bundle_of(missing)
    with pytest.raises(NamespaceNotFoundError):
        await cache.require(Bundle.full(NAMESPACE))
    heartbeat = NamespaceName.parse("pulsar/localhost:8080")
    await cache.require(Bundle.full(heartbeat))


async def test_a_bundle_is_required_of_the_store_where_the_cache_has_others(
    store: MemoryStore, cache: BundleCache
) -> None:
    before = await write(store, 1)
    (whole,) = (await cache.get(NAMESPACE)).bundles
    cache.accept(NamespaceBundles.equal(NAMESPACE, 2, version=7))
    await cache.require(whole)
    await write(store, 4, before)
    await cache.require(NamespaceBundles.equal(NAMESPACE, 4).bundles[3])
    with pytest.raises(BundleNotFoundError):
        await cache.require(whole)
