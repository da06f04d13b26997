"""The check of all ledgers after faults of bookies finds what is lost, left or unknown to BookKeeper."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import NoSuchEntryError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.folder_identity import check_one_bookie_cluster
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.naming.topic import TopicName
from support.bookkeeper_server import BookieCluster
from support.ledger_audit import LedgerAudit, audited_ledgers

TOPIC = TopicName.parse("persistent://public/default/t")
ENTRIES = 25
SIZE = 10


@dataclass
class Written:
    """A topic with several ledgers on bookies, whose owner has not closed it."""

    cluster: BookieCluster
    storage: BookKeeperStorage
    topic: ManagedLedger[int]

    async def audit(self, *, also_told: str = "") -> LedgerAudit:
        told = "".join([f"ledgerID: {ledger}\n" async for ledger in self.storage.client.ids()]) + also_told
        return await audited_ledgers(self.cluster.store, self.storage.client, lambda command: told)


@asynccontextmanager
async def written() -> AsyncIterator[Written]:
    async with asyncio.timeout(30), BookieCluster(3) as cluster:
        client = await connect(cluster.store)
        name = await check_one_bookie_cluster(cluster.store, client.instance_id, records="barycenter")
        shape = LedgerShape(3, 3, 2, password=b"secret")
        storage = BookKeeperStorage(client, shape, lambda entry: (1, int(entry)), Caches.of(), cluster=name)
        durable: list[int] = []
        topic = await ManagedLedger[int].open(
            cluster.store, storage, TOPIC, epoch=1, clock=SystemClock(),
            settings=LedgerSettings(max_entries_per_ledger=SIZE),
            on_durable=lambda contexts, _: durable.extend(contexts), on_failed=lambda _, error: None,
        )  # fmt: skip
        await topic.open_cursor("s", "earliest")  # so that no ledger is trimmed
        for number in range(ENTRIES):
            topic.append(b"%d" % number, 1, number, number)
            while number not in durable:
                await asyncio.sleep(0)
        while not await has_rolled(client, topic):
            await asyncio.sleep(0)
        yield Written(cluster, storage, topic)
        await topic.close()
        await storage.close()


async def has_rolled(client: LedgerClient, topic: ManagedLedger[int]) -> bool:
    """Return whether all ledgers but the last one are closed, and the topic has begun no other."""
    *former, last = list(topic.segments)
    states = [(await client.metadata(segment.ledger_id)).state for segment in former]
    stored = {ledger async for ledger in client.ids()}
    is_listed = stored == {segment.ledger_id for segment in topic.segments}
    return is_listed and last.entries < SIZE and set(states) == {LedgerState.CLOSED}


async def test_all_entries_are_read_and_a_ledger_that_nobody_closed_is_recovered() -> None:
    async with written() as world:
        ledgers = len(world.topic.segments)
        assert await world.audit() == LedgerAudit(ledgers, ENTRIES, 1, {})
        assert await world.audit() == LedgerAudit(ledgers, ENTRIES, 0, {})


async def test_a_ledger_that_no_topic_lists_is_found_with_the_time_of_its_creation() -> None:
    async with written() as world:
        left = await world.storage.new_id(world.cluster.store, lambda _: None)
        before_ms = SystemClock().now_ms()
        await world.storage.create(left, epoch=1, on_durable=lambda *_: None)
        unlisted = (await world.audit()).unlisted
        assert list(unlisted) == [left]
        assert before_ms <= unlisted[left] <= SystemClock().now_ms()


async def test_a_lost_entry_is_found() -> None:
    async with written() as world:
        ledger = next(iter(world.topic.segments)).ledger_id
        for bookie in world.cluster.bookies:
            del bookie.ledgers[ledger].entries[3]
        with pytest.raises(NoSuchEntryError, match="entry 3 is lost"):
            await world.audit()


async def test_a_ledger_that_only_one_of_shell_and_client_knows_is_found() -> None:
    async with written() as world:
        with pytest.raises(AssertionError, match="ledgerID: 1000; our client"):
            await world.audit(also_told="ledgerID: 1000")


async def test_a_missing_ledger_is_found() -> None:
    async with written() as world:
        await world.storage.client.delete(next(iter(world.topic.segments)).ledger_id)
        with pytest.raises(AssertionError, match="LackingLedger"):
            await world.audit()
