"""Checks whether a client still answers: a PING in each keep-alive interval, and one at once on request.

A topic requests a PING at once when another client wants the producer name or the exclusive access of this client.
"""

import asyncio
from collections import deque

from pulsar_barycenter.broker.wire.services import ServedConnection, WireServices
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol.connection_state import Connection as Wire
from pulsar_barycenter.protocol.connection_state import KeepAlive, State


class SignsOfLife:
    """The keep-alive of one connection."""

    __slots__ = ("_connection", "_loop", "_services", "_timer", "_waiting", "_wire")

    def __init__(self, connection: ServedConnection, wire: Wire, services: WireServices) -> None:
        self._connection = connection
        self._wire = wire
        self._services = services
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def start(self) -> None:
        """Start a timer for the next check. It runs out one keep-alive interval after this call."""
        self._timer = self._loop.call_later(self._services.config.keep_alive_interval_seconds, self._check)

    def _check(self) -> None:
        connection = self._connection
        if connection.is_closed:
            return
        verdict = self._wire.keep_alive(reading=connection.is_reading)
        if verdict is KeepAlive.PEER_IS_GONE:
            is_connected = self._wire.state is State.OPEN
            missing = "heartbeat" if is_connected else "CONNECT"
            connection.abort(f"no {missing} within the keep-alive interval")
            return
        owed = self._wire.data_to_send()
        if owed:
            connection.send(owed)
        self.start()

    def heard(self) -> None:
        """Called when bytes came from the client, or the connection closed. All calls of `ask` that wait return."""
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(None)

    def stop(self) -> None:
        """Stop the checks. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self.heard()

    async def ask(self) -> bool:
        """Send a PING. Return True as soon as the client sends anything. Return False if it sends nothing within the
        liveness timeout, or if the connection closes before that.
        """
        if self._connection.is_closed:
            return False
        answer: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(answer)
        self._connection.send(commands.PING)
        try:
            async with asyncio.timeout(self._services.config.connection_liveness_check_timeout_millis / 1000):
                await answer
        except TimeoutError:
            return False
        return not self._connection.is_closed
