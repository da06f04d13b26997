"""Java clients with transactions end at once with an error, although they may wait for an hour."""

from pathlib import Path

import pytest

from pulsar_barycenter.broker.errors import NO_TRANSACTIONS
from support.admin_tool import VERSIONS, run_source
from support.maven import PeerUnavailableError
from support.running_cluster import running_cluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("apache pulsar")]

SOURCE = Path(__file__).parents[1] / "support" / "java" / "TransactionLines.java"
DEADLINE_S = 120


async def told(version: str, urls: tuple[str, ...]) -> list[str]:
    """Return what the client of a version says of each URL."""
    try:
        printed = await run_source(version, SOURCE, *urls, within_s=DEADLINE_S)
    except PeerUnavailableError as error:
        pytest.fail(str(error))
    return [line.removeprefix("answer ") for line in printed.splitlines() if line.startswith("answer ")]


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
