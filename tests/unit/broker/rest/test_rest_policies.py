"""Isolation policies, failure domains and anti-affinity groups over REST, and what brokers make of them."""

import asyncio
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from support.rest_cluster import RestCluster, rest_cluster

ADMIN = "/admin/v2"
POLICIES = f"{ADMIN}/clusters/standalone/namespaceIsolationPolicies"
DOMAINS = f"{ADMIN}/clusters/standalone/failureDomains"


def body(primary: list[str], *namespaces: str, secondary: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "namespaces": list(namespaces or ("public/ns",)),
        "primary": primary,
        "secondary": secondary or [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
        **more,
    }


def regex(*brokers: Broker) -> list[str]:
    return [rf"\Q{broker.broker_id}\E" for broker in brokers]


async def modular_cluster(cluster: RestCluster, count: int, **settings: Any) -> list[Broker]:
    for _ in range(count):
        await cluster.add(ModularLoadManager, broker_shutdown_timeout_ms=0, **settings)
    await everyone_knows(cluster, cluster.brokers)
    return cluster.brokers


async def everyone_knows(cluster: RestCluster, brokers: list[Broker]) -> None:
    ids = sorted(broker.broker_id for broker in brokers)
    for broker in brokers:
        async with asyncio.timeout(30):
            while (await cluster.call("GET", f"{ADMIN}/brokers", at=broker)).json != ids:
                await asyncio.sleep(0.005)


async def owners(cluster: RestCluster, namespace: str, topics: int = 12) -> set[str]:
    """Return the owners of the bundles of this number of topics."""
    found = [await cluster.owner(f"persistent/{namespace}/t-{number}") for number in range(topics)]
    return {broker.broker_id for broker in found}


# ---- isolation policies ----


async def test_isolation_policies_are_set_shown_and_deleted() -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(404, "GET", POLICIES)
        await cluster.expect(404, "GET", f"{POLICIES}/p")
        await cluster.expect(204, "POST", f"{POLICIES}/p", body(["b1"]))
        await cluster.expect(204, "POST", f"{POLICIES}/a", body(["b2"], "public/x", unload_scope="none"))
        shown = (await cluster.expect(200, "GET", POLICIES)).json
        assert list(shown) == ["p", "a"]
        assert shown["p"] == body(["b1"])
        assert (await cluster.expect(200, "GET", f"{POLICIES}/a")).json["unload_scope"] == "none"
        assert "NamespaceIsolationPolicy q" in (await cluster.expect(404, "GET", f"{POLICIES}/q")).reason
        await cluster.expect(204, "DELETE", f"{POLICIES}/p")
        await cluster.expect(204, "DELETE", f"{POLICIES}/p")
        assert list((await cluster.expect(200, "GET", POLICIES)).json) == ["a"]


async def test_policies_of_a_cluster_that_is_not_there_are_refused() -> None:
    async with rest_cluster() as cluster:
        root = f"{ADMIN}/clusters/nowhere/namespaceIsolationPolicies"
        await cluster.expect(404, "GET", root)
        for path in ("p", "brokers", "brokers/b1:8080"):
            assert "nowhere" in (await cluster.expect(412, "GET", f"{root}/{path}")).reason
        await cluster.expect(412, "POST", f"{root}/p", body(["b1"]))
        await cluster.expect(412, "DELETE", f"{root}/p")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (None, "send a JSON object"),
        ([], "The request body is not valid"),
        ({**body(["b1"]), "namespaces": []}, "'p': namespaces is empty"),
        (body(["b("]), "primary: 'b(' is not a valid regular expression"),
        (body(["b"], "t/("), "is not a valid regular expression"),
        (body(["b"], "t/(?!a).*"), "look-arounds"),
        (body(["b"], *["a{1000}"] * 300), "all policies together"),
        ({**body(["b"]), "auto_failover_policy": None}, "auto_failover_policy is missing"),
        ({**body(["b"]), "primary": "b"}, "$.primary"),
        (body(["b"], unload_scope="never"), "all_matching, changed, none"),
    ],
)
async def test_a_bad_policy_is_refused_and_nothing_is_stored(sent: Any, says: str) -> None:
    async with rest_cluster() as cluster:
        assert says in (await cluster.expect(400, "POST", f"{POLICIES}/p", sent)).reason
        await cluster.expect(404, "GET", POLICIES)


