"""An opening that is cancelled: nothing is created after it."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore


@pytest.mark.parametrize("turns", [1, 2, 3, 10])
async def test_once_an_opening_was_cancelled_its_thread_is_gone_and_makes_no_files(tmp_path: Path, turns: int) -> None:
    """A folder that is removed then, as by a cluster with an ephemeral one, stays removed."""
    folder = tmp_path / "data"
    folder.mkdir()
    opening = asyncio.create_task(SqliteStore.open(folder / "metadata.sqlite"))
    for _ in range(turns):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait({opening})
    assert [each.name for each in threading.enumerate() if each.name.startswith("metadata ")] == []
    if opening.cancelled():
        shutil.rmtree(folder, ignore_errors=True)
        assert not folder.exists()
    else:
        await opening.result().close()
