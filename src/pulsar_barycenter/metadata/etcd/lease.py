"""The session with etcd: a lease of etcd, and a key that exists as long as the lease.

A heartbeat is a keep-alive of the lease. The lease may last longer than its timeout, but never shorter: etcd grants no
less than about one and a half times its election timeout, and a new leader of etcd starts to count again.
"""

import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.etcd import etcd_api_pb2 as api
from pulsar_barycenter.metadata.etcd.etcd_connection import EtcdChannel, EtcdConnection
from pulsar_barycenter.metadata.etcd.layout import Layout
from pulsar_barycenter.metadata.etcd.transactions import session_request
from pulsar_barycenter.metadata.grpc_client.heartbeat_session import STEP_S, HeartbeatSession, OnSession
from pulsar_barycenter.metadata.grpc_client.server_channel import Tokens

Answer = TypeVar("Answer")


class EtcdLease(HeartbeatSession):
    """The session of one client with etcd. A session is a lease in etcd, and heartbeats extend it."""

    def __init__(
        self,
        connection: EtcdConnection,
        layout: Layout,
        *,
        timeout_ms: int,
        on_session: OnSession,
        source: random.Random,
    ) -> None:
        timeout_s = math.ceil(timeout_ms / 1000)  # leases have whole seconds
        super().__init__(connection, timeout_s=timeout_s, on_session=on_session, source=source)
        self._connection = connection
        self._layout = layout
        self._time_to_live_s = timeout_s

    async def _grant(self) -> int:
        wanted = api.LeaseGrantRequest(TTL=self._time_to_live_s)
        granted = await self._ask(lambda line, tokens, s: line.lease.LeaseGrant(wanted, metadata=tokens, timeout=s))
        return granted.ID

    async def _show(self, session: int) -> None:
        shown = session_request(self._layout, session)
        await self._ask(lambda line, tokens, s: line.kv.Txn(shown, metadata=tokens, timeout=s))

    async def _end(self, session: int) -> None:
        request = api.LeaseRevokeRequest(ID=session)
        await self._ask(lambda line, tokens, s: line.lease.LeaseRevoke(request, metadata=tokens, timeout=s))

    async def _confirm(self, session: int, timeout_s: float) -> bool:
        async def keep_alive(line: EtcdChannel, tokens: Tokens, timeout_s: float) -> api.LeaseKeepAliveResponse:
            call = line.lease.LeaseKeepAlive(metadata=tokens, timeout=timeout_s)
            try:
                await call.write(api.LeaseKeepAliveRequest(ID=session))
                answer = await call.read()
            finally:
                call.cancel()
            if not isinstance(answer, api.LeaseKeepAliveResponse):
                raise StoreUnavailableError(
                    "/", "the heartbeat to etcd failed: the server closed the stream without an answer"
                )
            return answer

        answer = await self._connection.ask("heartbeat", "/", keep_alive, timeout_s=timeout_s, takes_turn=False)
        return answer.TTL > 0

    async def _ask(self, call: Callable[[EtcdChannel, Tokens, float], Awaitable[Answer]]) -> Answer:
        return await self._connection.ask("session", "/", call, timeout_s=STEP_S, takes_turn=False)
