"""An event that strangers can cause as often as they like: a bounded number of lines of bounded length."""

import traceback
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MOST_A_SECOND: Final = 20
"""Lines of one event within a second; further ones are counted, and the next line says how many."""

LONGEST: Final = 1_000
"""Characters of the longest text in such a line."""

LONGEST_TRACEBACK: Final = 8_000
"""Characters of a traceback, its end, which only the first line of a second has."""


class BoundedLog:
    """One event, at one of structlog's levels. `total` counts how often it was, logged or not."""

    def __init__(self, event: str, now_s: Callable[[], float], level: str = "warning") -> None:
        """`now_s` is any clock; within one of its whole seconds the bound holds."""
        self.total = 0
        self._event = event
        self._now_s = now_s
        self._level = level
        self._second = -1
        self._told = 0
        self._untold = 0

    def tell(self, cause: BaseException | None = None, /, **fields: str) -> None:
        """Log the event with these fields, each cut after LONGEST characters, unless MOST_A_SECOND lines were logged.

        `cause` is an exception that nobody expected: its name and text are the field `error`, and its traceback is the
        field `exception` of the first line of each second.
        """
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
        if cause is not None:
            told["error"] = repr(cause)[:LONGEST]
            if self._told == 1:
                told["exception"] = "".join(traceback.format_exception(cause))[-LONGEST_TRACEBACK:]
        getattr(log, self._level)(self._event, **told, **({"untold_before": untold} if untold else {}))
