"""Brokers of one cluster use one folder of ledgers, and a broker that finds another reports it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.folder_identity import (
    FOLDER_KEY,
    IDENTITY,
    check_one_folder,
    create_identity,
    identity_of,
)
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    store = await open_store(f"memory:{tmp_path}")
    yield store
    await store.close()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    for name in ("shared", "own"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "shared"), str(tmp_path / "own")


async def test_the_first_broker_decides_and_another_folder_is_refused(
    store: MetadataStore, folders: tuple[str, str]
) -> None:
    shared, own = folders
    await check_one_folder(store, shared)
    await check_one_folder(store, shared)
    with pytest.raises(LedgerFolderUnfitError, match="brokers of this metadata store use another folder"):
        await check_one_folder(store, own)
    assert identity_of(own) is None, "nothing is written into a folder that is refused"
    create_identity(own)
    with pytest.raises(LedgerFolderUnfitError, match=FOLDER_KEY):
        await check_one_folder(store, own)
    expected = await store.get(FOLDER_KEY)
    assert expected is not None
    (Path(own) / IDENTITY).write_bytes(expected.value)  # as the error says
    await check_one_folder(store, own)


async def test_brokers_that_come_at_once_agree(store: MetadataStore, folders: tuple[str, str]) -> None:
    shared, own = folders
    await asyncio.gather(*(check_one_folder(store, shared) for _ in range(5)))
    found = await store.get(FOLDER_KEY)
    assert found is not None
    assert found.value.decode() == identity_of(shared)
    given = await asyncio.gather(*(asyncio.to_thread(create_identity, own) for _ in range(8)))
    assert len(set(given)) == 1
    assert [path.name for path in Path(own).iterdir()] == [IDENTITY]


async def test_a_name_that_is_none_is_told(store: MetadataStore, folders: tuple[str, str]) -> None:
    (Path(folders[0]) / IDENTITY).write_text("mine")
    with pytest.raises(LedgerError, match="does not contain 32 hexadecimal digits"):
        await check_one_folder(store, folders[0])
