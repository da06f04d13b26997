"""The REST server of a broker: binds the application to sockets. `Broker` gets `start_web` as its `web`."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, cast

from aiohttp import web
from prometheus_client import CollectorRegistry

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.access.tls_listener import TlsListener, listen_by_tls
from pulsar_barycenter.broker.access.tls_ports import TlsPort
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import broker_client, relaying_client
from pulsar_barycenter.broker.load_manager.contract import KeepsDecisions, KeepsMetrics
from pulsar_barycenter.broker.rest.app import build_app
from pulsar_barycenter.broker.rest.namespace_deletion import complete_deletions
from pulsar_barycenter.broker.rest.relay import MOST_RELAYED_BYTES
from pulsar_barycenter.broker.rest.server_log import server_log
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.cluster_logs.request_ids import kept_task
from pulsar_barycenter.load.reports.load_over_time import LoadTables

_BACKLOG: Final = 1024
_CLOSE_AFTER_S: Final = 1.0
"""For how many seconds a refused connection stays open, so that its client can read the answer: a connection beyond the
limit, or one with a request whose body was not read. Bytes that arrive in this time are dropped.
"""
_FINISH_S: Final = 2.0
"""The number of seconds for which requests may continue after the server began to close."""


class RestServer:
    """A REST server that is listening, created by `start_web`. `port` and `tls_port` are its ports, None for one that
    is not open.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        clients: Iterable[AdminClient],
        plain: asyncio.Server | None,
        tls: TlsListener | None,
    ) -> None:
        self.port = None if plain is None else int(plain.sockets[0].getsockname()[1])
        self.tls_port = None if tls is None else tls.port
        self._tls = tls
        self._runner = runner
        self._clients = tuple(clients)
        self._listening = [server for server in (plain, tls) if server is not None]

    @property
    def app(self) -> web.Application:
        """The application that answers: its routes and middlewares."""
        return self._runner.app

    @property
    def connections(self) -> int:
        """The number of open connections, including those whose client left without closing them."""
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    async def close(self) -> None:
        """Stop listening, wait a short time for requests that are being answered, and then close all connections.
        Idempotent.
        """
        for server in self._listening:
            server.close()
        if self._tls is not None:
            await self._tls.wait_closed()
        for client in self._clients:
            await client.close()
        await self._runner.cleanup()


class _Accepted(asyncio.Protocol):
    """The first protocol of each accepted connection. It passes the connection on to the protocol that `serving`
    returns: the HTTP protocol, or one that refuses the connection because there are too many. With TLS, it does so when
    the handshake has ended.
    """

    def __init__(self, serving: Callable[[], asyncio.Protocol]) -> None:
        self._serving = serving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = self._serving()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


class _TooManyConnections(asyncio.Protocol):
    """Answers a connection beyond the limit with 503 and closes it, without reading its request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast(asyncio.WriteTransport, transport)
        body = b'{"reason":"Too many HTTP connections to this broker (maxHttpServerConnections). Try again."}'
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writing.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        writing.close()
        # With TLS, close() waits for the client's close. A client that never closes would stay open uncounted.
        asyncio.get_running_loop().call_later(_CLOSE_AFTER_S, writing.abort)


async def start_web(
    broker: Broker,
    host: str,
    port: int | None,
    tls: TlsPort | None = None,
    *,
    on_stopped: Callable[[], None] | None = None,
    load_tables: LoadTables | None = None,
) -> RestServer:
    """Start to serve the REST interface of `broker` at `host` and `port`, and at the port of `tls`; 0 is a free port.

    `on_stopped` is called after `POST /admin/v2/brokers/shutdown` has stopped the broker; `on_stopped` has to end the
    process.
    `load_tables` reads older loads than those in the broker's memory.

    Raises:
        OSError: the port cannot be opened.
    """
    admin, relayed = broker_client(broker.config.current), relaying_client(broker.config.current, MOST_RELAYED_BYTES)
    services = _services_of(broker, admin, relayed, on_stopped or (lambda: None), load_tables)
    broker.sweeps.append(partial(complete_deletions, services))
    app = build_app(services)
    config = broker.config.current
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=server_log(asyncio.get_running_loop().time),
        handle_signals=False,
        shutdown_timeout=_FINISH_S,
        # This bounds the time from the connection or the last answer to the end of a request's headers.
        keepalive_timeout=config.web_service_request_timeout_seconds,
        # `admission` refuses compressed bodies, so aiohttp must not decompress them before.
        auto_decompress=False,
        lingering_time=_CLOSE_AFTER_S,
    )
    await runner.setup()
    server, limit = runner.server, config.max_http_server_connections
    assert server is not None

    def accept() -> asyncio.Protocol:
        return _Accepted(lambda: _TooManyConnections() if limit and len(server.connections) >= limit else server())

    loop = asyncio.get_running_loop()
    plain: asyncio.Server | None = None
    try:
        if port is not None:
            plain = await loop.create_server(accept, host, port, backlog=_BACKLOG)
        secured = None
        if tls is not None:
            secured = await listen_by_tls(accept, host, tls.port, tls.context, backlog=_BACKLOG)
    except BaseException:
        if plain is not None:
            plain.close()
        await admin.close()
        await relayed.close()
        await runner.cleanup()
        raise
    return RestServer(runner, (admin, relayed), plain, secured)


def _services_of(
    broker: Broker,
    admin: AdminClient,
    relayed: AdminClient,
    on_stopped: Callable[[], None],
    load_tables: LoadTables | None,
) -> BrokerServices:
    stops = BackgroundTasks("shutdown_failed")

    async def stop(max_unloads_per_second: float) -> None:
        try:
            await broker.stop(reason="shutdown request", max_unloads_per_second=max_unloads_per_second)
        finally:
            on_stopped()

    def shutdown(max_unloads_per_second: float) -> None:
        stops.keep(kept_task(stop(max_unloads_per_second), "shutdown request"))

    def registries() -> Iterable[CollectorRegistry]:
        manager = broker.load_manager
        return (manager.metrics.registry,) if isinstance(manager, KeepsMetrics) else ()

    return BrokerServices(
        control=broker.control,
        resources=broker.resources,
        authorizer=broker.authorizer,
        registry=broker.registry,
        upkeep=broker.upkeep,
        changes=broker.changes,
        partition_owner=broker.partition_owner,
        topic_policies=broker.topic_policies,
        decisions=lambda: manager.decisions if isinstance(manager := broker.load_manager, KeepsDecisions) else None,
        admin=admin,
        relayed=relayed,
        is_ready=lambda: broker.ready,
        data_fault=lambda: broker.data_fault,
        shutdown=shutdown,
        authentication=broker.authentication,
        ledgers=broker.env.ledgers,
        registries=registries,
        load_tables=load_tables,
    )
