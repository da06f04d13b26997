"""The binary protocol's listener: it accepts clients, counts them, and lets them go when the broker stops.

Started before anything is owned, because the port must be known first; a client that comes too early is told by
lookups that the broker is not ready.
"""

import asyncio
import errno
from collections.abc import Collection
from contextlib import suppress
from typing import Final

import structlog

from barycenter.broker.environment import Environment
from barycenter.broker.lookup.service import LookupService
from barycenter.broker.topics.registry import TopicRegistry
from barycenter.broker.wire.connection import Connection
from barycenter.broker.wire.handlers import HANDLERS
from barycenter.broker.wire.producer_names import ProducerNames
from barycenter.broker.wire.services import OpenConnection, WireServices
from barycenter.config.broker_config import BrokerConfig

log = structlog.get_logger(__name__)

_BACKLOG: Final = 1024


class PortInUseError(OSError):
    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"{host}:{port} is in use: stop the other process, or set another brokerServicePort",
        )
        self.host = host
        self.port = port


class WireServer:
    def __init__(self, config: BrokerConfig, env: Environment, registry: TopicRegistry, lookup: LookupService) -> None:
        self._services = WireServices(config, registry, lookup, ProducerNames(env.store, config.cluster_name))
        self._server: asyncio.Server | None = None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Take over changed settings; connections look at them anew each time."""
        self._services.config = config

    async def listen(self, host: str, port: int) -> int:
        """Accept clients at `host:port` (0 picks a free port) and return the port.

        Raises:
            PortInUseError: another process listens there.
            OSError: the address is not one of this machine.
        """
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self.new_connection, host, port, backlog=_BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(host, port) from error
            raise
        bound = int(self._server.sockets[0].getsockname()[1])
        log.info("wire_server_listening", host=host, port=bound)
        return bound

    @property
    def connections(self) -> Collection[OpenConnection]:
        """Those that are open, oldest first."""
        return self._services.connections.keys()

    def new_connection(self) -> Connection:
        """Return what serves a client that comes."""
        return Connection(self._services, HANDLERS)

    def stop_accepting(self) -> None:
        """Take no new connections; those that are open stay. Idempotent."""
        if self._server is not None:
            self._server.close()

    async def drain(self, timeout_s: float) -> int:
        """Wait until all clients have gone, at most `timeout_s`; return how many are left."""
        if self._services.connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._services.emptied.wait()
        return len(self._services.connections)

    async def close(self) -> None:
        """Close the port and every connection, after sending what is queued. Idempotent."""
        self.stop_accepting()
        for connection in list(self._services.connections):
            connection.close()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def abort(self) -> None:
        """Close the port and every connection at once, as a process that dies would."""
        self.stop_accepting()
        for connection in list(self._services.connections):
            connection.abort("the broker stops at once")
