"""Ledgers of BookKeeper with their keys in every metadata store: ids, changes by compare-and-set, bookies that come."""

import asyncio

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import NoSuchLedgerError, WriterStoppedError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState, Segment
from pulsar_barycenter.bookkeeper.metadata.ledger_store import DrawId, LedgerStore, draw_by_sequential_key, draw_of
from pulsar_barycenter.metadata.errors import BadVersionError
from support.bookkeeper_server import BookieCluster, BookieServer
from support.metadata_backends import Backend, eventually

METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("a:1",)),))


def draw_at(backend: Backend) -> DrawId:
    """Return how Pulsar draws ids in this kind of store."""
    url = getattr(backend, "store_url", "")
    return draw_of(url) if isinstance(url, str) else draw_by_sequential_key


async def test_clients_that_create_at_once_get_ids_of_their_own_and_never_one_again(backend: Backend) -> None:
    stores = [await backend.connect() for _ in range(2)]
    await stores[0].put("/ledgers/INSTANCEID", b"uuid")
    ledgers = [await LedgerStore.open(store, draw=draw_at(backend)) for store in stores]
    made = await asyncio.gather(*(ledgers[number % 2].create(METADATA) for number in range(6)))
    ids = [ledger for ledger, _, _ in made]
    assert len(set(ids)) == 6
    for ledger in ids:
        await ledgers[0].delete(ledger)
    again, metadata, version = await ledgers[1].create(METADATA)
    assert again > max(ids)
    assert await ledgers[0].swap(again, metadata.recovering(), version) == version + 1
    with pytest.raises(BadVersionError):
        await ledgers[1].swap(again, metadata.closed(0, 0), version)
    assert (await ledgers[1].read(again))[0].state is LedgerState.IN_RECOVERY
    with pytest.raises(NoSuchLedgerError):
        await ledgers[1].read(ids[0])


async def test_a_ledger_is_written_by_one_client_and_taken_over_by_another(backend: Backend) -> None:
    first, second = await backend.connect(), await backend.connect()
    async with BookieCluster(2, first) as cluster:
        writing, other = [await LedgerClient.open(store, draw=draw_at(backend)) for store in (first, second)]
        writer = await writing.create(LedgerShape(2, 2, 2), lambda *_: None)
        for number in range(20):
            await writer.add(b"%d" % number)
        fresh = BookieServer()
        await fresh.start()
        await cluster.register(fresh)
        await eventually(lambda: fresh.name in other.registry.writable)
        await cluster.named(writer.metadata.last_segment.members[1]).stop()
        reader = await other.recover(writer.ledger)
        assert await reader.read(0, 19, max_bytes=1 << 20) == [b"%d" % number for number in range(20)]
        with pytest.raises(WriterStoppedError):
            await writer.add(b"late")
        for client in (writing, other):
            await client.close()
        await fresh.stop()
