"""How a process of ours logs: events with fields, as lines of JSON in a file or as text on a terminal."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from barycenter.logs.request_ids import merge_request


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


def configure_logging(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send structlog's events of `level` and above to standard error, as far as it can be written to."""
    renderer: structlog.typing.Processor
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            merge_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, DroppingStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
