"""The clusters: each is started once, for all files of this folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.apache_pulsar import EXTENSIBLE, MODULAR, ApachePulsar, apache_pulsar
from support.apache_pulsar_clients import SECURED
from support.maven import PeerUnavailableError

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the tests of this folder together, in whichever order files come: the clusters end with the last of them.

    The very last is the one that leaves its cluster without brokers, so that these need not be started again. It is
    here that the order is made, as --new-first makes its own after all that `pytest_collection_modifyitems` does.
    """
    items = session.items
    here = [item for item in items if HERE in item.path.parents]
    if here:
        first = items.index(here[0])
        rest = [item for item in items[first:] if HERE not in item.path.parents]
        here.sort(key=lambda item: "last_of_modular" in getattr(item, "fixturenames", ()))
        items[first:] = [*here, *rest]


@contextmanager
def started(request: pytest.FixtureRequest, folder: Path, configuration: Mapping[str, str]) -> Iterator[ApachePulsar]:
    try:
        cluster = apache_pulsar(folder, configuration=configuration)
        with cluster as running:
            yield running
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def modular(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    keys = SECURED | {"loadManagerClassName": MODULAR}
    with started(request, tmp_path_factory.mktemp("modular"), keys) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def extensible(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    with started(request, tmp_path_factory.mktemp("extensible"), {"loadManagerClassName": EXTENSIBLE}) as cluster:
        yield cluster


@pytest.fixture(params=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest) -> Iterator[ApachePulsar]:
    """Each of both; what its processes print is shown with a failure."""
    found: ApachePulsar = request.getfixturevalue(request.param)
    yield found
    print(found.logs())


@pytest.fixture
def last_of_modular(modular: ApachePulsar) -> Iterator[ApachePulsar]:
    """For the one test that may leave its cluster as it likes: all others of this folder run before it."""
    yield modular
    print(modular.logs())
