"""Fixtures that the contract suites share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder import ledger_files
from pulsar_barycenter.metadata.store import MetadataStore
from support.compacted_topic import There, flip_last
from support.leased_backend import InLeased
from support.ledger_world import LedgerWorld
from support.ledgers_on_bookies import world_on_bookies
from support.metadata_backends import BACKENDS, Backend, Timed, open_backend
from support.ownership_places import PLACES, Play, play_at


@pytest.fixture(params=PLACES)
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a scenario at one of the locations of ownership records."""
    return lambda scenario: play_at(request.param, scenario)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on each store; leased sessions have no guard but the leader's epoch."""
    if "backend" in metafunc.fixturenames:
        of_sessions = metafunc.module.__name__.endswith("test_metadata_store")
        metafunc.parametrize("backend", [*BACKENDS, *(["leased", "timed"] if of_sessions else [])], indirect=True)


@pytest.fixture
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """A metadata store of each kind."""
    if request.param == "leased":
        leased = InLeased()
        yield leased
        await leased.close()
    elif request.param == "timed":
        timed = Timed(tmp_path)
        yield timed
        await timed.close()
    else:
        async with open_backend(request.param, tmp_path) as backend:
            yield backend


@pytest.fixture
async def store(backend: Backend) -> MetadataStore:
    """A client of `backend`."""
    return await backend.connect()


@pytest.fixture(params=["memory", "file", "bookies"])
async def there(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[There]:
    """A ledger storage of each kind, and what a test of compaction reads and damages there."""
    if request.param == "bookies":
        async with world_on_bookies() as on_bookies:
            yield There(on_bookies, on_bookies.ledger_ids, on_bookies.lose)
        return
    if request.param == "memory":
        world = LedgerWorld()
        place = There(world, lambda: world.disk.ledger_ids, lambda position: world.disk.damage(*position))
    else:
        root = tmp_path / "ledgers"
        world = LedgerWorld(lambda: FileLedgerStorage(root))
        place = There(world, lambda: set(dict(ledger_files(str(root)))), lambda position: flip_last(root, position))
    yield place
    await world.close()
