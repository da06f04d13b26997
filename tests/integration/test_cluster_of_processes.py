"""A cluster of real broker processes, driven by the stock client and over HTTP."""

import asyncio
import signal
from pathlib import Path

import pytest

from barycenter.naming.bundles import NamespaceBundles
from barycenter.naming.namespace import NamespaceName
from barycenter.naming.topic import TopicName
from barycenter.standalone.cluster import StandaloneCluster
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import Admin, eventually, lookup_path, running_cluster
from support.serving_intervals import conflicts, read_terms
from support.wire_lookup import lookup_over_wire

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

SESSION_S = 3.0
FAIL_OVER_SLACK_S = 2.0


async def test_all_brokers_agree_on_300_topics_over_http_and_wire_and_follow_the_crc_rule(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as (cluster, admin):
        await admin.create_namespace("public/lookups", 8)
        namespace = NamespaceName.parse("public/lookups")
        by_rule = NamespaceBundles.equal(namespace, 8)
        owners: dict[str, set[str]] = {}
        for number in range(300):
            topic = f"persistent://public/lookups/topic-{number}"
            expected = by_rule.find(TopicName.parse(topic)).range
            for broker in range(3):
                assert await admin.bundle_range(topic, broker=broker) == str(expected)
                over_http = (await admin.owner(topic, broker=broker)).service_url
                over_wire = await lookup_over_wire(cluster.brokers[broker].service_url, topic)
                owners.setdefault(str(expected), set()).update({over_http, over_wire})
        assert {bundle: len(urls) for bundle, urls in owners.items()} == dict.fromkeys(owners, 1)
        assert len(owners) == 8


async def test_64_first_lookups_of_one_bundle_at_once_give_one_owner(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as (cluster, admin):
        await admin.create_namespace("public/race", 1)
        topic = "persistent://public/race/first"
        answers = await asyncio.gather(
            *(lookup_over_wire(cluster.brokers[number % 3].service_url, topic) for number in range(32)),
            *(admin.expect(200, "GET", lookup_path(topic), broker=number % 3) for number in range(32)),
        )
        urls = {answer if isinstance(answer, str) else answer["brokerUrl"] for answer in answers}
        assert len(urls) == 1


async def unload_elsewhere(cluster: StandaloneCluster, admin: Admin, topic: str) -> None:
    """Unload the topic's bundle to the next broker and wait until it is served there."""
    owner = await admin.owner(topic)
    target = cluster.brokers[(owner.index + 1) % len(cluster.brokers)]
    bundle = await admin.bundle_range(topic)
    namespace = TopicName.parse(topic).namespace
    path = f"/admin/v2/namespaces/{namespace}/{bundle}/unload?destinationBroker={target.broker_id}"
    await admin.expect(204, "PUT", path)

    async def moved() -> bool:
        return (await admin.owner(topic)).index == target.index

    await eventually(moved, within_s=10, what=f"{topic} served by {target.name}")


async def test_nothing_is_lost_and_order_is_kept_through_unloads_a_split_a_crash_and_a_pause(tmp_path: Path) -> None:
    """50,000 numbers while the bundle is unloaded ten times and split once; then the owner is killed; then the
    next owner is stopped for twice the session time and continued. No term of the bundle acknowledges while
    another does."""
    topic = "persistent://public/numbers/sequence"
    total = 50_000
    async with running_cluster(tmp_path) as (cluster, admin):
        await admin.create_namespace("public/numbers", 1)
        client = await asyncio.to_thread(stock_client, cluster.service_url)
        await asyncio.to_thread(subscribe_before_sending, client, topic)
        producer = await asyncio.to_thread(NumberedProducer, client, topic)
        sending = asyncio.create_task(asyncio.to_thread(producer.send, total, pause_s=0.0001))
        for turn in range(10):
            await asyncio.to_thread(producer.wait_acknowledged, turn * total // 12 + 1, within_s=30)
            await unload_elsewhere(cluster, admin, topic)
            if turn == 4:
                bundle = await admin.bundle_range(topic)
                await admin.expect(204, "PUT", f"/admin/v2/namespaces/public/numbers/{bundle}/split")
        await sending
        await asyncio.to_thread(producer.wait_acknowledged, total, within_s=60)
        assert producer.failures == []
        assert await admin.bundle_range(topic) != "0x00000000_0xffffffff"

        owner = await admin.owner(topic)
        more = asyncio.create_task(asyncio.to_thread(producer.send, 2_000, pause_s=0.001))
        await asyncio.to_thread(producer.wait_acknowledged, total + 200, within_s=30)
        await cluster.kill_broker(owner)
        await more
        await asyncio.to_thread(producer.wait_acknowledged, total + 2_000, within_s=30)

        survivor = next(broker for broker in cluster.brokers if broker.is_running)
        owner = await admin.owner(topic, broker=survivor.index)
        more = asyncio.create_task(asyncio.to_thread(producer.send, 4_000, pause_s=0.002))
        await asyncio.to_thread(producer.wait_acknowledged, total + 2_200, within_s=30)
        owner.signal(signal.SIGSTOP)
        await asyncio.sleep(2 * SESSION_S)
        owner.signal(signal.SIGCONT)
        await more
        await asyncio.to_thread(producer.wait_acknowledged, total + 6_000, within_s=60)
        assert producer.failures == []

        arrived = await asyncio.to_thread(receive_all, client, topic, total + 6_000)
        assert arrived == list(range(total + 6_000))
        await asyncio.to_thread(client.close)
        logs = [broker.log for broker in cluster.brokers]

    terms = [term for term in read_terms(logs) if str(term.bundle.namespace) == "public/numbers"]
    assert len([term for term in terms if term.first_acknowledged_ms is not None]) >= 8
    assert conflicts(terms) == []


async def test_after_a_kill_all_topics_are_served_again_within_the_session_and_two_seconds(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as (cluster, admin):
        await admin.create_namespace("public/failover", 6)
        topics = [f"persistent://public/failover/topic-{number}" for number in range(30)]
        client = await asyncio.to_thread(stock_client, cluster.service_url)
        producers = [await asyncio.to_thread(NumberedProducer, client, topic, batching=False) for topic in topics]
        owners = [await admin.owner(topic) for topic in topics]
        victim = max(cluster.brokers, key=owners.count)
        loop = asyncio.get_running_loop()
        await cluster.kill_broker(victim)
        killed_at = loop.time()
        for producer in producers:
            producer.send(1)
        for producer in producers:
            left = SESSION_S + FAIL_OVER_SLACK_S - (loop.time() - killed_at)
            await asyncio.to_thread(producer.wait_acknowledged, 1, within_s=left)
        assert all(producer.acknowledged == {0} for producer in producers)
        await asyncio.to_thread(client.close)


async def test_the_same_command_on_the_same_folder_goes_on_with_everything(tmp_path: Path) -> None:
    """Tenants, namespaces, messages and cursors survive an orderly stop and a kill of every process."""
    topic = "persistent://acme/orders/eu"
    async with running_cluster(tmp_path, brokers=2) as (cluster, admin):
        await admin.expect(204, "PUT", "/admin/v2/tenants/acme", json={"allowedClusters": ["standalone"]})
        await admin.create_namespace("acme/orders", 3)
        client = await asyncio.to_thread(stock_client, cluster.service_url)
        await asyncio.to_thread(subscribe_before_sending, client, topic)
        producer = await asyncio.to_thread(NumberedProducer, client, topic, batching=False)
        producer.send(1_000)
        await asyncio.to_thread(producer.wait_acknowledged, 1_000, within_s=30)
        assert await asyncio.to_thread(receive_all, client, topic, 400) == list(range(400))
        await asyncio.to_thread(client.close)

    async with running_cluster(tmp_path, brokers=2) as (cluster, admin):
        assert "acme/orders" in await admin.expect(200, "GET", "/admin/v2/namespaces/acme")
        client = await asyncio.to_thread(stock_client, cluster.service_url)
        producer = await asyncio.to_thread(NumberedProducer, client, topic, batching=False)
        producer.sent = 1_000
        producer.send(500)
        await asyncio.to_thread(producer.wait_acknowledged, 500, within_s=30)
        await asyncio.to_thread(client.close)
        await cluster.kill()

    async with running_cluster(tmp_path, brokers=2) as (cluster, admin):
        client = await asyncio.to_thread(stock_client, cluster.service_url)
        rest = await asyncio.to_thread(receive_all, client, topic, 1_100)
        assert rest[-1] == 1_499
        assert rest == sorted(rest)
        assert rest[0] <= 400
        await asyncio.to_thread(client.close)
