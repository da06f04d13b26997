"""Which sessions of other processes have been silent for too long, by their heartbeat counts. No clock, no I/O.

Every client watches the others' heartbeats with its own monotonic clock: a session whose count has stood still for
its timeout is over. A watcher that was itself paused, or could not write, starts to watch anew: it cannot tell whose
silence it was. Clocks are never compared between processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class SeenSession(NamedTuple):
    """A session as the file has it: its number, timeout, heartbeat count, and the name of its lock file."""

    number: int
    timeout_ms: int
    beat: int
    lock_file: str


@dataclass(slots=True)
class _Observation:
    beat: int
    since_s: float


class SilenceWatch:
    """What is known of the others' heartbeats. Times are seconds of a monotonic clock, `now_s` the first look."""

    def __init__(self, now_s: float) -> None:
        self._observed: dict[int, _Observation] = {}
        self._last_look_s = now_s

    def start_anew(self) -> None:
        """Take no silence so far for theirs."""
        self._observed.clear()

    def skip(self, now_s: float) -> None:
        """Note that it was time to look but that this client could not have acted on what it saw."""
        self._last_look_s = now_s

    def silent(self, sessions: Iterable[SeenSession], now_s: float) -> set[int]:
        """Look at the others' sessions; return the numbers of those that were silent for their timeout."""
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
