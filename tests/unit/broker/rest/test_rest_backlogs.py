"""Backlogs over REST: namespaces and bundles are cleared, topics truncated, backlogs counted."""

from typing import Any

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

NAMESPACE = "/admin/v2/namespaces/public/ns"
TOPICS = "/admin/v2/persistent/public/ns"
EARLIEST = {"ledgerId": -1, "entryId": -1}


async def filled(cluster: RestCluster, name: str, entries: int, *subscriptions: str) -> list[tuple[int, int]]:
    """Make a topic with so many entries and these subscriptions; return the positions."""
    for subscription in subscriptions:
        await cluster.expect(204, "PUT", f"{TOPICS}/{name}/subscription/{subscription}", EARLIEST)
    owner = await cluster.owner(f"persistent/public/ns/{name}")
    client = await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))
    await client.produce(f"persistent://public/ns/{name}")
    places = await client.send_all(entries)
    client.close()
    return places


async def backlogs(cluster: RestCluster, name: str) -> dict[str, int]:
    stats: Any = (await cluster.expect(200, "GET", f"{TOPICS}/{name}/stats")).json
    return {subscription: told["msgBacklog"] for subscription, told in stats["subscriptions"].items()}


async def test_all_topics_of_a_namespace_are_cleared_also_those_not_in_memory() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        names = [f"t{index}" for index in range(5)]
        for name in names:
            await filled(cluster, name, 2, "a", "b%2Fb")
            await cluster.expect(204, "PUT", f"{TOPICS}/{name}/unload")
        await cluster.expect(204, "POST", f"{NAMESPACE}/clearBacklog/b%2Fb")
        assert [await backlogs(cluster, name) for name in names] == [{"a": 2, "b/b": 0}] * 5
        await cluster.expect(204, "POST", f"{NAMESPACE}/clearBacklog/nobody")
        for name in names:
            await cluster.expect(204, "PUT", f"{TOPICS}/{name}/unload")
        await cluster.expect(204, "POST", f"{NAMESPACE}/clearBacklog")
        for _ in range(2):
            assert [await backlogs(cluster, name) for name in names] == [{"a": 0, "b/b": 0}] * 5
            for name in names:
                await cluster.expect(204, "PUT", f"{TOPICS}/{name}/unload")


async def test_the_topics_of_one_bundle_are_cleared_by_its_owner() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        names = [f"t{index}" for index in range(6)]
        for name in names:
            await filled(cluster, name, 1, "a", "b")
        bundle = await cluster.expect(200, "GET", "/lookup/v2/topic/persistent/public/ns/t0/bundle")
        range_text = bundle.body.decode().strip('"')
        for at in cluster.brokers:
            await cluster.expect(204, "POST", f"{NAMESPACE}/{range_text}/clearBacklog/a", at=at)
        first, end = (int(bound, 16) for bound in range_text.split("_"))
        hashes = {name: TopicName.parse(f"persistent://public/ns/{name}").hash32 for name in names}
        within = {name for name in names if first <= hashes[name] < end}
        assert 0 < len(within) < 6
        for name in names:
            assert await backlogs(cluster, name) == {"a": 0 if name in within else 1, "b": 1}
        await cluster.expect(204, "POST", f"{NAMESPACE}/{range_text}/clearBacklog")
        for name in names:
            assert sum((await backlogs(cluster, name)).values()) == (0 if name in within else 2)


async def test_what_cannot_be_cleared_is_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(404, "POST", "/admin/v2/namespaces/public/missing/clearBacklog")
        await cluster.expect(412, "POST", f"{NAMESPACE}/0x00000000_0x00000001/clearBacklog")
        assert "reserved" in (await cluster.expect(405, "POST", f"{NAMESPACE}/clearBacklog/__compaction")).reason
        await cluster.expect(204, "POST", f"{NAMESPACE}/clearBacklog")
        assert await cluster.store.children("/managed-ledgers") == []  # no topic was made


