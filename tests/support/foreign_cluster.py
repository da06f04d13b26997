"""A cluster of Apache Pulsar in this process, as far as its web service tells load and policies."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class ForeignCluster:
    """A web server that answers as a broker of Apache Pulsar does; all broker ids lead to it.

    `reports` are the answers to requests for a load report, in order: None for none, a number for an error.
    `isolation`, `domains` and `groups` are the rules of administrators; None: the broker refuses to tell them.
    """

    def __init__(self, reports: list[Any], *, names_cluster: bool = False) -> None:
        self.reports = reports
        self.names_cluster = names_cluster
        self.headers: list[Mapping[str, str]] = []
        self.broker = ""
        self.told: Any = None
        self.configuration: Any = {"clusterName": "c1"}
        self.isolation: dict[str, Any] | None = {}
        self.domains: dict[str, Any] = {}
        self.groups: dict[str, str] = {}
        self.server = TestServer(self._app())

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/admin/v2/clusters", self._clusters)
        app.router.add_get("/admin/v2/brokers" + ("/c1" if self.names_cluster else ""), self._brokers)
        app.router.add_get("/admin/v2/broker-stats/load-report", self._report)
        app.router.add_get("/admin/v2/brokers/configuration/runtime", self._configuration)
        app.router.add_get("/admin/v2/clusters/c1/namespaceIsolationPolicies", self._isolation)
        app.router.add_get("/admin/v2/clusters/c1/failureDomains", self._domains)
        app.router.add_get("/admin/v2/namespaces/{tenant}/{name}/antiAffinity", self._group)
        return app

    async def _isolation(self, request: web.Request) -> web.Response:
        if self.isolation is None:
            return web.json_response({"reason": "no rights"}, status=403)
        return web.json_response(self.isolation)

    async def _domains(self, request: web.Request) -> web.Response:
        return web.json_response(self.domains)

    async def _group(self, request: web.Request) -> web.Response:
        name = f"{request.match_info['tenant']}/{request.match_info['name']}"
        return web.Response(text=self.groups[name]) if name in self.groups else web.Response(status=404)

    async def _clusters(self, request: web.Request) -> web.Response:
        return web.json_response(["global", "c1"])

    async def _brokers(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.broker = f"127.0.0.1:{self.server.port}"
        if isinstance(self.told, ForeignCluster):
            return web.json_response([f"127.0.0.1:{self.told.server.port}"])
        return web.json_response(self.told or [self.broker])

    async def _configuration(self, request: web.Request) -> web.Response:
        return (
            self.configuration
            if isinstance(self.configuration, web.Response)
            else web.json_response(self.configuration)
        )

    async def _report(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        answer = self.reports.pop(0)
        if answer is None:
            return web.Response(status=204)
        if isinstance(answer, int):
            return web.json_response({"reason": "not now"}, status=answer)
        if isinstance(answer, web.Response):
            return answer
        return web.json_response(answer)
