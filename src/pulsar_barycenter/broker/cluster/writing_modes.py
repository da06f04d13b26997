"""Prevents that brokers which write metadata themselves run together with brokers for which the leader writes.

| this broker                      | there is                                              | result                    |
|----------------------------------|-------------------------------------------------------|---------------------------|
| `leaderOnlyMetadataWrites=true`  | a broker that is registered by a session of the store | refused: it writes, too   |
|                                  | a leader that is elected at another path              | refused: two would write  |
| any other value                  | a session that a leader granted                       | refused: both would write |

A broker checks this after it has its own session or registration. So if two brokers start at once, one sees the other.
"""

import asyncio

from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.start_errors import MixedWritersError
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.leader_writes.leased_values import split_lease
from pulsar_barycenter.metadata.leader_writes.session_records import SESSIONS_ROOT
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.counted import count_of

_AGAIN_S = 0.5


async def refuse_direct_writers(store: MetadataStore, leader_path: str, *, within_s: float) -> None:
    """Check that no running broker writes metadata itself: all brokers must let the leader of the election at
    `leader_path` write.

    This waits up to `within_s` seconds for the keys of brokers that have ended to expire.

    Raises:
        MixedWritersError: brokers that write themselves are running.
        MetadataError: the store did not answer.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while others := await _direct_writers(store, leader_path):
        if loop.time() >= deadline_s:
            raise MixedWritersError("true", others)
        await asyncio.sleep(_AGAIN_S)


async def refuse_leader_writers(store: MetadataStore, *, within_s: float) -> None:
    """Check that there is no broker for which the leader writes. If the store does not answer, try again for up to
    `within_s` seconds.

    Raises:
        MixedWritersError: there is a session that a leader granted.
        MetadataError: the store did not answer.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while True:
        try:
            sessions = await store.children(SESSIONS_ROOT)
        except StoreUnavailableError:
            if loop.time() >= deadline_s:
                raise
            await asyncio.sleep(_AGAIN_S)
        else:
            break
    if sessions:
        raise MixedWritersError("false", [f"{count_of(len(sessions), 'session')} at {SESSIONS_ROOT}"])


async def _direct_writers(store: MetadataStore, leader_path: str) -> list[str]:
    found = []
    for broker in await store.children(BROKERS_ROOT):
        record = await store.get(f"{BROKERS_ROOT}/{broker}")
        if record is not None and split_lease(record.value)[0] is None:
            found.append(broker)
    other_path = LEADER_PATH if leader_path == CHANNEL_LEADER_PATH else CHANNEL_LEADER_PATH
    if await store.exists(other_path):
        found.append(f"the leader at {other_path}")
    return found