async def test_a_truncated_topic_has_its_last_ledger_only() -> None:
    async with rest_cluster(managed_ledger_max_entries_per_ledger=3, broker_deduplication_enabled=True) as cluster:
        await cluster.create_namespace()
        places: list[tuple[int, int]] = []
        await cluster.expect(204, "PUT", f"{TOPICS}/t/subscription/a", EARLIEST)
        topic = cluster.brokers[0].registry
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce("persistent://public/ns/t")
        loaded: Any = topic.get_loaded(TopicName.parse("persistent://public/ns/t"))
        for number in range(8):
            places += await client.send_all(1, first=number)
            await loaded.ledger.settled()
        assert len(loaded.ledger.stats.ledgers) == 3
        await cluster.expect(204, "DELETE", f"{TOPICS}/t/truncate")
        await loaded.ledger.settled()
        assert [ledger.ledger_id for ledger in loaded.ledger.stats.ledgers] == [places[-1][0]]
        assert await backlogs(cluster, "t") == {"a": 0}
        client.send(7, b"7")  # sent before, and still known
        receipt = await client.expect(api.BaseCommand.SEND_RECEIPT)
        assert receipt.message_id.ledgerId == 2**64 - 1
        client.close()
        await cluster.expect(404, "DELETE", f"{TOPICS}/x/truncate")
        other = TOPICS.replace("/persistent", "/non-persistent")
        assert "not supported" in (await cluster.expect(412, "DELETE", f"{other}/t/truncate")).reason
        await cluster.expect(204, "PUT", f"{TOPICS}/many/partitions", 2)
        await filled(cluster, "many-partition-1", 2, "a")
        await cluster.expect(204, "DELETE", f"{TOPICS}/many/truncate")
        assert await backlogs(cluster, "many-partition-1") == {"a": 0}


async def test_a_backlog_is_counted_exactly() -> None:
    async with rest_cluster(managed_ledger_max_entries_per_ledger=3) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{TOPICS}/t/subscription/a", EARLIEST)
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce("persistent://public/ns/t")
        loaded: Any = cluster.brokers[0].registry.get_loaded(TopicName.parse("persistent://public/ns/t"))
        where = f"{TOPICS}/t/subscription/a/analyzeBacklog"
        empty = (await cluster.expect(200, "POST", where)).json
        assert (empty["entries"], "firstMessageId" in empty) == (0, False)
        places = []
        for number, batch in enumerate([1, 5, 2, 7, 3, 1, 9, 4]):
            client.send(number, batch=batch)
            told = (await client.expect(api.BaseCommand.SEND_RECEIPT)).message_id
            places.append((told.ledgerId, told.entryId))
            await loaded.ledger.settled()
        await client.subscribe("persistent://public/ns/t", "a", sub_type=api.CommandSubscribe.Shared)
        acked = [api.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in (places[0], places[3])]
        client.write(client_commands.ack(1, acked))
        await client.settled()
        client.close()
        await cluster.expect(204, "PUT", f"{TOPICS}/t/unload")  # no columns are in memory now

        async def counted(body: Any = None) -> tuple[int, int, str, str]:
            found = (await cluster.expect(200, "POST", where, body)).json
            assert found["filterAcceptedEntries"] == found["entries"]
            return found["entries"], found["messages"], found["firstMessageId"], found["lastMessageId"]

        texts = [f"{ledger}:{entry}" for ledger, entry in places]
        assert await counted() == (6, 24, texts[1], texts[7])
        assert await counted({"ledgerId": places[3][0], "entryId": places[3][1]}) == (4, 17, texts[4], texts[7])
        await cluster.expect(404, "POST", f"{TOPICS}/t/subscription/b/analyzeBacklog")


