"""Durable entries per second, latency, event-loop time per entry, and memory of idle topics, of ledgers in files.

Run: python -m benchmarks.ledger [--folder DIR] [--entries N] [--no-sync]

Throughput: up to 5,000 entries are in flight over all ledgers, appended 50 at a time as a connection would; the
event-loop time is the CPU time of the loop's thread less that of the same loop without ledgers. Latency: one entry in
flight. Idle topics: with nothing written to them; with one entry each, one durable cursor and their ledger open.
"""

import argparse
import asyncio
import gc
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import structlog

from benchmarks.machine import percentile, print_table
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.topic import TopicName

IN_FLIGHT = 5_000
PER_TURN = 50
IDLE_TOPICS = 10_000


@dataclass
class Throughput:
    entries_per_s: float
    loop_us: float
    all_us: float
    groups: int


class Progress:
    """Counts durable entries and wakes the producer when half of what was in flight is done."""

    def __init__(self) -> None:
        self.done = 0
        self.groups = 0
        self.room = asyncio.Event()
        self.below = 0
        self.durations_s: list[float] = []

    def on_durable(self, contexts: list[object], first: Position) -> None:
        self.done += len(contexts)
        self.groups += 1
        if self.done >= self.below:
            self.room.set()

    async def until(self, count: int) -> None:
        while self.done < count:
            self.below = count
            self.room.clear()
            await self.room.wait()


async def open_topics(
    storage: FileLedgerStorage, store: object, count: int, progress: Progress
) -> list[ManagedLedger[Any]]:
    def failed(contexts: list[object], error: Exception) -> None:
        raise SystemExit(f"appends failed: {error}")

    return [
        await ManagedLedger.open(
            store,  # type: ignore[arg-type]
            storage,
            TopicName.parse(f"persistent://bench/ledger/topic-{n}"),
            epoch=1,
            clock=SystemClock(),
            on_durable=progress.on_durable,
            on_failed=failed,
        )
        for n in range(count)
    ]


async def produce(
    appends: list[Callable[[bytes, int, int, object], None]], data: bytes, entries: int, p: Progress
) -> None:
    sent = 0
    while sent < entries:
        for _ in range(PER_TURN):
            appends[sent % len(appends)](data, 1, 1, None)
            sent += 1
        if sent - p.done >= IN_FLIGHT:
            await p.until(sent - IN_FLIGHT // 2)
        else:
            await asyncio.sleep(0)
    await p.until(entries)


async def baseline(data: bytes, entries: int) -> float:
    """Return the loop thread's CPU seconds of producing into nothing."""
    progress = Progress()

    def append(entry: bytes, num_messages: int, publish_time_ms: int, context: object) -> None:
        progress.done += 1

    begin = time.thread_time()
    await produce([append], data, entries, progress)
    return time.thread_time() - begin


async def throughput(folder: Path, *, size: int, ledgers: int, entries: int, sync: bool) -> Throughput:
    store = MemoryBackend().connect()
    storage = FileLedgerStorage(folder, sync=sync)
    progress = Progress()
    topics = await open_topics(storage, store, ledgers, progress)
    data = bytes(size)
    for topic in topics:
        topic.append(data, 1, 1, None)
    await progress.until(ledgers)
    progress.done = progress.groups = 0
    idle_s = await baseline(data, entries)
    wall, cpu, loop = time.perf_counter(), time.process_time(), time.thread_time()
    await produce([topic.append for topic in topics], data, entries, progress)
    wall, cpu, loop = time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - loop
    groups = progress.groups
    for topic in topics:
        await topic.close()
    await storage.close()
    await store.close()
    return Throughput(entries / wall, (loop - idle_s) / entries * 1e6, (cpu - idle_s) / entries * 1e6, groups)


async def latency(folder: Path, *, size: int, samples: int, sync: bool) -> tuple[float, float]:
    """Return the median and the 99th percentile, in µs, from append to report with one entry in flight."""
    store = MemoryBackend().connect()
    storage = FileLedgerStorage(folder, sync=sync)
    progress = Progress()
    (topic,) = await open_topics(storage, store, 1, progress)
    data = bytes(size)
    took: list[float] = []
    for n in range(samples):
        begin = time.perf_counter()
        topic.append(data, 1, 1, None)
        await progress.until(n + 1)
        took.append(time.perf_counter() - begin)
    await topic.close()
    await storage.close()
    await store.close()
    warm = [seconds * 1e6 for seconds in took[samples // 10 :]]
    return percentile(warm, 50), percentile(warm, 99)


async def idle_memory(folder: Path, written: bool) -> float:
    """Return the growth of this process in bytes for each topic that is open and idle."""
    topics = IDLE_TOPICS
    store = MemoryBackend().connect()
    storage = FileLedgerStorage(folder, sync=False)
    progress = Progress()
    names = [TopicName.parse(f"persistent://bench/ledger/topic-{n}") for n in range(topics)]
    for name in names:  # the store's share is not the ledger's: make the records first
        await store.put(f"/managed-ledgers/{name.persistence_name}", b"{}")
    gc.collect()
    before = psutil.Process().memory_info().rss
    ledgers = await open_topics(storage, store, topics, progress)
    if written:
        for n, ledger in enumerate(ledgers):
            await ledger.open_cursor("subscription", "earliest")
            ledger.append(bytes(100), 1, 1, None)
            if n % 100 == 99:
                await progress.until(n + 1)
        await progress.until(topics)
    gc.collect()
    grown = psutil.Process().memory_info().rss - before
    for ledger in ledgers:
        await ledger.close()
    await storage.close()
    await store.close()
    return grown / topics


def report(folder: Path, entries: int, sync: bool) -> None:
    def fresh() -> Path:
        path = folder / "run"
        shutil.rmtree(path, ignore_errors=True)
        return path

    rates: list[list[object]] = []
    for ledgers in (1, 20):
        for size in (100, 1024):
            runs = [
                asyncio.run(throughput(fresh(), size=size, ledgers=ledgers, entries=entries, sync=sync))
                for _ in range(3)
            ]
            best = max(runs, key=lambda run: run.entries_per_s)
            rates.append([ledgers, size, best.entries_per_s, best.loop_us, best.all_us, entries / best.groups])
    title = "Durable entries, best of 3" if sync else "Entries without fdatasync, best of 3"
    header = ["ledgers", "entry B", "entries/s", "loop thread µs/entry", "process µs/entry", "entries/group"]
    print_table(title, header, rates)
    waits = [[size, *asyncio.run(latency(fresh(), size=size, samples=2000, sync=sync))] for size in (100, 1024)]
    print_table("From append to report, one entry in flight", ["entry B", "p50 µs", "p99 µs"], waits)
    memory = [
        ["one entry and one cursor each" if written else "never written", asyncio.run(idle_memory(fresh(), written))]
        for written in (False, True)
    ]
    print_table(f"Memory of {IDLE_TOPICS:,} open idle topics", ["topics", "bytes each"], memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to write; a new folder in the current one by default")
    parser.add_argument("--entries", type=int, default=300_000)
    parser.add_argument("--no-sync", action="store_true", help="without fdatasync")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(dir=options.folder or Path.cwd(), prefix=".bench-") as folder:
        report(Path(folder), options.entries, not options.no_sync)


if __name__ == "__main__":
    main()
