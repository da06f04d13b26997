"""Measures how long the phases of Spark's triggers take: `durationMs` of each trigger in which Spark read load reports.

The phases are Spark's own: `latestOffset` lists new files, `getBatch` and `queryPlanning` plan, `walCommit` and
`commitOffsets` write Spark's records, `addBatch` is the batch itself; `triggerExecution` is the total.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

_Number = TypeVar("_Number", int, float)
_REMEMBERED_TRIGGERS: Final = 1000
_MOST_PHASES: Final = 32


class PhaseTimes(msgspec.Struct, frozen=True, rename="camel"):
    """How long one phase of the triggers of Spark's stream took, in ms: in the newest trigger (`last_ms`), the median
    and the 99th percentile over the last 1,000 triggers, and the sum since the process started (`total_ms`).
    """

    last_ms: int
    ms_p50: int
    ms_p99: int
    total_ms: int


class TriggerPhases:
    """Records how long the phases of Spark's triggers took. `add` and `times` may be called in several threads at the
    same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: dict[str, deque[int]] = {}
        self._totals: dict[str, int] = {}

    def add(self, durations_ms: Mapping[str, int]) -> None:
        """Add the times of one trigger, in ms by phase. After `_MOST_PHASES` different phases, further ones are
        ignored.
        """
        with self._lock:
            for phase, ms in durations_ms.items():
                if phase in self._recent or len(self._recent) < _MOST_PHASES:
                    self._recent.setdefault(phase, deque(maxlen=_REMEMBERED_TRIGGERS)).append(ms)
                    self._totals[phase] = self._totals.get(phase, 0) + ms

    def times(self) -> dict[str, PhaseTimes]:
        """Return the times of each phase, keyed by its name, sorted by name; {} before the first call of `add`."""
        with self._lock:
            return {
                phase: PhaseTimes(
                    recent[-1], percentile(recent, 50) or 0, percentile(recent, 99) or 0, self._totals[phase]
                )
                for phase, recent in sorted(self._recent.items())
            }


def percentile(values: Iterable[_Number], percent: int) -> _Number | None:
    """Return the smallest of `values` for which at least `percent` percent of `values` are less than or equal to it;
    None if `values` is empty.
    """
    ordered = sorted(values)
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None
