"""The metadata store of a broker that does not write itself: the broker reads the store, and the leader writes for it.

| path                                                       | read by     | written by                     |
|------------------------------------------------------------|-------------|--------------------------------|
| owners' own (`is_own`): records of topics, counter numbers | this broker | this broker                    |
| all others                                                 | this broker | the leader, on request         |

While there is no leader, a write waits for one, for a limited time. Keys that owners write themselves are never
ephemeral: a leader removes counter keys that were left behind. In everything else this store is like the others.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import (
    MetadataError,
    NotLeadingError,
    SessionLostError,
    StoreClosedError,
    StoreRefusedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.leader_writes.leased_values import split_lease
from pulsar_barycenter.metadata.leader_writes.session_lease import Lease
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.leader_writes.write_requests import (
    MAX_FORMER_SESSIONS,
    MAX_PATH_CHARACTERS,
    Answer,
    Change,
    Close,
    Delete,
    Done,
    Failed,
    Live,
    Open,
    Put,
    error_of,
    fitted,
    guard_of,
)
from pulsar_barycenter.metadata.listeners import StoreListeners
from pulsar_barycenter.metadata.store import (
    CONNECTED_EVENTS,
    Guard,
    MetadataStore,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
    Stat,
    check_path,
    notifications_of,
)

log = structlog.get_logger(__name__)

AskLeader: TypeAlias = Callable[[str, int, int, Change], Awaitable[Answer]]
"""A function that sends one request to the current leader. It gets the session, the request's number, the number below
which this broker waits for no answer, and the change.
"""

MAX_CONCURRENT_WRITES: Final = 128
"""The maximum number of concurrent writes that a broker sends to the leader. Further ones wait and are not sent, so if
a write fails while it waits, it is certain that it was not executed.
"""

_RETRY_S: Final = 0.1
_CLOSING_PATIENCE_S: Final = 0.5
_MIN_TIME_LEFT_S: Final = 0.01
"""If less than this number of seconds is left for an answer, a write is not sent."""


class LeasedStore:
    """A metadata store that reads from the store `store`, and writes by sending requests to the leader. It writes those
    keys directly for which `is_own` returns True. Writes by the leader are possible only after `open`.
    """

    def __init__(
        self,
        store: MetadataStore,
        ask_leader: AskLeader,
        times: LeaseTimes,
        *,
        is_own: Callable[[str], bool],
        draw_session: Callable[[], str],
        patience_s: float,
        source: random.Random,
    ) -> None:
        """`patience_s` is the number of seconds after which a write fails if no leader has answered. `source` generates
        the random delays between attempts.
        """
        self._store = store
        self._ask_leader = ask_leader
        self._times = times
        self._is_own = is_own
        self._draw_session = draw_session
        self._patience_s = patience_s
        self._back_off = BackOff(source, _RETRY_S, _RETRY_S)
        self._broker_id = ""
        self._listeners = StoreListeners()
        self._lease = Lease(store, times, self._listeners.session_events)
        self._former: list[str] = []
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_WRITES)
        self._number = 0
        self._under_way: dict[int, None] = {}
        self._closed = False
        self._tasks = BackgroundTasks("session_task_ended")
        self._stop_listening = [
            store.add_session_listener(self._on_session_event),
            store.add_invalidator(self._listeners.invalidate),
            store.add_listener(self._on_change),
        ]

    # ---- the session ----

    @property
    def session(self) -> str | None:
        """The id of this broker's session with the leader; None while it has none."""
        return self._lease.session

    async def open(self, broker_id: str, within_s: float) -> None:
        """Open a session for this broker with the leader. After that, tasks in the background keep it alive, and open
        another one when it is lost.

        Raises:
            StoreUnavailableError: no leader opened a session within `within_s` seconds.
        """
        self._broker_id = broker_id
        try:
            async with asyncio.timeout(within_s):
                await self._open_again()
        except TimeoutError:
            raise StoreUnavailableError(
                "/", f"this broker got no session from the leader within {within_s:.0f} s; check that a leader runs"
            ) from None
        self._tasks.start(self._keep_session(), "session with the leader")
        self._tasks.start(self._send_heartbeats(), "heartbeats to the leader")

    async def _open_once(self) -> bool:
        session = self._draw_session()
        try:
            del self._former[:-MAX_FORMER_SESSIONS]
            opening = Open(self._broker_id, tuple(self._former), self._times.lease_ms)
            await self._request(session, opening, "/")
            asked_at_s = asyncio.get_running_loop().time()
            is_alive = await self._lease.is_alive(session)
        except MetadataError as error:
            if not isinstance(error, NotLeadingError):
                self._former.append(session)  # it may have been opened nevertheless
            log.info("session_not_granted", reason=str(error))
            return False
        if not is_alive:
            return False
        self._former = []
        self._lease.begin(session, asked_at_s)
        return True

    async def _keep_session(self) -> None:
        while True:
            while (session := self._lease.session) is not None:
                await self._lease.until_lost()
                self._former.append(session)
            await self._open_again()

    async def _open_again(self) -> None:
        """Request a session from the leader, again and again, until a session is open."""
        while True:
            if await self._open_once():
                return
            await asyncio.sleep(self._back_off.next_s())

    async def _send_heartbeats(self) -> None:
        """Send heartbeats to the leader until cancelled. If a heartbeat fails, for example because there is no leader,
        the next one is sent as usual.
        """
        while True:
            session = self._lease.session
            if session is not None:
                try:
                    async with asyncio.timeout(self._times.silence_s):
                        await self._ask(session, Live(), "/")
                except SessionLostError:
                    self._lease.ended(session)
                except (MetadataError, TimeoutError) as error:
                    log.debug("life_not_shown", reason=str(error))
            await asyncio.sleep(self._times.live_s)

    @property
    def session_is_overdue(self) -> bool:
        return self._lease.is_overdue

    def _on_session_event(self, event: SessionEvent) -> None:
        """Process an event of the session with the store that is read. When the connection to that store is restored,
        record that notifications were missed. When that session ends, this broker's session with the leader continues.
        """
        if event in CONNECTED_EVENTS:
            self._lease.fell_behind()

    def be_brief(self) -> None:
        """Called when this broker is closing. From now on, a write waits less than a second for the leader."""
        self._patience_s = min(self._patience_s, _CLOSING_PATIENCE_S)

    async def close(self) -> None:
        """End the session with the leader, which then deletes the session's keys. If no leader answers, a leader ends
        the session later, because it receives no heartbeats. The store that is read is not closed. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        self.be_brief()
        for stop in self._stop_listening:
            stop()
        await self._tasks.close()
        session = self._lease.session
        if session is not None:
            try:
                await self._request(session, Close(), "/")
            except MetadataError as error:
                log.info("session_left_to_the_leader", reason=str(error))

    # ---- requests ----

    @contextmanager
    def _numbered(self) -> Iterator[int]:
        self._number += 1
        number = self._number
        self._under_way[number] = None
        try:
            yield number
        finally:
            del self._under_way[number]

    async def _ask(self, session: str, change: Change, path: str) -> Answer:
        """Send a request for `change` to the leader once, and return its answer.

        Raises:
            NotLeadingError: the request was certainly not executed.
            MetadataError: the leader answered with this error.
        """
        with self._numbered() as number:
            answer = await self._ask_leader(session, number, min(self._under_way), change)
        if isinstance(answer, Failed):
            raise error_of(answer)
        return answer

    async def _in_turn(self, session: str, change: Put | Delete) -> Stat | None:
        """Send a request for `change` to the leader, as `_request` does. If MAX_CONCURRENT_WRITES requests are running,
        wait first until one of them has ended.

        Raises:
            StoreUnavailableError: too many requests were running for `patience_s` seconds, and this one was not sent;
                or it is unknown whether it was executed. Other errors are those of `_request`.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                await self._turns.acquire()
            try:
                if deadline_s - loop.time() > _MIN_TIME_LEFT_S:
                    return await self._request(session, change, change.path, deadline_s)
            finally:
                self._turns.release()
        raise StoreUnavailableError(
            change.path, "the change was not sent: too many requests wait for the leader. Try again."
        )

    async def _request(self, session: str, change: Change, path: str, deadline_s: float | None = None) -> Stat | None:
        """Send a request for `change` to the leader, again and again, until a leader has executed it, and return the
        stat in its answer. Stop at the event-loop time `deadline_s`; if it is None, after `patience_s` seconds.

        Raises:
            NotLeadingError: no leader could execute the request in this time; it was certainly not executed.
            StoreUnavailableError: a leader did not answer; it is unknown whether the request was executed.
            MetadataError: the leader answered with this error.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s if deadline_s is None else deadline_s
        while True:
            try:
                async with asyncio.timeout(max(0.0, deadline_s - loop.time())):
                    answer = await self._ask(session, change, path)
                assert isinstance(answer, Done)
                return answer.stat
            except TimeoutError:
                raise StoreUnavailableError(
                    path, "the leader did not answer, so it is unknown whether the leader executed the request"
                ) from None
            except NotLeadingError:
                if loop.time() + _RETRY_S >= deadline_s:
                    raise
            await asyncio.sleep(self._back_off.next_s())

    async def _change(self, path: str, change: Put | Delete) -> Stat | None:
        """Send a request for `change` to the leader, in the current session. Return the stat in the answer; None after
        a deletion.

        Raises:
            SessionLostError: there is no session, or the leader has ended it; nothing was written.
            StoreUnavailableError: no leader could execute the request, or it is unknown whether it was executed.
            MetadataError: the leader answered with this error.
        """
        self._check_open(path)
        if len(path) > MAX_PATH_CHARACTERS:
            raise StoreRefusedError(
                path[:100], f"the path is too long; the maximum is {MAX_PATH_CHARACTERS:,} characters"
            )
        session = self._lease.session
        if session is None:
            raise SessionLostError(path, "the session has ended, and no other session is open yet. Try again.")
        try:
            return await self._in_turn(session, change)
        except NotLeadingError as error:
            raise StoreUnavailableError(path, f"no leader could write the key: {error.detail}. Try again.") from error
        except SessionLostError:
            self._lease.ended(session)
            raise

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreClosedError(path)
        check_path(path)

    # ---- the store ----

    async def get(self, path: str) -> Record | None:
        self._check_open(path)
        session = self._lease.session
        record = await self._store.get(path)
        if record is None or self._is_own(path):
            return record
        lessee, value = split_lease(record.value)
        is_mine = lessee is not None and lessee == session
        return Record(value, replace(record.stat, ephemeral=lessee is not None, created_by_self=is_mine))

    async def children(self, path: str) -> list[str]:
        self._check_open(path)
        return await self._store.children(path)

    async def exists(self, path: str) -> bool:
        self._check_open(path)
        return await self._store.exists(path)

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
        """Write a key as `MetadataStore.put` does: directly if `is_own` returns True for its path, otherwise by a
        request to the leader.

        Raises:
            ValueTooLargeError: the value is too large for a request to the leader.
        """
        if self._is_own(path):
            self._check_open(path)
            return await self._store.put(
                path,
                value,
                expected_version=expected_version,
                sequential=sequential,
                if_own=if_own,
                guard=guard,
            )
        if split_lease(value)[0] is not None:
            raise StoreRefusedError(
                path,
                "the value begins with the text by which the leader marks ephemeral keys: store another value",
            )
        put = Put(path, value, expected_version, ephemeral, sequential, if_own, guard_of(guard))
        stat = await self._change(path, fitted(put))
        assert stat is not None, "a put is answered with a stat"
        kind = NotificationType.MODIFIED if stat.version else NotificationType.CREATED
        self._forget(Notification(kind, stat.path))
        return stat

    async def delete(
        self, path: str, *, expected_version: int | None = None, if_own: bool = False, guard: Guard | None = None
    ) -> None:
        if self._is_own(path):
            self._check_open(path)
            await self._store.delete(path, expected_version=expected_version, if_own=if_own, guard=guard)
            return
        await self._change(path, Delete(path, expected_version, if_own, guard_of(guard)))
        self._forget(Notification(NotificationType.DELETED, path))

    # ---- listeners ----

    def _forget(self, change: Notification) -> None:
        """Called after the leader has written a key for this broker, and before the caller of the write continues. Make
        the caches drop the values that the change affects.
        """
        for notification in notifications_of(change):
            self._listeners.invalidate(notification)

    def _on_change(self, change: Notification) -> None:
        self._listeners.notify(change)

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._listeners.add_listener(listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._listeners.add_session_listener(listener)

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return self._listeners.add_invalidator(invalidate)
