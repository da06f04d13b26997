"""A metadata store in memory: one `MemoryBackend` is the server, each `MemoryStore` is a client with a session.

There are no threads, no randomness and no clock except the event loop's, so a simulation in virtual time can be
replayed exactly. Client and backend exchange messages over a link even here, because faults happen there: a message may
be delayed or lost in either direction. The client's part (heartbeats, answers, notifications) runs in the context in
which `connect` was called. The backend's part (executing requests, expiring sessions) runs in the context in which the
backend was created. A simulator can freeze a client by stopping the callbacks of its context: its heartbeats stop, and
the backend expires its session.
"""

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from pulsar_barycenter.metadata.clock import Clock, SystemClock
from pulsar_barycenter.metadata.conditions import PutOptions
from pulsar_barycenter.metadata.errors import MetadataError, SessionLostError, StoreUnavailableError
from pulsar_barycenter.metadata.memory.key_table import KeyTable
from pulsar_barycenter.metadata.memory.link import Channel, Link, NotificationRoute
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.store import Guard, Notification, Record, Stat
from pulsar_barycenter.metadata.store_client import StoreClient

Answer = TypeVar("Answer")
Latency: TypeAlias = Callable[[str, str], float]
"""A function that returns how many seconds a request takes to the backend, given the operation's name and path. The
answer takes the same time.
"""

HEARTBEATS_PER_TIMEOUT: Final = 5
PATIENCE: Final = 1 / 3
"""If a heartbeat is not answered within this fraction of the timeout, the connection counts as lost, as in stores over
a network.
"""


@dataclass(slots=True)
class _Session:
    link: Link
    timeout_s: float
    heard_at_s: float
    expiry: asyncio.TimerHandle | None = field(default=None, repr=False)


