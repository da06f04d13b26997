"""The guarantees of every ledger storage."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import (
    LedgerClosedError,
    LedgerCorruptedError,
    LedgerError,
    LedgerFencedError,
    LedgerNotFoundError,
)
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.position import EntryInfo
from pulsar_barycenter.ledger.storage import LedgerStorage, LedgerWriter
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from support.bookkeeper_server import BookieCluster
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.stale_files import two_machines

DEADLINE_S = 30


@dataclass
class Reports:
    """Collects what a writer reports, and waits for it."""

    durable: list[int] = field(default_factory=list)
    failure: tuple[int, LedgerError] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, entry_id: int, error: LedgerError | None) -> None:
        assert self.failure is None, "nothing is reported after a failure"
        if error is None:
            self.durable.append(entry_id)
        else:
            self.failure = (entry_id, error)
        self.changed.set()

    async def until_durable(self, entry_id: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not self.durable or self.durable[-1] < entry_id:
                assert self.failure is None, self.failure
                self.changed.clear()
                await self.changed.wait()

    async def until_failed(self) -> tuple[int, LedgerError]:
        async with asyncio.timeout(DEADLINE_S):
            while self.failure is None:
                self.changed.clear()
                await self.changed.wait()
        return self.failure


@dataclass
class Place:
    """A location of ledgers, as two brokers see it.

    `has_columns`: the storage keeps counts and times of entries. `spares_own_epoch`: a fence under the epoch of the
    writer does not stop it.
    """

    first: LedgerStorage
    second: LedgerStorage
    store: MetadataStore
    has_columns: bool = True
    spares_own_epoch: bool = True


def described(entry: bytes) -> tuple[int, int]:
    """Return the message count and the publish time of an entry of these tests, which its number tells."""
    number = int(entry.removeprefix(b"entry ") or b"0") if entry.startswith(b"entry ") else 0
    return number % 3 + 1, 1000 + number


async def on_bookies(store: MetadataStore) -> Place:
    shape = LedgerShape(3, 3, 2, password=b"secret")
    storages = [BookKeeperStorage(await connect(store), shape, described, Caches.of()) for _ in range(2)]
    return Place(*storages, store, has_columns=False, spares_own_epoch=False)


@pytest.fixture(params=["memory", "file", "file on two machines", "bookies"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Place]:
    if request.param == "bookies":
        async with BookieCluster(3) as cluster:
            place = await on_bookies(cluster.store)
            yield place
            await place.first.close()
            await place.second.close()
        return
    store = MemoryBackend().connect()
    if request.param == "memory":
        disk = MemoryDisk()
        place = Place(MemoryLedgerStorage(disk), MemoryLedgerStorage(disk), store)
    elif request.param == "file":
        place = Place(FileLedgerStorage(tmp_path / "ledgers"), FileLedgerStorage(tmp_path / "ledgers"), store)
    else:
        _, first, second = two_machines(tmp_path, monkeypatch)
        place = Place(FileLedgerStorage(first, direct=True), FileLedgerStorage(second, direct=True), store)
    yield place
    await place.first.close()
    await place.second.close()
    await store.close()


def append_numbers(writer: LedgerWriter, first: int, stop: int) -> None:
    for number in range(first, stop):
        assert writer.append(b"entry %d" % number, number % 3 + 1, 1000 + number) == number


async def test_entries_are_reported_in_order_and_read_back(place: Place) -> None:
    """Ids count from 0, reported ids grow, and data and columns are read back as they were appended."""
    reports = Reports()
    writer = await place.first.create(7, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 100)
    await reports.until_durable(99)
    assert reports.durable == sorted(set(reports.durable))
    assert writer.reader.entry_count == 100
    assert list(await writer.reader.read(0, 99, 1 << 20)) == [b"entry %d" % n for n in range(100)]
    assert await writer.reader.info(4) == EntryInfo(7, 2, 1004)
    assert writer.index.messages_between(0, 3) == 6


async def test_entries_appended_together_stand_in_their_order_between_those_appended_one_by_one(place: Place) -> None:
    reports = Reports()
    writer = await place.first.create(7, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 3)
    writer.extend([])
    writer.extend([(b"entry %d" % n, n % 3 + 1, 1000 + n) for n in range(3, 9)])
    append_numbers(writer, 9, 12)
    await reports.until_durable(11)
    assert list(await writer.reader.read(0, 11, 1 << 20)) == [b"entry %d" % n for n in range(12)]
    assert await writer.reader.info(4) == EntryInfo(7, 2, 1004)
    await writer.close()
    with pytest.raises(LedgerClosedError):
        writer.extend([(b"late", 1, 0)])


async def test_reports_match_what_the_reader_knows(place: Place) -> None:
    """When an entry is reported, the writer's reader returns it already."""
    known: list[tuple[int, int]] = []
    writers: list[LedgerWriter] = []
    done = asyncio.Event()

    def on_durable(entry_id: int, error: LedgerError | None) -> None:
        assert error is None
        known.append((entry_id, writers[0].reader.entry_count))
        if entry_id == 9:
            done.set()

    writers.append(await place.first.create(1, epoch=1, on_durable=on_durable))
    append_numbers(writers[0], 0, 10)
    async with asyncio.timeout(DEADLINE_S):
        await done.wait()
    assert all(count == entry_id + 1 for entry_id, count in known)


