"""What changes in the store, followed from revision to revision, whichever server tells it.

After the connection broke, following goes on behind the last revision that was told, so nothing is missed. Only what
the servers have compacted away meanwhile is: then it goes on from now, and that is told (`missed`). Likewise if the
servers know less than they did, as after a restore from a copy.

A server that has lost the others ends the watch, instead of telling nothing.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.connection import EtcdConnection, EtcdLine, translated
from pulsar_barycenter.metadata.etcd.layout import Layout
from pulsar_barycenter.metadata.rpc.troubles import Troubles
from pulsar_barycenter.metadata.store import Notification, NotificationType

RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
LOOK_S: Final = 5.0
"""How long the servers may take to say which revision they are at."""
_NEEDS_LEADER: Final = (("hasleader", "true"),)


class EtcdWatch:
    """Follows the changes of a store: `hear` gets them in their order, `missed` is called when some were missed."""

    def __init__(
        self,
        connection: EtcdConnection,
        layout: Layout,
        *,
        hear: Callable[[list[Notification]], None],
        missed: Callable[[], None],
        source: random.Random,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._hear = hear
        self._missed = missed
        self._next: int | None = None
        """The first revision that was not told yet; None before the first look, and when it has been compacted away."""
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._troubles = Troubles()
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when changes are followed for the first time, or with the reason for which they never will be."""

    async def run(self) -> None:
        """Follow for ever, or until the servers refuse the first time."""
        while True:
            line = self._connection.line
            try:
                await self._follow(line)
            except MetadataError as error:
                if isinstance(error, StoreRefusedError) and not self.begun.done():
                    self.begun.set_exception(error)
                    return
                self._troubles.failing("watch", line.endpoint, error)
                self._connection.leave(line)
                await asyncio.sleep(self._back_off.next_s())

    async def _follow(self, line: EtcdLine) -> None:
        """Return when changes were compacted away before they were told."""
        await self._look()
        first, end = self._layout.all
        create = api.WatchCreateRequest(
            key=first, range_end=end, start_revision=self._next or 0, progress_notify=True, fragment=True
        )
        with translated("watch", "/"):
            async with line.used():
                tokens = await self._connection.tokens()
                call = line.watch.Watch(metadata=(*tokens, *_NEEDS_LEADER))
                try:
                    await call.write(api.WatchRequest(create_request=create))
                    while isinstance(answer := await call.read(), api.WatchResponse):
                        if answer.compact_revision:
                            self._next = None
                            return
                        if answer.canceled:  # a token that is not known looks like rights that are not given
                            self._connection.forget(tokens)
                            raise StoreRefusedError("/", f"watch refused: {answer.cancel_reason}")
                        self._back_off.reset()
                        self._troubles.working("watch", line.endpoint)
                        if answer.created and not self.begun.done():
                            self.begun.set_result(None)
                        self._take(answer)
                finally:
                    call.cancel()
        raise StoreUnavailableError("/", "the server ended the watch")

    async def _look(self) -> None:
        """Have a revision to follow from, and tell if that leaves some out."""
        request = api.RangeRequest(key=self._layout.key("/"), count_only=True)
        answer = await self._connection.ask(
            "watch",
            "/",
            lambda line, tokens, s: line.kv.Range(request, metadata=tokens, timeout=s),
            timeout_s=LOOK_S,
            takes_turn=False,
        )
        after = answer.header.revision + 1
        if self._next is None or after < self._next:
            self._next = after
            if self.begun.done():
                self._missed()

    def _take(self, answer: api.WatchResponse) -> None:
        changes = []
        for event in answer.events:
            path = self._layout.path(event.kv.key)
            if path is not None:
                changes.append(Notification(_kind(event), path))
        if answer.events:  # the rest of a revision comes with the next answer, or again
            self._next = answer.events[-1].kv.mod_revision + (0 if answer.fragment else 1)
        elif not answer.created:  # nothing happened up to here
            self._next = max(self._next or 0, answer.header.revision + 1)
        if changes:
            self._hear(changes)


def _kind(event: api.Event) -> NotificationType:
    if event.type == api.Event.DELETE:
        return NotificationType.DELETED
    return NotificationType.CREATED if event.kv.version == 1 else NotificationType.MODIFIED
