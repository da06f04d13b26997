"""The way to one of the servers: a channel at a time, the token of the user, errors in the store's words.

Whoever notices that a server does not answer leaves its channel: what was under way on it fails, and all that follows
goes to the next server of the list. Nothing is sent a second time, but for what a server refused for a token that it
does not know (any more), which it did not do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import grpc
from grpc import aio

from pulsar_barycenter.metadata.errors import (
    MetadataError,
    NotFoundError,
    StoreRefusedError,
    ValueTooLargeError,
)
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.etcd_api_pb2_grpc import AuthStub, KVStub, LeaseStub, WatchStub
from pulsar_barycenter.metadata.etcd.settings import EtcdSettings
from pulsar_barycenter.metadata.rpc import failures
from pulsar_barycenter.metadata.rpc.failures import details_of
from pulsar_barycenter.metadata.rpc.line import Line, Tokens, open_channel
from pulsar_barycenter.metadata.rpc.lines import Lines

Answer = TypeVar("Answer")

REQUEST_LIMIT: Final = "a request to etcd has up to 1.5 MiB, or what its --max-request-bytes says"

_UNKNOWN_TOKEN: Final = ("invalid auth token", "revision in header is old")
_NO_SUCH_USER: Final = "authentication failed"
_TOO_LARGE: Final = ("request is too large", "larger than max", "trying to send message larger")


class EtcdLine(Line):
    """A channel to one server, until it is given up."""

    def __init__(self, endpoint: str, channel: aio.Channel) -> None:
        super().__init__(endpoint, channel)
        self.kv = KVStub(channel)
        self.lease = LeaseStub(channel)
        self.watch = WatchStub(channel)
        self.auth = AuthStub(channel)


class EtcdConnection(Lines[EtcdLine]):
    """`timeout_s` is how long a request may take, its wait for a turn included."""

    def __init__(self, settings: EtcdSettings, *, timeout_s: float) -> None:
        super().__init__(
            "etcd", settings.endpoints, lambda endpoint: EtcdLine(endpoint, open_channel(endpoint, settings.tls))
        )
        self._settings = settings
        self._timeout_s = timeout_s
        self._token: str | None = None
        self._authenticating: asyncio.Task[None] | None = None

    async def ask(
        self,
        operation: str,
        path: str,
        call: Callable[[EtcdLine, Tokens, float], Awaitable[Answer]],
        *,
        size: int = 0,
        timeout_s: float | None = None,
        takes_turn: bool = True,
    ) -> Answer:
        """Return the answer of `call`, which gets a line, what to send beside the request, and its time in seconds.

        `size` is that of the value that the request carries, in bytes. A request that takes no turn goes at once.

        Raises:
            StoreUnavailableError: no answer; whether a write took effect is unknown.
            StoreRefusedError: the server refused; nothing was done. ValueTooLargeError if for the size of the value.
            NotFoundError: the lease that the request names has ended.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        async with self.turn(operation, path, timeout_s, is_taken=takes_turn):
            with translated(operation, path, size):
                return await self._ask(call, deadline_s)

    async def tokens(self) -> Tokens:
        """Return what to send beside a request of one's own; raises what gRPC raises."""
        if not self._settings.user:
            return ()
        if self._token is None:
            if self._authenticating is None:
                self._authenticating = asyncio.create_task(self._authenticate(), name="etcd authenticate")
                self._authenticating.add_done_callback(self._authenticated)
            await asyncio.shield(self._authenticating)
        return (("token", self._token or ""),)

    def forget(self, tokens: Tokens) -> None:
        """Authenticate anew before the next request, if these are still the tokens in use."""
        if tokens == (("token", self._token),):
            self._token = None

    async def _ask(self, call: Callable[[EtcdLine, Tokens, float], Awaitable[Answer]], deadline_s: float) -> Answer:
        loop = asyncio.get_running_loop()
        for is_last in (False, True):
            async with asyncio.timeout_at(deadline_s):
                tokens = await self.tokens()
            line = self.line
            try:
                async with line.used(deadline_s):
                    return await call(line, tokens, max(0.001, deadline_s - loop.time()))
            except aio.AioRpcError as error:
                if is_last or not any(text in details_of(error) for text in _UNKNOWN_TOKEN):
                    raise
                self.forget(tokens)
        raise AssertionError

    async def _authenticate(self) -> None:
        request = api.AuthenticateRequest(name=self._settings.user, password=self._settings.password)
        line = self.line
        async with line.used(asyncio.get_running_loop().time() + self._timeout_s):
            self._token = (await line.auth.Authenticate(request, timeout=self._timeout_s)).token

    def _authenticated(self, task: asyncio.Task[None]) -> None:
        self._authenticating = None
        if not task.cancelled():
            task.exception()  # marks it as seen; whoever waited has it


@contextmanager
def translated(operation: str, path: str, size: int = 0) -> Iterator[None]:
    """Have what gRPC raises be an error of the store; `size` is that of the value under way, in bytes."""

    def known(error: aio.AioRpcError) -> MetadataError | None:
        details = details_of(error)
        if size and any(text in details for text in _TOO_LARGE):
            return ValueTooLargeError(path, size, REQUEST_LIMIT)
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return NotFoundError(path)
        if _NO_SUCH_USER in details:
            return StoreRefusedError(path, f"{operation} refused: {details}")
        return None

    with failures.translated(operation, path, known):
        yield
