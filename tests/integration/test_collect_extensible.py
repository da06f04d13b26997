"""`barycenter collect` beside clusters of processes that run the extensible load manager: loads, and who owns what."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, decode_snapshot
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.observer.collector import Round
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.numbered_messages import stock_client
from support.running_cluster import QUICK, Admin, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
EXTENSIBLE = {
    **QUICK,
    "loadManagerClassName": ManagerKind.EXTENSIBLE.class_name,
    "loadBalancerReportUpdateMinIntervalMillis": "200",
    "loadBalancerReportUpdateMaxIntervalMinutes": "0.01",
    "loadBalancerMaxNumberOfBundlesInBundleLoadReport": "1",
    "statsUpdateFrequencyInSecs": "1",
}
IN_STORE = {"loadManagerServiceUnitStateTableViewClassName": f"{CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl"}
BUNDLES = 8
ROUNDS = 60
TOPICS = [f"persistent://public/told/topic-{number}" for number in range(24)]


@asynccontextmanager
async def busy(folder: Path, **more: str) -> AsyncIterator[tuple[StandaloneCluster, Admin, Any]]:
    """Run a cluster of two brokers with traffic on all bundles of a namespace, of which each lists but one."""
    async with running_cluster(folder, brokers=2, configuration=EXTENSIBLE | more) as (cluster, admin):
        await admin.create_namespace("public/told", BUNDLES)
        client = stock_client(cluster.brokers[1].service_url)
        enough = threading.Event()
        try:
            producers = [client.create_producer(topic) for topic in TOPICS]
            sending = asyncio.create_task(asyncio.to_thread(send_until, enough, producers))
            try:
                yield cluster, admin, client
            finally:
                enough.set()
                await sending
        finally:
            client.close()


def send_until(enough: threading.Event, producers: list[Any]) -> None:
    while not enough.wait(0.02):
        for producer in producers:
            producer.send(b"x")


@asynccontextmanager
async def collecting(cluster: StandaloneCluster, out: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command, a round a second, until it is left; it ends with 0 when it is told to."""
    first = cluster.brokers[0]
    options = ["--admin-url", first.web_url, "--service-url", first.service_url, "--out", str(out), "--interval", "1"]
    with (out.parent / "told").open("ab") as told:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pulsar_barycenter", "collect", *options, "--rounds", str(ROUNDS), "--json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=told,
        )
    try:
        yield process
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def rounds(process: asyncio.subprocess.Process) -> AsyncIterator[Round]:
    assert process.stdout is not None
    async for line in process.stdout:
        yield msgspec.json.decode(line, type=Round)


def kept(out: Path) -> SnapshotDocument:
    return decode_snapshot((out / "snapshot.json").read_bytes())


async def owners_by_lookup(admin: Admin) -> dict[str, str]:
    """Return the owner of each bundle that a topic is in."""
    found = {}
    for topic in TOPICS:
        found[f"public/told/{await admin.bundle_range(topic)}"] = (await admin.owner(topic)).broker_id
    return found


def of_namespace(owners: dict[str, str]) -> dict[str, str]:
    return {bundle: owner for bundle, owner in owners.items() if bundle.startswith("public/told/")}


def listed(document: SnapshotDocument) -> set[str]:
    assert document.extensible is not None
    tops = document.extensible.top_bundles.values()
    return {each.bundle_name for top in tops for each in top.top_bundles_load_data}


def is_full(document: SnapshotDocument) -> bool:
    """Tell whether both brokers told their load and a list with a bundle in it."""
    assert document.extensible is not None
    return len(document.extensible.loads) == 2 and bool(listed(document))


async def test_the_snapshot_names_the_owner_of_every_bundle_whatever_else_is_in_the_channel(tmp_path: Path) -> None:
    """Damaged and foreign messages, and one of a state that is not known yet, are told once and change nothing."""
    out = tmp_path / "out"
    async with busy(tmp_path / "data") as (cluster, admin, client):
        owners = await owners_by_lookup(admin)
        assert len(owners) > 2
        some = sorted(owners)[0]
        producer = client.create_producer(SERVICE_UNIT_STATE_TOPIC)
        future = {"state": "Merging", "dstBroker": "x:1", "versionId": 9}
        for key, value in (("no bundle", b"{}"), (some, b"{"), (some, json.dumps(future).encode())):
            producer.send(value, partition_key=key)
        async with collecting(cluster, out) as process:
            async for found in rounds(process):
                assert (found.ownership, (found.owned or 0) >= len(owners)) == ("", True)
                if not found.failed and is_full(kept(out)):
                    break
            document = kept(out)
            assert document.extensible is not None
            assert of_namespace(document.extensible.owners) == owners
            assert len(listed(document)) <= 2 < len(owners), "most bundles are in no list"
            snapshot = document.snapshot()
            rows = zip(snapshot.bundles.names, snapshot.bundles.owner.tolist(), strict=True)
            assert of_namespace({bundle: snapshot.brokers.names[row] for bundle, row in rows}) == owners

            # what is given up and what goes elsewhere is seen in a later round
            await admin.expect(
                204, "PUT", f"/admin/v2/namespaces/{some}/unload?destinationBroker={other_than(cluster, owners[some])}"
            )
            moved = await owners_by_lookup(admin)
            assert moved[some] != owners[some]
            async for _ in rounds(process):
                again = kept(out)
                if again.extensible is not None and of_namespace(again.extensible.owners) == moved:
                    break
    reports = [json.loads(file.read_bytes()) for file in (out / "load-reports").rglob("*.json")]
    named = {bundle for report in reports for bundle in report["bundles"]}
    assert set(owners) <= named
    assert len({bundle for report in reports for bundle in report["lastStats"]} & set(owners)) < len(owners)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines() if line.startswith("{")]
    ignored = [line for line in told if line["event"] == "ownership_record_ignored"]
    assert [line["key"] for line in ignored].count("no bundle") == 1
    assert [line["key"] for line in ignored if "truncated" in line["reason"] or "Merging" in line["reason"]] == [some]
    decided = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "decide", str(out / "snapshot.json"), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    lines, _ = await decided.communicate()
    assert decided.returncode == 0
    strategies = {json.loads(line)["reason"].get("strategy") for line in lines.splitlines()}
    assert "TransferShedder" in strategies


def other_than(cluster: StandaloneCluster, broker_id: str) -> str:
    return next(broker.broker_id for broker in cluster.brokers if broker.broker_id != broker_id)


async def test_where_records_are_in_the_metadata_store_it_is_said_and_the_lists_tell_the_owners(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    async with busy(tmp_path / "data", **IN_STORE) as (cluster, admin, _), collecting(cluster, out) as process:
        async for found in rounds(process):
            assert found.owned is None
            assert "ownership is in the metadata store" in found.ownership
            if not found.failed and is_full(kept(out)):
                break
        document = kept(out)
        owners = await owners_by_lookup(admin)
        assert document.extensible is not None
        assert set(document.extensible.owners) == listed(document)
        assert of_namespace(document.extensible.owners).items() <= owners.items()
