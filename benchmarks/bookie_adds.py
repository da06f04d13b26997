"""CPU of a broker for each entry that it adds to a ledger on bookies, from the append to the report.

Run: python -m benchmarks.bookie_adds [--entries N] [--rounds N]

The bookies are one process that confirms each add at once and stores nothing, so the client is what is measured: up to
960 entries of 1 KiB in flight, appended in groups as the messages that one read of a connection brings. With groups of
one, each entry is what one of many slow producers sends.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Final

import uvloop

from benchmarks.machine import print_table
from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend

_IN_FLIGHT: Final = 960
_SIZE: Final = 1024
_GROUPS: Final = (60, 1)
_SHAPES: Final = ((1, 1, 1), (3, 3, 2), (3, 2, 2))
_ANSWER: Final = struct.Struct(">IBBHi16s")
_NUMBERS_AT: Final = 28
"""Where ledger and entry begin in a request to add an entry: after its head and the key."""


class _Bookie(asyncio.Protocol):
    """Answers that each entry is stored."""

    def __init__(self) -> None:
        self._rest = b""
        self._transports: list[asyncio.WriteTransport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(transport)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        data, at, answers = self._rest + data, 0, []
        while len(data) - at >= 4:
            stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if stop > len(data):
                break
            answers.append(_ANSWER.pack(_ANSWER.size - 4, 2, 1, 0, 0, data[at + _NUMBERS_AT : at + _NUMBERS_AT + 16]))
            at = stop
        self._rest = data[at:]
        self._transports[0].write(b"".join(answers))


async def _serve(count: int, ports: Connection) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(_Bookie, "127.0.0.1", 0) for _ in range(count)]
    ports.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.Event().wait()


def _run_bookies(count: int, ports: Connection) -> None:
    uvloop.run(_serve(count, ports))


class _Appends:
    """Keeps so many entries in flight until all are reported."""

    def __init__(self, group: int) -> None:
        self._group = [(bytes(_SIZE), 1, 0)] * group
        self._wanted = self._sent = self._durable = self.reports = 0
        self._all_came = asyncio.Event()

    def on_durable(self, last: int, error: LedgerError | None) -> None:
        if error is not None:
            raise error
        self.reports += 1
        self._durable = last + 1
        self._fill()
        if self._durable >= self._wanted:
            self._all_came.set()

    async def append(self, writer: object, count: int) -> None:
        self._writer, self._wanted = writer, self._wanted + count
        self._all_came.clear()
        self._fill()
        await self._all_came.wait()

    def _fill(self) -> None:
        while self._sent < self._wanted and self._sent - self._durable + len(self._group) <= _IN_FLIGHT:
            self._writer.extend(self._group)  # type: ignore[attr-defined]
            self._sent += len(self._group)


@asynccontextmanager
async def _storage(shape: LedgerShape) -> AsyncIterator[BookKeeperStorage]:
    store = MemoryBackend().connect()
    await store.put("/ledgers/INSTANCEID", b"a")
    ours, theirs = multiprocessing.Pipe()
    bookies = multiprocessing.Process(target=_run_bookies, args=(shape.ensemble_size, theirs), daemon=True)
    bookies.start()
    try:
        for port in ours.recv():
            await store.put(f"/ledgers/available/127.0.0.1:{port}", b"")
        storage = BookKeeperStorage(await connect(store), shape, lambda _: (1, 0), Caches.of())
        yield storage
        await storage.close()
    finally:
        bookies.kill()
        bookies.join()


async def _measured(shape: LedgerShape, group: int, entries: int) -> tuple[float, float, float]:
    """Return the microseconds of CPU for each entry, the entries per second, and the entries of a report."""
    async with _storage(shape) as storage:
        appends = _Appends(group)
        ledger = await storage.new_id(storage.client.registry.store, lambda _: None)
        writer = await storage.create(ledger, epoch=1, on_durable=appends.on_durable)
        await appends.append(writer, entries // 10)
        reports, cpu_s, began = appends.reports, time.process_time(), time.perf_counter()
        await appends.append(writer, entries)
        cpu_s, seconds = time.process_time() - cpu_s, time.perf_counter() - began
        await writer.close()
        return 1e6 * cpu_s / entries, entries / seconds, entries / (appends.reports - reports)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    lines = []
    for shape in _SHAPES:
        for group in _GROUPS:
            found = [
                uvloop.run(_measured(LedgerShape(*shape), group, arguments.entries)) for _ in range(arguments.rounds)
            ]
            name = "E{} W{} A{}".format(*shape)
            lines.append([name, group, *(statistics.median(figures) for figures in zip(*found, strict=True))])
    print_table(
        f"Entries of 1 KiB added to bookies, medians of {arguments.rounds}",
        ["ledger", "appended at once", "CPU µs/entry", "entries/s", "entries/report"],
        lines,
    )


if __name__ == "__main__":
    main()
