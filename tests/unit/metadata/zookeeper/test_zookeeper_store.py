"""What only ZooKeeper has: lost connections, servers that stop, nodes that are no keys, limits."""

import asyncio
import contextlib

import pytest
from kazoo.client import KazooClient

from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    HasChildrenError,
    InvalidPathError,
    MetadataError,
    NotFoundError,
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Notification, NotificationType, SessionEvent
from pulsar_barycenter.metadata.zookeeper.recursive_client import _AddWatch
from pulsar_barycenter.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from support.loopback_proxy import loopback_proxy
from support.metadata_backends import Heard, InZooKeeper, closing_clients, open_backend
from support.zookeeper_server import shared_zookeeper, zookeeper_server

CUT = [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]
LOSS = [
    SessionEvent.CONNECTION_LOST,
    SessionEvent.SESSION_LOST,
    SessionEvent.RECONNECTED,
    SessionEvent.SESSION_REESTABLISHED,
]
NEVER_MS = 60_000
"""A session timeout that no test waits for."""


@pytest.fixture
async def backend(tmp_path):
    async with open_backend("zookeeper", tmp_path) as backend:
        yield backend


@pytest.fixture
async def behind_proxy(backend):
    """A store behind a proxy, and the proxy; another client of the backend is not behind it."""
    async with loopback_proxy(backend.server.endpoint) as proxy:
        endpoint = backend.servers.replace(backend.server.endpoint, proxy.endpoint)
        store = await ZooKeeperStore.open(endpoint, session_timeout_ms=NEVER_MS)
        yield store, proxy
        proxy.heal()
        await store.close()


@contextlib.contextmanager
def shell(server):
    """kazoo's plain client, as a person has a shell."""
    client = KazooClient(server.endpoint)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def test_keys_are_plain_nodes_below_the_chroot_with_empty_persistent_parents(backend):
    store = await backend.connect()
    root = "/" + backend.servers.partition("/")[2]
    await store.put("/admin/policies/acme", b"{}")
    await store.put("/namespace/acme/a/0x00_0xff", b"me", ephemeral=True)
    numbered = await store.put("/counters/x/-", b"", expected_version=MUST_NOT_EXIST, ephemeral=True, sequential=True)
    assert numbered.path == "/counters/x/-0000000000"

    def look():
        with shell(backend.server) as client:
            assert client.get(f"{root}/admin/policies/acme")[0] == b"{}"
            value, stat = client.get(f"{root}/namespace/acme/a/0x00_0xff")
            assert (value, stat.ephemeralOwner) == (b"me", store.session)
            value, stat = client.get(f"{root}/namespace/acme")
            assert (value, stat.version, stat.ephemeralOwner) == (b"", 0, 0)
            client.set(f"{root}/admin/policies/acme", b"by hand")
            return client.exists(f"{root}/admin/policies/acme").version

    heard = Heard.changes(store)
    version = await asyncio.to_thread(look)
    await heard.until_heard(Notification(NotificationType.MODIFIED, "/admin/policies/acme"))
    assert (await store.get("/admin/policies/acme")).stat.version == version == 1


async def test_a_mere_parent_is_no_key_until_somebody_writes_it(backend):
    store = await backend.connect()
    await store.put("/a/b/c", b"1")
    assert (await store.get("/a/b"), await store.exists("/a")) == (None, False)
    with pytest.raises(NotFoundError):
        await store.delete("/a/b")
    with pytest.raises(HasChildrenError):
        await store.put("/a/b", b"", ephemeral=True, expected_version=MUST_NOT_EXIST)
    stat = await store.put("/a/b", b"2", expected_version=MUST_NOT_EXIST)
    assert (await store.get("/a/b")).stat.version == stat.version
    with pytest.raises(BadVersionError):
        await store.put("/a/b", b"3", expected_version=MUST_NOT_EXIST)
    await store.delete("/a/b/c")
    assert await store.exists("/a/b")
    assert not await store.exists("/a")


@pytest.mark.parametrize(("expected", "if_own"), [(MUST_NOT_EXIST, False), (None, False), (None, True)])
async def test_a_parent_that_a_session_left_empty_is_taken_for_what_is_put_there(backend, expected, if_own):
    store, other = await backend.connect(), await backend.connect()
    await other.put("/a/b", b"", ephemeral=True)
    heard = Heard.changes(store)
    await other.close()
    await heard.until_heard(Notification(NotificationType.DELETED, "/a/b"))
    assert not await store.exists("/a")
    stat = await store.put("/a", b"me", expected_version=expected, ephemeral=True, if_own=if_own)
    assert (stat.version, stat.ephemeral) == (0, True)


