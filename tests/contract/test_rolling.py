"""A topic that rolls keeps what was reported, in each form of its records: with a crash before and after each write."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError, LedgerFullError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.ledger.pulsar_records.cursor_ledgers import CursorLedgersOnBookies
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor, read_ledgers
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.ledger.storage import LEDGER_ID_COUNTER, LedgerStorage, LedgerWriter, OnDurable
from pulsar_barycenter.metadata.store import MetadataStore
from support.compaction_cases import Life, MortalStorage, MortalStore, MortalWriter
from support.cursor_ledgers import MemoryCursorLedgers
from support.ledger_world import TOPIC, FixedClock, LedgerWorld, Owner
from support.ledgers_on_bookies import world_on_bookies
from support.memory_ledgers import MemoryLedgerStorage

PATH: Final = managed_ledger_path(TOPIC)
PULSARS: Final = RecordsInPulsarsForm(MemoryCursorLedgers(), FixedClock())
SMALL: Final = LedgerSettings(mark_delete_per_second=0, max_entries_per_ledger=2)
TEXTS: Final = tuple("abcdefg")

in_both_forms = pytest.mark.parametrize("form", [RECORDS_WITH_EPOCHS, PULSARS], ids=["with epochs", "Pulsar's"])


@pytest.fixture
async def world() -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld()
    yield world
    await world.close()


class _Writer(MortalWriter):
    async def close(self) -> None:
        with suppress(LedgerClosedError):  # `LedgerWriter.close` never raises
            await super().close()


class _Storage(MortalStorage):
    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        made = cast(Any, await super().create(ledger_id, epoch=epoch, on_durable=on_durable))
        return _Writer(made._writer, self._life)


@dataclass
class Lists:
    """A metadata store that keeps each value of the topic's list."""

    store: MetadataStore
    values: list[bytes] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put(self, path: str, value: bytes, **options: Any) -> Any:
        stat = await self.store.put(path, value, **options)
        if path == PATH:
            self.values.append(value)
        return stat


@dataclass
class Interrupted:
    """A metadata store that awaits `interrupt` at the write numbered `at`, from 0 on: before it or after it."""

    store: MetadataStore
    at: int
    is_after: bool
    writes: int = 0
    interrupt: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def put(self, path: str, value: bytes, **options: Any) -> Any:
        number, self.writes = self.writes, self.writes + 1
        interrupt = self.interrupt if number == self.at else None
        if interrupt and not self.is_after:
            await interrupt()
        try:
            return await self.store.put(path, value, **options)
        finally:
            if interrupt and self.is_after:
                await interrupt()


async def append_all(owner: Owner, life: Life) -> None:
    """Append one entry after the other, until the process dies."""
    await owner.ledger.open_cursor("keep", "earliest")
    for number, text in enumerate(TEXTS):
        owner.ledger.append(text.encode(), 1, 0, text)
        while len(owner.durable) + len(owner.failed) <= number and not life.is_over:
            await asyncio.sleep(0)
        if life.is_over:
            return
        await owner.settle()


def ends_of(value: bytes) -> list[tuple[int, bool]]:
    """Return the entries of each ledger of a list in Pulsar's form, and whether it has the time of its end."""
    return [(part.entries, part.timestamp > 0) for part in read_ledgers(PATH, value).info.ledgerInfo]


@in_both_forms
@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_crash_at_any_step_of_rolling_loses_no_entry(form: RecordForm, takes_effect: bool) -> None:
    """The process dies at its first step, its second, and so on, until it completes its life."""
    for dies_at in range(60):
        world = LedgerWorld()
        life = Life(dies_at, takes_effect)
        disk = MemoryLedgerStorage(world.disk)
        storage = cast(LedgerStorage, _Storage(disk, life))
        store = cast(MetadataStore, MortalStore(world.connect(), life))
        durable: list[Any] = []
        with suppress(LedgerError):
            mortal = await world.open(1, settings=SMALL, form=form, store=store, storage=storage)
            with suppress(LedgerError):
                await append_all(mortal, life)
            durable = [text for text, _ in mortal.durable]
        died, life.is_over = life.is_over, True
        disk.crash()

        later = await world.open(2, settings=SMALL, form=form)
        assert (await later.texts())[: len(durable)] == durable, life.steps
        await later.append("y", "z")
        await later.settle()
        await later.ledger.close()
        again = await world.open(3, settings=SMALL, form=form)
        assert (await again.texts())[-2:] == ["y", "z"], life.steps
        await again.settle()
        listed = {segment.ledger_id for segment in again.ledger.segments}
        assert len(world.disk.ledger_ids - listed) <= 1, "at most the ledger that was being made"
        await world.close()
        if not died:
            assert durable == list(TEXTS)
            break
    assert 10 < dies_at < 59, "so many steps a life has at least"


