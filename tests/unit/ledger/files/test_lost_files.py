"""Ledgers whose folder or file is removed while they are written: nothing more is reported or created."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.ledger.errors import (
    LedgerError,
    LedgerFencedError,
    LedgerFolderLostError,
    LedgerNotFoundError,
)
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.storage import LedgerWriter

DEADLINE_S = 30


class Reports:
    """What a writer reported: the last durable entry, and the error."""

    def __init__(self) -> None:
        self.durable = -1
        self.error: LedgerError | None = None
        self._changed = asyncio.Event()

    def __call__(self, entry_id: int, error: LedgerError | None) -> None:
        if error is None:
            self.durable = entry_id
        else:
            self.error = error
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FileLedgerStorage]:
    storage = FileLedgerStorage(tmp_path / "ledgers", max_open_files=2)
    yield storage
    await storage.close()


async def begun(storage: FileLedgerStorage, ledger_id: int) -> tuple[LedgerWriter, Reports]:
    """Create a ledger with one durable entry."""
    reports = Reports()
    writer = await storage.create(ledger_id, epoch=1, on_durable=reports)
    writer.append(b"stored", 1, 0)
    await reports.until(lambda: reports.durable == 0)
    return writer, reports


def remove(root: Path) -> None:
    shutil.rmtree(root)


def empty(root: Path) -> None:
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace(root: Path) -> None:
    root.rename(root.with_name("moved"))
    shutil.copytree(root.with_name("moved"), root)


def remove_parent(root: Path) -> None:
    root.parent.rename(root.parent.with_name("moved"))


@pytest.mark.parametrize("lose", [remove, empty, replace, remove_parent])
async def test_of_a_folder_that_is_gone_nothing_more_is_reported(
    storage: FileLedgerStorage, lose: Callable[[Path], None]
) -> None:
    writer, reports = await begun(storage, 1)
    root = Path(storage.folder.root)
    assert storage.check() is None
    lose(root)
    fault = storage.check()
    assert fault is not None
    assert fault.is_final
    assert str(root) in fault.text
    writer.append(b"lost", 1, 0)
    await reports.until(lambda: reports.error is not None)
    assert isinstance(reports.error, LedgerFolderLostError)
    assert reports.durable == 0
    there = sorted(root.rglob("*"))
    with pytest.raises(LedgerFolderLostError):
        await storage.create(2, epoch=1, on_durable=Reports())
    assert sorted(root.rglob("*")) == there, "nothing is made in a folder that is not the one that was opened"
    assert storage.check() == fault, "also if the folder came back: what is open is not in it"


async def test_a_ledger_is_not_created_in_a_folder_that_is_gone_before_that_was_noticed(
    storage: FileLedgerStorage,
) -> None:
    root = Path(storage.folder.root)
    shutil.rmtree(root)
    with pytest.raises(LedgerFolderLostError):
        await storage.create(1, epoch=1, on_durable=Reports())
    assert not root.exists()


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_file_that_is_gone_fails_its_writer_alone(storage: FileLedgerStorage, is_replaced: bool) -> None:
    lost, lost_reports = await begun(storage, 1)
    kept, kept_reports = await begun(storage, 2)
    file = Path(storage.folder.path(1))
    if is_replaced:
        shutil.copy(file, file.with_name("copy"))
        file.with_name("copy").replace(file)
    else:
        file.unlink()
    with capture_logs() as events:
        assert storage.check() is None
        assert storage.check() is None
    assert [(event["event"], event["file"]) for event in events] == [("ledger_file_lost", str(file))]
    lost.append(b"lost", 1, 0)
    await lost_reports.until(lambda: lost_reports.error is not None)
    assert isinstance(lost_reports.error, LedgerNotFoundError)
    assert str(file) in str(lost_reports.error)
    kept.append(b"kept", 1, 0)
    await kept_reports.until(lambda: kept_reports.durable == 1)
    assert storage.check() is None


async def test_a_file_that_was_replaced_while_it_was_closed_is_not_written_into(storage: FileLedgerStorage) -> None:
    """Before anything looked: it is found when the file is opened again."""
    writer, reports = await begun(storage, 1)
    for other in (2, 3, 4):
        await begun(storage, other)  # so that the first one's file is closed
    file = Path(storage.folder.path(1))
    file.unlink()
    file.write_bytes(b"something else")
    writer.append(b"lost", 1, 0)
    await reports.until(lambda: reports.error is not None)
    assert str(file) in str(reports.error)
    assert file.read_bytes() == b"something else"


async def test_a_ledger_that_a_later_owner_deleted_is_no_loss(storage: FileLedgerStorage, tmp_path: Path) -> None:
    writer, reports = await begun(storage, 1)
    other = FileLedgerStorage(tmp_path / "ledgers")
    await other.fence(1, epoch=2)
    await other.delete(1)
    with capture_logs() as events:
        assert storage.check() is None
    assert events == []
    writer.append(b"too late", 1, 0)
    await reports.until(lambda: reports.error is not None)
    assert isinstance(reports.error, LedgerFencedError)
    await other.close()


async def test_own_deletions_are_no_loss(storage: FileLedgerStorage) -> None:
    writer, _ = await begun(storage, 1)
    await writer.close()
    await storage.delete(1)
    with capture_logs() as events:
        assert storage.check() is None
    assert events == []


async def test_a_group_that_was_being_synced_when_the_folder_went_is_not_reported(
    storage: FileLedgerStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder goes between the write and the report."""
    writer, reports = await begun(storage, 1)
    fdatasync = os.fdatasync

    def remove_meanwhile(descriptor: int) -> None:
        fdatasync(descriptor)
        shutil.rmtree(storage.folder.root)
        storage.check()

    monkeypatch.setattr(os, "fdatasync", remove_meanwhile)
    writer.append(b"lost", 1, 0)
    await reports.until(lambda: reports.error is not None)
    assert isinstance(reports.error, LedgerFolderLostError)
    assert reports.durable == 0