async def test_the_age_of_a_backlog_is_shown() -> None:
    """Exactly if that is requested, otherwise as far as it is known without reading a ledger."""
    async with rest_cluster(managed_ledger_max_entries_per_ledger=2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{TOPICS}/t/partitions", 1)
        path = f"{TOPICS}/t-partition-0"
        for name in ("slow", "quick"):
            await cluster.expect(204, "PUT", f"{TOPICS}/t/subscription/{name}", EARLIEST)
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce("persistent://public/ns/t-partition-0")
        registry = cluster.brokers[0].registry
        loaded: Any = registry.get_loaded(TopicName.parse("persistent://public/ns/t-partition-0"))
        now_ms = registry.clock.now_ms()
        published = [now_ms - age * 1000 for age in (9_000, 7_000, 5_000)]

        async def shown(at: str = f"{path}/stats", **query: str) -> tuple[int, str | None, int, list[int]]:
            stats: Any = (await cluster.expect(200, "GET", at, **query)).json
            return (
                stats["oldestBacklogMessageAgeSeconds"],
                stats["oldestBacklogMessageSubscriptionName"],
                stats["earliestMsgPublishTimeInBacklogs"],
                [stats["subscriptions"][name]["earliestMsgPublishTimeInBacklog"] for name in ("slow", "quick")],
            )

        assert await shown(getEarliestTimeInBacklog="true") == (-1, None, 0, [0, 0])
        for number, time_ms in enumerate(published):
            client.send(number, publish_time=time_ms)
            await client.expect(api.BaseCommand.SEND_RECEIPT)
            await loaded.ledger.settled()
        client.close()
        await cluster.expect(204, "POST", f"{path}/subscription/quick/skip/2")
        age, name, *unasked = await shown()
        assert (age // 100, name, unasked) == (90, "slow", [0, [0, 0]])
        times = [published[0], [published[0], published[2]]]
        for at in (f"{path}/stats", f"{TOPICS}/t/partitioned-stats"):
            assert list(await shown(at, getEarliestTimeInBacklog="true"))[2:] == times
        await cluster.expect(204, "PUT", f"{path}/unload")
        age, *_ = await shown()
        assert age // 100 == 70  # of the newest message of the ledger, whose columns are not in memory
        assert "pulsar_storage_backlog_age_seconds" in (await cluster.expect(200, "GET", "/metrics")).body.decode()
        await shown(getEarliestTimeInBacklog="true")
        age, *_ = await shown()
        assert age // 100 == 90


async def test_a_subscription_is_deleted_on_all_topics_of_a_namespace_unless_it_is_used() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        for name in ("t0", "t1", "t2"):
            await filled(cluster, name, 1, "a", "b")
        await cluster.expect(204, "POST", f"{NAMESPACE}/unsubscribe/a")
        assert [await backlogs(cluster, name) for name in ("t0", "t1", "t2")] == [{"b": 1}] * 3
        await cluster.expect(204, "POST", f"{NAMESPACE}/unsubscribe/a")
        owner = await cluster.owner("persistent/public/ns/t1")
        client = await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))
        await client.subscribe("persistent://public/ns/t1", "b")
        await cluster.expect(412, "POST", f"{NAMESPACE}/unsubscribe/b")
        assert "b" in await backlogs(cluster, "t1")
        client.close()
        await cluster.expect(405, "POST", f"{NAMESPACE}/unsubscribe/__compaction")
        await cluster.expect(404, "POST", "/admin/v2/namespaces/public/missing/unsubscribe/a")


async def test_the_replicated_flag_and_trimming_are_answered_for_topics_and_partitions() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{TOPICS}/parted/partitions", 2)
        await cluster.expect(204, "PUT", f"{TOPICS}/parted/subscription/a")
        path = f"{TOPICS}/parted/subscription/a/replicatedSubscriptionStatus"
        await cluster.expect(204, "POST", path, True)
        names = [f"persistent://public/ns/parted-partition-{index}" for index in range(2)]
        assert (await cluster.expect(200, "GET", path)).json == dict.fromkeys(names, False)
        await cluster.expect(400, "POST", path)
        await cluster.expect(404, "GET", f"{TOPICS}/parted/subscription/none/replicatedSubscriptionStatus")
        await cluster.expect(204, "POST", f"{TOPICS}/parted/trim")
        await cluster.expect(405, "POST", "/admin/v2/non-persistent/public/ns/n/trim")
        refused = await cluster.expect(412, "GET", f"{TOPICS}/parted/getMessageIdByIndex", index="0")
        assert "no index" in refused.reason
