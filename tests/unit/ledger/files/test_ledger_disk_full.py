"""A full disk: producers get an error, durable entries stay readable, and appends continue when there is space."""

import asyncio
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerFencedError, LedgerFullError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from support.ledger_world import LedgerWorld, Owner


@dataclass
class Quota:
    """Wraps the operating system's writes and lets this number of bytes pass; partly written groups included."""

    left: int = 1 << 40
    sync_fails: bool = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pwrite, fdatasync = os.pwrite, os.fdatasync

        def limited_pwritev(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
            data = b"".join(buffers)
            if self.left <= 0 < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = pwrite(descriptor, data[: self.left], offset)
            self.left -= written
            return written

        def limited_fdatasync(descriptor: int) -> None:
            if self.sync_fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fdatasync(descriptor)

        monkeypatch.setattr(os, "pwritev", limited_pwritev)
        monkeypatch.setattr(os, "fdatasync", limited_fdatasync)


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> Quota:
    quota = Quota()
    quota.install(monkeypatch)
    return quota


def file_sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in folder.rglob("*.ledger")}


async def full_owner(world: LedgerWorld) -> Owner:
    owner = await world.open(1)
    await owner.ledger.open_cursor("keep", "earliest")
    await owner.append("a", "b")
    return owner


@pytest.mark.parametrize("left", [0, 5, 40])
async def test_a_full_disk_fails_appends_and_nothing_else(tmp_path: Path, quota: Quota, left: int) -> None:
    """The part of the group that reached the disk is truncated; reads work, and so does the next append after space
    returns."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    owner = await full_owner(world)
    sizes = file_sizes(tmp_path)
    quota.left = left
    for text in ("c", "d", "e"):
        owner.ledger.append(text.encode() * 100, 1, 0, text)
    await owner.until(lambda: len(owner.failed) == 3)
    assert all(isinstance(error, LedgerFullError) for _, error in owner.failed)
    assert [context for context, _ in owner.failed] == ["c", "d", "e"]
    assert file_sizes(tmp_path) == sizes
    assert await owner.texts() == ["a", "b"]
    assert not owner.fenced
    quota.left = 1 << 40
    await owner.append("f")
    assert await owner.texts() == ["a", "b", "f"]
    await owner.ledger.close()
    assert await (await world.open(2)).texts() == ["a", "b", "f"]
    await world.close()


async def test_a_disk_that_is_found_full_at_the_sync(tmp_path: Path, quota: Quota) -> None:
    """Space that fails at fdatasync counts as a full disk: the group is cut and reported as failed."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    owner = await full_owner(world)
    sizes = file_sizes(tmp_path)
    quota.sync_fails = True
    owner.ledger.append(b"c", 1, 0, "c")
    await owner.until(lambda: bool(owner.failed))
    assert isinstance(owner.failed[0][1], LedgerFullError)
    assert file_sizes(tmp_path) == sizes
    quota.sync_fails = False
    await owner.append("d")
    assert await owner.texts() == ["a", "b", "d"]
    await world.close()


async def test_a_fenced_writer_cuts_nothing(tmp_path: Path, quota: Quota) -> None:
    """A former owner that runs out of space leaves the file as the later owner has counted it."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    owner = await full_owner(world)
    await world.open(2)
    quota.left = 40
    owner.ledger.append(b"c" * 100, 1, 0, "c")
    await owner.until(lambda: bool(owner.failed))
    assert isinstance(owner.failed[0][1], LedgerFencedError)
    await world.close()


async def test_appends_behind_a_failed_one_fail_with_it(tmp_path: Path, quota: Quota) -> None:
    """Entries that were queued when the disk filled fail too, so that none passes an earlier one."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    owner = await full_owner(world)
    quota.left = 300
    for n in range(200):
        if owner.failed:
            break
        owner.ledger.append(b"x" * 50, 1, 0, n)
        if n % 3 == 0:
            await asyncio.sleep(0)
    await owner.until(lambda: bool(owner.failed))
    contexts = [context for context, _ in owner.durable[2:]] + [context for context, _ in owner.failed]
    assert contexts == list(range(len(contexts)))
    assert len(await owner.texts()) == len(owner.durable)
    await world.close()


async def test_a_full_memory_disk() -> None:
    """The simulated disk behaves alike."""
    world = LedgerWorld()
    owner = await full_owner(world)
    world.disk.capacity_bytes = 3
    owner.ledger.append(b"cc", 1, 0, "c")
    await owner.until(lambda: bool(owner.failed))
    assert isinstance(owner.failed[0][1], LedgerFullError)
    world.disk.capacity_bytes = None
    await owner.append("d")
    assert await owner.texts() == ["a", "b", "d"]
    await world.close()
