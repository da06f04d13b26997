"""The world of managed ledgers (`ledger_world`) on bookies that keep entries in memory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.bookie_registry import BookieRegistry
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import ledger_of
from pulsar_barycenter.bookkeeper.metadata.ledger_store import LedgerStore
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_writer import BookieWriter
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.ledger.storage import OnDurable
from pulsar_barycenter.metadata.memory.key_table import KeyTable
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from support.bookkeeper_server import BookieCluster
from support.ledger_world import LedgerWorld, StorageFactory

_SHAPE: Final = LedgerShape(3, 2, 2, password=b"secret")


class Known(dict[bytes, tuple[int, int]]):
    """Message counts and publish times of entries that tests append; real entries have these in their bytes."""

    def __call__(self, entry: bytes) -> tuple[int, int]:
        return self.get(entry, (1, 0))


class RecordingStorage(BookKeeperStorage):
    known: Known

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> BookieWriter:
        writer = await super().create(ledger_id, epoch=epoch, on_durable=on_durable)
        extend = writer.extend

        def recording(entries: Sequence[NewEntry]) -> None:
            self.known.update({data: (count, time_ms) for data, count, time_ms in entries})
            extend(entries)

        writer.extend = recording  # type: ignore[method-assign]
        return writer


class WorldOnBookies(LedgerWorld):
    """Owners that have a client of the same bookies each."""

    def __init__(self, cluster: BookieCluster, keys: KeyTable, new_storage: StorageFactory) -> None:
        super().__init__(new_storage)
        self._cluster = cluster
        self._keys = keys

    def ledger_ids(self) -> set[int]:
        """Return the ids of the ledgers that exist."""
        folders, found = ["/ledgers"], set()
        for folder in folders:
            for name in self._keys.children(folder):
                ledger = ledger_of("/ledgers", f"{folder}/{name}")
                if ledger is not None:
                    found.add(ledger)
                folders.append(f"{folder}/{name}")
        return found

    def lose(self, position: Position) -> None:
        """Take an entry off all bookies."""
        for bookie in self._cluster.bookies:
            if position.ledger_id in bookie.ledgers:
                bookie.ledgers[position.ledger_id].entries.pop(position.entry_id, None)


@asynccontextmanager
async def world_on_bookies() -> AsyncIterator[WorldOnBookies]:
    """Give a world on four bookies."""
    backend = MemoryBackend()
    async with BookieCluster(4, backend.connect()) as cluster:
        ledgers = await LedgerStore.open(cluster.store)
        registry = BookieRegistry(cluster.store, ledgers.root)
        await registry.start()
        known, made = Known(), []

        def new_storage() -> RecordingStorage:
            client = LedgerClient(ledgers, registry, ClientSettings(reconnect_s=0.0))
            storage = RecordingStorage(client, _SHAPE, known, Caches.of())
            storage.known = known
            made.append(storage)
            return storage

        world = WorldOnBookies(cluster, backend.keys, new_storage)
        yield world
        await world.close()
        for storage in made:
            await storage.close()
