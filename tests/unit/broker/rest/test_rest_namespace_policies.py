"""Policies of a namespace that have their own path, and the broker's other answers about them."""

import asyncio

import pytest

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.namespaces import cluster_metadata
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

NS = "/admin/v2/namespaces/public/ns"
P = "/admin/v2/persistent/public/ns"
TOPIC = "persistent://public/ns/t"
DEADLINE_S = 30


def loaded(broker: Broker) -> PersistentTopic | None:
    found = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert found is None or isinstance(found, PersistentTopic)
    return found


async def stored_entries(cluster: RestCluster) -> int:
    """Send one message twice with a new client, and return how many the topic has stored in all."""
    broker = await cluster.owner("persistent/public/ns/t")
    client = await WireClient.connect(int(str(broker.urls.broker_url).rpartition(":")[2]))
    await client.produce(TOPIC, producer_name="p")
    for _ in range(2):
        client.send(0)
        await client.expect(TYPE.SEND_RECEIPT)
    entries: int = (await cluster.expect(200, "GET", f"{P}/t/internalStats")).json["numberOfEntries"]
    client.close()
    return entries


@pytest.mark.parametrize("by_default", [False, True])
async def test_a_namespace_switches_deduplication_for_topics_that_are_loaded(by_default: bool) -> None:
    async with rest_cluster(2, broker_deduplication_enabled=by_default) as cluster:
        await cluster.create_namespace()
        path = f"{NS}/deduplication"
        assert (await cluster.expect(204, "GET", path)).json is None
        await cluster.expect(204, "PUT", f"{P}/t")
        owner = await cluster.owner("persistent/public/ns/t")

        async def switched_to(wanted: bool) -> None:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    await cluster.expect(200, "GET", f"{P}/t/stats")
                    topic = loaded(owner)
                    if topic is not None and topic.deduplicates is wanted:
                        return
                    await asyncio.sleep(0)

        await switched_to(by_default)
        for broker, enabled in zip(cluster.brokers, (not by_default, by_default), strict=True):
            await cluster.expect(204, "POST", path, enabled, at=broker)
            assert (await cluster.expect(200, "GET", path, at=broker)).json is enabled
            await switched_to(enabled)
        await cluster.expect(204, "DELETE", path)
        await cluster.expect(204, "GET", path)
        assert (await cluster.expect(200, "GET", NS)).json["deduplicationEnabled"] is None


async def test_what_a_producer_sends_twice_is_stored_once_where_the_namespace_says_so() -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(204, "PUT", NS, {"deduplicationEnabled": True})
        assert await stored_entries(cluster) == 1
        await cluster.expect(204, "POST", f"{NS}/deduplication", False)
        broker = cluster.brokers[0]
        async with asyncio.timeout(DEADLINE_S):
            while (topic := loaded(broker)) is not None and topic.deduplicates:
                await asyncio.sleep(0)
        assert await stored_entries(cluster) == 3


async def test_deduplication_takes_true_or_false_of_a_namespace_that_exists() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for body in ("yes", 1, None, {"enabled": True}):
            await cluster.expect(400, "POST", f"{NS}/deduplication", body)
        for method in ("GET", "DELETE"):
            await cluster.expect(404, method, "/admin/v2/namespaces/public/missing/deduplication")
        await cluster.expect(404, "POST", "/admin/v2/namespaces/public/missing/deduplication", True)


async def test_a_policy_that_there_is_not_is_no_bundle() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for policy in ("nonsense", "autoFailoverPolicy"):
            assert "Not Found" in (await cluster.expect(404, "DELETE", f"{NS}/{policy}")).reason
        await cluster.expect(412, "DELETE", f"{NS}/0x00000000_0x00000001")
        await cluster.expect(412, "DELETE", f"{NS}/0_1")


async def test_a_topic_with_nothing_but_a_subscription_is_deleted() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{P}/t")
        await cluster.expect(204, "PUT", f"{P}/t/subscription/s")
        await cluster.expect(204, "DELETE", f"{P}/t")
        await cluster.expect(404, "GET", f"{P}/t/stats")


async def test_an_unknown_listener_is_told_at_once_in_the_words_of_pulsar() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        path = "/lookup/v2/topic/persistent/public/ns/t"
        for _ in range(2):  # before the owner is known, and then
            refused = await cluster.expect(404, "GET", path, listenerName="outside")
            assert "the broker do not have outside listener" in refused.reason
        await cluster.expect(200, "GET", path)


async def test_nothing_is_answered_before_the_first_records_of_a_cluster_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker is held at the first record; its port is open by then."""
    seen: list[int] = []

    async def asks(resources: object, config: object, urls: object) -> None:
        broker_web = urls.web_url  # type: ignore[attr-defined]
        async with asyncio.timeout(DEADLINE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(broker_web.rpartition(":")[2]))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            seen.append(int((await reader.read()).split()[1]))
            writer.close()
        await cluster_metadata.initialize_cluster(resources, config, urls)  # type: ignore[arg-type]

    monkeypatch.setattr("pulsar_barycenter.broker.broker.initialize_cluster", asks)
    async with rest_cluster() as cluster:
        assert seen == [503]
        await cluster.expect(200, "GET", "/metrics")
