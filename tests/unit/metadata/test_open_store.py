"""Stores by URL."""

import sys

import pytest

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from support.metadata_backends import InEtcd, InOxia


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


async def test_an_etcd_url_names_its_servers(tmp_path):
    backend = InEtcd(tmp_path)
    store = await open_store(f"etcd:{backend.url}", session_timeout_ms=2000)
    assert isinstance(store, EtcdStore)
    await store.close()


async def test_an_oxia_url_names_a_server_and_a_namespace(tmp_path):
    backend = InOxia(tmp_path)
    store = await open_store(backend.store_url, session_timeout_ms=2000)
    assert isinstance(store, OxiaStore)
    await store.close()


async def test_what_is_wrong_with_an_etcd_url_or_its_file_is_told(tmp_path):
    for url, file, why in (
        ("etcd:localhost:2379", "", "expected etcd:http"),
        ("etcd:http://localhost:1", str(tmp_path / "none"), "cannot be read"),
        ("oxia:localhost:6648", "", "expected oxia://HOST"),
        ("oxia://localhost:1", str(tmp_path / "none"), "cannot be read"),
    ):
        with pytest.raises(StoreSettingsError, match=why):
            await open_store(url, config_path=file)


async def test_a_library_that_is_not_there_is_named(monkeypatch):
    """The program then names the extra that installs it."""
    for module in (
        "grpc",
        "pulsar_barycenter.metadata.etcd.etcd_store",
        "pulsar_barycenter.metadata.etcd.etcd_connection",
    ):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ModuleNotFoundError, match="grpc") as missed:
        await open_store("etcd:http://localhost:1")
    assert missed.value.name == "grpc"


@pytest.mark.parametrize(
    "url", ["", "sqlite", "sqlite:", "zk:", "zk:localhost", "localhost", "zk:h:1,,h:2", "/a/path", "memory"]
)
async def test_other_urls_are_refused_by_name(url):
    with pytest.raises(UnknownStoreError, match="sqlite:PATH or memory:NAME"):
        await open_store(url)
