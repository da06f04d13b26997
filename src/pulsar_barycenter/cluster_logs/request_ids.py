"""One id for everything that is done for a request, on every broker that takes part: `request_id` in their logs.

| request                                   | its id                                                                  |
|-------------------------------------------|-------------------------------------------------------------------------|
| HTTP, with the header HEADER              | the header's value, if it is valid (`is_request_id`)                    |
| HTTP, without                             | created here, and returned in the header                                |
| binary protocol                           | `<connection>-<the client's number>`, logged with `connection`          |
| a load manager's own, to an owner         | `<incarnation of its broker>-<number>`                                  |

A task inherits the id of the request that created it, but only until that request has ended. So a background loop that
a request started does not have the id for ever. Work that continues for the request after its end is a `kept_task`.
"""

import asyncio
import random
import re
import secrets
from collections.abc import Coroutine, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

T = TypeVar("T")

HEADER: Final = "X-Request-Id"
MAX_REQUEST_ID_CHARACTERS: Final = 64
_FORM: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_REQUEST_ID_CHARACTERS}}}", re.ASCII)
_BITS: Final = 64
_CONNECTION_BYTES: Final = 4
_RANDOM: Final = random.Random(secrets.token_bytes(32))
"""Random numbers without a system call for each request. It does no harm if an id can be guessed."""


class _RequestFields:
    """The fields that every log line of a request has; they become empty when the request ends."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = fields

    def end(self) -> None:
        self.fields = {}


_CURRENT_REQUEST: Final[ContextVar[_RequestFields | None]] = ContextVar("request that is served", default=None)


def is_request_id(text: str) -> bool:
    """Return whether a text is a valid id: 1 to MAX_REQUEST_ID_CHARACTERS letters, digits, `.`, `_`, `:`, `-`."""
    return _FORM.fullmatch(text) is not None


def new_request_id() -> str:
    """Return a unique id. Nothing depends on its value, so it does not use the broker's reproducible random numbers."""
    return f"{_RANDOM.getrandbits(_BITS):0{_BITS // 4}x}"


def new_connection_id() -> str:
    return secrets.token_hex(_CONNECTION_BYTES)


@contextmanager
def serving(request_id: str, **more: str) -> Iterator[None]:
    """Add a request id and `more` to every log line of the block, and of the tasks that it creates, until the block
    ends.
    """
    served = _RequestFields({"request_id": request_id, **more} if request_id else {})
    token = _CURRENT_REQUEST.set(served)
    try:
        yield
    finally:
        served.end()
        _CURRENT_REQUEST.reset(token)


def current_request_id() -> str:
    """Return the id of the current request, "" if there is none."""
    served = _CURRENT_REQUEST.get()
    return "" if served is None else served.fields.get("request_id", "")


def request_headers() -> dict[str, str]:
    """Return the headers that pass the current request's id on to another broker."""
    known = current_request_id()
    return {HEADER: known} if known else {}


def kept_task(work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
    """Start a task that may outlive its request. The task's log lines have the id of the request until the task
    ends.
    """
    served = _CURRENT_REQUEST.get()
    if served is None or not served.fields:
        return asyncio.create_task(work, name=name)
    own = _RequestFields(served.fields)
    context = copy_context()
    context.run(_CURRENT_REQUEST.set, own)
    task = asyncio.create_task(work, name=name, context=context)
    task.add_done_callback(lambda _: own.end())
    return task


def merge_request(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of the current request to a log event; this function is a processor of structlog."""
    served = _CURRENT_REQUEST.get()
    if served is not None:
        for name, text in served.fields.items():
            event.setdefault(name, text)
    return event
