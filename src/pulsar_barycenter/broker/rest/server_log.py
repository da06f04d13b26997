"""Converts the log records of aiohttp's server to events. Their number in a second is limited, whatever clients send.

| event               | level | what                                                                   |
|---------------------|-------|------------------------------------------------------------------------|
| `malformed_request` | info  | bytes that are not HTTP, or a body that does not match its headers     |
| `http_server_fault` | error | any other exception outside of a handler; one traceback a second       |
"""

import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pulsar_barycenter.broker.bounded_log import BoundedLog

_FAULTS_OF_CLIENTS: Final = (HttpProcessingError, web.RequestPayloadError, web.PayloadAccessError, ConnectionError)


def server_log(now_s: Callable[[], float]) -> logging.Logger:
    """Return the logger for aiohttp's server. It has no parent, so its records reach no other handler.

    `now_s` is a clock, in seconds.
    """
    logger = logging.Logger("barycenter.http", logging.WARNING)
    logger.addHandler(_EventHandler(now_s))
    return logger


class _EventHandler(logging.Handler):
    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._malformed = BoundedLog("malformed_request", now_s, "info")
        self._faults = BoundedLog("http_server_fault", now_s, "error")

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, _FAULTS_OF_CLIENTS):
            self._malformed.log(reason=_first_line(error))
        else:
            self._faults.log(error, said=record.getMessage())


def _first_line(error: BaseException) -> str:
    text = error.message if isinstance(error, HttpProcessingError) else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__