@in_both_forms
@pytest.mark.parametrize("is_after", [True, False], ids=["after", "before"])
async def test_a_later_owner_at_any_write_of_rolling_finds_all_that_was_and_will_be_reported(
    form: RecordForm, is_after: bool
) -> None:
    """A later owner takes the topic over before the first write of a former one that lives on, its second, and so on;
    or after it.
    """
    for at in range(60):
        world = LedgerWorld()
        later: list[Owner] = []

        async def take_over(world: LedgerWorld = world, later: list[Owner] = later) -> None:
            later.append(await world.open(2, settings=SMALL, form=form))

        store = Interrupted(world.connect(), at, is_after=is_after)
        former = await world.open(1, settings=SMALL, form=form, store=cast(MetadataStore, store))
        store.interrupt = take_over
        with suppress(LedgerError):
            await append_all(former, Life())
        await former.settle()
        for owner in later:
            assert (await owner.texts())[: len(former.durable)] == [text for text, _ in former.durable], at
            await owner.append("y", "z")
            assert (await owner.texts())[-2:] == ["y", "z"]
        await world.close()
        if store.writes <= at:
            break
    assert 10 < at < 59, "so many writes a life has at least"


async def test_each_list_in_pulsars_form_has_the_ends_of_all_ledgers_but_the_last(world: LedgerWorld) -> None:
    lists = Lists(world.connect())
    owner = await world.open(1, settings=SMALL, form=PULSARS, store=cast(MetadataStore, lists))
    await owner.ledger.open_cursor("keep", "earliest")
    for text in TEXTS[:6]:
        await owner.append(text)
        await owner.settle()
    full, current = (2, True), (0, False)
    # one write for each successor, which has the end of the ledger before it
    assert [ends_of(value) for value in lists.values[-4:]] == [[full] * count + [current] for count in range(4)]
    assert await owner.texts() == list(TEXTS[:6])


@in_both_forms
async def test_entries_that_are_appended_while_a_ledger_rolls_keep_their_order(
    world: LedgerWorld, form: RecordForm
) -> None:
    owner = await world.open(1, settings=SMALL, form=form)
    await owner.ledger.open_cursor("keep", "earliest")
    for number in range(60):
        owner.ledger.append(b"%d" % number, 1, 0, number)
        await asyncio.sleep(0)
    await owner.until(lambda: len(owner.durable) == 60)
    assert [number for number, _ in owner.durable] == list(range(60))
    assert len({place.ledger_id for place in owner.positions}) > 2
    assert await owner.texts() == [str(number) for number in range(60)]


class SlowlyClosed(MemoryLedgerStorage):
    """Ledgers that are closed only once `may_close` is set, as on bookies while the metadata store is busy."""

    def __init__(self, world: LedgerWorld) -> None:
        super().__init__(world.disk)
        self.may_close = asyncio.Event()
        self.closed: list[int] = []
        self.reports: list[OnDurable] = []

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> Any:
        self.reports.append(on_durable)
        writer = await super().create(ledger_id, epoch=epoch, on_durable=on_durable)
        close = writer.close

        async def close_later() -> None:
            await self.may_close.wait()
            await close()
            self.closed.append(ledger_id)

        writer.close = close_later  # type: ignore[method-assign]
        return writer


@dataclass
class Rolled:
    """A topic with the entries a, b and c, whose first ledger is full and still open."""

    owner: Owner
    storage: SlowlyClosed
    lists: Lists


@pytest.fixture
async def rolled(world: LedgerWorld) -> AsyncIterator[Rolled]:
    storage, lists = SlowlyClosed(world), Lists(world.connect())
    try:
        owner = await world.open(1, settings=SMALL, storage=storage, store=cast(MetadataStore, lists))
        await owner.ledger.open_cursor("keep", "earliest")
        await owner.append("a", "b")
        for _ in range(50):  # until a successor is made and listed
            await asyncio.sleep(0)
        await owner.append("c")
        assert len(owner.ledger.segments) == 2
        assert storage.closed == []
        yield Rolled(owner, storage, lists)
    finally:
        storage.may_close.set()


async def test_appends_continue_while_the_full_ledger_is_closed_and_a_later_owner_finds_both_open(
    world: LedgerWorld, rolled: Rolled
) -> None:
    later = await world.open(2, settings=SMALL)
    assert await later.texts() == ["a", "b", "c"]


async def test_a_topic_that_is_closed_waits_for_its_full_ledger_to_be_closed(rolled: Rolled) -> None:
    closing = asyncio.ensure_future(rolled.owner.ledger.close())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not closing.done()
    rolled.storage.may_close.set()
    await closing
    assert len(rolled.storage.closed) == 2
    record = msgspec.json.decode(rolled.lists.values[-1])
    assert (record["open"], [part["closed"] for part in record["ledgers"]]) == (False, [True, True])


async def test_a_full_ledger_that_fails_while_it_is_closed_fails_no_entry_and_shows_a_later_owner(
    rolled: Rolled,
) -> None:
    """All its entries are reported. Those that were appended later are in its successor."""
    owner, report = rolled.owner, rolled.storage.reports[0]
    owner.ledger.append(b"d", 1, 0, "d")
    report(2, LedgerFullError("a bookie failed after others had confirmed the entry"))
    assert owner.failed == []
    await owner.until(lambda: len(owner.durable) == 4)
    report(2, LedgerFencedError("memory ledger", 1, 2))
    assert len(owner.fenced) == 1


