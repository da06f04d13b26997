"""Logs an event that clients can cause at any rate. The number of its log lines, and their length, is limited."""

import traceback
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MOST_A_SECOND: Final = 20
"""The maximum number of log lines of one event in a second. Further events are only counted, and the next line has
their number.
"""

LONGEST: Final = 1_000
"""The maximum number of characters of a text in such a log line."""

LONGEST_TRACEBACK: Final = 8_000
"""The maximum number of characters of a traceback (its end) in the log. Only the first line of a second has one."""


class BoundedLog:
    """Writes log lines of one event, but only a limited number of them in a second. `level` is a level of structlog.
    `total` counts all events, logged or not.
    """

    def __init__(self, event: str, now_s: Callable[[], float], level: str = "warning") -> None:
        """`now_s` is a clock; the number of lines is limited in each of its whole seconds."""
        self.total = 0
        self._event = event
        self._now_s = now_s
        self._level = level
        self._second = -1
        self._logged = 0
        self._unlogged = 0

    def log(self, cause: BaseException | None = None, /, **fields: str) -> None:
        """Log the event with these fields, each cut to LONGEST characters, unless MOST_A_SECOND lines were logged in
        this second.

        `cause` is an unexpected exception: its class and text are the field `error`, and its traceback is the field
        `exception` of the first line of each second.
        """
        self.total += 1
        second = int(self._now_s())
        if second != self._second:
            self._second, self._logged = second, 0
        if self._logged >= MOST_A_SECOND:
            self._unlogged += 1
            return
        self._logged += 1
        unlogged, self._unlogged = self._unlogged, 0
        shown = {name: text[:LONGEST] for name, text in fields.items()}
        if cause is not None:
            shown["error"] = repr(cause)[:LONGEST]
            if self._logged == 1:
                shown["exception"] = "".join(traceback.format_exception(cause))[-LONGEST_TRACEBACK:]
        getattr(log, self._level)(self._event, **shown, **({"untold_before": unlogged} if unlogged else {}))
