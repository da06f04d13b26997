"""Real processes on one SQLite store that are killed or end; the contract suite covers what all stores guarantee."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest

from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.metadata_backends import Heard
from support.metadata_process import ProcessClient


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.db"


@pytest.fixture
async def start(path):
    started = []

    async def start(session_timeout_ms):
        client = await ProcessClient.start(f"sqlite:{path}", session_timeout_ms)
        started.append(client)
        return client

    yield start
    for client in started:
        await client.end()


@asynccontextmanager
async def observer(path):
    store = await SqliteStore.open(path)
    try:
        yield store
    finally:
        await store.close()


async def test_a_killed_processs_keys_vanish_long_before_its_session_times_out(path, start):
    """Its session would last ten minutes; the lock on its session file shows that the process is gone."""
    async with observer(path) as store:
        process = await start(600_000)
        await process.do("put", path="/key", value="1", ephemeral=True)
        changes = Heard.changes(store)
        process.signal(signal.SIGKILL)
        await changes.until_heard(Notification(NotificationType.DELETED, "/key"))
        assert not await store.exists("/key")
        assert await store.exists("/") is False
        assert len(list((path.parent / "metadata.db-sessions").iterdir())) == 1


async def test_the_leavings_of_processes_that_died_alone_are_gone_for_the_next(path, start):
    process = await start(600_000)
    await process.do("put", path="/key", value="1", ephemeral=True)
    await process.do("put", path="/lasting", value="1")
    process.signal(signal.SIGKILL)
    await process.process.wait()
    async with observer(path) as store:
        assert await store.children("/") == ["lasting"]


async def test_a_process_that_ends_in_order_takes_its_keys_along(path, start):
    async with observer(path) as store:
        process = await start(600_000)
        await process.do("put", path="/key", value="1", ephemeral=True)
        process.process.stdin.close()
        await process.process.wait()
        assert not await store.exists("/key")


async def test_processes_that_open_a_new_file_at_the_same_time_all_get_it(path, start):
    processes = await asyncio.gather(*(start(30_000) for _ in range(4)))
    for number, process in enumerate(processes):
        await process.do("put", path=f"/{number}", value=str(number))
    assert [await process.do("get", path="/3") for process in processes] == ["3"] * 4
