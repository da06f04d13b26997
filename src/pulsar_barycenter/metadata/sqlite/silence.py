"""Finds sessions of other processes whose heartbeat count has not changed for too long. No clock, no I/O.

Every client observes the heartbeats of the others with its own monotonic clock. A session whose count has not changed
for its timeout has ended. An observer that was itself paused, or could not write, starts again: it cannot know which
side was silent. Clocks of different processes are never compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class SeenSession(NamedTuple):
    """A session as the file has it: number, timeout, heartbeat count, and the name of its lock file."""

    number: int
    timeout_ms: int
    beat: int
    lock_file: str


@dataclass(slots=True)
class _Observation:
    beat: int
    since_s: float


class SilenceWatch:
    """The observed heartbeats of other sessions. Times are seconds of a monotonic clock; `now_s` is the first
    observation.
    """

    def __init__(self, now_s: float) -> None:
        self._observed: dict[int, _Observation] = {}
        self._last_look_s = now_s

    def restart(self) -> None:
        """Clear all observations: the pause may have been in this client, and not in the other sessions."""
        self._observed.clear()

    def skip(self, now_s: float) -> None:
        """Record that an observation was due, but that this client could not have acted on it."""
        self._last_look_s = now_s

    def silent(self, sessions: Iterable[SeenSession], now_s: float) -> set[int]:
        """Observe the other sessions; return the numbers of those that were silent for their timeout."""
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
