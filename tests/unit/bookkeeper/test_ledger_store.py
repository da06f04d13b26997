"""Keys of ledgers in a metadata store: ids, creation whose answer is lost, compare-and-set."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pulsar_barycenter.bookkeeper.errors import BookKeeperError, ClusterLayoutError, NoSuchLedgerError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment
from pulsar_barycenter.bookkeeper.metadata.ledger_store import (
    LedgerStore,
    draw_by_sequential_key,
    draw_by_version,
    draw_of,
)
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.store import MetadataStore, Stat

METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),))


class RepeatsCreations:
    """A store whose client sends a creation again because the answer was lost, as ZooKeeper's does."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, path: str, value: bytes, **options: Any) -> Stat:
        if not options.get("sequential"):
            await self._store.put(path, value, **options)
        return await self._store.put(path, value, **options)


def with_store(test: Callable[[MemoryStore], Awaitable[None]]) -> None:
    async def play() -> None:
        store = MemoryBackend().connect()
        await store.put("/ledgers/INSTANCEID", b"uuid\n")
        await test(store)
        await store.close()

    asyncio.run(play())


def test_ids_are_drawn_as_clients_of_each_store_draw_them():
    assert draw_of("zk:a:1") is draw_of("memory:x") is draw_by_sequential_key
    assert draw_of("etcd:http://a:1") is draw_of("oxia://a:1/default") is draw_by_version

    async def test(store: MemoryStore) -> None:
        assert [await draw_by_version(store, "/ledgers/idgen") for _ in range(3)] == [0, 1, 2]
        ids = [await draw_by_sequential_key(store, "/ledgers/ids") for _ in range(3)]
        assert ids == sorted(set(ids))
        assert await store.children("/ledgers/ids") == []

    with_store(test)


def test_ids_come_from_the_counter_of_other_clients():
    """Java creates keys of this name: the numbers of both grow together."""

    async def test(store: MemoryStore) -> None:
        for _ in range(3):
            drawn = await draw_by_sequential_key(store, "/ledgers/idgen")
            other = await store.put("/ledgers/idgen/ID-", b"", ephemeral=True, sequential=True)
            assert int(other.path.removeprefix("/ledgers/idgen/ID-")) == drawn + 1
            await store.delete(other.path)
        assert await draw_by_sequential_key(store, "/ledgers/idgen") == drawn + 2

    with_store(test)


def test_a_ledger_is_created_read_changed_and_deleted():
    async def test(store: MemoryStore) -> None:
        ledgers = await LedgerStore.open(store, draw=draw_by_version)
        assert ledgers.instance_id == "uuid"
        ledger, metadata, version = await ledgers.create(METADATA)
        assert await store.exists("/ledgers/00/0000/L0000")
        assert await ledgers.read(ledger) == (metadata, version)
        assert metadata.token != METADATA.token
        closed = metadata.closed(4, 5)
        assert await ledgers.swap(ledger, closed, version) == version + 1
        with pytest.raises(BadVersionError):
            await ledgers.swap(ledger, metadata, version)
        assert await ledgers.read(ledger) == (closed, version + 1)
        await ledgers.delete(ledger)
        with pytest.raises(NoSuchLedgerError, match="ledger 0 has no key"):
            await ledgers.read(ledger)

    with_store(test)


def test_a_creation_whose_answer_was_lost_is_known_as_its_own():
    async def test(store: MemoryStore) -> None:
        repeating: MetadataStore = RepeatsCreations(store)
        ledgers = await LedgerStore.open(repeating)
        first, metadata, version = await ledgers.create(METADATA)
        second, other, _ = await ledgers.create(METADATA)
        assert first < second
        assert metadata.token != other.token
        assert await ledgers.read(first) == (metadata, version)

    with_store(test)


def test_an_id_that_is_taken_is_drawn_again():
    async def test(store: MemoryStore) -> None:
        ids = [3, 3, 4]

        async def draw(_: MetadataStore, path: str) -> int:
            assert path == "/ledgers/idgen"
            return ids.pop(0)

        ledgers = await LedgerStore.open(store, draw=draw)
        assert [(await ledgers.create(METADATA))[0] for _ in range(2)] == [3, 4]

    with_store(test)


def test_ids_that_cannot_be_are_refused():
    async def test(store: MemoryStore) -> None:
        drawn = [3]

        async def draw(_: MetadataStore, __: str) -> int:
            return drawn[0]

        ledgers = await LedgerStore.open(store, draw=draw)
        await ledgers.create(METADATA)
        with pytest.raises(BookKeeperError, match="100 ids of ledgers that exist"):
            await ledgers.create(METADATA)
        drawn[0] = 2**31 - 1
        with pytest.raises(ClusterLayoutError, match="gave 2147483647: ids of 31 bits are used up"):
            await ledgers.create(METADATA)

    with_store(test)
