"""What a client knows of its session: a state machine without clock or I/O, whose table is TRANSITIONS.

The client counts from the moment it *sent* the last heartbeat that was answered, and gives up after 5/6 of
the timeout, so it knows of the loss before the store may let anybody else take its keys. A client that was
paused cannot count; it learns of the loss from the store's answer (ENDED). A lost session is never taken
up again: the client ends it, in case it still exists, and opens another (RENEWED).

Source: the session watcher of Pulsar's ZooKeeper store; the ways through the states are its event sequences.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.metadata.store import SessionEvent


class SessionState(enum.Enum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    LOST = "lost"


class Sign(enum.Enum):
    """What a client takes notice of."""

    ANSWERED = "answered"
    """The store answered a heartbeat: the session is alive."""
    SILENT = "silent"
    """A heartbeat was not answered, or not in time."""
    OVERDUE = "overdue"
    """Likewise, and the deadline has passed."""
    ENDED = "ended"
    """The store said that the session has ended."""
    MISSED = "missed"
    """The session is alive but notifications were missed."""
    RENEWED = "renewed"
    """Another session was opened in place of the lost one."""


_CONNECTED, _DISCONNECTED, _LOST = SessionState
_STAY: Final = ()
_BROKEN: Final = (SessionEvent.CONNECTION_LOST,)
_BACK: Final = (SessionEvent.RECONNECTED,)
_OVER: Final = (SessionEvent.SESSION_LOST,)

TRANSITIONS: Final[Mapping[tuple[SessionState, Sign], tuple[SessionState, tuple[SessionEvent, ...]]]] = {
    (_CONNECTED, Sign.ANSWERED): (_CONNECTED, _STAY),
    (_CONNECTED, Sign.SILENT): (_DISCONNECTED, _BROKEN),
    (_CONNECTED, Sign.OVERDUE): (_LOST, (*_BROKEN, *_OVER)),
    (_CONNECTED, Sign.ENDED): (_LOST, (*_BROKEN, *_OVER)),
    (_CONNECTED, Sign.MISSED): (_CONNECTED, (*_BROKEN, *_BACK)),
    (_DISCONNECTED, Sign.ANSWERED): (_CONNECTED, _BACK),
    (_DISCONNECTED, Sign.SILENT): (_DISCONNECTED, _STAY),
    (_DISCONNECTED, Sign.OVERDUE): (_LOST, _OVER),
    (_DISCONNECTED, Sign.ENDED): (_LOST, _OVER),
    (_DISCONNECTED, Sign.MISSED): (_DISCONNECTED, _STAY),  # reconnecting will tell
    (_LOST, Sign.ANSWERED): (_LOST, _STAY),
    (_LOST, Sign.SILENT): (_LOST, _STAY),
    (_LOST, Sign.OVERDUE): (_LOST, _STAY),
    (_LOST, Sign.ENDED): (_LOST, _STAY),
    (_LOST, Sign.MISSED): (_LOST, _STAY),
    (_LOST, Sign.RENEWED): (_CONNECTED, (*_BACK, SessionEvent.SESSION_REESTABLISHED)),
}
"""(state, sign) to the next state and the events to tell, in order. Only a lost session is renewed."""


class SessionWatch:
    """The state of one client's session. Times are seconds of any monotonic clock; each sign taken returns the
    events to tell, in order."""

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self.state = SessionState.CONNECTED
        self._give_up_after_s = timeout_s * 5 / 6
        self._confirmed_at_s = now_s

    @property
    def deadline_s(self) -> float:
        """When a client without an answer must take its session for lost."""
        return self._confirmed_at_s + self._give_up_after_s

    def _take(self, sign: Sign) -> list[SessionEvent]:
        self.state, events = TRANSITIONS[self.state, sign]
        return list(events)

    def confirmed(self, sent_at_s: float) -> list[SessionEvent]:
        """The store answered a heartbeat sent at `sent_at_s`."""
        if self.state is not SessionState.LOST:
            self._confirmed_at_s = max(self._confirmed_at_s, sent_at_s)
        return self._take(Sign.ANSWERED)

    def fell_behind(self) -> list[SessionEvent]:
        """Notifications were missed: as if the connection had broken for a moment."""
        return self._take(Sign.MISSED)

    def failed(self, now_s: float) -> list[SessionEvent]:
        """A heartbeat was not answered, or not in time."""
        return self._take(Sign.OVERDUE if now_s >= self.deadline_s else Sign.SILENT)

    def expired(self) -> list[SessionEvent]:
        """The store said that the session has ended."""
        return self._take(Sign.ENDED)

    def renewed(self, sent_at_s: float, timeout_s: float | None = None) -> list[SessionEvent]:
        """A new session was opened in place of the lost one by a request sent at `sent_at_s`; `timeout_s` if it has
        another timeout."""
        self._confirmed_at_s = sent_at_s
        if timeout_s is not None:
            self._give_up_after_s = timeout_s * 5 / 6
        return self._take(Sign.RENEWED)
