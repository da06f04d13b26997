"""Ledgers of cursors on bookies, beside those in memory that other tests use."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.errors import WriterStoppedError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.wire.packets import Code
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.records import CursorRecord
from pulsar_barycenter.ledger.pulsar_records.cursor_ledgers import CursorLedgersOnBookies
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import CursorLedgers, RecordsInPulsarsForm
from support.bookkeeper_server import BookieCluster
from support.cursor_ledgers import MemoryCursorLedgers
from support.ledger_world import FixedClock

SHAPE = LedgerShape(2, 2, 2, password=b"secret")
PATH = "/managed-ledgers/t/n/persistent/a"
MANY = CursorRecord(mark_delete=(7, 1), ranges=tuple((7, 2 * n, 2 * n) for n in range(2, 1100)))
FEW = CursorRecord(mark_delete=(7, 9), ranges=((7, 20, 20),))


@pytest.fixture
async def bookies() -> AsyncIterator[BookieCluster]:
    async with BookieCluster(2) as cluster:
        yield cluster


async def on(bookies: BookieCluster) -> CursorLedgersOnBookies:
    return CursorLedgersOnBookies(await bookies.client(), SHAPE)


async def ids_of(bookies: BookieCluster) -> list[int]:
    return [ledger async for ledger in (await bookies.client()).ids()]


@pytest.mark.parametrize("place", ["memory", "bookies"])
async def test_what_is_written_is_read_back_until_it_is_deleted(bookies: BookieCluster, place: str) -> None:
    ledgers: CursorLedgers = MemoryCursorLedgers() if place == "memory" else await on(bookies)
    first = await ledgers.write("t/n/persistent/a", "sub/1", b"one")
    second = await ledgers.write("t/n/persistent/a", "sub/1", b"two")
    assert second > first
    assert [await ledgers.last_entry(ledger) for ledger in (first, second)] == [b"one", b"two"]
    for _ in range(2):
        await ledgers.delete(first)
    assert [await ledgers.last_entry(ledger) for ledger in (first, second)] == [None, b"two"]


async def test_a_ledger_is_closed_has_pulsars_marks_and_an_id_of_bookkeeper(bookies: BookieCluster) -> None:
    client = await bookies.client()
    before = await client.new_id()
    ledger = await (await on(bookies)).write("t/n/persistent/a", "sub/1", b"one")
    assert before < ledger < await client.new_id()
    metadata = await client.metadata(ledger)
    assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 0)
    assert metadata.custom == {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": b"t/n/persistent/a",
        "pulsar/cursor": b"sub/1",
    }


async def test_the_last_entry_of_a_ledger_that_its_owner_still_writes_ends_that_owner(bookies: BookieCluster) -> None:
    writer = await (await bookies.client()).create(SHAPE, lambda *_: None)
    for number in range(5):
        await writer.add(b"%d" % number)
    assert await (await on(bookies)).last_entry(writer.ledger) == b"4"
    with pytest.raises(WriterStoppedError):
        await writer.add(b"late")


async def test_an_empty_ledger_and_a_lost_entry_are_none_and_bookies_that_fail_are_not(bookies: BookieCluster) -> None:
    ledgers = await on(bookies)
    empty = await (await bookies.client()).create(SHAPE, lambda *_: None)
    assert await ledgers.last_entry(empty.ledger) is None
    written = await ledgers.write("t/n/persistent/a", "s", b"one")
    for bookie in bookies.bookies:
        bookie.code = Code.IO_ERROR
    with pytest.raises(LedgerUnavailableError):
        await ledgers.last_entry(written)
    for bookie in bookies.bookies:
        bookie.code = Code.OK
        bookie.ledgers[written].entries.clear()
    assert await ledgers.last_entry(written) is None


async def test_a_refused_write_leaves_no_ledger(bookies: BookieCluster) -> None:
    ledgers = await on(bookies)
    with pytest.raises(LedgerError, match="cursor s of t/n/persistent/a: an entry of 6,000,000 bytes is larger"):
        await ledgers.write("t/n/persistent/a", "s", bytes(6_000_000))
    for bookie in bookies.bookies:
        bookie.code = Code.IO_ERROR
    with pytest.raises(LedgerFullError):
        await ledgers.write("t/n/persistent/a", "s", b"one")
    assert await ids_of(bookies) == []


async def test_a_cursor_with_many_ranges_goes_to_bookies_and_back(bookies: BookieCluster) -> None:
    form = RecordsInPulsarsForm(await on(bookies), FixedClock())
    keeper = form.cursor(bookies.store, PATH, "sub", epoch=1)
    await keeper.write(MANY)
    found = await bookies.store.get(f"{PATH}/sub")
    assert found is not None
    assert [read_cursor(PATH, found.value).info.cursorsLedgerId] == await ids_of(bookies)
    later = RecordsInPulsarsForm(await on(bookies), FixedClock()).cursor(bookies.store, PATH, "sub", epoch=2)
    assert await later.load() == MANY
    assert await later.take_over(FEW)
    assert await ids_of(bookies) == []
    assert await form.cursor(bookies.store, PATH, "sub", epoch=3).load() == FEW
