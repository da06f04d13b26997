"""Broker processes whose leader stands still until another one leads: nothing of its term counts when it goes on."""

import asyncio
import signal
from pathlib import Path

import pytest

from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.metadata.coordination.epochs import read_epoch
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import QUICK, eventually, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

TOPIC = "persistent://acme/orders/eu"
CONFIGURATION = {**QUICK, "leaderOnlyMetadataWrites": "administration"}
PART = 300
"""Messages that are sent after each thing that happens."""


async def test_a_leader_that_stood_still_comes_back_to_a_later_epoch_and_obeys_it(tmp_path: Path) -> None:
    """Administrators are answered by whichever broker, clients lose nothing, and commands of the former term are
    refused by every broker, the former leader included."""
    file = tmp_path / "metadata.sqlite"
    async with running_cluster(
        tmp_path / "data", brokers=3, configuration=CONFIGURATION, metadata_store_url=f"sqlite:{file}"
    ) as (cluster, admin):
        store = await SqliteStore.open(file)
        try:

            async def leader_at(broker: int) -> str:
                return str(
                    (await admin.expect(200, "GET", "/admin/v2/brokers/leaderBroker", broker=broker))["brokerId"]
                )

            leading = await leader_at(0)
            former = next(each for each in cluster.brokers if each.broker_id == leading)
            others = [each for each in cluster.brokers if each is not former]
            left = others[0].index
            await admin.expect(
                204, "PUT", "/admin/v2/tenants/acme", json={"allowedClusters": ["standalone"]}, broker=left
            )
            await admin.create_namespace("acme/orders", 2)
            client = await asyncio.to_thread(stock_client, others[0].service_url)
            await asyncio.to_thread(subscribe_before_sending, client, TOPIC)
            producer = await asyncio.to_thread(NumberedProducer, client, TOPIC, batching=False)

            async def send_part() -> None:
                producer.send(PART)
                await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)

            await send_part()
            bundle = f"/admin/v2/namespaces/acme/orders/{await admin.bundle_range(TOPIC, broker=left)}"
            if await admin.owner(TOPIC, broker=left) is former:
                # Who is attached to it finds out by its own keep-alive, half a minute later and more.
                await admin.expect(
                    204, "PUT", f"{bundle}/unload?destinationBroker={others[0].broker_id}", broker=former.index
                )
                await send_part()
            first = await read_epoch(store, LEADER_PATH)
            assert first is not None
            former.signal(signal.SIGSTOP)

            async def another_leads() -> bool:
                """Whether there is a later epoch, and the broker that is asked next no longer redirects to the former
                leader, which would not answer."""
                epoch = await read_epoch(store, LEADER_PATH)
                is_later = epoch is not None and epoch.number > first.number
                return is_later and await leader_at(left) != former.broker_id

            await eventually(another_leads, within_s=60, what="another broker takes an epoch")
            await admin.expect(
                204, "PUT", "/admin/v2/namespaces/acme/meanwhile", json={"bundles": {"numBundles": 1}}, broker=left
            )
            await send_part()
            former.signal(signal.SIGCONT)

            async def it_knows() -> bool:
                return await leader_at(former.index) != former.broker_id

            await eventually(it_knows, within_s=60, what="the former leader follows")
            await admin.expect(204, "DELETE", "/admin/v2/namespaces/acme/meanwhile", broker=former.index)
            for broker in cluster.brokers:
                for command in ("unload?", "split?splitAlgorithmName=range_equally_divide&"):
                    answer = await admin.expect(
                        412, "PUT", f"{bundle}/{command}leaderEpoch={first.number}", broker=broker.index
                    )
                    assert f"leader epoch {first.number}, which is over" in answer["reason"]
            await admin.expect(204, "PUT", f"{bundle}/unload?leaderEpoch={first.number + 1}", broker=former.index)
            await send_part()
            assert not producer.failures
            assert await asyncio.to_thread(receive_all, client, TOPIC, producer.sent) == list(range(producer.sent))
            await asyncio.to_thread(client.close)
        finally:
            await store.close()
