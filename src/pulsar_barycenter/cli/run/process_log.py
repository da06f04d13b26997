"""How a process of ours logs: events with fields, as lines of JSON in a file or as text on a terminal."""

import logging
import sys
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

from pulsar_barycenter.cli.run.library_log import install_library_log
from pulsar_barycenter.cli.terminal import printable
from pulsar_barycenter.cluster_logs.request_ids import merge_request

LONGEST_TEXT: Final = 2_000
"""Characters of a value on a terminal."""
_OF_SEVERAL_LINES: Final = ("exception", "stack")
_LONGEST_TRACE: Final = 50_000


class DroppingStream:
    """A text stream that loses what it cannot write: a log on a full disk must not end what it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text` or drop it; return its length either way."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def for_a_terminal(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Make all that an event tells text without what would steer a terminal, and no longer than a person reads.

    Clients say much of it: names, reasons, paths. JSON needs none of this, which writes such characters as escapes.
    """
    return {key: _told(key, value) for key, value in event.items()}


def _told(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    if key in _OF_SEVERAL_LINES:
        return "\n".join(map(printable, text[:_LONGEST_TRACE].split("\n")))
    return printable(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def configure_logging(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send structlog's events of `level` and above to standard error, as far as it can be written to.

    What libraries log by Python's `logging` becomes such events (`library_log`).
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
