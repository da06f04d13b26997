"""How a broker knows that its session with the leader is alive: it reads its session record repeatedly, and counts the
lease from when it sent a read.

The states and the events to report are those of any session (`metadata.session`). The timeout there is the lease here;
a broker relies on its session for 5/6 of it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError
from pulsar_barycenter.metadata.leader_writes.session_records import session_of, session_path
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.store import MetadataStore, SessionEvent, get_ahead

log = structlog.get_logger(__name__)

_MAX_CONCURRENT_READS: Final = 16


class Lease:
    """Decides how long this broker can rely on its session with the leader. `report` is called with session events, in
    order.
    """

    def __init__(self, store: MetadataStore, times: LeaseTimes, report: Callable[[list[SessionEvent]], None]) -> None:
        self._store = store
        self._times = times
        self._report = report
        self._watch: SessionWatch | None = None
        self._changed = asyncio.Event()
        self.session: str | None = None
        """The current session; None while there is none."""

    @property
    def is_overdue(self) -> bool:
        """True if this broker must not rely on its session any more: the leader may have deleted the session's keys,
        and other sessions may have created them again.
        """
        watch = self._watch
        return self.session is None or watch is None or asyncio.get_running_loop().time() >= watch.deadline_s

    def begin(self, session: str, asked_at_s: float) -> None:
        """Begin the lease of a new session. The caller has read the session's record, which is not marked as ended;
        `asked_at_s` is the event-loop time at which it sent that read.
        """
        self.session = session
        if self._watch is None:
            self._watch = SessionWatch(self._times.lease_s, asked_at_s)
        else:
            self._report(self._watch.renewed(asked_at_s))
        self._changed.set()

    def ended(self, session: str) -> None:
        """Record that a session has ended."""
        if self._watch is not None and session == self.session:
            self.session = None
            self._report(self._watch.expired())
            self._changed.set()

    def fell_behind(self) -> None:
        """Record that notifications of changes were missed, and report session events, as after a lost connection."""
        if self._watch is not None and self._watch.state is SessionState.CONNECTED:
            self._report(self._watch.fell_behind())

    async def until_lost(self) -> None:
        """Read the session's record regularly. Return when a read shows that the session has ended, or when no read has
        shown for too long that it is alive.

        A read is sent even if the previous one is not answered yet, so slow answers of the store do not delay the next
        read.
        """
        watch, loop = self._watch, asyncio.get_running_loop()
        assert watch is not None, "a session was opened"
        reading = BackgroundTasks("own_session_read_failed")
        try:
            while (session := self.session) is not None:
                if len(reading) < _MAX_CONCURRENT_READS:
                    reading.start(self._read(watch, session), "read own session")
                await self._pause(min(loop.time() + self._times.look_s, watch.deadline_s))
                if self.session is session and loop.time() >= watch.deadline_s:
                    log.warning("lease_not_seen_to_last", session=session[:8])
                    self.session = None
                    self._report(watch.failed(loop.time()))
        finally:
            reading.cancel()

    async def _read(self, watch: SessionWatch, session: str) -> None:
        asked_at_s = asyncio.get_running_loop().time()
        try:
            is_alive = await self.is_alive(session)
        except MetadataError as error:
            log.debug("own_session_not_read", reason=str(error))
            if self.session is session and asyncio.get_running_loop().time() < watch.deadline_s:
                self._report(watch.failed(asyncio.get_running_loop().time()))
            return
        if not is_alive:
            self.ended(session)
        elif self.session is session:
            self._report(watch.confirmed(asked_at_s))

    async def is_alive(self, session: str) -> bool:
        """Return whether the record of a session exists and is not marked as ended.

        Raises:
            MetadataError: the store did not answer.
        """
        record = await get_ahead(self._store, session_path(session))
        try:
            return record is not None and not session_of(record).is_marked
        except InvalidValueError:
            return False

    async def _pause(self, until_s: float) -> None:
        left_s = until_s - asyncio.get_running_loop().time()
        self._changed.clear()
        if left_s > 0 and self.session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        else:
            await asyncio.sleep(0)
