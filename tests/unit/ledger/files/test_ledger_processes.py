"""Real processes that are killed, or stopped and continued, while they append to ledger files."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.reader import LedgerReader

DEADLINE_S = 60
WRITER = Path(__file__).with_name("ledger_writer_process.py")


async def start_writer(folder: Path, epoch: int) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, str(WRITER), str(folder), "1", str(epoch), stdout=PIPE)


async def lines_until(process: Process, count: int) -> list[int]:
    assert process.stdout is not None
    return [int(await process.stdout.readline()) for _ in range(count)]


async def remaining_lines(process: Process) -> list[str]:
    assert process.stdout is not None
    return [
        line.decode().strip() for line in (await process.stdout.read()).splitlines(keepends=True) if line[-1:] == b"\n"
    ]


async def check(reader: LedgerReader, reported: int) -> None:
    """Everything reported is there, and the entries are those that were appended, in order."""
    assert reader.entry_count > reported
    first = 0
    while first < reader.entry_count:
        group = await reader.read(first, reader.entry_count - 1, 1 << 20)
        for number, entry in enumerate(group, first):
            assert entry == b"entry %d" % number * (number % 40 + 1)
            assert (await reader.info(number)).publish_time_ms == number
        first += len(group)


@pytest.mark.parametrize("reports", [1, 30, 200])
async def test_a_killed_writer_loses_nothing_that_it_reported(tmp_path: Path, reports: int) -> None:
    """After SIGKILL in the midst of appends the ledger has every reported entry, whole and in order."""
    async with asyncio.timeout(DEADLINE_S):
        process = await start_writer(tmp_path, 1)
        reported = await lines_until(process, reports)
        process.send_signal(signal.SIGKILL)
        rest = await remaining_lines(process)
        await process.wait()
        storage = FileLedgerStorage(tmp_path)
        reader = await storage.fence(1, epoch=2)
        await check(reader, int(rest[-1]) if rest else reported[-1])
        await storage.close()


async def test_a_stopped_writer_that_wakes_up_reports_nothing_more(tmp_path: Path) -> None:
    """Stopped with SIGSTOP, fenced, and continued, a writer gets at most reported what the new owner has found."""
    async with asyncio.timeout(DEADLINE_S):
        process = await start_writer(tmp_path, 1)
        await lines_until(process, 50)
        process.send_signal(signal.SIGSTOP)
        storage = FileLedgerStorage(tmp_path)
        reader = await storage.fence(1, epoch=2)
        process.send_signal(signal.SIGCONT)
        rest = await remaining_lines(process)
        assert await process.wait() == 0
        assert rest[-1] == "fenced"
        last = int(rest[-2]) if len(rest) > 1 else 0
        await check(reader, last)
        again = await storage.fence(1, epoch=3)
        assert again.entry_count >= reader.entry_count
        await storage.close()


async def test_a_fence_beside_a_running_writer(tmp_path: Path) -> None:
    """Fenced at full speed, the writer stops, and what it reported is a part of what the new owner found."""
    async with asyncio.timeout(DEADLINE_S):
        process = await start_writer(tmp_path, 1)
        await lines_until(process, 50)
        storage = FileLedgerStorage(tmp_path)
        reader = await storage.fence(1, epoch=2)
        rest = await remaining_lines(process)
        assert await process.wait() == 0
        assert rest[-1] == "fenced"
        await check(reader, int(rest[-2]) if len(rest) > 1 else 0)
        await storage.close()
