"""Broker processes whose leader writes for all, on SQLite: a stock client goes on when its owner and the leader are
killed, and the store holds one ephemeral key."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import QUICK, eventually, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

TOPIC = "persistent://acme/orders/eu"
CONFIGURATION = {**QUICK, "metadataStoreSessionTimeoutMillis": "6000", "leaderOnlyMetadataWrites": "true"}
PART = 300
"""Messages that are sent after each thing that happens."""


def ephemeral_keys(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT path FROM keys WHERE ephemeral ORDER BY path").fetchall()
    return [path for (path,) in rows]


async def test_clients_go_on_when_the_owner_and_the_leader_are_killed(tmp_path: Path) -> None:
    file = tmp_path / "metadata.sqlite"
    async with running_cluster(
        tmp_path / "data", brokers=3, configuration=CONFIGURATION, metadata_store_url=f"sqlite:{file}"
    ) as (cluster, admin):
        answer = await admin.expect(200, "GET", "/admin/v2/brokers/leaderBroker")
        leading = next(each for each in cluster.brokers if each.broker_id == answer["brokerId"])
        follower, spare = (each for each in cluster.brokers if each is not leading)
        at = {"broker": follower.index}
        await admin.expect(204, "PUT", "/admin/v2/tenants/acme", json={"allowedClusters": ["standalone"]}, **at)
        await admin.expect(204, "PUT", "/admin/v2/namespaces/acme/orders", json={"bundles": {"numBundles": 2}}, **at)
        assert ephemeral_keys(file) == [LEADER_PATH]
        client = await asyncio.to_thread(stock_client, follower.service_url)
        await asyncio.to_thread(subscribe_before_sending, client, TOPIC)
        producer = await asyncio.to_thread(NumberedProducer, client, TOPIC, batching=False)

        async def send_part() -> None:
            producer.send(PART)
            await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=90)

        await send_part()
        bundle = f"/admin/v2/namespaces/acme/orders/{await admin.bundle_range(TOPIC, **at)}"
        await admin.expect(204, "PUT", f"{bundle}/unload?destinationBroker={spare.broker_id}", **at)
        await send_part()
        owner = await admin.owner(TOPIC, **at)
        assert owner is spare
        await cluster.kill_broker(owner)
        await send_part()
        assert await admin.owner(TOPIC, **at) is not spare
        await cluster.start_brokers([owner])
        await cluster.kill_broker(leading)

        async def another_leads() -> bool:
            now = await admin.expect(200, "GET", "/admin/v2/brokers/leaderBroker", **at)
            return now is not None and now["brokerId"] != leading.broker_id

        await eventually(another_leads, within_s=60, what="another broker leads")
        await send_part()
        await admin.expect(204, "PUT", "/admin/v2/namespaces/acme/later", json={"bundles": {"numBundles": 1}}, **at)
        assert ephemeral_keys(file) == [LEADER_PATH]
        assert not producer.failures
        assert await asyncio.to_thread(receive_all, client, TOPIC, producer.sent) == list(range(producer.sent))
        await asyncio.to_thread(client.close)
