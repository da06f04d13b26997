"""Listens for clients of the binary protocol, counts their connections, and closes them when the broker stops.

It starts before this broker owns a bundle, because the broker has to publish its port. A client that connects too early
gets, as the answer to each look-up, the error that the broker is not ready.
"""

import asyncio
import errno
from collections.abc import Collection
from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.broker.access.authentication import Authentication
from pulsar_barycenter.broker.access.tls_listener import TlsListener, listen_by_tls
from pulsar_barycenter.broker.authorization.authorizer import Authorizer
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.lookup.service import LookupService
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.broker.wire.admission.disk_room import DiskRoom
from pulsar_barycenter.broker.wire.admission.publish_buffer import PublishBuffer
from pulsar_barycenter.broker.wire.admission.rights import close_unentitled, guarded
from pulsar_barycenter.broker.wire.admission.topic_schemas import TopicSchemas
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.broker.wire.handlers import HANDLERS
from pulsar_barycenter.broker.wire.producer_names import ProducerNames
from pulsar_barycenter.broker.wire.services import OpenConnection, WireLogs, WireServices
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.tls import ListeningContext

log = structlog.get_logger(__name__)

_BACKLOG: Final = 1024


class PortInUseError(OSError):
    """Another process listens on the port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"{host}:{port} is in use: stop the other process, or set another brokerServicePort or "
            "brokerServicePortTls",
        )
        self.host = host
        self.port = port


class WireServer:
    def __init__(
        self,
        config: BrokerConfig,
        env: Environment,
        registry: TopicRegistry,
        lookup: LookupService,
        authentication: Authentication | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Prepare the server; `listen` starts it.

        If `authentication` is None, it is created from `config`. If `authorizer` is None, rights are not checked.
        """

        def now_s() -> float:
            return env.clock.now_ms() / 1000

        self._services = WireServices(
            config,
            registry,
            lookup,
            ProducerNames(env.store, config.cluster_name),
            authentication or Authentication.of(config, env.clock),
            PublishBuffer(config.max_message_publish_buffer_size_in_mb),
            WireLogs(now_s),
            DiskRoom(env.ledgers.has_room),
            TopicSchemas(registry.schemas),
            authorizer,
            counts=env.instruments.connections,
        )
        self._handlers = HANDLERS
        if authorizer is not None and authorizer.is_enabled:
            self._handlers = guarded(HANDLERS, authorizer)
        self._servers: list[asyncio.Server | TlsListener] = []

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply changed settings, to open connections, too: they read a setting each time they need it."""
        self._services.config = config

    async def listen(self, host: str, port: int, tls: ListeningContext | None = None) -> int:
        """Accept clients at `host:port` (port 0: any free port), with TLS if `tls` is given; return the port.

        Raises:
            PortInUseError: another process listens on the port.
            OSError: the host is not an address of this machine.
        """
        try:
            bound = await self._listen(host, port, tls)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(host, port) from error
            raise
        log.info("wire_server_listening", host=host, port=bound, tls=tls is not None)
        return bound

    async def _listen(self, host: str, port: int, tls: ListeningContext | None) -> int:
        if tls is not None:
            listener = await listen_by_tls(self.new_connection, host, port, tls, backlog=_BACKLOG)
            self._servers.append(listener)
            return listener.port
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self.new_connection, host, port, backlog=_BACKLOG)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> Collection[OpenConnection]:
        """The open connections, the oldest first."""
        return self._services.connections.keys()

    def new_connection(self) -> Connection:
        """Return the protocol object for a new client connection."""
        return Connection(self._services, self._handlers)

    async def apply_grants(self) -> int:
        """Close the producers and consumers whose clients do not have the right to be attached any more. Call this
        after rights changed. Return the number of closed producers and consumers.

        Raises:
            MetadataError: the permissions could not be read.
        """
        authorizer = self._services.authorizer
        if authorizer is None or not authorizer.is_enabled:
            return 0
        closed = await close_unentitled(self._services.connections, authorizer)
        if closed:
            log.info("clients_lost_their_rights", closed=closed)
        return closed

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones stay. Idempotent."""
        for server in self._servers:
            server.close()

    async def drain(self, timeout_s: float) -> int:
        """Wait until all clients have closed their connections, but at most `timeout_s` seconds; return the number of
        connections that are still open.
        """
        if self._services.connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._services.emptied.wait()
        return len(self._services.connections)

    async def close(self) -> None:
        """Stop listening, and close every connection after its queued frames were sent. Idempotent."""
        self.stop_accepting()
        for connection in list(self._services.connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    def abort(self) -> None:
        """Stop listening and close every connection at once, without sending queued frames, as a crash of the process
        would.
        """
        self.stop_accepting()
        for connection in list(self._services.connections):
            connection.abort("the broker stops at once")
