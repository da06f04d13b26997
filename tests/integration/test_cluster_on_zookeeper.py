"""Broker processes that find each other in a real ZooKeeper, driven by the stock client while things end."""

import asyncio
import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pulsar_barycenter.load.managers import ManagerKind
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import eventually, running_cluster
from support.zookeeper_server import ZooKeeperServer, zookeeper_server

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

TOPIC = "persistent://acme/orders/eu"
QUICK_ON_ZOOKEEPER = {"metadataStoreSessionTimeoutMillis": "5000", "loadBalancerSheddingEnabled": "false"}
PART = 300
"""Messages that are sent after each thing that happens."""
CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {"loadManagerClassName": ManagerKind.EXTENSIBLE.class_name}
MANAGERS = {
    "modular": {"loadManagerClassName": ManagerKind.MODULAR.class_name},
    "simple": {"loadManagerClassName": ManagerKind.SIMPLE.class_name},
    "extensible, records in a topic": EXTENSIBLE,
    "extensible, records in the store": EXTENSIBLE
    | {"loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl"},
}


def names_below(server: ZooKeeperServer, path: str) -> list[str]:
    """Return what a person sees in a shell."""
    client = KazooClient(server.endpoint)
    client.start()
    try:
        return sorted(client.get_children(path))
    except NoNodeError:
        return []
    finally:
        client.stop()
        client.close()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
async def test_clients_go_on_when_bundles_move_a_broker_dies_and_zookeeper_starts_again(
    tmp_path: Path, manager: dict[str, str]
) -> None:
    """Every message is acknowledged and arrives, in order; a dead broker's bundles are others' by its session's end."""
    with zookeeper_server(tmp_path / "zookeeper") as zookeeper:
        async with running_cluster(
            tmp_path / "data",
            brokers=3,
            configuration=QUICK_ON_ZOOKEEPER | manager,
            metadata_store_url=f"{zookeeper.url}/blue",
        ) as (cluster, admin):
            await admin.expect(204, "PUT", "/admin/v2/tenants/acme", json={"allowedClusters": ["standalone"]})
            await admin.create_namespace("acme/orders", 4)
            client = await asyncio.to_thread(stock_client, cluster.service_url)
            await asyncio.to_thread(subscribe_before_sending, client, TOPIC)
            producer = await asyncio.to_thread(NumberedProducer, client, TOPIC, batching=False)

            async def send_part() -> None:
                producer.send(PART)
                await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)

            await send_part()
            owners = {(await admin.owner(TOPIC, broker=index)).broker_id for index in range(3)}
            assert len(owners) == 1
            registered = await asyncio.to_thread(names_below, zookeeper, "/blue/loadbalance/brokers")
            assert set(registered) == {broker.broker_id for broker in cluster.brokers}

            bundle = await admin.bundle_range(TOPIC)
            await admin.expect(204, "PUT", f"/admin/v2/namespaces/acme/orders/{bundle}/unload")
            await send_part()

            killed = await admin.owner(TOPIC)
            left = next(broker.index for broker in cluster.brokers if broker is not killed)
            await cluster.kill_broker(killed)
            await send_part()
            assert (await admin.owner(TOPIC, broker=left)).broker_id != killed.broker_id
            registered = await asyncio.to_thread(names_below, zookeeper, "/blue/loadbalance/brokers")
            assert killed.broker_id not in registered

            # Last: on a slow machine sessions are lost here, and who lost his waits for minutes before he takes over.
            zookeeper.kill()
            producer.send(PART)  # owners go on while they cannot ask
            zookeeper.start()
            assert await asyncio.to_thread(zookeeper.wait_ready)
            await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)

            async def is_changed() -> bool:
                status, _ = await admin.call(
                    "PUT", "/admin/v2/namespaces/acme/after", json={"bundles": {"numBundles": 2}}, broker=left
                )
                return status in (204, 409)

            await eventually(is_changed, within_s=60, what="a namespace is created after ZooKeeper's restart")

            assert not producer.failures
            assert await asyncio.to_thread(receive_all, client, TOPIC, producer.sent) == list(range(producer.sent))
            await asyncio.to_thread(client.close)
        assert await asyncio.to_thread(names_below, zookeeper, "/blue/loadbalance/brokers") == []


async def test_zookeepers_own_shell_shows_what_operators_know(tmp_path: Path) -> None:
    """Leader, brokers, owned bundles and policies stand at Pulsar's paths; what dies with its session is ephemeral."""
    with zookeeper_server(tmp_path / "zookeeper") as zookeeper:
        async with running_cluster(
            tmp_path / "data",
            brokers=1,
            configuration=QUICK_ON_ZOOKEEPER,
            metadata_store_url=f"{zookeeper.url}/blue",
        ) as (cluster, admin):
            await admin.expect(204, "PUT", "/admin/v2/tenants/acme", json={"allowedClusters": ["standalone"]})
            await admin.create_namespace("acme/orders", 1)
            await admin.owner(TOPIC)
            seen = (await asyncio.to_thread(zookeeper.shell, "ls", "-R", "/blue")).splitlines()
            broker = cluster.brokers[0].broker_id
            ephemeral = [
                "/blue/loadbalance/leader",
                f"/blue/loadbalance/brokers/{broker}",
                "/blue/namespace/acme/orders/0x00000000_0xffffffff",
            ]
            lasting = [
                "/blue/admin/policies/acme",
                "/blue/admin/policies/acme/orders",
                "/blue/admin/clusters/standalone",
            ]
            assert set(ephemeral + lasting) <= set(seen)
            for path in (*ephemeral, *lasting):
                told = await asyncio.to_thread(zookeeper.shell, "stat", path)
                assert ("ephemeralOwner = 0x0\n" in told) == (path in lasting), f"{path}\n{told}"
            printed = (await asyncio.to_thread(zookeeper.shell, "get", ephemeral[-1])).splitlines()
            # The shell prints its connection event before or after the value.
            (value,) = (line for line in printed if line.startswith("{"))
            lock = json.loads(value)
            assert lock["nativeUrl"] == cluster.brokers[0].service_url
