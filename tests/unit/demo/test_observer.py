"""The HTTP requests of a demo to brokers, with servers that answer like brokers."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.demo.observer import ClusterObserver
from pulsar_barycenter.demo.scenario import BUNDLES, NAMESPACE, create_namespace

TOPIC = f"persistent://{NAMESPACE}/t"
REPORT = {"msgRateIn": 10.0, "msgRateOut": 20.0, "msgThroughputIn": 1e3, "msgThroughputOut": 2e3, "numBundles": 4}


class Cluster:
    """A server that answers as the one broker of a cluster; it keeps what it was sent."""

    def __init__(self, *, create: int = 204) -> None:
        self.created: list[Any] = []
        self._create = create
        app = web.Application()
        app.router.add_get("/admin/v2/broker-stats/load-report", self._report)
        app.router.add_get("/lookup/v2/topic/{name:.*}", self._lookup)
        app.router.add_get("/admin/v2/brokers/standalone/{broker}/ownedNamespaces", self._owned)
        app.router.add_put(f"/admin/v2/namespaces/{NAMESPACE}", self._namespace)
        self.server = TestServer(app)

    async def __aenter__(self) -> str:
        await self.server.start_server()
        return f"http://127.0.0.1:{self.server.port}"

    async def __aexit__(self, *error: object) -> None:
        await self.server.close()

    async def _report(self, request: web.Request) -> web.Response:
        return web.json_response({**REPORT, "maxResourceUsage": 0.4})

    async def _lookup(self, request: web.Request) -> web.Response:
        assert request.match_info["name"] == f"persistent/{NAMESPACE}/t"
        return web.json_response({"httpUrl": "http://b:1"})

    async def _owned(self, request: web.Request) -> web.Response:
        assert request.match_info["broker"] == f"127.0.0.1:{self.server.port}"
        return web.json_response({f"{NAMESPACE}/0x00000000_0x80000000": {}, "pulsar/system/0x00000000_0xffffffff": {}})

    async def _namespace(self, request: web.Request) -> web.Response:
        self.created.append(await request.json())
        return web.json_response({"reason": "so"}, status=self._create)


async def test_brokers_are_asked_for_their_load_and_one_that_is_gone_is_left_out() -> None:
    gone = Cluster()
    async with gone as gone_url:
        pass
    async with Cluster() as url, ClusterObserver([gone_url, url]) as observer:
        (sample,) = await observer.load_samples(7.0)
        assert (sample.broker, sample.at_s) == (url.removeprefix("http://"), 7.0)
        assert (sample.msg_rate, sample.throughput, sample.bundles, sample.usage) == (30.0, 3e3, 4, 0.4)
        assert await observer.owner(TOPIC) == "http://b:1"
        assert await observer.bundles_of(url, NAMESPACE) == {f"{NAMESPACE}/0x00000000_0x80000000"}
        assert await observer.bundles_of(gone_url, NAMESPACE) == set()
    async with ClusterObserver([gone_url]) as observer:
        assert await observer.load_samples(7.0) == []
        assert await observer.owner(TOPIC) is None


@pytest.mark.parametrize("status", [204, 409])
async def test_the_namespace_is_made_unless_an_earlier_run_did(status: int) -> None:
    cluster = Cluster(create=status)
    async with cluster as url:
        await create_namespace(url)
    assert cluster.created == [{"bundles": {"numBundles": BUNDLES}}]


async def test_a_namespace_that_is_refused_ends_the_demo_in_the_brokers_words() -> None:
    async with Cluster(create=412) as url:
        with pytest.raises(AdminRequestError, match="412: so"):
            await create_namespace(url)
