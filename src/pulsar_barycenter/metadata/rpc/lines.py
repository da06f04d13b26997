"""One server of a list at a time, and the turns that requests take."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.rpc.line import Line

L = TypeVar("L", bound=Line)

MAX_AT_ONCE: Final = 128
"""Requests of a store under way; more wait for their turn."""


class Lines(Generic[L]):
    """The line in use, and the next one when it is left. Made on a running event loop."""

    def __init__(self, name: str, endpoints: Sequence[str], open_line: Callable[[str], L]) -> None:
        """`name` is what tasks call the store; `open_line` opens a line to one of `endpoints`, tried in their order."""
        self._name = name
        self._endpoints = endpoints
        self._open_line = open_line
        self._index = 0
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._closing: set[asyncio.Task[None]] = set()
        self.line = open_line(endpoints[0])

    @asynccontextmanager
    async def turn(self, operation: str, path: str, timeout_s: float, *, is_taken: bool) -> AsyncIterator[None]:
        """Have a request be one of MAX_AT_ONCE meanwhile; not `is_taken`: it goes at once, beside them.

        Raises:
            StoreUnavailableError: its turn did not come within `timeout_s`.
        """
        if not is_taken:
            yield
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreUnavailableError(path, f"{operation} was not sent: too many requests wait") from None
        try:
            yield
        finally:
            self._turns.release()

    def leave(self, line: L) -> None:
        """Go on with the next server, if `line` is still the one in use."""
        if line is self.line:
            self._index = (self._index + 1) % len(self._endpoints)
            self.line = self._open_line(self._endpoints[self._index])
            self._drop(line)

    async def close(self) -> None:
        self._drop(self.line)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _drop(self, line: L) -> None:
        line.give_up()
        task = asyncio.create_task(line.close(), name=f"{self._name} close {line.endpoint}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
