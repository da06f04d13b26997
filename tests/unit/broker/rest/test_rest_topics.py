"""Topics over REST: lists, creation, partitions, stats, subscriptions, deletion."""

from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

P = "/admin/v2/persistent/public/ns"
NP = "/admin/v2/non-persistent/public/ns"
FULL = "persistent://public/ns"


async def names(cluster: RestCluster, path: str, **query: str) -> list[str]:
    found: list[str] = (await cluster.expect(200, "GET", path, **query)).json
    return found


async def test_topics_are_created_listed_and_deleted_from_any_broker() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        for index, broker in enumerate(cluster.brokers * 2):
            await cluster.expect(204, "PUT", f"{P}/t{index}", at=broker)
        assert await names(cluster, P) == [f"{FULL}/t{index}" for index in range(6)]
        assert "already exists" in (await cluster.expect(409, "PUT", f"{P}/t0")).reason
        bundle = (await cluster.expect(200, "GET", "/lookup/v2/topic/persistent/public/ns/t0/bundle")).body.decode()
        assert f"{FULL}/t0" in await names(cluster, P, bundle=bundle)
        assert len(await names(cluster, P, bundle=bundle)) < 6
        for broker in cluster.brokers:
            await cluster.expect(204, "DELETE", f"{P}/t{cluster.brokers.index(broker)}", at=broker)
        assert await names(cluster, P) == [f"{FULL}/t{index}" for index in range(3, 6)]
        await cluster.expect(404, "DELETE", f"{P}/t0")
        await cluster.expect(404, "GET", f"{P}/t0/stats")


async def test_names_in_paths_are_form_encoded() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        for encoded in ("a+b", "%C3%BC", "a%2Bb", "a%3Fb%26c", "%7Bx%7D"):
            await cluster.expect(204, "PUT", f"{P}/{encoded}")
            await cluster.expect(200, "GET", f"{P}/{encoded}/stats", at=cluster.brokers[1])
        assert await names(cluster, P) == sorted(f"{FULL}/{name}" for name in ("a b", "ü", "a+b", "a?b&c", "{x}"))
        await cluster.expect(412, "PUT", f"{P}/a%2Fb")


async def test_what_makes_no_topic_is_refused() -> None:
    async with rest_cluster(max_topics_per_namespace=2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(404, "PUT", "/admin/v2/persistent/public/missing/t")
        await cluster.expect(404, "GET", "/admin/v2/persistent/public/missing")
        assert "partition suffix" in (await cluster.expect(412, "PUT", f"{P}/t-partition-0")).reason
        await cluster.expect(204, "PUT", f"{P}/t0")
        await cluster.expect(412, "PUT", f"{P}/parts/partitions", 2)
        await cluster.expect(204, "PUT", f"{P}/t1")
        assert "maximum number of topics" in (await cluster.expect(412, "PUT", f"{P}/t2")).reason


async def test_a_partitioned_topic_has_its_partitions_on_their_owners() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        await cluster.expect(404, "GET", f"{P}/x/partitions")
        await cluster.expect(204, "PUT", f"{P}/x/partitions", {"partitions": 3, "properties": {"a": "b"}})
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions", at=cluster.brokers[2])).json == {
            "partitions": 3,
            "deleted": False,
            "properties": {"a": "b"},
        }
        assert await names(cluster, P) == [f"{FULL}/x-partition-{index}" for index in range(3)]
        assert await names(cluster, f"{P}/partitioned") == [f"{FULL}/x"]
        await cluster.expect(409, "PUT", f"{P}/x/partitions", 3)
        await cluster.expect(409, "PUT", f"{P}/x")
        refused = await cluster.expect(409, "DELETE", f"{P}/x")
        assert refused.reason.endswith(f"barycenter admin topics delete-partitioned-topic {FULL}/x")
        await cluster.expect(204, "PUT", f"{P}/x-partition-0/subscription/s")
        await cluster.expect(406, "POST", f"{P}/x/partitions", 3)
        await cluster.expect(204, "POST", f"{P}/x/partitions", 5)
        assert len(await names(cluster, P)) == 5
        for index in (0, 3, 4):
            assert await names(cluster, f"{P}/x-partition-{index}/subscriptions") == ["s"]
        assert await names(cluster, f"{P}/x/subscriptions") == ["s"]
        await cluster.expect(412, "PUT", f"{P}/x-partition-9")
        await cluster.expect(204, "PUT", f"{P}/x/unload")
        owner = await cluster.owner("persistent/public/ns/x-partition-4")
        client = await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))
        await client.subscribe(f"{FULL}/x-partition-4")
        refused = await cluster.expect(412, "DELETE", f"{P}/x/partitions")
        assert refused.reason.endswith("or force the deletion.")
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json["deleted"] is False
        await cluster.expect(204, "DELETE", f"{P}/x/partitions", force="true")
        client.close()
        assert await names(cluster, P) == []
        await cluster.expect(404, "DELETE", f"{P}/x/partitions")


