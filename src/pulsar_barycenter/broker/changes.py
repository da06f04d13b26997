"""Waits for changes: of objects in this process, and of values in the metadata store."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore, Notification, SessionEvent

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class NextChange:
    """Lets tasks wait for a change. `notify` wakes all tasks that wait at that moment; a task that begins to wait later
    waits for the next call of `notify`.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}
        """A dict because it keeps the order of arrival; a set would wake tasks in another order in each run."""

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiters)

    async def wait(self, timeout_s: float) -> None:
        """Return at the next call of `notify`, or after `timeout_s` seconds without one. The caller cannot tell which
        of the two happened.
        """
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            pass
        finally:
            self._waiters.pop(waiter, None)

    def notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class KeyedChanges(Generic[K]):
    """Lets tasks wait for a change of a key. `notify` wakes the tasks that wait for this key at that moment."""

    def __init__(self) -> None:
        self._changes: dict[K, NextChange] = {}

    async def wait(self, key: K, timeout_s: float) -> None:
        """Return at the next call of `notify` for `key`, or after `timeout_s` seconds without one. The caller cannot
        tell which of the two happened.
        """
        change = self._changes.setdefault(key, NextChange())
        try:
            await change.wait(timeout_s)
        finally:
            if not change.is_awaited and self._changes.get(key) is change:
                del self._changes[key]

    def notify(self, key: K) -> None:
        if (change := self._changes.get(key)) is not None:
            change.notify()


class StoreWatch:
    """Calls `read`, which reads values from the metadata store, after each change of these values, and at least every
    `interval_s` seconds.

    Notifications may be late or lost; because of the interval, a change is still noticed `interval_s` seconds later at
    most. A reconnection to the store counts as a change. `concerns` gets the path of a changed key, and returns whether
    the values may have changed. `read` is called with True after a notification, else with False. If it raises a
    MetadataError, this is logged as the event `failure`, and the next call tries again.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        name: str,
        concerns: Callable[[str], bool],
        read: Callable[[bool], Awaitable[object]],
        interval_s: float,
        failure: str,
    ) -> None:
        self._store = store
        self._name = name
        self._concerns = concerns
        self._read = read
        self._interval_s = interval_s
        self._failure = failure
        self._changed = asyncio.Event()
        self._stop_listening: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self, first_read: Callable[[], Awaitable[object]]) -> None:
        """Begin to listen for changes, call `first_read` once, and then watch in the background. Errors of `first_read`
        are raised; then nothing is watched.
        """
        self._stop_listening = [
            self._store.add_listener(self._on_notification),
            self._store.add_session_listener(self._on_session_event),
        ]
        await first_read()
        self._task = asyncio.create_task(self._watch(), name=self._name)

    def look(self) -> None:
        """Make the watch call `read` soon, as after a notification of a change."""
        self._changed.set()

    async def close(self) -> None:
        """Stop watching. Idempotent."""
        for stop in self._stop_listening:
            stop()
        self._stop_listening = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
            was_notified = self._changed.is_set()
            self._changed.clear()
            try:
                await self._read(was_notified)
            except MetadataError as error:
                log.warning(self._failure, reason=str(error))

    def _on_notification(self, notification: Notification) -> None:
        if self._concerns(notification.path):
            self._changed.set()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:
            self._changed.set()