async def test_closing_waits_for_what_was_appended(place: Place) -> None:
    """close() returns after the last report; appending after it is an error; closing again is none."""
    reports = Reports()
    writer = await place.first.create(1, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 50)
    await writer.close()
    assert reports.durable[-1] == 49
    await writer.close()
    with pytest.raises(LedgerClosedError):
        writer.append(b"late", 1, 0)


async def test_a_read_takes_one_entry_at_least_and_then_keeps_within_its_limit(place: Place) -> None:
    """max_bytes bounds a read beyond its first entry; the last id is inclusive and may be after the end."""
    reports = Reports()
    writer = await place.first.create(1, epoch=1, on_durable=reports)
    for _ in range(10):
        writer.append(bytes(100), 1, 0)
    await reports.until_durable(9)
    assert len(await writer.reader.read(2, 5, 1000)) == 4
    assert len(await writer.reader.read(2, 9, 1)) == 1
    assert len(await writer.reader.read(0, 9, 399)) == 3
    assert len(await writer.reader.read(8, 1000, 1000)) == 2
    assert await writer.reader.read(10, 12, 1000) == []


async def test_a_closed_ledger_is_opened_at_its_known_length(place: Place) -> None:
    """Another broker reads a ledger by its length; beyond the actual length the rest is damaged."""
    reports = Reports()
    writer = await place.first.create(3, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 20)
    await writer.close()
    reader = await place.second.open(3, entry_count=15)
    assert reader.entry_count == 15
    assert (await reader.read(14, 19, 1000))[-1] == b"entry 14"
    lacking = await place.second.open(3, entry_count=22)
    assert [entry_id for first, last in lacking.damage for entry_id in range(first, last + 1)] == [20, 21]
    assert list(await lacking.read(18, 21, 1000)) == [b"entry 18", b"entry 19"]
    with pytest.raises(LedgerCorruptedError):
        await lacking.read(20, 21, 1000)
    if place.has_columns:
        assert await lacking.info(21) == EntryInfo(0, 0, 0)
    else:
        with pytest.raises(LedgerCorruptedError):
            await lacking.info(21)


async def test_large_and_empty_entries_are_kept(place: Place) -> None:
    """Entries of any size share one group, empty ones too."""
    reports = Reports()
    writer = await place.first.create(3, epoch=1, on_durable=reports)
    data = [b"", b"x" * 5_000_000, b"", b"y" * 70_000, b"z"]
    for entry in data:
        writer.append(entry, 1, 0)
    await reports.until_durable(4)
    reader = await place.second.fence(3, epoch=2)
    assert list(await reader.read(0, 4, 1 << 30)) == data


async def test_after_a_fence_nothing_more_is_reported(place: Place) -> None:
    """The former owner's next append fails and names both epochs; the later owner has every reported entry."""
    reports = Reports()
    writer = await place.first.create(1, epoch=5, on_durable=reports)
    append_numbers(writer, 0, 10)
    await reports.until_durable(9)
    reader = await place.second.fence(1, epoch=6)
    assert reader.entry_count == 10
    writer.append(b"late", 1, 0)
    entry_id, error = await reports.until_failed()
    assert isinstance(error, LedgerFencedError)
    assert (entry_id, error.epoch, error.fenced_by) == (10, 5, 6)
    with pytest.raises(LedgerClosedError):
        writer.append(b"later", 1, 0)
    await writer.close()


async def test_a_fence_in_the_midst_of_appends_loses_nothing_reported(place: Place) -> None:
    """The fencing owner finds every entry that is reported around a fence."""
    reports = Reports()
    writer = await place.first.create(1, epoch=1, on_durable=reports)
    for number in range(2000):
        if reports.failure is None:
            writer.append(b"%d" % number, 1, number)
        if number == 700:
            fencing = asyncio.create_task(place.second.fence(1, epoch=2))
        if number % 20 == 0:
            await asyncio.sleep(0)
    reader = await fencing
    if reports.failure is None:
        writer.append(b"after the fence, if all before it were too early", 1, 0)
    await reports.until_failed()
    reported = reports.durable[-1] + 1 if reports.durable else 0
    assert reader.entry_count >= reported
    found = await reader.read(0, reader.entry_count, 1 << 20) if reader.entry_count else []
    assert list(found) == [b"%d" % number for number in range(reader.entry_count)]


