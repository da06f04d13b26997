"""The way to the server that leads the shard of our keys.

A server of the list is asked who leads; what follows goes to that one. Whoever notices that it does not answer, or
leads no more, leaves it: what was under way fails, and the next server of the list is asked anew. A request is sent a
second time only if it is certain that nothing was done: when nobody was found who leads, or who was found refused for
that he does not.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
from grpc import aio

from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.metadata.errors import MetadataError, NotFoundError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION_HASH
from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientStub
from pulsar_barycenter.metadata.oxia.settings import OxiaSettings
from pulsar_barycenter.metadata.rpc import failures
from pulsar_barycenter.metadata.rpc.failures import details_of
from pulsar_barycenter.metadata.rpc.line import Line, Tokens, open_channel
from pulsar_barycenter.metadata.rpc.lines import Lines

if TYPE_CHECKING:
    from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientAsyncStub

Answer = TypeVar("Answer")

LOOK_S: Final = 5.0
"""How long a server may take to say who leads."""
RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 1.0

_NOT_LEADING: Final = ("node is not leader", "node is not a member", "not initialized yet", "shard not found")
_NO_SESSION: Final = "session not found"
_REFUSED: Final = ("namespace not found", "invalid session timeout", "notifications not enabled")


class NobodyLeadsError(Exception):
    """There is no server now that would do it, and none did."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The server that leads the shard, as far as is known."""

    shard: int
    stub: "OxiaClientAsyncStub"
    tokens: Tokens


class OxiaLine(Line):
    """One server of the list, and the leader that it names, until they are given up."""

    def __init__(self, endpoint: str, settings: OxiaSettings) -> None:
        super().__init__(endpoint, open_channel(endpoint, settings.tls))
        self._settings = settings
        self._finding: asyncio.Task[Leader] | None = None

    async def leader(self) -> Leader:
        """Return who leads; this is found out once.

        Raises:
            NobodyLeadsError: the server did not say, or nobody does.
            StoreRefusedError: it tells us nothing.
            StoreSettingsError: there is no token to show.
        """
        if self._finding is None:
            self._finding = asyncio.create_task(self._find(), name="oxia find leader")
            self._finding.add_done_callback(_seen)
        return await asyncio.shield(self._finding)

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
        await super().close()

    async def _find(self) -> Leader:
        settings, (channel,) = self._settings, self._channels
        token = settings.token_now()
        tokens = (("authorization", f"Bearer {token}"),) if token else ()
        request = api.ShardAssignmentsRequest(namespace=settings.namespace)
        call = OxiaClientStub(channel).GetShardAssignments(request, metadata=tokens, timeout=LOOK_S)
        try:
            async with asyncio.timeout(LOOK_S):
                answer = await call.read()
        except TimeoutError:
            raise NobodyLeadsError(f"{self.endpoint} does not say who leads") from None
        except aio.AioRpcError as error:
            with translated("session", "/"):
                if error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
                    raise
                if any(text in details_of(error) for text in _REFUSED):
                    raise
            raise NobodyLeadsError(f"{self.endpoint} does not say who leads: {details_of(error)}") from None
        finally:
            call.cancel()
        if not isinstance(answer, api.ShardAssignments):
            raise NobodyLeadsError(f"{self.endpoint} does not say who leads")
        shard = shard_of(answer, settings.namespace)
        if shard is None or not shard.leader:
            raise NobodyLeadsError(f"{self.endpoint} says that nobody leads the shard of our keys")
        if shard.leader != self.endpoint:
            channel = open_channel(shard.leader, settings.tls)
            self._channels.append(channel)
        return Leader(shard.shard, OxiaClientStub(channel), tokens)


class OxiaConnection(Lines[OxiaLine]):
    """`timeout_s` is how long a request may take, its wait for a turn included."""

    def __init__(self, settings: OxiaSettings, *, timeout_s: float, source: random.Random) -> None:
        super().__init__("oxia", settings.endpoints, lambda endpoint: OxiaLine(endpoint, settings))
        self._timeout_s = timeout_s
        self._source = source

    async def ask(
        self,
        operation: str,
        path: str,
        call: Callable[[Leader, float], Awaitable[Answer]],
        *,
        timeout_s: float | None = None,
        takes_turn: bool = True,
    ) -> Answer:
        """Return the answer of `call`, which gets who leads and its time in seconds.

        A request that takes no turn goes at once.

        Raises:
            StoreUnavailableError: no answer; whether a write took effect is unknown.
            StoreRefusedError: the server refused; nothing was done.
            NotFoundError: the session that the request names has ended.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        async with self.turn(operation, path, timeout_s, is_taken=takes_turn):
            return await self._ask(operation, path, call, deadline_s)

    async def _ask(
        self, operation: str, path: str, call: Callable[[Leader, float], Awaitable[Answer]], deadline_s: float
    ) -> Answer:
        loop, back_off = asyncio.get_running_loop(), BackOff(self._source, RETRY_S, MAX_RETRY_S)
        while True:
            line = self.line
            try:
                with translated(operation, path):
                    async with line.used(deadline_s):
                        leader = await line.leader()
                        return await call(leader, max(0.001, deadline_s - loop.time()))
            except NobodyLeadsError as error:
                self.leave(line)
                wait_s = back_off.next_s()
                if loop.time() + wait_s >= deadline_s:
                    raise StoreUnavailableError(path, f"{operation} was not done: {error}") from None
                await asyncio.sleep(wait_s)


def shard_of(answer: api.ShardAssignments, namespace: str) -> api.ShardAssignment | None:
    """Return the shard that has our keys."""
    for shard in answer.namespaces[namespace].assignments:
        hashes = shard.int32_hash_range
        if hashes.min_hash_inclusive <= PARTITION_HASH <= hashes.max_hash_inclusive:
            return shard
    return None


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Have what gRPC raises be an error of the store, or NobodyLeadsError."""

    def known(error: aio.AioRpcError) -> MetadataError | None:
        details = details_of(error)
        if any(text in details for text in _NOT_LEADING):
            raise NobodyLeadsError(details) from None
        if _NO_SESSION in details:
            return NotFoundError(path)
        if any(text in details for text in _REFUSED):
            return StoreRefusedError(path, f"{operation} refused: {details}")
        return None

    with failures.translated(operation, path, known):
        yield


def _seen(task: asyncio.Task[Leader]) -> None:
    if not task.cancelled():
        task.exception()  # marks it as seen; whoever waited has it
