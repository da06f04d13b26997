"""Follows the changes in etcd from revision to revision, whichever server reports them.

After a lost connection the watch continues after the last revision that was reported, so nothing is missed. If the
servers have compacted changes meanwhile, these are missed: then the watch continues from the current revision and
reports that (`on_missed`). It does the same if the servers have a lower revision than before, as after a restore from a
copy.

A server that has lost contact to the other servers ends the watch (`hasleader`). Otherwise it would report nothing and
no error.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.etcd_connection import EtcdChannel, EtcdConnection, translated
from pulsar_barycenter.metadata.etcd.layout import Layout
from pulsar_barycenter.metadata.grpc_client.failure_log import FailureLog
from pulsar_barycenter.metadata.store import Notification, NotificationType

RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
LOOK_S: Final = 5.0
"""The number of seconds that the servers may take to return their current revision."""
_NEEDS_LEADER: Final = (("hasleader", "true"),)


class EtcdWatch:
    """Receives the changes of the keys of a store from etcd. `on_changes` is called with them, in order. `on_missed` is
    called when this client has missed changes, because etcd does not have them any more.
    """

    def __init__(
        self,
        connection: EtcdConnection,
        layout: Layout,
        *,
        on_changes: Callable[[list[Notification]], None],
        on_missed: Callable[[], None],
        source: random.Random,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._on_changes = on_changes
        self._on_missed = on_missed
        self._next: int | None = None
        """The first revision that was not reported yet; None before the first read, and when it was compacted."""
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._failures = FailureLog()
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when changes are followed for the first time; has an exception if they never will be."""

    async def run(self) -> None:
        """Receive changes until cancelled. If the servers refuse the first attempt, set an exception in `begun`, and
        return. After any other failure, use the next server and try again.
        """
        while True:
            line = self._connection.line
            try:
                await self._follow(line)
            except MetadataError as error:
                if isinstance(error, StoreRefusedError) and not self.begun.done():
                    self.begun.set_exception(error)
                    return
                self._failures.failed("watch", line.endpoint, error)
                self._connection.leave(line)
                await asyncio.sleep(self._back_off.next_s())

    async def _follow(self, line: EtcdChannel) -> None:
        """Receive changes on the channel `line`, and report them. Return when the server has deleted (compacted)
        changes that were not reported yet.

        Raises:
            MetadataError: the server did not answer, refused the watch, or ended it.
        """
        await self._find_revision()
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
                        if answer.canceled:  # an unknown token looks like missing permissions
                            self._connection.forget(tokens)
                            raise StoreRefusedError("/", f"etcd refused the watch for changes: {answer.cancel_reason}")
                        self._back_off.reset()
                        self._failures.recovered("watch", line.endpoint)
                        if answer.created and not self.begun.done():
                            self.begun.set_result(None)
                        self._take(answer)
                finally:
                    call.cancel()
        raise StoreUnavailableError("/", "the server ended the watch of changes; the broker starts the watch again")

    async def _find_revision(self) -> None:
        """Determine the revision from which to receive changes: the one after the last reported change. If etcd does
        not have the changes from there on any more, continue with the next change, and call `on_missed`.
        """
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
                self._on_missed()

    def _take(self, answer: api.WatchResponse) -> None:
        changes = []
        for event in answer.events:
            path = self._layout.path(event.kv.key)
            if path is not None:
                changes.append(Notification(_kind(event), path))
        if answer.events:  # the rest of a revision comes with the next answer, or again
            self._next = answer.events[-1].kv.mod_revision + (0 if answer.fragment else 1)
        elif not answer.created:  # nothing happened up to this revision
            self._next = max(self._next or 0, answer.header.revision + 1)
        if changes:
            self._on_changes(changes)


def _kind(event: api.Event) -> NotificationType:
    if event.type == api.Event.DELETE:
        return NotificationType.DELETED
    return NotificationType.CREATED if event.kv.version == 1 else NotificationType.MODIFIED
