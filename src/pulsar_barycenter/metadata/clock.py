"""Wall-clock time: the time of day that people and other processes see.

Sessions, retries and timeouts use monotonic time, so a jump of the wall clock does not end them.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time."""

    def now_ms(self) -> int:
        """Return wall-clock time in milliseconds since 1970."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
