"""Follows the changes in Oxia from write to write, whichever server leads the shard.

After a lost connection the watch continues after the last write that was reported. Nothing is missed as long as the
servers keep the changes (an hour by default), but they do not say when they have dropped some. So after a silence of
MISSED_AFTER_S the watch continues from the current write, and reports that changes may be missing (`on_missed`). It
does the same if the servers are at an earlier write than before, as after a restore from a copy; if the shard is
another one; and when a range of keys is deleted, which arrives as one change.

Each heartbeat is a write. So if a server reports no write for a session timeout, the watch continues at another server.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.grpc_client.failure_log import FailureLog
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import Layout
from pulsar_barycenter.metadata.oxia.oxia_connection import (
    Leader,
    NoLeaderError,
    OxiaChannel,
    OxiaConnection,
    translated,
)
from pulsar_barycenter.metadata.oxia.session import ending
from pulsar_barycenter.metadata.store import Notification, NotificationType

RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
LOOK_S: Final = 5.0
"""The number of seconds that a server may take to return the number of its last write."""
MISSED_AFTER_S: Final = 300.0
_TYPES: Final = {
    api.KEY_CREATED: NotificationType.CREATED,
    api.KEY_MODIFIED: NotificationType.MODIFIED,
    api.KEY_DELETED: NotificationType.DELETED,
}


class OxiaWatch:
    """Receives the changes of the keys of a store from Oxia. `on_change` is called with each change, in order, and with
    the version id that the key has after it (None: it was deleted). `on_missed` is called when this client has missed
    changes.
    """

    def __init__(
        self,
        connection: OxiaConnection,
        layout: Layout,
        *,
        silence_s: float,
        on_change: Callable[[Notification, int | None], None],
        on_missed: Callable[[], None],
        source: random.Random,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._silence_s = silence_s
        self._on_change = on_change
        self._on_missed = on_missed
        self._loop = asyncio.get_running_loop()
        self._reported: tuple[int, int] | None = None
        """The shard, and the offset in it that was reported last; None before the first."""
        self._reported_at_s = self._loop.time()
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._failures = FailureLog()
        self.begun: asyncio.Future[None] = self._loop.create_future()
        """Done when changes are followed for the first time; has an exception if they never will be."""

    async def run(self) -> None:
        """Receive changes until cancelled. If the servers refuse the first attempt, set an exception in `begun`, and
        return. After any other failure, use the next server and try again.
        """
        while True:
            line = self._connection.line
            try:
                await self._follow(line)
            except (MetadataError, NoLeaderError) as raised:
                error = raised if isinstance(raised, MetadataError) else StoreUnavailableError("/", str(raised))
                if isinstance(error, StoreRefusedError) and not self.begun.done():
                    self.begun.set_exception(error)
                    return
                self._failures.failed("watch", line.endpoint, error)
                self._connection.leave(line)
                await asyncio.sleep(self._back_off.next_s())

    async def _follow(self, line: OxiaChannel) -> None:
        with translated("watch", "/"):
            async with line.used():
                leader = await line.leader()
                request = api.NotificationsRequest(
                    shard=leader.shard, start_offset_exclusive=await self._find_offset(leader)
                )
                call = leader.stub.GetNotifications(request, metadata=leader.tokens)
                async with ending(call):
                    if not self.begun.done():
                        self.begun.set_result(None)
                    while isinstance(batch := await self._next(call.read()), api.NotificationBatch):
                        self._back_off.reset()
                        self._failures.recovered("watch", line.endpoint)
                        self._take(leader.shard, batch)
        raise StoreUnavailableError("/", "the server ended the watch of changes; the broker starts the watch again")

    async def _find_offset(self, leader: Leader) -> int:
        """Return the number (offset) of a write in the shard: the changes of all later writes are to be received. If
        earlier changes were not reported and are not available any more, call `on_missed`.
        """
        call = leader.stub.GetNotifications(api.NotificationsRequest(shard=leader.shard), metadata=leader.tokens)
        async with ending(call), asyncio.timeout(LOOK_S):
            first = await call.read()
        if not isinstance(first, api.NotificationBatch):
            raise StoreUnavailableError(
                "/", "the server ended the watch before it sent any change; the broker starts the watch again"
            )
        is_followed = (
            self._reported is not None
            and self._reported[0] == leader.shard
            and self._reported[1] <= first.offset
            and self._loop.time() - self._reported_at_s < MISSED_AFTER_S
        )
        if self._reported is None or not is_followed:
            is_first, self._reported = self._reported is None, (leader.shard, first.offset)
            self._reported_at_s = self._loop.time()
            if not is_first:
                self._on_missed()
        return self._reported[1]

    async def _next(self, read: Awaitable[object]) -> object:
        async with asyncio.timeout(self._silence_s):
            return await read

    def _take(self, shard: int, batch: api.NotificationBatch) -> None:
        changes = []
        for entry in batch.notifications:
            path = self._layout.path(entry.key)
            if entry.value.type == api.KEY_RANGE_DELETED:
                self._on_missed()
            elif path is not None:
                version_id = entry.value.version_id if entry.value.HasField("version_id") else None
                changes.append((Notification(_TYPES[entry.value.type], path), version_id))
        self._reported, self._reported_at_s = (shard, batch.offset), self._loop.time()
        for change, version_id in sorted(changes, key=lambda pair: pair[0].path):
            self._on_change(change, version_id)