async def test_a_policy_that_was_made_to_take_long_takes_no_time() -> None:
    """With backtracking, matching a namespace of 40 characters with it would stop the broker for minutes."""
    async with rest_cluster() as cluster:
        namespace = "public/" + "a" * 60
        await cluster.create_namespace(namespace)
        await cluster.expect(204, "POST", f"{POLICIES}/p", body(["(b|bb)+c"], "public/(a|aa)+x"))
        await cluster.expect(200, "GET", f"/lookup/v2/topic/persistent/{namespace}/t")
        await cluster.expect(200, "GET", f"{POLICIES}/brokers")


async def test_a_policy_takes_no_room_from_those_behind_it() -> None:
    """One of `a{1000}` takes some thousand steps of the 200,000 that all policies may have."""
    async with rest_cluster() as cluster:
        await cluster.expect(204, "POST", f"{POLICIES}/first", body(["b1"]))
        await cluster.expect(204, "POST", f"{POLICIES}/second", body(["b1"], *["a{1000}"] * 150))
        refused = await cluster.expect(400, "POST", f"{POLICIES}/first", body(["b1"], *["a{1000}"] * 150))
        assert "'second'" in refused.reason
        assert (await cluster.expect(200, "GET", f"{POLICIES}/first")).json == body(["b1"])


async def test_brokers_are_shown_with_the_policies_that_name_them() -> None:
    async with rest_cluster() as cluster:
        broker = cluster.brokers[0].broker_id
        await cluster.expect(404, "GET", f"{POLICIES}/brokers")
        await cluster.expect(204, "POST", f"{POLICIES}/p", body([r"127\..*"], "t/a", "t/b"))
        await cluster.expect(204, "POST", f"{POLICIES}/q", body(["b1"], "t/c", secondary=[broker]))
        seen = {"brokerName": broker, "policyName": "q", "primary": False, "namespaceRegex": ["t/a", "t/b", "t/c"]}
        assert (await cluster.expect(200, "GET", f"{POLICIES}/brokers")).json == [seen]
        assert (await cluster.expect(200, "GET", f"{POLICIES}/brokers/{broker}")).json == seen
        other = (await cluster.expect(200, "GET", f"{POLICIES}/brokers/b9:8080")).json
        assert other == {"brokerName": "b9:8080", "primary": False, "namespaceRegex": []}


async def test_a_policy_that_nobody_here_can_read_stays_when_another_is_set() -> None:
    async with rest_cluster() as cluster:
        path = "/admin/clusters/standalone/namespaceIsolationPolicies"
        await cluster.store.put(path, b'{"odd":{"namespaces":["("],"new_field":[1]}}')
        await cluster.expect(204, "POST", f"{POLICIES}/p", body(["b1"]))
        shown = (await cluster.expect(200, "GET", POLICIES)).json
        assert shown == {"odd": {"namespaces": ["("], "new_field": [1]}, "p": body(["b1"])}


async def test_a_cluster_with_policies_is_not_deleted_one_with_domains_is() -> None:
    async with rest_cluster() as cluster:
        root = f"{ADMIN}/clusters/west"
        await cluster.expect(200, "PUT", root, {"serviceUrl": "http://w:8080"})
        await cluster.expect(204, "POST", f"{root}/namespaceIsolationPolicies/p", body(["b1"], unload_scope="none"))
        await cluster.expect(204, "POST", f"{root}/failureDomains/d", {"brokers": ["b1:8080"]})
        assert "isolation policies p" in (await cluster.expect(412, "DELETE", root)).reason
        await cluster.expect(204, "DELETE", f"{root}/namespaceIsolationPolicies/p")
        await cluster.expect(204, "DELETE", root)
        assert await cluster.store.children("/admin/clusters/west") == []


async def test_policies_that_are_read_only_are_not_changed() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.store.put("/admin/flags/policies-readonly", b"{}")
        await cluster.expect(403, "POST", f"{POLICIES}/p", body(["b1"]))
        await cluster.expect(403, "DELETE", f"{POLICIES}/p")
        await cluster.expect(403, "POST", f"{ADMIN}/namespaces/public/ns/antiAffinity", "g")
        await cluster.expect(403, "DELETE", f"{ADMIN}/namespaces/public/ns/antiAffinity")


