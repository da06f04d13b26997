"""A SQLite file that is removed or replaced while stores use it: sessions end, and nothing more is written."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_barycenter.metadata.errors import MetadataError, SessionLostError, StoreFileError
from pulsar_barycenter.metadata.open import data_checks
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import SessionEvent
from support.metadata_backends import Heard, eventually


def remove_all(path: Path) -> None:
    for each in path.parent.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def remove_file(path: Path) -> None:
    path.unlink()


def remove_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def restore_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def remove_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.parametrize("lose", [remove_all, remove_file, remove_log, restore_copy, remove_folder])
async def test_a_lost_file_ends_the_sessions_and_takes_no_writes(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "metadata.sqlite"
    stores = [await SqliteStore.open(path, session_timeout_ms=60_000) for _ in range(2)]
    events = [Heard.session_events(store) for store in stores]
    await stores[0].put("/before", b"1")
    (check,) = data_checks(f"sqlite:{path}")
    assert check() is None
    lose(path)
    for store, heard in zip(stores, events, strict=True):
        await eventually(lambda heard=heard: SessionEvent.SESSION_LOST in heard.told)
        with pytest.raises((StoreFileError, SessionLostError)):
            await store.put("/after", b"1")
        with pytest.raises(StoreFileError) as caught:
            await store.get("/before")
        assert str(path) in str(caught.value)
    if lose is not remove_log:
        fault = check()
        assert fault is not None
        assert fault.is_final
    for store in stores:
        async with asyncio.timeout(20):
            await store.close()


async def test_other_stores_have_no_file_that_could_go() -> None:
    for url in ("memory:one", "zk:127.0.0.1:2181", "etcd:http://127.0.0.1:2379"):
        assert data_checks(url) == ()


def test_the_error_is_one_of_the_store() -> None:
    assert issubclass(StoreFileError, MetadataError)
