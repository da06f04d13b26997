"""Migration of clusters: stored for other clusters, refused for that of the brokers."""

from support.rest_cluster import rest_cluster

FAR = "/admin/v2/clusters/far"
OWN = "/admin/v2/clusters/standalone/migrate"
URL = {"serviceUrl": "http://new:8080", "brokerServiceUrl": "pulsar://new:6650"}


async def test_the_migration_of_another_cluster_is_stored_and_goes_with_it() -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(404, "POST", f"{FAR}/migrate", URL, migrated="true")
        await cluster.expect(200, "PUT", FAR, {"serviceUrl": "http://far:8080"})
        assert "never set" in (await cluster.expect(404, "GET", f"{FAR}/migrate")).reason
        await cluster.expect(400, "POST", f"{FAR}/migrate", {}, migrated="true")
        await cluster.expect(400, "POST", f"{FAR}/migrate", {"serviceUrl": "ftp://new"}, migrated="true")
        await cluster.expect(404, "GET", f"{FAR}/migrate")
        await cluster.expect(200, "POST", f"{FAR}/migrate", URL, migrated="true")
        stored = {"migrated": True, "migratedClusterUrl": URL}
        assert (await cluster.expect(200, "GET", f"{FAR}/migrate")).json == stored
        assert await cluster.store.exists("/admin/clusters/far/policies"), "where Pulsar's brokers look for it"
        assert "far" in (await cluster.expect(200, "GET", "/admin/v2/clusters")).json
        await cluster.expect(204, "DELETE", FAR)
        assert not await cluster.store.exists("/admin/clusters/far")
        await cluster.expect(404, "GET", f"{FAR}/migrate")


async def test_the_clients_of_these_brokers_are_not_sent_to_another_cluster() -> None:
    async with rest_cluster() as cluster:
        refused = await cluster.expect(405, "POST", OWN, URL, migrated="true")
        assert "standalone is the cluster of these brokers" in refused.reason
        await cluster.expect(404, "GET", OWN)
        await cluster.expect(200, "POST", OWN, URL)
        assert not (await cluster.expect(200, "GET", OWN)).json["migrated"]
        await cluster.create_namespace()
        await cluster.expect(204, "POST", "/admin/v2/namespaces/public/ns/migration", migrated="true")
        local = await cluster.brokers[0].resources.local_policies.get("public/ns")
        assert local is not None
        assert local.migrated
        await cluster.expect(404, "POST", "/admin/v2/namespaces/public/none/migration", migrated="true")
