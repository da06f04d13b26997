"""The messages for brokers that do not publish the input of their decisions, such as Apache Pulsar's."""

import pytest
from aiohttp import web

from pulsar_barycenter.cli.asking.client import asking_client
from pulsar_barycenter.observer.running_cluster import ClusterError, decisions_of, snapshot_of


async def test_a_cluster_that_tells_no_decisions_is_to_be_recorded() -> None:
    async def brokers(request: web.Request) -> web.Response:
        return web.json_response([request.host])

    app = web.Application()
    app.router.add_get("/admin/v2/brokers", brokers)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        url = f"http://{host}:{port}"
        with pytest.raises(ClusterError, match="record the cluster with `barycenter collect`"):
            await snapshot_of(asking_client, url)
        records, (trouble,) = await decisions_of(asking_client, url, {})
        assert records == []
        assert trouble.endswith("Apache Pulsar's brokers do not return any")
    finally:
        await runner.cleanup()
