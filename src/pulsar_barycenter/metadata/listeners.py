"""Who is told of a store's changes and session events, and in which order. Shared by all stores."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, Notification, SessionEvent, notifications_of

log = structlog.get_logger(__name__)

Told = TypeVar("Told")


class StoreListeners:
    """The listeners and caches of one store. All methods run on the store's event loop.

    A listener that raises is logged and hinders nobody else; listeners added or removed while a
    round is told count from the next one on.
    """

    def __init__(self) -> None:
        self._invalidators: list[Callable[[Notification | None], None]] = []
        self._listeners: list[Callable[[Notification], None]] = []
        self._session_listeners: list[Callable[[SessionEvent], None]] = []

    def add_invalidator(self, invalidate: Callable[[Notification | None], None]) -> Callable[[], None]:
        return _add(self._invalidators, invalidate)

    def add_listener(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        return _add(self._listeners, listener)

    def add_session_listener(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        return _add(self._session_listeners, listener)

    def invalidate(self, change: Notification | None) -> None:
        """Have the caches forget `change`'s path, or everything."""
        for invalidate in tuple(self._invalidators):
            invalidate(change)

    def change(self, change: Notification) -> None:
        """Tell one change of a key and the changes of children that follow from it."""
        for notification in notifications_of(change):
            self.invalidate(notification)
            self.tell(notification)

    def tell(self, notification: Notification) -> None:
        """Tell this one alone; the caches have heard of it already."""
        _tell(self._listeners, notification)

    def session_events(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            if event in CONNECTED_EVENTS:
                self.invalidate(None)
            log.info("metadata_session_event", session_event=event.value)
            _tell(self._session_listeners, event)


def _add(listeners: list[Callable[[Told], None]], listener: Callable[[Told], None]) -> Callable[[], None]:
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove


def _tell(listeners: list[Callable[[Told], None]], told: Told) -> None:
    for listener in tuple(listeners):
        try:
            listener(told)
        except Exception:
            log.exception("metadata_listener_failed", told=str(told))
