"""The topics that only Java brokers can serve, as tools find them while Java brokers use them."""

import asyncio

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.errors import BookKeeperError
from pulsar_barycenter.ledger.foreign_topics import foreign_topics
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LongProperty,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
)
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.naming.topic import TopicName
from support.bookkeeper_server import BookieCluster

OFFLOADED = ManagedLedgerInfo(
    ledgerInfo=[ManagedLedgerInfo.LedgerInfo(ledgerId=1, entries=5, offloadContext=OffloadContext(complete=True))]
)
COMPACTED = PositionInfo(ledgerId=1, entryId=1, properties=[LongProperty(name="CompactedTopicLedger", value=77)])


def path_of(name: str) -> str:
    return managed_ledger_path(TopicName.parse(f"persistent://public/default/{name}"))


def nobody_waits(_entry: int, _error: BookKeeperError | None) -> None:
    return


async def test_topics_are_named_with_reasons_and_their_cursors_stay_with_their_owner() -> None:
    async with asyncio.timeout(30), BookieCluster(3) as cluster:
        client = await cluster.client()
        owner = await client.create(LedgerShape(3, 2, 2, password=b"secret"), nobody_waits)
        await owner.add(PositionInfo(ledgerId=1, entryId=0).SerializeToString())
        await owner.add(COMPACTED.SerializeToString())
        plain = ManagedLedgerInfo().SerializeToString()
        for name, value in (("plain", plain), ("compacted", plain), ("offloaded", OFFLOADED.SerializeToString())):
            await cluster.store.put(path_of(name), value)
        cursor = ManagedCursorInfo(cursorsLedgerId=owner.ledger).SerializeToString()
        await cluster.store.put(f"{path_of('compacted')}/__compaction", cursor)

        found = {str(topic): reason async for topic, reason in foreign_topics(cluster.store, client, SystemClock())}

        assert sorted(found) == ["persistent://public/default/compacted", "persistent://public/default/offloaded"]
        assert "compacted into ledger 77 by a Java broker" in found["persistent://public/default/compacted"]
        assert "offloaded to tiered storage" in found["persistent://public/default/offloaded"]
        assert await owner.add(b"it still writes its cursor") == 2
