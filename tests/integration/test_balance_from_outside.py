"""`barycenter balance` as it is typed, beside a cluster of three brokers under a stock client's traffic."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.balancer.shedding_switch import SHEDDING_KEY
from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.numbered_flow import NumberedFlow
from support.running_cluster import QUICK, Admin, eventually, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster")]

NAMESPACE, BUNDLES, TOPICS = "public/busy", 6, 12
SHEDDING = {"loadBalancerSheddingEnabled": "true", "loadBalancerSheddingIntervalMinutes": "60"}
"""The cluster's own shedding is on, and does not run within a test."""
AT_ONCE = (
    *("--strategy", "UniformLoadShedder", "--set", "minUnloadMessage=1", "--set", "minUnloadMessageThroughput=1"),
    *("--interval", "1", "--per-minute", "600", "--quiet", "1"),
)
"""A strategy without patience: it decides on the first report."""


class Balancer:
    """A running `barycenter balance`, and the records that it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.records: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.records.append(json.loads(line))

    async def ended(self, status: int = 0) -> str:
        """Wait for its end; return what it printed to standard error."""
        assert self.process.stderr is not None
        told = (await self.process.stderr.read()).decode()
        assert await self.process.wait() == status, told
        await self._reading
        return told

    async def state(self, wanted: str) -> None:
        async def holds() -> bool:
            assert self.process.returncode is None, self.records[-3:]
            return any(record["state"] == wanted for record in self.records)

        await eventually(holds, within_s=60, what=f"the state {wanted}")


@asynccontextmanager
async def balancing(cluster: StandaloneCluster, state: Path, *words: str) -> AsyncIterator[Balancer]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "balance", "--url", cluster.brokers[0].web_url),
        *("--state", str(state), "--json", *AT_ONCE, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "400"},
    )
    try:
        yield Balancer(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def busy(folder: Path, **configuration: str) -> AsyncIterator[tuple[StandaloneCluster, Admin, NumberedFlow]]:
    """Run a cluster whose bundles with traffic are all on one broker; nothing may be lost."""
    configuration = {**QUICK, **SHEDDING, "statsUpdateFrequencyInSecs": "1", **configuration}
    async with running_cluster(folder, configuration=configuration) as (cluster, admin):
        await admin.create_namespace(NAMESPACE, BUNDLES)
        topics = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(TOPICS)]
        first = (await admin.owner(topics[0])).broker_id
        for topic in topics:
            path = f"/admin/v2/namespaces/{NAMESPACE}/{await admin.bundle_range(topic)}/unload"
            if (await admin.owner(topic)).broker_id != first:
                await admin.expect(204, "PUT", f"{path}?destinationBroker={first}")
            assert (await admin.owner(topic)).broker_id == first
        flow = await asyncio.to_thread(NumberedFlow, cluster.service_url, topics)
        try:
            await asyncio.to_thread(flow.wait_for_more, 20)
            yield cluster, admin, flow
            await asyncio.to_thread(flow.wait_for_more, 20)
        finally:
            lost = await asyncio.to_thread(flow.close)
    assert lost == {}


async def shedding(admin: Admin) -> tuple[set[str], str | None]:
    """The value in force on every broker, and the override."""
    values = set()
    for broker in range(3):
        settings = await admin.expect(200, "GET", "/admin/v2/brokers/configuration/runtime", broker=broker)
        values.add(settings[SHEDDING_KEY])
    overrides = await admin.expect(200, "GET", "/admin/v2/brokers/configuration/values")
    return values, overrides.get(SHEDDING_KEY)


async def owners(admin: Admin) -> Mapping[str, str]:
    found = {}
    for number in range(TOPICS):
        topic = f"persistent://{NAMESPACE}/orders-{number}"
        found[topic] = (await admin.owner(topic)).broker_id
    return found


async def test_observe_says_what_it_would_move_and_changes_nothing(tmp_path: Path) -> None:
    async with busy(tmp_path / "data") as (cluster, admin, _):
        before = await owners(admin), await shedding(admin)
        async with balancing(cluster, tmp_path / "state", "--rounds", "6") as balancer:
            await balancer.ended()
        assert (await owners(admin), await shedding(admin)) == before
    decided = [move for record in balancer.records for move in record.get("decided", ())]
    score = balancer.records[-1]["score"]
    assert decided
    assert {move["source"] for move in decided} == set(before[0].values())
    assert score["cluster"]["moves"] == 0
    assert score["ours"]["moves"] == len(decided)
    bundles = [move["bundle"] for move in decided]
    assert len(bundles) == len(set(bundles)), "a bundle stays where it would be for its grace"


async def test_act_takes_over_moves_and_gives_back(tmp_path: Path) -> None:
    async with busy(tmp_path / "data") as (cluster, admin, flow):
        before = await shedding(admin)
        async with balancing(cluster, tmp_path / "state", "--mode", "act") as balancer:

            async def spread() -> bool:
                return len(set((await owners(admin)).values())) > 1

            await eventually(spread, within_s=60, what="bundles move")
            await asyncio.to_thread(flow.wait_for_more, 20)
            assert await shedding(admin) == ({"false"}, "false")
            balancer.process.send_signal(signal.SIGTERM)
            told = await balancer.ended()
        assert await shedding(admin) == before == ({"true"}, None)
    print(told, msgspec.json.encode(balancer.records[-1]))
    journal = [json.loads(line) for line in (tmp_path / "state" / "moves.journal").read_text().splitlines()]
    assert {entry["state"] for entry in journal} == {"begun", "served"}
