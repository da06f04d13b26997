"""No HTTP input harms a broker: numbers, texts, bodies and names have bounds, refusals have reasons."""

import asyncio
import gzip
import io

import msgspec
import pytest
from aiohttp import ClientSession

from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.naming.namespace import MAX_ENTITY_NAME
from pulsar_barycenter.naming.topic import MAX_LOCAL_NAME_BYTES, MAX_PARTITIONS, TopicName
from support.rest_cluster import RestCluster, rest_cluster

P = "/admin/v2/persistent/public/ns"
NS = "/admin/v2/namespaces/public"


# ---- numbers ----


@pytest.mark.parametrize("count", [MAX_PARTITIONS + 1, 2**31 - 1, 2**63, 2**64, 10**400], ids=int.bit_length)
async def test_more_partitions_than_a_topic_can_have_are_refused_and_not_stored(count: int) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        body = str(count).encode()
        refused = await cluster.call("PUT", f"{P}/x/partitions", body)
        assert refused.status in (400, 406), refused.body
        assert refused.reason
        refused = await cluster.call("PUT", f"{P}/x/partitions", b'{"partitions":%s}' % body)
        assert refused.status in (400, 406), refused.body
        await cluster.expect(404, "GET", f"{P}/x/partitions")
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 1)
        assert (await cluster.call("POST", f"{P}/x/partitions", body)).status in (400, 406)
        assert (await cluster.expect(200, "GET", f"{P}/x/partitions")).json["partitions"] == 1


async def test_the_configured_number_of_partitions_is_the_limit_where_it_is_lower() -> None:
    async with rest_cluster(max_num_partitions_per_partitioned_topic=3) as cluster:
        await cluster.create_namespace()
        assert "less than or equal to 3" in (await cluster.expect(406, "PUT", f"{P}/x/partitions", 4)).reason
        await cluster.expect(204, "PUT", f"{P}/x/partitions", 3)


@pytest.mark.parametrize("stored", [2**31 - 1, 2**62, -5])
async def test_a_stored_number_of_partitions_that_cannot_be_hurts_nobody(stored: int) -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        topic = TopicName.parse("persistent://public/ns/x")
        resources = cluster.brokers[0].resources
        await resources.partitioned_topics.create(topic.persistence_name, PartitionedTopicMetadata(stored))
        for broker in cluster.brokers:
            async with asyncio.timeout(30):
                while (shown := await cluster.call("GET", f"{P}/x/partitions", at=broker)).status == 404:
                    await asyncio.sleep(0.005)
            assert 0 <= shown.json["partitions"] <= MAX_PARTITIONS
            if stored > 0:
                assert await broker.lookup.partitions(topic, auto_create=False) == shown.json["partitions"]


async def test_a_namespace_has_so_many_bundles_at_most() -> None:
    async with rest_cluster() as cluster:
        for count in (2**31, 2**63, -1):
            refused = await cluster.call("PUT", f"{NS}/many", b'{"bundles":{"numBundles":%d}}' % count)
            assert refused.status in (400, 412), refused.body
        edges = [f"0x{edge:08x}" for edge in range(0, 2**32, 2**17)]
        boundaries = msgspec.json.encode({"bundles": {"boundaries": [*edges, "0xffffffff"]}})
        assert (await cluster.call("PUT", f"{NS}/many", boundaries)).status in (400, 413)
        await cluster.expect(404, "GET", f"{NS}/many")


@pytest.mark.parametrize("limit", ["9" * 5_000, "-1", "1.5", "²"])
async def test_a_number_of_the_query_is_a_small_whole_number(limit: str) -> None:
    async with rest_cluster() as cluster:
        shown = await cluster.expect(400, "GET", "/barycenter/v1/decisions", limit=limit)
        assert "limit" in shown.reason
        assert len(shown.reason) < 500
        await cluster.expect(400, "POST", "/admin/v2/brokers/shutdown", maxConcurrentUnloadPerSec=limit)


async def test_partitions_by_use_are_bounded_wherever_their_number_comes_from() -> None:
    async with rest_cluster() as cluster:
        policies = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2**31 - 1}
        refused = await cluster.expect(406, "PUT", f"{NS}/ns", {"autoTopicCreationOverride": policies})
        assert "defaultNumPartitions" in refused.reason
        path = "/admin/v2/brokers/configuration/defaultNumPartitions"
        await cluster.expect(412, "POST", f"{path}/{2**31 - 1}")


async def test_a_parameter_that_cannot_be_is_refused() -> None:
    async with rest_cluster() as cluster:
        for path in ("/admin/v2/namespaces/standalone/antiAffinity/g?tenant=", "/admin/v2/brokers/health?brokerId="):
            for value in ("%00", "a%00b", "x" * 5_000):
                await cluster.expect(400, "GET", path + value)


# ---- names ----


NAMED = [
    "/admin/v2/tenants/{}",
    "/admin/v2/namespaces/{}",
    "/admin/v2/namespaces/public/{}",
    "/admin/v2/namespaces/{}/ns/topics",
    "/admin/v2/clusters/{}",
    "/admin/v2/clusters/standalone/failureDomains/{}",
    "/admin/v2/clusters/standalone/namespaceIsolationPolicies/{}",
    "/admin/v2/brokers/{}",
    "/admin/v2/brokers/standalone/{}/ownedNamespaces",
    "/admin/v2/persistent/public/{}",
    "/admin/v2/persistent/public/ns/{}/stats",
    "/admin/v2/persistent/public/ns/{}/partitions",
    "/admin/v2/persistent/public/ns/{}/subscriptions",
    "/lookup/v2/topic/persistent/public/ns/{}",
    "/lookup/v2/topic/persistent/public/{}/x",
]


