"""What is particular to ledgers in files: damage reported with file and offset, torn tails, few open files."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from threading import Event, Lock, current_thread
from typing import cast

import pytest
import structlog

from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerCorruptedError, LedgerError, LedgerVersionError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.file_writer import FileLedgerWriter
from pulsar_barycenter.ledger.storage import LedgerWriter

DEADLINE_S = 30


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FileLedgerStorage]:
    storage = FileLedgerStorage(tmp_path / "ledgers", max_open_files=3)
    yield storage
    await storage.close()


async def written(storage: FileLedgerStorage, ledger_id: int, *groups: list[bytes]) -> Path:
    """Write a ledger, each group durable before the next, and close it; return its file."""
    changed = asyncio.Event()

    def on_durable(entry_id: int, error: LedgerError | None) -> None:
        assert error is None
        changed.set()

    writer = await storage.create(ledger_id, epoch=1, on_durable=on_durable)
    for group in groups:
        for entry in group:
            last = writer.append(entry, 1, 0)
        async with asyncio.timeout(DEADLINE_S):
            while writer.reader.entry_count <= last:
                changed.clear()
                await changed.wait()
    await writer.close()
    return Path(storage.folder.path(ledger_id))


def flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 0x10
    file.write_bytes(data)


async def test_a_damaged_entry_is_an_error_naming_file_and_offset(storage: FileLedgerStorage) -> None:
    """Damage among durable entries is found by recovery and by reading, never passed on; what is around it is read."""
    file = await written(storage, 1, [b"one", b"two", b"three"])
    flip(file, fmt.HEADER_SIZE + 2 * fmt.ENTRY_HEADER_SIZE + 3 + 1)  # within "two"
    offset = fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE + 3
    reader = await storage.open(1, entry_count=3)
    assert list(await reader.read(0, 0, 100)) == [b"one"]
    for opened in (reader, await storage.fence(1, epoch=2)):
        assert list(await opened.read(0, 2, 100)) == [b"one"]
        with pytest.raises(LedgerCorruptedError) as found:
            await opened.read(1, 2, 100)
        assert (found.value.file, found.value.offset, found.value.entries) == (str(file), offset, (1, 1))
        assert str(file) in str(found.value)
        assert list(opened.damage) == [(1, 1)]
        assert list(await opened.read(2, 2, 100)) == [b"three"]


@pytest.mark.parametrize("at_once", [1, 7, 50_000])
async def test_a_group_that_the_kernel_takes_in_pieces_is_written_whole(
    storage: FileLedgerStorage, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    def short_write(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
        return os.pwrite(descriptor, b"".join(buffers)[:at_once], offset)

    entries = [b"small"] if at_once < 10 else [b"%d" % number * 30_000 for number in range(10)]
    monkeypatch.setattr(os, "pwritev", short_write)
    await written(storage, 1, entries, entries)
    reader = await storage.open(1, entry_count=2 * len(entries))
    assert list(await reader.read(0, 2 * len(entries) - 1, 1 << 30)) == entries * 2


async def test_nonsense_in_a_length_is_damage_not_a_tail(storage: FileLedgerStorage) -> None:
    """A length that was changed to reach beyond the file does not make the rest vanish."""
    file = await written(storage, 1, [b"one", b"two"])
    flip(file, fmt.HEADER_SIZE + 2)
    reader = await storage.fence(1, epoch=2)
    assert (reader.entry_count, list(reader.damage)) == (2, [(0, 0)])
    with pytest.raises(LedgerCorruptedError) as found:
        await reader.read(0, 1, 100)
    assert found.value.offset == fmt.HEADER_SIZE
    assert list(await reader.read(1, 1, 100)) == [b"two"]


async def test_a_torn_tail_is_cut(storage: FileLedgerStorage) -> None:
    """Bytes of a group that was never reported are dropped, whole entries before them kept."""
    file = await written(storage, 1, [b"one"])
    parts = fmt.encode_entries([(b"two", 1, 0), (b"three", 1, 0)], fmt.Heads.of(1), 1)
    with file.open("ab") as tail:
        tail.write(b"".join(parts)[:-2])
    reader = await storage.fence(1, epoch=2)
    assert list(await reader.read(0, 9, 100)) == [b"one", b"two"]


async def test_a_file_that_lost_durable_bytes_is_told(storage: FileLedgerStorage) -> None:
    """A file that someone shortened is opened at what is left of it, with an error in the log."""
    file = await written(storage, 1, [b"one", b"two"])
    os.truncate(file, file.stat().st_size - 1)
    with structlog.testing.capture_logs() as logs:
        reader = await storage.fence(1, epoch=2)
    assert reader.entry_count == 1
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("ledger_shortened", "error")]


@pytest.mark.parametrize("content", [b"", b"short", b"no ledger" * 20])
async def test_a_file_that_is_no_ledger(storage: FileLedgerStorage, content: bytes) -> None:
    """Foreign and empty files are refused by name."""
    file = await written(storage, 1, [b"one"])
    file.write_bytes(content)
    with pytest.raises(LedgerCorruptedError) as found:
        await storage.fence(1, epoch=2)
    assert found.value.file == str(file)


async def test_a_ledger_in_anothers_place(storage: FileLedgerStorage) -> None:
    """A file that was moved over another ledger's is noticed."""
    first = await written(storage, 1, [b"one"])
    second = await written(storage, 2, [b"two"])
    second.write_bytes(first.read_bytes())
    with pytest.raises(LedgerCorruptedError, match="contains ledger 1 instead of 2"):
        await storage.open(2, entry_count=1)


