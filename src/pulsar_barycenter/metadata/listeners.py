"""The listeners and caches of a store, and the order in which they are called."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, Notification, SessionEvent, notifications_of

log = structlog.get_logger(__name__)

Event = TypeVar("Event")


class StoreListeners:
    """The functions that one store calls when a key changes: caches first, then listeners. All methods run on the
    store's event loop.

    A listener that raises is logged and does not affect the others. A listener that is added or removed while listeners
    are called gets, or no longer gets, the next notification or event.
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
        """Make the caches drop the value of the changed key; with None, all values."""
        for invalidate in tuple(self._invalidators):
            invalidate(change)

    def change(self, change: Notification) -> None:
        """Report a change of a key to caches and listeners, and also the change of its parent's list of children."""
        for notification in notifications_of(change):
            self.invalidate(notification)
            self.notify(notification)

    def notify(self, notification: Notification) -> None:
        """Report one notification to the listeners only. The caches have received it already."""
        _call_all(self._listeners, notification)

    def session_events(self, events: Iterable[SessionEvent]) -> None:
        """Report session events in order. The caches are emptied before an event of CONNECTED_EVENTS."""
        for event in events:
            if event in CONNECTED_EVENTS:
                self.invalidate(None)
            log.info("metadata_session_event", session_event=event.value)
            _call_all(self._session_listeners, event)


def _add(listeners: list[Callable[[Event], None]], listener: Callable[[Event], None]) -> Callable[[], None]:
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove


def _call_all(listeners: list[Callable[[Event], None]], event: Event) -> None:
    for listener in tuple(listeners):
        try:
            listener(event)
        except Exception:
            log.exception("metadata_listener_failed", told=str(event))
