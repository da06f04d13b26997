"""Selects one server of a list at a time, and limits the number of concurrent requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.grpc_client.server_channel import ServerChannel

L = TypeVar("L", bound=ServerChannel)

MAX_AT_ONCE: Final = 128
"""The maximum number of concurrent requests to a store; further requests wait."""


class ServerList(Generic[L]):
    """Keeps a channel to one server of a list, the current server. When the current server fails, the caller calls
    `leave`, and the next server of the list becomes the current one. Create this object on a running event loop.
    """

    def __init__(self, name: str, endpoints: Sequence[str], open_line: Callable[[str], L]) -> None:
        """`name` is the store's name in the names of tasks. `endpoints` are the addresses of the servers, which are
        tried in this order, again and again. `open_line` is a function that opens a channel to an address.
        """
        self._name = name
        self._endpoints = endpoints
        self._open_line = open_line
        self._index = 0
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._closing = BackgroundTasks("channel_not_closed")
        self.line = open_line(endpoints[0])

    @asynccontextmanager
    async def turn(self, operation: str, path: str, timeout_s: float, *, is_taken: bool) -> AsyncIterator[None]:
        """Context manager for a request: if MAX_AT_ONCE requests are running, wait until one of them has ended. With
        `is_taken` False, do not wait, and do not count this request. `operation` and `path` are named in errors.

        Raises:
            StoreUnavailableError: MAX_AT_ONCE requests were running for `timeout_s` seconds.
        """
        if not is_taken:
            yield
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                path, f"{operation} was not sent: too many requests wait for the store. Try again."
            ) from None
        try:
            yield
        finally:
            self._turns.release()

    def leave(self, line: L) -> None:
        """Abandon the channel `line`, because its server failed, and open a channel to the next server of the list. Do
        nothing if `line` is not the current channel any more.
        """
        if line is self.line:
            self._index = (self._index + 1) % len(self._endpoints)
            self.line = self._open_line(self._endpoints[self._index])
            self._drop(line)

    async def close(self) -> None:
        self._drop(self.line)
        await self._closing.ended()

    def _drop(self, line: L) -> None:
        line.abandon()
        self._closing.start(line.close(), f"{self._name} close {line.endpoint}")
