"""The session with Oxia: a session of Oxia's shard, and a record that exists as long as the session.

A heartbeat is a keep-alive and then a write of that record, to the same server. A server that is no longer leader but
does not know this still answers the keep-alive. But it cannot execute the write, which needs a majority of the shard's
servers. A new leader of the shard starts to count the timeout again.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import grpc
from grpc import aio

from pulsar_barycenter.metadata.errors import NotFoundError, StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.grpc_client.heartbeat_session import STEP_S, HeartbeatSession, OnSession
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION, Layout
from pulsar_barycenter.metadata.oxia.oxia_connection import Leader, OxiaConnection
from pulsar_barycenter.metadata.oxia.writes import MARK, heartbeat_request, session_request

Answer = TypeVar("Answer")

MIN_TIMEOUT_MS: Final = 2_000
MAX_TIMEOUT_MS: Final = 300_000
"""Oxia's servers accept session timeouts from MIN_TIMEOUT_MS to MAX_TIMEOUT_MS."""


class OxiaSession(HeartbeatSession):
    """The session of one client with Oxia."""

    def __init__(
        self,
        connection: OxiaConnection,
        layout: Layout,
        *,
        namespace: str,
        timeout_ms: int,
        on_session: OnSession,
        source: random.Random,
    ) -> None:
        self._timeout_ms = min(max(timeout_ms, MIN_TIMEOUT_MS), MAX_TIMEOUT_MS)
        super().__init__(connection, timeout_s=self._timeout_ms / 1000, on_session=on_session, source=source)
        self._connection = connection
        self._layout = layout
        self._namespace = namespace
        self._shard: int | None = None
        self._has_single_writes = True

    def check(self, leader: Leader, session: int) -> None:
        """Check that `session` belongs to the shard that `leader` leads. When Oxia splits a shard, the new shards have
        other numbers, and the session belongs to none of them.

        Raises:
            NotFoundError: the session does not belong to this shard.
        """
        if leader.shard != self._shard:
            raise NotFoundError(f"session {session:016x}")

    async def write(self, leader: Leader, request: api.WriteRequest, timeout_s: float) -> api.WriteResponse:
        """Send a write to the leader of the shard, and return its answer.

        Each write is a gRPC call of its own, so a call that fails does not affect other writes. (Oxia's own clients
        send many writes on one stream.) Some servers support streams only; then each write opens a stream, which takes
        more than twice the time.

        Raises:
            AioRpcError: gRPC reported an error.
            StoreUnavailableError: the server ended the stream without an answer; it is unknown whether the write was
                done.
        """
        request.shard = leader.shard
        if self._has_single_writes:
            try:
                return await leader.stub.Write(request, metadata=leader.tokens, timeout=timeout_s)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                self._has_single_writes = False
        where = (("shard-id", str(leader.shard)), ("namespace", self._namespace))
        call = leader.stub.WriteStream(metadata=(*leader.tokens, *where), timeout=timeout_s)
        async with ending(call):
            await call.write(request)
            answer = await call.read()
        if not isinstance(answer, api.WriteResponse):
            raise StoreUnavailableError(
                "/", "the server ended the write without an answer, so it is not known whether the write was done"
            )
        return answer

    async def _grant(self) -> int:
        async def create(leader: Leader, timeout_s: float) -> int:
            wanted = api.CreateSessionRequest(
                shard=leader.shard, session_timeout_ms=self._timeout_ms, client_identity=PARTITION
            )
            created = await leader.stub.CreateSession(wanted, metadata=leader.tokens, timeout=timeout_s)
            self._shard = leader.shard
            return created.session_id

        return await self._ask(create)

    async def _show(self, session: int) -> None:
        request = session_request(self._layout.session(session), session)

        async def show(leader: Leader, timeout_s: float) -> api.WriteResponse:
            self.check(leader, session)
            return await self.write(leader, request, timeout_s)

        answer = await self._ask(show)
        if answer.puts[0].status != api.OK:
            raise StoreUnavailableError("/", "the session with Oxia ended immediately after it began")
        if answer.puts[0].version.version_id != MARK:
            raise StoreRefusedError(
                "/", "Oxia's servers are too old: they do not support chosen version ids. Oxia 0.16 or newer is needed"
            )

    async def _end(self, session: int) -> None:
        async def end(leader: Leader, timeout_s: float) -> None:
            self.check(leader, session)
            request = api.CloseSessionRequest(shard=leader.shard, session_id=session)
            await leader.stub.CloseSession(request, metadata=leader.tokens, timeout=timeout_s)

        await self._ask(end)

    async def _confirm(self, session: int, timeout_s: float) -> bool:
        request = heartbeat_request(self._layout.session(session), session)

        async def confirm(leader: Leader, timeout_s: float) -> bool:
            self.check(leader, session)
            beat = api.SessionHeartbeat(shard=leader.shard, session_id=session)
            await leader.stub.KeepAlive(beat, metadata=leader.tokens, timeout=timeout_s)
            return (await self.write(leader, request, timeout_s)).puts[0].status == api.OK

        return await self._connection.ask("heartbeat", "/", confirm, timeout_s=timeout_s, takes_turn=False)

    async def _ask(self, call: Callable[[Leader, float], Awaitable[Answer]]) -> Answer:
        return await self._connection.ask("session", "/", call, timeout_s=STEP_S, takes_turn=False)


@asynccontextmanager
async def ending(call: aio.Call) -> AsyncIterator[None]:
    """Context manager: cancel a streaming call at the end of the `with` statement."""
    try:
        yield
    finally:
        call.cancel()
