"""What libraries log by Python's `logging`, as events of ours: bounded like all that clients can cause.

asyncio reports exceptions that nobody caught there, with a traceback, as often as a client causes one. Without a
handler Python writes such records to standard error as they are: any number of lines, of any length, in a log that is
JSON otherwise. The loggers of aiohttp, kazoo and gRPC have the same way out.
"""

import logging
import time
from typing import Final

from pulsar_barycenter.broker.bounded_log import BoundedLog

_LEVEL: Final = logging.WARNING


class LibraryLog(logging.Handler):
    """Logs each record as `library_log` with the name of its logger, within the bounds of `BoundedLog` by logger."""

    def __init__(self) -> None:
        super().__init__(_LEVEL)
        self._logs: dict[tuple[str, str], BoundedLog] = {}

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        key = record.name, level
        bounded = self._logs.get(key)
        if bounded is None:
            bounded = self._logs[key] = BoundedLog("library_log", time.monotonic, level)
        error = record.exc_info[1] if record.exc_info else None
        bounded.tell(error, logger=record.name, said=record.getMessage().partition("\n")[0])


def install_library_log() -> None:
    """Give the root logger this handler alone. Idempotent."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLog()]
    root.setLevel(_LEVEL)
