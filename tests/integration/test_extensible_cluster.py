"""What a cluster of processes whose brokers run the extensible load manager tells the stock client, and over HTTP."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import decode_broker_load, decode_top_bundles
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, decode_record
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, SERVICE_UNIT_STATE_TOPIC, TOP_BUNDLES_TOPIC
from pulsar_barycenter.naming.topic import TopicName
from support.numbered_messages import stock_client
from support.running_cluster import QUICK, Admin, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

EXTENSIBLE = {
    **QUICK,
    "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
    "loadBalancerReportUpdateMinIntervalMillis": "500",
}


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
