"""What changes in the store, followed from write to write, whichever server leads.

After the connection broke, following goes on behind the last write that was told, so nothing is missed, as long as the
servers keep what changed (an hour, unless they are told otherwise). They do not say so if they did not. After a silence
of MISSED_AFTER_S following goes on from now, and that is told (`missed`). Likewise if the servers know less than they
did, as after a restore from a copy, if the shard is another, and when somebody deletes a range of keys, which comes as
one change.

Each session writes at its heartbeats, so a server that tells nothing for a session's time is left.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.connection import Leader, NobodyLeadsError, OxiaConnection, OxiaLine, translated
from pulsar_barycenter.metadata.oxia.layout import Layout
from pulsar_barycenter.metadata.oxia.session import ending
from pulsar_barycenter.metadata.rpc.troubles import Troubles
from pulsar_barycenter.metadata.store import Notification, NotificationType

RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
LOOK_S: Final = 5.0
"""How long a server may take to say at which write it is."""
MISSED_AFTER_S: Final = 300.0
_TYPES: Final = {
    api.KEY_CREATED: NotificationType.CREATED,
    api.KEY_MODIFIED: NotificationType.MODIFIED,
    api.KEY_DELETED: NotificationType.DELETED,
}


class OxiaWatch:
    """Follows the changes of a store: `hear` gets each with the version id that the key has now, all in their order;
    `missed` is called when some were missed."""

    def __init__(
        self,
        connection: OxiaConnection,
        layout: Layout,
        *,
        silence_s: float,
        hear: Callable[[Notification, int | None], None],
        missed: Callable[[], None],
        source: random.Random,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._silence_s = silence_s
        self._hear = hear
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self._told: tuple[int, int] | None = None
        """The shard, and the offset in it that was told last; None before the first."""
        self._told_at_s = self._loop.time()
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._troubles = Troubles()
        self.begun: asyncio.Future[None] = self._loop.create_future()
        """Done when changes are followed for the first time, or with the reason for which they never will be."""

    async def run(self) -> None:
        """Follow for ever, or until the servers refuse the first time."""
        while True:
            line = self._connection.line
            try:
                await self._follow(line)
            except (MetadataError, NobodyLeadsError) as raised:
                error = raised if isinstance(raised, MetadataError) else StoreUnavailableError("/", str(raised))
                if isinstance(error, StoreRefusedError) and not self.begun.done():
                    self.begun.set_exception(error)
                    return
                self._troubles.failing("watch", line.endpoint, error)
                self._connection.leave(line)
                await asyncio.sleep(self._back_off.next_s())

    async def _follow(self, line: OxiaLine) -> None:
        with translated("watch", "/"):
            async with line.used():
                leader = await line.leader()
                request = api.NotificationsRequest(shard=leader.shard, start_offset_exclusive=await self._look(leader))
                call = leader.stub.GetNotifications(request, metadata=leader.tokens)
                async with ending(call):
                    if not self.begun.done():
                        self.begun.set_result(None)
                    while isinstance(batch := await self._next(call.read()), api.NotificationBatch):
                        self._back_off.reset()
                        self._troubles.working("watch", line.endpoint)
                        self._take(leader.shard, batch)
        raise StoreUnavailableError("/", "the server ended the watch")

    async def _look(self, leader: Leader) -> int:
        """Return the offset behind which to follow, and tell if that leaves some out."""
        call = leader.stub.GetNotifications(api.NotificationsRequest(shard=leader.shard), metadata=leader.tokens)
        async with ending(call), asyncio.timeout(LOOK_S):
            first = await call.read()
        if not isinstance(first, api.NotificationBatch):
            raise StoreUnavailableError("/", "the server does not say at which write it is")
        is_followed = (
            self._told is not None
            and self._told[0] == leader.shard
            and self._told[1] <= first.offset
            and self._loop.time() - self._told_at_s < MISSED_AFTER_S
        )
        if self._told is None or not is_followed:
            is_first, self._told = self._told is None, (leader.shard, first.offset)
            self._told_at_s = self._loop.time()
            if not is_first:
                self._missed()
        return self._told[1]

    async def _next(self, read: Awaitable[object]) -> object:
        async with asyncio.timeout(self._silence_s):
            return await read

    def _take(self, shard: int, batch: api.NotificationBatch) -> None:
        changes = []
        for entry in batch.notifications:
            path = self._layout.path(entry.key)
            if entry.value.type == api.KEY_RANGE_DELETED:
                self._missed()
            elif path is not None:
                version_id = entry.value.version_id if entry.value.HasField("version_id") else None
                changes.append((Notification(_TYPES[entry.value.type], path), version_id))
        self._told, self._told_at_s = (shard, batch.offset), self._loop.time()
        for change, version_id in sorted(changes, key=lambda each: each[0].path):
            self._hear(change, version_id)
