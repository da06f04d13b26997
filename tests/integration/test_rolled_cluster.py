"""`barycenter roll` as it is typed, on three brokers under a stock client's traffic; it is killed in a hook."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.numbered_flow import NumberedFlow
from support.running_cluster import QUICK, Admin, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

NAMESPACE, BUNDLES, TOPICS = "public/rolled", 9, 4
CONFIGURATION = {
    **QUICK,
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerReportUpdateMinIntervalMillis": "200",
    "statsUpdateFrequencyInSecs": "1",
}
HOOK = """\
echo {broker} >> restarts
touch asked-{port}
while [ ! -e done-{port} ]; do sleep 0.05; done
"""
KEYS = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")


@contextlib.asynccontextmanager
async def roll(folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "roll", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "COLUMNS": "400"},
    )
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.wait()


async def owners(admin: Admin, brokers: list[str]) -> dict[str, str]:
    found = {}
    for number, broker in enumerate(brokers):
        path = f"/admin/v2/brokers/standalone/{broker}/ownedNamespaces"
        for bundle in await admin.expect(200, "GET", path, broker=number):
            if bundle.startswith(f"{NAMESPACE}/"):
                found[bundle] = broker
    return found


async def test_a_cluster_is_rolled_under_traffic_though_the_command_is_killed_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path / "data", configuration=CONFIGURATION) as (cluster, admin):
        await admin.create_namespace(NAMESPACE, BUNDLES)
        brokers = {broker.broker_id: broker for broker in cluster.brokers}
        number = 0
        while len(await owners(admin, list(brokers))) < BUNDLES:
            await admin.owner(f"persistent://{NAMESPACE}/any-{number}")
            number += 1
        leader = (await admin.expect(200, "GET", "/admin/v2/brokers/leaderBroker"))["brokerId"]
        folder = tmp_path / "operator"
        folder.mkdir()

        async def restart_what_is_asked_for() -> None:
            while True:
                for broker_id, broker in brokers.items():
                    port = broker_id.rpartition(":")[2]
                    asked = folder / f"asked-{port}"
                    if asked.exists():
                        asked.unlink()
                        await broker.terminate(timeout_s=60)
                        await cluster.start_brokers([broker])
                        (folder / f"done-{port}").touch()
                await asyncio.sleep(0.02)

        topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
        flow = await asyncio.to_thread(NumberedFlow, cluster.service_url, topics)
        supervisor = asyncio.create_task(restart_what_is_asked_for())
        words = ("--url", cluster.brokers[0].web_url, "--restart-with", HOOK, "--per-minute", "6000", "--at-once", "3")
        try:
            async with roll(folder, *words) as shown:
                told, _ = await shown.communicate()
                assert "nothing is done without --yes" in told.decode()
                assert not (folder / "roll.journal").exists()
            async with roll(folder, *words, "--yes") as killed:
                while not (folder / "restarts").exists():
                    await asyncio.sleep(0.02)
            async with roll(folder, *words, "--yes", "--json") as running:
                told, _ = await running.communicate()
                lines = [json.loads(line) for line in told.decode().splitlines()]
                assert running.returncode == 0, told.decode()
        finally:
            supervisor.cancel()
            lost = await asyncio.to_thread(flow.close)
        assert killed.returncode == -9
        assert lost == {}
        assert "the roll goes on" in lines[0]["text"]
        assert lines[-1]["state"] == "finished"
        restarts = (folder / "restarts").read_text().split()
        assert sorted(restarts) == sorted(brokers)
        assert restarts[-1] == leader
        journal = [json.loads(line) for line in (folder / "roll.journal").read_text().splitlines()]
        assert journal[-1]["event"] == "finished"
        settled = [entry for entry in journal if entry["event"] == "settled"]
        assert all("at the leader" in entry["detail"] or "thresholds" in entry["detail"] for entry in settled)
        assert await admin.expect(200, "GET", "/admin/v2/brokers/configuration/values") == {}
        for place in range(len(brokers)):
            in_force = await admin.expect(200, "GET", "/admin/v2/brokers/configuration/runtime", broker=place)
            assert {in_force[key] for key in KEYS} == {"true"}
        assert len(await owners(admin, list(brokers))) == BUNDLES
        begun = [
            json.loads(line)["bundle"]
            for line in (folder / "roll.moves.journal").read_text().splitlines()
            if json.loads(line)["state"] == "served"
        ]
        assert max(begun.count(bundle) for bundle in set(begun)) <= 3
        print(f"longest gap {flow.gap_s:.2f} s, {len(begun)} moves of {len(set(begun))} bundles")
