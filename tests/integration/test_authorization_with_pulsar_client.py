"""The stock Python client, by tokens, to two brokers that ask what it may: refused, granted and revoked by REST."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pulsar
import pytest
import pytest_asyncio

from support.known_roles import ASKED, ROOT, as_role
from support.proofs import token
from support.rest_cluster import RestCluster, rest_cluster
from support.stock_client import connect

pytestmark = pytest.mark.integration

TOPIC = "persistent://acme/orders/t"
PARTITIONED = "persistent://acme/orders/p"
GRANTS = "/admin/v2/namespaces/acme/orders/permissions"
DEADLINE_S = 60


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster(2, **ASKED) as running:
        running.authorize(token(ROOT))
        await running.expect(204, "PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
        await running.create_namespace("acme/orders")
        await running.expect(204, "PUT", "/admin/v2/persistent/acme/orders/p/partitions", 4)
        yield running


def client_of(cluster: RestCluster, role: str) -> pulsar.Client:
    return connect(
        cluster.brokers[0].urls.broker_url,
        authentication=pulsar.AuthenticationToken(token(role)),
        operation_timeout_seconds=20,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


async def refused(work: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(pulsar.AuthorizationError):
        await asyncio.to_thread(work, *arguments, **options)


def fails(producer: pulsar.Producer) -> bool:
    try:
        producer.send(b"more")
    except pulsar.PulsarException:
        return True
    return False


async def test_a_grant_by_rest_lets_a_client_in_and_its_end_puts_it_out(cluster: RestCluster) -> None:
    shop, billing = client_of(cluster, "shop"), client_of(cluster, "billing")
    await refused(shop.create_producer, TOPIC)
    await refused(billing.subscribe, TOPIC, "s")
    await refused(shop.get_topic_partitions, PARTITIONED)
    await cluster.expect(204, "POST", f"{GRANTS}/shop", ["produce"])
    await cluster.expect(204, "POST", "/admin/v2/persistent/acme/orders/t/permissions/billing", ["consume"])
    consumer = await asyncio.to_thread(billing.subscribe, TOPIC, "s")
    producer = await asyncio.to_thread(shop.create_producer, TOPIC, send_timeout_millis=2_000)
    await asyncio.to_thread(producer.send, b"paid")
    assert (await asyncio.to_thread(consumer.receive, 20_000)).data() == b"paid"
    await refused(shop.subscribe, TOPIC, "s")
    await refused(billing.create_producer, TOPIC)
    await refused(billing.subscribe, PARTITIONED, "s")
    spread = await asyncio.to_thread(shop.create_producer, PARTITIONED)
    for number in range(8):
        await asyncio.to_thread(spread.send, b"%d" % number)
    await cluster.expect(204, "DELETE", f"{GRANTS}/shop")
    async with asyncio.timeout(DEADLINE_S):
        while not await asyncio.to_thread(fails, producer):
            pass
    await refused(shop.create_producer, TOPIC)
    for client in (shop, billing):
        await asyncio.to_thread(client.close)


async def test_brokers_ask_one_another_with_the_rights_of_their_own_role(cluster: RestCluster) -> None:
    """Whoever may ask about a partitioned topic is answered, though its partitions are with several brokers."""
    await cluster.expect(204, "POST", f"{GRANTS}/reader", ["consume"])
    headers = as_role("reader")
    path = "/admin/v2/persistent/acme/orders/p"
    await cluster.expect(204, "PUT", f"{path}/subscription/s", headers=headers)
    for broker in cluster.brokers:
        assert (await cluster.expect(200, "GET", f"{path}/subscriptions", at=broker, headers=headers)).json == ["s"]
        stats = await cluster.expect(200, "GET", f"{path}/partitioned-stats", at=broker, headers=headers)
        assert stats.json["metadata"]["partitions"] == 4
    await cluster.expect(403, "PUT", f"{path}/unload", headers=headers)
    await cluster.expect(204, "PUT", "/admin/v2/namespaces/acme/orders/unload")


async def test_brokers_whose_leader_writes_for_all_show_it_who_they_are() -> None:
    """What the second broker has written, its registration first, it asks the first for, which asks who it is."""
    async with rest_cluster(2, **ASKED, leader_only_metadata_writes="true") as cluster:
        path = "/barycenter/v1/leader-writes"
        await cluster.expect(401, "POST", path, {})
        await cluster.expect(403, "POST", path, {}, headers=as_role("shop"))
        cluster.authorize(token(ROOT))
        second = cluster.brokers[1]
        await cluster.expect(204, "PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]}, at=second)
        await cluster.create_namespace("acme/orders")
        await cluster.expect(204, "POST", f"{GRANTS}/shop", ["produce"], at=second)
        shop = client_of(cluster, "shop")
        for number in range(8):
            producer = await asyncio.to_thread(shop.create_producer, f"{TOPIC}-{number}")
            await asyncio.to_thread(producer.send, b"paid")
        await asyncio.to_thread(shop.close)
        for broker in cluster.brokers:
            path = f"/admin/v2/brokers/standalone/{broker.urls.broker_id}/ownedNamespaces"
            owned = await cluster.expect(200, "GET", path, at=broker)
            assert owned.json, "each has at least the lock of its own namespace, which the leader wrote"