async def test_a_policy_brings_its_namespaces_to_its_brokers_and_over_to_the_secondary_ones() -> None:
    """Bundles that are elsewhere are unloaded and placed again; others keep away from primary brokers."""
    async with rest_cluster(0) as cluster:
        first, second, third = await modular_cluster(cluster, 3)
        await cluster.create_namespace("public/ns", bundles=8)
        await cluster.create_namespace("public/other", bundles=8)
        assert len(await owners(cluster, "public/ns")) > 1
        isolated = body(regex(second), "public/n.*", secondary=regex(third))
        await cluster.expect(204, "POST", f"{POLICIES}/p", isolated)
        assert await owners(cluster, "public/ns") == {second.broker_id}
        await cluster.expect(204, "PUT", f"{ADMIN}/namespaces/public/other/unload")
        assert await owners(cluster, "public/other") == {first.broker_id, third.broker_id}
        path = f"{ADMIN}/brokers/standalone/{second.broker_id}/ownedNamespaces"
        shown = (await cluster.expect(200, "GET", path)).json
        of_policy = {name: each for name, each in shown.items() if name.startswith("public/ns/")}
        assert of_policy
        assert all(
            (each["broker_assignment"], each["is_controlled"]) == ("primary", True) for each in of_policy.values()
        )
        cluster.brokers.remove(second)
        await second.stop()
        await everyone_knows(cluster, cluster.brokers)
        assert await owners(cluster, "public/ns") == {third.broker_id}


@pytest.mark.parametrize(
    ("second", "unloaded"),
    [
        (body(["127.*"], "public/ns", "public/more"), {"public/more"}),
        (body(["127.*"], "public/ns", "public/more", unload_scope="all_matching"), {"public/ns", "public/more"}),
        (body(["127.*", "b1"], "public/more"), {"public/ns", "public/more"}),
        (body(["127.*", "b1"], "public/more", unload_scope="none"), set()),
    ],
)
async def test_setting_a_policy_unloads_the_namespaces_of_its_scope(second: Any, unloaded: set[str]) -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(204, "POST", f"{POLICIES}/p", body(["127.*"], "public/ns"))
        names = {"public/ns", "public/more", "public/kept"}
        for name in names:
            await cluster.create_namespace(name, bundles=1)
            await owners(cluster, name, topics=1)
        await cluster.expect(204, "POST", f"{POLICIES}/p", second)
        path = f"{ADMIN}/brokers/standalone/{cluster.brokers[0].broker_id}/ownedNamespaces"
        owned = {bundle.rpartition("/")[0] for bundle in (await cluster.expect(200, "GET", path)).json}
        assert names - owned == unloaded


async def test_namespaces_of_other_clusters_are_not_unloaded() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace("public/ns", bundles=1)
        await owners(cluster, "public/ns", topics=1)
        record = await cluster.store.get("/admin/policies/public/ns")
        assert record is not None
        policies = {**msgspec.json.decode(record.value), "replication_clusters": ["west"]}
        await cluster.store.put("/admin/policies/public/ns", msgspec.json.encode(policies))
        await cluster.expect(204, "POST", f"{POLICIES}/p", body(["127.*"], unload_scope="all_matching"))
        path = f"{ADMIN}/brokers/standalone/{cluster.brokers[0].broker_id}/ownedNamespaces"
        assert any(name.startswith("public/ns/") for name in (await cluster.expect(200, "GET", path)).json)


# ---- failure domains ----


async def test_failure_domains_are_set_shown_and_deleted() -> None:
    async with rest_cluster() as cluster:
        assert (await cluster.expect(200, "GET", DOMAINS)).json == {}
        await cluster.expect(404, "GET", f"{DOMAINS}/d1")
        await cluster.expect(204, "POST", f"{DOMAINS}/d1", {"brokers": ["b1:8080", "b2:8080", "b1:8080"]})
        assert (await cluster.expect(200, "GET", f"{DOMAINS}/d1")).json == {"brokers": ["b1:8080", "b2:8080"]}
        taken = await cluster.expect(409, "POST", f"{DOMAINS}/d2", {"brokers": ["b2:8080", "b3:8080"]})
        assert "[b2:8080] already exists in d1" in taken.reason
        await cluster.expect(204, "POST", f"{DOMAINS}/d1", {"brokers": ["b1:8080"]})
        await cluster.expect(204, "POST", f"{DOMAINS}/d2", {"brokers": ["b2:8080"]})
        assert set((await cluster.expect(200, "GET", DOMAINS)).json) == {"d1", "d2"}
        await cluster.expect(200, "DELETE", f"{DOMAINS}/d1")
        await cluster.expect(404, "DELETE", f"{DOMAINS}/d1")
        await cluster.expect(400, "POST", f"{DOMAINS}/d1")
        await cluster.expect(400, "POST", f"{DOMAINS}/d1", {"brokers": "b1:8080"})
        await cluster.expect(412, "POST", f"{DOMAINS}/d%201", {"brokers": []})
        for method, sent in (("GET", None), ("POST", {"brokers": []}), ("DELETE", None)):
            await cluster.expect(412, method, f"{ADMIN}/clusters/nowhere/failureDomains/d1", sent)


