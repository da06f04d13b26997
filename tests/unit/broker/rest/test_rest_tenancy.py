"""Clusters, tenants and namespaces: Pulsar's codes, and texts that say what to do."""

import pytest

from support.rest_cluster import rest_cluster

ADMIN = "/admin/v2"
TENANT = {"adminRoles": ["b", "a", "a"], "allowedClusters": ["standalone"]}


async def test_clusters_are_created_shown_changed_and_deleted() -> None:
    async with rest_cluster() as cluster:
        path = f"{ADMIN}/clusters/west"
        assert (await cluster.expect(200, "GET", f"{ADMIN}/clusters")).json == ["standalone"]
        await cluster.expect(404, "GET", path)
        await cluster.expect(404, "POST", path, {"serviceUrl": "http://w:8080"})
        await cluster.expect(400, "PUT", path)
        await cluster.expect(400, "PUT", path, {"serviceUrl": "pulsar://w:6650"})
        await cluster.expect(400, "PUT", path, b"not json")
        await cluster.expect(412, "PUT", f"{ADMIN}/clusters/we%20st", {"serviceUrl": "http://w:8080"})
        await cluster.expect(200, "PUT", path, {"serviceUrl": "http://w:8080"})
        await cluster.expect(409, "PUT", path, {"serviceUrl": "http://w:8080"})
        await cluster.expect(200, "POST", path, {"serviceUrl": "http://w:8081"})
        assert (await cluster.expect(200, "GET", path)).json["serviceUrl"] == "http://w:8081"
        await cluster.expect(412, "POST", f"{path}/peers", ["nowhere"])
        await cluster.expect(412, "POST", f"{path}/peers", ["west"])
        await cluster.expect(204, "POST", f"{path}/peers", ["standalone"])
        assert (await cluster.expect(200, "GET", f"{path}/peers")).json == ["standalone"]
        await cluster.expect(412, "DELETE", f"{ADMIN}/clusters/standalone")
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(404, "DELETE", path)


async def test_tenants_are_created_shown_changed_and_deleted() -> None:
    async with rest_cluster(max_tenants=3) as cluster:
        path = f"{ADMIN}/tenants/acme"
        await cluster.expect(404, "GET", path)
        await cluster.expect(404, "POST", path, TENANT)
        for bad in (None, {}, {"allowedClusters": []}, {"allowedClusters": [" "]}, {"allowedClusters": ["nowhere"]}):
            await cluster.expect(412, "PUT", path, bad)
        await cluster.expect(412, "PUT", f"{ADMIN}/tenants/ac%24me", TENANT)
        await cluster.expect(400, "PUT", path, {"allowedClusters": "standalone"})
        await cluster.expect(204, "PUT", path, TENANT)
        await cluster.expect(409, "PUT", path, TENANT)
        assert "maxTenants is 3" in (await cluster.expect(412, "PUT", f"{ADMIN}/tenants/more", TENANT)).reason
        assert (await cluster.expect(200, "GET", path)).json == {
            "adminRoles": ["a", "b"],
            "allowedClusters": ["standalone"],
        }
        await cluster.expect(204, "POST", path, {**TENANT, "adminRoles": []})
        assert (await cluster.expect(200, "GET", f"{ADMIN}/tenants")).json == ["acme", "public", "pulsar"]
        await cluster.expect(204, "PUT", f"{ADMIN}/namespaces/acme/ns")
        assert "delete them first" in (await cluster.expect(409, "DELETE", path)).reason
        await cluster.expect(405, "DELETE", path, force="true")
        await cluster.expect(204, "DELETE", f"{ADMIN}/namespaces/acme/ns")
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(404, "DELETE", path)


async def test_a_changed_tenant_keeps_the_fields_that_nobody_here_knows() -> None:
    async with rest_cluster() as cluster:
        await cluster.store.put("/admin/policies/acme", b'{"allowedClusters":["standalone"],"newInPulsar9":{"x":1}}')
        await cluster.expect(204, "POST", f"{ADMIN}/tenants/acme", TENANT)
        record = await cluster.store.get("/admin/policies/acme")
        assert record is not None
        assert b'"newInPulsar9":{"x":1}' in record.value


