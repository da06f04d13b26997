"""Java clients with transactions end at once with an error, although they may wait for an hour."""

import asyncio
import os
from pathlib import Path

import pytest

from pulsar_barycenter.broker.errors import NO_TRANSACTIONS
from support.admin_tool import VERSIONS, tool_class_path
from support.maven import PeerUnavailableError
from support.running_cluster import running_cluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

SOURCE = Path(__file__).parents[1] / "support" / "java" / "TransactionLines.java"
DEADLINE_S = 120


async def told(version: str, urls: tuple[str, ...]) -> list[str]:
    """Return what the client of a version says of each URL."""
    try:
        java, jars = await asyncio.to_thread(tool_class_path, version)
    except PeerUnavailableError as error:
        pytest.fail(str(error))
    quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    process = await asyncio.create_subprocess_exec(
        *(java, *quick, "-cp", os.pathsep.join(jars), str(SOURCE), *urls),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = printed.decode(errors="replace").splitlines()
    return [line.removeprefix("answer ") for line in lines if line.startswith("answer ")]


async def test_a_client_with_transactions_is_refused_for_good(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it starts a JVM for each version; make peer runs it")
    async with running_cluster(tmp_path, brokers=1) as (cluster, _):
        broker = cluster.brokers[0]
        for version in VERSIONS:
            binary, http = await told(version, (broker.service_url, broker.web_url))
            assert "NotAllowedException" in binary, (version, binary)
            assert NO_TRANSACTIONS in binary, (version, binary)
            # This client does not show the sentence of an answer to an HTTP look-up, but has one for 0 coordinators.
            assert "The broker doesn't enable the transaction coordinator" in http, (version, http)
