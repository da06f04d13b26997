"""What only a store in Oxia has: shards, the search for a leader, a session that each write names."""

import asyncio
import signal
import threading

import pytest

from pulsar_barycenter.metadata.coordination.locks import LockManager
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    InvalidPathError,
    OtherSessionError,
    SessionLostError,
    StoreClosedError,
    StoreRefusedError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.grpc_client.server_list import MAX_AT_ONCE
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION
from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings
from pulsar_barycenter.metadata.oxia.oxia_store import MAX_VALUE_BYTES, REMEMBERED, OxiaStore
from pulsar_barycenter.metadata.oxia.session import MAX_TIMEOUT_MS
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, Notification, NotificationType, SessionEvent
from support.loopback_proxy import loopback_proxy
from support.metadata_backends import Heard, InOxia, eventually
from support.oxia_server import oxia_server

CREATED, MODIFIED, DELETED = NotificationType.CREATED, NotificationType.MODIFIED, NotificationType.DELETED
LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED
OVER, RENEWED = SessionEvent.SESSION_LOST, SessionEvent.SESSION_REESTABLISHED
LONG_MS = MAX_TIMEOUT_MS
"""No session of a test ends by itself."""


@pytest.fixture
async def backend(tmp_path):
    backend = InOxia(tmp_path)
    yield backend
    await backend.close()


@pytest.fixture
async def own_server(tmp_path):
    """A server that the test may stop or kill."""
    with oxia_server(tmp_path) as server:
        backend = InOxia(tmp_path, server)
        yield backend
        server.signal(signal.SIGCONT)
        await backend.close()


def root(backend):
    return "|" + backend.url.rpartition("/")[2]


def read(backend, *keys):
    with backend.server.asked() as stub:
        gets = [api.GetRequest(key=key, include_value=True) for key in keys]
        return [each for page in stub.Read(api.ReadRequest(shard=0, gets=gets), timeout=10) for each in page.gets]


def write(backend, request):
    """Write with another client."""
    is_answered = threading.Event()

    def asked():  # a stream that ends too early has no answer
        yield request
        is_answered.wait(10)

    with backend.server.asked() as stub:
        where = (("shard-id", "0"), ("namespace", "default"))
        answer = next(stub.WriteStream(asked(), metadata=where, timeout=10))
        is_answered.set()
        return answer


# ---- what the keys are ----


async def test_values_are_stored_as_they_are_and_nothing_is_left_of_how_they_were_written(backend):
    store = await backend.connect()
    await store.put("/loadbalance/leader", b'{"a":1}', ephemeral=True)
    await store.put("/admin", b"1")
    await store.put("/admin", b"2")
    leader, admin = read(backend, f"{root(backend)}|loadbalance|leader", f"{root(backend)}|admin")
    assert (leader.value, leader.version.session_id) == (b'{"a":1}', store.session)
    assert (admin.value, admin.version.modifications_count) == (b"2", 1)
    assert not admin.version.HasField("session_id")
    assert admin.version.version_id > 0


async def test_two_stores_in_one_namespace_do_not_see_each_other(backend, tmp_path):
    other = InOxia(tmp_path, backend.server)
    mine, theirs = await backend.connect(), await other.connect()
    heard = Heard.changes(mine)
    await theirs.put("/theirs", b"")
    await mine.put("/mine", b"")
    assert (await mine.children("/"), await theirs.children("/")) == (["mine"], ["theirs"])
    assert await heard.until_heard(Notification(CREATED, "/mine")) == [Notification(CREATED, "/mine")]
    await other.close()


@pytest.mark.parametrize("options", [["--key-sorting", "natural"], ["--shards", "4"]], ids=["natural", "shards"])
async def test_it_is_the_same_in_a_namespace_of_another_order_and_in_one_of_several_shards(tmp_path, options):
    """All keys are in the one shard that their partition key has by Oxia's own client, too."""
    with oxia_server(tmp_path, options=options) as server:
        backend = InOxia(tmp_path, server)
        store, other = await backend.connect(LONG_MS), await backend.connect(LONG_MS)
        heard = Heard.changes(other)
        for path in ("/a/z", "/a/b/c/d", "/a/b-x", "/top", "/a"):
            await store.put(path, b"", ephemeral=path == "/top")
        assert await other.children("/") == ["a", "top"]
        assert await other.children("/a") == ["b", "b-x", "z"]
        await heard.until_heard(Notification(CREATED, "/a"))
        with pytest.raises(OtherSessionError):
            await other.put("/top", b"", if_own=True)
        key = f"{root(backend)}|a|z"
        assert await asyncio.to_thread(server.found, key, PARTITION)
        assert (await other.put("/a/z", b"", expected_version=0)).version == 1
        await backend.close()