@pytest.mark.parametrize("sequential", [False, True])
async def test_a_key_is_made_though_what_lies_above_it_is_deleted_meanwhile(backend, monkeypatch, sequential):
    store, root = await backend.connect(), "/" + backend.servers.partition("/")[2]
    await store.put("/guarding", b"1")
    in_transaction, deleted = store._in_transaction, []

    def delete_parent():
        with shell(backend.server) as client:
            client.delete(f"{root}/above")

    async def after_deletion(*arguments):
        if not deleted:
            deleted.append(await asyncio.to_thread(delete_parent))
        return await in_transaction(*arguments)

    monkeypatch.setattr(store, "_in_transaction", after_deletion)
    stat = await store.put("/above/key-", b"1", sequential=sequential, guard=Guard("/guarding", 0))
    assert deleted
    assert (await store.get(stat.path)).value == b"1"


async def test_numbers_go_on_growing_when_nothing_is_left_of_earlier_sequential_keys(backend):
    store = await backend.connect()
    for expected in range(3):
        stat = await store.put("/seq/k-", b"", sequential=True)
        assert stat.path == f"/seq/k-{expected:010d}"
        await store.delete(stat.path)
    with pytest.raises(BadVersionError):
        await store.put("/seq/k-", b"", sequential=True, expected_version=0)


async def test_what_zookeeper_cannot_have_is_refused_by_name(backend):
    store = await backend.connect()
    for path in ("/a//b", "/a/./b", "/..", "/a\x01b"):
        with pytest.raises(InvalidPathError):
            await store.put(path, b"")
    with pytest.raises(InvalidPathError):
        await store.put("/", b"")
    with pytest.raises(NotFoundError):
        await store.delete("/")
    await store.put("/me", b"", ephemeral=True)
    with pytest.raises(MetadataError, match="ephemeral"):
        await store.put("/me/below", b"")


async def test_a_value_of_a_mebibyte_is_told_to_be_too_large_and_a_little_less_is_kept(backend):
    store = await backend.connect()
    events = Heard.session_events(store)
    with pytest.raises(
        ValueTooLargeError,
        match=r"1048576 bytes is too large: for a key with this path, the maximum in ZooKeeper is 10\d+ bytes",
    ):
        await store.put("/key", bytes(1 << 20))
    largest = bytes((1 << 20) - 1 - 256 - len("/key"))
    await store.put("/key", largest)
    assert (await store.get("/key")).value == largest
    assert events.told == []


async def test_if_own_on_a_lasting_key_is_refused_for_nobody_knows_its_maker(backend):
    store = await backend.connect()
    await store.put("/key", b"1")
    with pytest.raises(OtherSessionError):
        await store.put("/key", b"2", if_own=True)
    with pytest.raises(OtherSessionError):
        await store.delete("/key", if_own=True)


async def test_a_cut_connection_is_no_lost_session_and_later_changes_are_heard_again(backend, behind_proxy):
    store, proxy = behind_proxy
    other = await backend.connect()
    dropped = []
    store.add_invalidator(dropped.append)
    events, heard = Heard.session_events(store), Heard.changes(store)
    await store.put("/mine", b"", ephemeral=True)
    session = store.session
    proxy.cut()
    await events.until_heard(SessionEvent.CONNECTION_LOST)
    assert not store.session_is_overdue
    await other.put("/missed", b"")
    asked = asyncio.create_task(store.get("/missed"))  # waits for the next connection
    proxy.heal()
    assert (await asked).value == b""
    await events.until_heard(SessionEvent.RECONNECTED)
    assert None in dropped
    await other.put("/after", b"")
    await heard.until_heard(Notification(NotificationType.CREATED, "/after"))
    assert events.told == CUT
    assert store.session == session
    assert (await store.get("/mine")).stat.created_by_self


async def test_a_write_whose_answer_was_lost_is_neither_repeated_nor_called_a_success(backend, behind_proxy):
    store, proxy = behind_proxy
    other = await backend.connect()
    heard = Heard.changes(other)
    await store.put("/key", b"0")
    proxy.hold_answers()
    putting = asyncio.create_task(store.put("/key", b"1"))
    await heard.until_heard(Notification(NotificationType.MODIFIED, "/key"))
    proxy.cut()
    with pytest.raises(StoreUnavailableError, match="it is unknown whether it executed"):
        await putting
    proxy.heal()
    assert (await other.get("/key")).stat.version == 1


async def test_who_waits_for_a_connection_is_told_when_the_store_is_closed(backend, behind_proxy):
    store, proxy = behind_proxy
    events = Heard.session_events(store)
    proxy.cut()
    await events.until_heard(SessionEvent.CONNECTION_LOST)
    waiting = asyncio.create_task(store.get("/key"))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreClosedError):
        await waiting
    assert events.told == [SessionEvent.CONNECTION_LOST]


