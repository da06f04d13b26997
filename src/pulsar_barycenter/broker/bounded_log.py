"""An event that strangers cause as often as they like: told, but no more often and no longer than a log can bear."""

from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MOST_A_SECOND: Final = 20
"""Lines of one event within a second; further ones are counted, and the next one that is told says how many."""

LONGEST: Final = 1_000
"""Characters of the longest text in such a line."""


class BoundedLog:
    """One event, at one of structlog's levels. `total` counts how often it was, told or not."""

    def __init__(self, event: str, now_s: Callable[[], float], level: str = "warning") -> None:
        """`now_s` is any clock; within one of its whole seconds the bound holds."""
        self.total = 0
        self._event = event
        self._now_s = now_s
        self._level = level
        self._second = -1
        self._told = 0
        self._untold = 0

    def tell(self, **fields: str) -> None:
        """Tell of it with these fields, each cut after LONGEST characters, unless MOST_A_SECOND were told already."""
        self.total += 1
        second = int(self._now_s())
        if second != self._second:
            self._second, self._told = second, 0
        if self._told >= MOST_A_SECOND:
            self._untold += 1
            return
        self._told += 1
        untold, self._untold = self._untold, 0
        told = {name: text[:LONGEST] for name, text in fields.items()}
        getattr(log, self._level)(self._event, **told, **({"untold_before": untold} if untold else {}))
