"""The guarantees of every metadata store: each test runs on each backend of `support.metadata_backends`.

Names in brackets are the tests of Pulsar's metadata module that state the same.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.coordination.leader_election import LeaderElection, LeaderElectionState
from pulsar_barycenter.metadata.coordination.locks import LockManager
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    HasChildrenError,
    InvalidPathError,
    NotFoundError,
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
)
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Notification, NotificationType, SessionEvent
from support.metadata_backends import Heard, eventually

CREATED, MODIFIED = NotificationType.CREATED, NotificationType.MODIFIED
DELETED, CHILDREN_CHANGED = NotificationType.DELETED, NotificationType.CHILDREN_CHANGED


async def test_a_missing_key_is_absent_to_every_read_and_cannot_be_deleted(store):
    """[emptyStoreTest]"""
    assert await store.get("/missing") is None
    assert not await store.exists("/missing")
    assert await store.children("/missing") == []
    for version in (None, 0, 1):
        with pytest.raises(NotFoundError):
            await store.delete("/missing", expected_version=version)


async def test_expected_versions_decide_whether_a_write_happens(store):
    """[insertionTestWithExpectedVersion] Every cell of the table of versions."""
    for version in (0, 1):
        with pytest.raises(BadVersionError):
            await store.put("/key", b"0", expected_version=version)
    stat = await store.put("/key", b"1", expected_version=MUST_NOT_EXIST)
    assert (stat.path, stat.version, stat.ephemeral, stat.created_by_self) == ("/key", 0, False, True)
    for version in (MUST_NOT_EXIST, 1):
        with pytest.raises(BadVersionError) as refused:
            await store.put("/key", b"2", expected_version=version)
        assert (refused.value.expected, refused.value.actual) == (version, 0)
    assert (await store.get("/key")).value == b"1"
    assert (await store.put("/key", b"2", expected_version=0)).version == 1
    assert (await store.put("/key", b"3")).version == 2
    record = await store.get("/key")
    assert (record.value, record.stat.version) == (b"3", 2)
    assert record.stat.created_at_ms <= record.stat.modified_at_ms
    assert (await store.put("/new", b"")).version == 0


async def test_a_key_that_was_deleted_starts_again_at_version_0(store):
    """So a version alone does not distinguish a key from a deleted key of the same name."""
    await store.put("/key", b"1")
    await store.put("/key", b"2")
    await store.delete("/key", expected_version=1)
    assert (await store.put("/key", b"3", expected_version=MUST_NOT_EXIST)).version == 0


async def test_children_are_the_sorted_first_level_names_even_of_keys_that_only_lie_deeper(store):
    """[getChildrenTest, navigateChildrenTest, testGetChildren]"""
    for path in ("/a/z", "/a/b/c/d", "/a/b/e", "/a/b-x", "/a/b.y", "/a", "/top"):
        await store.put(path, b"")
    assert await store.children("/") == ["a", "top"]
    assert await store.children("/a") == ["b", "b-x", "b.y", "z"]
    assert await store.children("/a/b") == ["c", "e"]
    assert await store.children("/a/b/c") == ["d"]
    assert await store.children("/a/b/e") == []
    assert await store.exists("/a/b/e")


async def test_a_key_with_children_cannot_be_deleted(store):
    """[deletionTest]"""
    await store.put("/a", b"1")
    await store.put("/a/b", b"")
    with pytest.raises(HasChildrenError):
        await store.delete("/a")
    with pytest.raises(BadVersionError):
        await store.delete("/a/b", expected_version=1)
    await store.delete("/a/b", expected_version=0)
    await store.delete("/a")
    assert not await store.exists("/a")


async def test_names_that_lead_to_no_key_any_more_vanish_from_the_children(store):
    """[testDeleteUnusedDirectories]"""
    await store.put("/a/b/c/one", b"")
    await store.put("/a/b/c/two", b"")
    await store.delete("/a/b/c/one")
    assert await store.children("/a/b") == ["c"]
    await store.delete("/a/b/c/two")
    assert await store.children("/a/b") == []
    assert await store.children("/") == []


async def test_a_name_that_is_only_above_others_is_no_key_to_any_write(backend, store):
    """Neither above an existing key, nor where an ended session left nothing."""
    other = await backend.connect()
    await store.put("/above/below", b"1")
    await other.put("/left/locks/one", b"1", ephemeral=True)
    await other.close()
    assert await store.children("/left/locks") == []
    for path in ("/above", "/left", "/left/locks"):
        assert await store.get(path) is None
        assert not await store.exists(path)
        for write in (
            store.put(path, b"mine", expected_version=0),
            store.put(path, b"mine", expected_version=0, if_own=True),
            store.put("/another", b"", guard=Guard(path, 0)),
            store.put("/above/below", b"2", guard=Guard(path, 0)),
            store.delete("/above/below", guard=Guard(path, 0)),
        ):
            with pytest.raises(BadVersionError):
                await write
        for write in (store.delete(path), store.delete(path, expected_version=0), store.delete(path, if_own=True)):
            with pytest.raises(NotFoundError):
                await write
    assert (await store.get("/above/below")).value == b"1"
    assert not await store.exists("/another")
    assert (await store.put("/above", b"key", expected_version=MUST_NOT_EXIST)).path == "/above"
    assert (await store.get("/above")).value == b"key"


@pytest.mark.parametrize("path", ["", " ", "key", "/key/", "//", "/a\0b", "/\ud800"])
async def test_every_operation_refuses_an_invalid_path(store, path):
    """[emptyKeyTest]"""
    for operation in (store.get, store.children, store.exists, store.delete, lambda path: store.put(path, b"")):
        with pytest.raises(InvalidPathError):
            await operation(path)


async def test_changes_are_told_in_order_to_their_maker_too(backend, store):
    """[notificationListeners]"""
    above = Notification(CHILDREN_CHANGED, "/key")
    heard = Heard.changes(store)
    await store.put("/key", b"1")
    await store.put("/key", b"2")
    await store.put("/key/of/child", b"")
    await store.delete("/key/of/child")
    await store.delete("/key")
    told = await heard.until(lambda told: Notification(DELETED, "/key") in told)
    assert told == [
        Notification(CREATED, "/key"),
        Notification(MODIFIED, "/key"),
        *([Notification(CREATED, "/key/of"), above] if backend.tells_of_parents else []),
        Notification(CREATED, "/key/of/child"),
        Notification(CHILDREN_CHANGED, "/key/of"),
        above,
        Notification(DELETED, "/key/of/child"),
        Notification(CHILDREN_CHANGED, "/key/of"),
        above,
        *([Notification(DELETED, "/key/of"), above] if backend.tells_of_parents else []),
        Notification(DELETED, "/key"),
    ]


async def test_all_clients_hear_all_changes_in_the_same_order(backend, store):
    other = await backend.connect()
    heard, heard_by_other = Heard.changes(store), Heard.changes(other)
    for number in range(20):
        await (store, other)[number % 2].put(f"/n{number}", b"")
    end = Notification(CREATED, "/n19")
    assert await heard.until_heard(end) == await heard_by_other.until_heard(end)


async def test_a_listener_that_fails_or_leaves_hinders_nobody(store):
    def fail(_):
        raise RuntimeError("a bug of some listener")

    store.add_listener(fail)
    left = Heard()
    leave = store.add_listener(left.hear)
    heard = Heard.changes(store)
    await store.put("/one", b"")
    await heard.until_heard(Notification(CREATED, "/one"))
    leave()
    leave()
    await store.put("/two", b"")
    await heard.until_heard(Notification(CREATED, "/two"))
    assert left.told == [Notification(CREATED, "/one")]


async def test_a_change_is_no_longer_answered_from_caches_when_its_maker_goes_on(store):
    forgotten = Heard()
    stop = store.add_invalidator(forgotten.hear)
    await store.put("/key", b"1")
    assert Notification(CREATED, "/key") in forgotten.told
    await store.put("/key", b"2")
    assert Notification(MODIFIED, "/key") in forgotten.told
    await store.delete("/key")
    assert Notification(DELETED, "/key") in forgotten.told
    stop()


async def test_another_client_sees_changes(backend, store):
    """[testGetChildrenDistributed]"""
    other = await backend.connect()
    await store.put("/a/b", b"1")
    record = await other.get("/a/b")
    assert (record.value, record.stat.created_by_self) == (b"1", False)
    assert await other.children("/a") == ["b"]
    stat = await other.put("/a/b", b"2", expected_version=0)
    assert (stat.version, stat.created_by_self) == (1, False)
    assert (await store.get("/a/b")).stat.created_by_self is backend.knows_makers
    await other.delete("/a/b")
    assert await store.children("/a") == []


async def test_values_survive_their_writer(backend):
    """[testPersistent]"""
    if not backend.is_durable:
        backend_keeper = await backend.connect()  # something must live on in memory
        assert await backend_keeper.get("/key") is None
    first = await backend.connect()
    await first.put("/key", b"value")
    await first.close()
    second = await backend.connect()
    record = await second.get("/key")
    assert (record.value, record.stat.version, record.stat.created_by_self) == (b"value", 0, False)


async def test_three_clients_count_to_100_with_exactly_100_successes(backend):
    """[testConcurrentPutGetOneKey]"""
    clients = [await backend.connect() for _ in range(3)]
    await clients[0].put("/counter", b"0")
    successes = 0

    async def count(client):
        nonlocal successes
        while True:
            record = await client.get("/counter")
            if record.value == b"100":
                return
            try:
                await client.put("/counter", b"%d" % (int(record.value) + 1), expected_version=record.stat.version)
            except BadVersionError:
                continue
            successes += 1

    await asyncio.gather(*(count(client) for client in clients))
    assert successes == 100


async def test_of_concurrent_creations_and_deletions_exactly_one_succeeds(backend):
    """[testConcurrentPut, testConcurrentDelete]"""
    clients = [await backend.connect() for _ in range(3)]
    created = await asyncio.gather(
        *(client.put("/key", b"", expected_version=MUST_NOT_EXIST) for client in clients), return_exceptions=True
    )
    assert [type(outcome) for outcome in created].count(BadVersionError) == 2
    deleted = await asyncio.gather(*(client.delete("/key") for client in clients), return_exceptions=True)
    assert [type(outcome) for outcome in deleted].count(NotFoundError) == 2


async def test_one_conflict_among_many_writes_at_once_does_not_fail_the_others(store):
    """[MetadataStoreBatchingTest]"""
    await store.put("/taken", b"")
    outcomes = await asyncio.gather(
        *(store.put(f"/n{number}", b"") for number in range(10)),
        store.put("/taken", b"", expected_version=MUST_NOT_EXIST),
        store.delete("/missing"),
        *(store.put(f"/m{number}", b"") for number in range(10)),
        return_exceptions=True,
    )
    assert [type(each) for each in outcomes if isinstance(each, Exception)] == [BadVersionError, NotFoundError]
    assert len(await store.children("/")) == 21


async def test_every_operation_on_a_closed_store_says_so(store):
    """[testClosedMetadataStore]"""
    await store.close()
    await store.close()
    for operation in (store.get, store.children, store.exists, store.delete, lambda path: store.put(path, b"")):
        with pytest.raises(StoreClosedError):
            await operation("/key")


async def test_ephemeral_keys_vanish_with_their_session_and_are_told_of(backend, store):
    other = await backend.connect()
    heard = Heard.changes(other)
    stat = await store.put("/locks/one", b"1", ephemeral=True)
    assert stat.ephemeral
    await store.put("/lasting", b"")
    await store.close()
    assert await other.children("/locks") == []
    assert await other.exists("/lasting")
    await heard.until_heard(Notification(DELETED, "/locks/one"))


async def test_whether_a_key_is_ephemeral_is_fixed_at_its_creation(backend, store):
    """[MetadataStoreExtendedTest: unconditional update keeps the type]"""
    other = await backend.connect()
    await store.put("/ephemeral", b"", ephemeral=True)
    await store.put("/lasting", b"")
    assert (await other.put("/ephemeral", b"2")).ephemeral
    assert not (await other.put("/lasting", b"2", ephemeral=True)).ephemeral
    assert (await store.get("/ephemeral")).stat.created_by_self
    await store.close()
    assert await other.children("/") == ["lasting"]


async def test_sequential_keys_get_growing_numbers(backend, store):
    """[sequentialKeys] Also from another client, and when nothing is left of the earlier keys."""
    other = await backend.connect()
    numbers = []
    for client in (store, store, other, store):
        stat = await client.put("/seq/k-", b"", expected_version=MUST_NOT_EXIST, sequential=True)
        assert stat.version == 0
        assert stat.path.startswith("/seq/k-")
        assert await store.exists(stat.path)
        numbers.append(int(stat.path.removeprefix("/seq/k-")))
        await store.delete(stat.path)
    assert numbers == sorted(set(numbers))


async def test_if_own_refuses_keys_of_another_session_at_the_same_version(backend, store):
    other = await backend.connect()
    await store.put("/key", b"mine", ephemeral=True)
    with pytest.raises(OtherSessionError):
        await other.put("/key", b"", expected_version=0, if_own=True)
    with pytest.raises(OtherSessionError):
        await other.delete("/key", expected_version=0, if_own=True)
    assert (await store.put("/key", b"2", expected_version=0, if_own=True)).version == 1
    await store.delete("/key", expected_version=1, if_own=True)
    assert (await other.put("/key", b"", if_own=True)).created_by_self


async def test_a_session_that_ended_behind_its_clients_back_is_replaced(backend, store):
    """[testSessionLost] The four events come in order; the keys of the lost session do not return."""
    events = Heard.session_events(store)
    await store.put("/ephemeral", b"", ephemeral=True)
    await backend.expire(store)
    await events.until(lambda told: SessionEvent.SESSION_REESTABLISHED in told)
    assert events.told == [
        SessionEvent.CONNECTION_LOST,
        SessionEvent.SESSION_LOST,
        SessionEvent.RECONNECTED,
        SessionEvent.SESSION_REESTABLISHED,
    ]
    assert not await store.exists("/ephemeral")
    assert (await store.put("/ephemeral", b"", ephemeral=True)).created_by_self


async def test_a_session_is_overdue_from_its_loss_to_the_next_one(backend, store):
    events, overdue = Heard.session_events(store), {}
    store.add_session_listener(lambda event: overdue.setdefault(event, store.session_is_overdue))
    assert not store.session_is_overdue
    await backend.expire(store)
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    assert overdue[SessionEvent.SESSION_LOST]
    assert not overdue[SessionEvent.SESSION_REESTABLISHED]


async def test_a_write_of_a_session_that_has_ended_never_happens(backend, store):
    """The client has not noticed yet that its session is gone; its write must not count as a write of the next
    session."""
    events = Heard.session_events(store)
    await store.put("/key", b"1", ephemeral=True)
    await store.put("/lasting", b"1")
    await backend.expire(store)
    outcomes = await asyncio.gather(
        store.put("/key", b"2", ephemeral=True), store.put("/lasting", b"2"), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [SessionLostError, SessionLostError]
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    assert await store.get("/key") is None
    assert (await store.get("/lasting")).value == b"1"


async def test_caches_are_dropped_before_anybody_hears_of_the_reconnection(backend, store):
    order = []
    store.add_session_listener(order.append)
    store.add_invalidator(lambda change: order.append("drop") if change is None else None)
    heard = Heard.session_events(store)
    await backend.expire(store)
    await heard.until_heard(SessionEvent.SESSION_REESTABLISHED)
    assert order == [
        SessionEvent.CONNECTION_LOST,
        SessionEvent.SESSION_LOST,
        "drop",
        SessionEvent.RECONNECTED,
        "drop",
        SessionEvent.SESSION_REESTABLISHED,
    ]


async def test_counters_increase_across_clients_and_reopening(backend):
    """[CounterTest] They leave no key behind."""
    first, second = await backend.connect(), await backend.connect()
    values = [await next_counter_value(client, "/counters/x") for client in (first, second, first)]
    await first.close()
    third = await backend.connect()
    values += sorted(await asyncio.gather(*(next_counter_value(third, "/counters/x") for _ in range(50))))
    left: list[Coroutine[Any, Any, None]] = []
    values.append(await next_counter_value(third, "/counters/x", later=left.append))
    assert values == sorted(set(values))
    await left.pop()
    assert await second.children("/counters/x") == []
    assert await second.children("/counters") == (["x"] if backend.keeps_parents_of_sequences else [])
    assert not await second.exists("/counters/x")


async def test_caches_of_several_clients_follow_each_other(backend, store):
    """[MetadataCacheTest, multi-client]"""
    other = await backend.connect()
    mine, theirs = MetadataCache(store, int), MetadataCache(other, int)
    await mine.create("/counters/key", 1)
    await eventually(lambda: theirs.get("/counters/key"))
    assert await theirs.children("/counters") == ["key"]
    total = 20

    async def count(cache):
        for _ in range(total):
            await cache.read_modify_update_or_create("/counters/key", lambda value: value + 1)

    await asyncio.gather(count(mine), count(theirs))

    async def is_followed():
        return [await cache.get("/counters/key") for cache in (mine, theirs)] == [1 + 2 * total] * 2

    await eventually(is_followed)
    await theirs.delete("/counters/key")
    assert await theirs.get("/counters/key") is None

    async def is_gone():
        return await mine.get("/counters/key") is None and await mine.children("/counters") == []

    await eventually(is_gone)
    mine.close()
    theirs.close()


async def test_a_lock_passes_to_another_client_and_comes_back_after_a_lost_session(backend, store):
    """[testReacquireLocksAfterSessionLost] It returns, and never expires, if no other client took it meanwhile."""
    other = await backend.connect()
    mine, theirs = LockManager(store, str), LockManager(other, str)
    lock = await mine.acquire("/lock", "me")
    events = Heard.session_events(store)
    await backend.expire(store)
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)

    async def is_back():
        record = await other.get("/lock")
        return record is not None and not lock.expired.done()

    await eventually(is_back)
    await lock.release()
    taken = await theirs.acquire("/lock", "they")
    assert taken.is_held
    await theirs.close()
    await mine.close()


async def test_leadership_passes_on_and_is_won_back_after_a_lost_session(backend, store):
    """[multipleMembers, testReacquireLeadershipAfterSessionLost]"""
    other = await backend.connect()
    first = LeaderElection(store, "/leader", str, "first")
    second = LeaderElection(other, "/leader", str, "second")
    assert await first.elect() is LeaderElectionState.LEADING
    assert await second.elect() is LeaderElectionState.FOLLOWING
    await backend.expire(store)
    await eventually(
        lambda: {first.state, second.state} == {LeaderElectionState.LEADING, LeaderElectionState.FOLLOWING}
    )
    leader, follower = (first, second) if first.state is LeaderElectionState.LEADING else (second, first)
    await leader.close()
    await eventually(lambda: follower.state is LeaderElectionState.LEADING)
    await follower.close()
    assert not await other.exists("/leader")
