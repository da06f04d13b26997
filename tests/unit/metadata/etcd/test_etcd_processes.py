"""A real process on an etcd that is killed; the contract suite covers what all stores guarantee."""

import signal

import pytest

from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.metadata_backends import Heard, InEtcd
from support.metadata_process import ProcessClient

LONG_MS = 600_000


@pytest.fixture
async def backend(tmp_path):
    backend = InEtcd(tmp_path)
    yield backend
    await backend.close()


@pytest.fixture
async def start(backend):
    started = []

    async def start(session_timeout_ms):
        client = await ProcessClient.start(f"etcd:{backend.url}", session_timeout_ms)
        started.append(client)
        return client

    yield start
    for client in started:
        await client.end()


async def test_a_killed_processs_keys_vanish_with_its_lease(backend, start):
    store = await backend.connect(LONG_MS)
    process = await start(1_000)
    await process.do("put", path="/key", value="1", ephemeral=True)
    await process.do("put", path="/lasting", value="1")
    changes = Heard.changes(store)
    process.signal(signal.SIGKILL)
    await changes.until_heard(Notification(NotificationType.DELETED, "/key"))
    assert await store.children("/") == ["lasting"]
