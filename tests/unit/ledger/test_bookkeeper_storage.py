"""What ledgers on bookies do beyond the contract of storages: lost entries, owners, bookies that are not there."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.wire.packets import Code, Operation
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import (
    LedgerCorruptedError,
    LedgerError,
    LedgerFencedError,
    LedgerFullError,
    LedgerNotFoundError,
    LedgerUnavailableError,
)
from support.bookkeeper_server import BookieCluster

SHAPE = LedgerShape(2, 2, 2, password=b"secret")


def described(entry: bytes) -> tuple[int, int]:
    """Entries are numbers, which are their publish times; each has two messages, from 100 on four."""
    return (2 if int(entry) < 100 else 4), int(entry)


class World:
    def __init__(self, cluster: BookieCluster) -> None:
        self.cluster = cluster
        self.durable = -1
        self.failed: list[tuple[int, LedgerError]] = []

    async def storage(self, shape: LedgerShape = SHAPE, *, unconfirmed: int = 1 << 20) -> BookKeeperStorage:
        settings = ClientSettings(reconnect_s=0.0, max_unconfirmed_bytes=unconfirmed)
        return BookKeeperStorage(await connect(self.cluster.store, settings=settings), shape, described, Caches.of())

    def report(self, entry_id: int, error: LedgerError | None) -> None:
        if error is None:
            self.durable = entry_id
        else:
            self.failed.append((entry_id, error))

    async def written(self, storage: BookKeeperStorage, ledger: int, count: int) -> None:
        """Write `count` entries and close the ledger."""
        writer = await storage.create(ledger, epoch=1, on_durable=self.report)
        writer.extend([(b"%d" % number, 2, number) for number in range(count)])
        await writer.close()
        assert self.durable == count - 1

    def lose(self, ledger: int, *entries: int) -> None:
        for bookie in self.cluster.bookies:
            for entry in entries:
                bookie.ledgers[ledger].entries.pop(entry, None)


def played(test: Callable[[World], Awaitable[None]], bookies: int = 2) -> None:
    async def play() -> None:
        async with BookieCluster(bookies) as cluster:
            await test(World(cluster))

    asyncio.run(asyncio.wait_for(play(), 30))


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def test_lost_entries_are_damage_that_reads_stop_before_and_searches_pass_over():
    async def test(world: World) -> None:
        storage = await world.storage()
        await world.written(storage, 1, 30)
        world.lose(1, 14, 15, 16)
        reader = await storage.open(1, entry_count=30)
        assert list(reader.damage) == []
        assert list(await reader.read(12, 29, 1 << 20)) == [b"12", b"13"]
        for lost in (14, 15, 16):
            with pytest.raises(LedgerCorruptedError, match="autoSkipNonRecoverableData") as refused:
                await reader.read(lost, 29, 1 << 20)
            assert refused.value.entries is not None
        assert list(reader.damage) == [(14, 16)]
        found = [await reader.first_published_at_or_after(time_ms, 0) for time_ms in range(13, 19)]
        assert found == [13, 17, 17, 17, 17, 18]
        await storage.close()

    played(test)


def test_bookies_that_do_not_answer_are_no_damage():
    async def test(world: World) -> None:
        storage = await world.storage()
        await world.written(storage, 1, 5)
        reader = await storage.open(1, entry_count=5)
        for bookie in world.cluster.bookies:
            bookie.code = Code.IO_ERROR
        with pytest.raises(LedgerUnavailableError):
            await reader.read(0, 4, 1 << 20)
        with pytest.raises(LedgerUnavailableError):
            await reader.first_published_at_or_after(2, 0)
        assert list(reader.damage) == []
        for bookie in world.cluster.bookies:
            bookie.code = Code.OK
        assert len(await reader.read(0, 4, 1 << 20)) == 5
        await storage.close()

    played(test)


def test_a_recovery_without_its_bookies_is_tried_again_later_and_then_knows_all_entries():
    async def test(world: World) -> None:
        first, second = await world.storage(), await world.storage()
        writer = await first.create(1, epoch=1, on_durable=world.report)
        writer.extend([(b"%d" % number, 2, number) for number in range(3)])
        await until(lambda: world.durable == 2)
        for bookie in world.cluster.bookies:
            await bookie.stop()
        with pytest.raises(LedgerUnavailableError):
            await second.fence(1, epoch=2)
        for bookie in world.cluster.bookies:
            await bookie.start()
        while True:
            try:
                reader = await second.fence(1, epoch=2)
                break
            except LedgerUnavailableError:
                await asyncio.sleep(0)
        assert (reader.entry_count, reader.totals) == (3, (3, 6, 2))
        writer.append(b"3", 2, 3)
        await until(lambda: bool(world.failed))
        entry_id, error = world.failed[0]
        assert isinstance(error, LedgerFencedError | LedgerFullError)
        assert entry_id == 3
        await first.close()
        await second.close()

    played(test)


def test_a_ledger_that_its_writer_could_not_close_is_closed_when_it_is_opened():
    async def test(world: World) -> None:
        first, second = await world.storage(), await world.storage()
        writer = await first.create(1, epoch=1, on_durable=world.report)
        writer.extend([(b"%d" % number, 2, number) for number in range(4)])
        await until(lambda: world.durable == 3)
        assert (await second.client.metadata(1)).state is LedgerState.OPEN
        reader = await second.open(1, entry_count=3)
        assert list(await reader.read(0, 9, 1 << 20)) == [b"0", b"1", b"2"]
        assert (await second.client.metadata(1)).state is LedgerState.CLOSED
        await second.close()
        await first.close()

    played(test)


def test_totals_of_long_ledgers_are_estimated_from_entries_over_all_of_it():
    async def test(world: World) -> None:
        storage = await world.storage()
        await world.written(storage, 1, 200)
        reader = await storage.fence(1, epoch=2)
        assert reader.totals.size == sum(len(b"%d" % number) for number in range(200))
        assert reader.totals.max_publish_time_ms == 199
        assert abs(reader.totals.messages - 600) < 10
        await storage.close()

    played(test)


def test_a_wrong_password_and_a_too_large_entry_change_nothing():
    async def test(world: World) -> None:
        storage = await world.storage()
        await world.written(storage, 1, 2)
        other = await world.storage(LedgerShape(2, 2, 2, password=b"wrong"))
        with pytest.raises(LedgerError, match="managedLedgerPassword"):
            await other.open(1, entry_count=2)
        writer = await storage.create(2, epoch=1, on_durable=world.report)
        with pytest.raises(LedgerError, match="larger than"):
            writer.extend([(b"1", 2, 1), (bytes(6 << 20), 1, 0)])
        assert writer.append(b"0", 2, 0) == 0
        await writer.close()
        assert (await storage.client.metadata(2)).last_entry == 0
        for end in (storage, other):
            await end.close()

    played(test)


def test_a_ledger_that_was_deleted_by_hand_is_not_found():
    async def test(world: World) -> None:
        storage = await world.storage()
        await world.written(storage, 1, 2)
        await world.cluster.store.delete("/ledgers/00/0000/L0001")
        for opening in (storage.open(1, entry_count=2), storage.fence(1, epoch=2)):
            with pytest.raises(LedgerNotFoundError, match="has no key") as refused:
                await opening
            assert "Restore the ledger's key" in refused.value.remedy
        await world.cluster.store.put("/ledgers/00/0000/L0001", b"damaged")
        for opening in (storage.open(1, entry_count=2), storage.fence(1, epoch=2)):
            with pytest.raises(LedgerCorruptedError, match="Restore the ledger's key") as damaged:
                await opening
            assert "bring back their disks" not in damaged.value.remedy
        await storage.close()

    played(test)


def test_a_writer_without_enough_bookies_fails_as_on_a_full_disk_and_keeps_what_it_reported():
    async def test(world: World) -> None:
        storage = await world.storage()
        writer = await storage.create(1, epoch=1, on_durable=world.report)
        writer.append(b"0", 2, 0)
        await until(lambda: world.durable == 0)
        await world.cluster.bookies[0].stop()
        writer.append(b"1", 2, 1)
        await until(lambda: bool(world.failed))
        assert world.failed[0][0] == 1
        assert isinstance(world.failed[0][1], LedgerFullError)
        await writer.close()
        metadata = await storage.client.metadata(1)
        assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 0)
        await storage.close()

    played(test)


def test_entries_wait_in_their_order_while_bookies_are_behind():
    async def test(world: World) -> None:
        storage = await world.storage(unconfirmed=20)
        for bookie in world.cluster.bookies:
            bookie.is_mute = True
        writer = await storage.create(1, epoch=1, on_durable=world.report)
        assert [writer.append(b"%d" % number, 2, number) for number in range(50)] == list(range(50))
        await until(lambda: world.cluster.bookies[0].requests[Operation.ADD] > 0)
        for bookie in world.cluster.bookies:
            assert bookie.requests[Operation.ADD] <= 20
            bookie.is_mute = False
            await bookie.stop()  # what was answered is lost with its connection
            await bookie.start()
        await until(lambda: world.durable == 49 or bool(world.failed))
        await writer.close()
        reader = await storage.open(1, entry_count=world.durable + 1)
        found = await reader.read(0, 49, 1 << 20) if world.durable >= 0 else []
        assert list(found) == [b"%d" % number for number in range(world.durable + 1)]
        await world.written(storage, 2, 50)
        await storage.close()

    played(test)


def test_ledgers_of_a_group_are_on_its_bookies():
    async def test(world: World) -> None:
        names = sorted(bookie.name for bookie in world.cluster.bookies)
        groups = {"west": names[:2], "rest": names[2:3], "other": names[3:]}
        stored = {group: {bookie: {"rack": f"/{bookie}"} for bookie in bookies} for group, bookies in groups.items()}
        await world.cluster.store.put("/bookies", msgspec.json.encode(stored))
        storage = await world.storage()
        assert list(storage.bookies) == names
        assert storage.store_of_racks(world.cluster.store) is world.cluster.store
        assert storage.on_groups((), ()) is storage
        west = storage.on_groups(["west"], ["rest"])
        assert west.identity == storage.identity, "it is the same storage"
        for ledger in range(5):
            await world.written(west, ledger, 2)
            metadata = await storage.client.metadata(ledger)
            assert {bookie for segment in metadata.segments for bookie in segment.members} == set(names[:2])
        with pytest.raises(LedgerFullError, match="only the bookies of its groups and"):
            await storage.on_groups(["none"], []).create(9, epoch=1, on_durable=world.report)
        await storage.close()

    played(test, bookies=4)