# ---- anti-affinity groups ----


async def test_the_anti_affinity_group_of_a_namespace_is_set_shown_and_deleted() -> None:
    """The boundaries stay: they are in the same record."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace("public/ns", bundles=3)
        path = f"{ADMIN}/namespaces/public/ns/antiAffinity"
        before = (await cluster.expect(200, "GET", f"{ADMIN}/namespaces/public/ns/bundles")).json
        assert (await cluster.expect(204, "GET", path)).body == b""
        await cluster.expect(204, "POST", path, "group one")
        assert (await cluster.expect(200, "GET", path)).body == b"group one"
        await cluster.expect(204, "POST", path, b"plain")
        assert (await cluster.expect(200, "GET", path)).body == b"plain"
        for blank in (None, "", b"  ", b'" "'):
            await cluster.expect(412, "POST", path, blank)
        await cluster.expect(400, "POST", path, ["a"])
        assert (await cluster.expect(200, "GET", f"{ADMIN}/namespaces/public/ns/bundles")).json == before
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(204, "GET", path)
        for method in ("GET", "POST", "DELETE"):
            missing = f"{ADMIN}/namespaces/public/nowhere/antiAffinity"
            reason = (await cluster.expect(404, method, missing, "g" if method == "POST" else None)).reason
            assert "public/nowhere" in reason


async def test_the_namespaces_of_a_group_are_listed_without_regard_to_case() -> None:
    async with rest_cluster() as cluster:
        for name, group in (("a", "Group"), ("b", "group"), ("c", "other"), ("d", None)):
            await cluster.create_namespace(f"public/{name}", bundles=1)
            if group:
                await cluster.expect(204, "POST", f"{ADMIN}/namespaces/public/{name}/antiAffinity", group)
        path = f"{ADMIN}/namespaces/standalone/antiAffinity"
        assert (await cluster.expect(200, "GET", f"{path}/GROUP", tenant="public")).json == ["public/a", "public/b"]
        assert (await cluster.expect(200, "GET", f"{path}/none", tenant="public")).json == []
        await cluster.expect(412, "GET", f"{path}/%20", tenant="public")
        await cluster.expect(412, "GET", f"{ADMIN}/namespaces/nowhere/antiAffinity/g", tenant="public")
        await cluster.expect(400, "GET", f"{path}/g")


async def test_a_group_is_spread_over_failure_domains_and_then_over_brokers() -> None:
    """Four namespaces on four brokers in two domains: the first two in different domains, at the end one per broker."""
    async with rest_cluster(0) as cluster:
        brokers = await modular_cluster(cluster, 4, failure_domains_enabled=True)
        domain_of = {}
        for name, members in (("d1", brokers[:2]), ("d2", brokers[2:])):
            ids = [broker.broker_id for broker in members]
            domain_of.update(dict.fromkeys(ids, name))
            await cluster.expect(204, "POST", f"{DOMAINS}/{name}", {"brokers": ids})
        leader = cluster.brokers[0].control.policies
        async with asyncio.timeout(30):
            while len(leader.current.domains) < 4:
                await asyncio.sleep(0.005)
        placed = []
        for number in range(4):
            await cluster.create_namespace(f"public/n{number}", bundles=1)
            path = f"{ADMIN}/namespaces/public/n{number}/antiAffinity"
            await cluster.expect(204, "POST", path, "group" if number % 2 else "GROUP")
            placed.append((await cluster.owner(f"persistent/public/n{number}/t")).broker_id)
        assert domain_of[placed[0]] != domain_of[placed[1]]
        assert domain_of[placed[2]] != domain_of[placed[3]]
        assert len(set(placed)) == 4
