"""Records in Pulsar's form: writes without an answer, other owners, ledgers of cursors."""

from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.ledger.errors import LedgerDeletedError, LedgerFencedError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.records import CursorRecord, LedgerRecord, ManagedLedgerRecord
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import ZLIB
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor, read_ledgers, read_position
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordReplacedError, RecordsInPulsarsForm
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from support.compaction_cases import Life, MortalStore
from support.cursor_ledgers import MemoryCursorLedgers
from support.ledger_world import FixedClock, LedgerWorld
from support.pulsar_record_bytes import java_records

PATH = "/managed-ledgers/t/n/persistent/a"
JAVA = java_records()
MANY = CursorRecord(mark_delete=(7, 1), ranges=tuple((7, 2 * n, 2 * n) for n in range(2, 1100)))
FEW = CursorRecord(mark_delete=(7, 9), ranges=((7, 20, 20),))


class Place:
    """A metadata store, ledgers of cursors, and keepers of owners."""

    def __init__(self) -> None:
        self.store: MetadataStore = MemoryBackend().connect(FixedClock(), 10_000)
        self.ledgers = MemoryCursorLedgers()
        self.form = RecordsInPulsarsForm(self.ledgers, FixedClock())

    def cursor(self, store: MetadataStore | None = None) -> Any:
        return self.form.cursor(store or self.store, PATH, "sub%2F1", epoch=1)

    def list_(self, store: MetadataStore | None = None) -> Any:
        return self.form.ledgers(store or self.store, PATH, epoch=1)

    def dying(self, at: int, *, takes_effect: bool) -> tuple[MetadataStore, Life]:
        life = Life(at, takes_effect)
        return cast(MetadataStore, MortalStore(self.store, life)), life

    async def value(self, name: str = "") -> bytes:
        found = await self.store.get(PATH + name)
        assert found is not None
        return found.value


@pytest.fixture
async def place() -> Place:
    return Place()


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_write_without_an_answer_is_known_again(place: Place, takes_effect: bool) -> None:
    store, life = place.dying(1, takes_effect=takes_effect)
    keeper = place.list_(store)
    await keeper.write(ManagedLedgerRecord(properties={"n": "0"}))
    with pytest.raises(LedgerUnavailableError):
        await keeper.write(ManagedLedgerRecord(properties={"n": "1"}))
    with pytest.raises(LedgerUnavailableError):  # of two without an answer, the first may be the one that took effect
        await keeper.write(ManagedLedgerRecord(properties={"n": "2"}))
    life.is_over = False
    await keeper.write(ManagedLedgerRecord(properties={"n": "3"}))
    await keeper.confirm()
    assert (await place.list_().load()).properties == {"n": "3"}


async def test_a_write_of_another_owner_is_the_end_even_if_its_bytes_are_the_same(place: Place) -> None:
    store, life = place.dying(1, takes_effect=True)
    keeper = place.list_(store)
    record = ManagedLedgerRecord(properties={"n": "1"})
    await keeper.write(ManagedLedgerRecord(properties={"n": "0"}))
    with pytest.raises(LedgerUnavailableError):
        await keeper.write(record)
    life.is_over = False
    other = place.list_()
    await other.load()
    assert await other.take_over(record)
    for step in (keeper.confirm(), keeper.write(record), keeper.delete()):
        with pytest.raises(RecordReplacedError, match="wrote version 0, but another owner has written version 2"):
            await step
    await other.delete()
    with pytest.raises(LedgerDeletedError):
        await keeper.write(record)


async def test_a_record_that_changed_since_it_was_read_is_not_taken_over(place: Place) -> None:
    keeper, other = place.list_(), place.list_()
    assert await keeper.load() is None
    await other.write(ManagedLedgerRecord(properties={"n": "1"}))
    assert not await keeper.take_over(ManagedLedgerRecord())
    assert (await keeper.load()).properties == {"n": "1"}
    assert await keeper.take_over(ManagedLedgerRecord())


async def test_what_java_wrote_stays_but_for_what_changed(place: Place) -> None:
    await place.store.put(PATH, JAVA["ledgers-ZLIB"])
    keeper = place.list_()
    record = await keeper.load()
    assert await keeper.take_over(record)
    stored = read_ledgers(PATH, await place.value())
    assert stored.compression == ZLIB
    assert stored.info.SerializeToString() == JAVA["ledgers-NONE"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [(JAVA["ledgers-offloaded"], "ledger 7 was offloaded"), (b'{"epoch":1}', "not a ManagedLedgerInfo")],
)
async def test_a_record_that_cannot_be_kept_changes_nothing(place: Place, value: bytes, reason: str) -> None:
    await place.store.put(PATH, value)
    with pytest.raises(LedgerUnavailableError, match=reason) as refused:
        await place.list_().load()
    assert str(refused.value).count(PATH) == 1
    assert await place.value() == value


