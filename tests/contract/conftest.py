"""What contract suites have in common."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from barycenter.metadata.store import MetadataStore
from support.metadata_backends import BACKENDS, Backend, open_backend
from support.ownership_places import PLACES, Play, play_at


@pytest.fixture(params=PLACES)
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a scenario at one of the places of ownership records."""
    return lambda scenario: play_at(request.param, scenario)


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """A metadata store of each kind."""
    async with open_backend(request.param, tmp_path) as backend:
        yield backend


@pytest.fixture
async def store(backend: Backend) -> MetadataStore:
    """A client of `backend`."""
    return await backend.connect()
