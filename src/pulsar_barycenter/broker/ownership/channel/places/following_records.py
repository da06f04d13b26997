"""The ownership records in the place that is used now, a topic or the metadata store. All brokers read the key that
names this place (`place`).

Before the leader moves the records, all brokers stop writing them: a broker accepts no new writes, waits for its writes
in progress, and then neither sees nor makes changes until the key names the new place. It continues to serve its
bundles. A broker creates a key of its own before it reads the key of the place, and the leader lists these keys after
it has written the key of the place. So either the leader knows that the broker may write, or the broker knows that it
must stop. Both kinds of keys depend on the session of their writer, and a broker without a session writes no records.

A change of a record that is requested in this time waits for at most _MAX_WAIT_S seconds. If the move has not ended by
then, the change fails.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.ownership.channel.places.place import (
    PLACE_PATH,
    READERS_ROOT,
    Place,
    read_or_make_place,
)
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, OwnershipRecords, RecordListener
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.coordination.epochs import require_guard
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, Guard, MetadataStore, Notification, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

_RETRY_S: Final = 0.2
_CHECK_AGAIN_S: Final = 5.0
"""The interval in seconds at which the key of the place is read, even without a notification."""
_MAX_WAIT_S: Final = 5.0
"""The maximum number of seconds that a change of a record waits while the records are being moved."""


class FollowingRecords:
    """The ownership records in the place where they are now, a topic or the metadata store. If they are moved to the
    other place, this object changes over to it. Implements `OwnershipRecords`.
    """

    def __init__(
        self,
        store: MetadataStore,
        incarnation: str,
        first_place: Callable[[], StorageType],
        make: Callable[[StorageType], OwnershipRecords],
    ) -> None:
        """`first_place` returns where the records of a new cluster are stored, in a topic or in the metadata store.
        `make` returns an object for the records in one of these two; this object calls its `start`.
        """
        self._store = store
        self._key = f"{READERS_ROOT}/{incarnation}"
        self._first_place = first_place
        self._make = make
        self._inner: OwnershipRecords | None = None
        self._known: dict[Bundle, ServiceUnitStateData] = {}
        self._listener: RecordListener | None = None
        self.place: Place | None = None
        """The key's value when it was last read."""
        self._session = 0
        self._shown_in: int | None = None
        """The session in which this reader's own key was written."""
        self._key_version = 0
        self._stood_still: tuple[int, int] | None = None
        """The generation and the session in which this reader last published that it has stopped."""
        self._may_write = False
        self._is_still = False
        self._writing = 0
        self._progress = NextChange()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stop_listening: list[Callable[[], None]] = []
        self._closed = False

    @property
    def storage(self) -> StorageType:
        return self._first_place() if self._inner is None else self._inner.storage

    @property
    def is_read(self) -> bool:
        return self._inner is not None and self._inner.is_read

    @property
    def may_write(self) -> bool:
        """Whether this broker may write ownership records: it watches the key that names the place of the records, and
        no move of the records is in progress that requires it to stop.
        """
        return self._may_write

    @property
    def session(self) -> int:
        """How many sessions of this broker have ended so far. Two equal values mean that no session ended in
        between.
        """
        return self._session

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        return self._known.get(bundle)

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        return list(self._known.items())

    def bundles(self) -> list[Bundle]:
        return list(self._known)

    def start(self, listener: RecordListener) -> None:
        self._listener = listener
        self._stop_listening = [
            self._store.add_listener(self._on_notification),
            self._store.add_session_listener(self._on_session_event),
        ]
        self._task = asyncio.create_task(self._follow(), name="place of ownership records")

    async def close(self) -> None:
        self._closed = True
        self._may_write = False
        self._listener = None
        for stop in self._stop_listening:
            stop()
        self._stop_listening = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._inner is not None:
            await self._inner.close()
        self._progress.notify()

    async def refresh(self, bundle: Bundle) -> None:
        if self._inner is not None:
            await self._inner.refresh(bundle)

    async def catch_up(self) -> None:
        inner = self._inner
        if inner is None or not self._may_write:
            raise ChannelUnavailableError(
                "the ownership records are being moved to another place, or the metadata store does not answer"
            )
        await inner.catch_up()
        if inner is not self._inner:
            raise ChannelUnavailableError(
                "the ownership records were moved to another place while this broker read them"
            )

    async def all_read(self) -> dict[Bundle, ServiceUnitStateData]:
        """Read and return all ownership records in the place that is used now, even while this broker must not write.

        Raises:
            ChannelUnavailableError: the records cannot be read now.
        """
        if self._inner is None:
            raise ChannelUnavailableError("this broker does not know the place of the ownership records yet")
        await self._inner.catch_up()
        return dict(self._inner.items())

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        await self._await_permission()
        inner = self._inner
        assert inner is not None, "a broker can only write after it has records"
        if self._known.get(bundle) is not before:
            return False
        self._writing += 1
        try:
            if guard is not None and inner.storage is not StorageType.METADATA_STORE:
                await require_guard(self._store, guard)
            return await inner.put(bundle, before, after, guard)
        finally:
            self._writing -= 1
            self._progress.notify()

    async def _await_permission(self) -> None:
        """Wait until this broker may write ownership records.

        Raises:
            ChannelUnavailableError: this broker may still not write after _MAX_WAIT_S seconds, is closed, or lost the
                session in which the change was decided. Nothing was written.
        """
        session, loop = self._session, asyncio.get_running_loop()
        deadline = loop.time() + _MAX_WAIT_S
        while not self._may_write:
            left_s = deadline - loop.time()
            if self._closed or self._session != session or left_s <= 0:
                raise ChannelUnavailableError(
                    "the ownership records are being moved to another place, or the metadata store does not answer"
                )
            await self._progress.wait(left_s)
        if self._session != session:
            raise ChannelUnavailableError("the change was not written, because the session of this broker ended before")

    # ---- following ----

    async def _follow(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._look()
            except (MetadataError, ChannelUnavailableError) as error:
                log.warning("place_of_ownership_records_not_followed", reason=str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_AGAIN_S):
                    await self._wake.wait()

    async def _look(self) -> None:
        session = self._session
        if self._shown_in != session:
            await self._show()
            self._shown_in = session
        self.place = place = (await read_or_make_place(self._store, self._first_place())).place
        if place.is_moving:
            await self._stand_still(place, session)
        else:
            await self._go_on(place, session)

    async def _show(self) -> None:
        """Create the ephemeral key that shows the leader that this broker reads the ownership records and may write
        them.

        Raises:
            MetadataError: the key of a former session still exists, or the store did not answer.
        """
        stored = await self._store.get(self._key)
        if stored is not None and stored.stat.created_by_self:
            self._key_version = stored.stat.version
        else:
            stat = await self._store.put(self._key, b"0", expected_version=MUST_NOT_EXIST, ephemeral=True)
            self._key_version = stat.version

    async def _stand_still(self, place: Place, session: int) -> None:
        self._may_write = False
        while self._writing:
            await self._progress.wait(_RETRY_S)
        self._is_still = True
        if self._stood_still != (place.generation, session):
            # Until the write has succeeded, the key's version is not known: the next attempt reads it.
            generation, self._shown_in = str(place.generation).encode(), None
            stat = await self._store.put(self._key, generation, expected_version=self._key_version, if_own=True)
            self._shown_in, self._key_version = session, stat.version
            self._stood_still = place.generation, session

    def _begin(self, place: Place) -> None:
        inner = self._inner = self._make(place.place)
        inner.start(partial(self._on_record, inner))

    async def _go_on(self, place: Place, session: int) -> None:
        if self._inner is None:
            self._begin(place)
        elif self._inner.storage is not place.place:
            await self._change_over(place)
        if self._is_still:
            self._is_still = False
            self._notify_differences()
        if self._session == session and not self._closed:
            self._may_write = True
            self._progress.notify()

    async def _change_over(self, place: Place) -> None:
        """Change over to the place to which the ownership records were moved: read them there, then close the object
        for the former place.
        """
        self._may_write = False
        self._is_still = True
        new = self._make(place.place)
        try:
            new.start(partial(self._on_record, new))
            while not new.is_read:
                await self._progress.wait(_RETRY_S / 4)
            await new.catch_up()
        except BaseException:
            await new.close()
            raise
        former, self._inner = self._inner, new
        log.info("ownership_records_followed", place=place.place.value, generation=place.generation)
        if former is not None:
            await former.close()

    def _notify_differences(self) -> None:
        """Call the listener with each record that changed while the records were being moved, when this broker did not
        follow changes.
        """
        assert self._inner is not None
        before, self._known = self._known, dict(self._inner.items())
        for bundle in [*before, *(bundle for bundle in self._known if bundle not in before)]:
            was, now = before.get(bundle), self._known.get(bundle)
            if was != now and self._listener is not None:
                self._listener(bundle, was, now)

    def _on_record(
        self,
        inner: OwnershipRecords,
        bundle: Bundle,
        _before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
    ) -> None:
        if inner is not self._inner or self._is_still:
            return
        before = self._known.pop(bundle, None)
        if after is not None:
            self._known[bundle] = after
        if self._listener is not None:
            self._listener(bundle, before, after)

    def _on_notification(self, change: Notification) -> None:
        if change.path == PLACE_PATH:
            self._wake.set()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._session += 1
            self._may_write = False
            self._progress.notify()
        elif event in (SessionEvent.SESSION_REESTABLISHED, SessionEvent.RECONNECTED):
            self._wake.set()
