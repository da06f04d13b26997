"""A cluster of processes that goes from the modular to the extensible load manager and back, broker by broker."""

import asyncio
from pathlib import Path

import pytest

from barycenter.load.managers import ManagerKind
from barycenter.standalone.cluster import StandaloneCluster
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import QUICK, Admin, running_cluster
from support.serving_intervals import conflicts, read_terms

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"


async def restart_one_by_one(cluster: StandaloneCluster, admin: Admin, topics: list[str]) -> None:
    """Restart every broker in order, each when the one before serves again; look-ups go on all the while."""
    for broker in cluster.brokers:
        await broker.terminate(timeout_s=60)
        others = [other.index for other in cluster.brokers if other is not broker]
        for topic in topics:
            assert (await admin.owner(topic, broker=others[0])).index in others
        await cluster.start_brokers([broker])
        for topic in topics:
            owners = {(await admin.owner(topic, broker=other.index)).index for other in cluster.brokers}
            assert len(owners) == 1


@pytest.mark.parametrize("place", ["ServiceUnitStateTableViewImpl", "ServiceUnitStateMetadataStoreTableViewImpl"])
async def test_a_live_cluster_changes_its_load_manager_and_changes_it_back(tmp_path: Path, place: str) -> None:
    configuration = {**QUICK, "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.{place}"}
    async with running_cluster(tmp_path, configuration=configuration) as (cluster, admin):
        await admin.create_namespace("public/moves", 4)
        topics = [f"persistent://public/moves/topic-{number}" for number in range(4)]
        client = stock_client(cluster.service_url)
        producers: list[NumberedProducer] = []
        try:
            for topic in topics:
                subscribe_before_sending(client, topic)
            producers += [NumberedProducer(client, topic) for topic in topics]
            sending = [asyncio.create_task(asyncio.to_thread(each.send, 100_000, pause_s=0.005)) for each in producers]

            await admin.expect(200, "POST", "/admin/v2/brokers/configuration/loadManagerMigrationEnabled/true")
            for kind in (ManagerKind.EXTENSIBLE, ManagerKind.MODULAR):
                configuration["loadManagerClassName"] = kind.class_name
                await restart_one_by_one(cluster, admin, topics)
                reports = [
                    await admin.call("GET", "/admin/v2/broker-stats/load-report", broker=broker.index)
                    for broker in cluster.brokers
                ]
                assert {status for status, _ in reports} == {500 if kind is ManagerKind.EXTENSIBLE else 200}
            await admin.expect(200, "DELETE", "/admin/v2/brokers/configuration/loadManagerMigrationEnabled")

            for producer in producers:
                producer.stop()
            await asyncio.gather(*sending)
            for producer in producers:
                await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)
                assert producer.failures == []
            for topic, producer in zip(topics, producers, strict=True):
                numbers = await asyncio.to_thread(receive_all, client, topic, producer.sent)
                assert list(dict.fromkeys(numbers)) == list(range(producer.sent))
        finally:
            for producer in producers:
                producer.stop()
            client.close()
        logs = [broker.log for broker in cluster.brokers]
    terms = [term for term in read_terms(logs) if str(term.bundle.namespace) == "public/moves"]
    assert len(terms) >= 12
    assert conflicts(terms) == []
