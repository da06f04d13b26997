"""Wall-clock time: what people and other processes are told of when something happened.

Sessions, retries and timeouts are measured on monotonic time, so a wall clock that jumps ends none of them.
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
