"""The connection to one of etcd's servers: it keeps one channel at a time and the user's token, and converts errors.

When any part of the client finds that a server does not answer, it abandons the channel to that server. Requests that
run on the channel fail, and later ones use the next server of the list. A request is sent a second time only if the
server refused it because of an unknown or expired token, and so did not execute it.
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
from pulsar_barycenter.metadata.etcd.etcd_settings import EtcdSettings
from pulsar_barycenter.metadata.grpc_client import grpc_errors
from pulsar_barycenter.metadata.grpc_client.grpc_errors import details_of
from pulsar_barycenter.metadata.grpc_client.server_channel import ServerChannel, Tokens, open_channel
from pulsar_barycenter.metadata.grpc_client.server_list import ServerList

Answer = TypeVar("Answer")

REQUEST_LIMIT: Final = "a request to etcd may have up to 1.5 MiB, or the value of etcd's option --max-request-bytes"

_UNKNOWN_TOKEN: Final = ("invalid auth token", "revision in header is old")
_NO_SUCH_USER: Final = "authentication failed"
_TOO_LARGE: Final = ("request is too large", "larger than max", "trying to send message larger")


class EtcdChannel(ServerChannel):
    """The channel to one etcd server. It is used for all requests until it is abandoned, for example because the server
    failed.
    """

    def __init__(self, endpoint: str, channel: aio.Channel) -> None:
        super().__init__(endpoint, channel)
        self.kv = KVStub(channel)
        self.lease = LeaseStub(channel)
        self.watch = WatchStub(channel)
        self.auth = AuthStub(channel)


class EtcdConnection(ServerList[EtcdChannel]):
    """The connection to the etcd servers, one of which is used at a time. `timeout_s` is the maximum duration of a
    request in seconds, including the time for which it waits because too many other requests are running.
    """

    def __init__(self, settings: EtcdSettings, *, timeout_s: float) -> None:
        super().__init__(
            "etcd", settings.endpoints, lambda endpoint: EtcdChannel(endpoint, open_channel(endpoint, settings.tls))
        )
        self._settings = settings
        self._timeout_s = timeout_s
        self._token: str | None = None
        self._authenticating: asyncio.Task[None] | None = None

    async def ask(
        self,
        operation: str,
        path: str,
        call: Callable[[EtcdChannel, Tokens, float], Awaitable[Answer]],
        *,
        size: int = 0,
        timeout_s: float | None = None,
        takes_turn: bool = True,
    ) -> Answer:
        """Run `call`, which sends one request to etcd, and return its result. `call` gets a channel, the gRPC metadata
        to send with the request, and a time limit in seconds.

        `operation` and `path` are named in errors. `size` is the size in bytes of the value in the request. If too many
        requests are running, the request waits for one of them to end; with `takes_turn` False it does not wait.

        Raises:
            StoreUnavailableError: there was no answer in time, so it is unknown whether a write took effect; or too
                many other requests were running for all this time, and the request was not sent.
            StoreRefusedError: the server refused the request; nothing was written. It is a ValueTooLargeError if the
                value is too large.
            NotFoundError: the lease that the request names has ended.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        async with self.turn(operation, path, timeout_s, is_taken=takes_turn):
            with translated(operation, path, size):
                return await self._ask(call, deadline_s)

    async def tokens(self) -> Tokens:
        """Return the gRPC metadata to send with a request: the user's token, which is requested from etcd if there is
        none yet; empty if no user is configured. Raises gRPC's errors.
        """
        if not self._settings.user:
            return ()
        if self._token is None:
            if self._authenticating is None:
                self._authenticating = asyncio.create_task(self._authenticate(), name="etcd authenticate")
                self._authenticating.add_done_callback(self._authenticated)
            await asyncio.shield(self._authenticating)
        return (("token", self._token or ""),)

    def forget(self, tokens: Tokens) -> None:
        """Discard the user's token, so that the next request gets a new one. `tokens` is the metadata with the token
        that etcd refused; if another token is in use already, do nothing.
        """
        if tokens == (("token", self._token),):
            self._token = None

    async def _ask(self, call: Callable[[EtcdChannel, Tokens, float], Awaitable[Answer]], deadline_s: float) -> Answer:
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
            task.exception()  # marks the exception as retrieved; the callers get it from the task


@contextmanager
def translated(operation: str, path: str, size: int = 0) -> Iterator[None]:
    """Context manager: raise gRPC's exceptions as errors of the metadata store. `operation` and `path` are named in
    these errors. `size` is the size in bytes of the value in the request; 0 if it has none.
    """

    def known(error: aio.AioRpcError) -> MetadataError | None:
        details = details_of(error)
        if size and any(text in details for text in _TOO_LARGE):
            return ValueTooLargeError(path, size, REQUEST_LIMIT)
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return NotFoundError(path)
        if _NO_SUCH_USER in details:
            return StoreRefusedError(path, f"etcd refused the {operation}: {details}")
        return None

    with grpc_errors.translated(operation, path, known):
        yield
