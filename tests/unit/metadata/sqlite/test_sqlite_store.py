"""What is particular to the SQLite store: its file, its thread, its lag and its stalls."""

import asyncio
import sqlite3
import threading

import pytest

from pulsar_barycenter.metadata.errors import MetadataError, StoreFileError, StoreUnavailableError
from pulsar_barycenter.metadata.sqlite.session_files import SessionFile, is_abandoned, remove_abandoned
from pulsar_barycenter.metadata.sqlite.sqlite_file import FREE_ROOM
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import Notification, NotificationType, SessionEvent
from support.metadata_backends import Heard, eventually


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.db"


@pytest.fixture
async def opened(path):
    stores = []

    async def opened(**options):
        stores.append(await SqliteStore.open(path, **options))
        return stores[-1]

    yield opened
    for store in stores:
        await store.close()


async def refusal(path):
    with pytest.raises(StoreFileError) as refused:
        await SqliteStore.open(path)
    assert str(path) in str(refused.value)
    return str(refused.value)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_bytes(b"these are somebody's notes\n" * 100)
    assert "not a database" in await refusal(path)
    assert path.read_bytes() == b"these are somebody's notes\n" * 100


async def test_another_programs_database_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE accounts (name)")
    database.close()
    before = path.read_bytes()
    assert "another program" in await refusal(path)
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_version_is_refused(path, opened):
    await (await opened()).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    assert "version 99" in await refusal(path)


async def test_a_damaged_file_is_refused(path, opened):
    await (await opened()).close()
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    await refusal(path)


async def test_a_folder_that_does_not_exist_is_named(tmp_path):
    await refusal(tmp_path / "missing" / "metadata.db")


async def test_times_are_those_of_the_given_clock(opened):
    class Clock:
        def now_ms(self):
            return 1234

    store = await opened(clock=Clock())
    stat = await store.put("/key", b"")
    assert (stat.created_at_ms, stat.modified_at_ms) == (1234, 1234)
    assert (await store.get("/key")).stat == stat


async def test_many_writes_at_once_are_all_done(opened):
    store = await opened()
    stats = await asyncio.gather(*(store.put(f"/{number % 1500}", b"") for number in range(3000)))
    assert [stat.version for stat in stats] == [0] * 1500 + [1] * 1500
    assert len(await store.children("/")) == 1500


async def test_a_client_that_fell_behind_forgets_what_it_knows(opened):
    """It does not poll, and the changes that it has not seen are no longer kept when it looks."""
    slow = await opened(poll_interval_ms=3_600_000, kept_changes=10)
    other = await opened(kept_changes=10)
    events, forgotten, changes = Heard.session_events(slow), Heard(), Heard.changes(slow)
    slow.add_invalidator(forgotten.hear)
    await asyncio.gather(*(other.put(f"/{number}", b"") for number in range(2000)))
    await slow.put("/own", b"")
    assert events.told == [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]
    assert forgotten.told[0] is None
    assert changes.told[-1] == Notification(NotificationType.CREATED, "/own")
    assert len(changes.told) < 20


async def test_what_is_read_does_not_wait_for_what_is_written(path, opened, monkeypatch):
    """Also if both were asked for at once, while another process keeps everybody from writing."""
    store = await opened()
    await store.put("/a", b"1")
    take = store._worker._take

    def take_both(wait_s):
        operations = take(wait_s)
        while [operation.name for operation in operations] == ["get"]:
            operations += take(1.0)
        return operations

    monkeypatch.setattr(store._worker, "_take", take_both)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    reading, writing = asyncio.create_task(store.get("/a")), asyncio.create_task(store.put("/b", b""))
    assert (await reading).value == b"1"
    assert not writing.done()
    other.execute("ROLLBACK")
    other.close()
    await writing


async def test_a_short_stall_is_waited_out(path, opened):
    """Another process has the write lock for a while; only time is lost."""
    store = await opened(session_timeout_ms=5000)
    events = Heard.session_events(store)
    hinderer = sqlite3.connect(path, isolation_level=None)
    hinderer.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(0.2, hinderer.execute, "COMMIT")
    assert (await store.put("/key", b"")).version == 0
    assert events.told == []
    hinderer.close()


async def test_a_long_stall_loses_the_connection_then_the_session_and_both_come_back(path, opened):
    store = await opened(session_timeout_ms=1000)
    events = Heard.session_events(store)
    await store.put("/ephemeral", b"", ephemeral=True)
    hinderer = sqlite3.connect(path, isolation_level=None)
    hinderer.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError):
        await store.put("/key", b"")
    assert (await store.get("/ephemeral")).value == b""
    await events.until_heard(SessionEvent.SESSION_LOST)
    with pytest.raises(MetadataError):
        await store.put("/key", b"")
    hinderer.execute("COMMIT")
    hinderer.close()
    told = await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    assert told == [
        SessionEvent.CONNECTION_LOST,
        SessionEvent.SESSION_LOST,
        SessionEvent.RECONNECTED,
        SessionEvent.SESSION_REESTABLISHED,
    ]
    assert await store.get("/ephemeral") is None
    assert (await store.put("/key", b"", ephemeral=True)).created_by_self


async def test_when_the_disk_is_full_writes_fail_and_go_on_when_there_is_room(opened):
    """The limit on SQLite's pages represents that of the disk; stored data stays readable, also during the fault."""
    store, big = await opened(), bytes(2 * FREE_ROOM)
    await store.put("/key", b"1")

    async def limit_pages(to):
        await store._submit("limit", "/", lambda file: file._db.execute(f"PRAGMA max_page_count = {to}").fetchone())

    await limit_pages(1)  # SQLite takes that for the number of pages in use
    outcomes = await asyncio.gather(store.put("/big", big), store.put("/small", b""), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, StoreUnavailableError]
    assert "full" in str(outcomes[0])
    assert (await store.get("/key")).value == b"1"
    assert await store.children("/") == ["key"]
    assert (await store.put("/key", b"2")).version == 1
    await limit_pages(1_000_000)
    assert (await store.put("/big", big)).version == 0


def test_a_store_that_was_never_closed_ends_with_its_loop(path):
    """And its ephemeral keys with it."""

    async def leave():
        store = await SqliteStore.open(path, session_timeout_ms=1000)
        await store.put("/key", b"", ephemeral=True)

    asyncio.run(leave())

    async def look():
        async with asyncio.timeout(20):
            store = await SqliteStore.open(path)

            async def is_gone():
                return not await store.exists("/key")

            await eventually(is_gone)
            await store.close()

    asyncio.run(look())


async def test_callbacks_run_on_the_event_loops_own_thread(opened):
    """[testThreadSwitchOfZkMetadataStore]"""
    store, threads = await opened(), []
    store.add_listener(lambda _: threads.append(threading.current_thread()))
    await store.put("/key", b"")
    assert threads == [threading.current_thread()]


def test_a_session_file_is_abandoned_once_its_holder_is_gone(tmp_path):
    held, left = SessionFile(tmp_path), SessionFile(tmp_path)
    assert not is_abandoned(tmp_path, held.name)
    left.abandon()
    assert is_abandoned(tmp_path, left.name)
    assert not is_abandoned(tmp_path, "missing")
    also_left = SessionFile(tmp_path)
    also_left.abandon()
    remove_abandoned(tmp_path, keep={also_left.name})
    assert {entry.name for entry in tmp_path.iterdir()} == {held.name, also_left.name}
    held.close()
    held.close()
    assert {entry.name for entry in tmp_path.iterdir()} == {also_left.name}
