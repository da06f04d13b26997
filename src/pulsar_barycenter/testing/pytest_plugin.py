"""A plug-in of pytest: clusters as fixtures.

| fixture | scope | what it is |
|---|---|---|
| `barycenter` | session | a `Cluster` of one broker that all tests of a worker share |
| `barycenter_cluster` | function | a `Cluster` for one test, by the marker `barycenter` |

The marker takes the arguments of `Cluster`: `@pytest.mark.barycenter(brokers=3, config={"…": "…"})`. With
`--barycenter-keep` the data folders, with the logs of the brokers, stay below pytest's temporary folder. Under
pytest-xdist each worker has clusters of its own.

pytest loads this module in each of its runs, so it imports a cluster only when a test asks for one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pulsar_barycenter.testing.cluster import Cluster

_MARKER = (
    "barycenter(brokers=1, config=None, data=None, pipeline=False, in_process=False, broker_port=0, web_port=0): "
    "the cluster that `barycenter_cluster` starts"
)
_ARGUMENTS = frozenset({"brokers", "config", "data", "pipeline", "in_process", "broker_port", "web_port"})
_KEPT = pytest.StashKey[list[Path]]()
_WORKER_KEY = "barycenter_kept"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("barycenter", "Barycenter, a Pulsar-compatible cluster")
    group.addoption(
        "--barycenter-keep",
        action="store_true",
        help="keep data folders and logs of clusters, and print where they are",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    config.stash[_KEPT] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Called by pytest at the end of a session. In a worker of pytest-xdist, send the paths of the data folders that
    `--barycenter-keep` keeps to the main process, because a worker's summary is not shown.
    """
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_WORKER_KEY] = [str(folder) for folder in session.config.stash[_KEPT]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Called by pytest-xdist in the main process when a worker has ended. Add the paths of the data folders that the
    worker has kept to those of the main process; a worker that crashed sends none.
    """
    node.config.stash[_KEPT] += map(Path, getattr(node, "workeroutput", {}).get(_WORKER_KEY, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for folder in config.stash[_KEPT]:
        terminalreporter.write_line(f"barycenter: data and logs of a cluster are in {folder}")


@pytest.fixture(scope="session")
def barycenter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """A cluster of one broker that the tests of a session share; each test should use topic names of its own."""
    with _cluster(request, tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture
def barycenter_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """A cluster for one test; the marker `barycenter` has the arguments of `Cluster`."""
    marker = request.node.get_closest_marker("barycenter")
    if marker is not None and (marker.args or not marker.kwargs.keys() <= _ARGUMENTS):
        pytest.fail(f"the marker barycenter takes, by name: {', '.join(sorted(_ARGUMENTS))}", pytrace=False)
    with _cluster(request, tmp_path_factory, **(marker.kwargs if marker else {})) as cluster:
        yield cluster


def _cluster(request: pytest.FixtureRequest, folders: pytest.TempPathFactory, **arguments: Any) -> "Cluster":
    from pulsar_barycenter.testing.cluster import Cluster

    if request.config.getoption("--barycenter-keep") and "data" not in arguments:
        folder: Path = folders.mktemp("barycenter")
        request.config.stash[_KEPT].append(folder)
        arguments["data"] = folder
    return Cluster(**arguments)
