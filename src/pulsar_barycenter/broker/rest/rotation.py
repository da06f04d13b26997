"""Answers load balancers whether they may send requests to this broker (Pulsar's status file)."""

from pathlib import Path

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.requests import text_response
from pulsar_barycenter.broker.rest.services import BrokerServices


class Rotation:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def status(self, request: web.Request) -> web.Response:
        path = self._services.config.status_file_path
        if not self._services.is_ready() or (path and not Path(path).exists()):  # noqa: ASYNC240 (one stat call)
            raise RestError(
                404,
                "This broker is not in rotation, so a load balancer must not choose it: the broker is not ready, "
                "or the status file (key statusFilePath) does not exist",
            )
        return text_response("OK")