async def test_a_value_that_is_too_large_is_refused(backend):
    store = await backend.connect(LONG_MS)
    for version in range(2):
        assert (await store.put("/key", bytes(MAX_VALUE_BYTES))).version == version
    with pytest.raises(ValueTooLargeError, match=rf"/key: a value of {MAX_VALUE_BYTES + 1} bytes"):
        await store.put("/key", bytes(MAX_VALUE_BYTES + 1))
    assert len((await store.get("/key")).value) == MAX_VALUE_BYTES


async def test_there_is_no_key_at_the_root(backend):
    store = await backend.connect()
    with pytest.raises(InvalidPathError):
        await store.put("/", b"")
    assert await store.get("/") is None


async def test_who_made_a_lasting_key_is_known_to_all_and_stays_known(backend):
    """Whichever client writes it after that."""
    store, other = await backend.connect(), await backend.connect()
    assert (await store.put("/key", b"1")).created_by_self
    assert not (await other.put("/key", b"2")).created_by_self
    assert (await store.get("/key")).stat.created_by_self
    with pytest.raises(OtherSessionError):
        await other.delete("/key", if_own=True)
    await store.delete("/key", if_own=True)


# ---- what is remembered ----


async def test_what_others_changed_meanwhile_is_found_out_by_the_write(backend, monkeypatch):
    """What a client remembers of keys decides nothing: not versions, nor whose they are, nor whether they last."""
    store, other = await backend.connect(LONG_MS), await backend.connect(LONG_MS)
    monkeypatch.setattr(store, "_on_change", lambda change, version_id: None)
    await store.put("/key", b"1")
    await other.put("/key", b"2")
    with pytest.raises(BadVersionError) as refused:
        await store.put("/key", b"3", expected_version=0)
    assert refused.value.actual == 1
    await other.delete("/key")
    await other.put("/key", b"4", ephemeral=True)
    await other.put("/key", b"5")
    stat = await store.put("/key", b"6", expected_version=1)
    assert (stat.version, stat.ephemeral, stat.created_by_self) == (2, True, False)
    await other.delete("/key")
    assert (await store.put("/key", b"7")).version == 0


async def test_so_many_keys_are_remembered(backend, monkeypatch):
    assert REMEMBERED > 1000
    monkeypatch.setattr("pulsar_barycenter.metadata.oxia.oxia_store.REMEMBERED", 2)
    store = await backend.connect(LONG_MS)
    for name in "abc":
        await store.put(f"/{name}", b"")
    assert set(store._seen) == {"/b", "/c"}
    assert (await store.put("/a", b"1", expected_version=0)).version == 1


# ---- the session in each write ----


async def test_no_write_of_an_ended_session_happens_whatever_was_looked_at_before(backend, monkeypatch):
    """It ends after the check and before the write, as with a paused client."""
    store, other = await backend.connect(LONG_MS), await backend.connect(LONG_MS)
    for path in ("/lasting", "/guard", "/old"):
        await store.put(path, b"1")
    looked = store._read_state

    async def look_and_end(*given, **options):
        look = await looked(*given, **options)
        await backend.expire(store)
        return look

    monkeypatch.setattr(store, "_read_state", look_and_end)
    for write_of in (
        lambda: store.put("/lasting", b"2", guard=Guard("/guard", 0)),
        lambda: store.put("/new", b"2", guard=Guard("/guard", 0)),
        lambda: store.delete("/old"),
    ):
        events = Heard.session_events(store)
        with pytest.raises(SessionLostError):
            await write_of()
        await events.until_heard(RENEWED)
    assert [(await other.get(path)).value for path in ("/lasting", "/old")] == [b"1", b"1"]
    assert not await other.exists("/new")


async def test_a_range_that_somebody_deletes_is_told_as_missed_changes(backend):
    """It comes as one change that names no keys."""
    store = await backend.connect(LONG_MS)
    await store.put("/a/b", b"")
    events = Heard.session_events(store)
    request = api.WriteRequest(shard=0)
    request.MergeFromString(_delete_range(f"{root(backend)}|a|", f"{root(backend)}|a}}"))
    await asyncio.to_thread(write, backend, request)
    assert await events.until_heard(BACK) == [LOST, BACK]
    assert await store.children("/a") == []


def _delete_range(first, end):
    """Field 4 of a WriteRequest, which the store's own definitions leave out."""
    inner = b"".join(
        bytes([number << 3 | 2, len(text)]) + text for number, text in ((1, first.encode()), (2, end.encode()))
    )
    return bytes([4 << 3 | 2, len(inner)]) + inner


async def test_keys_that_others_put_there_hinder_nobody(backend):
    store = await backend.connect()
    heard = Heard.changes(store)
    keys = ("/with/slashes", f"{root(backend)}x")
    theirs = api.WriteRequest(shard=0, puts=[api.PutRequest(key=key) for key in keys])
    await asyncio.to_thread(write, backend, theirs)
    await store.put("/key", b"")
    assert await store.children("/") == ["key"]
    assert await heard.until_heard(Notification(CREATED, "/key")) == [Notification(CREATED, "/key")]


# ---- the connection ----


