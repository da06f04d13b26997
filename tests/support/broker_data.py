"""A small data folder of a broker, written by the stores themselves, and kept in `tests/data/broker-2`.

It is what a killed broker leaves: one topic was closed, one has a trimmed ledger, one was never written to, and one is
still open, with a partly written entry; an ephemeral key waits for the end of its session. Times, random names and the
order of all writes are fixed, so each run writes the same bytes, except for the SQLite file, whose header has SQLite's
version.

`PYTHONPATH=src:tests python -m support.broker_data FOLDER` writes one. The kept folder is never written again: it
represents the folders of users. A changed format gets another folder: `tests/data/broker` has ledger files of
version 1.
"""

import asyncio
import shutil
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import Position, positions
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST
from pulsar_barycenter.naming.topic import TopicName

KEPT = Path(__file__).parents[1] / "data" / "broker-2"
OF_VERSION_1 = Path(__file__).parents[1] / "data" / "broker"
METADATA = "metadata.sqlite"
SESSIONS = "metadata.sqlite-sessions"
LEDGERS = "ledgers"

NOW_MS = 1_700_000_000_000
EPOCH = 3
SMALL_LEDGERS = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0.001)

CLOSED = TopicName.parse("persistent://public/default/orders")
OPEN = TopicName.parse("persistent://public/default/läuft noch")
TRIMMED = TopicName.parse("persistent://public/default/trimmed")
NEVER_WRITTEN = TopicName.parse("persistent://public/default/never-written")

TORN_TAIL = b"half an entry"


class _Clock:
    def now_ms(self) -> int:
        return NOW_MS


class _Topic:
    """A managed ledger whose entries are appended one by one, each after the previous one is durable."""

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.ledger: ManagedLedger[Any]
        self._grown = asyncio.Event()

    @classmethod
    async def open(cls, store: SqliteStore, storage: FileLedgerStorage, name: TopicName) -> "_Topic":
        topic = cls()
        topic.ledger = await ManagedLedger.open(
            store, storage, name, epoch=EPOCH, clock=_Clock(), settings=SMALL_LEDGERS, on_durable=topic.durable
        )
        return topic

    def durable(self, contexts: list[object], first: Position) -> None:
        self.positions.extend(positions(first.ledger_id, first.entry_id, first.entry_id + len(contexts)))
        self._grown.set()

    async def append(self, *entries: bytes, num_messages: int = 1) -> None:
        for entry in entries:
            self._grown.clear()
            self.ledger.append(entry, num_messages, NOW_MS + len(self.positions), None)
            await self._grown.wait()
            await self.settle()

    async def settle(self) -> None:
        """Wait for background work of appends: rolling and trimming of ledgers."""
        await self.ledger.settled()


async def write_broker_data(folder: Path) -> None:
    """Write the data folder; `folder` must not exist."""
    numbers = (uuid.UUID(int=number) for number in count(1))
    with tempfile.TemporaryDirectory() as running, patch.object(uuid, "uuid4", numbers.__next__):
        here = Path(running)
        store = await SqliteStore.open(here / METADATA, session_timeout_ms=600_000, clock=_Clock())
        storage = FileLedgerStorage(here / LEDGERS, commit_threads=1)
        await _write_keys(store)
        await _write_closed(store, storage)
        await _write_trimmed(store, storage)
        await (await _Topic.open(store, storage, NEVER_WRITTEN)).ledger.close()
        left_open = await _write_open(store, storage)
        _copy(here, folder)
        await left_open.ledger.close()
        await storage.close()
        await store.close()


async def _write_keys(store: SqliteStore) -> None:
    await store.put("/admin/clusters/standalone", b"{}", expected_version=MUST_NOT_EXIST)
    for text in (b"{}", b'{"bundles":4}', b'{"bundles":8}'):
        await store.put("/admin/policies/public/default", text)
    await store.put("/bytes", bytes(range(256)))
    await store.put("/ключ with spaces", b"")
    await store.put("/loadbalance/brokers/127.0.0.1:8080", b"{}", ephemeral=True)
    await store.put("/gone/below", b"")
    await store.delete("/gone/below")
    for _ in range(3):
        await store.put("/numbered-", b"", sequential=True)
    await next_counter_value(store, "/counters/other")


async def _write_closed(store: SqliteStore, storage: FileLedgerStorage) -> None:
    topic = await _Topic.open(store, storage, CLOSED)
    await topic.ledger.update_properties({"replicated": "no"})
    billing = await topic.ledger.open_cursor("billing", "earliest")
    await topic.append(b"", b"one", bytes(range(256)), b"3" * 40, b"four", b"5", b"six")
    await topic.append(b"seven", b"eight", num_messages=10)
    billing.ack_cumulative(topic.positions[1])
    billing.ack_individual([topic.positions[at] for at in (3, 5, 6, 8)])
    await billing.flush()
    await topic.ledger.open_cursor("späte/Leser", "latest", {"from": "Köln"})
    await topic.ledger.close()


async def _write_trimmed(store: SqliteStore, storage: FileLedgerStorage) -> None:
    topic = await _Topic.open(store, storage, TRIMMED)
    cursor = await topic.ledger.open_cursor("only", "earliest")
    await topic.append(*(str(number).encode() for number in range(9)))
    cursor.ack_cumulative(topic.positions[4])
    await topic.settle()
    await topic.ledger.close()


async def _write_open(store: SqliteStore, storage: FileLedgerStorage) -> _Topic:
    topic = await _Topic.open(store, storage, OPEN)
    cursor = await topic.ledger.open_cursor("worker", "earliest")
    await topic.append(b"a", b"bb", b"ccc", num_messages=2)
    cursor.ack_individual(topic.positions[:1])
    await cursor.flush()
    return topic


def _copy(running: Path, folder: Path) -> None:
    """Copy the folder of a running broker as a crash would leave it, the SQLite file without reserved space."""
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(running / METADATA)) as source:
        source.execute("VACUUM INTO ?", (str(folder / METADATA),))
    with closing(sqlite3.connect(folder / METADATA)) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
    shutil.copytree(running / SESSIONS, folder / SESSIONS)
    shutil.copytree(running / LEDGERS, folder / LEDGERS)
    with (ledger_files(folder)[-1]).open("ab") as last:
        last.write(TORN_TAIL)


def ledger_files(folder: Path) -> list[Path]:
    """Return the files of the ledgers, oldest first."""
    return sorted((folder / LEDGERS).rglob("*.ledger"))


def metadata_statements(folder: Path) -> Iterator[str]:
    """Yield the content of the SQLite file as SQL, independent of the order of its pages."""
    with closing(sqlite3.connect(folder / METADATA)) as file:
        yield from file.iterdump()


if __name__ == "__main__":
    asyncio.run(write_broker_data(Path(sys.argv[1])))