class MemoryBackend:
    """The server of a memory store. It has the keys that its clients, all on one event loop, share. Its methods
    simulate faults.
    """

    def __init__(self, *, latency: Latency | None = None) -> None:
        self.keys = KeyTable()
        """The stored keys, for tests to read. Clients do not notice a change made here."""
        self.latency = latency
        self.read_only = False
        """Whether every write is refused; sessions continue."""
        self.is_down = False
        """Whether the backend neither receives nor sends anything; see `stop`."""
        self._context = contextvars.copy_context()
        self._sessions: dict[int, _Session] = {}
        self._last_session = 0

    def connect(
        self, clock: Clock | None = None, session_timeout_ms: int = 10_000, *, operation_timeout_ms: int = 5_000
    ) -> "MemoryStore":
        """Create a client with its own session. Needs a running event loop. The client's callbacks run in the
        contextvars context of the caller.

        An operation that is not answered within `operation_timeout_ms` (of the event loop's time) raises
        StoreUnavailableError. `clock` is used for the times in a Stat.
        """
        return MemoryStore(self, clock or SystemClock(), session_timeout_ms / 1000, operation_timeout_ms / 1000)

    # ---- faults ----

    def expire_session(self, client: "MemoryStore") -> None:
        """End the client's session at once. The answer to the client's next heartbeat or write reports this to the
        client.
        """
        if client.link.session is not None:
            self._end_session(client.link.session)

    def partition(self, client: "MemoryStore") -> None:
        """From now on, until `heal`, lose every message between the client and the backend, including messages that
        were sent and have not arrived yet.
        """
        client.link.cut = True

    def heal(self, client: "MemoryStore") -> None:
        client.link.cut = False

    def crash(self, client: "MemoryStore") -> None:
        """Simulate a crash of the client's process: from now on the client neither sends nor receives, so its session
        expires.
        """
        client.link.cut = True
        client.abandon()

    def stop(self) -> None:
        """Stop the backend. Until `start`, all messages are lost, including messages that were sent and have not
        arrived yet. The keys are not lost.
        """
        self.is_down = True

    def start(self) -> None:
        """Start the backend again. The timeouts of all sessions begin again now, as after a restart of ZooKeeper or
        etcd.
        """
        self.is_down = False
        now = asyncio.get_running_loop().time()
        for session in self._sessions.values():
            session.heard_at_s = now

    def lose_answers(self, client: "MemoryStore", *, lost: bool = True) -> None:
        """If `lost` is True, from now on execute the client's writes but do not answer them; heartbeats and reads are
        answered. If False, answer writes again.
        """
        client.link.answers_lost = lost

    def disturb_notifications(self, client: "MemoryStore", *, disorderly: bool = True) -> None:
        """If `disorderly` is True, from now on deliver each notification to the client twice, and possibly in another
        order. If False, deliver them normally again.
        """
        client.link.disorderly = disorderly

    def route_notifications(self, client: "MemoryStore", route: NotificationRoute | None) -> None:
        """From now on, call `route` for each notification to the client: it returns the notification's delay in
        seconds, or None if the notification is lost. With `route` None, notifications are not delayed or lost any more.

        The order is kept: a notification arrives only after the notifications before it.
        """
        client.link.route = route

    def lose(self, below: str, *, notify: bool) -> Callable[[], None]:
        """Simulate a loss of data: remove all keys below the path `below`. Return a function that restores them
        unchanged and notifies clients that they were created.

        If `notify` is True, clients are notified that the keys were deleted, otherwise not. Keys that exist again when
        the function is called, and ephemeral keys whose sessions have ended, are not restored.
        """
        taken = self.keys.take(below)
        for change in taken.changes if notify else ():
            self._announce(change)

        def bring_back() -> None:
            for change in self.keys.put_back(taken, self._sessions):
                self._announce(change)

        return bring_back

    # ---- requests of clients; everything below runs in the backend's own context ----

    def open_session(self, link: Link, timeout_s: float, former: int | None) -> int:
        """Open a session for the client with the connection `link`, and return its id. `former` is the client's former
        session, which is ended if it still exists; None if there was none.

        If the client sends this request again, because the answer came late, it gets the same session again.
        """
        if link.session is not None and link.session != former:
            return link.session
        if link.session is not None:
            self._end_session(link.session)
        self._last_session += 1
        session = _Session(link, timeout_s, asyncio.get_running_loop().time())
        self._sessions[self._last_session] = session
        link.session = self._last_session
        link.missed = False
        self._watch_session(self._last_session, session)
        return self._last_session

    def close_session(self, session_id: int) -> tuple[None, None]:
        self._end_session(session_id)
        return None, None

    def heartbeat(self, session_id: int) -> bool:
        """Process a client's heartbeat. Return True if notifications to the client were lost since the last heartbeat.

        Raises:
            SessionLostError: the session has ended.
        """
        session = self._live(session_id, "/")
        session.heard_at_s = asyncio.get_running_loop().time()
        missed, session.link.missed = session.link.missed, False
        return missed

    def put(
        self, session_id: int, path: str, value: bytes, now_ms: int, options: PutOptions
    ) -> tuple[Stat, Notification]:
        self._live(session_id, path)
        self._require_writable(path)
        stat, change = self.keys.put(path, value, options, session=session_id, now_ms=now_ms)
        self._announce(change)
        return stat, change

    def delete(
        self, session_id: int, path: str, expected_version: int | None, if_own: bool, guard: Guard | None
    ) -> tuple[None, Notification]:
        self._live(session_id, path)
        self._require_writable(path)
        change = self.keys.delete(
            path, session=session_id, expected_version=expected_version, if_own=if_own, guard=guard
        )
        self._announce(change)
        return None, change

    def _require_writable(self, path: str) -> None:
        if self.read_only:
            raise StoreUnavailableError(path, "the store is read-only")

    def delay_s(self, operation: str, path: str) -> float:
        return 0.0 if self.latency is None else self.latency(operation, path)

    def link(self, notify: Callable[[Notification], None]) -> Link:
        """Create the connection of a new client, on the running event loop. `notify` is called with each notification.
        The client's callbacks run in the contextvars context of the caller.
        """
        loop, client = asyncio.get_running_loop(), contextvars.copy_context()
        return Link(Channel(loop, self._context), Channel(loop, client), Channel(loop, client), notify)

    def _live(self, session_id: int, path: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionLostError(path, "the session has ended")
        return session

    def _watch_session(self, session_id: int, session: _Session) -> None:
        session.expiry = asyncio.get_running_loop().call_at(
            session.heard_at_s + session.timeout_s, self._expire_if_silent, session_id, context=self._context
        )

    def _expire_if_silent(self, session_id: int) -> None:
        session = self._sessions[session_id]
        now = asyncio.get_running_loop().time()
        if self.is_down:
            session.heard_at_s = now
        if now < session.heard_at_s + session.timeout_s:
            self._watch_session(session_id, session)
        else:
            self._end_session(session_id)

    def _end_session(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        session.link.session = None
        for change in self.keys.delete_ephemerals(session_id):
            self._announce(change)

    def _announce(self, change: Notification) -> None:
        for session in self._sessions.values():
            link = session.link
            for _ in range(2 if link.disorderly else 1):
                delay_s = 0.0 if link.route is None else link.route(change)
                if self.is_cut(link):
                    link.missed = True
                elif delay_s is not None:
                    send = link.notifications.send_apart if link.disorderly else link.notifications.send
                    send(delay_s, lambda link=link: self._notify(link, change))  # type: ignore[misc]

    def _notify(self, link: Link, change: Notification) -> None:
        if self.is_cut(link):
            link.missed = True
        else:
            link.notify(change)

    def is_cut(self, link: Link) -> bool:
        """Return True if messages between this client and the backend are lost now."""
        return link.cut or self.is_down


class MemoryStore(StoreClient):
    """One client of a `MemoryBackend`, with one session at a time. `MetadataStore` describes its methods."""

    def __init__(
        self, backend: MemoryBackend, clock: Clock, session_timeout_s: float, operation_timeout_s: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self.link = backend.link(self._notified)
        """The link, for the backend's fault methods."""
        self._backend = backend
        super().__init__(clock, backend.open_session(self.link, session_timeout_s, None))
        self._session_timeout_s = session_timeout_s
        self._operation_timeout_s = operation_timeout_s
        self._last_session = self._session
        self._watch = SessionWatch(session_timeout_s, now)
        self._unanswered_since_s: float | None = None
        """When the first heartbeat after the last answer was sent."""
        self._timer = self._loop.call_at(now + self._interval_s, self._tick)

    # ---- operations ----

    async def get(self, path: str) -> Record | None:
        session = self._session
        return await self._request("get", path, lambda: (self._backend.keys.get(path, session=session), None))

    async def put(
        self,
        path: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
        if_own: bool = False,
        guard: Guard | None = None,
    ) -> Stat:
        session, now_ms = self._writing(path), self._clock.now_ms()
        options = PutOptions(expected_version, ephemeral, sequential, if_own, guard)
        return await self._request("put", path, lambda: self._backend.put(session, path, value, now_ms, options))

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        session = self._writing(path)
        await self._request(
            "delete", path, lambda: self._backend.delete(session, path, expected_version, if_own, guard)
        )

    async def children(self, path: str) -> list[str]:
        return await self._request("children", path, lambda: (self._backend.keys.children(path), None))

    async def exists(self, path: str) -> bool:
        return await self._request("exists", path, lambda: (path in self._backend.keys, None))

    async def close(self) -> None:
        if self._closed:
            return
        session = self._session
        self.abandon()
        if session is None:
            return
        with suppress(StoreUnavailableError):  # without an answer, the session expires
            await self._exchange("close", "/", lambda: self._backend.close_session(session))

    def abandon(self) -> None:
        """Stop without ending the session at the backend, as a process does that crashes."""
        self._closed = True
        self._timer.cancel()

    # ---- requests and answers ----

    async def _request(
        self, operation: str, path: str, action: Callable[[], tuple[Answer, Notification | None]]
    ) -> Answer:
        self._check_open(path)
        return await self._exchange(operation, path, action)

    async def _exchange(
        self, operation: str, path: str, action: Callable[[], tuple[Answer, Notification | None]]
    ) -> Answer:
        """Run `action` on the backend, and return its answer. If it changed a key, the caches drop the key's value
        before this returns.

        Raises:
            StoreUnavailableError: the backend did not answer within the operation timeout.
            MetadataError: the backend answered with this error.
        """
        reply: asyncio.Future[Answer] = self._loop.create_future()
        session = self._session

        def answered(outcome: tuple[Answer, Notification | None] | MetadataError) -> None:
            if isinstance(outcome, SessionLostError) and session == self._session and not self._closed:
                self._session_ended()
            if reply.done():
                return
            if isinstance(outcome, MetadataError):
                reply.set_exception(outcome)
                return
            answer, change = outcome
            if change is not None:
                self._listeners.invalidate(change)
            reply.set_result(answer)

        def unanswered() -> None:
            if not reply.done():
                reply.set_exception(StoreUnavailableError(path, f"no answer to {operation}"))

        self._send(operation, path, action, answered)
        patience = self._loop.call_later(self._operation_timeout_s, unanswered)
        try:
            return await reply
        finally:
            patience.cancel()

    def _send(
        self,
        operation: str,
        path: str,
        action: Callable[[], Answer],
        answered: Callable[[Answer | MetadataError], None],
    ) -> None:
        link = self.link
        delay_s = self._backend.delay_s(operation, path)

        def arrive() -> None:
            if self._backend.is_cut(link):
                return
            outcome: Answer | MetadataError
            try:
                outcome = action()
            except MetadataError as error:
                outcome = error
            if not (link.answers_lost and operation in ("put", "delete")):
                link.answers.send(delay_s, lambda: None if self._backend.is_cut(link) else answered(outcome))

        if not self._backend.is_cut(link):
            link.requests.send(delay_s, arrive)

    def _notified(self, change: Notification) -> None:
        if not self._closed:
            self._listeners.change(change)

    # ---- the session ----

    @property
    def _interval_s(self) -> float:
        return self._session_timeout_s / HEARTBEATS_PER_TIMEOUT

    @property
    def session_is_overdue(self) -> bool:
        return self._session is None or self._loop.time() >= self._watch.deadline_s

    def _tick(self) -> None:
        """Called at each heartbeat interval: report session events if a heartbeat was not answered in time, then send
        the next heartbeat, or request a new session if the session is lost.
        """
        now = self._loop.time()
        if self._unanswered_since_s is not None:
            is_over = now >= self._watch.deadline_s
            if is_over:
                self._session = None
            if is_over or now - self._unanswered_since_s >= self._session_timeout_s * PATIENCE:
                self._listeners.session_events(self._watch.failed(now))
        if self._closed:
            return
        if self._watch.state is SessionState.LOST:
            self._renew(now)
        else:
            self._beat(now)
        due = now + self._interval_s
        if self._watch.state is not SessionState.LOST and self._watch.deadline_s > now:
            due = min(due, self._watch.deadline_s)
        self._timer = self._loop.call_at(due, self._tick)

    def _beat(self, now: float) -> None:
        session = self._session
        if session is None:
            return
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now

        def answered(outcome: bool | MetadataError) -> None:
            if self._closed or session != self._session:
                return
            self._unanswered_since_s = None
            if isinstance(outcome, MetadataError):
                self._session_ended()
                return
            events = self._watch.fell_behind() if outcome else []
            self._listeners.session_events([*events, *self._watch.confirmed(now)])

        self._send("heartbeat", "/", lambda: self._backend.heartbeat(session), answered)

    def _session_ended(self) -> None:
        self._session = None
        self._listeners.session_events(self._watch.expired())
        if not self._closed:
            self._renew(self._loop.time())

    def _renew(self, now: float) -> None:
        """Request a new session, because the former one is lost. `now` is the event-loop time."""
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now
        former = self._last_session

        def answered(outcome: int | MetadataError) -> None:
            if self._closed or self._watch.state is not SessionState.LOST or isinstance(outcome, MetadataError):
                return
            self._unanswered_since_s = None
            self._session = self._last_session = outcome
            self._listeners.session_events(self._watch.renewed(now))

        timeout_s = self._session_timeout_s
        self._send("open", "/", lambda: self._backend.open_session(self.link, timeout_s, former), answered)
