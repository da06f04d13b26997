"""Properties of namespaces and topics, clusters of a namespace, and requests that are refused as a whole."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_barycenter.broker.rest.namespace_properties import MAX_PROPERTIES_CHARACTERS
from support.rest_cluster import RestCluster, rest_cluster

NAMESPACE = "/admin/v2/namespaces/public/default"
PLAIN = "/admin/v2/persistent/public/default/plain"
MANY = "/admin/v2/persistent/public/default/many"


@pytest.fixture
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster() as running:
        await running.expect(204, "PUT", PLAIN)
        await running.expect(204, "PUT", f"{MANY}/partitions", 2)
        yield running


async def test_properties_of_a_namespace_are_added_shown_and_removed_one_by_one(cluster: RestCluster) -> None:
    async def shown() -> Any:
        return (await cluster.expect(200, "GET", f"{NAMESPACE}/properties")).json

    assert await shown() == {}
    await cluster.expect(204, "PUT", f"{NAMESPACE}/properties", {"a": "1", "b": "2"})
    await cluster.expect(204, "PUT", f"{NAMESPACE}/property/c/x%20y")
    await cluster.expect(204, "PUT", f"{NAMESPACE}/properties", {"a": "3"})
    assert await shown() == {"a": "3", "b": "2", "c": "x y"}
    assert (await cluster.expect(200, "GET", f"{NAMESPACE}/property/c")).body == b"x y"
    assert (await cluster.expect(200, "DELETE", f"{NAMESPACE}/property/b")).body == b"2"
    assert "no property b" in (await cluster.expect(404, "DELETE", f"{NAMESPACE}/property/b")).reason
    assert "no property b" in (await cluster.expect(404, "GET", f"{NAMESPACE}/property/b")).reason
    assert await shown() == {"a": "3", "c": "x y"}
    await cluster.expect(204, "DELETE", f"{NAMESPACE}/properties")
    assert await shown() == {}


@pytest.mark.parametrize("path", [f"{NAMESPACE}/properties", f"{PLAIN}/properties", f"{MANY}/properties"])
async def test_too_many_properties_are_refused_and_none_is_stored(cluster: RestCluster, path: str) -> None:
    names = "abcdefgh"
    share = MAX_PROPERTIES_CHARACTERS // len(names)
    for name in names:
        await cluster.expect(204, "PUT", path, {name: "x" * (share - 1)})
    refused = await cluster.expect(400, "PUT", path, {"i": ""})
    assert f"at most {MAX_PROPERTIES_CHARACTERS} are allowed together" in refused.reason
    assert set((await cluster.expect(200, "GET", path)).json) == set(names)


@pytest.mark.parametrize("path", [PLAIN, MANY])
async def test_properties_of_a_topic_survive_its_unload(cluster: RestCluster, path: str) -> None:
    await cluster.expect(204, "PUT", f"{path}/properties", {"a": "1", "b": "2"})
    await cluster.expect(204, "PUT", f"{path}/properties", {"a": "3"})
    await cluster.expect(204, "DELETE", f"{path}/properties?key=b")
    assert "?key=" in (await cluster.expect(400, "DELETE", f"{path}/properties")).reason
    await cluster.expect(204, "PUT", f"{path}/unload")
    assert (await cluster.expect(200, "GET", f"{path}/properties")).json == {"a": "3"}


async def test_nothing_is_a_shadow(cluster: RestCluster) -> None:
    shadow = {"PULSAR.SHADOW_SOURCE": "persistent://public/default/plain"}
    for path in (f"{PLAIN}/properties", "/admin/v2/persistent/public/default/shadow"):
        assert "Shadow topics are disabled" in (await cluster.expect(405, "PUT", path, shadow)).reason
    assert (await cluster.expect(200, "GET", f"{PLAIN}/properties")).json == {}
    await cluster.expect(404, "GET", "/admin/v2/persistent/public/default/shadow/stats")


async def test_a_namespace_is_in_this_cluster_alone(cluster: RestCluster) -> None:
    replication, allowed = f"{NAMESPACE}/replication", f"{NAMESPACE}/allowedClusters"
    await cluster.expect(200, "PUT", "/admin/v2/clusters/far", {"serviceUrl": "http://far:8080"})
    assert (await cluster.expect(200, "GET", replication)).json == ["standalone"]
    await cluster.expect(204, "POST", replication, ["standalone"])
    for wrong in (["standalone", "far"], ["far"]):
        assert "not replicated" in (await cluster.expect(412, "POST", replication, wrong)).reason
    assert "null or empty" in (await cluster.expect(412, "POST", replication, [])).reason
    assert (await cluster.expect(200, "GET", allowed)).json == []
    await cluster.expect(204, "POST", allowed, ["standalone", "far"])
    assert (await cluster.expect(200, "GET", allowed)).json == ["far", "standalone"]
    assert "must contain" in (await cluster.expect(400, "POST", allowed, ["far"])).reason
    assert "nowhere does not exist" in (await cluster.expect(403, "POST", allowed, ["standalone", "nowhere"])).reason
    assert (await cluster.expect(200, "GET", allowed)).json == ["far", "standalone"]


@pytest.mark.parametrize(
    ("status", "path", "said"),
    [
        (409, "/admin/v3/functions/public/default", "Pulsar Function Worker is not enabled"),
        (409, "/admin/v3/functions/public/default/f/restart", "Pulsar Function Worker is not enabled"),
        (409, "/admin/v3/sources/builtinsources", "Pulsar Function Worker is not enabled"),
        (409, "/admin/v2/worker/cluster", "Pulsar Function Worker is not enabled"),
        (503, "/admin/v3/packages/function/public/default/f", "Package Management Service is not enabled"),
        (503, "/admin/v3/transactions/coordinators", "transactionCoordinatorEnabled"),
        (405, "/admin/v2/scalable/public/default/wide", "Scalable topics are not served"),
        (405, "/admin/v2/segments/public/default/wide/0000-ffff-0", "Scalable topics are not served"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
async def test_what_is_left_out_is_refused_with_pulsars_status(
    shared: RestCluster, status: int, path: str, said: str, method: str
) -> None:
    assert said in (await shared.expect(status, method, path, None if method == "GET" else {"a": 1})).reason


async def test_a_namespace_has_no_scalable_topics(shared: RestCluster) -> None:
    assert (await shared.expect(200, "GET", "/admin/v2/scalable/public/default")).json == []
    await shared.expect(404, "GET", "/admin/v2/scalable/public/none")


@pytest.fixture
async def shared() -> AsyncIterator[RestCluster]:
    async with rest_cluster() as running:
        yield running
