"""Three servers that form one store: a client continues with another when its own dies, hangs, or loses its leader."""

import asyncio
import signal
from contextlib import asynccontextmanager

from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.etcd.etcd_settings import read_settings
from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore
from pulsar_barycenter.metadata.store import Notification, NotificationType, SessionEvent
from support.etcd_server import etcd_ensemble
from support.metadata_backends import Heard, eventually

LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED


@asynccontextmanager
async def client_of(*servers):
    store = await EtcdStore.open(
        read_settings(",".join(server.url for server in servers)), session_timeout_ms=60_000, operation_timeout_s=10.0
    )
    try:
        yield store
    finally:
        await store.close()


async def put_at_last(store, path):
    """Put as soon as a server takes it."""

    async def put():
        try:
            return await store.put(path, b"", ephemeral=True)
        except StoreUnavailableError:
            return None

    return await eventually(put)


async def test_a_client_outlives_the_leader_and_a_server_that_hangs(tmp_path):
    """Its session, its keys and the order of changes continue; it is notified when a server did not answer."""
    with etcd_ensemble(tmp_path) as servers:
        leader = next(server for server in servers if server.is_leader())
        followers = [server for server in servers if server is not leader]
        async with client_of(leader, *followers) as store, client_of(*followers) as other:
            session = store.session
            store.keeper.timeout_s = 3  # heartbeats are given up soon
            await store.put("/mine", b"", ephemeral=True)
            events, heard = Heard.session_events(store), Heard.changes(store)
            leader.kill()
            store.keeper.beat_now()  # a heartbeat now
            await put_at_last(store, "/after/leader")
            await put_at_last(other, "/of/other")
            await heard.until_heard(Notification(NotificationType.CREATED, "/of/other"))
            assert store.session == session
            assert (await store.get("/mine")).stat.created_by_self

            leader.start()
            assert await asyncio.to_thread(leader.wait_ready)
            hanging = next(server for server in servers if server.endpoint == store.connection.line.endpoint)
            hanging.signal(signal.SIGSTOP)
            store.keeper.beat_now()
            await eventually(lambda: store.connection.line.endpoint != hanging.endpoint)
            await put_at_last(store, "/after/hanging")
            await heard.until_heard(Notification(NotificationType.CREATED, "/after/hanging"))
            await events.until(lambda told: told[-1:] == [BACK])
            hanging.signal(signal.SIGCONT)
            assert store.session == session
            assert await store.exists("/mine")
            assert not store.session_is_overdue
            assert events.told == [LOST, BACK] * (len(events.told) // 2)
