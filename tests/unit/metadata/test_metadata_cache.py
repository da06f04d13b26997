"""MetadataCache: what it keeps, what it drops, concurrent updates. Names in brackets are Pulsar's tests."""

import asyncio
from itertools import pairwise

import msgspec
import pytest

from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.errors import (
    AlreadyExistsError,
    BadVersionError,
    InvalidValueError,
    NotFoundError,
    StoreClosedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from support.metadata_backends import eventually
from support.virtual_time import World, on_virtual_time


class Policies(msgspec.Struct):
    """Mutable on purpose: an update must not reach the cached object."""

    bundles: int = 1
    tags: list[str] = []


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
async def store(backend):
    store = backend.connect()
    yield store
    await store.close()


@pytest.fixture
async def cache(store):
    cache = MetadataCache(store, Policies)
    yield cache
    cache.close()


def count_reads(store):
    """Return a list that grows by the path of each value that the store is asked for."""
    asked = []
    get = store.get

    async def counted(path):
        asked.append(path)
        return await get(path)

    store.get = counted
    return asked


async def test_absence_is_remembered_too(cache, store):
    """[emptyCacheTest]"""
    asked = count_reads(store)
    for _ in range(3):
        assert await cache.get("/missing") is None
        assert await cache.get_with_stat("/missing") is None
        assert not await cache.exists("/missing")
    assert cache.get_if_cached("/missing") is None
    assert asked == ["/missing"]
    assert await cache.children("/missing") == []
    with pytest.raises(NotFoundError):
        await cache.delete("/missing")


async def test_creating_twice_already_exists(cache):
    """[insertionDeletion]"""
    assert await cache.create("/key", Policies(4)) == Policies(4)
    assert cache.get_if_cached("/key") == Policies(4)
    with pytest.raises(AlreadyExistsError):
        await cache.create("/key", Policies(5))
    assert await cache.get("/key") == Policies(4)
    await cache.put("/key", Policies(6))
    assert await cache.get("/key") == Policies(6)
    value, stat = await cache.get_with_stat("/key")
    assert (value, stat.version) == (Policies(6), 1)
    await cache.delete("/key")
    assert await cache.get("/key") is None
    assert await cache.create("/key", Policies(7)) == Policies(7)


async def test_changes_past_the_cache_are_seen_at_once_by_their_maker(cache, store):
    """[insertionOutsideCache, updateOutsideCache]"""
    assert await cache.get("/key") is None
    await store.put("/key", b'{"bundles": 2, "unknown": [1]}')
    assert await cache.get("/key") == Policies(2)
    await store.put("/key", b'{"bundles": 3}')
    assert await cache.get("/key") == Policies(3)
    await store.delete("/key")
    assert await cache.get("/key") is None


async def test_a_value_of_another_kind_is_an_error_and_not_kept(cache, store):
    """[invalidJsonContent]"""
    for wrong in (b"{", b"[]", b"\xff", b'{"bundles": "many"}'):
        await store.put("/key", wrong)
        with pytest.raises(InvalidValueError):
            await cache.get("/key")
        assert await cache.exists("/key")
    await store.put("/key", b"{}")
    assert await cache.get("/key") == Policies()


async def test_an_update_works_on_a_copy(cache):
    """[testReadCloned, testCloneInReadModifyUpdateOrCreate]"""
    await cache.create("/key", Policies(1, ["a"]))
    cached = await cache.get("/key")
    seen = []

    def modify(value):
        seen.append(value)
        value.tags.append("b")
        return value

    assert await cache.read_modify_update_or_create("/key", modify) == Policies(1, ["a", "b"])
    assert cached == Policies(1, ["a"])
    assert seen[0] is not cached
    assert await cache.get("/key") == Policies(1, ["a", "b"])


async def test_an_update_that_lost_a_race_runs_again(cache, backend):
    """[readModifyUpdateBadVersionRetry] The other client's change is not overwritten."""
    other = backend.connect()
    await cache.create("/key", Policies(1))
    calls = []

    def modify(value):
        calls.append(value.bundles)
        return Policies(value.bundles + 10)

    racing = asyncio.ensure_future(other.put("/key", b'{"bundles": 5}'))
    await asyncio.sleep(0)  # its request is sent, the notification not yet here
    assert await cache.read_modify_update_or_create("/key", modify) == Policies(15)
    assert calls == [1, 5]
    await racing
    await other.close()


async def test_update_or_create_gives_none_where_there_is_nothing(cache):
    seen = []

    def modify(value):
        seen.append(value)
        return Policies(1 if value is None else value.bundles + 1)

    await cache.read_modify_update_or_create("/key", modify)
    await cache.read_modify_update_or_create("/key", modify)
    assert seen == [None, Policies(1)]
    assert await cache.get("/key") == Policies(2)


async def test_concurrent_readers_share_one_read(cache, store):
    await store.put("/key", b"{}")
    asked = count_reads(store)
    values = await asyncio.gather(*(cache.get("/key") for _ in range(20)))
    assert len({id(value) for value in values}) == 1
    assert asked == ["/key"]


async def test_a_reader_that_gives_up_does_not_take_the_answer_from_the_others(cache, store):
    await store.put("/key", b"{}")
    first, second = (asyncio.ensure_future(cache.get("/key")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == Policies()
    assert first.cancelled()


async def test_a_read_overtaken_by_a_change_is_not_kept(cache, store, backend):
    """The read's answer is in flight when the change is reported; the next reader must not get the old value."""
    other = backend.connect()
    await store.put("/key", b'{"bundles": 1}')
    reading = asyncio.ensure_future(cache.get("/key"))
    changing = asyncio.ensure_future(other.put("/key", b'{"bundles": 2}'))
    await asyncio.gather(reading, changing)
    await eventually(lambda: cache.get_if_cached("/key") == Policies(2))
    assert await cache.get("/key") == Policies(2)
    await other.close()


async def test_what_was_cached_is_read_again_when_it_changes(cache, store, backend):
    """So a reader of the cache gets the new value without a request; keys without readers are not read."""
    other = backend.connect()
    await store.put("/read", b"{}")
    await store.put("/unread", b"{}")
    await cache.get("/read")
    asked = count_reads(store)
    await other.put("/read", b'{"bundles": 9}')
    await other.put("/unread", b'{"bundles": 9}')
    await eventually(lambda: cache.get_if_cached("/read") == Policies(9))
    assert asked == ["/read"]
    assert cache.get_if_cached("/unread") is None
    await other.close()


async def test_children_are_kept_until_one_comes_or_goes(cache, store):
    await store.put("/a/b", b"{}")
    assert await cache.children("/a") == ["b"]
    assert await cache.children("/") == ["a"]
    asked = []
    children = store.children

    async def counted(path):
        asked.append(path)
        return await children(path)

    store.children = counted
    await store.put("/a/b", b"{}")
    mine = await cache.children("/a")
    mine.append("of the caller's own")
    assert await cache.children("/a") == ["b"]
    assert asked == []
    await store.put("/a/c/d", b"{}")
    assert await cache.children("/a") == ["b", "c"]
    await store.put("/top", b"{}")
    assert await cache.children("/") == ["a", "top"]


async def test_a_codec_of_ones_own(store):
    """[cacheWithCustomSerde]"""

    class Reversed:
        def encode(self, value):
            return value[::-1].encode()

        def decode(self, path, data):
            return data.decode()[::-1]

    cache = MetadataCache(store, str, codec=Reversed())
    await cache.create("/key", "abc")
    assert (await store.get("/key")).value == b"cba"
    assert await cache.get("/key") == "abc"
    cache.close()


async def test_generic_types(store):
    """[…GenericType]"""
    cache = MetadataCache(store, dict[str, list[int]])
    await cache.create("/key", {"a": [1]})
    assert await cache.get("/key") == {"a": [1]}
    cache.close()


async def test_a_closed_cache_says_so_to_those_who_wait_too(store):
    cache = MetadataCache(store, Policies)
    waiting = asyncio.ensure_future(cache.get("/key"))
    await asyncio.sleep(0)
    cache.close()
    with pytest.raises(StoreClosedError):
        await waiting
    for operation in (cache.get, cache.children, cache.exists, cache.delete):
        with pytest.raises(StoreClosedError):
            await operation("/key")


@pytest.mark.parametrize("age_s", [300, 10])
def test_entries_are_refreshed_and_expire_in_case_a_notification_was_lost(age_s: int) -> None:
    async def scenario(world: World) -> None:
        store, other = world.machine("reader").store, world.machine("writer").store
        world.backend.route_notifications(store, lambda change: None)
        cache = MetadataCache(store, int) if age_s == 300 else MetadataCache(store, int, refresh_after_s=age_s)
        await other.put("/key", b"1")
        assert await cache.get("/key") == 1
        await other.put("/key", b"2")
        await asyncio.sleep(age_s - 1)
        assert await cache.get("/key") == 1
        await asyncio.sleep(2)
        assert await cache.get("/key") == 1  # this reader sets off the refresh
        await asyncio.sleep(1)
        assert await cache.get("/key") == 2
        await other.put("/key", b"3")
        await asyncio.sleep(age_s * 2 + 1)
        assert cache.get_if_cached("/key") is None
        assert await cache.get("/key") == 3
        cache.close()

    on_virtual_time(scenario)


def test_an_update_that_always_loses_gives_up_after_30_seconds():
    async def scenario(world: World) -> None:
        store = world.machine().store
        cache = MetadataCache(store, int)
        await cache.create("/key", 1)
        calls = []

        async def refuse(path: str, value: bytes, **options: object) -> None:
            calls.append(world.loop.time())
            raise BadVersionError(path, 0, 1)

        store.put = refuse  # type: ignore[assignment,method-assign]
        with pytest.raises(BadVersionError):
            await cache.read_modify_update_or_create("/key", lambda value: value + 1)
        assert calls[1] - calls[0] == pytest.approx(0.005)
        assert 20 < calls[-1] - calls[0] <= 30
        assert max(later - earlier for earlier, later in pairwise(calls)) <= 3.001
        cache.close()

    on_virtual_time(scenario)


def test_reads_fail_while_cut_off_and_the_cache_stays_usable():
    async def scenario(world: World) -> None:
        store = world.machine().store
        cache = MetadataCache(store, int)
        await cache.create("/key", 1)
        world.backend.partition(store)
        assert await cache.get("/key") == 1
        with pytest.raises(StoreUnavailableError):
            await cache.get("/other")
        world.backend.heal(store)
        assert await cache.get("/other") is None
        cache.close()

    on_virtual_time(scenario)


def test_no_more_than_the_allowed_number_of_entries_is_kept():
    async def scenario(world: World) -> None:
        store = world.machine().store
        cache = MetadataCache(store, int, max_entries=10)
        for number in range(30):
            await cache.create(f"/{number}", number)
        kept = [number for number in range(30) if cache.get_if_cached(f"/{number}") is not None]
        assert kept == list(range(20, 30))
        cache.close()

    on_virtual_time(scenario)
