"""What only a store in etcd has: a broken connection, a server that stops, changes that are compacted away."""

import asyncio
import base64
import signal

import pytest

from pulsar_barycenter.metadata.coordination.locks import LockManager
from pulsar_barycenter.metadata.errors import (
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.etcd.etcd_settings import read_settings
from pulsar_barycenter.metadata.etcd.etcd_store import LARGE, PAGE, REMEMBERED, EtcdStore
from pulsar_barycenter.metadata.grpc_client.server_list import MAX_AT_ONCE
from pulsar_barycenter.metadata.leader_writes.session_lease import Lease
from pulsar_barycenter.metadata.leader_writes.session_records import SessionRecord, session_path, session_value
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Notification, NotificationType, SessionEvent
from support.etcd_server import etcd_server, text
from support.loopback_proxy import loopback_proxy
from support.metadata_backends import Heard, InEtcd, eventually

CREATED, MODIFIED, DELETED = NotificationType.CREATED, NotificationType.MODIFIED, NotificationType.DELETED
LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED
OVER, RENEWED = SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED
LONG_MS = 600_000
"""No session of a test ends by itself."""


@pytest.fixture
async def backend(tmp_path):
    backend = InEtcd(tmp_path)
    yield backend
    await backend.close()


@pytest.fixture
async def own_server(tmp_path):
    """A server that the test may stop or kill."""
    with etcd_server(tmp_path) as server:
        backend = InEtcd(tmp_path, server)
        yield backend
        server.signal(signal.SIGCONT)
        await backend.close()


@pytest.fixture
async def proxied(backend):
    """A client behind a proxy, and the proxy."""
    async with loopback_proxy(backend.server.endpoint) as proxy:
        url = backend.url.replace(backend.server.endpoint, proxy.endpoint)
        client = await EtcdStore.open(read_settings(url), session_timeout_ms=LONG_MS)
        yield client, proxy
        proxy.heal()
        await client.close()


def key_of(backend, path):
    return text(backend.url.removeprefix(backend.server.url) + path)


# ---- what the keys are ----


async def test_values_are_stored_as_they_are_at_their_paths(backend):
    """So that etcdctl shows them, and so that they are where Pulsar has them."""
    store = await backend.connect()
    await store.put("/loadbalance/leader", b'{"a":1}', ephemeral=True)
    await store.put("/admin", b"", ephemeral=False)
    (leader,) = backend.server.call("kv/range", {"key": key_of(backend, "/loadbalance/leader")})["kvs"]
    (admin,) = backend.server.call("kv/range", {"key": key_of(backend, "/admin")})["kvs"]
    assert (leader["value"], int(leader["lease"])) == (text('{"a":1}'), store.session)
    assert "lease" not in admin


async def test_two_stores_in_one_etcd_do_not_see_each_other(backend, tmp_path):
    other = InEtcd(tmp_path, backend.server)
    mine, theirs = await backend.connect(), await other.connect()
    heard = Heard.changes(mine)
    await theirs.put("/theirs", b"")
    await mine.put("/mine", b"")
    assert (await mine.children("/"), await theirs.children("/")) == (["mine"], ["theirs"])
    assert await heard.until_heard(Notification(CREATED, "/mine")) == [Notification(CREATED, "/mine")]
    await other.close()


async def test_more_children_than_fit_on_a_page_are_all_listed(backend):
    """Those of a child that lie deeper are passed over."""
    store = await backend.connect(LONG_MS)
    paths = [f"/a/{name}" for name in ("first", "last")]
    paths += [f"/a/deep/{number:05}" for number in range(PAGE + 1)]
    await asyncio.gather(*(store.put(path, b"") for path in paths))
    assert await store.children("/a") == ["deep", "first", "last"]
    assert len(await store.children("/a/deep")) == PAGE + 1
    assert await store.children("/") == ["a"]


async def test_keys_that_others_put_there_hinder_nobody(backend):
    """Bytes that are not text name no path; they are neither listed nor reported."""
    store = await backend.connect()
    heard = Heard.changes(store)
    key = backend.url.removeprefix(backend.server.url).encode() + b"/\xff"
    backend.server.call("kv/put", {"key": base64.b64encode(key).decode(), "value": ""})
    await store.put("/key", b"")
    assert await store.children("/") == ["key"]
    assert await heard.until_heard(Notification(CREATED, "/key")) == [Notification(CREATED, "/key")]


async def test_a_value_that_the_server_does_not_take_is_told_as_such(backend):
    """Whether the server finds the request too long, or gRPC the message."""
    store = await backend.connect(LONG_MS)
    assert (await store.put("/key", bytes(1_400_000))).version == 0
    assert (await store.put("/key", bytes(1_400_000))).version == 1
    for size in (1_600_000, 3_000_000):
        with pytest.raises(ValueTooLargeError, match=rf"/key: a value of {size} bytes is too large.*1\.5 MiB"):
            await store.put("/key", bytes(size))
    assert len((await store.get("/key")).value) == 1_400_000


async def test_a_session_knows_its_last_lasting_keys(backend, monkeypatch):
    monkeypatch.setattr("pulsar_barycenter.metadata.etcd.etcd_store.REMEMBERED", 2)
    assert REMEMBERED > 1000
    store = await backend.connect(LONG_MS)
    for name in "abc":
        await store.put(f"/{name}", b"")
    assert [(await store.get(f"/{name}")).stat.created_by_self for name in "abc"] == [False, True, True]
    await store.delete("/c", if_own=True)
    other = await backend.connect(LONG_MS)
    await other.put("/c", b"", expected_version=MUST_NOT_EXIST)
    assert not (await store.get("/c")).stat.created_by_self


async def test_large_values_are_written_whatever_is_there(backend):
    store, other = await backend.connect(LONG_MS), await backend.connect(LONG_MS)
    value = bytes(LARGE + 1)
    assert (await store.put("/mine", value, ephemeral=True)).created_by_self
    with pytest.raises(OtherSessionError):
        await other.put("/mine", value, if_own=True)
    stats = await asyncio.gather(*(client.put("/mine", value) for client in (store, other) * 5))
    assert sorted(stat.version for stat in stats) == list(range(1, 11))
    assert all(stat.ephemeral for stat in stats)


# ---- the connection ----


async def test_a_broken_connection_is_not_a_lost_session_and_hides_no_change(backend, proxied):
    """Changes in between are reported in their order, once the connection is back."""
    client, proxy = proxied
    other = await backend.connect(LONG_MS)
    await client.put("/mine", b"", ephemeral=True)
    heard, events = Heard.changes(client), Heard.session_events(client)
    await other.put("/before", b"")
    await heard.until_heard(Notification(CREATED, "/before"))
    proxy.cut()
    for number in range(3):
        await other.put(f"/n{number}", b"")
    await other.delete("/n1")
    with pytest.raises(StoreUnavailableError):
        await client.get("/mine")
    client.keeper.beat_now()  # a heartbeat now
    await events.until_heard(LOST)
    proxy.heal()
    told = await heard.until_heard(Notification(DELETED, "/n1"))
    keys = [change for change in told if change.type in (CREATED, DELETED)]
    assert keys == [
        Notification(CREATED, "/before"),
        *(Notification(CREATED, f"/n{number}") for number in range(3)),
        Notification(DELETED, "/n1"),
    ]
    assert await events.until_heard(BACK) == [LOST, BACK]
    assert (await client.get("/mine")).stat.created_by_self
    assert not client.session_is_overdue


async def test_changes_that_were_compacted_away_meanwhile_are_told_as_missed(backend, proxied):
    """Caches forget everything, and it goes on from there."""
    client, proxy = proxied
    other = await backend.connect(LONG_MS)
    events, dropped, heard = Heard.session_events(client), Heard(), Heard.changes(client)
    client.add_invalidator(dropped.hear)
    proxy.cut()
    await other.put("/missed", b"")
    await other.put("/later", b"")
    await asyncio.to_thread(backend.server.compact)
    proxy.heal()
    await events.until_heard(BACK)
    assert events.told == [LOST, BACK] * (len(events.told) // 2)
    await dropped.until_heard(None)

    async def is_told():
        await other.put("/again", b"")
        return Notification(MODIFIED, "/again") in heard.told

    await eventually(is_told)
    assert Notification(CREATED, "/missed") not in heard.told


async def test_a_put_whose_answer_is_lost_is_unknown_and_not_done_twice(backend, proxied):
    client, proxy = proxied
    other = await backend.connect(LONG_MS)
    await client.put("/key", b"1")
    proxy.hold_answers()
    putting = asyncio.ensure_future(client.put("/key", b"2"))

    async def is_done():
        return (await other.get("/key")).value == b"2"

    await eventually(is_done)
    await proxy.lost.wait()
    proxy.cut()
    with pytest.raises(StoreUnavailableError, match="put failed"):
        await putting
    proxy.heal()
    record = await other.get("/key")
    assert (record.value, record.stat.version) == (b"2", 1)
    await eventually(lambda: not client.session_is_overdue)

    async def is_back():
        try:
            return await client.put("/key", b"3")
        except StoreUnavailableError:
            return None

    assert (await eventually(is_back)).version == 2


async def test_what_is_asked_of_a_store_that_is_closed_meanwhile_ends(backend, proxied):
    client, proxy = proxied
    proxy.hold_answers()
    asked = [asyncio.ensure_future(client.get("/key")) for _ in range(2 * MAX_AT_ONCE)]
    await proxy.lost.wait()
    closing = asyncio.ensure_future(client.close())
    for each in asked:
        with pytest.raises((StoreUnavailableError, StoreClosedError)):
            await each
    await closing


async def test_a_server_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("pulsar_barycenter.metadata.grpc_client.grpc_store.OPENING_S", 0.2)
    async with loopback_proxy("127.0.0.1:1") as nowhere:
        with pytest.raises(StoreUnavailableError, match=rf"etcd {nowhere.endpoint}: session failed: unavailable"):
            await EtcdStore.open(read_settings(f"http://{nowhere.endpoint}"))


# ---- the session ----


async def test_a_server_that_stops_for_less_than_the_lease_ends_no_session(own_server):
    client = await own_server.connect(60_000)
    await client.put("/mine", b"", ephemeral=True)
    events = Heard.session_events(client)
    own_server.server.signal(signal.SIGSTOP)
    client.keeper.beat_now()
    client.keeper.timeout_s = 3  # beats are given up soon
    await events.until_heard(LOST)
    own_server.server.signal(signal.SIGCONT)
    assert await events.until_heard(BACK) == [LOST, BACK]
    assert (await client.get("/mine")).stat.created_by_self


async def test_a_server_that_stops_for_longer_ends_the_session_and_another_begins(own_server):
    """The client considers it lost by itself, and `session_is_overdue` is set before it reports that."""
    client = await own_server.connect(1_000)
    await client.put("/mine", b"", ephemeral=True)
    overdue = []
    events = Heard.session_events(client)
    client.add_session_listener(lambda event: overdue.append((event, client.session_is_overdue)))
    own_server.server.signal(signal.SIGSTOP)
    await events.until_heard(OVER)
    with pytest.raises(SessionLostError):
        await client.put("/mine", b"")
    own_server.server.signal(signal.SIGCONT)
    assert await events.until_heard(RENEWED) == [LOST, OVER, BACK, RENEWED]
    assert await client.get("/mine") is None
    assert (OVER, True) in overdue
    assert (RENEWED, False) in overdue
    assert (await client.put("/mine", b"", ephemeral=True)).version == 0


async def test_a_client_that_is_cut_off_takes_its_session_for_lost_before_others_may_have_its_keys(backend):
    """By its own clock, because no notification reaches it; it writes nothing until it has another session."""
    other = await backend.connect(LONG_MS)
    async with loopback_proxy(backend.server.endpoint) as proxy:
        url = backend.url.replace(backend.server.endpoint, proxy.endpoint)
        client = await EtcdStore.open(read_settings(url), session_timeout_ms=1_000)
        await client.put("/mine", b"", ephemeral=True)
        was_overdue = []
        other.add_listener(  # which may hear late of how the key came to be
            lambda change: change.type is DELETED and was_overdue.append((change, client.session_is_overdue))
        )
        heard, events = Heard.changes(other), Heard.session_events(client)
        proxy.cut()
        await heard.until_heard(Notification(DELETED, "/mine"))
        assert was_overdue == [(Notification(DELETED, "/mine"), True)]
        await events.until_heard(OVER)
        with pytest.raises(SessionLostError):
            await client.put("/mine", b"")
        proxy.heal()
        assert await events.until_heard(RENEWED) == [LOST, OVER, BACK, RENEWED]
        await client.close()


async def test_a_server_that_was_killed_and_started_again_has_the_session(own_server):
    client = await own_server.connect(60_000)
    await client.put("/mine", b"1", ephemeral=True)
    heard, events = Heard.changes(client), Heard.session_events(client)
    own_server.server.kill()
    client.keeper.beat_now()
    await events.until_heard(LOST)
    own_server.server.start()
    await events.until_heard(BACK)
    assert (await client.put("/mine", b"2", expected_version=0, if_own=True)).version == 1
    await heard.until_heard(Notification(MODIFIED, "/mine"))
    assert events.told == [LOST, BACK] * (len(events.told) // 2)


async def test_a_server_that_comes_back_without_its_data_is_followed_from_there(own_server):
    """It has less data than before: the session is another, and reported revisions are reported again."""
    client = await own_server.connect(60_000)
    for number in range(10):
        await client.put(f"/n{number}", b"", ephemeral=True)
    events, dropped = Heard.session_events(client), Heard()
    client.add_invalidator(dropped.hear)
    own_server.server.kill()
    own_server.server.forget()
    own_server.server.start()
    client.keeper.beat_now()
    await events.until_heard(RENEWED)
    await dropped.until_heard(None)
    assert await client.children("/") == []
    heard = Heard.changes(client)
    await eventually(lambda: client._watch._next < 10)
    await client.put("/again", b"")
    await heard.until_heard(Notification(CREATED, "/again"))


async def test_what_a_client_creates_again_in_its_next_session_comes_back(backend):
    """As the locks of a broker do: a thousand at once, of which only some are under way at a time."""
    client = await backend.connect(60_000)
    locks = LockManager(client, str)
    held = await asyncio.gather(*(locks.acquire(f"/locks/{number:04}", "me") for number in range(1_000)))
    events = Heard.session_events(client)
    await backend.expire(client)
    client.keeper.beat_now()
    await events.until_heard(RENEWED)
    other = await backend.connect(60_000)

    async def are_back():
        return len(await other.children("/locks")) == 1_000

    await eventually(are_back)
    assert all(lock.is_held for lock in held)
    await locks.close()
    assert await other.children("/locks") == []


async def test_a_session_ends_with_its_client(backend):
    client = await backend.connect(60_000)
    lease = client.session
    leases = backend.server.call("lease/leases", {})["leases"]
    assert str(lease) in [each["ID"] for each in leases]
    await client.close()
    leases = backend.server.call("lease/leases", {}).get("leases", [])
    assert str(lease) not in [each["ID"] for each in leases]


async def test_a_broker_reads_its_own_session_ahead_of_all_requests_that_wait(backend):
    """In a start storm thousands do, and a broker that does not find its session in time stops serving."""
    client = await backend.connect()
    await client.put(session_path("a" * 32), session_value(SessionRecord("b:8080")))
    lease = Lease(client, LeaseTimes(600), lambda events: None)
    for _ in range(MAX_AT_ONCE):
        await client.connection._turns.acquire()
    waiting = asyncio.create_task(client.get("/key"))
    async with asyncio.timeout(30):
        assert await lease.is_alive("a" * 32)
        assert not await lease.is_alive("b" * 32)
    assert not waiting.done()
    for _ in range(MAX_AT_ONCE):
        client.connection._turns.release()
    assert await waiting is None
