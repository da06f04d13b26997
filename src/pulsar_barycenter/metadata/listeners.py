"""The listeners and caches of a store, and the order in which they are called."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog

from pulsar_barycenter.metadata.store import CONNECTED_EVENTS, Notification, SessionEvent, notifications_of

log = structlog.get_logger(__name__)

Event = TypeVar("Event")


class StoreListeners:
    """The functions that one store calls when a key has changed: first those of caches, then the listeners. All methods
    run on the store's event loop.

    If a listener raises an exception, this is logged, and the other listeners are called. Listeners may be added and
    removed while listeners are called; this has an effect from the next notification or event on.
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
        """Make the caches drop the value of the key that has changed. `change` None: make them drop all values."""
        for invalidate in tuple(self._invalidators):
            invalidate(change)

    def change(self, change: Notification) -> None:
        """Report the change of a key to the caches and the listeners. If the key was created or deleted, also report
        that the lists of children of the keys above it have changed.
        """
        for notification in notifications_of(change):
            self.invalidate(notification)
            self.notify(notification)

    def notify(self, notification: Notification) -> None:
        """Report a notification to the listeners, but not to the caches, because the caches have received
        it already.
        """
        _call_all(self._listeners, notification)

    def session_events(self, events: Iterable[SessionEvent]) -> None:
        """Report session events to the session listeners, in order. Before an event in CONNECTED_EVENTS, the caches
        drop all values.
        """
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
