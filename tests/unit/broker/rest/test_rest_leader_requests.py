"""`leaderOnlyMetadataWrites`: the leader writes administrative changes, whichever broker receives the request."""

import asyncio

import pytest

from pulsar_barycenter.admin.routes.table import BY_PATH
from pulsar_barycenter.admin.routes.topic_policies import TOPIC_POLICIES
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.broker.rest.server import RestServer
from pulsar_barycenter.metadata.coordination.epochs import epoch_path
from support.rest_cluster import RestCluster, rest_cluster

ADMIN = "/admin/v2"
TENANT = {"allowedClusters": ["standalone"]}
MODE = {"leader_only_metadata_writes": "administration"}
MODES = pytest.mark.parametrize("mode", ["administration", "true"])

REFUSED = (
    "{offload}",
    "offload",
    "removeOffloadPolicies",
    "allowedTopicPropertyKeysForMetrics",
    "{rest}",
    "{functions}{rest}",
    "packages{rest}",
    "transactions{rest}",
)
OF_OWNERS = {
    ("PUT", "unload"),
    ("PUT", "split"),
    ("DELETE", "{range}"),
    ("PUT", "{topic}"),
    ("DELETE", "{topic}"),
    ("POST", "createMissedPartitions"),
    ("PUT", "{subscription}"),
    ("DELETE", "{subscription}"),
    ("PUT", "properties"),
    ("PUT", "compaction"),
    ("POST", "schema"),
    ("POST", "compatibility"),
    ("POST", "version"),
    ("DELETE", "schema"),
    ("POST", "shutdown"),
    ("POST", "leader-writes"),
    ("POST", "partition-changes"),
    ("POST", "{count}"),
    ("POST", "skip_all"),
    ("POST", "{seconds}"),
    ("POST", "expireMessages"),
    ("POST", "{timestamp}"),
    ("POST", "resetcursor"),
    ("PUT", "backlogSize"),
    ("POST", "terminate"),
    ("POST", "partitions"),
    ("POST", "clearBacklog"),
    ("POST", "{subscription}"),
    ("POST", "analyzeBacklog"),
    ("DELETE", "truncate"),
    ("POST", "trim"),
    ("POST", "replicatedSubscriptionStatus"),
    ("DELETE", "properties"),
    *((method, refused) for method in ("POST", "PUT", "DELETE") for refused in REFUSED),
    *((row.method, row.path.rpartition("/")[2]) for row in TOPIC_POLICIES.routes),
}
"""What changes something and is for whoever owns a bundle or a topic, or for the broker that is asked."""


def leader_and_other(cluster: RestCluster) -> tuple[Broker, Broker]:
    [leader] = [broker for broker in cluster.brokers if broker.leadership.is_leader()]
    [other] = [broker for broker in cluster.brokers if broker is not leader]
    return leader, other


async def test_every_request_that_changes_something_is_either_the_leaders_or_an_owners() -> None:
    async with rest_cluster() as cluster:
        (broker,) = cluster.brokers
        assert isinstance(broker.web, RestServer)
        unmarked = set()
        for route in broker.web.app.router.routes():
            assert route.resource is not None
            path = route.resource.canonical
            if route.method in ("PUT", "POST", "DELETE") and not BY_PATH[route.method, path].by_leader:
                unmarked.add((route.method, path.rsplit("/", 1)[-1]))
        assert unmarked <= OF_OWNERS, unmarked - OF_OWNERS


@MODES
async def test_a_follower_sends_what_administrators_change_to_the_leader_which_writes_it(mode: str) -> None:
    """Policies and dynamic configuration alike; what is only shown is shown by any broker."""
    async with rest_cluster(2, leader_only_metadata_writes=mode) as cluster:
        leader, other = leader_and_other(cluster)
        answer = await cluster.expect(307, "PUT", f"{ADMIN}/tenants/acme", TENANT, at=other, follow=False)
        assert answer.location == f"{leader.urls.web_url}{ADMIN}/tenants/acme?authoritative=false"
        await cluster.expect(204, "PUT", f"{ADMIN}/tenants/acme", TENANT, at=other)
        await cluster.expect(204, "PUT", f"{ADMIN}/namespaces/acme/ns", {"bundles": {"numBundles": 2}}, at=other)
        await cluster.expect(204, "PUT", f"{ADMIN}/persistent/acme/ns/t/partitions", 3, at=other)
        override = f"{ADMIN}/brokers/configuration/loadBalancerSheddingEnabled/false"
        await cluster.expect(200, "POST", override, at=other)
        shown = await cluster.expect(200, "GET", f"{ADMIN}/namespaces/acme", at=other, follow=False)
        assert shown.json == ["acme/ns"]
        for path in ("tenants/acme", "namespaces/acme/ns"):
            assert (await cluster.expect(307, "DELETE", f"{ADMIN}/{path}", at=other, follow=False)).location
        await cluster.expect(204, "DELETE", f"{ADMIN}/persistent/acme/ns/t/partitions", at=other)
        await cluster.expect(204, "DELETE", f"{ADMIN}/namespaces/acme/ns", at=other)
        await cluster.expect(204, "DELETE", f"{ADMIN}/tenants/acme", at=other)


async def test_of_many_who_create_one_namespace_at_different_brokers_one_does() -> None:
    async with rest_cluster(2, **MODE) as cluster:
        answers = await asyncio.gather(
            *(cluster.call("PUT", f"{ADMIN}/namespaces/public/one", at=cluster.brokers[n % 2]) for n in range(8))
        )
        assert sorted(answer.status for answer in answers) == [204] + [409] * 7


async def test_a_leader_that_was_passed_stores_nothing_that_it_was_asked_for() -> None:
    """It has not noticed yet; the client may ask again, and is then answered in the next term."""
    async with rest_cluster(1, **MODE) as cluster:
        (broker,) = cluster.brokers
        cluster.backend.route_notifications(broker.env.store, lambda told: None)  # type: ignore[arg-type]
        await cluster.store.put(epoch_path(LEADER_PATH), b'{"epoch":9,"brokerId":"c:1"}')
        answer = await cluster.expect(503, "PUT", f"{ADMIN}/tenants/acme", TENANT)
        assert "the write is of leader epoch 1, and another leader has taken the next epoch" in answer.reason
        assert not await cluster.store.exists("/admin/policies/acme")
        async with asyncio.timeout(30):
            while not broker.leadership.is_leader():
                await broker.leadership.wait_change(1)
        assert broker.leadership.epoch().number == 10
        await cluster.expect(204, "PUT", f"{ADMIN}/tenants/acme", TENANT)


async def test_nobody_writes_while_nobody_leads() -> None:
    """What is owned is served all the same, and what is only shown is shown."""
    async with rest_cluster(1, **MODE) as cluster:
        (broker,) = cluster.brokers
        await cluster.create_namespace()
        await broker.leadership.resign()
        answer = await cluster.expect(503, "PUT", f"{ADMIN}/tenants/acme", TENANT)
        assert answer.reason == (
            "Only the leader can make this change, and there is no leader at the moment. Try again."
        )
        await cluster.expect(200, "GET", f"{ADMIN}/namespaces/public/ns")


async def test_else_any_broker_writes_what_it_is_asked_for() -> None:
    async with rest_cluster(2) as cluster:
        _, other = leader_and_other(cluster)
        await cluster.expect(204, "PUT", f"{ADMIN}/tenants/acme", TENANT, at=other, follow=False)
