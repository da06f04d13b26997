"""A namespace says whether use creates its topics and subscriptions; paths, bodies and refusals are Pulsar's."""

from typing import Any

import pytest

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

NS = "/admin/v2/namespaces/public/ns"
TOPICS, SUBSCRIPTIONS = f"{NS}/autoTopicCreation", f"{NS}/autoSubscriptionCreation"
BY_PARTS = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}


async def client_of(cluster: RestCluster) -> WireClient:
    """Create the namespace with a topic in its only bundle, and connect to the owner."""
    await cluster.expect(204, "PUT", NS, {"bundles": {"numBundles": 1}})
    await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/first")
    broker = await cluster.owner("persistent/public/ns/first")
    return await WireClient.connect(int(str(broker.urls.broker_url).rpartition(":")[2]))


async def test_use_creates_topics_where_the_namespace_says_so() -> None:
    async with rest_cluster(allow_auto_topic_creation=False) as cluster:
        client = await client_of(cluster)
        topic = "persistent://public/ns/t"
        assert (await client.produce(topic, 1)).error == api.TopicNotFound
        await cluster.expect(204, "GET", TOPICS)
        whole = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
        await cluster.expect(204, "POST", TOPICS, whole)
        assert (await cluster.expect(200, "GET", TOPICS)).json == {**whole, "defaultNumPartitions": None}
        assert not hasattr(await client.produce(topic, 2), "error")
        await cluster.expect(204, "DELETE", TOPICS)
        await cluster.expect(204, "GET", TOPICS)
        assert (await client.produce(f"{topic}-2", 3)).error == api.TopicNotFound
        client.close()


async def test_use_creates_partitioned_topics() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "POST", TOPICS, BY_PARTS)
        path = "/admin/v2/persistent/public/ns/parts/partitions"
        shown = await cluster.expect(200, "GET", path, checkAllowAutoCreation="true")
        assert shown.json["partitions"] == 2


async def test_use_creates_subscriptions_where_the_namespace_says_so() -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        topic = "persistent://public/ns/t"
        await cluster.expect(204, "POST", SUBSCRIPTIONS, {"allowAutoSubscriptionCreation": False})
        assert (await cluster.expect(200, "GET", SUBSCRIPTIONS)).json == {"allowAutoSubscriptionCreation": False}
        assert (await client.subscribe(topic, "a", 1)).error == api.SubscriptionNotFound
        await cluster.expect(204, "DELETE", SUBSCRIPTIONS)
        await cluster.expect(204, "GET", SUBSCRIPTIONS)
        assert not hasattr(await client.subscribe(topic, "a", 2), "error")
        client.close()


@pytest.mark.parametrize(
    ("status", "path", "body", "told"),
    [
        (412, TOPICS, {**BY_PARTS, "topicType": "scalable"}, "Unknown topic type [scalable]"),
        (412, TOPICS, {"allowAutoTopicCreation": True}, "Unknown topic type [None]"),
        (412, TOPICS, {**BY_PARTS, "defaultNumPartitions": None}, "cannot be null"),
        (412, TOPICS, {**BY_PARTS, "defaultNumPartitions": 0}, "cannot be less than 1"),
        (412, TOPICS, {**BY_PARTS, "topicType": "non-partitioned"}, "not allowed to be set"),
        (406, TOPICS, {**BY_PARTS, "defaultNumPartitions": 10_001}, "less than or equal to 10000"),
        (400, TOPICS, None, "send a DELETE"),
        (400, TOPICS, {**BY_PARTS, "partitions": 2}, "partitions = 2"),
        (400, SUBSCRIPTIONS, None, "send a DELETE"),
        (400, SUBSCRIPTIONS, {"allowAutoSubscriptionCreation": "yes"}, "bool"),
        (404, TOPICS.replace("/ns/", "/missing/"), BY_PARTS, "missing"),
        (404, SUBSCRIPTIONS.replace("/ns/", "/missing/"), {"allowAutoSubscriptionCreation": True}, "missing"),
    ],
)  # fmt: skip
async def test_what_is_not_valid_is_refused(status: int, path: str, body: Any, told: str) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        before = (await cluster.expect(200, "GET", NS)).json
        assert told in (await cluster.expect(status, "POST", path, body)).reason
        assert (await cluster.expect(200, "GET", NS)).json == before
