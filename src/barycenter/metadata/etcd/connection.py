"""The way to one of the servers: a channel at a time, the token of the user, errors in the store's words.

Whoever notices that a server does not answer leaves its channel: what was under way on it fails, and all that follows
goes to the next server of the list. Nothing is sent a second time, but for what a server refused for a token that it
does not know (any more), which it did not do.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias, TypeVar

import grpc
import structlog
from grpc import aio

from barycenter.metadata.errors import (
    MetadataError,
    NotFoundError,
    StoreRefusedError,
    StoreUnavailableError,
    ValueTooLargeError,
)
from barycenter.metadata.etcd import etcd_api_pb2 as api
from barycenter.metadata.etcd.etcd_api_pb2_grpc import AuthStub, KVStub, LeaseStub, WatchStub
from barycenter.metadata.etcd.settings import EtcdSettings

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")
Tokens: TypeAlias = tuple[tuple[str, str], ...]
"""What is sent beside each request."""

MAX_ANSWER_BYTES: Final = 16 << 20
"""Of one answer; the longest is a page of children."""
MAX_AT_ONCE: Final = 128
"""Requests under way; more wait for their turn."""
REQUEST_LIMIT: Final = "a request to etcd has up to 1.5 MiB, or what its --max-request-bytes says"

_OPTIONS: Final[list[tuple[str, int | str]]] = [
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits as long as the last one would have
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
]
_UNKNOWN_TOKEN: Final = ("invalid auth token", "revision in header is old")
_NO_SUCH_USER: Final = "authentication failed"
_TOO_LARGE: Final = ("request is too large", "larger than max", "trying to send message larger")


class Line:
    """A channel to one server, until it is given up."""

    def __init__(self, endpoint: str, channel: aio.Channel) -> None:
        self.endpoint = endpoint
        self._channel = channel
        self._uses: dict[asyncio.Timeout, None] = {}
        self._is_given_up = False
        self.kv = KVStub(channel)
        self.lease = LeaseStub(channel)
        self.watch = WatchStub(channel)
        self.auth = AuthStub(channel)

    @asynccontextmanager
    async def used(self, until_s: float | None = None) -> AsyncIterator[None]:
        """Have the block raise TimeoutError when the line is given up, or at `until_s` of the loop's time.

        What gRPC does with calls on a channel that is closed is not relied upon: some are neither answered nor ended.
        """
        async with asyncio.timeout_at(until_s) as use:
            self._uses[use] = None
            if self._is_given_up:
                use.reschedule(0)
            try:
                yield
            finally:
                del self._uses[use]

    def give_up(self) -> None:
        self._is_given_up = True
        for use in self._uses:
            if not use.expired():
                use.reschedule(0)

    async def close(self) -> None:
        await self._channel.close(None)


class EtcdConnection:
    """Made on a running event loop. `timeout_s` is how long a request may take, its wait for a turn included."""

    def __init__(self, settings: EtcdSettings, *, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._index = 0
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._token: str | None = None
        self._authenticating: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.line = self._open()

    async def ask(
        self,
        operation: str,
        path: str,
        call: Callable[[Line, Tokens, float], Awaitable[Answer]],
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
        if not takes_turn:
            with translated(operation, path, size):
                return await self._ask(call, deadline_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreUnavailableError(path, f"{operation} was not sent: too many requests wait") from None
        try:
            with translated(operation, path, size):
                return await self._ask(call, deadline_s)
        finally:
            self._turns.release()

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

    def leave(self, line: Line) -> None:
        """Go on with the next server, if `line` is still the one in use."""
        if line is self.line:
            self._index = (self._index + 1) % len(self._settings.endpoints)
            self.line = self._open()
            self._drop(line)

    async def close(self) -> None:
        self._drop(self.line)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _ask(self, call: Callable[[Line, Tokens, float], Awaitable[Answer]], deadline_s: float) -> Answer:
        loop = asyncio.get_running_loop()
        for is_last in (False, True):
            async with asyncio.timeout_at(deadline_s):
                tokens = await self.tokens()
            line = self.line
            try:
                async with line.used(deadline_s):
                    return await call(line, tokens, max(0.001, deadline_s - loop.time()))
            except aio.AioRpcError as error:
                if is_last or not any(text in _details(error) for text in _UNKNOWN_TOKEN):
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

    def _open(self) -> Line:
        settings, endpoint = self._settings, self._settings.endpoints[self._index]
        options = list(_OPTIONS)
        if settings.authority:
            name = "grpc.ssl_target_name_override" if settings.tls else "grpc.default_authority"
            options.append((name, settings.authority))
        if not settings.tls:
            return Line(endpoint, aio.insecure_channel(endpoint, options=options))
        credentials = grpc.ssl_channel_credentials(
            root_certificates=settings.trusted_certificates,
            private_key=settings.key,
            certificate_chain=settings.certificate,
        )
        return Line(endpoint, aio.secure_channel(endpoint, credentials, options=options))

    def _drop(self, line: Line) -> None:
        line.give_up()
        task = asyncio.create_task(line.close(), name=f"etcd close {line.endpoint}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class Troubles:
    """What failed when it was tried last: logged once, however often it is tried, and once when it works again."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def failing(self, what: str, line: Line, error: MetadataError) -> None:
        if what not in self._known:
            self._known.add(what)
            log.warning("metadata_store_trouble", what=what, server=line.endpoint, error=str(error))

    def working(self, what: str, line: Line) -> None:
        if what in self._known:
            self._known.remove(what)
            log.info("metadata_store_trouble_over", what=what, server=line.endpoint)


@contextmanager
def translated(operation: str, path: str, size: int = 0) -> Iterator[None]:
    """Have what gRPC raises be an error of the store; `size` is that of the value under way, in bytes."""
    try:
        yield
    except aio.AioRpcError as error:
        raise _error(operation, path, size, error) from None
    except TimeoutError:
        raise StoreUnavailableError(path, f"{operation} failed: no answer, or the connection was given up") from None
    except (aio.BaseError, asyncio.InvalidStateError) as error:  # of a channel or call that was closed
        raise StoreUnavailableError(path, f"{operation} failed: {error}") from None
    except asyncio.CancelledError:  # of a call; one of the caller passes
        if _is_cancelled():
            raise
        raise StoreUnavailableError(path, f"{operation} failed: the connection was given up") from None


def _error(operation: str, path: str, size: int, error: aio.AioRpcError) -> MetadataError:
    code, details = error.code(), _details(error)
    if size and any(text in details for text in _TOO_LARGE):
        return ValueTooLargeError(path, size, REQUEST_LIMIT)
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(path)
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED) or _NO_SUCH_USER in details:
        return StoreRefusedError(path, f"{operation} refused: {details}")
    return StoreUnavailableError(path, f"{operation} failed: {code.name.lower()}: {details}")


def _details(error: aio.AioRpcError) -> str:
    return error.details() or ""


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