async def test_a_name_that_cannot_be_is_refused_with_a_reason() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for path in NAMED:
            for name in ("%00", "a%00b", "a%2fb", "%2e%2e", "%ff", "a%0ab", "x" * 3_000, "x" * 2_000_000):
                answer = await cluster.call("GET", path.format(name))
                if name == "a%0ab" and path.endswith("ns/{}"):
                    continue  # a topic of such a name there may be
                assert 400 <= answer.status < 500, f"{path} {name[:20]}: {answer.status} {answer.body[:200]!r}"
            assert (await cluster.call("GET", path.format("a%00b"))).reason


async def test_what_is_created_has_a_name_of_bounded_length() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        longest = "x" * MAX_ENTITY_NAME
        await cluster.expect(204, "PUT", f"{NS}/{longest}", {})
        refused = await cluster.expect(412, "PUT", f"{NS}/{longest}x", {})
        assert str(MAX_ENTITY_NAME) in refused.reason
        await cluster.expect(412, "PUT", f"/admin/v2/tenants/{longest}x", {"allowedClusters": ["standalone"]})
        await cluster.expect(412, "PUT", f"/admin/v2/clusters/{longest}x", {"serviceUrl": "http://x:1"})
        topic = "x" * MAX_LOCAL_NAME_BYTES
        await cluster.expect(204, "PUT", f"{P}/{topic}/partitions", 1)
        await cluster.expect(200, "GET", f"{P}/{topic}-partition-0/stats")
        refused = await cluster.expect(412, "PUT", f"{P}/{topic}x")
        assert str(MAX_LOCAL_NAME_BYTES) in refused.reason
        await cluster.expect(204, "PUT", f"{P}/t")
        subscription = f"{P}/t/subscription"
        await cluster.expect(204, "PUT", f"{subscription}/{'s' * MAX_LOCAL_NAME_BYTES}")
        await cluster.expect(412, "PUT", f"{subscription}/{'s' * (MAX_LOCAL_NAME_BYTES + 1)}")
        await cluster.expect(412, "PUT", f"{subscription}/a%00b")


async def test_roles_and_other_texts_of_a_body_are_bounded() -> None:
    async with rest_cluster() as cluster:
        for info in (
            {"adminRoles": ["r" * 100_000], "allowedClusters": ["standalone"]},
            {"adminRoles": [f"r{n}" for n in range(200_000)], "allowedClusters": ["standalone"]},
        ):
            refused = await cluster.call("PUT", "/admin/v2/tenants/t", msgspec.json.encode(info))
            assert refused.status in (400, 413)
            assert len(refused.reason) < 500
        await cluster.create_namespace()
        await cluster.expect(400, "PUT", f"{P}/t", {"key": "v" * 100_000})
        await cluster.expect(400, "POST", f"{NS}/ns/antiAffinity", b"g" * 100_000)


# ---- bodies ----


async def raw(cluster: RestCluster, method: str, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    url = f"{cluster.brokers[0].urls.web_url}{path}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with ClientSession() as session, session.request(method, url, data=io.BytesIO(body), headers=named) as answer:
        return answer.status, await answer.read()


TAKES_BODY = [
    ("PUT", "/admin/v2/tenants/t"),
    ("PUT", f"{NS}/other"),
    ("PUT", f"{P}/x"),
    ("PUT", f"{P}/x/partitions"),
    ("POST", f"{P}/x/partitions"),
    ("PUT", f"{P}/x/subscription/s"),
    ("POST", f"{NS}/ns/antiAffinity"),
    ("PUT", f"{NS}/ns/0x00000000_0x40000000/split"),
    ("PUT", "/admin/v2/clusters/other"),
    ("POST", "/admin/v2/clusters/standalone/peers"),
    ("POST", "/admin/v2/clusters/standalone/failureDomains/d"),
    ("POST", "/admin/v2/clusters/standalone/namespaceIsolationPolicies/p"),
]


async def test_a_body_that_cannot_be_read_is_refused_with_a_reason() -> None:
    bodies: list[tuple[bytes, dict[str, str]]] = [
        (b"[" * 100_000, {}),
        (b'{"a":' * 50_000, {}),
        (b"\xff\xfe\x00", {}),
        (b'"\xff"', {}),
        (b"not gzip", {"Content_Encoding": "gzip"}),
        (gzip.compress(b"[1")[:-4] + b"....", {"Content_Encoding": "gzip"}),
        (gzip.compress(b" " * (64 << 20)), {"Content_Encoding": "gzip"}),
        (b" " * (5 << 20) + b"1", {}),
    ]
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for method, path in TAKES_BODY:
            for body, headers in bodies:
                status, answer = await raw(cluster, method, path, body, **headers)
                assert 400 <= status < 500, f"{path} {body[:20]!r} {headers}: {status} {answer[:300]!r}"
                assert len(msgspec.json.decode(answer)["reason"]) < 1_010


async def test_an_unknown_charset_is_no_fault_of_the_broker() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        status, _ = await raw(
            cluster, "POST", f"{NS}/ns/antiAffinity", b"group", Content_Type="text/plain; charset=no-such"
        )
        assert status < 500
