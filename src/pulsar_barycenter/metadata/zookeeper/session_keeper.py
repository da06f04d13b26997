"""Keeps a session with ZooKeeper alive, and opens another one when it is lost.

The heartbeat is a `sync` request. The leader of ZooKeeper's servers answers it, so a server that has lost contact to
the others cannot keep a session alive. Heartbeats are sent fifteen times per session timeout, as in Pulsar. If the last
answered heartbeat was sent more than 5/6 of the timeout ago, the session is treated as lost, and is ended in case it
still exists.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog
from kazoo.exceptions import SessionExpiredError

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.listeners import StoreListeners
from pulsar_barycenter.metadata.session import SessionWatch
from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.metadata.zookeeper.layout import refusal_of
from pulsar_barycenter.metadata.zookeeper.session_link import SessionLink

log = structlog.get_logger(__name__)

_BEATS: Final = 15
"""Heartbeats per session timeout."""
_PATIENCE: Final = 1 / 3
"""If a heartbeat is not answered within this fraction of the session timeout, the connection counts as lost."""
_MIN_BEAT_S: Final = 0.02
_CLOSE_PATIENCE_S: Final = 5.0
"""How many seconds closing waits for a server that does not answer. The session then ends by its timeout."""


class SessionKeeper:
    """Keeps a session with ZooKeeper open: when it is lost, another one is opened, with a new `SessionLink`. All
    methods run on the event loop.

    Times are those of `time.monotonic`. The event loop's time is not used, because after a pause of the process it may
    still be the time before the pause.
    """

    def __init__(
        self,
        open_link: Callable[["SessionKeeper"], SessionLink],
        listeners: StoreListeners,
        on_event: Callable[[int, str], None],
    ) -> None:
        self._open_link = open_link
        self._listeners = listeners
        self.on_event = on_event
        self.session: int | None = None
        """The number of the current session; None while there is none."""
        self._watch: SessionWatch | None = None
        self._link: SessionLink
        self._is_connected = False
        self._may_ask = asyncio.Event()
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._beat_sent_at: float | None = None
        """When the heartbeat was sent that has no answer yet."""
        self._unanswered_since: float | None = None
        """When the first heartbeat after the last answered one was sent, on the current connection."""
        self._leaving: set[asyncio.Future[None]] = set()
        self._links_left: set[SessionLink] = set()
        self._is_closed = False
        self._begin()
        self._beats = asyncio.create_task(self._send_beats(), name="zookeeper heartbeats")
        self._beats.add_done_callback(self._beats_ended)

    @property
    def is_overdue(self) -> bool:
        return self.session is None or self._watch is None or time.monotonic() >= self._watch.deadline_s

    async def wait_begun(self) -> None:
        """Wait until the first session has begun.

        Raises:
            MetadataError: the server does not support recursive watches, or the session ended because of an internal
                error.
        """
        await asyncio.shield(self._begun)

    async def wait_connected(self) -> None:
        """Wait until requests can be sent. Return also if they cannot be sent, because there is no session or the store
        is closed. The caller finds out by `session` and its own state which of these is the case.
        """
        await self._may_ask.wait()

    def link_of(self, session: int | None) -> SessionLink:
        """Return the link of the current session, by which requests are sent. If the caller passes a session, it has
        checked before that this is the current session.
        """
        assert session is None or session == self.session
        return self._link

    def on_expired_by_answer(self) -> None:
        """Called when the answer to a request says that the session has ended. Report the loss of the session, and open
        another one.
        """
        if self.session is not None:
            self._expire()

    async def close(self) -> None:
        """End the session, and open no other one. Waits a few seconds for the servers. Idempotent; every caller waits
        until the session has ended.
        """
        if not self._is_closed:
            self._beats.cancel()
            if not self._begun.done():
                self._begun.cancel()
            self._end()
        if self._leaving:
            await asyncio.wait(tuple(self._leaving), timeout=_CLOSE_PATIENCE_S)
        for link in self._links_left:
            link.give_up()

    def _end(self) -> None:
        self._is_closed = True
        self._leave()
        self.session = None
        self._may_ask.set()

    def _beats_ended(self, task: asyncio.Task[None]) -> None:
        """Called when the task that sends heartbeats has ended. If it failed, which only a bug can cause, end the
        session and report that it is lost.
        """
        if self._is_closed or task.cancelled() or (error := task.exception()) is None:
            return
        log.error("metadata_store_failed", task=task.get_name(), exc_info=error)
        self._end()
        if not self._begun.done():
            self._begun.set_exception(
                MetadataError("/", "the session with ZooKeeper was ended because of an internal error: see the log")
            )
        if self._watch is not None:
            self._listeners.session_events(self._watch.expired())

    # ---- what a link reports ----

    def on_connected(self) -> None:
        self._is_connected = True
        self._send_beat()

    def on_refused(self, error: Exception) -> None:
        if not self._begun.done():
            self._begun.set_exception(refusal_of("/", error))
        else:
            log.error("zookeeper_refused_watch", error=str(refusal_of("/", error)))

    def on_disconnected(self) -> None:
        self._is_connected = False
        self._beat_sent_at = self._unanswered_since = None
        if self.session is not None:
            self._may_ask.clear()
            self._fail()

    def on_expired(self) -> None:
        if self.session is not None:
            self._expire()
        else:
            self._leave()
            self._begin()

    # ---- a session's course ----

    def _begin(self) -> None:
        self._is_connected = False
        self._beat_sent_at = self._unanswered_since = None
        self._link = self._open_link(self)
        self._links_left.add(self._link)

    def _leave(self) -> None:
        link, left = self._link, self._link.leave()
        self._leaving.add(left)

        def forget(left: "asyncio.Future[None]") -> None:
            self._leaving.discard(left)
            self._links_left.discard(link)

        left.add_done_callback(forget)

    def _expire(self) -> None:
        assert self._watch is not None
        self._take(self._watch.expired())

    def _fail(self) -> None:
        assert self._watch is not None
        self._take(self._watch.failed(time.monotonic()))

    def _take(self, events: list[SessionEvent]) -> None:
        if SessionEvent.SESSION_LOST in events:
            self.session = None
            self._may_ask.set()  # waiting callers find that there is no session
            self._leave()
            self._begin()
        self._listeners.session_events(events)

    async def _send_beats(self) -> None:
        while True:
            await asyncio.sleep(max(self._link.timeout_s / _BEATS, _MIN_BEAT_S))
            if self._is_connected and self._beat_sent_at is None:
                self._send_beat()
            if self.session is not None and self._is_late():
                self._fail()

    def _is_late(self) -> bool:
        since = self._unanswered_since
        return since is None or time.monotonic() - since > self._link.timeout_s * _PATIENCE

    def _send_beat(self) -> None:
        link, sent_at = self._link, time.monotonic()
        session, timeout_s = link.session, link.timeout_s
        self._beat_sent_at = sent_at
        if self._unanswered_since is None:
            self._unanswered_since = sent_at

        def answered(answer: "asyncio.Future[object]") -> None:
            if answer.cancelled():
                return
            error = answer.exception()  # also of a former session: asyncio logs an exception that nobody asks for
            if link is not self._link or self._is_closed:
                return
            if self._beat_sent_at == sent_at:
                self._beat_sent_at = None
            if error is None:
                self._unanswered_since = self._beat_sent_at
                self._confirm(session, sent_at, timeout_s)
            elif isinstance(error, SessionExpiredError):
                self.on_expired()

        link.ask(lambda client: client.sync_async(client.root)).add_done_callback(answered)

    def _confirm(self, session: int | None, sent_at: float, timeout_s: float) -> None:
        if session is None or not self._is_connected:
            return
        is_another = self.session is None
        self.session = session
        self._may_ask.set()
        if self._watch is None:
            self._watch = SessionWatch(timeout_s, sent_at)
            if not self._begun.done():
                self._begun.set_result(None)
        elif is_another:
            self._listeners.session_events(self._watch.renewed(sent_at, timeout_s))
        else:
            self._listeners.session_events(self._watch.confirmed(sent_at))
