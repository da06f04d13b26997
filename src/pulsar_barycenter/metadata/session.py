"""What a client knows about its session with a store: a state machine without clock or I/O, whose table is TRANSITIONS.

The client counts from the moment it *sent* the last heartbeat that was answered, and treats the session as lost after
5/6 of the timeout. So it knows of the loss before the store may give the session's keys to another client. A client
that was paused could not count; it learns of the loss by the store's next answer (ENDED). A lost session is never
resumed: the client ends it, in case it still exists, and opens another one (RENEWED).

Source: the session watcher of Pulsar's ZooKeeper store; the paths through the states are its event sequences.
"""

import enum
from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.metadata.store import SessionEvent


class SessionState(enum.Enum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    LOST = "lost"


class SessionSign(enum.Enum):
    """What a client has observed of its session with a store: the input of the state machine in this module."""

    ANSWERED = "answered"
    """The store answered a heartbeat: the session is alive."""
    SILENT = "silent"
    """A heartbeat was not answered in time; the session is not lost yet."""
    OVERDUE = "overdue"
    """A heartbeat was not answered, and the session must be treated as lost."""
    ENDED = "ended"
    """The store reported that the session has ended."""
    MISSED = "missed"
    """The session is alive, but notifications were missed."""
    RENEWED = "renewed"
    """Another session was opened to replace the lost one."""


_CONNECTED, _DISCONNECTED, _LOST = SessionState
_NO_EVENTS: Final = ()
_CONNECTION_LOST: Final = (SessionEvent.CONNECTION_LOST,)
_RECONNECTED: Final = (SessionEvent.RECONNECTED,)
_SESSION_LOST: Final = (SessionEvent.SESSION_LOST,)

TRANSITIONS: Final[Mapping[tuple[SessionState, SessionSign], tuple[SessionState, tuple[SessionEvent, ...]]]] = {
    (_CONNECTED, SessionSign.ANSWERED): (_CONNECTED, _NO_EVENTS),
    (_CONNECTED, SessionSign.SILENT): (_DISCONNECTED, _CONNECTION_LOST),
    (_CONNECTED, SessionSign.OVERDUE): (_LOST, (*_CONNECTION_LOST, *_SESSION_LOST)),
    (_CONNECTED, SessionSign.ENDED): (_LOST, (*_CONNECTION_LOST, *_SESSION_LOST)),
    (_CONNECTED, SessionSign.MISSED): (_CONNECTED, (*_CONNECTION_LOST, *_RECONNECTED)),
    (_DISCONNECTED, SessionSign.ANSWERED): (_CONNECTED, _RECONNECTED),
    (_DISCONNECTED, SessionSign.SILENT): (_DISCONNECTED, _NO_EVENTS),
    (_DISCONNECTED, SessionSign.OVERDUE): (_LOST, _SESSION_LOST),
    (_DISCONNECTED, SessionSign.ENDED): (_LOST, _SESSION_LOST),
    (_DISCONNECTED, SessionSign.MISSED): (_DISCONNECTED, _NO_EVENTS),  # RECONNECTED follows and has the same effect
    (_LOST, SessionSign.ANSWERED): (_LOST, _NO_EVENTS),
    (_LOST, SessionSign.SILENT): (_LOST, _NO_EVENTS),
    (_LOST, SessionSign.OVERDUE): (_LOST, _NO_EVENTS),
    (_LOST, SessionSign.ENDED): (_LOST, _NO_EVENTS),
    (_LOST, SessionSign.MISSED): (_LOST, _NO_EVENTS),
    (_LOST, SessionSign.RENEWED): (_CONNECTED, (*_RECONNECTED, SessionEvent.SESSION_REESTABLISHED)),
}
"""For each state and observation: the next state, and the session events to report, in order. Only a lost session is
renewed.
"""


class SessionWatch:
    """The state of one client's session, as the client knows it. Times are seconds of a monotonic clock. Each method
    that records an observation returns the session events that the client has to report, in order.
    """

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self.state = SessionState.CONNECTED
        self._give_up_after_s = timeout_s * 5 / 6
        self._confirmed_at_s = now_s

    @property
    def deadline_s(self) -> float:
        """The time at which the client has to treat its session as lost, unless a heartbeat is answered before."""
        return self._confirmed_at_s + self._give_up_after_s

    def _take(self, sign: SessionSign) -> list[SessionEvent]:
        self.state, events = TRANSITIONS[self.state, sign]
        return list(events)

    def confirmed(self, sent_at_s: float) -> list[SessionEvent]:
        """Record that the store has answered the heartbeat that was sent at `sent_at_s`."""
        if self.state is not SessionState.LOST:
            self._confirmed_at_s = max(self._confirmed_at_s, sent_at_s)
        return self._take(SessionSign.ANSWERED)

    def fell_behind(self) -> list[SessionEvent]:
        """Record that notifications were missed. While connected, the events are CONNECTION_LOST and RECONNECTED, as
        after a short loss of the connection.
        """
        return self._take(SessionSign.MISSED)

    def failed(self, now_s: float) -> list[SessionEvent]:
        """Record that a heartbeat was not answered in time. If `now_s` is at or after `deadline_s`, the session is
        lost.
        """
        return self._take(SessionSign.OVERDUE if now_s >= self.deadline_s else SessionSign.SILENT)

    def expired(self) -> list[SessionEvent]:
        """Record that the store has reported that the session has ended."""
        return self._take(SessionSign.ENDED)

    def renewed(self, sent_at_s: float, timeout_s: float | None = None) -> list[SessionEvent]:
        """Record that a new session was opened, because the former one is lost. The request that opened it was sent at
        `sent_at_s`.

        `timeout_s` is the timeout of the new session; None if it is that of the former one.
        """
        self._confirmed_at_s = sent_at_s
        if timeout_s is not None:
            self._give_up_after_s = timeout_s * 5 / 6
        return self._take(SessionSign.RENEWED)
