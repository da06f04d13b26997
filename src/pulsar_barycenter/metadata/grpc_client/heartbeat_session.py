"""A session with a store that heartbeats keep alive. When it is lost, another session replaces it.

Five heartbeats are sent in a session's timeout. The server counts the timeout from when it receives a heartbeat, the
client from when it sent it. The client treats the session as lost after 5/6 of the timeout (`metadata.session`), which
is earlier than the server does.

After a heartbeat without an answer the connection uses the next server. Before a new session is requested, the lost one
is ended, so its keys are deleted when the new one begins.
"""

import asyncio
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, NotFoundError
from pulsar_barycenter.metadata.grpc_client.failure_log import FailureLog
from pulsar_barycenter.metadata.grpc_client.server_channel import ServerChannel
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.store import SessionEvent

HEARTBEATS_PER_TIMEOUT: Final = 5
ANSWERS_PER_TIMEOUT: Final = 3
"""If a heartbeat is not answered within this fraction (1/n) of the session's timeout, it has failed."""
LAST_TRY_S: Final = 0.1
"""The number of seconds to wait for an answer that is overdue already, for example after a pause of this process."""
RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
STEP_S: Final = 2.0
"""The maximum number of seconds that each step of opening or ending a session may take."""

OnSession: TypeAlias = Callable[[int | None, list[SessionEvent]], None]
"""Called with the current session (None while there is none), and with session events for the listeners."""


class Servers(Protocol):
    """The servers of a store, one of which is used at a time: the one with the channel `line`."""

    @property
    def line(self) -> ServerChannel: ...

    def leave(self, line: Any) -> None: ...


class HeartbeatSession(ABC):
    """The session of one client with a store, which is kept alive by heartbeats and replaced when it is lost. A
    subclass implements the requests of one kind of store. `on_session` is called with the id of the session and its
    events, in the order in which they occur.
    """

    def __init__(self, servers: Servers, *, timeout_s: float, on_session: OnSession, source: random.Random) -> None:
        self._servers = servers
        self.timeout_s = timeout_s
        """How long the session lasts without a heartbeat."""
        self._on_session = on_session
        self._loop = asyncio.get_running_loop()
        self._watch = SessionWatch(timeout_s, self._loop.time())
        self._session: int | None = None
        self._left: int | None = None
        """The session of this client that may still exist, alive or lost."""
        self._failures = FailureLog()
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._wake = asyncio.Event()

    # ---- what a store has for it ----

    @abstractmethod
    async def _grant(self) -> int:
        """Request a new session from the current server, and return the session's id.

        Raises:
            MetadataError: the server refused, or did not answer.
        """

    @abstractmethod
    async def _show(self, session: int) -> None:
        """Create the key or record in the store that exists while the new session is alive. Writes in this session
        depend on it.

        Raises:
            MetadataError: the current server refused, or did not answer.
        """

    @abstractmethod
    async def _end(self, session: int) -> None:
        """End a session in the store, so that its ephemeral keys are deleted.

        Raises:
            NotFoundError: the session does not exist any more.
            MetadataError: the current server refused, or did not answer.
        """

    @abstractmethod
    async def _confirm(self, session: int, timeout_s: float) -> bool:
        """Send a heartbeat, which extends the session by its whole timeout, and return True. If the server reports that
        the session has ended, return False or raise NotFoundError; the caller treats both in the same way.

        Raises:
            NotFoundError: the session has ended.
            MetadataError: there was no answer within `timeout_s` seconds.
        """

    # ---- the life of it ----

    def beat_now(self) -> None:
        """Make `run` send the next heartbeat at once. Does not wait for the heartbeat."""
        self._wake.set()

    @property
    def is_overdue(self) -> bool:
        """True if no heartbeat was answered for so long that the store may have ended the session."""
        return self._loop.time() >= self._watch.deadline_s

    async def open(self) -> None:
        """Begin the first session with the store.

        Raises:
            MetadataError: the current server refused, or did not answer.
        """
        sent_at_s = await self._begin()
        self._watch = SessionWatch(self.timeout_s, sent_at_s)
        self._on_session(self._session, [])

    async def run(self) -> None:
        """Until cancelled, send heartbeats, and begin a new session each time the session is lost."""
        while True:
            line, began_s = self._servers.line, self._loop.time()
            self._wake.clear()
            try:
                await (self._renew() if self._session is None else self._beat(self._session))
            except MetadataError as error:
                self._failures.failed("heartbeat", line.endpoint, error)
                self._servers.leave(line)
                self._failed()
                await self._pause(min(self._back_off.next_s(), max(0.0, self._left_s)))
            else:
                self._failures.recovered("heartbeat", line.endpoint)
                self._back_off.reset()
                await self._pause(began_s + self.timeout_s / HEARTBEATS_PER_TIMEOUT - self._loop.time())

    def ended(self, session: int) -> None:
        """Record that `session` has ended, because the store has reported that it does not exist any more. Do nothing
        if this client has another session already.
        """
        if session == self._session:
            self._left = None
            self._lose(self._watch.expired())

    def fell_behind(self) -> None:
        """Record that notifications of changes were missed, and report session events to `on_session`, as after a lost
        connection.
        """
        self._on_session(self._session, self._watch.fell_behind())

    async def close(self) -> None:
        """End the session in the store. If the store does not answer, the session expires later."""
        session, self._session = self._left, None
        if session is not None:
            with suppress(MetadataError):
                await self._end(session)

    # ---- heartbeats ----

    async def _beat(self, session: int) -> None:
        sent_at_s = self._loop.time()
        timeout_s = max(LAST_TRY_S, min(self.timeout_s / ANSWERS_PER_TIMEOUT, self._left_s))
        try:
            is_alive = await self._confirm(session, timeout_s)
        except NotFoundError:
            is_alive = False
        if not is_alive:
            self.ended(session)
        elif session == self._session:
            self._on_session(session, self._watch.confirmed(sent_at_s))

    def _failed(self) -> None:
        if self._session is None:
            return
        events = self._watch.failed(self._loop.time())
        if self._watch.state is SessionState.LOST:
            self._lose(events)
        else:
            self._on_session(self._session, events)

    def _lose(self, events: list[SessionEvent]) -> None:
        self._session = None
        self._wake.set()
        self._on_session(None, events)

    @property
    def _left_s(self) -> float:
        """The number of seconds until this client must treat its session as lost, if no further heartbeat is answered;
        infinite if it has no session.
        """
        return math.inf if self._session is None else self._watch.deadline_s - self._loop.time()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _renew(self) -> None:
        sent_at_s = await self._begin()
        self._on_session(self._session, self._watch.renewed(sent_at_s))

    async def _begin(self) -> float:
        """End the former session if it may still exist, then begin a new session. Return the event-loop time in seconds
        at which the new session was requested.
        """
        if self._left is not None:
            with suppress(NotFoundError):
                await self._end(self._left)
            self._left = None
        sent_at_s = self._loop.time()
        session = self._left = await self._grant()
        await self._show(session)
        self._session = session
        return sent_at_s
