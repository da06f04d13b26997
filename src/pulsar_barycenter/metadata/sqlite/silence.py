"""Finds sessions of other processes that have sent no heartbeat for too long. No clock, no I/O.

Every client observes the heartbeat counts of the others with its own monotonic clock. If a count has not changed for
the session's timeout, the session has ended. An observer that was itself paused, or could not write, starts its
observation again, because it cannot know which side was paused. Clocks of different processes are never compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class SeenSession(NamedTuple):
    """A session as it is stored in the SQLite file: its id (`number`), its timeout, how many heartbeats it has written
    (`beat`), and the name of its lock file.
    """

    number: int
    timeout_ms: int
    beat: int
    lock_file: str


@dataclass(slots=True)
class _Observation:
    beat: int
    since_s: float


class SilenceWatch:
    """Determines which other sessions have sent no heartbeat for too long, from the counts of heartbeats that this
    client has read. Times are seconds of a monotonic clock. `now_s` is the time at which this object is created.
    """

    def __init__(self, now_s: float) -> None:
        self._observed: dict[int, _Observation] = {}
        self._last_look_s = now_s

    def restart(self) -> None:
        """Discard all observations, and begin to observe again. Called when this client may have been paused: the other
        clients may have sent heartbeats meanwhile.
        """
        self._observed.clear()

    def skip(self, now_s: float) -> None:
        """Called instead of `silent` while this client is not connected. The time until `now_s` does not count as a
        pause of this client.
        """
        self._last_look_s = now_s

    def silent(self, sessions: Iterable[SeenSession], now_s: float) -> set[int]:
        """Record how many heartbeats each of the other sessions has written, as it was read at `now_s`. Return the ids
        (`SeenSession.number`) of the sessions that have written no further heartbeat for their timeout.

        If this client was paused for more than half of a session's timeout since the last call, its observation of that
        session begins again.
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
