"""Broker processes that find each other in a real etcd or Oxia, driven by the stock client while things end."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.etcd_server import EtcdServer, etcd_server, text
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.oxia_server import OxiaServer, oxia_server
from support.running_cluster import eventually, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

TOPIC = "persistent://acme/orders/eu"
QUICK = {"metadataStoreSessionTimeoutMillis": "5000", "loadBalancerSheddingEnabled": "false"}
PART = 500
"""Messages that are sent after each thing that happens."""


@dataclass(frozen=True)
class Store:
    """A server, and what a person sees in it of the folder `/blue`."""

    server: EtcdServer | OxiaServer
    url: str
    brokers: Callable[[], set[str]]
    """Who is alive, by the names under which brokers register."""
    sessions: Callable[[], int]


@contextmanager
def on_etcd(folder: Path) -> Iterator[Store]:
    with etcd_server(folder) as server:

        def below(prefix: str) -> list[str]:
            span = {"key": text(prefix), "range_end": text(prefix + "\x7f"), "keys_only": True}
            return [base64.b64decode(each["key"]).decode() for each in server.call("kv/range", span).get("kvs", [])]

        yield Store(
            server,
            f"etcd:{server.url}/blue",
            lambda: {key.rpartition("/")[2] for key in below("/blue/loadbalance/brokers/")},
            lambda: len(below("barycenter/blue:sessions/")),
        )


@contextmanager
def on_oxia(folder: Path) -> Iterator[Store]:
    with oxia_server(folder) as server:
        prefix = "|blue|loadbalance|brokers"
        sessions = "barycenter|blue:sessions"
        yield Store(
            server,
            f"oxia:{server.url}/blue",
            lambda: {key.rpartition("|")[2] for key in server.keys(f"{prefix}|", f"{prefix}}}")},
            lambda: len(server.keys(f"{sessions}:", f"{sessions};")),
        )


@pytest.mark.parametrize("kind", [on_etcd, on_oxia], ids=["etcd", "oxia"])
async def test_clients_go_on_when_bundles_move_brokers_die_and_the_store_starts_again(
    tmp_path: Path, kind: Callable[[Path], AbstractContextManager[Store]]
) -> None:
    """Every message is acknowledged and arrives, in order; a dead broker's bundles are others' by its session's end."""
    with kind(tmp_path / "store") as store:
        async with running_cluster(tmp_path / "data", brokers=3, configuration=QUICK, metadata_store_url=store.url) as (
            cluster,
            admin,
        ):
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
            assert store.brokers() == {broker.broker_id for broker in cluster.brokers}

            bundle = await admin.bundle_range(TOPIC)
            await admin.expect(204, "PUT", f"/admin/v2/namespaces/acme/orders/{bundle}/unload")
            await send_part()

            store.server.kill()
            producer.send(PART)  # owners go on while they cannot ask
            store.server.start()
            assert await asyncio.to_thread(store.server.wait_ready)
            await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)

            async def is_changed() -> bool:
                status, _ = await admin.call(
                    "PUT", "/admin/v2/namespaces/acme/after", json={"bundles": {"numBundles": 2}}
                )
                return status in (204, 409)

            await eventually(is_changed, within_s=60, what="a namespace is created after the store's restart")

            killed = await admin.owner(TOPIC)
            left = next(broker.index for broker in cluster.brokers if broker is not killed)
            await cluster.kill_broker(killed)
            await send_part()
            assert killed.broker_id not in store.brokers()
            owner = await admin.owner(TOPIC, broker=left)
            assert owner.broker_id != killed.broker_id

            await cluster.kill_broker(owner)
            await cluster.start_brokers([killed, owner])  # the latter while its former session still lasts
            await send_part()

            assert not producer.failures
            assert await asyncio.to_thread(receive_all, client, TOPIC, producer.sent) == list(range(producer.sent))
            await asyncio.to_thread(client.close)

            async def are_gone() -> bool:
                return store.sessions() == 3

            await eventually(are_gone, within_s=60, what="the sessions of killed brokers end")
        assert store.sessions() == 0
