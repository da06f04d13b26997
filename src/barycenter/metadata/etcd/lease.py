"""The session with etcd: a lease that heartbeats keep, and that another replaces once it is lost.

A heartbeat is a keep-alive of the lease, sent five times in its time to live. The server counts from when it gets one,
the client from when it sent it, and gives up after 5/6 of the time (`session`), so first. What else moves the end of a
lease moves it further away: etcd grants no less than about one and a half times its election timeout, and a new leader
of the servers begins to count anew.

A heartbeat without an answer has the connection go on with the next server. A lease that was lost is revoked before the
next is asked for, so keys of a former session are gone when the next one begins.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

from barycenter.metadata.back_off import BackOff
from barycenter.metadata.errors import MetadataError, NotFoundError, StoreUnavailableError
from barycenter.metadata.etcd import etcd_api_pb2 as api
from barycenter.metadata.etcd.connection import EtcdConnection, Line, Tokens, Troubles
from barycenter.metadata.etcd.layout import Layout
from barycenter.metadata.etcd.transactions import session_request
from barycenter.metadata.session import SessionState, SessionWatch
from barycenter.metadata.store import SessionEvent

HEARTBEATS_PER_TIMEOUT: Final = 5
ANSWERS_PER_TIMEOUT: Final = 3
"""A heartbeat is given up after this part of the time to live."""
LAST_TRY_S: Final = 0.1
"""How long to wait for an answer when it is overdue already, as after a pause of this process."""
RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 0.5
STEP_S: Final = 2.0
"""How long each step of opening or ending a session may take."""

Answer = TypeVar("Answer")
Tell: TypeAlias = Callable[[int | None, list[SessionEvent]], None]
"""Called with the lease in force, None while there is none, and what became of the session."""


class EtcdLease:
    """The lease of one client; `tell` is called in the order of what happens."""

    def __init__(
        self, connection: EtcdConnection, layout: Layout, *, timeout_ms: int, tell: Tell, source: random.Random
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._timeout_s = math.ceil(timeout_ms / 1000)  # whole seconds are what leases have
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._watch = SessionWatch(self._timeout_s, self._loop.time())
        self._lease: int | None = None
        self._left: int | None = None
        """The lease of ours that may still be there, in force or lost."""
        self._troubles = Troubles()
        self._back_off = BackOff(source, RETRY_S, MAX_RETRY_S)
        self._wake = asyncio.Event()

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
        self._tell(self._lease, [])

    async def run(self) -> None:
        """Keep the session, and begin another when it is lost, for ever."""
        while True:
            line, began_s = self._connection.line, self._loop.time()
            self._wake.clear()
            try:
                await (self._renew() if self._lease is None else self._beat(self._lease))
            except MetadataError as error:
                self._troubles.failing("heartbeat", line, error)
                self._connection.leave(line)
                self._failed()
                await self._pause(min(self._back_off.next_s(), max(0.0, self._left_s)))
            else:
                self._troubles.working("heartbeat", line)
                self._back_off.reset()
                await self._pause(began_s + self._timeout_s / HEARTBEATS_PER_TIMEOUT - self._loop.time())

    def ended(self, lease: int) -> None:
        """Take notice that the server knows `lease` no more."""
        if lease == self._lease:
            self._left = None
            self._lose(self._watch.expired())

    def fell_behind(self) -> None:
        """Take notice that changes were missed."""
        self._tell(self._lease, self._watch.fell_behind())

    async def close(self) -> None:
        """End the session; if that is not heard, it ends by time."""
        lease, self._lease = self._left, None
        if lease is not None:
            with suppress(MetadataError):
                await self._revoke(lease)

    # ---- heartbeats ----

    async def _beat(self, lease: int) -> None:
        async def keep_alive(line: Line, tokens: Tokens, timeout_s: float) -> api.LeaseKeepAliveResponse:
            call = line.lease.LeaseKeepAlive(metadata=tokens, timeout=timeout_s)
            try:
                await call.write(api.LeaseKeepAliveRequest(ID=lease))
                answer = await call.read()
            finally:
                call.cancel()
            if not isinstance(answer, api.LeaseKeepAliveResponse):
                raise StoreUnavailableError("/", "heartbeat failed: no answer")
            return answer

        sent_at_s = self._loop.time()
        timeout_s = max(LAST_TRY_S, min(self._timeout_s / ANSWERS_PER_TIMEOUT, self._left_s))
        try:
            answer = await self._connection.ask("heartbeat", "/", keep_alive, timeout_s=timeout_s, takes_turn=False)
        except NotFoundError:
            self.ended(lease)
            return
        if answer.TTL <= 0:
            self.ended(lease)
        elif lease == self._lease:
            self._tell(lease, self._watch.confirmed(sent_at_s))

    def _failed(self) -> None:
        if self._lease is None:
            return
        events = self._watch.failed(self._loop.time())
        if self._watch.state is SessionState.LOST:
            self._lose(events)
        else:
            self._tell(self._lease, events)

    def _lose(self, events: list[SessionEvent]) -> None:
        self._lease = None
        self._wake.set()
        self._tell(None, events)

    @property
    def _left_s(self) -> float:
        """Seconds until the session must be taken for lost; while there is none it does not matter."""
        return math.inf if self._lease is None else self._watch.deadline_s - self._loop.time()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    # ---- sessions ----

    async def _renew(self) -> None:
        sent_at_s = await self._begin()
        self._tell(self._lease, self._watch.renewed(sent_at_s))

    async def _begin(self) -> float:
        """Have a new lease and the key of its session; return when it was asked for."""
        if self._left is not None:
            with suppress(NotFoundError):
                await self._revoke(self._left)
            self._left = None
        sent_at_s = self._loop.time()
        wanted = api.LeaseGrantRequest(TTL=self._timeout_s)
        granted = await self._ask(lambda line, tokens, s: line.lease.LeaseGrant(wanted, metadata=tokens, timeout=s))
        self._left = granted.ID
        shown = session_request(self._layout, granted.ID)
        await self._ask(lambda line, tokens, s: line.kv.Txn(shown, metadata=tokens, timeout=s))
        self._lease = granted.ID
        return sent_at_s

    async def _revoke(self, lease: int) -> None:
        """Raises NotFoundError if there is no such lease, and what `EtcdConnection.ask` raises."""
        request = api.LeaseRevokeRequest(ID=lease)
        await self._ask(lambda line, tokens, s: line.lease.LeaseRevoke(request, metadata=tokens, timeout=s))

    async def _ask(self, call: Callable[[Line, Tokens, float], Awaitable[Answer]]) -> Answer:
        return await self._connection.ask("session", "/", call, timeout_s=STEP_S, takes_turn=False)
