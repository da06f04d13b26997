"""Compaction over REST: started and queried on the topic's owner, thresholds of namespaces, and the stats."""

import asyncio
from typing import Any

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from support.compaction_cases import Message, single
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

P = "/admin/v2/persistent/public/ns"
FULL = "persistent://public/ns"
THRESHOLD = "/admin/v2/namespaces/public/ns/compactionThreshold"
NOT_RUN = {"status": "NOT_RUN", "lastError": ""}
SUCCESS = {"status": "SUCCESS", "lastError": ""}


async def owner_of(cluster: RestCluster, name: str) -> Broker:
    return await cluster.owner(f"persistent/public/ns/{name}")


async def topic_of(cluster: RestCluster, name: str) -> PersistentTopic:
    broker = await owner_of(cluster, name)
    found = await broker.registry.get_or_create(TopicName.parse(f"{FULL}/{name}"))
    assert isinstance(found, PersistentTopic)
    return found


async def publish(cluster: RestCluster, name: str, *pairs: tuple[str, bytes | None]) -> None:
    """Publish keyed messages with a client of its own."""
    url = str((await owner_of(cluster, name)).urls.broker_url)
    client = await WireClient.connect(int(url.rpartition(":")[2]))
    await client.produce(f"{FULL}/{name}")
    for number, (key, value) in enumerate(pairs):
        client.write(client_commands.send(1, number, single(Message(key, value))))
        await client.expect(TYPE.SEND_RECEIPT)
    client.close()


async def status(cluster: RestCluster, name: str, **options: Any) -> dict[str, str]:
    found: dict[str, str] = (await cluster.expect(200, "GET", f"{P}/{name}/compaction", **options)).json
    return found


async def compacted(cluster: RestCluster, name: str) -> dict[str, str]:
    async with asyncio.timeout(30):
        while (found := await status(cluster, name))["status"] == "RUNNING":
            await asyncio.sleep(0)
    return found


async def test_a_topic_is_compacted_by_its_owner_whichever_broker_is_asked() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        for index, broker in enumerate(cluster.brokers):
            await cluster.expect(204, "PUT", f"{P}/t{index}")
            await publish(cluster, f"t{index}", ("a", b"1"), ("a", b"2"), ("b", b"1"))
            assert await status(cluster, f"t{index}", at=broker) == NOT_RUN
            await cluster.expect(204, "PUT", f"{P}/t{index}/compaction", at=broker)
            assert await compacted(cluster, f"t{index}") == SUCCESS
            stats = (await cluster.expect(200, "GET", f"{P}/t{index}/internalStats", at=broker)).json
            assert stats["compactedLedger"]["entries"] == 2


async def test_what_cannot_be_compacted_is_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for method in ("PUT", "GET"):
            await cluster.expect(404, method, f"{P}/missing/compaction")
            await cluster.expect(404, method, "/admin/v2/persistent/public/missing/t/compaction")
            await cluster.expect(404, method, "/admin/v2/non-persistent/public/ns/t/compaction")


async def test_a_topic_that_is_being_compacted_is_not_compacted_twice() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t")
        await publish(cluster, "t", ("a", b"1"))
        topic = await topic_of(cluster, "t")
        limit = cluster.brokers[0].registry.compactions.limit
        places = [await limit.acquire(), await limit.acquire()]
        await cluster.expect(204, "PUT", f"{P}/t/compaction")
        assert (await status(cluster, "t"))["status"] == "RUNNING"
        answer = await cluster.expect(409, "PUT", f"{P}/t/compaction")
        assert "Compaction already in progress" in answer.reason
        await cluster.expect(412, "DELETE", f"{P}/t/subscription/__compaction")
        assert topic.compactions.successes == 0
        for _ in places:
            limit.release()
        assert await compacted(cluster, "t") == SUCCESS
        assert topic.compactions.successes == 1


async def test_a_partitioned_topic_is_compacted_partition_by_partition() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/parts/partitions", 3)
        assert await status(cluster, "parts") == NOT_RUN
        for index in range(3):
            await publish(cluster, f"parts-partition-{index}", ("a", b"1"), ("a", b"2"))
        await cluster.expect(204, "PUT", f"{P}/parts/compaction")
        assert await compacted(cluster, "parts") == SUCCESS
        stats = (await cluster.expect(200, "GET", f"{P}/parts/partitioned-stats")).json
        assert stats["compaction"]["lastCompactionRemovedEventCount"] == 3
        await cluster.expect(204, "POST", f"{P}/parts/partitions", 4)
        assert await status(cluster, "parts-partition-3") == NOT_RUN
        topic = await topic_of(cluster, "parts-partition-1")
        topic.compactions.status, topic.compactions.last_error = "ERROR", "no space"
        assert await status(cluster, "parts") == {"status": "ERROR", "lastError": "no space"}


