"""The REST server of a broker: the application on a socket. `start_web` is what `Broker` is given as `web`."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from prometheus_client import CollectorRegistry

from barycenter.admin.client import AdminClient
from barycenter.broker.broker import Broker
from barycenter.broker.rest.app import build_app
from barycenter.broker.rest.services import BrokerServices

log = structlog.get_logger(__name__)

_BACKLOG: Final = 1024
_FINISH_S: Final = 2.0
"""How long requests under way may go on once the server closes."""


class RestServer:
    """A listening server; made by `start_web`."""

    def __init__(self, runner: web.AppRunner, admin: AdminClient, listening: asyncio.Server) -> None:
        self.port: int = listening.sockets[0].getsockname()[1]
        self._runner = runner
        self._admin = admin
        self._listening = listening

    @property
    def connections(self) -> int:
        """How many there are, those included whose client has not been heard to leave."""
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    async def close(self) -> None:
        """Stop listening, and end what is under way after a short time. Idempotent."""
        self._listening.close()
        await self._admin.close()
        await self._runner.cleanup()


class _TooManyConnections(asyncio.Protocol):
    """Answers a connection that is one too many, and closes it, without waiting for what it asks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast(asyncio.WriteTransport, transport)
        body = b'{"reason":"Too many HTTP connections to this broker (maxHttpServerConnections). Try again."}'
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writing.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        writing.close()


async def start_web(
    broker: Broker, host: str, port: int, *, on_stopped: Callable[[], None] | None = None
) -> RestServer:
    """Serve the REST interface of `broker` at `host` and `port`; 0 picks a free one.

    `on_stopped` is called when the broker has stopped because `POST /admin/v2/brokers/shutdown` asked for it:
    whoever runs the process ends it then.

    Raises:
        OSError: the port cannot be had.
    """
    admin = AdminClient()
    app = build_app(_services_of(broker, admin, on_stopped or (lambda: None)))
    config = broker.config.current
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_faults_of_ours(),
        handle_signals=False,
        shutdown_timeout=_FINISH_S,
        # From the connection or the last answer on, until the header of a request is there.
        keepalive_timeout=config.web_service_request_timeout_seconds,
    )
    await runner.setup()
    server, limit = runner.server, config.max_http_server_connections
    assert server is not None

    def accept() -> asyncio.Protocol:
        return _TooManyConnections() if limit and len(server.connections) >= limit else server()

    try:
        listening = await asyncio.get_running_loop().create_server(accept, host, port, backlog=_BACKLOG)
    except BaseException:
        await runner.cleanup()
        raise
    return RestServer(runner, admin, listening)


def _faults_of_ours() -> logging.Logger:
    """Return the log of what goes wrong outside of handlers; a request that is none is told in a line of ours."""

    def is_ours(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            log.info("malformed_request", reason=error.message.partition("\n")[0][:200])
        return not isinstance(error, HttpProcessingError)

    logger = logging.getLogger("barycenter.http")
    logger.filters[:] = [is_ours]
    return logger


def _services_of(broker: Broker, admin: AdminClient, on_stopped: Callable[[], None]) -> BrokerServices:
    stops: set[asyncio.Task[None]] = set()

    async def stop(max_unloads_per_second: float) -> None:
        try:
            await broker.stop(reason="shutdown request", max_unloads_per_second=max_unloads_per_second)
        finally:
            on_stopped()

    def shutdown(max_unloads_per_second: float) -> None:
        task = asyncio.create_task(stop(max_unloads_per_second), name="shutdown request")
        stops.add(task)
        task.add_done_callback(stops.discard)

    def registries() -> Iterable[CollectorRegistry]:
        registry = getattr(getattr(broker.load_manager, "metrics", None), "registry", None)
        return () if registry is None else (registry,)

    return BrokerServices(
        control=broker.control,
        resources=broker.resources,
        registry=broker.registry,
        decisions=lambda: getattr(broker.load_manager, "decisions", None),
        admin=admin,
        is_ready=lambda: broker.ready,
        shutdown=shutdown,
        registries=registries,
    )
