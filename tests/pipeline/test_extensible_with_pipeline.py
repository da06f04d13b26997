"""A cluster of processes with the extensible load manager and the running pipeline."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.snapshot.extensible_document import TrafficFigures
from support.numbered_messages import stock_client
from support.running_cluster import QUICK, Admin, eventually, running_cluster

pytestmark = [pytest.mark.pipeline, pytest.mark.integration]

EXTENSIBLE = QUICK | {
    "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
    "barycenterExtensiblePipelineEnabled": "true",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0.05",
    "statsUpdateFrequencyInSecs": "1",
}


async def test_the_leader_decides_upon_what_the_pipeline_publishes_of_its_brokers(tmp_path: Path) -> None:
    """Brokers report to the log and say so in the load topic; Spark publishes windows, and the leader's snapshot has
    them for every bundle that the channel names."""
    async with running_cluster(tmp_path, brokers=2, configuration=EXTENSIBLE, pipeline=True) as (cluster, admin):
        await admin.create_namespace("public/windows", 2)
        client = stock_client(cluster.brokers[0].service_url)
        enough = threading.Event()
        try:
            producers = [client.create_producer(f"persistent://public/windows/topic-{n}") for n in range(6)]
            sending = asyncio.create_task(asyncio.to_thread(send_until, enough, producers))
            try:
                await eventually(lambda: goes_by_windows(admin), within_s=120, what="decisions go by the windows")
                assert await in_use(admin) == {1.0}
            finally:
                enough.set()
                await sending
        finally:
            client.close()


async def goes_by_windows(admin: Admin) -> bool:
    """Tell whether the leader has a window with traffic for each bundle of the namespace that is owned."""
    document = await admin.expect(200, "GET", "/barycenter/v1/snapshot")
    owned = {bundle for bundle in document["extensible"].get("owners", {}) if bundle.startswith("public/windows/")}
    data = document.get("bundleData", {})
    return (
        document["extensible"].get("traffic") == TrafficFigures.WINDOWS
        and len(owned) == 2
        and all(data.get(bundle, {}).get("shortTermData", {}).get("msgRateIn", 0) > 0 for bundle in owned)
    )


async def in_use(admin: Admin) -> set[float]:
    """Return what the brokers' gauges say of the pipeline."""
    pages = [(await admin.call("GET", "/metrics", broker=number))[1] for number in range(2)]
    lines = [line for page in pages for line in page.splitlines() if line.startswith("barycenter_pipeline_in_use{")]
    assert len(lines) == 2
    return {float(line.rpartition(" ")[2]) for line in lines}


def send_until(enough: threading.Event, producers: list[Any]) -> None:
    while not enough.wait(0.02):
        for producer in producers:
            producer.send(b"x" * 1000)
