"""One JVM with Pulsar's classes at a time for all peer tests: first of the version that is followed unless asked
otherwise, then of the other one."""

from collections.abc import Iterator

import pytest

from pulsar_barycenter.config.pulsar_version import VERSIONS
from support.maven import PeerUnavailableError
from support.pulsar_peer import PulsarPeer, newest_that_runs


@pytest.fixture(scope="session", params=VERSIONS)
def peer(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PulsarPeer]:
    wanted = request.config.getoption("--peer-version")
    if wanted == "newest":
        wanted = newest_that_runs()
    if wanted not in ("both", request.param):
        pytest.skip(f"it is asked of {wanted}; --peer-version both asks the other, too")
    try:
        started = PulsarPeer.start(tmp_path_factory.mktemp("peer"), request.param)
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


@pytest.fixture(scope="session")
def complete_peer(
    peer: PulsarPeer, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[PulsarPeer]:
    """Pulsar of the same line in jars of one version, for questions that the newest cannot answer without all of its
    own."""
    if peer.line == "4.x":
        yield peer
        return
    started = PulsarPeer.start(tmp_path_factory.mktemp("peer"), peer.line, complete=True)
    yield started
    started.close()


@pytest.fixture(scope="session")
def cases(peer: PulsarPeer, request: pytest.FixtureRequest) -> int:
    """How many random cases each test draws."""
    return int(request.config.getoption("--peer-cases"))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """From what the cases are drawn."""
    return int(request.config.getoption("--peer-seed"))
