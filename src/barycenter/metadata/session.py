"""What a client knows of its session: a state machine without clock or I/O.

| state        | failed                     | deadline passed    | expired            | answer          |
|--------------|----------------------------|--------------------|--------------------|-----------------|
| CONNECTED    | DISCONNECTED               | -                  | LOST, by way of it | CONNECTED       |
| DISCONNECTED | DISCONNECTED               | LOST               | LOST               | CONNECTED       |
| LOST         | LOST                       | LOST               | LOST               | only by renewal |

The client counts from the moment it *sent* the last heartbeat that was answered, and gives up after 5/6 of
the timeout, so it knows of the loss before the store may let anybody else take its keys. A client that was
paused cannot count; it learns of the loss from the store's answer (`expired`). A lost session is never taken
up again: the client ends it, in case it still exists, and opens another (`renewed`).

Source: the session watcher of Pulsar's ZooKeeper store; the ways through the states are its event sequences.
"""

import enum

from barycenter.metadata.store import SessionEvent


class SessionState(enum.Enum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    LOST = "lost"


class SessionWatch:
    """The state of one client's session. Times are seconds of any monotonic clock; each transition returns
    the events to tell, in order."""

    def __init__(self, timeout_s: float, now_s: float) -> None:
        self.state = SessionState.CONNECTED
        self._give_up_after_s = timeout_s * 5 / 6
        self._confirmed_at_s = now_s

    @property
    def deadline_s(self) -> float:
        """When a client without an answer must take its session for lost."""
        return self._confirmed_at_s + self._give_up_after_s

    def confirmed(self, sent_at_s: float) -> list[SessionEvent]:
        """The store answered a heartbeat sent at `sent_at_s`: the session is alive."""
        if self.state is SessionState.LOST:
            return []
        self._confirmed_at_s = max(self._confirmed_at_s, sent_at_s)
        if self.state is SessionState.CONNECTED:
            return []
        self.state = SessionState.CONNECTED
        return [SessionEvent.RECONNECTED]

    def fell_behind(self) -> list[SessionEvent]:
        """The session is alive but notifications were missed: as if the connection had broken for a moment."""
        if self.state is not SessionState.CONNECTED:
            return []  # reconnecting will tell
        return [SessionEvent.CONNECTION_LOST, SessionEvent.RECONNECTED]

    def failed(self, now_s: float) -> list[SessionEvent]:
        """A heartbeat was not answered, or not in time."""
        events = []
        if self.state is SessionState.CONNECTED:
            self.state = SessionState.DISCONNECTED
            events.append(SessionEvent.CONNECTION_LOST)
        if self.state is SessionState.DISCONNECTED and now_s >= self.deadline_s:
            self.state = SessionState.LOST
            events.append(SessionEvent.SESSION_LOST)
        return events

    def expired(self) -> list[SessionEvent]:
        """The store said that the session has ended."""
        events = []
        if self.state is SessionState.CONNECTED:
            events.append(SessionEvent.CONNECTION_LOST)
        if self.state is not SessionState.LOST:
            events.append(SessionEvent.SESSION_LOST)
        self.state = SessionState.LOST
        return events

    def renewed(self, sent_at_s: float) -> list[SessionEvent]:
        """A new session was opened by a request sent at `sent_at_s`."""
        self.state = SessionState.CONNECTED
        self._confirmed_at_s = sent_at_s
        return [SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED]