async def test_open_files_are_few_however_many_ledgers(storage: FileLedgerStorage) -> None:
    """Writers beyond the limit go on, their files closed and opened again in between."""
    changed = asyncio.Event()
    writers: list[LedgerWriter] = [
        await storage.create(n, epoch=1, on_durable=lambda _id, error: changed.set()) for n in range(20)
    ]
    for turn in range(5):
        for writer in writers:
            writer.append(b"%d" % turn, 1, 0)
        async with asyncio.timeout(DEADLINE_S):
            while any(writer.reader.entry_count <= turn for writer in writers):
                changed.clear()
                await changed.wait()
        assert len(storage.folder.files) <= 3 + 2
    for writer in writers:
        assert list(await writer.reader.read(0, 9, 100)) == [b"%d" % turn for turn in range(5)]
    await asyncio.gather(*(writer.close() for writer in writers))


async def test_folders_hold_a_bounded_number_of_ledgers(storage: FileLedgerStorage) -> None:
    """Ledgers far apart lie in different folders."""
    files = [await written(storage, ledger_id, [b"x"]) for ledger_id in (1, 4095, 4096, 10_000_000)]
    assert files[0].parent == files[1].parent
    assert len({file.parent for file in files}) == 3


async def test_a_number_that_does_not_fit_fails_its_ledger_alone(storage: FileLedgerStorage) -> None:
    """An impossible message count is an error for the writer, and the worker threads live on."""
    failures: list[LedgerError] = []
    changed = asyncio.Event()

    def on_durable(entry_id: int, error: LedgerError | None) -> None:
        if error is not None:
            failures.append(error)
        changed.set()

    writer = await storage.create(1, epoch=1, on_durable=on_durable)
    writer.append(b"x", -1, 0)
    async with asyncio.timeout(DEADLINE_S):
        await changed.wait()
    assert len(failures) == 1
    await written(storage, 2, [b"fine"])


class LateGate:
    """The gate of a writer whose loop is paused between queueing an entry and taking the gate."""

    def __init__(self, writer: FileLedgerWriter, disk: Event) -> None:
        self._writer, self._disk = writer, disk
        self._gate = writer.gate
        self._loop = current_thread()
        self._is_drained = Event()

    def acquire(self, blocking: bool = True) -> bool:
        if current_thread() is self._loop:
            self._disk.set()
            assert self._is_drained.wait(DEADLINE_S)
        return self._gate.acquire(blocking)

    def release(self) -> None:
        self._gate.release()
        if not self._writer.has_queued():
            self._is_drained.set()


async def test_an_entry_that_went_with_the_group_before_leaves_the_writer_in_order(
    storage: FileLedgerStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker takes and commits what was just queued before the loop, which is busy elsewhere, takes the gate."""
    reports: list[int] = []
    changed, disk = asyncio.Event(), Event()

    def on_durable(entry_id: int, error: LedgerError | None) -> None:
        assert error is None
        reports.append(entry_id)
        changed.set()

    def slowly(descriptor: int, sync: Callable[[int], None] = os.fdatasync) -> None:
        assert disk.wait(DEADLINE_S)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", slowly)
    writer = await storage.create(1, epoch=1, on_durable=on_durable)
    writer.append(b"one", 1, 0)
    while writer.has_queued():
        await asyncio.sleep(0)
    gate = writer.gate
    writer.gate = cast(Lock, LateGate(writer, disk))
    writer.append(b"two", 1, 0)
    writer.gate = gate
    assert gate.acquire(timeout=DEADLINE_S), "the worker has left it locked"
    gate.release()
    writer.append(b"three", 1, 0)
    async with asyncio.timeout(DEADLINE_S):
        while writer.reader.entry_count < 3:
            changed.clear()
            await changed.wait()
    assert reports == sorted(set(reports))
    assert list(await writer.reader.read(0, 2, 100)) == [b"one", b"two", b"three"]
    await writer.close()


async def test_a_closed_storage_refuses_work(tmp_path: Path) -> None:
    """After close every call raises that error; closing twice is no error."""
    storage = FileLedgerStorage(tmp_path)
    await written(storage, 1, [b"one"])
    await storage.close()
    await storage.close()
    with pytest.raises(LedgerClosedError):
        await storage.open(1, entry_count=1)


async def test_a_file_of_a_later_release_is_refused(storage: FileLedgerStorage) -> None:
    """It is not damaged, and nothing is written into it."""
    file = await written(storage, 1, [b"one"])
    content = bytearray(file.read_bytes())
    content[8] = fmt.VERSION + 1
    content[32:36] = fmt._CRC.pack(fmt.crc32c(bytes(content[:32])))
    file.write_bytes(content)
    for opening in (storage.fence(1, epoch=2), storage.open(1, entry_count=1)):
        with pytest.raises(LedgerVersionError, match="run a later release"):
            await opening
    assert file.read_bytes() == content


@pytest.mark.parametrize("offset", range(0, fmt.HEADER_SIZE, 3))
async def test_a_damaged_header_hides_no_entry_and_keeps_no_former_owner(
    storage: FileLedgerStorage, offset: int
) -> None:
    """All entries are there, and the fence works: it stops the former owner's writer."""
    failed = asyncio.Event()
    writer = await storage.create(1, epoch=1, on_durable=lambda _id, error: failed.set() if error else None)
    writer.append(b"one", 1, 0)
    async with asyncio.timeout(DEADLINE_S):
        while not writer.reader.entry_count:
            await asyncio.sleep(0)
    flip(Path(storage.folder.path(1)), offset)
    reader = await storage.fence(1, epoch=2)
    assert list(await reader.read(0, 9, 100)) == [b"one"]
    writer.append(b"two", 1, 0)
    async with asyncio.timeout(DEADLINE_S):
        await failed.wait()
    await writer.close()