async def test_a_cancelled_operation_hinders_no_other(backend, behind_proxy):
    store, proxy = behind_proxy
    proxy.hold_answers()
    reading = asyncio.create_task(store.get("/one"))
    await proxy.lost.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    proxy.heal()
    assert await store.get("/two") is None


async def test_a_server_that_stands_still_for_less_than_a_session_costs_nothing_but_time(tmp_path):
    with zookeeper_server(tmp_path) as server:
        async with closing_clients(InZooKeeper(tmp_path, server)) as backend:
            store = await backend.connect(12_000)
            events = Heard.session_events(store)
            await store.put("/mine", b"1", ephemeral=True)
            server.pause()
            await events.until_heard(SessionEvent.CONNECTION_LOST)
            server.go_on()
            await events.until_heard(SessionEvent.RECONNECTED)
            assert events.told == CUT
            assert (await store.get("/mine")).stat.created_by_self


async def test_a_server_that_stands_still_for_longer_costs_the_session_and_the_next_one_begins(tmp_path):
    """The client abandons it by itself: no notification says that the session has ended."""
    with zookeeper_server(tmp_path) as server:
        async with closing_clients(InZooKeeper(tmp_path, server)) as backend:
            store = await backend.connect(1000)
            events = Heard.session_events(store)
            overdue = []
            store.add_session_listener(lambda event: overdue.append(store.session_is_overdue))
            await store.put("/mine", b"1", ephemeral=True)
            server.pause()
            waiting = asyncio.create_task(store.put("/other", b""))
            await events.until_heard(SessionEvent.SESSION_LOST)
            with pytest.raises((SessionLostError, StoreUnavailableError)):
                await waiting
            with pytest.raises(SessionLostError):
                await store.put("/mine", b"2", ephemeral=True)
            with pytest.raises(StoreUnavailableError):
                await store.get("/mine")
            server.go_on()
            await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
            assert events.told == LOSS
            assert overdue[1]
            assert not overdue[-1]
            assert (await store.put("/again", b"", ephemeral=True)).created_by_self


async def test_a_server_that_starts_again_still_has_the_keys_and_the_session(tmp_path):
    with zookeeper_server(tmp_path) as server:
        async with closing_clients(InZooKeeper(tmp_path, server)) as backend:
            store = await backend.connect(NEVER_MS)
            events = Heard.session_events(store)
            await store.put("/mine", b"1", ephemeral=True)
            await store.put("/lasting", b"1")
            server.kill()
            await events.until_heard(SessionEvent.CONNECTION_LOST)
            server.start()
            assert await asyncio.to_thread(server.wait_ready)
            await events.until_heard(SessionEvent.RECONNECTED)
            assert events.told == CUT
            assert (await store.get("/mine")).stat.created_by_self
            assert (await store.get("/lasting")).value == b"1"


async def test_a_thousand_ephemeral_keys_are_written_and_written_again_after_a_lost_session(backend):
    store = await backend.connect()
    events = Heard.session_events(store)

    async def write_all():
        await asyncio.gather(
            *(store.put(f"/ns/{n}", b"", expected_version=MUST_NOT_EXIST, ephemeral=True) for n in range(1000))
        )

    await write_all()
    await backend.expire(store)
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    await write_all()
    assert len(await store.children("/ns")) == 1000


async def test_servers_without_recursive_watches_are_refused_by_name(tmp_path, monkeypatch):
    """A type of request that the server does not know represents a server before 3.6."""
    monkeypatch.setattr(_AddWatch, "type", 999)
    with pytest.raises(MetadataError, match=r"ZooKeeper 3\.6 or newer is needed"):
        await ZooKeeperStore.open(shared_zookeeper().endpoint)


async def test_a_store_that_nobody_answers_for_says_so(tmp_path):
    async with loopback_proxy("127.0.0.1:1") as proxy:
        proxy.cut()
        with pytest.raises(StoreUnavailableError, match="no ZooKeeper answered"):
            await ZooKeeperStore.open(proxy.endpoint, operation_timeout_s=0.2)


async def test_urls_lead_to_servers_and_chroot_with_and_without_a_scheme(backend):
    first = await open_store(f"zk:{backend.servers}")
    second = await open_store(f"{backend.server.endpoint},{backend.servers}")
    whole = await open_store(f"zk:{backend.server.endpoint}")
    root = "/" + backend.servers.partition("/")[2]
    await first.put("/key", b"1")
    assert (await second.get("/key")).value == b"1"
    assert (await whole.get(f"{root}/key")).value == b"1"
    assert "zookeeper" not in await whole.children("/")
    for store in (first, second, whole):
        await store.close()
