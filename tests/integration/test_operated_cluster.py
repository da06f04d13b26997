"""`barycenter move` and `barycenter drain` as they are typed, on three brokers under a stock client's traffic."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.naming.topic import TopicName
from support.numbered_flow import NumberedFlow
from support.running_cluster import QUICK, Admin, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

NAMESPACE, BUNDLES, TOPICS = "public/busy", 12, 12


async def barycenter(folder: Path, *words: str, status: int = 0) -> str:
    """Run the command in a folder; return all that it printed."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "COLUMNS": "400"},
    )
    told, _ = await running.communicate()
    assert running.returncode == status, f"{words}: {running.returncode}\n{told.decode()}"
    return told.decode()


async def owned(admin: Admin, broker: str, *, ask: int) -> set[str]:
    found = await admin.expect(200, "GET", f"/admin/v2/brokers/standalone/{broker}/ownedNamespaces", broker=ask)
    return {bundle for bundle in found if not bundle.startswith("pulsar/")}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("manager", [ManagerKind.MODULAR, ManagerKind.EXTENSIBLE], ids=["modular", "extensible"])
async def test_bundles_are_moved_and_a_broker_is_drained_and_nothing_is_lost(
    tmp_path: Path, manager: ManagerKind
) -> None:
    """Each topic's numbers arrive, and for the first time in the order in which they were sent."""
    configuration = {**QUICK, "loadManagerClassName": manager.class_name}
    async with running_cluster(tmp_path / "data", configuration=configuration) as (cluster, admin):
        await admin.create_namespace(NAMESPACE, BUNDLES)
        topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
        url = cluster.brokers[0].web_url
        flow = await asyncio.to_thread(_flow, cluster.service_url, topics)
        try:
            bundle = f"{NAMESPACE}/{await admin.bundle_range(topics[0])}"
            drained = (await admin.owner(topics[0])).broker_id
            others = [broker.broker_id for broker in cluster.brokers if broker.broker_id != drained]
            for destination in (*others, drained):
                told = await barycenter(tmp_path, "move", bundle, "--to", destination, "--url", url, "--yes")
                assert f"served by {destination}" in told
                assert (await admin.owner(topics[0])).broker_id == destination
                await asyncio.to_thread(flow.wait_for_more, 20)

            place = next(at for at, broker in enumerate(cluster.brokers) if broker.broker_id == drained)
            shown = await barycenter(tmp_path, "drain", drained, "--url", url)
            assert "nothing is done without --yes" in shown
            assert bundle in await owned(admin, drained, ask=place)
            words = ("drain", drained, "--url", url, "--yes", "--per-minute", "6000", "--at-once", "4")
            assert f"{drained} serves no bundle" in await barycenter(tmp_path, *words, "--why", "a new disk")
            await asyncio.to_thread(flow.wait_for_more, 20)

            await admin.create_namespace("public/late", BUNDLES)
            for topic in [*topics, *(f"persistent://public/late/{number}" for number in range(2 * BUNDLES))]:
                assert (await admin.owner(topic, broker=place)).broker_id != drained
            assert await owned(admin, drained, ask=place) == set()
            await asyncio.to_thread(flow.wait_for_more, 20)
        finally:
            lost = await asyncio.to_thread(flow.close)
    assert lost == {}
    for topic, numbers in flow.arrived.items():
        firsts = list(dict.fromkeys(numbers))
        assert firsts == list(range(len(firsts))), f"{TopicName.parse(topic).local_name} came out of order"


def _flow(service_url: str, topics: list[str]) -> NumberedFlow:
    flow = NumberedFlow(service_url, topics)
    flow.wait_for_more(20)
    return flow
