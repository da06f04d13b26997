"""Three servers that form one Oxia: a client finds the leader, and continues with another when that dies or hangs."""

import asyncio
import signal
from contextlib import asynccontextmanager, suppress

import grpc

from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings
from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore
from pulsar_barycenter.metadata.store import Notification, NotificationType, SessionEvent
from support.metadata_backends import Heard, eventually
from support.oxia_server import leader_of, oxia_ensemble

LOST, BACK = SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED


@asynccontextmanager
async def client_of(*servers):
    endpoints = ",".join(server.endpoint for server in servers)
    store = await OxiaStore.open(
        read_settings(f"//{endpoints}/default/blue"), session_timeout_ms=60_000, operation_timeout_s=10.0
    )
    try:
        yield store
    finally:
        await store.close()


def is_led(server):
    """Whether a restarted server knows the leader."""
    with suppress(grpc.RpcError):
        return server.leader()


async def put_at_last(store, path):
    """Put as soon as a server takes it."""

    async def put():
        try:
            return await store.put(path, b"", ephemeral=True)
        except StoreUnavailableError:
            return None

    return await eventually(put)


async def test_a_client_outlives_the_leader_and_one_that_hangs(tmp_path):
    """Its session, its keys and the order of changes continue; it is notified when a server did not answer."""
    with oxia_ensemble(tmp_path) as servers:
        for signalled in (signal.SIGKILL, signal.SIGSTOP):
            leader = await eventually(lambda: asyncio.to_thread(leader_of, servers))
            followers = [server for server in servers if server is not leader]
            async with client_of(*followers, leader) as store, client_of(*followers) as other:
                session = store.session
                for client in (store, other):
                    client.keeper.timeout_s = 3  # heartbeats are given up soon
                await store.put("/mine", b"", ephemeral=True)
                events, heard = Heard.session_events(store), Heard.changes(store)
                leader.signal(signalled)
                for client in (store, other):
                    client.keeper.beat_now()  # a heartbeat now
                await put_at_last(store, "/after")
                await put_at_last(other, "/of/other")
                await heard.until_heard(Notification(NotificationType.CREATED, "/of/other"))
                assert store.session == session
                assert (await store.get("/mine")).stat.created_by_self
                await events.until(lambda told: told[-1:] == [BACK])
                assert events.told == [LOST, BACK] * (len(events.told) // 2)
                assert not store.session_is_overdue
                if signalled is signal.SIGKILL:
                    leader.kill()
                    leader.start()
                    assert await asyncio.to_thread(leader.wait_ready)
                    await eventually(lambda server=leader: asyncio.to_thread(is_led, server))
                else:
                    leader.signal(signal.SIGCONT)
