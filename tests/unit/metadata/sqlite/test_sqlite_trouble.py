"""A SQLite store with faults: no caller waits for ever, the log is short, and a full disk leaves room to recover."""

import asyncio
import errno
import shutil
import sqlite3
import threading

import pytest
import structlog

from pulsar_barycenter.metadata.errors import StoreClosedError, StoreUnavailableError
from pulsar_barycenter.metadata.sqlite import sqlite_worker
from pulsar_barycenter.metadata.sqlite.sqlite_file import FREE_ROOM, LOG_ROOM, SqliteFile
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import SessionEvent
from support.metadata_backends import Heard, eventually


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.db"


@pytest.fixture
async def store(path):
    store = await SqliteStore.open(path, session_timeout_ms=1000)
    yield store
    await store.close()


class LogOnFullDisk:
    def __getattr__(self, name):
        def refuse(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        return refuse


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_when_the_thread_dies_nobody_waits_for_it(store, monkeypatch):
    """It dies of an error that it does not expect, cannot even log it, and an operation has no answer yet."""
    events = Heard.session_events(store)
    monkeypatch.setattr(sqlite_worker, "log", LogOnFullDisk())

    def fail(_):
        raise RuntimeError("not foreseen")

    async with asyncio.timeout(20):
        with pytest.raises(StoreUnavailableError):
            await store._submit("fail", "/", fail)
        with pytest.raises(StoreClosedError):
            await store.get("/key")
        await store.close()
    assert events.told == [SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST]


def test_a_file_that_another_process_is_setting_up_is_waited_for(path, monkeypatch):
    """Brokers that start together find a new file locked for a moment, whatever they read of it first. It may take
    longer than any transaction."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    real, release = SqliteFile._user_version, threading.Timer(0.05, lambda: other.execute("ROLLBACK"))

    def while_it_is_set_up(self):
        if not release.is_alive() and not release.finished.is_set():
            other.execute("BEGIN EXCLUSIVE")
            release.start()
        return real(self)

    monkeypatch.setattr(SqliteFile, "_user_version", while_it_is_set_up)
    SqliteFile(path, patience_s=0.01, kept_changes=1000).close()
    release.join()
    other.close()


async def test_whatever_prevents_opening_is_told_to_who_opens(path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(sqlite_worker, "SqliteFile", fail)
    with pytest.raises(StoreUnavailableError, match="not foreseen"):
        await SqliteStore.open(path)


async def test_heartbeats_that_fail_are_logged_once_and_once_when_they_are_back(path, store):
    events = Heard.session_events(store)
    hinderer = sqlite3.connect(path, isolation_level=None)
    with structlog.testing.capture_logs() as logs:
        hinderer.execute("BEGIN IMMEDIATE")
        await events.until_heard(SessionEvent.SESSION_LOST)
        hinderer.execute("COMMIT")
        hinderer.close()
        await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    told = [line["event"] for line in logs if line.get("what") == "heartbeat"]
    assert told == ["metadata_store_trouble", "metadata_store_trouble_over"]


def blocks_of(path):
    """Bytes that the disk has given to the file, which may be fewer than it is long."""
    return path.stat().st_blocks * 512


async def test_the_log_has_its_room_from_the_start_and_keeps_it(path, store):
    """Through more writes than fit into it, so that SQLite starts again at its beginning, and another's coming
    and going."""
    log = path.with_name(path.name + "-wal")
    assert blocks_of(log) >= LOG_ROOM
    for number in range(40):
        await store.put("/key", bytes([number]) * (LOG_ROOM // 16))
    assert log.stat().st_size == LOG_ROOM
    other = await SqliteStore.open(path)
    assert (await other.get("/key")).stat.version == 39
    await other.close()
    assert blocks_of(log) >= LOG_ROOM


async def test_after_a_crash_the_room_that_the_log_never_used_is_not_taken_for_content(path, store, tmp_path):
    await store.put("/key", b"1")
    await store.put("/key", b"2")
    (tmp_path / "after crash").mkdir()
    for name in (path.name, path.name + "-wal"):
        shutil.copy(tmp_path / name, tmp_path / "after crash" / name)
    recovered = await SqliteStore.open(tmp_path / "after crash" / path.name)
    assert (await recovered.get("/key")).value == b"2"
    assert (await recovered.put("/key", b"3")).version == 2
    await recovered.close()


async def test_small_writes_do_not_grow_the_file(path, store):
    """It has free pages that the disk has given blocks for."""
    size = path.stat().st_size
    assert blocks_of(path) >= FREE_ROOM
    await asyncio.gather(*(store.put(f"/{number}", bytes(100)) for number in range(1000)))
    await store._submit("checkpoint", "/", lambda file: file._db.execute("PRAGMA wal_checkpoint").fetchone())
    assert path.stat().st_size == size


async def test_used_up_room_is_renewed_while_the_store_is_open(store):
    async def free_bytes():
        return 4096 * await store._submit("free", "/", lambda file: file._pragma("freelist_count"))

    await asyncio.gather(*(store.put(f"/{number}", bytes(FREE_ROOM // 8)) for number in range(8)))
    assert await free_bytes() < FREE_ROOM // 2
    store._worker._next_room_s = 0.0

    async def is_renewed():
        return await free_bytes() > FREE_ROOM // 2

    await eventually(is_renewed)
    assert (await store.get("/7")).value == bytes(FREE_ROOM // 8)


def test_opening_adds_free_pages_only_where_they_lack_and_leaves_nothing_else(path):
    def look():
        file = SqliteFile(path, patience_s=1, kept_changes=1000)
        database = file._db
        seen = (
            database.execute("PRAGMA page_count").fetchone()[0],
            database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'room'").fetchone()[0],
        )
        file.close()
        return seen

    first = look()
    assert first[1] == 0
    assert look() == first
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE room (content BLOB)")  # as an opening that was cut short leaves it
    database.close()
    assert look() == first


async def test_a_disk_that_is_full_already_does_not_prevent_opening(path, store, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    other = await SqliteStore.open(path)
    assert (await other.put("/key", b"")).version == 0
    await other.close()