@pytest.mark.parametrize(
    ("body", "boundaries"),
    [
        (None, 33),
        ({}, 33),
        ({"bundles": {"numBundles": 8}}, 9),
        ({"bundles": {"numBundles": 0}}, 33),
        ({"bundles": {"boundaries": ["0xffffffff", "0x0", "0x10000000"]}}, 3),
    ],
)
async def test_a_namespace_gets_the_bundles_that_were_asked_for(body: object, boundaries: int) -> None:
    async with rest_cluster() as cluster:
        path = f"{ADMIN}/namespaces/public/ns"
        await cluster.expect(204, "PUT", path, body)
        bundles = (await cluster.expect(200, "GET", f"{path}/bundles")).json
        assert len(bundles["boundaries"]) == boundaries
        assert bundles["numBundles"] == boundaries - 1
        policies = (await cluster.expect(200, "GET", path)).json
        assert policies["bundles"] == bundles
        assert policies["replication_clusters"] == ["standalone"]


async def test_what_makes_no_namespace_is_refused() -> None:
    async with rest_cluster(max_namespaces_per_tenant=2) as cluster:
        namespaces = f"{ADMIN}/namespaces"
        await cluster.expect(404, "PUT", f"{namespaces}/nobody/ns")
        await cluster.expect(412, "PUT", f"{namespaces}/public/n%20s")
        for bundles in ({"numBundles": -1}, {"numBundles": 2**33}, {"boundaries": ["0x0", "0x7fffffff"]}):
            answer = await cluster.expect(400, "PUT", f"{namespaces}/public/ns", {"bundles": bundles})
            assert "undles" in answer.reason
        await cluster.expect(403, "PUT", f"{namespaces}/public/ns", {"replication_clusters": ["elsewhere"]})
        await cluster.expect(204, "PUT", f"{namespaces}/public/ns")
        await cluster.expect(409, "PUT", f"{namespaces}/public/default")
        assert "limit is 2" in (await cluster.expect(412, "PUT", f"{namespaces}/public/more")).reason
        assert (await cluster.expect(200, "GET", f"{namespaces}/public")).json == ["public/default", "public/ns"]
        await cluster.expect(404, "GET", f"{namespaces}/nobody")
        await cluster.expect(404, "GET", f"{namespaces}/public/missing")


async def test_nothing_is_changed_while_policies_are_read_only() -> None:
    async with rest_cluster() as cluster:
        await cluster.store.put("/admin/flags/policies-readonly", b"")
        for method, path in (
            ("PUT", "tenants/acme"),
            ("PUT", "clusters/west"),
            ("PUT", "namespaces/public/ns"),
            ("DELETE", "namespaces/public/default"),
            ("PUT", "namespaces/public/default/0x00000000_0x08000000/unload"),
            ("PUT", "namespaces/public/default/0x00000000_0x08000000/split"),
        ):
            assert "read-only" in (await cluster.expect(403, method, f"{ADMIN}/{path}", {})).reason


async def test_an_empty_namespace_is_deleted_with_all_its_records() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(200, "GET", "/lookup/v2/topic/persistent/public/ns/t")
        await cluster.expect(204, "DELETE", f"{ADMIN}/namespaces/public/ns")
        assert not await cluster.store.exists("/admin/policies/public/ns")
        assert not await cluster.store.exists("/admin/local-policies/public/ns")
        assert await cluster.store.children("/namespace/public/ns") == []
        await cluster.expect(404, "DELETE", f"{ADMIN}/namespaces/public/ns")
        for broker in cluster.brokers:
            assert not [b for b in broker.ownership.held_bundles() if str(b.namespace) == "public/ns"]


