"""Pulsar 5.0.1's own tools and its Java clients, by the v4 API and the V5 API, on ordinary topics of brokers of ours.

In each case a tool produces, and others consume the same messages.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from support.admin_tool import tool_class_path
from support.apache_pulsar_5 import VERSION as VERSION_5
from support.running_cluster import running_cluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

COUNT = "50"
CLIENT = "org.apache.pulsar.client.cli.PulsarClientTool"
PERF = "org.apache.pulsar.testclient.PulsarPerfTestTool"
DEADLINE_S = 120


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a tool, and what it says when it worked."""

    tool: str
    words: tuple[str, ...]
    said: str


ROOT = "persistent://public/default"
CASES: dict[str, tuple[Run, ...]] = {
    "pulsar-client": (
        Run(
            CLIENT, ("produce", "-n", COUNT, "-m", "a message", f"{ROOT}/c"), f"{COUNT} messages successfully produced"
        ),
        Run(CLIENT, ("consume", "-n", COUNT, "-s", "s", "-p", "Earliest", f"{ROOT}/c"), "a message"),
        Run(CLIENT, ("read", "-n", COUNT, "-m", "earliest", f"{ROOT}/c"), "a message"),
    ),
    **{
        f"pulsar-perf, {api} API, {topic} topic": (
            Run(PERF, ("produce", "-m", COUNT, "-r", "1000", "--client-api", api, f"{ROOT}/{topic}"), "Aggregated"),
            Run(
                PERF,
                ("consume", "-m", COUNT, "-ss", f"of {api}", "-sp", "Earliest", "--client-api", api, f"{ROOT}/{topic}"),
                "Aggregated throughput stats",
            ),
        )
        for api in ("V4", "V5")
        for topic in ("plain", "partitioned")
    },
}
"""Runs of tools one after the other, by their name in the table."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    async with running_cluster(tmp_path_factory.mktemp("clients"), brokers=1) as (cluster, admin):
        await admin.expect(204, "PUT", "/admin/v2/persistent/public/default/partitioned/partitions", json=3)
        yield cluster.brokers[0].service_url


async def ran(tool: str, words: tuple[str, ...], service_url: str, folder: Path) -> tuple[int | None, str]:
    """Return how a tool ended and what it printed."""
    java, jars = tool_class_path(VERSION_5)
    conf = folder / "client.conf"
    conf.write_text(f"brokerServiceUrl={service_url}\nwebServiceUrl=http://localhost:1\n")
    options = ("-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    command = (java, *options, "-cp", os.pathsep.join(jars), tool, str(conf), *words)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    except TimeoutError:
        process.kill()
        printed, _ = await process.communicate()
    return process.returncode, printed.decode(errors="replace")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.asyncio(loop_scope="module")
async def test_tools_work_on_an_ordinary_topic(case: str, service_url: str, tmp_path: Path) -> None:
    for run in CASES[case]:
        ended, printed = await ran(run.tool, run.words, service_url, tmp_path)
        assert run.said in printed, f"{run.words} ended with {ended}: {printed[-3_000:]}"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_scalable_topic_is_refused_with_a_sentence(service_url: str, tmp_path: Path) -> None:
    words = ("produce", "-m", COUNT, "--client-api", "V5", "topic://public/default/wide")
    _, printed = await ran(PERF, words, service_url, tmp_path)
    assert "Scalable topics are not served by this cluster: use a topic whose name begins" in printed, printed[-3_000:]
