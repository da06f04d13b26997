"""One name for all that is done for a request, on every broker that has a part in it: `request_id` in their logs.

| request                                   | its id                                                                  |
|-------------------------------------------|-------------------------------------------------------------------------|
| of HTTP, with the header HEADER           | what the header says, if it is one (`is_request_id`)                    |
| of HTTP, without                          | made here, and answered in the header                                   |
| of the binary protocol                    | `<connection>-<the client's number>`, logged beside `connection`        |
| of a load manager to an owner, on its own | `<incarnation of its broker>-<number>`                                  |

A task inherits the id of the request in which it was made, but only until that request is over: a loop that was
started on the way bears it no more then. What goes on for the request's sake afterwards is a `kept_task`.
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
LONGEST_REQUEST_ID: Final = 64
_FORM: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{LONGEST_REQUEST_ID}}}", re.ASCII)
_BITS: Final = 64
_CONNECTION_BYTES: Final = 4
_CHANCE: Final = random.Random(secrets.token_bytes(32))
"""Asking the operating system would be a call for each request; that ids can be guessed is no harm."""


class _Served:
    """A request: what its lines bear, nothing once it is over."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = fields

    def end(self) -> None:
        self.fields = {}


_SERVED: Final[ContextVar[_Served | None]] = ContextVar("request that is served", default=None)


def is_request_id(text: str) -> bool:
    """Tell whether a text may stand for a request: 1 to LONGEST_REQUEST_ID letters, digits, `.`, `_`, `:`, `-`."""
    return _FORM.fullmatch(text) is not None


def new_request_id() -> str:
    """Return an id that no other request has: nothing is decided by it, so it is not of the broker's own chance."""
    return f"{_CHANCE.getrandbits(_BITS):0{_BITS // 4}x}"


def new_connection_id() -> str:
    return secrets.token_hex(_CONNECTION_BYTES)


@contextmanager
def serving(request_id: str, **more: str) -> Iterator[None]:
    """Have all that is logged in this block, and by tasks made in it, bear an id, and `more`, until it ends."""
    served = _Served({"request_id": request_id, **more} if request_id else {})
    token = _SERVED.set(served)
    try:
        yield
    finally:
        served.end()
        _SERVED.reset(token)


def current_request_id() -> str:
    """Return the id of the request that is served now, "" for what nobody asked for."""
    served = _SERVED.get()
    return "" if served is None else served.fields.get("request_id", "")


def request_headers() -> dict[str, str]:
    """Return the headers by which a request that is sent now says on whose behalf."""
    known = current_request_id()
    return {HEADER: known} if known else {}


def kept_task(work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
    """Begin work that outlives the request for which it is done: it bears the id until it is done itself."""
    served = _SERVED.get()
    if served is None or not served.fields:
        return asyncio.create_task(work, name=name)
    own = _Served(served.fields)
    context = copy_context()
    context.run(_SERVED.set, own)
    task = asyncio.create_task(work, name=name, context=context)
    task.add_done_callback(lambda _: own.end())
    return task


def merge_request(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Give an event the fields of the request that is served; a processor of structlog."""
    served = _SERVED.get()
    if served is not None:
        for name, text in served.fields.items():
            event.setdefault(name, text)
    return event
