"""Which broker gets the requests of `AdminCluster` when one does not answer."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told

NOBODY = f"http://127.0.0.1:{unused_port()}"


class Broker:
    """A web server with one isolation policy, which refuses unloads."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.server = TestServer(app)

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "PUT":
            return web.json_response({"reason": "no"}, status=403)
        return web.json_response({"clusterName": "c"} if request.path.endswith("/runtime") else {"p": {}})

    async def __aenter__(self) -> str:
        await self.server.start_server()
        return str(self.server.make_url("")).rstrip("/")

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()


async def test_a_repeated_request_goes_to_a_broker_that_answers() -> None:
    client = AdminClient(timeout_s=5)
    try:
        async with Broker() as url:
            cluster = AdminCluster(client, NOBODY)
            with pytest.raises(NotNowError):
                await cluster.isolation()
            assert cluster.url == NOBODY, "no other broker is known"
            cluster.turn_to(NOBODY, [NOBODY, url])
            assert await when_told(cluster.isolation) == {"p": {}}
            assert cluster.url == url
            cluster.turn_to(NOBODY, [url])
            with pytest.raises(NotNowError):
                await cluster.unload("t/n/0x0_0x1", "b:1")
            with pytest.raises(RefusedError):  # an answer, if only an error, is no reason to turn away
                await cluster.unload("t/n/0x0_0x1", "b:1")
            assert cluster.url == url
    finally:
        await client.close()
