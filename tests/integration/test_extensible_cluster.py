"""Clusters of processes whose brokers run the extensible load manager, driven by the stock client and over HTTP."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barycenter.load.managers import ManagerKind
from barycenter.load.reports.extensible_reports import decode_broker_load, decode_top_bundles
from barycenter.load.service_units.service_unit_state import ServiceUnitState, decode_record
from barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, SERVICE_UNIT_STATE_TOPIC, TOP_BUNDLES_TOPIC
from barycenter.naming.topic import TopicName
from barycenter.standalone.cluster import StandaloneCluster
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import QUICK, Admin, eventually, running_cluster
from support.serving_intervals import conflicts, read_terms

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {
    **QUICK,
    "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
    "loadBalancerReportUpdateMinIntervalMillis": "500",
}
PLACES = {
    "topic": EXTENSIBLE,
    "store": {
        **EXTENSIBLE,
        "loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
    },
}


async def unload(admin: Admin, cluster: StandaloneCluster, topic: str, *, destination: str = "") -> None:
    """Unload the topic's bundle, asking whichever broker; the request follows to the owner."""
    bundle = await admin.bundle_range(topic)
    query = f"?destinationBroker={destination}" if destination else ""
    await admin.expect(204, "PUT", f"/admin/v2/namespaces/{TopicName.parse(topic).namespace}/{bundle}/unload{query}")


def any_of(cluster: StandaloneCluster) -> str:
    """Return a service URL by which a client finds the cluster whichever broker dies."""
    return "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in cluster.brokers)


async def next_to(cluster: StandaloneCluster, admin: Admin, topic: str) -> str:
    """Return the id of a broker that does not own the topic's bundle."""
    owner = await admin.owner(topic)
    return cluster.brokers[(owner.index + 1) % len(cluster.brokers)].broker_id


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_lost_by_transfer_unload_split_or_a_broker_that_dies(tmp_path: Path, place: str) -> None:
    async with running_cluster(tmp_path, configuration=PLACES[place]) as (cluster, admin):
        await admin.create_namespace("public/moves", 1)
        topics = [f"persistent://public/moves/topic-{number}" for number in range(4)]
        client = stock_client(any_of(cluster))
        try:
            for topic in topics:
                subscribe_before_sending(client, topic)
            producers = [NumberedProducer(client, topic) for topic in topics]
            sending = [asyncio.create_task(asyncio.to_thread(each.send, 1500, pause_s=0.004)) for each in producers]
            for _ in range(3):
                destination = await next_to(cluster, admin, topics[0])
                await unload(admin, cluster, topics[0], destination=destination)
                assert (await admin.owner(topics[0])).broker_id == destination
            await unload(admin, cluster, topics[0])
            bundle = await admin.bundle_range(topics[0])
            await admin.expect(
                204,
                "PUT",
                f"/admin/v2/namespaces/public/moves/{bundle}/split?splitAlgorithmName=topic_count_equally_divide",
            )

            async def is_split() -> bool:
                return await admin.bundle_range(topics[0]) != bundle

            await eventually(is_split, within_s=20, what="whoever is asked knows of the split")
            owner = await admin.owner(topics[0])
            await cluster.kill_broker(owner)
            survivor = (owner.index + 1) % len(cluster.brokers)

            async def is_served_elsewhere() -> bool:
                try:
                    return (await admin.owner(topics[0], broker=survivor)).index != owner.index
                except AssertionError:
                    return False

            await eventually(is_served_elsewhere, within_s=20, what="the dead broker's bundle has another owner")
            await asyncio.gather(*sending)
            for producer in producers:
                await asyncio.to_thread(producer.wait_acknowledged, 1500, within_s=60)
        finally:
            client.close()
        reader = stock_client(cluster.brokers[survivor].service_url)
        try:
            for topic in topics:
                numbers = await asyncio.to_thread(receive_all, reader, topic, 1500)
                assert list(dict.fromkeys(numbers)) == list(range(1500))
        finally:
            reader.close()
        logs = [broker.log for broker in cluster.brokers]
    terms = [term for term in read_terms(logs) if str(term.bundle.namespace) == "public/moves"]
    assert len(terms) >= 6
    assert conflicts(terms) == []


