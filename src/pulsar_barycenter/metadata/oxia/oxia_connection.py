"""The connection to the server that leads the shard of the store's keys.

A server of the list is asked which server leads the shard; requests then go to the leader. When any part of the client
finds that the leader does not answer or no longer leads, it abandons the channel to the leader. Requests that are
running fail, and the next server of the list is asked. A request is sent a second time only if it was certainly not
executed: no leader was found, or the server refused because it does not lead.
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
from pulsar_barycenter.metadata.grpc_client import grpc_errors
from pulsar_barycenter.metadata.grpc_client.grpc_errors import details_of
from pulsar_barycenter.metadata.grpc_client.server_channel import ServerChannel, Tokens, open_channel
from pulsar_barycenter.metadata.grpc_client.server_list import ServerList
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION_HASH
from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientStub
from pulsar_barycenter.metadata.oxia.oxia_settings import OxiaSettings

if TYPE_CHECKING:
    from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientAsyncStub

Answer = TypeVar("Answer")

LOOK_S: Final = 5.0
"""The number of seconds that a server may take to say which server leads."""
RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 1.0

_NOT_LEADING: Final = ("node is not leader", "node is not a member", "not initialized yet", "shard not found")
_NO_SESSION: Final = "session not found"
_REFUSED: Final = ("namespace not found", "invalid session timeout", "notifications not enabled")


class NoLeaderError(Exception):
    """No Oxia server leads the shard (the part of the namespace that has the store's keys) now. The request was not
    executed.
    """


@dataclass(frozen=True, slots=True)
class Leader:
    """The Oxia server that leads the shard (the part of the namespace that has the store's keys), as far as this client
    knows.
    """

    shard: int
    stub: "OxiaClientAsyncStub"
    tokens: Tokens


class OxiaChannel(ServerChannel):
    """The channel to one server of the list, and the channel to the leader of the shard that this server has named.
    Both are used until they are abandoned, for example because a server failed.
    """

    def __init__(self, endpoint: str, settings: OxiaSettings) -> None:
        super().__init__(endpoint, open_channel(endpoint, settings.tls))
        self._settings = settings
        self._finding: asyncio.Task[Leader] | None = None

    async def leader(self) -> Leader:
        """Return the server that leads the shard. Only the first call asks the server of this channel; later calls
        return the same result.

        Raises:
            NoLeaderError: the server did not answer, or there is no leader.
            StoreRefusedError: the server refuses this client.
            StoreSettingsError: the token cannot be read.
        """
        if self._finding is None:
            self._finding = asyncio.create_task(self._find_leader(), name="oxia find leader")
            self._finding.add_done_callback(_mark_retrieved)
        return await asyncio.shield(self._finding)

    async def close(self) -> None:
        if self._finding is not None:
            self._finding.cancel()
        await super().close()

    async def _find_leader(self) -> Leader:
        settings, (channel,) = self._settings, self._channels
        token = settings.token_now()
        tokens = (("authorization", f"Bearer {token}"),) if token else ()
        request = api.ShardAssignmentsRequest(namespace=settings.namespace)
        call = OxiaClientStub(channel).GetShardAssignments(request, metadata=tokens, timeout=LOOK_S)
        try:
            async with asyncio.timeout(LOOK_S):
                answer = await call.read()
        except TimeoutError:
            raise NoLeaderError(f"{self.endpoint} did not return the leader of the shard in time") from None
        except aio.AioRpcError as error:
            with translated("session", "/"):
                if error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
                    raise
                if any(text in details_of(error) for text in _REFUSED):
                    raise
            raise NoLeaderError(
                f"{self.endpoint} did not return the leader of the shard: {details_of(error)}"
            ) from None
        finally:
            call.cancel()
        if not isinstance(answer, api.ShardAssignments):
            raise NoLeaderError(f"{self.endpoint} ended the request for the leader of the shard without an answer")
        shard = shard_of(answer, settings.namespace)
        if shard is None or not shard.leader:
            raise NoLeaderError(f"{self.endpoint} does not know the leader of the shard that has the store's keys")
        if shard.leader != self.endpoint:
            channel = open_channel(shard.leader, settings.tls)
            self._channels.append(channel)
        return Leader(shard.shard, OxiaClientStub(channel), tokens)


class OxiaConnection(ServerList[OxiaChannel]):
    """The connection to the Oxia servers. `timeout_s` is the maximum duration of a request in seconds, including the
    time for which it waits because too many other requests are running.
    """

    def __init__(self, settings: OxiaSettings, *, timeout_s: float, source: random.Random) -> None:
        super().__init__("oxia", settings.endpoints, lambda endpoint: OxiaChannel(endpoint, settings))
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
        """Run `call`, which sends one request to Oxia, and return its result. `call` gets the server that leads the
        shard, and a time limit in seconds. If no server leads, `call` runs again later.

        `operation` and `path` are named in errors. If too many requests are running, the request waits for one of them
        to end; with `takes_turn` False it does not wait.

        Raises:
            StoreUnavailableError: there was no answer in time, so it is unknown whether a write took effect; or too
                many other requests were running, or no server was leading, for all this time, and the request was not
                executed.
            StoreRefusedError: the server refused the request; nothing was written.
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
            except NoLeaderError as error:
                self.leave(line)
                wait_s = back_off.next_s()
                if loop.time() + wait_s >= deadline_s:
                    raise StoreUnavailableError(path, f"{operation} was not executed: {error}") from None
                await asyncio.sleep(wait_s)


def shard_of(answer: api.ShardAssignments, namespace: str) -> api.ShardAssignment | None:
    """Return the shard of the namespace that has the keys of metadata stores. `answer` is a server's list of the
    shards. None if this shard is not in the list.
    """
    for shard in answer.namespaces[namespace].assignments:
        hashes = shard.int32_hash_range
        if hashes.min_hash_inclusive <= PARTITION_HASH <= hashes.max_hash_inclusive:
            return shard
    return None


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Context manager: raise gRPC's exceptions as errors of the metadata store. `operation` and `path` are named in
    these errors. If the server reports that it does not lead the shard, raise NoLeaderError.
    """

    def known(error: aio.AioRpcError) -> MetadataError | None:
        details = details_of(error)
        if any(text in details for text in _NOT_LEADING):
            raise NoLeaderError(details) from None
        if _NO_SESSION in details:
            return NotFoundError(path)
        if any(text in details for text in _REFUSED):
            return StoreRefusedError(path, f"Oxia refused the {operation}: {details}")
        return None

    with grpc_errors.translated(operation, path, known):
        yield


def _mark_retrieved(task: asyncio.Task[Leader]) -> None:
    if not task.cancelled():
        task.exception()  # marks the exception as retrieved; the callers get it from the task
