"""Wall-clock time, as far as the metadata store needs it: the times in a Stat, nothing else.

Sessions and retries are measured on monotonic time, so a wall clock that jumps ends no session.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return wall-clock time in milliseconds since 1970."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