async def test_fences_only_rise(place: Place) -> None:
    """Fencing again is allowed; an epoch below that of the last fence, or of the writer, is refused."""
    await place.first.create(1, epoch=5, on_durable=Reports())
    with pytest.raises(LedgerFencedError):
        await place.second.fence(1, epoch=4)
    await place.second.fence(1, epoch=7)
    await place.second.fence(1, epoch=7)
    with pytest.raises(LedgerFencedError) as refused:
        await place.first.fence(1, epoch=6)
    assert refused.value.fenced_by == 7


async def test_a_writer_is_not_fenced_by_its_own_epoch(place: Place) -> None:
    """A fence under the writer's epoch leaves it writing, or ends the ledger; that proves no later owner."""
    reports = Reports()
    writer = await place.first.create(1, epoch=5, on_durable=reports)
    await place.second.fence(1, epoch=5)
    writer.append(b"on", 1, 0)
    if place.spares_own_epoch:
        await reports.until_durable(0)
    else:
        _, error = await reports.until_failed()
        assert not isinstance(error, LedgerFencedError)


async def test_absent_ledgers(place: Place) -> None:
    """Deleting an absent ledger is no error; opening or fencing it, or creating a ledger twice, is."""
    await place.first.delete(99)
    with pytest.raises(LedgerNotFoundError):
        await place.first.open(99, entry_count=1)
    with pytest.raises(LedgerNotFoundError):
        await place.first.fence(99, epoch=1)
    writer = await place.first.create(99, epoch=1, on_durable=Reports())
    with pytest.raises(LedgerError):
        await place.second.create(99, epoch=2, on_durable=Reports())
    await writer.close()
    await place.second.delete(99)
    with pytest.raises(LedgerNotFoundError):
        await place.first.open(99, entry_count=0)


async def test_many_ledgers_at_once(place: Place) -> None:
    """Ledgers do not disturb each other's order."""
    reports = [Reports() for _ in range(20)]
    writers = [await place.first.create(n, epoch=1, on_durable=reports[n]) for n in range(20)]
    for number in range(50):
        for n, writer in enumerate(writers):
            writer.append(b"%d/%d" % (n, number), 1, 0)
        if number % 10 == 0:
            await asyncio.sleep(0)
    for n, writer in enumerate(writers):
        await reports[n].until_durable(49)
        assert list(await writer.reader.read(0, 49, 1 << 20)) == [b"%d/%d" % (n, number) for number in range(50)]


async def test_counts_and_times_are_read_with_entries(place: Place) -> None:
    """A read ends with the entry that reaches the number of messages, and a search by time finds the first entry."""
    reports = Reports()
    writer = await place.first.create(1, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 60)
    await writer.close()
    reader = await place.second.open(1, entry_count=60)
    data, counts, times = await reader.read_stored(3, 59, 1 << 20, 4)
    assert list(data) == [b"entry 3", b"entry 4", b"entry 5"]
    assert (list(counts), list(times)) == ([1, 2, 3], [1003, 1004, 1005])
    assert [len((await reader.read_stored(3, 40, 20, limit)).data) for limit in (None, 1)] == [2, 1]
    assert await reader.info(59) == EntryInfo(8, 3, 1059)
    found = [await reader.first_published_at_or_after(time_ms, first) for time_ms, first in
             ((0, 0), (1000, 7), (1017, 0), (1059, 3), (1060, 0))]  # fmt: skip
    assert found == [0, 7, 17, 59, None]
    fenced = await place.second.fence(1, epoch=2)
    assert fenced.totals == (sum(len(b"entry %d" % n) for n in range(60)), 120, 1059)


async def test_a_writer_knows_its_entries_without_reading_them(place: Place) -> None:
    reports = Reports()
    writer = await place.first.create(1, epoch=1, on_durable=reports)
    append_numbers(writer, 0, 10)
    await reports.until_durable(9)
    assert writer.reader.index is writer.index
    assert await writer.reader.first_published_at_or_after(1005, 0) == 5
    assert (await writer.reader.read_stored(0, 9, 1 << 20, 3)).num_messages == [1, 2]


async def test_ids_of_ledgers_that_exist_are_passed_over_when_the_counter_was_lost(place: Place) -> None:
    """An owner deletes an id in its record for which it could create no ledger."""
    first = await place.first.new_id(place.store, asyncio.ensure_future)
    for ledger in (first + 1, first + 2):
        reports = Reports()
        writer = await place.first.create(ledger, epoch=1, on_durable=reports)
        append_numbers(writer, 0, 1)
        await reports.until_durable(0)
        await writer.close()
    assert await place.second.new_id(place.store, asyncio.ensure_future) == first + 3


async def test_a_counter_that_gives_many_ids_of_ledgers_that_exist_is_told(place: Place) -> None:
    first = await place.first.new_id(place.store, asyncio.ensure_future)
    for ledger in range(first + 1, first + 150):
        writer = await place.first.create(ledger, epoch=1, on_durable=Reports())
        await writer.close()
    with pytest.raises(LedgerError, match="the counter was deleted"):
        await place.first.new_id(place.store, asyncio.ensure_future)
    assert await place.first.new_id(place.store, asyncio.ensure_future) == first + 150
