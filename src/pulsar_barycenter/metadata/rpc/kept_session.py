"""A session that heartbeats keep, and that another replaces once it is lost.

Heartbeats are sent five times in the session's time. The server counts from when it gets one, the client from when it
sent it, and gives up after 5/6 of the time (`metadata.session`), so first.

A heartbeat without an answer has the connection go on with the next server. A session that was lost is ended before the
next is asked for, so keys of a former session are gone when the next one begins.
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
from pulsar_barycenter.metadata.rpc.line import Line
from pulsar_barycenter.metadata.rpc.troubles import Troubles
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.store import SessionEvent

HEARTBEATS_PER_TIMEOUT: Final = 5
ANSWERS_PER_TIMEOUT: Final = 3
"""A heartbeat is given up after this part of the session's time."""
LAST_TRY_S: Final = 0.1
"""How long to wait for an answer when it is overdue already, as after a pause of this process."""
RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
STEP_S: Final = 2.0
"""How long each step of opening or ending a session may take."""

Tell: TypeAlias = Callable[[int | None, list[SessionEvent]], None]
"""Called with the session in force, None while there is none, and what became of it."""


class Servers(Protocol):
    """The way to one of the servers at a time."""

    @property
    def line(self) -> Line: ...

    def leave(self, line: Any) -> None: ...


class KeptSession(ABC):
    """The session of one client, at a store that says what a session is; `tell` is called in the order of events."""

    def __init__(self, servers: Servers, *, timeout_s: float, tell: Tell, source: random.Random) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._watch = SessionWatch(timeout_s, self._loop.time())
        self._session: int | None = None
        self._left: int | None = None
        """The session of ours that may still be there, in force or lost."""
        self._troubles = Troubles()
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._wake = asyncio.Event()

    # ---- what a store has for it ----

    @abstractmethod
    async def _grant(self) -> int:
        """Return a new session, which `_show` and then `_end` may be called for.

        Raises:
            MetadataError: the server in use would not, or did not answer.
        """

    @abstractmethod
    async def _show(self, session: int) -> None:
        """Do what makes a session that was granted one in force; raises as `_grant`."""

    @abstractmethod
    async def _end(self, session: int) -> None:
        """End a session; raises as `_grant`, and NotFoundError if it is none any more."""

    @abstractmethod
    async def _confirm(self, session: int, timeout_s: float) -> bool:
        """Have the session last its whole time from now on; return False if it has ended.

        Raises:
            NotFoundError: likewise.
            MetadataError: there was no answer within `timeout_s`.
        """

    # ---- the life of it ----

    @property
    def timeout_s(self) -> float:
        """How long it lasts without a heartbeat."""
        return self._timeout_s

    @property
    def is_overdue(self) -> bool:
        """Whether the server has not answered for so long that the session may be over."""
        return self._loop.time() >= self._watch.deadline_s

    async def open(self) -> None:
        """Begin the first session.

        Raises:
            MetadataError: the server in use would not, or did not answer.
        """
        sent_at_s = await self._begin()
        self._watch = SessionWatch(self._timeout_s, sent_at_s)
        self._tell(self._session, [])

    async def run(self) -> None:
        """Keep the session, and begin another when it is lost, for ever."""
        while True:
            line, began_s = self._servers.line, self._loop.time()
            self._wake.clear()
            try:
                await (self._renew() if self._session is None else self._beat(self._session))
            except MetadataError as error:
                self._troubles.failing("heartbeat", line.endpoint, error)
                self._servers.leave(line)
                self._failed()
                await self._pause(min(self._back_off.next_s(), max(0.0, self._left_s)))
            else:
                self._troubles.working("heartbeat", line.endpoint)
                self._back_off.reset()
                await self._pause(began_s + self._timeout_s / HEARTBEATS_PER_TIMEOUT - self._loop.time())

    def ended(self, session: int) -> None:
        """Take notice that the server knows `session` no more."""
        if session == self._session:
            self._left = None
            self._lose(self._watch.expired())

    def fell_behind(self) -> None:
        """Take notice that changes were missed."""
        self._tell(self._session, self._watch.fell_behind())

    async def close(self) -> None:
        """End the session; if that is not heard, it ends by time."""
        session, self._session = self._left, None
        if session is not None:
            with suppress(MetadataError):
                await self._end(session)

    # ---- heartbeats ----

    async def _beat(self, session: int) -> None:
        sent_at_s = self._loop.time()
        timeout_s = max(LAST_TRY_S, min(self._timeout_s / ANSWERS_PER_TIMEOUT, self._left_s))
        try:
            is_there = await self._confirm(session, timeout_s)
        except NotFoundError:
            is_there = False
        if not is_there:
            self.ended(session)
        elif session == self._session:
            self._tell(session, self._watch.confirmed(sent_at_s))

    def _failed(self) -> None:
        if self._session is None:
            return
        events = self._watch.failed(self._loop.time())
        if self._watch.state is SessionState.LOST:
            self._lose(events)
        else:
            self._tell(self._session, events)

    def _lose(self, events: list[SessionEvent]) -> None:
        self._session = None
        self._wake.set()
        self._tell(None, events)

    @property
    def _left_s(self) -> float:
        """Seconds until the session must be taken for lost; while there is none it does not matter."""
        return math.inf if self._session is None else self._watch.deadline_s - self._loop.time()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _renew(self) -> None:
        sent_at_s = await self._begin()
        self._tell(self._session, self._watch.renewed(sent_at_s))

    async def _begin(self) -> float:
        """Have a new session in force; return when it was asked for."""
        if self._left is not None:
            with suppress(NotFoundError):
                await self._end(self._left)
            self._left = None
        sent_at_s = self._loop.time()
        session = self._left = await self._grant()
        await self._show(session)
        self._session = session
        return sent_at_s
