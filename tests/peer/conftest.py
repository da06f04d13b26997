"""One JVM with Pulsar's classes for all peer tests."""

from collections.abc import Iterator

import pytest

from support.maven import PeerUnavailableError
from support.pulsar_peer import PulsarPeer


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PulsarPeer]:
    try:
        started = PulsarPeer.start(tmp_path_factory.mktemp("peer"))
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


@pytest.fixture(scope="session")
def cases(request: pytest.FixtureRequest) -> int:
    """How many random cases each test draws."""
    return int(request.config.getoption("--peer-cases"))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """From what the cases are drawn."""
    return int(request.config.getoption("--peer-seed"))
