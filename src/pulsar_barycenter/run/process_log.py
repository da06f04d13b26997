"""Configures the log of a process: events with fields, as JSON lines in a file or as text on a terminal.

Records that libraries log by Python's `logging` become such events; their number and length are limited. Reason:
asyncio logs uncaught exceptions with a traceback, as often as a client causes one, and so do aiohttp, kazoo and gRPC.
Without a handler, Python writes these records to standard error unchanged: any number of lines of any length, in a log
that is JSON.

The lowest level that is logged is in the configuration, or in the environment variable that Pulsar's scripts read.
Source: `PULSAR_LOG_LEVEL` in Pulsar's bin/pulsar, `pulsar.log.level` in its conf/log4j2.yaml.
"""

import logging
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.cluster_logs.request_ids import merge_request
from pulsar_barycenter.terminal.tables import printable

LONGEST_TEXT: Final = 2_000
"""The maximum length of a value on a terminal, in characters."""
_OF_SEVERAL_LINES: Final = ("exception", "stack")
_MAX_TRACE_LENGTH: Final = 50_000
LEVEL_VARIABLE: Final = "PULSAR_LOG_LEVEL"

_LEVELS: Final[Mapping[str, int]] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "off": logging.CRITICAL,
}
"""The log levels, by the names that Pulsar gives them."""
_LIBRARY_LEVEL: Final = logging.WARNING


def log_level(configured: str, environment: Mapping[str, str]) -> int:
    """Return the log level that the environment variable LEVEL_VARIABLE names, in upper or lower case. If the variable
    is not set, or does not name a level, return the level `configured`.
    """
    wanted = environment.get(LEVEL_VARIABLE, "").strip().lower()
    return _LEVELS.get(wanted, _LEVELS[configured])


class LibraryLog(logging.Handler):
    """Logs what libraries log: each of their log records becomes an event `library_log` with the name of the library's
    logger.

    The number of events of each logger is limited (see `BoundedLog`).
    """

    def __init__(self) -> None:
        super().__init__(_LIBRARY_LEVEL)
        self._logs: dict[tuple[str, str], BoundedLog] = {}

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        key = record.name, level
        bounded = self._logs.get(key)
        if bounded is None:
            bounded = self._logs[key] = BoundedLog("library_log", time.monotonic, level)
        error = record.exc_info[1] if record.exc_info else None
        bounded.log(error, logger=record.name, said=record.getMessage().partition("\n")[0])


def install_library_log() -> None:
    """Make `LibraryLog` the only handler of the root logger. Idempotent."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLog()]
    root.setLevel(_LIBRARY_LEVEL)


class DroppingStream:
    """A text stream that drops text that it cannot write: a log on a full disk must not end the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text`, or drop it if the write fails. Return the length of `text` in both cases."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def for_a_terminal(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Convert all fields of an event to text of limited length without control characters.

    Many of these texts come from clients, who could otherwise send control sequences to the terminal: names, reasons,
    paths. A log in JSON does not need this, because JSON escapes control characters.
    """
    return {key: _as_text(key, value) for key, value in event.items()}


def _as_text(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    if key in _OF_SEVERAL_LINES:
        return "\n".join(map(printable, text[:_MAX_TRACE_LENGTH].split("\n")))
    return printable(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def configure_logging(*, as_json: bool, level: int = logging.INFO) -> None:
    """Set up logging for this process: write structlog's events of `level` and above to standard error, as JSON or as
    text; drop events that cannot be written.

    Records that libraries log by Python's `logging` become such events.
    """
    install_library_log()
    rendering: list[structlog.typing.Processor] = [structlog.processors.JSONRenderer()]
    if not as_json:
        rendering = [for_a_terminal, structlog.dev.ConsoleRenderer()]
    structlog.configure(
        processors=[
            merge_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, DroppingStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
