"""Decides when the leader ends a session. No clock and no I/O.

| state   | its broker …                 | leaves it by |
|---------|------------------------------|-------------------------------------------------------------------------- |
| OPEN    | may write                    | SILENT, no message for `silence_s` → MARKING; RELEASED → OVER |
| MARKING | can no longer write          | MARKED, the mark is known to be in the store → WAITING; RELEASED → OVER |
| WAITING | finds the mark, and stops    | EXPIRED, a whole lease after that → OVER; RELEASED → OVER |
| OVER    | does not use the session     | its keys are removed, then `forget` |

RELEASED: the broker reported that it does not use the session any more. An event that is not in TRANSITIONS changes
nothing.

Leader and broker may have different timeouts, for example while the timeout is changed broker by broker. The longer one
applies, for silence and for the wait after a mark.

A leader that was paused received nothing. So between two calls of `tick` at most twice the usual interval counts as
silence. A new leader starts to count the silence again, and also the wait after a mark that it finds.
"""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


class LeaseState(enum.Enum):
    """The state of a session, as the leader knows it; the table in this module describes the states."""

    OPEN = "open"
    MARKING = "marking"
    WAITING = "waiting"
    OVER = "over"


class LeaseEvent(enum.Enum):
    SILENT = "silent"
    MARKED = "marked"
    EXPIRED = "expired"
    RELEASED = "released"


_OPEN, _MARKING, _WAITING, _OVER = LeaseState

TRANSITIONS: Final[Mapping[tuple[LeaseState, LeaseEvent], LeaseState]] = {
    (_OPEN, LeaseEvent.SILENT): _MARKING,
    (_MARKING, LeaseEvent.MARKED): _WAITING,
    (_WAITING, LeaseEvent.EXPIRED): _OVER,
    (_OPEN, LeaseEvent.RELEASED): _OVER,
    (_MARKING, LeaseEvent.RELEASED): _OVER,
    (_WAITING, LeaseEvent.RELEASED): _OVER,
}


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times that follow from the timeout of a session. `silence_s` is one half of the timeout, `lease_s` the other
    half.
    """

    timeout_s: float

    @property
    def silence_s(self) -> float:
        """If the leader receives no message from a session's broker for this number of seconds, it marks the session as
        ended.
        """
        return self.timeout_s / 2

    @property
    def lease_s(self) -> float:
        """The number of seconds for which the leader waits after it has marked a session as ended, before it deletes
        the session's keys. The broker stops using the session within this time.
        """
        return self.timeout_s / 2

    @property
    def lease_ms(self) -> int:
        """`lease_s` in milliseconds, rounded up, as a broker sends it to the leader."""
        return math.ceil(self.lease_s * 1000)

    def at_least(self, lease_ms: int) -> "LeaseTimes":
        """Return these times if their lease is at least `lease_ms`, the lease time that a broker has sent; otherwise
        the times whose lease is `lease_ms`.
        """
        return LeaseTimes(max(self.timeout_s, 2 * lease_ms / 1000))

    @property
    def look_s(self) -> float:
        """The interval in seconds at which a broker reads its session record."""
        return self.lease_s / 6

    @property
    def live_s(self) -> float:
        """The interval in seconds at which a broker sends heartbeats to the leader."""
        return self.silence_s / 6

    @property
    def tick_s(self) -> float:
        return self.silence_s / 6


@dataclass(slots=True)
class _Session:
    state: LeaseState
    times: LeaseTimes
    silent_s: float = 0.0
    marked_at_s: float = 0.0
    over_below: int = 0


class SessionTable:
    """The brokers' sessions that the leader knows in its term, and their states. Times are seconds of a monotonic
    clock.
    """

    def __init__(self, times: LeaseTimes, now_s: float) -> None:
        self._times = times
        self._ticked_at_s = now_s
        self._sessions: dict[str, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session: str) -> bool:
        return session in self._sessions

    def found(self, session: str, now_s: float, *, is_marked: bool, lease_ms: int) -> None:
        """Add a session that a former leader opened and whose record is in the store. Its times are counted from
        `now_s`: if it is open, the time without a message; if it is marked as ended, the wait after the mark.
        """
        state = _WAITING if is_marked else _OPEN
        self._sessions[session] = _Session(state, self._times.at_least(lease_ms), marked_at_s=now_s)

    def opened(self, session: str, lease_ms: int) -> None:
        """Add a new session whose record is stored. After each read of this record, the session's broker relies on the
        session for `lease_ms`.
        """
        self._sessions[session] = _Session(_OPEN, self._times.at_least(lease_ms))

    def is_open(self, session: str) -> bool:
        known = self._sessions.get(session)
        return known is not None and known.state is _OPEN

    def message_received(self, session: str) -> bool:
        """Record that the session's broker has sent a message, and return True. Return False if the session does not
        exist or has ended.
        """
        if not self.is_open(session):
            return False
        self._sessions[session].silent_s = 0.0
        return True

    def admit(self, session: str, number: int, over_below: int) -> bool:
        """Return whether the request with the number `number` has to be executed. False: the session's broker does not
        wait for its answer any more. The broker waits for no answer to a request with a number below `over_below`,
        which it has sent with this request.
        """
        known = self._sessions.get(session)
        if known is None:
            return True
        known.over_below = max(known.over_below, over_below)
        return number >= known.over_below

    def tick(self, now_s: float) -> None:
        """Called regularly. Add the time since the last call to the time for which each broker has sent no message.
        Change the state of the sessions whose broker was silent for too long, and of those whose wait after the mark
        has ended.
        """
        passed_s = min(now_s - self._ticked_at_s, 2 * self._times.tick_s)
        self._ticked_at_s = now_s
        for session, known in self._sessions.items():
            if known.state is _OPEN:
                known.silent_s += passed_s
                if known.silent_s > known.times.silence_s:
                    self._feed(session, LeaseEvent.SILENT)
            elif known.state is _WAITING and now_s - known.marked_at_s >= known.times.lease_s:
                self._feed(session, LeaseEvent.EXPIRED)

    def marked(self, session: str, now_s: float) -> None:
        """Record that the mark which says that the session has ended was stored, at the time `now_s`."""
        if self._feed(session, LeaseEvent.MARKED):
            self._sessions[session].marked_at_s = now_s

    def released(self, session: str) -> None:
        """Record that the session's broker has reported that it does not use the session any more."""
        self._feed(session, LeaseEvent.RELEASED)

    def to_mark(self) -> list[str]:
        return self._in(_MARKING)

    def to_clear(self) -> list[str]:
        return self._in(_OVER)

    def forget(self, session: str) -> None:
        """Remove a session from this table, after its keys and its record were deleted."""
        self._sessions.pop(session, None)

    def _in(self, state: LeaseState) -> list[str]:
        return [session for session, known in self._sessions.items() if known.state is state]

    def _feed(self, session: str, event: LeaseEvent) -> bool:
        known = self._sessions.get(session)
        after = None if known is None else TRANSITIONS.get((known.state, event))
        if known is None or after is None:
            return False
        known.state = after
        return True
