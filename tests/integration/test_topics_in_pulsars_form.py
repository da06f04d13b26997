"""Brokers on bookies whose topics have Pulsar's records, driven by the stock client.

The bookies speak BookKeeper's protocol and keep entries in the memory of the test; tests/peer has Java brokers on the
same topics.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.ledger.bookie_inspection import compare
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.managed.records import RecordForm
from pulsar_barycenter.ledger.pulsar_records.cursor_ledgers import CursorLedgersOnBookies
from pulsar_barycenter.ledger.pulsar_records.list_readers import list_reader
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import ManagedCursorInfo, ManagedLedgerInfo
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor, read_ledgers
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.run.ledger_storages import describe
from support.bookkeeper_server import BookieCluster
from support.rest_cluster import RestCluster
from support.running_cluster import eventually
from support.stock_client import connect as connect_client

pytestmark = pytest.mark.integration

TOPIC = "persistent://public/ns/orders"
REST = "/admin/v2/persistent/public/ns/orders"
PATH = "/managed-ledgers/public/ns/persistent/orders"
SHAPE = LedgerShape(2, 2, 2, password=b"secret")
SETTINGS = {
    "broker_shutdown_timeout_ms": 0,
    "managed_ledger_max_entries_per_ledger": 10,
}


class ClusterOnBookies(RestCluster):
    """Brokers that keep messages on `bookies`."""

    def __init__(self, bookies: BookieCluster) -> None:
        super().__init__()
        self.bookies = bookies
        self.storages: list[BookKeeperStorage] = []

    async def open_ledgers(self) -> tuple[LedgerStorage, RecordForm]:
        client = await connect(self.bookies.store)
        storage = BookKeeperStorage(client, SHAPE, describe, Caches.of(), cluster="us")
        self.storages.append(storage)
        return storage, RecordsInPulsarsForm(CursorLedgersOnBookies(client, SHAPE), SystemClock())

    async def list_(self) -> ManagedLedgerInfo:
        found = await self.store.get(PATH)
        assert found is not None
        return read_ledgers(PATH, found.value).info

    async def cursor(self, name: str) -> ManagedCursorInfo:
        found = await self.store.get(f"{PATH}/{name}")
        assert found is not None
        return read_cursor(PATH, found.value).info

    async def unload(self, at: Broker) -> None:
        await self.expect(204, "PUT", f"{REST}/unload", at=at)

    async def check_ledgers(self) -> None:
        """Check that bookies have what topics list, and nothing besides."""
        report = await compare(self.store, self.storages[-1].client, "us", list_reader("pulsar"))
        assert (report.lacking, report.unlisted, report.others) == ([], [], 0)


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterOnBookies]:
    async with BookieCluster(3) as bookies:
        cluster = ClusterOnBookies(bookies)
        try:
            for _ in range(2):
                await cluster.add(**SETTINGS)
            await cluster.create_namespace("public/ns", 1)
            yield cluster
        finally:
            await cluster.close()
            for storage in cluster.storages:
                await storage.close()


async def in_thread(work: Callable[[pulsar.Client], Any], broker: Broker) -> Any:
    """Run the steps of a stock client, whose calls block."""

    def run() -> Any:
        client = connect_client(str(broker.urls.broker_url))
        try:
            return work(client)
        finally:
            client.close()

    return await asyncio.to_thread(run)


def send(client: pulsar.Client, numbers: range) -> None:
    producer = client.create_producer(TOPIC)
    for number in numbers:
        producer.send(b"%d" % number)
    producer.close()


def receive(consumer: pulsar.Consumer, count: int) -> list[Any]:
    return [consumer.receive(timeout_millis=30_000) for _ in range(count)]


def numbers_of(messages: list[Any]) -> list[int]:
    return [int(message.data()) for message in messages]


def shared(client: pulsar.Client) -> pulsar.Consumer:
    return client.subscribe(TOPIC, "sub", pulsar.ConsumerType.Shared)


async def test_a_topic_keeps_messages_and_acknowledgements_while_it_moves(cluster: ClusterOnBookies) -> None:
    """Sent, partly acknowledged, moved, continued after a restart, consumed and trimmed, deleted."""

    def some_acknowledged(client: pulsar.Client) -> list[tuple[int, int]]:
        consumer = shared(client)
        send(client, range(25))
        messages = receive(consumer, 25)
        for message in [*messages[:5], *messages[15:20]]:
            consumer.acknowledge(message)
        consumer.close()
        return [(message.message_id().ledger_id(), message.message_id().entry_id()) for message in messages]

    def the_rest(client: pulsar.Client) -> list[int]:
        send(client, range(25, 35))
        consumer = shared(client)
        messages = receive(consumer, 25)
        for message in messages:
            consumer.acknowledge(message)
        consumer.close()
        return numbers_of(messages)

    first = await cluster.owner("persistent/public/ns/orders")
    places = await in_thread(some_acknowledged, first)
    await cluster.unload(first)
    listed = [part.ledgerId for part in (await cluster.list_()).ledgerInfo]
    assert len(listed) > 1
    assert {ledger for ledger, _ in places} <= set(listed)
    cursor = await cluster.cursor("sub")
    assert (cursor.cursorsLedgerId, cursor.markDeleteLedgerId, cursor.markDeleteEntryId) == (-1, *places[4])
    acknowledged = [
        (range_.upperEndpoint.ledgerId, entry)
        for range_ in cursor.individualDeletedMessages  # the lower end is exclusive, the upper one inclusive
        for entry in range(range_.lowerEndpoint.entryId + 1, range_.upperEndpoint.entryId + 1)
    ]
    assert acknowledged == places[15:20]
    await cluster.check_ledgers()

    await cluster.add(**SETTINGS)
    cluster.brokers.remove(first)
    await first.stop()
    owner = await cluster.owner("persistent/public/ns/orders")
    assert await in_thread(the_rest, owner) == [*range(5, 15), *range(20, 35)]
    await cluster.unload(owner)
    await cluster.owner("persistent/public/ns/orders")
    stats = (await cluster.expect(200, "GET", f"{REST}/stats")).json
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 0

    async def is_trimmed() -> bool:
        return listed[0] not in {part.ledgerId for part in (await cluster.list_()).ledgerInfo}

    await eventually(is_trimmed, within_s=30, what="a ledger that every subscription has consumed is deleted")
    await cluster.expect(204, "DELETE", f"{REST}?force=true")
    assert not await cluster.store.exists(PATH)

    async def is_gone() -> bool:
        return [ledger async for ledger in cluster.storages[-1].client.ids()] == []

    await eventually(is_gone, within_s=30, what="the ledgers of a deleted topic are deleted")


async def test_compaction_is_refused_and_leaves_no_cursor(cluster: ClusterOnBookies) -> None:
    owner = await cluster.owner("persistent/public/ns/orders")
    await in_thread(lambda client: send(client, range(3)), owner)
    await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/compactionThreshold", 1)
    answer = await cluster.expect(405, "PUT", f"{REST}/compaction")
    assert "barycenterLedgerRecords=pulsar" in answer.reason
    await cluster.unload(owner)
    await in_thread(lambda client: send(client, range(3)), owner)  # loaded under the threshold of the namespace
    assert await cluster.store.children(PATH) == []


async def test_a_topic_that_only_java_brokers_can_serve_is_refused_and_not_changed(cluster: ClusterOnBookies) -> None:
    owner = await cluster.owner("persistent/public/ns/orders")
    await cluster.store.put(f"{PATH}-sub__transaction_pending_ack", b"")
    with pytest.raises(pulsar.NotAllowedError):
        await in_thread(lambda client: send(client, range(3)), owner)
    answer = await cluster.call("PUT", f"{REST}/subscription/sub")
    assert (answer.status, "only Java brokers can serve the topic orders" in answer.reason) == (405, True)
    assert not await cluster.store.exists(PATH)
