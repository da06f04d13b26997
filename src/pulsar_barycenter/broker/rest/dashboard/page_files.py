"""Serves the files of the dashboard to all clients without authentication, because the files contain no data of the
cluster.
"""

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.dashboard.files import HEADERS, START, dashboard_files


class DashboardPage:
    def __init__(self, services: BrokerServices) -> None:
        pass

    async def start(self, request: web.Request) -> web.Response:
        return _answered(request, START)

    async def file(self, request: web.Request) -> web.Response:
        return _answered(request, request.match_info["file"])


def _answered(request: web.Request, name: str) -> web.Response:
    found = dashboard_files().get(name)
    if found is None:
        raise RestError(404, f"The dashboard has no file {name[:100]!r}: its start page is /")
    headers = {**HEADERS, "ETag": found.tag}
    if request.headers.get("If-None-Match") == found.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)
