"""The comparison of what topics list with what is on bookies, and the deletion of what no topic lists."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.errors import NoSuchLedgerError
from pulsar_barycenter.ledger.bookie_inspection import compare, delete_unlisted
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerFullError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.records import read_list_with_epoch
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.errors import InvalidValueError
from pulsar_barycenter.naming.topic import TopicName
from support.bookkeeper_server import BookieCluster

TOPIC = TopicName.parse("persistent://public/default/t")
SHAPE = LedgerShape(2, 2, 2, password=b"secret")


def described(entry: bytes) -> tuple[int, int]:
    return 1, int(entry)


class World:
    """A topic on bookies, and the numbers that were reported as durable."""

    def __init__(self, cluster: BookieCluster, storage: BookKeeperStorage) -> None:
        self.cluster = cluster
        self.storage = storage
        self.client = storage.client
        self.store = cluster.store
        self.durable: list[int] = []
        self.failed: list[Exception] = []

    async def topic(self, epoch: int) -> ManagedLedger[int]:
        def durable(contexts: list[int], _: object) -> None:
            self.durable += contexts

        return await ManagedLedger.open(
            self.store, self.storage, TOPIC, epoch=epoch, clock=SystemClock(),
            settings=LedgerSettings(max_entries_per_ledger=10),
            on_durable=durable, on_failed=lambda _, error: self.failed.append(error),
        )  # fmt: skip

    async def send(self, topic: ManagedLedger[int], first: int, stop: int) -> None:
        for number in range(first, stop):
            topic.append(b"%d" % number, 1, number, number)
            if number % 5 == 4:
                await self.until(lambda number=number: number in self.durable)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            assert not self.failed, self.failed
            await asyncio.sleep(0)


def played(test: Callable[[World], Awaitable[None]]) -> None:
    async def play() -> None:
        async with BookieCluster(3) as cluster:
            storage = BookKeeperStorage(await connect(cluster.store), SHAPE, described, Caches.of(), cluster="us")
            await test(World(cluster, storage))
            await storage.close()

    asyncio.run(asyncio.wait_for(play(), 30))


def test_ledgers_that_are_lacking_unlisted_or_of_others_are_told_apart():
    async def test(world: World) -> None:
        topic = await world.topic(1)
        await topic.open_cursor("s", "earliest")  # so that no ledger is trimmed
        await world.send(topic, 0, 35)
        await topic.close()
        listed = [segment.ledger_id for segment in topic.segments]
        assert len(listed) > 1
        stranger = await world.client.create(SHAPE, lambda *_: None)
        await world.client.create(SHAPE, lambda *_: None, custom={"barycenter-cluster": b"them"})
        left = await world.storage.new_id(world.store, lambda _: None)
        await world.storage.create(left, epoch=1, on_durable=lambda *_: None)
        whole = await compare(world.store, world.client, "us", read_list_with_epoch)
        assert (whole.topics, whole.ledgers, whole.lacking) == (1, len(listed), [])
        assert (whole.unlisted, whole.others) == ([left], 2)

        await world.client.delete(listed[0])
        found = await compare(world.store, world.client, "us", read_list_with_epoch)
        assert [lacking.ledger for lacking in found.lacking] == [listed[0]]
        assert await delete_unlisted(world.store, world.client, found.unlisted, read_list_with_epoch) == [left]
        with pytest.raises(NoSuchLedgerError):
            await world.client.metadata(left)
        await world.client.metadata(stranger.ledger)
        assert (await compare(world.store, world.client, "us", read_list_with_epoch)).unlisted == []

    played(test)


def test_a_list_that_cannot_be_read_hides_no_other_fault_and_nothing_is_deleted():
    """It may name any ledger, so none counts as unlisted."""

    async def test(world: World) -> None:
        topic = await world.topic(1)
        await topic.open_cursor("s", "earliest")
        await world.send(topic, 0, 15)
        await topic.close()
        listed = [segment.ledger_id for segment in topic.segments]
        left = await world.storage.new_id(world.store, lambda _: None)
        await world.storage.create(left, epoch=1, on_durable=lambda *_: None)
        await world.client.delete(listed[0])
        damaged = "/managed-ledgers/public/default/persistent/damaged"
        await world.store.put(damaged, b"{")
        found = await compare(world.store, world.client, "us", read_list_with_epoch)
        assert [lacking.ledger for lacking in found.lacking] == [listed[0]]
        assert [(one.topic, damaged in one.detail) for one in found.unreadable] == [
            ("persistent://public/default/damaged", True)
        ]
        assert (found.topics, found.ledgers, found.unlisted) == (1, len(listed), [])
        with pytest.raises(InvalidValueError):
            await delete_unlisted(world.store, world.client, [left], read_list_with_epoch)
        await world.client.metadata(left)

    played(test)


def test_a_ledger_that_a_topic_lists_is_fenced_and_kept():
    async def test(world: World) -> None:
        topic = await world.topic(1)
        await world.send(topic, 0, 5)
        (segment,) = topic.segments
        assert await delete_unlisted(world.store, world.client, [segment.ledger_id], read_list_with_epoch) == []
        assert (await world.client.metadata(segment.ledger_id)).last_entry == 4
        topic.append(b"5", 1, 5, 5)  # the owner finds itself fenced, no later owner, and goes on in another ledger
        while not world.failed:
            await asyncio.sleep(0)
        world.failed.clear()
        await world.send(topic, 5, 10)
        assert len(topic.segments) == 2
        await topic.close()

    played(test)


def test_a_later_owner_reads_what_the_former_one_reported_and_knows_sizes_counts_and_times():
    async def test(world: World) -> None:
        first = await world.topic(1)
        cursor = await first.open_cursor("s", "earliest")  # so that no ledger is trimmed
        await world.send(first, 0, 35)
        second = await world.topic(2)
        entries = []
        while len(entries) < 35:
            start = second.next_valid(entries[-1].position if entries else cursor.mark_delete)
            entries += await second.read(start, 100, 1 << 20)
        assert [int(entry.data) for entry in entries] == list(range(35))
        assert [entry.publish_time_ms for entry in entries] == list(range(35))
        assert second.segments.messages_between(cursor.mark_delete, second.last_position) == 35
        found = await second.find_by_publish_time(17)
        assert found == entries[17].position
        info = await second.info(entries[30].position)
        assert info is not None
        assert info.publish_time_ms == 30
        await first.close()
        await second.delete()
        assert [ledger async for ledger in world.client.ids()] == []

    played(test)


def test_too_few_bookies_leave_no_ledger_and_are_told_in_a_sentence():
    async def test(world: World) -> None:
        for bookie in world.cluster.bookies[1:]:
            await world.store.delete(f"/ledgers/available/{bookie.name}")
        while len(world.client.registry.writable) > 1:
            await asyncio.sleep(0)
        assert not await world.storage.has_room()
        assert "managedLedgerDefaultEnsembleSize=2" in world.storage.shortage
        topic = await world.topic(1)
        topic.append(b"0", 1, 0, 0)
        while not world.failed:
            await asyncio.sleep(0)
        assert isinstance(world.failed[0], LedgerFullError)
        assert [ledger async for ledger in world.client.ids()] == []
        await world.cluster.register(world.cluster.bookies[1])
        while len(world.client.registry.writable) < 2:
            await asyncio.sleep(0)
        world.failed.clear()
        await world.send(topic, 0, 5)
        await topic.close()

    played(test)
