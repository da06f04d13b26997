"""Three servers, whose leader is killed."""

import asyncio

from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from support.metadata_backends import Heard
from support.zookeeper_server import zookeeper_ensemble


async def test_sessions_keys_and_watches_outlive_the_leader_of_the_ensemble(tmp_path):
    with zookeeper_ensemble(tmp_path) as servers:
        leader = next(server for server in servers if server.is_leader)
        follower = next(server for server in servers if server is not leader)
        everywhere = ",".join(server.endpoint for server in servers)
        stores = [
            await ZooKeeperStore.open(endpoints, session_timeout_ms=60_000)
            for endpoints in (everywhere, f"{leader.endpoint},{follower.endpoint}")
        ]
        events = [Heard.session_events(store) for store in stores]
        for number, store in enumerate(stores):
            await store.put(f"/mine/{number}", b"", ephemeral=True)
        leader.kill()
        for heard in events:
            await heard.until_heard(SessionEvent.RECONNECTED)
        for number, store in enumerate(stores):
            assert (await store.get(f"/mine/{number}")).stat.created_by_self
            assert await store.put("/after", b"")
        for heard in events:
            assert SessionEvent.SESSION_LOST not in heard.told
        await asyncio.gather(*(store.close() for store in stores))
