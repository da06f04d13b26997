"""Stores by URL."""

import pytest

from barycenter.metadata.memory.memory_store import MemoryStore
from barycenter.metadata.open import UnknownStoreError, open_store
from barycenter.metadata.sqlite.sqlite_store import SqliteStore


async def test_a_sqlite_url_names_a_file(tmp_path):
    store = await open_store(f"sqlite:{tmp_path}/metadata.db", session_timeout_ms=2000)
    assert isinstance(store, SqliteStore)
    await store.close()
    assert (tmp_path / "metadata.db").exists()


async def test_a_memory_url_names_what_is_shared_while_it_is_open():
    one, same, other = [await open_store(f"memory:{name}") for name in ("shared", "shared", "other")]
    assert isinstance(one, MemoryStore)
    await one.put("/key", b"")
    assert await same.exists("/key")
    assert not await other.exists("/key")
    for store in (one, same, other):
        await store.close()


@pytest.mark.parametrize("url", ["", "sqlite", "sqlite:", "zk:localhost:2181", "/a/path", "memory"])
async def test_other_urls_are_refused_by_name(url):
    with pytest.raises(UnknownStoreError, match="sqlite:PATH or memory:NAME"):
        await open_store(url)
