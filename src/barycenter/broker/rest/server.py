"""The REST server of a broker: the application on a socket. `start_web` is what `Broker` is given as `web`."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from aiohttp import web
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

    def __init__(self, runner: web.AppRunner, admin: AdminClient, port: int) -> None:
        self.port = port
        self._runner = runner
        self._admin = admin

    async def close(self) -> None:
        """Stop listening, and end what is under way after a short time. Idempotent."""
        await self._admin.close()
        await self._runner.cleanup()


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
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_FINISH_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=_BACKLOG).start()
    except BaseException:
        await runner.cleanup()
        raise
    return RestServer(runner, admin, runner.addresses[0][1])


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
