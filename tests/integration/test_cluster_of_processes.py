"""A cluster of real broker processes that is ended and started again, driven by the stock client and over HTTP."""

import asyncio
from pathlib import Path

import pytest

from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]


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
