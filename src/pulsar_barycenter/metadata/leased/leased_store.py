"""The store of a broker that does not write itself: it reads the metadata store, and the leader writes.

| path                                             | read by     | written by                   |
|--------------------------------------------------|-------------|------------------------------|
| owners' own (`is_own`): topics', drawn numbers   | this broker | this broker                  |
| all others                                       | this broker | the leader, when it is asked |

Where nobody leads, a write waits for a while for somebody who does. What owners write themselves is never ephemeral:
a key that drew a number and was left behind is litter, which a leader removes. Nothing else differs from other stores.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import (
    MetadataError,
    NotLeadingError,
    SessionLostError,
    StoreClosedError,
    StoreRefusedError,
    StoreUnavailableError,
)
from pulsar_barycenter.metadata.leased.lease import Lease
from pulsar_barycenter.metadata.leased.requests import (
    LONGEST_PATH,
    MOST_FORMER,
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
from pulsar_barycenter.metadata.leased.session_table import LeaseTimes
from pulsar_barycenter.metadata.leased.values import split_lease
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
"""Ask the leader of now, once: session, number of the request, the number below which all are over, the change."""

MOST_AT_ONCE: Final = 128
"""Writes of a broker that the leader is asked for at once; what waits for more is not sent, so it is known not to be
done if it is given up."""

_AGAIN_S: Final = 0.1
_BRIEF_S: Final = 0.5
_LEAST_S: Final = 0.01
"""With less time left to be answered, a write is not sent."""


class LeasedStore:
    """Implements `MetadataStore`. It reads, but cannot write before `open`."""

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
        """`patience_s` is how long a write waits for somebody who leads, and for his answer; `source` is what pauses
        between attempts are drawn from."""
        self._store = store
        self._ask_leader = ask_leader
        self._times = times
        self._is_own = is_own
        self._draw_session = draw_session
        self._patience_s = patience_s
        self._back_off = BackOff(source, _AGAIN_S, _AGAIN_S)
        self._broker_id = ""
        self._listeners = StoreListeners()
        self._lease = Lease(store, times, self._listeners.session_events)
        self._former: list[str] = []
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._number = 0
        self._under_way: dict[int, None] = {}
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_listening = [
            store.add_session_listener(self._on_session_event),
            store.add_invalidator(self._listeners.invalidate),
            store.add_listener(self._tell_change),
        ]

    # ---- the session ----

    async def open(self, broker_id: str, within_s: float) -> None:
        """Have the leader open a session for this broker, and keep one from now on.

        Raises:
            StoreUnavailableError: nobody led within that time.
        """
        self._broker_id = broker_id
        try:
            async with asyncio.timeout(within_s):
                await self._open_again()
        except TimeoutError:
            raise StoreUnavailableError("/", f"no leader granted a session within {within_s:.0f} s") from None
        self._tasks = [
            asyncio.create_task(self._keep_session(), name="session with the leader"),
            asyncio.create_task(self._show_life(), name="life shown to the leader"),
        ]

    async def _open_once(self) -> bool:
        session = self._draw_session()
        try:
            del self._former[:-MOST_FORMER]
            opening = Open(self._broker_id, tuple(self._former), self._times.lease_ms)
            await self._request(session, opening, "/")
            asked_at_s = asyncio.get_running_loop().time()
            goes_on = await self._lease.goes_on(session)
        except MetadataError as error:
            if not isinstance(error, NotLeadingError):
                self._former.append(session)  # it may have been opened all the same
            log.info("session_not_granted", reason=str(error))
            return False
        if not goes_on:
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
        """Ask until a session was opened."""
        while True:
            if await self._open_once():
                return
            await asyncio.sleep(self._back_off.next_s())

    async def _show_life(self) -> None:
        """Tell the leader again and again that this broker lives; that nobody leads is no matter."""
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
        """The session with the store itself is of no account here, but notifications may have been missed."""
        if event in CONNECTED_EVENTS:
            self._lease.fell_behind()

    def be_brief(self) -> None:
        """From now on wait no longer than it takes who leads now to answer: this broker closes."""
        self._patience_s = min(self._patience_s, _BRIEF_S)

    async def close(self) -> None:
        """Let the session go: its keys vanish as soon as the leader hears of it. The store stays open. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.be_brief()
        for stop in self._stop_listening:
            stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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
        """Ask the leader once.

        Raises:
            NotLeadingError: it was certainly not done.
            MetadataError: as the leader answers.
        """
        with self._numbered() as number:
            answer = await self._ask_leader(session, number, min(self._under_way), change)
        if isinstance(answer, Failed):
            raise error_of(answer)
        return answer

    async def _in_turn(self, session: str, change: Put | Delete) -> Stat | None:
        """Ask when it is its turn; what waits here until the patience ends was certainly not done.

        Raises:
            StoreUnavailableError: it was not; else as `_request`.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                await self._turns.acquire()
            try:
                if deadline_s - loop.time() > _LEAST_S:
                    return await self._request(session, change, change.path, deadline_s)
            finally:
                self._turns.release()
        raise StoreUnavailableError(change.path, "not sent: too many requests wait for the leader")

    async def _request(self, session: str, change: Change, path: str, deadline_s: float | None = None) -> Stat | None:
        """Ask until somebody who leads has answered, until `deadline_s` or for as long as the patience lasts.

        Raises:
            NotLeadingError: nobody did; it was certainly not done.
            StoreUnavailableError: unknown whether it was.
            MetadataError: as the leader answers.
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
                raise StoreUnavailableError(path, "the leader did not answer") from None
            except NotLeadingError:
                if loop.time() + _AGAIN_S >= deadline_s:
                    raise
            await asyncio.sleep(self._back_off.next_s())

    async def _change(self, path: str, change: Put | Delete) -> Stat | None:
        """Have the leader write, in the session of now.

        Raises:
            MetadataError
        """
        self._check_open(path)
        if len(path) > LONGEST_PATH:
            raise StoreRefusedError(path[:100], f"a path has at most {LONGEST_PATH:,} characters")
        session = self._lease.session
        if session is None:
            raise SessionLostError(path, "the session has ended and no other is open yet")
        try:
            return await self._in_turn(session, change)
        except NotLeadingError as error:
            raise StoreUnavailableError(path, f"nobody leads who could write it: {error.detail}. Try again.") from error
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
        """See `MetadataStore.put`.

        Raises:
            ValueTooLargeError: the value does not pass to the leader.
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
            raise StoreRefusedError(path, "a value that begins as one that is leased")
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
        """Have the caches forget what this broker has had written, before it goes on."""
        for each in notifications_of(change):
            self._listeners.invalidate(each)

    def _tell_change(self, change: Notification) -> None:
        self._listeners.tell(change)

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return self._listeners.add_listener(listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return self._listeners.add_session_listener(listener)

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return self._listeners.add_invalidator(invalidate)
