"""Finds sessions of other processes that have sent no heartbeat for too long. No clock, no I/O.

Every client observes the heartbeat counts of the others with its own monotonic clock. If a count has not changed for
the session's timeout, the session has ended. An observer that was itself paused, or could not write, starts its
observation again, because it cannot know which side was paused. Clocks of different processes are never compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class SeenSession(NamedTuple):
    """A session as the SQLite file has it: number, timeout, heartbeat count, and the name of its lock file."""

    number: int
    timeout_ms: int
    beat: int
    lock_file: str


@dataclass(slots=True)
class _Observation:
    beat: int
    since_s: float


class SilenceWatch:
    """The heartbeats that this client observed of other sessions. Times are seconds of a monotonic clock; `now_s` is
    the time of the first observation.
    """

    def __init__(self, now_s: float) -> None:
        self._observed: dict[int, _Observation] = {}
        self._last_look_s = now_s

    def restart(self) -> None:
        """Forget all observations, because this client may have been paused, and not the clients of the other
        sessions.
        """
        self._observed.clear()

    def skip(self, now_s: float) -> None:
        """Skip the observation that is due at `now_s`, because this client cannot make it or act on it. The time until
        then does not count as a pause of this client.
        """
        self._last_look_s = now_s

    def silent(self, sessions: Iterable[SeenSession], now_s: float) -> set[int]:
        """Observe the heartbeat counts of the other sessions. Return the numbers of the sessions that sent no heartbeat
        for their timeout.
        """
        pause_s, self._last_look_s = now_s - self._last_look_s, now_s
        observed: dict[int, _Observation] = {}
        silent: set[int] = set()
        for number, timeout_ms, beat, _ in sessions:
            timeout_s = timeout_ms / 1000
            observation = self._observed.get(number)
            if observation is None or observation.beat != beat or pause_s > timeout_s / 2:
                observation = _Observation(beat, now_s)
            observed[number] = observation
            if now_s - observation.since_s >= timeout_s:
                silent.add(number)
        self._observed = observed
        return silent
