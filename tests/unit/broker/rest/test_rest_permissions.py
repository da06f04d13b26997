"""Permissions through REST: stored in the namespace's policies as Pulsar stores them, with Pulsar's codes."""

import msgspec

from support.rest_cluster import RestCluster, rest_cluster

NAMESPACE = "/admin/v2/namespaces/public/ns"
GRANTS = f"{NAMESPACE}/permissions"
TOPIC = "/admin/v2/persistent/public/ns/t"


async def stored(cluster: RestCluster) -> dict[str, object]:
    record = await cluster.store.get("/admin/policies/public/ns")
    assert record is not None
    policies = msgspec.json.decode(record.value, type=dict[str, object])
    found = policies["auth_policies"]
    assert isinstance(found, dict)
    return found


async def test_grants_on_a_namespace() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        assert (await cluster.expect(200, "GET", GRANTS)).json == {}
        await cluster.expect(204, "POST", f"{GRANTS}/alice", ["produce", "consume"])
        await cluster.expect(204, "POST", f"{GRANTS}/spiffe%3A%2F%2Fa%2Fb", ["functions"])
        await cluster.expect(204, "POST", f"{GRANTS}/nothing", [])
        shown = {"alice": ["consume", "produce"], "nothing": [], "spiffe://a/b": ["functions"]}
        assert (await cluster.expect(200, "GET", GRANTS)).json == shown
        assert (await stored(cluster))["namespace_auth"] == shown
        assert (await cluster.expect(200, "GET", NAMESPACE)).json["auth_policies"]["namespace_auth"] == shown
        await cluster.expect(204, "POST", f"{GRANTS}/alice", ["produce"])
        await cluster.expect(204, "DELETE", f"{GRANTS}/nothing")
        await cluster.expect(204, "DELETE", f"{GRANTS}/spiffe%3A%2F%2Fa%2Fb")
        await cluster.expect(204, "DELETE", f"{GRANTS}/whoever")
        assert (await cluster.expect(200, "GET", GRANTS)).json == {"alice": ["produce"]}
        for body in (None, ["everything"], "produce", [1], {}):
            await cluster.expect(400, "POST", f"{GRANTS}/alice", body)
        await cluster.expect(412, "POST", f"{GRANTS}/{'a' * 1001}", ["produce"])
        for method, path, body in (("GET", "", None), ("POST", "/alice", ["produce"]), ("DELETE", "/alice", None)):
            await cluster.expect(404, method, f"/admin/v2/namespaces/public/none/permissions{path}", body)


async def test_grants_on_a_topic() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{TOPIC}/partitions", 2)
        await cluster.expect(204, "POST", f"{GRANTS}/alice", ["produce"])
        await cluster.expect(204, "POST", f"{TOPIC}/permissions/alice", ["consume"])
        await cluster.expect(204, "POST", f"{TOPIC}/permissions/bob", ["consume"])
        shown = {"alice": ["consume", "produce"], "bob": ["consume"]}
        for path in (TOPIC, f"{TOPIC}-partition-1"):
            assert (await cluster.expect(200, "GET", f"{path}/permissions")).json == shown
        assert (await stored(cluster))["destination_auth"] == {
            "persistent://public/ns/t": {"alice": ["consume"], "bob": ["consume"]}
        }
        await cluster.expect(204, "DELETE", f"{TOPIC}/permissions/alice")
        refused = await cluster.expect(412, "DELETE", f"{TOPIC}/permissions/alice")
        assert refused.reason == "Permissions are not set at the topic level"
        await cluster.expect(204, "DELETE", f"{TOPIC}/permissions/bob")
        assert (await stored(cluster))["destination_auth"] == {}
        assert (await cluster.expect(200, "GET", f"{TOPIC}/permissions")).json == {"alice": ["produce"]}
        other = "/admin/v2/non-persistent/public/ns/t/permissions"
        await cluster.expect(204, "POST", f"{other}/bob", ["consume"])
        assert list(await stored(cluster))
        assert (await cluster.expect(200, "GET", other)).json["bob"] == ["consume"]
        assert "bob" not in (await cluster.expect(200, "GET", f"{TOPIC}/permissions")).json
        await cluster.expect(404, "GET", "/admin/v2/persistent/public/none/t/permissions")
        await cluster.expect(400, "POST", f"{TOPIC}/permissions/bob", ["eat"])


async def test_grants_on_a_topic_end_with_it() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{TOPIC}/partitions", 2)
        await cluster.expect(204, "PUT", f"{TOPIC}2")
        for path in (TOPIC, f"{TOPIC}-partition-1", f"{TOPIC}2", f"{TOPIC}3"):
            await cluster.expect(204, "POST", f"{path}/permissions/bob", ["consume"])
        await cluster.expect(204, "DELETE", f"{TOPIC}/partitions")
        await cluster.expect(204, "DELETE", f"{TOPIC}2")
        assert list((await stored(cluster))["destination_auth"]) == ["persistent://public/ns/t3"]  # type: ignore[call-overload]


async def test_roles_of_a_subscription_and_the_mode_of_their_names() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        path = f"{GRANTS}/subscription"
        await cluster.expect(204, "POST", f"{path}/a%2Fb", ["bob", "alice"])
        assert (await cluster.expect(200, "GET", path)).json == {"a/b": ["alice", "bob"]}
        await cluster.expect(204, "DELETE", f"{GRANTS}/a%2Fb/bob")
        assert (await stored(cluster))["subscription_auth_roles"] == {"a/b": ["alice"]}
        await cluster.expect(404, "DELETE", f"{GRANTS}/other/bob")
        for body, status in ((None, 400), ("alice", 400), ([""], 412), (["a" * 1001], 412)):
            await cluster.expect(status, "POST", f"{path}/s", body)
        mode = f"{NAMESPACE}/subscriptionAuthMode"
        assert (await cluster.expect(200, "GET", mode)).json == "None"
        await cluster.expect(204, "POST", mode, "Prefix")
        assert (await cluster.expect(200, "GET", mode)).json == "Prefix"
        assert (await cluster.expect(200, "GET", NAMESPACE)).json["subscription_auth_mode"] == "Prefix"
        for wrong in ("Suffix", None, 7):
            await cluster.expect(400, "POST", mode, wrong)
        await cluster.expect(404, "GET", "/admin/v2/namespaces/public/none/subscriptionAuthMode")


async def test_nothing_is_granted_while_policies_are_read_only() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.store.put("/admin/flags/policies-readonly", b"")
        await cluster.expect(403, "POST", f"{GRANTS}/alice", ["produce"])
        await cluster.expect(403, "DELETE", f"{TOPIC}/permissions/alice")
        await cluster.expect(403, "POST", f"{NAMESPACE}/subscriptionAuthMode", "Prefix")
        assert (await cluster.expect(200, "GET", GRANTS)).json == {}
