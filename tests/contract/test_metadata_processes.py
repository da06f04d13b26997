"""Several real processes on one metadata store that supports them: what happens when one is killed or stopped."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.metadata_backends import Heard, InEtcd, InOxia, InSqlite, InZooKeeper, open_backend
from support.metadata_process import ProcessClient

LONG_MS = 600_000
Shared: TypeAlias = InSqlite | InEtcd | InOxia | InZooKeeper
Start: TypeAlias = Callable[[int], Awaitable[ProcessClient]]


@pytest.fixture(params=["sqlite", "etcd", "oxia", "zookeeper"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shared]:
    async with open_backend(request.param, tmp_path) as backend:
        assert isinstance(backend, InSqlite | InEtcd | InOxia | InZooKeeper)
        yield backend


@pytest.fixture
async def start(shared: Shared) -> AsyncIterator[Start]:
    """Start a process that has a client with this session timeout in milliseconds."""
    started = []

    async def start(session_timeout_ms: int) -> ProcessClient:
        client = await ProcessClient.start(shared.store_url, session_timeout_ms)
        started.append(client)
        return client

    yield start
    for client in started:
        await client.end()


async def test_a_stopped_process_loses_its_keys_and_finds_out_when_it_goes_on(shared: Shared, start: Start) -> None:
    """It receives the four events in order, its caches are dropped first, and it has a new session."""
    store = await shared.connect(LONG_MS)
    process = await start(1_000)
    await process.do("put", path="/key", value="1", ephemeral=True)
    assert await process.do("cached", path="/key") == 1
    changes = Heard.changes(store)
    process.signal(signal.SIGSTOP)
    await changes.until_heard(Notification(NotificationType.DELETED, "/key"))
    await store.put("/key", b"2")
    process.signal(signal.SIGCONT)
    assert await process.until_told("session_reestablished") == [
        "connection_lost",
        "session_lost",
        "caches dropped",
        "reconnected",
        "caches dropped",
        "session_reestablished",
    ]
    assert await process.do("cached", path="/key") == 2
    assert await process.do("put", path="/mine", value="", ephemeral=True) == 0
    process.signal(signal.SIGKILL)
    await changes.until_heard(Notification(NotificationType.DELETED, "/mine"))


async def test_what_a_stopped_process_writes_first_thing_is_refused(shared: Shared, start: Start) -> None:
    """The write waits in its input when it continues. It belongs to the session that ended meanwhile, or to the next
    one if that existed first, but never to both. Over a connection that the server closed meanwhile its outcome is
    unknown."""
    store = await shared.connect(LONG_MS)
    process = await start(1_000)
    await process.do("put", path="/key", value="1", ephemeral=True)
    changes = Heard.changes(store)
    process.signal(signal.SIGSTOP)
    await changes.until_heard(Notification(NotificationType.DELETED, "/key"))
    await store.put("/key", b"theirs", ephemeral=True)
    writing = asyncio.ensure_future(process.do("put", path="/late", value="", ephemeral=True))
    await asyncio.sleep(0)
    process.signal(signal.SIGCONT)
    outcome = await writing
    await process.until_told("session_reestablished")
    assert outcome in ("SessionLostError", "StoreUnavailableError", 0)
    assert await store.exists("/late") == (outcome == 0)
    assert (await store.get("/key")).value == b"theirs"


async def test_three_processes_count_without_losing_one(shared: Shared, start: Start) -> None:
    store = await shared.connect(LONG_MS)
    processes = await asyncio.gather(*(start(LONG_MS) for _ in range(3)))
    await store.put("/counter", b"0")
    conflicts = await asyncio.gather(*(process.do("count", path="/counter", times=100) for process in processes))
    assert (await store.get("/counter")).value == b"300"
    assert all(isinstance(each, int) for each in conflicts)
    assert [process.told for process in processes] == [[], [], []]
