"""A cluster of brokers with messages in files, its migration to bookies in memory, and what clients find.

All have one metadata store in memory. `Steps` counts what a migration writes, to the store and to bookies, and can end
the migration at any of these steps.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.folder_identity import (
    FOLDER_KEY,
    bookie_user,
    check_one_bookie_cluster,
    check_one_folder,
    identity_of,
    is_on_bookies,
)
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.migration.metadata_copy import MetadataCopy
from pulsar_barycenter.ledger.migration.migrating import Migration, Plan
from pulsar_barycenter.ledger.migration.stores import OneStore, Stores, TwoStores
from pulsar_barycenter.ledger.migration_marks import MIGRATION_KEY
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.run.counters import NUMBERS
from pulsar_barycenter.run.ledger_storages import describe
from support.bookkeeper_server import BookieCluster
from support.compaction_cases import Message, batch, compacted_places, publish_entry, single
from support.ledger_world import FixedClock, LedgerWorld, Owner

ORDERS: Final = TopicName.parse("persistent://shop/eu/orders")
OPEN: Final = TopicName.parse("persistent://shop/eu/left open")
TABLE: Final = TopicName.parse("persistent://shop/eu/table")
SHAPE: Final = LedgerShape(3, 2, 2, password=b"secret")
SMALL: Final = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0)

T = TypeVar("T")


def quietly(items: Sequence[T], _: str, /) -> Generator[T, None, None]:
    yield from items


class Steps:
    """Counts writes; at the write number `last`, or the first one of the key `at_key`, it cancels the task that began,
    before or after the write.
    """

    def __init__(self, last: int = -1, *, at_key: str = "", is_carried_out: bool = True) -> None:
        self.count = 0
        self.is_over = False
        self._last = last
        self._at_key = at_key
        self._is_carried_out = is_carried_out
        self._task: list[asyncio.Task[Any]] = []

    def begin(self, task: asyncio.Task[Any]) -> None:
        self._task = [task]

    def may_write(self, key: str = "") -> bool:
        """Count a write; return whether it takes effect."""
        if self.is_over:
            return False
        self.count += 1
        if self.count == self._last or (key and key == self._at_key):
            self.is_over = True
            for task in self._task:
                task.cancel()
            return self._is_carried_out
        return True


class CountedStore:
    """A metadata store whose writes are steps. After the last one nothing is written, as by a process that ended."""

    def __init__(self, store: MetadataStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, path: str, value: bytes, **options: Any) -> Any:
        return await self._written(path, lambda: self._store.put(path, value, **options))

    async def delete(self, path: str, **options: Any) -> None:
        await self._written(path, lambda: self._store.delete(path, **options))

    async def _written(self, path: str, write: Callable[[], Any]) -> Any:
        if not self._steps.may_write(path):
            await asyncio.get_running_loop().create_future()
        result = await write()
        await asyncio.sleep(0)  # where the cancellation of the last step arrives
        return result


class FilesCluster(LedgerWorld):
    """Topics in the files of `folder`, and bookies that have none of them yet."""

    def __init__(self, folder: Path, bookies: BookieCluster, *, moves_metadata: bool) -> None:
        super().__init__(lambda: FileLedgerStorage(folder, sync=False))
        self.folder = folder
        self.bookies = bookies
        self.moves_metadata = moves_metadata
        self.next_backend = MemoryBackend() if moves_metadata else self.backend
        self.epoch = 0

    def connect_next(self) -> MetadataStore:
        """Return a session with the metadata store of the cluster on bookies."""
        store = self.next_backend.connect(FixedClock(), 10_000)
        self._stores.append(store)
        return store

    def digest(self) -> dict[str, str]:
        """Return a checksum of each file of a ledger."""
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(self.folder.glob("*/*.ledger"))
        }

    async def topic(self, topic: TopicName) -> Owner:
        """Open a topic on files, as its next owner."""
        self.epoch += 1
        return await self.open(self.epoch, topic=topic, settings=SMALL)

    async def on_bookies(self, topic: TopicName) -> Owner:
        """Open a topic as a broker does that is configured for bookies."""
        self.epoch += 1
        store = self.connect_next()
        client = await LedgerClient.open(store, settings=ClientSettings(reconnect_s=0.0))
        user = await bookie_user(store, client.instance_id)
        storage = BookKeeperStorage(client, SHAPE, describe, Caches.of(), cluster=user.cluster)
        return await self.open(self.epoch, topic=topic, settings=SMALL, storage=storage, store=store)

    async def migration(self, steps: Steps) -> tuple[Migration, LedgerClient]:
        present: Any = CountedStore(self.connect(), steps)
        next_: Any = CountedStore(self.connect_next(), steps) if self.moves_metadata else present
        client = await LedgerClient.open(next_, settings=ClientSettings(reconnect_s=0.0))

        async def check_stopped() -> None:
            if await present.children("/loadbalance/brokers"):
                raise LedgerError("a broker runs")

        stores: Stores = OneStore(present)
        if self.moves_metadata:
            stores = TwoStores(present, next_, MetadataCopy(present, next_, NUMBERS, quietly))
        folder = str(self.folder)
        return Migration(stores, folder, client, SHAPE, check_stopped=check_stopped, progress=quietly), client

    async def plan(self) -> Plan:
        migration, client = await self.migration(Steps())
        try:
            return await migration.plan()
        finally:
            await client.close()

    async def migrate(self, steps: Steps | None = None) -> int | None:
        """Migrate, in a process that ends at the last of `steps`; return the number of ledgers written, or None if it
        ended before.
        """
        steps = steps or Steps()
        for bookie in self.bookies.bookies:
            bookie.may_add = steps.may_write
        migration, client = await self.migration(steps)

        async def run() -> int:
            plan = await migration.plan()
            assert not plan.refusals
            return await migration.carry_out(plan)

        task = asyncio.ensure_future(run())
        steps.begin(task)
        try:
            return await asyncio.wait_for(asyncio.shield(task), 30)
        except asyncio.CancelledError:
            assert steps.is_over
            return None
        finally:
            await client.close()
            for bookie in self.bookies.bookies:
                bookie.may_add = lambda: True


@asynccontextmanager
async def files_cluster(folder: Path, *, moves_metadata: bool = False) -> AsyncIterator[FilesCluster]:
    """Give a cluster of brokers. If `moves_metadata`, the cluster on bookies has another metadata store."""
    bookies = BookieCluster(4)
    world = FilesCluster(folder, bookies, moves_metadata=moves_metadata)
    bookies.store = world.next_backend.connect()
    async with bookies:
        folder.mkdir(parents=True, exist_ok=True)
        await check_one_folder(world.connect(), str(folder))
        yield world
        await world.close()


async def publish(owner: Owner, key: str, messages: int = 1) -> None:
    """Append one message, or one batch, with the next number as value."""
    value = b"%d" % len(owner.durable)
    entry = (
        single(Message(key, value))
        if messages == 1
        else batch([Message(key, value + b"-%d" % n) for n in range(messages)])
    )
    await publish_entry(owner, entry, messages)
    await owner.settle()


async def found_in(owner: Owner) -> dict[str, Any]:
    """Return all that clients and operators can see of a topic."""
    ledger = owner.ledger
    entries = []
    start = (-1, -1)
    while group := await ledger.read(type(ledger.last_position)(*start), 7, 1 << 20):
        entries += [(tuple(entry.position), entry.data, entry.num_messages, entry.publish_time_ms) for entry in group]
        start = (group[-1].position.ledger_id, group[-1].position.entry_id + 1)
    return {
        "entries": entries,
        "compacted": await compacted_places(ledger),
        "horizon": tuple(ledger.compacted.horizon),
        "properties": dict(ledger.properties),
        "terminated": ledger.terminated_at,
        "cursors": {
            name: (tuple(cursor.mark_delete), cursor.acked_ranges, dict(cursor.partly_acked), cursor.properties)
            for name, cursor in ledger.cursors.items()
        },
        "backlogs": {name: cursor.backlog_entries for name, cursor in ledger.cursors.items()},
    }


async def filled(world: FilesCluster) -> dict[TopicName, dict[str, Any]]:
    """Fill three topics: one that was closed, one whose owner died, one that was compacted; return what is in them."""
    orders = await world.topic(ORDERS)
    await orders.ledger.update_properties({"replicated": "no"})
    billing = await orders.ledger.open_cursor("billing", "earliest", {"from": "Köln"})
    for number in range(9):
        await publish(orders, f"k{number}", 3 if number % 4 == 2 else 1)
    places = orders.positions
    billing.ack_cumulative(places[0])
    billing.ack_individual([places[3], places[4], places[7]])
    billing.ack_part(places[2], 0b101)
    await billing.flush()
    left = await world.topic(OPEN)
    await left.ledger.open_cursor("slow", "earliest")
    for number in range(6):
        await publish(left, f"k{number}")
    table = await world.topic(TABLE)
    for number in range(10):
        await publish(table, f"k{number % 3}")
    await Compactor(table.ledger).run()
    await table.settle()
    found = {owner.ledger.topic: await found_in(owner) for owner in (orders, left, table)}
    await orders.ledger.close()
    await table.ledger.close()
    return found


async def check_same(world: FilesCluster, before: dict[TopicName, dict[str, Any]]) -> None:
    for topic, expected in before.items():
        owner = await world.on_bookies(topic)
        assert await found_in(owner) == expected
        await publish(owner, "later")
        assert owner.positions[0] > max(position for position, *_ in expected["entries"])


async def number_of_steps(folder: Path, *, moves_metadata: bool) -> int:
    async with files_cluster(folder, moves_metadata=moves_metadata) as world:
        await filled(world)
        steps = Steps()
        await world.migrate(steps)
        return steps.count


async def ended_at(folder: Path, last: int, *, is_carried_out: bool, moves_metadata: bool) -> None:
    """End a migration at its write number `last`, then run it again to its end."""
    async with files_cluster(folder, moves_metadata=moves_metadata) as world:
        before = await filled(world)
        files = world.digest()
        assert await world.migrate(Steps(last, is_carried_out=is_carried_out)) is None
        stored = await world.connect().get(FOLDER_KEY)
        assert stored is not None
        if stored.value == (identity_of(str(world.folder)) or "").encode():
            await check_one_folder(world.connect(), str(world.folder))  # brokers can continue on the files
        else:
            with pytest.raises(LedgerFolderUnfitError, match=r"migrated|on bookies"):
                await check_one_folder(world.connect(), str(world.folder))
        next_ = world.connect_next()
        named = await next_.get(FOLDER_KEY)
        if await next_.exists(MIGRATION_KEY) and (named is None or not is_on_bookies(named.value)):
            with pytest.raises(LedgerError, match="a migration to this metadata store is unfinished"):
                await check_one_bookie_cluster(next_, "7b2f6a4e", records="barycenter")
        assert await world.migrate() is not None
        assert world.digest() == files
        assert not await world.connect_next().exists(MIGRATION_KEY)
        await check_same(world, before)
