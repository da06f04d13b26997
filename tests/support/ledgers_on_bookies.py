"""The world of managed ledgers (`ledger_world`) on bookies that keep entries in memory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_writer import BookieWriter
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.storage import OnDurable
from support.bookkeeper_server import BookieCluster
from support.ledger_world import LedgerWorld

_SHAPE: Final = LedgerShape(3, 2, 2, password=b"secret")
_MOST_STORAGES: Final = 6


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


@asynccontextmanager
async def world_on_bookies() -> AsyncIterator[LedgerWorld]:
    """Give a world whose owners, at most _MOST_STORAGES, have a client of the same four bookies each."""
    async with BookieCluster(4) as cluster:
        known, ready = Known(), []
        for _ in range(_MOST_STORAGES):
            client = await connect(cluster.store, settings=ClientSettings(reconnect_s=0.0))
            storage = RecordingStorage(client, _SHAPE, known, Caches.of())
            storage.known = known
            ready.append(storage)
        world = LedgerWorld(ready.copy().pop)
        yield world
        await world.close()
        for storage in ready:
            await storage.close()
