"""How a broker knows that its session lasts: it reads its own record again and again, and counts from when it asked.

The states are those of any session (`metadata.session`), whose table says what is told. The timeout is a lease, of
which a broker relies on 5/6.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError
from pulsar_barycenter.metadata.leased.records import session_of, session_path
from pulsar_barycenter.metadata.leased.session_table import LeaseTimes
from pulsar_barycenter.metadata.session import SessionState, SessionWatch
from pulsar_barycenter.metadata.store import MetadataStore, SessionEvent, get_ahead

log = structlog.get_logger(__name__)

_MOST_READS: Final = 16


class Lease:
    """The lease of one session after the other; `tell` hears of each session event."""

    def __init__(self, store: MetadataStore, times: LeaseTimes, tell: Callable[[list[SessionEvent]], None]) -> None:
        self._store = store
        self._times = times
        self._tell = tell
        self._watch: SessionWatch | None = None
        self._changed = asyncio.Event()
        self.session: str | None = None
        """The session of now; None while there is none."""

    @property
    def is_overdue(self) -> bool:
        """Whether others may have taken this session's keys."""
        watch = self._watch
        return self.session is None or watch is None or asyncio.get_running_loop().time() >= watch.deadline_s

    def begin(self, session: str, asked_at_s: float) -> None:
        """Begin with a session whose record was found unmarked by a read that was sent at that time."""
        self.session = session
        if self._watch is None:
            self._watch = SessionWatch(self._times.lease_s, asked_at_s)
        else:
            self._tell(self._watch.renewed(asked_at_s))
        self._changed.set()

    def ended(self, session: str) -> None:
        """Hear that a session is over."""
        if self._watch is not None and session == self.session:
            self.session = None
            self._tell(self._watch.expired())
            self._changed.set()

    def fell_behind(self) -> None:
        """Notifications were missed."""
        if self._watch is not None and self._watch.state is SessionState.CONNECTED:
            self._tell(self._watch.fell_behind())

    async def until_lost(self) -> None:
        """Read the record as often as it takes, until the session is over.

        A read does not wait for the answer to the one before: a slow store is no reason to stop.
        """
        watch, loop = self._watch, asyncio.get_running_loop()
        assert watch is not None, "a session was opened"
        reading: dict[asyncio.Task[None], None] = {}
        try:
            while (session := self.session) is not None:
                if len(reading) < _MOST_READS:
                    task = asyncio.create_task(self._read(watch, session), name="read own session")
                    reading[task] = None
                    task.add_done_callback(lambda done: reading.pop(done, None))
                await self._pause(min(loop.time() + self._times.look_s, watch.deadline_s))
                if self.session is session and loop.time() >= watch.deadline_s:
                    log.warning("lease_not_seen_to_last", session=session[:8])
                    self.session = None
                    self._tell(watch.failed(loop.time()))
        finally:
            for task in list(reading):
                task.cancel()

    async def _read(self, watch: SessionWatch, session: str) -> None:
        asked_at_s = asyncio.get_running_loop().time()
        try:
            goes_on = await self.goes_on(session)
        except MetadataError as error:
            log.debug("own_session_not_read", reason=str(error))
            if self.session is session and asyncio.get_running_loop().time() < watch.deadline_s:
                self._tell(watch.failed(asyncio.get_running_loop().time()))
            return
        if not goes_on:
            self.ended(session)
        elif self.session is session:
            self._tell(watch.confirmed(asked_at_s))

    async def goes_on(self, session: str) -> bool:
        """Return whether the record of a session is there, and not marked.

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
