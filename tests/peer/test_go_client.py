"""Apache Pulsar's client for Go against a cluster of ours: one program of ours in Go, run once for each feature."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.feature_programs import documented_features, run_feature
from support.go_programs import built
from support.maven import PeerUnavailableError
from support.running_cluster import running_cluster

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.full_form,
    pytest.mark.xdist_group("client for Go"),
]

SOURCES = Path(__file__).parent / "go"
FEATURES = re.findall(r'^\t"(\w+)": ', (SOURCES / "main.go").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return built(SOURCES)
    except PeerUnavailableError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def urls(program: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, str]]:
    """The service URL and the HTTP URL of a cluster of two brokers."""
    async with running_cluster(tmp_path_factory.mktemp("go"), brokers=2) as (cluster, _):
        yield cluster.brokers[0].service_url, cluster.brokers[0].web_url


def test_the_documents_name_the_features() -> None:
    assert sorted(documented_features("The client for Go")) == sorted(FEATURES)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_client_for_go_has(feature: str, program: Path, urls: tuple[str, str]) -> None:
    await run_feature(str(program), feature, *urls, f"persistent://public/default/go-{feature}")
