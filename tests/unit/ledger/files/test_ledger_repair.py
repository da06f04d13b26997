"""Repairing a ledger's file: interruptions lose nothing; absent files, old files, failing disks."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerFolderInUseError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.examine import read_exactly
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder import exclusive, ledger_path
from pulsar_barycenter.ledger.files.repair import FileState, inspect, repair
from support.broker_data import LEDGERS, OF_VERSION_1


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The ledgers of a kept folder of version 1: ledger 1 has the entries b"", b"one", 256 bytes, b"333…"."""
    shutil.copytree(OF_VERSION_1 / LEDGERS, tmp_path / "ledgers")
    return str(tmp_path / "ledgers")


def flip(path: str, offset: int) -> None:
    data = bytearray(Path(path).read_bytes())
    data[offset] ^= 0x10
    Path(path).write_bytes(data)


class _CutShort(BaseException):
    pass


@pytest.mark.parametrize("step", ["write", "fsync", "link", "replace"])
def test_a_repair_that_is_cut_short_loses_nothing(root: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any of its steps, the ledger's file is the damaged one, and the next repair is as the first."""
    path = ledger_path(root, 1)
    flip(path, fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    damaged = Path(path).read_bytes()

    def cut(*_: object, **__: object) -> None:
        raise _CutShort

    found = inspect(root, 1, 4)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, cut)
        patched.setattr(os, "unlink", lambda _path: None)  # as a process that is killed tidies nothing
        with pytest.raises(_CutShort):
            repair(found, epoch=3)
    assert Path(path).read_bytes() == damaged
    kept = repair(inspect(root, 1, 4), epoch=3)
    assert kept == path + ".damaged"
    assert Path(kept).read_bytes() == damaged
    after = inspect(root, 1, 4)
    assert (after.state, after.readable, after.found.gone) == (FileState.WHOLE, [(0, 0), (2, 3)], [(1, 1)])
    assert sorted(os.listdir(os.path.dirname(path)))[:2] == [os.path.basename(path), os.path.basename(kept)]


def test_damage_that_comes_again_keeps_both_files(root: str) -> None:
    path = ledger_path(root, 1)
    flip(path, fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE)
    repair(inspect(root, 1, 4), epoch=3)
    flip(path, os.path.getsize(path) - 1)
    assert repair(inspect(root, 1, 4), epoch=3) == path + ".damaged-2"
    after = inspect(root, 1, 4)
    assert (after.state, after.readable, after.found.gone) == (FileState.WHOLE, [(0, 0), (2, 2)], [(1, 1), (3, 3)])


@pytest.mark.parametrize("content", [None, b"", b"no ledger" * 30])
def test_an_absent_ledger_becomes_one_whose_entries_are_gone(root: str, content: bytes | None) -> None:
    """So the topic is read on after it; nothing that was in its place is lost."""
    path = Path(ledger_path(root, 1))
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    found = inspect(root, 1, 4)
    assert found.state is (FileState.MISSING if content is None else FileState.UNREADABLE)
    assert (found.lost, found.readable) == ([(0, 3)], [])
    kept = repair(found, epoch=3)
    assert (None if kept is None else Path(kept).read_bytes()) == content
    after = inspect(root, 1, 4)
    assert (after.state, after.found.gone, len(after.found.index)) == (FileState.WHOLE, [(0, 3)], 4)


def test_what_is_repaired_is_for_its_owner_alone(root: str) -> None:
    flip(ledger_path(root, 1), 0)
    repair(inspect(root, 1, 4), epoch=3)
    assert os.stat(ledger_path(root, 1)).st_mode & 0o777 == 0o600


async def test_brokers_and_repairs_keep_each_other_out(root: str) -> None:
    first, second = FileLedgerStorage(root), FileLedgerStorage(root)
    with (
        pytest.raises(LedgerFolderInUseError, match="a broker uses these ledgers; stop the broker first"),
        exclusive(root),
    ):
        pass
    await first.close()
    with pytest.raises(LedgerFolderInUseError), exclusive(root):
        pass
    await second.close()
    with exclusive(root), pytest.raises(LedgerFolderInUseError, match="checked or repaired"):
        FileLedgerStorage(root)
    await FileLedgerStorage(root).close()


def test_blocks_that_the_disk_does_not_give_are_read_as_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad sector fails a whole read; its neighbours are had block by block."""
    file = tmp_path / "file"
    file.write_bytes(bytes([1]) * 4096 + bytes([2]) * 4096 + bytes([3]) * 100)
    pread = os.pread

    def failing(descriptor: int, length: int, offset: int) -> bytes:
        if offset < 8192 and offset + length > 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, length, offset)

    descriptor = os.open(file, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "pread", failing)
        assert read_exactly(descriptor, 0, 1 << 20) == bytes([1]) * 4096 + bytes(4096) + bytes([3]) * 100
        assert read_exactly(descriptor, 8192, 50) == bytes([3]) * 50
    finally:
        os.close(descriptor)