async def test_in_pulsars_form_the_successor_of_a_ledger_that_failed_waits_for_its_end(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    class Storage(MemoryLedgerStorage):
        async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> Any:
            writer = await super().create(ledger_id, epoch=epoch, on_durable=on_durable)
            close = writer.close

            async def slow() -> None:
                for _ in range(20):
                    await asyncio.sleep(0)
                await close()
                events.append(f"closed {ledger_id}")

            writer.close = slow  # type: ignore[method-assign]
            return writer

    lists = Lists(world.connect())
    owner = await world.open(
        1, form=PULSARS, settings=SMALL, storage=Storage(world.disk), store=cast(MetadataStore, lists)
    )
    (first,) = await owner.append("a")
    world.disk.capacity_bytes = 1
    owner.ledger.append(b"b", 1, 0, "b")
    await owner.until(lambda: len(owner.failed) == 1)
    assert isinstance(owner.failed[0][1], LedgerFullError)
    world.disk.capacity_bytes = None
    await owner.append("c")
    assert events == [f"closed {first.ledger_id}"]
    assert ends_of(lists.values[-1]) == [(1, True), (0, False)]
    assert await owner.texts() == ["a", "c"]


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_list_without_an_answer_fails_what_waits_and_the_next_entry_begins_a_ledger(
    world: LedgerWorld, takes_effect: bool
) -> None:
    life = Life()
    owner = await world.open(
        1, form=PULSARS, settings=SMALL, store=cast(MetadataStore, MortalStore(world.connect(), life))
    )
    await owner.ledger.open_cursor("keep", "earliest")
    await owner.append("a")
    life.dies_at, life.takes_effect = len(life.steps) + 1, takes_effect  # after the id of the successor, the list
    await owner.append("b")
    while not life.is_over:
        await asyncio.sleep(0)
    assert life.steps[-1] == f"put {PATH}"
    await owner.settle()
    life.is_over = False
    await owner.append("c")
    await owner.settle()
    assert await owner.texts() == ["a", "b", "c"]
    owner.ledger.trim()
    await owner.settle()
    assert world.disk.ledger_ids == {segment.ledger_id for segment in owner.ledger.segments}
    assert (await (await world.open(2, form=PULSARS)).texts()) == ["a", "b", "c"]


async def test_a_former_owner_that_rolls_finds_the_later_owner(world: LedgerWorld) -> None:
    former = await world.open(1, form=PULSARS, settings=SMALL)
    await former.ledger.open_cursor("keep", "earliest")
    await former.append("a")
    later = await world.open(2, form=PULSARS, settings=SMALL)
    former.ledger.append(b"late", 1, 0, "late")
    await former.until(lambda: bool(former.fenced))
    assert isinstance(former.fenced[0], LedgerFencedError)
    await later.append("b", "c")
    await later.settle()
    assert await later.texts() == ["a", "b", "c"]


async def test_on_bookies_all_but_the_last_ledger_are_closed_and_a_large_cursor_is_in_a_ledger_of_its_own() -> None:
    """Four owners one after the other: messages, and acknowledgements of every second one."""
    settings = LedgerSettings(mark_delete_per_second=0, max_entries_per_ledger=500)
    async with world_on_bookies() as world:
        texts: list[str] = []
        acked: list[Position] = []
        for epoch in (1, 2, 3):
            storage = cast(BookKeeperStorage, world.new_storage())
            client = storage.client
            form = RecordsInPulsarsForm(CursorLedgersOnBookies(client, LedgerShape(2, 2, 2)), FixedClock())
            before = await client.new_id()
            owner = await world.open(epoch, settings=settings, form=form, storage=storage)
            cursor = await owner.ledger.open_cursor("sub", "earliest")
            assert await owner.texts() == texts
            assert all(cursor.is_acked(place) for place in acked)
            new = [f"{epoch}-{number}" for number in range(1100)]
            for first in range(0, 1100, 550):
                places = await owner.append(*new[first : first + 550])
                await owner.settle()
                cursor.ack_individual(places[1::2])
                acked += places[1::2]
            texts += new
            *closed, _ = [segment.ledger_id for segment in owner.ledger.segments]
            assert {(await client.metadata(ledger)).state for ledger in closed} <= {LedgerState.CLOSED}
            await owner.ledger.close()
            assert (await cursor_ledger(owner) > before) == (len(acked) > 1000)
        last = await world.open(4, settings=settings, form=form, storage=storage)
        await last.settle()
        listed = {segment.ledger_id for segment in last.ledger.segments}
        assert len(listed) == 6
        assert world.ledger_ids() == {*listed, await cursor_ledger(last)}
        assert await last.store.get(LEDGER_ID_COUNTER) is None, "ids are those of the cluster of bookies"


async def cursor_ledger(owner: Owner) -> int:
    """Return the ledger that the key of the cursor names."""
    found = await owner.store.get(f"{PATH}/sub")
    assert found is not None
    return read_cursor(f"{PATH}/sub", found.value).info.cursorsLedgerId
