"""Changes of partitioned topics that the owner of one partition refuses, or does not carry out."""

from collections.abc import Iterable

from pulsar_barycenter.broker.broker import Broker
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

P = "/admin/v2/persistent/public/ns"
FULL = "persistent://public/ns"
PARTITIONS = 4


async def partitioned(cluster: RestCluster, name: str = "x", subscriptions: Iterable[str] = ("billing",)) -> None:
    await cluster.create_namespace()
    await cluster.expect(204, "PUT", f"{P}/{name}/partitions", PARTITIONS)
    for subscription in subscriptions:
        await cluster.expect(204, "PUT", f"{P}/{name}/subscription/{subscription}", "earliest")


async def connect_to(cluster: RestCluster, topic: str) -> WireClient:
    owner: Broker = await cluster.owner(f"persistent/public/ns/{topic}")
    return await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))


async def subscriptions_of_each(cluster: RestCluster, name: str = "x", count: int = PARTITIONS) -> list[list[str]]:
    return [
        (await cluster.expect(200, "GET", f"{P}/{name}-partition-{index}/subscriptions")).json for index in range(count)
    ]


async def topics(cluster: RestCluster) -> list[str]:
    found: list[str] = (await cluster.expect(200, "GET", P)).json
    return found


async def test_a_deletion_that_one_partition_refuses_leaves_all_partitions() -> None:
    async with rest_cluster(3) as cluster:
        await partitioned(cluster)
        client = await connect_to(cluster, "x-partition-2")
        await client.subscribe(f"{FULL}/x-partition-2", "reporting")
        before = await topics(cluster)
        refused = await cluster.expect(412, "DELETE", f"{P}/x/partitions")
        assert "x-partition-2" in refused.reason
        assert await topics(cluster) == before
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json == {
            "partitions": PARTITIONS,
            "deleted": False,
            "properties": {},
        }
        client.close()


async def test_a_deletion_of_a_subscription_that_one_partition_refuses_leaves_it_at_all() -> None:
    async with rest_cluster(3) as cluster:
        await partitioned(cluster)
        client = await connect_to(cluster, "x-partition-2")
        await client.subscribe(f"{FULL}/x-partition-2", "billing")
        refused = await cluster.expect(412, "DELETE", f"{P}/x/subscription/billing")
        assert "x-partition-2" in refused.reason
        assert await subscriptions_of_each(cluster) == [["billing"]] * PARTITIONS
        client.close()


async def test_a_subscription_that_one_partition_refuses_is_made_at_none() -> None:
    async with rest_cluster(3, max_subscriptions_per_topic=2) as cluster:
        await partitioned(cluster)
        await cluster.expect(204, "PUT", f"{P}/x-partition-2/subscription/other")
        refused = await cluster.expect(412, "PUT", f"{P}/x/subscription/new")
        assert "x-partition-2" in refused.reason
        expected = [["billing"], ["billing"], ["billing", "other"], ["billing"]]
        assert await subscriptions_of_each(cluster) == expected