async def opened_through(proxy, backend, *, session_timeout_ms=LONG_MS):
    """A standalone server returns to each client the address by which it was reached, so all traffic uses the proxy."""
    url = backend.url.replace(backend.server.endpoint, proxy.endpoint)
    return await OxiaStore.open(read_settings(url), session_timeout_ms=session_timeout_ms)


@pytest.fixture
async def proxied(backend):
    """A client behind a proxy, and the proxy."""
    async with loopback_proxy(backend.server.endpoint) as proxy:
        client = await opened_through(proxy, backend)
        yield client, proxy
        proxy.heal()
        await client.close()


async def test_a_broken_connection_is_not_a_lost_session_and_hides_no_change(backend, proxied):
    """Changes in between are reported in their order, once the connection is back."""
    client, proxy = proxied
    other = await backend.connect(LONG_MS)
    heard, events = Heard.changes(client), Heard.session_events(client)
    await client.put("/mine", b"", ephemeral=True)
    await other.put("/before", b"")
    await heard.until_heard(Notification(CREATED, "/before"))
    proxy.cut()
    for number in range(3):
        await other.put(f"/n{number}", b"")
    await other.delete("/n1")
    client.keeper.beat_now()  # a heartbeat now
    client.keeper.timeout_s = 3  # which is given up soon
    await events.until_heard(LOST)
    proxy.heal()
    told = await heard.until_heard(Notification(DELETED, "/n1"))
    keys = [change for change in told if change.type in (CREATED, DELETED)]
    assert keys == [
        Notification(CREATED, "/mine"),
        Notification(CREATED, "/before"),
        *(Notification(CREATED, f"/n{number}") for number in range(3)),
        Notification(DELETED, "/n1"),
    ]
    assert await events.until_heard(BACK) == [LOST, BACK]
    assert (await client.get("/mine")).stat.created_by_self
    assert not client.session_is_overdue


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

    async def is_back():
        try:
            return await client.put("/key", b"3")
        except StoreUnavailableError:
            return None

    assert (await eventually(is_back)).version == 2


async def test_what_is_asked_of_a_store_that_is_closed_meanwhile_ends(proxied):
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
        with pytest.raises(StoreUnavailableError, match=rf"oxia {nowhere.endpoint}: session was not executed: "):
            await OxiaStore.open(read_settings(f"//{nowhere.endpoint}"))


async def test_a_namespace_that_is_not_there_is_told_at_once(backend):
    with pytest.raises(StoreRefusedError, match="namespace not found"):
        await OxiaStore.open(read_settings(f"//{backend.server.endpoint}/nowhere"))


# ---- the session ----


async def test_a_server_that_stops_for_less_than_the_session_ends_none(own_server):
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
    client = await own_server.connect(2_000)
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
        client = await opened_through(proxy, backend, session_timeout_ms=2_000)
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
    client.keeper.timeout_s = 3
    client.keeper.beat_now()
    await events.until_heard(LOST)
    own_server.server.start()
    await events.until_heard(BACK)
    assert (await client.put("/mine", b"2", expected_version=0, if_own=True)).version == 1
    await heard.until_heard(Notification(MODIFIED, "/mine"))
    assert events.told == [LOST, BACK] * (len(events.told) // 2)


async def test_a_server_that_comes_back_without_its_data_is_followed_from_there(own_server):
    """It has less data than before: the session is another, and reported changes are reported again."""
    client = await own_server.connect(60_000)
    for number in range(10):
        await client.put(f"/n{number}", b"", ephemeral=True)
    events, dropped = Heard.session_events(client), Heard()
    client.add_invalidator(dropped.hear)
    own_server.server.kill()
    own_server.server.forget()
    own_server.server.start()
    client.keeper.timeout_s = 3
    client.keeper.beat_now()
    await events.until_heard(RENEWED)
    await dropped.until_heard(None)
    assert await client.children("/") == []
    heard = Heard.changes(client)

    async def is_told():
        await client.put("/again", b"")
        return any(change.path == "/again" for change in heard.told)

    await eventually(is_told)


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


async def test_a_session_shows_itself_and_ends_with_its_client(backend):
    client = await backend.connect(60_000)
    name = backend.url.rpartition("/")[2]
    sessions = (f"barycenter|{name}:sessions:", f"barycenter|{name}:sessions;")
    assert backend.server.keys(*sessions) == [f"{sessions[0]}{client.session:016x}"]
    await client.close()
    assert backend.server.keys(*sessions) == []


async def test_a_broker_reads_a_key_ahead_of_all_requests_that_wait(backend):
    client = await backend.connect()
    await client.put("/key", b"1", expected_version=MUST_NOT_EXIST)
    for _ in range(MAX_AT_ONCE):
        await client.connection._turns.acquire()
    waiting = asyncio.create_task(client.get("/key"))
    async with asyncio.timeout(30):
        assert (await client.get_ahead("/key")).value == b"1"
    assert not waiting.done()
    for _ in range(MAX_AT_ONCE):
        client.connection._turns.release()
    assert (await waiting).value == b"1"