async def test_the_figures_are_those_of_pulsar() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t")
        assert b"pulsar_compaction" not in (await cluster.expect(200, "GET", "/metrics")).body
        empty = (await cluster.expect(200, "GET", f"{P}/t/stats")).json["compaction"]
        assert set(empty.values()) == {0}
        await publish(cluster, "t", ("a", b"1"), ("a", b"2"), ("b", b"1"), ("b", None))
        await cluster.expect(204, "PUT", f"{P}/t/compaction")
        await compacted(cluster, "t")
        stats = (await cluster.expect(200, "GET", f"{P}/t/stats")).json
        assert stats["compaction"]["lastCompactionRemovedEventCount"] == 3
        assert stats["compaction"]["lastCompactionSucceedTimestamp"] > 0
        assert stats["compaction"]["lastCompactionFailedTimestamp"] == 0
        assert stats["subscriptions"]["__compaction"]["msgBacklog"] == 0
        internal = (await cluster.expect(200, "GET", f"{P}/t/internalStats")).json
        ledger = internal["compactedLedger"]
        assert (ledger["ledgerId"] > 0, ledger["entries"], ledger["size"] > 0) == (True, 1, True)
        cursor = internal["cursors"]["__compaction"]
        assert cursor["properties"] == {"CompactedTopicLedger": ledger["ledgerId"]}
        assert cursor["markDeletePosition"] == internal["lastConfirmedEntry"]
        metrics = (await cluster.expect(200, "GET", "/metrics")).body.decode()
        labels = f'{{cluster="standalone",namespace="public/ns",topic="{FULL}/t"}}'
        assert f"pulsar_compaction_removed_event_count{labels} 3" in metrics
        assert f"pulsar_compaction_succeed_count{labels} 1" in metrics
        assert f"pulsar_compaction_compacted_entries_count{labels} 1" in metrics


async def test_the_subscription_of_compaction_takes_the_compacted_ledger_along_when_it_is_deleted() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t")
        await cluster.expect(405, "PUT", f"{P}/t/subscription/__compaction", "latest")
        await publish(cluster, "t", ("a", b"1"), ("a", b"2"))
        await cluster.expect(204, "PUT", f"{P}/t/compaction")
        await compacted(cluster, "t")
        await cluster.expect(204, "DELETE", f"{P}/t/subscription/__compaction")
        internal = (await cluster.expect(200, "GET", f"{P}/t/internalStats")).json
        assert (internal["compactedLedger"]["ledgerId"], internal["cursors"]) == (-1, {})
        await cluster.expect(204, "PUT", f"{P}/t/compaction")
        assert await compacted(cluster, "t") == SUCCESS


async def test_a_namespace_has_a_threshold() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "GET", THRESHOLD)
        await cluster.expect(204, "PUT", THRESHOLD, 100)
        assert (await cluster.expect(200, "GET", THRESHOLD)).json == 100
        policies = (await cluster.expect(200, "GET", "/admin/v2/namespaces/public/ns")).json
        assert policies["compaction_threshold"] == 100
        assert "must be 0 or more" in (await cluster.expect(412, "PUT", THRESHOLD, -1)).reason
        await cluster.expect(400, "PUT", THRESHOLD, "many")
        await cluster.expect(204, "PUT", THRESHOLD, 0)
        assert (await cluster.expect(200, "GET", THRESHOLD)).json == 0
        await cluster.expect(204, "DELETE", THRESHOLD)
        await cluster.expect(204, "GET", THRESHOLD)
        missing = THRESHOLD.replace("/ns/", "/missing/")
        for method, body in (("GET", None), ("PUT", 1), ("DELETE", None)):
            await cluster.expect(404, method, missing, body)


async def test_topics_beyond_the_threshold_are_compacted_by_themselves() -> None:
    """The policy of the namespace wins over the configuration; nothing is trimmed before it is compacted."""
    async with rest_cluster(broker_service_compaction_threshold_in_bytes=1 << 30) as cluster:
        await cluster.create_namespace()
        registry = cluster.brokers[0].registry
        await cluster.expect(204, "PUT", f"{P}/t")
        assert "__compaction" in (await topic_of(cluster, "t")).subscriptions
        await publish(cluster, "t", *(("a", b"x" * 100) for _ in range(5)))
        assert await TopicUpkeep(registry).compact_due() == 0
        await cluster.expect(204, "PUT", THRESHOLD, 500)
        assert await TopicUpkeep(registry).compact_due() == 1
        assert await compacted(cluster, "t") == SUCCESS
        assert await TopicUpkeep(registry).compact_due() == 0
        await publish(cluster, "t", *(("a", b"x" * 100) for _ in range(5)))
        await cluster.expect(204, "PUT", THRESHOLD, 0)
        assert await TopicUpkeep(registry).compact_due() == 0
        await cluster.expect(204, "PUT", THRESHOLD, 500)
        assert await TopicUpkeep(registry).compact_due() == 1
