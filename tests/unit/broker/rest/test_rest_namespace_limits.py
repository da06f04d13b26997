"""A namespace's own limits through REST: shown, set, removed, and applied to new clients."""

import pytest

from pulsar_barycenter.broker.rest.namespace_limits import LIMITS
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.known_roles import port_of
from support.rest_cluster import rest_cluster
from support.wire_client import WireClient

NAMESPACE = "/admin/v2/namespaces/public/ns"


@pytest.mark.parametrize("name", LIMITS)
async def test_a_limit_is_shown_set_and_removed(name: str) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        path = f"{NAMESPACE}/{name}"
        unset = 200 if name == "maxTopicsPerNamespace" else 204  # of it Pulsar shows 0
        assert (await cluster.expect(unset, "GET", path)).json == (0 if unset == 200 else None)
        await cluster.expect(204, "POST", path, 7)
        assert (await cluster.expect(200, "GET", path)).json == 7
        assert (await cluster.expect(200, "GET", NAMESPACE)).json[LIMITS[name]] == 7
        for body, status in ((-1, 412), (2**40, 400), ("7", 400), (None, 400), (1.5, 400)):
            await cluster.expect(status, "POST", path, body)
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(unset, "GET", path)
        for method, body in (("GET", None), ("POST", 7), ("DELETE", None)):
            await cluster.expect(404, method, f"/admin/v2/namespaces/public/none/{name}", body)


async def test_a_limit_holds_for_who_comes_next() -> None:
    async with rest_cluster(max_producers_per_topic=2) as cluster:
        await cluster.create_namespace(bundles=1)
        await cluster.expect(204, "POST", f"{NAMESPACE}/maxProducersPerTopic", 1)
        await cluster.owner("persistent/public/ns/t")
        client = await WireClient.connect(port_of(cluster.brokers[0]))
        topic = "persistent://public/ns/t"
        assert not hasattr(await client.produce(topic, 1), "error")
        assert (await client.produce(topic, 2)).error == api.ProducerBusy
        await cluster.expect(204, "DELETE", f"{NAMESPACE}/maxProducersPerTopic")
        assert not hasattr(await client.produce(topic, 3), "error")
        assert (await client.produce(topic, 4)).error == api.ProducerBusy
        client.close()
