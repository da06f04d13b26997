"""A SQLite store in trouble: nobody waits for ever, the log is short, and a full disk leaves it room to live on."""

import asyncio
import errno
import sqlite3

import pytest
import structlog

from barycenter.metadata import sqlite_worker
from barycenter.metadata.errors import StoreClosedError, StoreUnavailableError
from barycenter.metadata.sqlite_store import SqliteStore
from barycenter.metadata.store import SessionEvent
from support.metadata_backends import Heard


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
