"""Ownership records in the metadata store, as one broker keeps them."""

from pulsar_barycenter.broker.ownership.channel.store_records import StoreRecords
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.namespace import NamespaceName

NAMESPACE = NamespaceName.parse("public/default")


def kept(records: StoreRecords) -> int:
    """Return how many entries the largest of its collections has."""
    return max(len(each) for each in vars(records).values() if isinstance(each, dict | set | list))


async def test_nothing_is_kept_of_records_that_are_gone() -> None:
    store = MemoryBackend().connect(SystemClock(), 10_000)
    records = StoreRecords(store)
    for lower in range(200):
        bundle = Bundle(NAMESPACE, BundleRange(lower, lower + 1))
        assert await records.put(bundle, None, events.assigning(None, "b:8080", 0))
        await records.refresh(bundle)
        assert await records.put(bundle, records.get(bundle), None)
    assert records.bundles() == []
    assert kept(records) == 0
    await store.close()


async def test_what_was_read_before_a_change_here_is_read_again() -> None:
    store = MemoryBackend().connect(SystemClock(), 10_000)
    records, bundle = StoreRecords(store), Bundle(NAMESPACE, BundleRange(0, 1))
    assert await records.put(bundle, None, events.assigning(None, "b:8080", 0))
    get, changed = store.get, []

    async def change_meanwhile(path: str) -> object:
        stored = await get(path)
        if not changed:
            before = records.get(bundle)
            changed.append(events.claimed(before, "b:8080", 1, 7))
            assert await records.put(bundle, before, changed[0])
        return stored

    store.get = change_meanwhile  # type: ignore[method-assign,assignment]
    await records.refresh(bundle)
    assert records.get(bundle) == changed[0]
    await store.close()