async def test_two_open_ledgers_are_not_stored(place: Place) -> None:
    keeper = place.list_()
    with pytest.raises(LedgerUnavailableError, match="ledger 3 is open, and another ledger follows it"):
        await keeper.write(ManagedLedgerRecord(ledgers=(LedgerRecord(3), LedgerRecord(4))))
    assert await place.store.get(PATH) is None


async def test_a_cursor_with_many_ranges_goes_to_a_ledger_and_back(place: Place) -> None:
    keeper = place.cursor()
    await keeper.write(FEW)
    await keeper.write(MANY)
    assert place.ledgers.made == [(1000, "t/n/persistent/a", "sub/1")]
    info = read_cursor(PATH, await place.value("/sub%2F1")).info
    assert (info.cursorsLedgerId, len(info.individualDeletedMessages)) == (1000, 0)
    assert len(read_position(1000, place.ledgers.entries[1000]).individualDeletedMessages) == len(MANY.ranges)
    later = place.cursor()
    assert await later.load() == MANY
    assert await later.take_over(MANY)
    assert list(place.ledgers.entries) == [1001]
    await later.write(FEW)
    assert place.ledgers.entries == {}
    assert await place.cursor().load() == FEW


async def test_the_ledger_of_a_lost_write_is_deleted_and_that_of_the_later_owner_stays(place: Place) -> None:
    former = place.cursor()
    await former.write(MANY)
    later = place.cursor()
    assert await later.take_over(await later.load())
    with pytest.raises(LedgerFencedError):
        await former.write(MANY)
    assert await place.cursor().load() == MANY
    assert len(place.ledgers.entries) == 1


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_the_ledger_of_a_write_without_an_answer_stays_until_the_next_write(
    place: Place, takes_effect: bool
) -> None:
    store, life = place.dying(1, takes_effect=takes_effect)
    keeper = place.cursor(store)
    await keeper.write(FEW)
    with pytest.raises(LedgerUnavailableError):
        await keeper.write(MANY)
    assert await place.cursor().load() == (MANY if takes_effect else FEW)
    life.is_over = False
    await keeper.write(MANY)
    assert list(place.ledgers.entries) == [1001]
    await keeper.delete()
    assert place.ledgers.entries == {}


async def test_a_lost_ledger_falls_back_to_the_key_and_an_absent_bookie_does_not(place: Place) -> None:
    keeper = place.cursor()
    await keeper.write(MANY)
    place.ledgers.is_away = True
    with pytest.raises(LedgerUnavailableError, match="no bookie"):
        await place.cursor().load()
    place.ledgers.is_away = False
    place.ledgers.entries.clear()
    with capture_logs() as logs:
        assert await place.cursor().load() == CursorRecord(mark_delete=MANY.mark_delete)
    assert [line["event"] for line in logs] == ["cursor_ledger_lost"]


async def test_a_cursor_with_parts_of_batches_is_left_in_a_ledger(place: Place) -> None:
    """Java reads partly acknowledged entries from ledgers only; a ledger for each write would cost too much."""
    parts = msgspec.structs.replace(FEW, partial=((7, 30, (5,)),))
    keeper = place.cursor()
    await keeper.write(parts)
    assert place.ledgers.made == []
    await keeper.leave()
    await keeper.leave()
    assert list(place.ledgers.entries) == [1000]
    position = read_position(1000, place.ledgers.entries[1000])
    assert [list(batch.deleteSet) for batch in position.batchedEntryDeletionIndexInfo] == [[5]]
    later = place.cursor()
    assert await later.load() == parts
    assert await later.take_over(FEW)
    assert place.ledgers.entries == {}
    await later.leave()
    assert await place.cursor().load() == FEW
    with pytest.raises(LedgerFencedError):
        await keeper.write(parts)


async def test_a_topic_leaves_its_cursors_when_it_is_closed(place: Place) -> None:
    world = LedgerWorld()
    owner = await world.open(1, form=place.form)
    owner.ledger.append(b"batch", 3, 0, "batch")
    await owner.until(lambda: bool(owner.durable))
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    cursor.ack_part(owner.positions[0], 0b101)
    await owner.ledger.close()
    assert len(place.ledgers.entries) == 1
    await world.close()
