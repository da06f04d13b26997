"""Which brokers may run beside each other, by who writes the metadata.

| this broker                      | beside                                                   | allowed                |
|----------------------------------|----------------------------------------------------------|------------------------|
| `leaderOnlyMetadataWrites=true`  | a broker that registers by a session of the store itself | no: it writes, too     |
|                                  | a leader that is elected at another path                 | no: two would write    |
| any other                        | a session that a leader granted                          | no: it writes, too     |

A broker looks once its own session or registration is there, so that of two that start at once one sees the other.
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


async def refuse_who_writes_himself(store: MetadataStore, leader_path: str, *, within_s: float) -> None:
    """Look for brokers that do not leave writing to whoever leads at `leader_path`; of those that died the keys are
    waited for.

    Raises:
        MixedWritersError: there are some.
        MetadataError: the store did not answer.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while others := await _writers_of_their_own(store, leader_path):
        if loop.time() >= deadline_s:
            raise MixedWritersError("true", others)
        await asyncio.sleep(_AGAIN_S)


async def refuse_beside_leased(store: MetadataStore, *, within_s: float) -> None:
    """Look for brokers that leave writing to the leader; a store that is silent, as while it elects, is asked again.

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


async def _writers_of_their_own(store: MetadataStore, leader_path: str) -> list[str]:
    found = []
    for broker in await store.children(BROKERS_ROOT):
        record = await store.get(f"{BROKERS_ROOT}/{broker}")
        if record is not None and split_lease(record.value)[0] is None:
            found.append(broker)
    other_path = LEADER_PATH if leader_path == CHANNEL_LEADER_PATH else CHANNEL_LEADER_PATH
    if await store.exists(other_path):
        found.append(f"the leader at {other_path}")
    return found
