"""Resource groups: Pulsar's paths, bodies and codes, and the rate that the topics of a group share."""

import pytest

from pulsar_barycenter.broker.namespaces.policies import ResourceGroup
from pulsar_barycenter.broker.namespaces.resources import RESOURCE_GROUPS
from pulsar_barycenter.broker.rest import resource_groups
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster

GROUPS = "/admin/v2/resourcegroups"
NS = "/admin/v2/namespaces/public/ns"
RATES = {"publishRateInMsgs": 5, "publishRateInBytes": 6, "dispatchRateInMsgs": 7, "dispatchRateInBytes": 8}
NOT_VALID: tuple[tuple[int, str, dict[str, object] | None], ...] = (
    (400, "g", None),
    (400, "g", {"publishRateInMsgs": 1, "priority": 3}),
    (400, "g", {"publishRateInMsgs": "fast"}),
    (412, "g", {"publishRateInMsgs": 2**31}),
    (412, "g", {"publishRateInBytes": -2}),
    (412, "a%20b", {}),
)
"""The status of the answer, the name of the group, and the body."""
UNLIMITED = dict.fromkeys(RATES, -1)


async def topic_of(cluster: RestCluster, name: str, namespace: str = "public/ns") -> Topic:
    """Create a topic, and return it as it is in the memory of the only broker."""
    await cluster.call("PUT", f"/admin/v2/persistent/{namespace}/{name}")
    await cluster.expect(200, "GET", f"/admin/v2/persistent/{namespace}/{name}/stats")
    found = cluster.brokers[0].registry.get_loaded(TopicName.parse(f"persistent://{namespace}/{name}"))
    assert found is not None
    return found


async def test_a_group_is_created_changed_shown_and_deleted() -> None:
    async with rest_cluster() as cluster:
        assert (await cluster.expect(200, "GET", GROUPS)).json == []
        await cluster.expect(204, "PUT", f"{GROUPS}/g", RATES)
        assert (await cluster.expect(200, "GET", f"{GROUPS}/g")).json == RATES
        await cluster.expect(204, "PUT", f"{GROUPS}/g", {"publishRateInMsgs": 50, "dispatchRateInBytes": None})
        assert (await cluster.expect(200, "GET", f"{GROUPS}/g")).json == {**RATES, "publishRateInMsgs": 50}
        await cluster.expect(204, "PUT", f"{GROUPS}/h", {})
        assert (await cluster.expect(200, "GET", f"{GROUPS}/h")).json == UNLIMITED
        assert (await cluster.expect(200, "GET", GROUPS)).json == ["g", "h"]
        await cluster.expect(204, "DELETE", f"{GROUPS}/g")
        for method in ("GET", "DELETE"):
            assert "ResourceGroup does not exist: g" in (await cluster.expect(404, method, f"{GROUPS}/g")).reason
        assert await cluster.store.exists(f"{RESOURCE_GROUPS}/h"), "where Pulsar's brokers look for it"


async def test_what_is_not_valid_is_refused_and_changes_nothing() -> None:
    async with rest_cluster() as cluster:
        for status, name, body in NOT_VALID:
            await cluster.expect(status, "PUT", f"{GROUPS}/{name}", body)
        assert (await cluster.expect(200, "GET", GROUPS)).json == []


async def test_a_namespace_is_in_a_group_that_exists_and_that_stays_while_it_is_used() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        assert (await cluster.expect(204, "GET", f"{NS}/resourcegroup")).body == b""
        assert "does not exist: g" in (await cluster.expect(412, "POST", f"{NS}/resourcegroup/g")).reason
        await cluster.expect(204, "PUT", f"{GROUPS}/g", RATES)
        await cluster.expect(204, "POST", f"{NS}/resourcegroup/g")
        assert (await cluster.expect(200, "GET", f"{NS}/resourcegroup")).body == b"g"
        assert (await cluster.expect(200, "GET", NS)).json["resource_group_name"] == "g"
        refused = await cluster.expect(412, "DELETE", f"{GROUPS}/g")
        assert "ResourceGroup is in use: namespace public/ns is in group g" in refused.reason
        await cluster.expect(204, "DELETE", f"{NS}/resourcegroup")
        await cluster.expect(204, "GET", f"{NS}/resourcegroup")
        await cluster.expect(204, "DELETE", f"{GROUPS}/g")
        other = "/admin/v2/namespaces/public/other"
        await cluster.expect(412, "PUT", other, {"resource_group_name": "g"})
        await cluster.expect(204, "PUT", f"{GROUPS}/g", {})
        await cluster.expect(204, "PUT", other, {"resource_group_name": "g"})
        assert (await cluster.expect(200, "GET", f"{other}/resourcegroup")).body == b"g"


async def test_a_cluster_has_a_bounded_number_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_groups, "MOST_GROUPS", 1)
    async with rest_cluster() as cluster:
        await cluster.expect(204, "PUT", f"{GROUPS}/g", RATES)
        assert "at most 1 resource groups" in (await cluster.expect(412, "PUT", f"{GROUPS}/h", RATES)).reason
        await cluster.expect(204, "PUT", f"{GROUPS}/g", {})


async def test_topics_of_a_group_share_its_rate_until_they_leave_it() -> None:
    async with rest_cluster() as cluster:
        for namespace in ("public/ns", "public/two", "public/three"):
            await cluster.create_namespace(namespace)
        await cluster.expect(204, "PUT", f"{GROUPS}/g", {"publishRateInMsgs": 5})
        for namespace in ("ns", "two"):
            await cluster.expect(204, "POST", f"/admin/v2/namespaces/public/{namespace}/resourcegroup/g")
        one, same, other = [await topic_of(cluster, "a", f"public/{name}") for name in ("ns", "two", "three")]
        registry = cluster.brokers[0].registry
        shared = registry.throttle_of(one.rules.group_rate)
        assert shared is not None
        assert (one.rules.group_rate.messages, one.rules.group_rate.size) == (5, 0)
        assert registry.throttle_of(same.rules.group_rate) is shared
        assert other.intake is None, "its namespace has no group"
        now_s = 1e9
        assert not shared.take(10, 10, now_s)
        await cluster.expect(204, "PUT", f"{GROUPS}/g", {"publishRateInMsgs": 50, "publishRateInBytes": 1000})
        await registry.apply_policies()
        assert registry.throttle_of(one.rules.group_rate) is shared, "attached producers keep it"
        assert shared.take(40, 900, now_s)
        assert not shared.take(1, 200, now_s), "the bytes"
        await cluster.expect(204, "DELETE", f"{NS}/resourcegroup")
        await registry.apply_policies()
        assert one.intake is None
        assert same.intake is not None


async def test_a_damaged_record_of_a_group_limits_nothing_and_stops_no_topic() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{GROUPS}/g", RATES)
        await cluster.expect(204, "POST", f"{NS}/resourcegroup/g")
        await cluster.store.put(f"{RESOURCE_GROUPS}/g", b"[")
        assert (await topic_of(cluster, "a")).intake is None
        await cluster.brokers[0].resources.resource_groups.put("g", ResourceGroup(1))
        await cluster.brokers[0].registry.apply_policies()
        assert (await topic_of(cluster, "a")).rules.group_rate.messages == 1
