"""A client for Node without native code, `pulsar-flex`, against a cluster of ours: one program, run once for each
feature.

Apache Pulsar's own client for Node is a binding of the C++ client, whose binary its package fetches when it is
installed.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.feature_programs import documented_features, run_feature
from support.maven import PeerUnavailableError
from support.node_programs import installed, node
from support.running_cluster import running_cluster

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.full_form,
    pytest.mark.xdist_group("client for Node"),
]

SOURCES = Path(__file__).parent / "node"
FEATURES = re.findall(r"^  (\w+): async", (SOURCES / "main.js").read_text(), re.MULTILINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def urls(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, str]]:
    """The address and the HTTP URL of a cluster of one broker."""
    async with running_cluster(tmp_path_factory.mktemp("node"), brokers=1) as (cluster, _):
        broker = cluster.brokers[0]
        yield broker.service_url.removeprefix("pulsar://"), broker.web_url


def test_the_documents_name_the_features() -> None:
    assert sorted(documented_features("A client for Node")) == sorted(FEATURES)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_client_for_node_has(feature: str, urls: tuple[str, str]) -> None:
    try:
        program = installed(SOURCES) / "main.js"
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    await run_feature(node(), str(program), feature, *urls, f"persistent://public/default/node-{feature}")
