"""Whether a client is still there: a PING each keep-alive interval, and one at once when somebody wants its place."""

import asyncio
from collections import deque
from typing import Protocol

from pulsar_barycenter.broker.wire.services import WireServices
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol.connection_state import Connection as Wire
from pulsar_barycenter.protocol.connection_state import KeepAlive, State


class WatchedConnection(Protocol):
    """The connection, as its keep-alive uses it."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def is_reading(self) -> bool:
        """False while this side does not read: silence proves nothing then."""
        ...

    def send(self, frame: bytes) -> None: ...
    def abort(self, reason: str) -> None: ...


class SignsOfLife:
    __slots__ = ("_asked", "_connection", "_loop", "_services", "_timer", "_wire")

    def __init__(self, connection: WatchedConnection, wire: Wire, services: WireServices) -> None:
        self._connection = connection
        self._wire = wire
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._asked: deque[asyncio.Future[None]] = deque()

    def start(self) -> None:
        """Look again in an interval."""
        self._timer = self._loop.call_later(self._services.config.keep_alive_interval_seconds, self._check)

    def _check(self) -> None:
        connection = self._connection
        if connection.is_closed:
            return
        verdict = self._wire.keep_alive(reading=connection.is_reading)
        if verdict is KeepAlive.PEER_IS_GONE:
            shaken = self._wire.state is State.OPEN
            connection.abort("no sign of life" if shaken else "no CONNECT within the keep-alive interval")
            return
        owed = self._wire.data_to_send()
        if owed:
            connection.send(owed)
        self.start()

    def heard(self) -> None:
        """Something came from the client, or nothing will any more: whoever asked may look."""
        while self._asked:
            answer = self._asked.popleft()
            if not answer.done():
                answer.set_result(None)

    def stop(self) -> None:
        """Look no more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self.heard()

    async def ask(self) -> bool:
        """Whether the client says anything within the liveness time-out, or has not gone meanwhile."""
        if self._connection.is_closed:
            return False
        answer: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(answer)
        self._connection.send(commands.PING)
        try:
            async with asyncio.timeout(self._services.config.connection_liveness_check_timeout_millis / 1000):
                await answer
        except TimeoutError:
            return False
        return not self._connection.is_closed