async def test_a_stock_table_view_of_the_channel_says_who_owns_what_and_the_load_topics_how_loaded(
    tmp_path: Path,
) -> None:
    configuration = {**EXTENSIBLE, "statsUpdateFrequencyInSecs": "1"}
    async with running_cluster(tmp_path, configuration=configuration) as (cluster, admin):
        client = stock_client(cluster.brokers[1].service_url)
        try:
            loads = client.subscribe(BROKER_LOAD_TOPIC, "shown")
            tops = client.subscribe(TOP_BUNDLES_TOPIC, "shown")
            await admin.create_namespace("public/shown", 4)
            topics = [f"persistent://public/shown/topic-{number}" for number in range(12)]
            producers = [client.create_producer(topic) for topic in topics]
            for producer in producers:
                producer.send(b"x")
            owners = {str(await bundle_of(admin, topic)): (await admin.owner(topic)).broker_id for topic in topics}
            told = await asyncio.to_thread(newest_values, client, SERVICE_UNIT_STATE_TOPIC)
            records = {key: decode_record(value) for key, value in told.items()}
            assert {key: record.dst_broker for key, record in records.items() if key in owners} == owners
            assert {record.state for record in records.values()} == {ServiceUnitState.OWNED}

            documents = await asyncio.to_thread(told_until, loads, lambda told: set(owners.values()) <= told.keys())
            for document in documents.values():
                load = decode_broker_load(document)
                assert load.reported_at > 0
                assert load.cpu.limit > 0
                assert {"weightedMaxEMA", "msgThroughputEMA", "bundleCount"} <= json.loads(document).keys()

            def name_all_bundles(told: dict[str, bytes]) -> bool:
                named = {
                    (bundle.bundle_name, broker_id)
                    for broker_id, document in told.items()
                    for bundle in decode_top_bundles(document).top_bundles_load_data
                }
                return owners.items() <= named

            enough = threading.Event()
            sending = asyncio.create_task(asyncio.to_thread(send_until, enough, producers))
            try:
                await asyncio.to_thread(told_until, tops, name_all_bundles)
            finally:
                enough.set()
                await sending
        finally:
            client.close()
        status, body = await admin.call("GET", "/admin/v2/broker-stats/load-report")
        assert (status, "extensible" in str(body)) == (500, True)
        figures = "".join([(await admin.call("GET", "/metrics", broker=number))[1] for number in range(3)])
        assert 'event="Assign",' in figures
        assert "pulsar_sunit_state_chn_subscribe_ops_total{" in figures
        assert 'feature="max_ema"' in figures


async def bundle_of(admin: Admin, topic: str) -> str:
    return f"{TopicName.parse(topic).namespace}/{await admin.bundle_range(topic)}"


def newest_values(client: Any, topic: str) -> dict[str, bytes]:
    """Return what a table view of the stock client holds once it has read the topic."""
    view = client.create_table_view(topic)
    found: dict[str, bytes] = {}
    view.for_each(found.__setitem__)
    view.close()
    return found


def send_until(enough: threading.Event, producers: list[Any]) -> None:
    while not enough.wait(0.02):
        for producer in producers:
            producer.send(b"x")


def told_until(consumer: Any, enough: Callable[[dict[str, bytes]], bool]) -> dict[str, bytes]:
    """Return the newest value of each broker once they are enough: each tells them anew when a bundle comes to it."""
    told: dict[str, bytes] = {}
    while not enough(told):
        message = consumer.receive(30_000)
        told.pop(message.partition_key(), None)
        if message.data():
            told[message.partition_key()] = message.data()
    return told