async def test_a_namespace_with_topics_is_deleted_by_force_alone() -> None:
    async with rest_cluster(2, force_delete_namespace_allowed=True) as cluster:
        await cluster.create_namespace()
        for index in range(6):
            await cluster.expect(204, "PUT", f"{ADMIN}/persistent/public/ns/t{index}")
        await cluster.expect(204, "PUT", f"{ADMIN}/persistent/public/ns/parts/partitions", 3)
        await cluster.expect(204, "PUT", f"{ADMIN}/persistent/public/ns/t0/subscription/s")
        answer = await cluster.expect(409, "DELETE", f"{ADMIN}/namespaces/public/ns")
        assert answer.reason.startswith("Cannot delete non empty namespace")
        policies = (await cluster.expect(200, "GET", f"{ADMIN}/namespaces/public/ns")).json
        assert policies["deleted"] is False
        await cluster.expect(204, "DELETE", f"{ADMIN}/namespaces/public/ns", force="true")
        for path in ("/managed-ledgers/public/ns/persistent", "/admin/partitioned-topics/public/ns/persistent"):
            assert await cluster.store.children(path) == []
        await cluster.create_namespace(bundles=2)
        assert (await cluster.expect(200, "GET", f"{ADMIN}/persistent/public/ns")).json == []


async def test_force_needs_the_configuration_that_allows_it() -> None:
    async with rest_cluster(force_delete_tenant_allowed=True) as cluster:
        await cluster.create_namespace()
        answer = await cluster.expect(405, "DELETE", f"{ADMIN}/namespaces/public/ns", force="true")
        assert "forceDeleteNamespaceAllowed=true" in answer.reason
        await cluster.expect(204, "PUT", f"{ADMIN}/tenants/acme", TENANT)
        await cluster.expect(204, "PUT", f"{ADMIN}/namespaces/acme/ns")
        await cluster.expect(204, "PUT", f"{ADMIN}/persistent/acme/ns/t")
        await cluster.expect(204, "DELETE", f"{ADMIN}/tenants/acme", force="true")
        assert (await cluster.expect(200, "GET", f"{ADMIN}/tenants")).json == ["public", "pulsar"]


async def test_unknown_paths_verbs_and_bodies_are_answered_in_the_same_form() -> None:
    async with rest_cluster() as cluster:
        assert "Not Found" in (await cluster.expect(404, "GET", "/admin/v2/nothing")).reason
        answer = await cluster.expect(405, "POST", f"{ADMIN}/tenants")
        assert answer.headers["Allow"] == "GET,HEAD"
        assert answer.reason
        large = b"[" + b" " * (5 << 20) + b"]"
        assert (await cluster.expect(413, "PUT", f"{ADMIN}/tenants/acme", large)).reason
        assert (
            "must be true or false"
            in (await cluster.expect(400, "DELETE", f"{ADMIN}/tenants/public", force="perhaps")).reason
        )


async def test_what_the_brokers_need_cannot_be_deleted() -> None:
    """Neither by force, nor when nothing else depends on it."""
    async with rest_cluster(force_delete_tenant_allowed=True, force_delete_namespace_allowed=True) as cluster:
        internal = f"{ADMIN}/persistent/pulsar/system/loadbalancer-service-unit-state"
        for force in ("false", "true"):
            for path, name in (
                (f"{ADMIN}/tenants/pulsar", "pulsar"),
                (f"{ADMIN}/namespaces/pulsar/system", "pulsar/system"),
                (internal, "loadbalancer-service-unit-state"),
                (f"{internal}/partitions", "loadbalancer-service-unit-state"),
                (f"{internal}/subscription/__compaction", "__compaction"),
            ):
                refused = await cluster.expect(412, "DELETE", path, force=force)
                assert name in refused.reason
                assert "cannot be deleted" in refused.reason
        await cluster.expect(204, "POST", f"{ADMIN}/tenants/public", {"allowedClusters": ["standalone"]})
        assert "cannot be deleted" in (await cluster.expect(412, "DELETE", f"{ADMIN}/clusters/standalone")).reason
        assert (await cluster.expect(200, "GET", f"{ADMIN}/namespaces/pulsar")).json == ["pulsar/system"]
