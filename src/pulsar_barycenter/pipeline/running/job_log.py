"""The log of the job: one line for each event, as JSON or text; lines that cannot be written are dropped."""

import logging
import sys
from contextlib import suppress
from typing import TextIO

import structlog
from structlog.typing import Processor


class DroppingLogger:
    """Prints lines to `stream`. A line that cannot be written, for example to a full disk, is dropped, so that the job
    does not end.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(message + "\n")
            self._stream.flush()

    log = debug = info = warning = error = critical = exception = msg


def configure_logging(stream: TextIO | None = None, *, renderer: Processor | None = None) -> None:
    """Write the log to `stream` (None: standard error), each event as a line of JSON or in the format of `renderer`.

    Warnings and errors of libraries go to standard error, not to `stream`.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.raiseExceptions = False  # if a full disk refuses a line of a library, logging must not print a traceback
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer or structlog.processors.JSONRenderer(),
        ],
        logger_factory=lambda *_: DroppingLogger(stream or sys.stderr),
    )