async def test_numbers_of_partitions_are_held_to_the_limit() -> None:
    async with rest_cluster(max_num_partitions_per_partitioned_topic=4) as cluster:
        await cluster.create_namespace()
        for count in (0, -1, 5):
            await cluster.expect(406, "PUT", f"{P}/x/partitions", count)
        await cluster.expect(406, "PUT", f"{P}/x/partitions")
        await cluster.expect(400, "PUT", f"{P}/x/partitions", "four")
        await cluster.expect(412, "PUT", f"{P}/x-partition-1/partitions", 2)
        await cluster.expect(204, "PUT", f"{P}/t")
        await cluster.expect(409, "PUT", f"{P}/t/partitions", 2)
        await cluster.expect(409, "POST", f"{P}/t/partitions", 2)
        await cluster.expect(404, "POST", f"{P}/nothing/partitions", 2)
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 2)
        await cluster.expect(406, "POST", f"{P}/x/partitions", 5)


async def test_a_number_of_partitions_in_quotes_counts_as_a_number() -> None:
    """Pulsar's REST reads it so, and clients send it: the tests of Pulsar's Rust client do."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/x/partitions", "3")
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json["partitions"] == 3
        await cluster.expect(204, "POST", f"{P}/x/partitions", "4")
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json["partitions"] == 4
        for wrong in ("", "3.5", "0x3", "9" * 30, "null"):
            await cluster.expect(400, "PUT", f"{P}/y/partitions", wrong)


async def test_partitions_that_are_missing_are_made_up_for() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 3)
        await cluster.expect(204, "DELETE", f"{P}/x-partition-1")
        assert len(await names(cluster, P)) == 2
        await cluster.expect(204, "POST", f"{P}/x/createMissedPartitions")
        assert len(await names(cluster, P)) == 3
        await cluster.expect(404, "POST", f"{P}/nothing/createMissedPartitions")


async def test_partitions_come_into_being_by_use_if_so_configured() -> None:
    async with rest_cluster(allow_auto_topic_creation_type="partitioned", default_num_partitions=3) as cluster:
        await cluster.create_namespace()
        path = f"{P}/x/partitions"
        await cluster.expect(404, "GET", path)
        assert (await cluster.expect(200, "GET", path, checkAllowAutoCreation="true")).json["partitions"] == 3
        assert (await cluster.expect(200, "GET", path)).json["partitions"] == 3


async def test_a_topic_without_partitions_has_none() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions", checkAllowAutoCreation="true")).json == {
            "partitions": 0,
            "deleted": False,
            "properties": {},
        }
        await cluster.expect(404, "GET", "/admin/v2/persistent/public/missing/x/partitions")


async def test_subscriptions_are_created_listed_and_deleted() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t")
        for name, body in (
            ("end", None),
            ("first", {"ledgerId": -1, "entryId": -1}),
            ("latest", {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}),
            ("a+b%2Fc", "earliest"),
        ):
            await cluster.expect(204, "PUT", f"{P}/t/subscription/{name}", body, at=cluster.brokers[1])
        assert await names(cluster, f"{P}/t/subscriptions") == ["a b/c", "end", "first", "latest"]
        assert "already exists" in (await cluster.expect(409, "PUT", f"{P}/t/subscription/end")).reason
        await cluster.expect(400, "PUT", f"{P}/t/subscription/other", "middle")
        await cluster.expect(204, "DELETE", f"{P}/t/subscription/a+b%2Fc")
        await cluster.expect(404, "DELETE", f"{P}/t/subscription/a+b%2Fc")
        await cluster.expect(405, "PUT", f"{NP}/t/subscription/s")
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 2)
        await cluster.expect(204, "PUT", f"{P}/x/subscription/s", "earliest")
        assert await names(cluster, f"{P}/x-partition-1/subscriptions") == ["s"]
        await cluster.expect(204, "DELETE", f"{P}/x/subscription/s")
        assert await names(cluster, f"{P}/x/subscriptions") == []


async def test_figures_of_a_topic_and_of_its_storage_are_shown() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t", {"colour": "blue"})
        await cluster.expect(204, "PUT", f"{P}/t/subscription/s")
        owner = await cluster.owner("persistent/public/ns/t")
        for broker in cluster.brokers:
            stats = (await cluster.expect(200, "GET", f"{P}/t/stats", at=broker, excludeConsumers="true")).json
            assert stats["ownerBroker"] == owner.broker_id
            assert stats["subscriptions"]["s"]["msgBacklog"] == 0
            internal = (await cluster.expect(200, "GET", f"{P}/t/internalStats", at=broker)).json
            assert list(internal["cursors"]) == ["s"]
            assert internal["properties"] == {"colour": "blue"}
            info = (await cluster.expect(200, "GET", f"{P}/t/internal-info", at=broker)).json
            assert list(info["cursors"]) == ["s"]
            assert info["properties"] == {"colour": "blue"}
        await cluster.expect(204, "PUT", f"{P}/t/unload")
        await cluster.expect(404, "PUT", f"{P}/nothing/unload")


async def test_figures_of_partitions_are_summed() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 3)
        await cluster.expect(204, "PUT", f"{P}/x/subscription/s")
        await cluster.expect(404, "GET", f"{P}/x/stats")
        await cluster.expect(404, "GET", f"{P}/nothing/partitioned-stats")
        total = (await cluster.expect(200, "GET", f"{P}/x/partitioned-stats")).json
        assert total["metadata"]["partitions"] == 3
        assert sorted(total["partitions"]) == [f"{FULL}/x-partition-{index}" for index in range(3)]
        assert list(total["subscriptions"]) == ["s"]
        assert (await cluster.expect(200, "GET", f"{P}/x/partitioned-stats", perPartition="false")).json[
            "partitions"
        ] == {}
        internal = (await cluster.expect(200, "GET", f"{P}/x/partitioned-internalStats")).json
        assert len(internal["partitions"]) == 3


async def test_non_persistent_topics_are_those_in_memory_of_their_owners() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        for index in range(5):
            await cluster.expect(204, "PUT", f"{NP}/t{index}")
        assert await names(cluster, NP) == [f"non-persistent://public/ns/t{index}" for index in range(5)]
        assert await names(cluster, P) == []
        stats = (await cluster.expect(200, "GET", f"{NP}/t1/stats")).json
        assert stats["storageSize"] == 0
        await cluster.expect(404, "GET", f"{NP}/nothing/stats")
        await cluster.expect(405, "GET", f"{NP}/t1/internalStats")
        await cluster.expect(204, "PUT", f"{NP}/x/partitions", 2)
        assert await names(cluster, f"{NP}/partitioned") == ["non-persistent://public/ns/x"]
        await cluster.expect(204, "DELETE", f"{NP}/t1")
        await cluster.expect(204, "DELETE", f"{NP}/x/partitions")


async def test_topics_of_a_namespace_are_listed_by_mode() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for path in (f"{P}/t", f"{NP}/t", f"{P}/__change_events"):
            await cluster.expect(204, "PUT", path)
        root = "/admin/v2/namespaces/public/ns/topics"
        assert await names(cluster, root) == [f"{FULL}/t"]
        assert await names(cluster, root, mode="NON_PERSISTENT") == ["non-persistent://public/ns/t"]
        assert len(await names(cluster, root, mode="ALL")) == 2
        assert await names(cluster, root, includeSystemTopic="true") == [f"{FULL}/__change_events", f"{FULL}/t"]
        assert await names(cluster, P, includeSystemTopic="true") == [f"{FULL}/__change_events", f"{FULL}/t"]
        await cluster.expect(400, "GET", root, mode="SOME")
