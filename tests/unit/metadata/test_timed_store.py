"""Every operation of a store is timed, whatever its outcome."""

from pathlib import Path

import pytest

from pulsar_barycenter.metadata.errors import NotFoundError
from support.metadata_backends import Timed


async def test_each_operation_is_told_once_and_one_that_fails_too(tmp_path: Path) -> None:
    backend = Timed(tmp_path)
    store = await backend.connect()
    await store.put("/a", b"1")
    await store.get("/a")
    await store.exists("/a")
    await store.children("/")
    await store.delete("/a")
    with pytest.raises(NotFoundError):
        await store.delete("/a")
    assert backend.operations == ["put", "get", "exists", "children", "delete", "delete"]
    await backend.close()
