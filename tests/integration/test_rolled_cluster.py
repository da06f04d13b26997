"""`barycenter roll` on three brokers under a stock client's traffic; the command is killed in a hook, and goes on."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.operations.own_balancing import PAUSED_KEYS
from support.numbered_flow import NumberedFlow
from support.rest_cluster import RestCluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

BUNDLES, TOPICS = 6, 2
HOOK = """\
echo {broker} >> restarts
touch asked-{port}
while [ ! -e done-{port} ]; do sleep 0.05; done
"""


class Restarts:
    """Restarts the brokers that the hook asks for, with the same ports."""

    def __init__(self, cluster: RestCluster, folder: Path, settings: dict[str, Any]) -> None:
        self.cluster = cluster
        self._folder = folder
        self._settings = settings

    async def add(self, **ports: int) -> None:
        await self.cluster.add(configured_load_manager, **self._settings, **ports)

    async def run(self) -> None:
        while True:
            for broker in list(self.cluster.brokers):
                port = broker.broker_id.rpartition(":")[2]
                asked = self._folder / f"asked-{port}"
                if asked.exists():
                    asked.unlink()
                    await self._restart(broker)
                    (self._folder / f"done-{port}").touch()
            await asyncio.sleep(0.05)

    async def _restart(self, broker: Broker) -> None:
        service_port = int(str(broker.urls.broker_url).rpartition(":")[2])
        await broker.stop()
        self.cluster.brokers.remove(broker)
        await self.add(broker_service_port=service_port, web_service_port=int(broker.broker_id.rpartition(":")[2]))


async def owners(cluster: RestCluster) -> dict[str, str]:
    found = {}
    for broker in cluster.brokers:
        path = f"/admin/v2/brokers/{BrokerConfig().cluster_name}/{broker.broker_id}/ownedNamespaces"
        for bundle in (await cluster.expect(200, "GET", path, at=broker)).json:
            if bundle.startswith("public/ns/"):
                found[bundle] = broker.broker_id
    return found


@asynccontextmanager
async def three_brokers(folder: Path) -> AsyncIterator[Restarts]:
    settings: dict[str, Any] = {
        "broker_shutdown_timeout_ms": 0,
        "load_balancer_report_update_min_interval_millis": 200,
        "stats_update_frequency_in_secs": 1,
        "barycenter_data_dir": str(folder / "data"),
    }
    cluster = RestCluster()
    restarts = Restarts(cluster, folder, settings)
    try:
        for _ in range(3):
            await restarts.add()
        await cluster.create_namespace(bundles=BUNDLES)
        number = 0
        while len(await owners(cluster)) < BUNDLES:
            await cluster.owner(f"persistent/public/ns/any-{number}")
            number += 1
        yield restarts
    finally:
        await cluster.close()


async def roll(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["roll", *words])


async def kill_in_hook(folder: Path, *words: str) -> None:
    """Run the command, and kill it when its hook has restarted a broker."""
    command = (sys.executable, "-m", "pulsar_barycenter", "roll", *words)
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, cwd=folder)
    try:
        async with asyncio.timeout(60):
            while not list(folder.glob("done-*")):
                assert running.returncode is None
                await asyncio.sleep(0.02)
    finally:
        with suppress(ProcessLookupError):
            running.kill()
        await running.wait()


async def test_a_cluster_is_rolled_under_traffic_though_the_command_is_killed_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with three_brokers(tmp_path) as restarts:
        cluster = restarts.cluster
        brokers = {broker.broker_id for broker in cluster.brokers}
        leader = next(broker.broker_id for broker in cluster.brokers if broker.leadership.is_leader())
        service_url = str(cluster.brokers[0].urls.broker_url)
        topics = [f"persistent://public/ns/orders-{number}" for number in range(TOPICS)]
        flow = await asyncio.to_thread(NumberedFlow, service_url, topics)
        supervisor = asyncio.create_task(restarts.run())
        words = ("--url", str(cluster.brokers[0].urls.web_url), "--restart-with", HOOK, "--per-minute", "6000")
        try:
            shown = await roll(*words)
            assert "nothing is done without --yes" in shown.output
            assert not Path("roll.journal").exists()
            await kill_in_hook(tmp_path, *words, "--yes")
            done = await roll(*words, "--yes", "--json")
            assert done.exit_code == 0, done.output
        finally:
            supervisor.cancel()
            lost = await asyncio.to_thread(flow.close)
        assert lost == {}
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"kind"')]  # logs too
        assert "the roll goes on" in lines[0]["text"]
        assert lines[-1]["state"] == "finished"
        order = Path("restarts").read_text().split()
        assert sorted(order) == sorted(brokers)
        assert order[-1] == leader
        journal = [json.loads(line) for line in Path("roll.journal").read_text().splitlines()]
        details = [entry["detail"] for entry in journal if entry["event"] == "settled"]
        assert len(details) == len(brokers)
        assert all("at the leader" in detail for detail in details)
        assert (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values")).json == {}
        for broker in cluster.brokers:
            path = "/admin/v2/brokers/configuration/runtime"
            in_force = (await cluster.expect(200, "GET", path, at=broker)).json
            assert {in_force[key] for key in PAUSED_KEYS} == {"true"}
        assert len(await owners(cluster)) == BUNDLES
        moves = [json.loads(line) for line in Path("roll.moves.journal").read_text().splitlines()]
        served = [move["bundle"] for move in moves if move["state"] == "served"]
        assert set(served) == set(await owners(cluster))
        assert max(served.count(bundle) for bundle in served) <= 3
        assert lines[-1]["moves"] == len(served)
        print(f"longest gap {flow.gap_s:.2f} s, {len(served)} moves of {len(set(served))} bundles")
