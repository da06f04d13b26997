"""Resource quotas through REST: the default, and those of bundles, shown, set and removed."""

from support.rest_cluster import rest_cluster

QUOTAS = "/admin/v2/resource-quotas"
OF_BUNDLE = f"{QUOTAS}/public/ns/0x00000000_0x80000000"
FIRST = {"msgRateIn": 40, "msgRateOut": 120, "bandwidthIn": 1e5, "bandwidthOut": 3e5, "memory": 80, "dynamic": True}
OTHER = {"msgRateIn": 1, "msgRateOut": 2, "bandwidthIn": 3, "bandwidthOut": 4, "memory": 5, "dynamic": False}


async def test_a_bundle_has_the_default_quota_unless_it_has_its_own() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=2)
        for path in (QUOTAS, OF_BUNDLE):
            assert (await cluster.expect(200, "GET", path)).json == FIRST
        await cluster.expect(204, "POST", OF_BUNDLE, OTHER)
        assert (await cluster.expect(200, "GET", OF_BUNDLE)).json == OTHER
        assert (await cluster.expect(200, "GET", QUOTAS)).json == FIRST
        await cluster.expect(204, "POST", QUOTAS, OTHER | {"memory": 6})
        await cluster.expect(204, "DELETE", OF_BUNDLE)
        assert (await cluster.expect(200, "GET", OF_BUNDLE)).json == OTHER | {"memory": 6}
        await cluster.expect(204, "DELETE", OF_BUNDLE)


async def test_what_is_no_quota_or_no_bundle_is_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=2)
        for body in (None, 7, OTHER | {"memory": -1}, OTHER | {"memory": 1e300}, OTHER | {"memory": "5"}):
            await cluster.expect(400, "POST", QUOTAS, body)
        for method in ("GET", "POST", "DELETE"):
            body = OTHER if method == "POST" else None
            await cluster.expect(412, method, f"{QUOTAS}/public/ns/0x00000000_0x80000001", body)
            await cluster.expect(404, method, f"{QUOTAS}/public/none/0x00000000_0x80000000", body)


async def test_pulsars_older_client_asks_for_groups_below_admin() -> None:
    """And name the tenant `property`."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "POST", "/admin/v2/namespaces/public/ns/antiAffinity", "apart")
        path = "/admin/namespaces/standalone/antiAffinity/apart"
        assert (await cluster.expect(200, "GET", path, property="public")).json == ["public/ns"]
