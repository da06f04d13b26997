"""The forms in which records of topics are stored: a topic survives crashes of its owner, and has one owner."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import pytest

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.ledger.storage import OnDurable
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName
from support.compaction_cases import Life, MortalStore
from support.cursor_ledgers import MemoryCursorLedgers
from support.ledger_world import CLOSED, FixedClock, LedgerWorld, Owner
from support.memory_ledgers import MemoryLedgerStorage, MemoryLedgerWriter


@pytest.fixture(params=["with epochs", "Pulsar's"])
def form(request: pytest.FixtureRequest) -> RecordForm:
    return (
        RECORDS_WITH_EPOCHS
        if request.param == "with epochs"
        else RecordsInPulsarsForm(MemoryCursorLedgers(), FixedClock())
    )


@pytest.fixture
async def world() -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld()
    yield world
    await world.close()


async def live(owner: Owner) -> None:
    """Do all that writes records, until the process dies."""
    ledger = owner.ledger
    cursor = await ledger.open_cursor("all", "earliest")
    for text in ("d", "e"):
        ledger.append(text.encode(), 1, 0, text)
    await owner.until(lambda: len(owner.durable) + len(owner.failed) >= 2)
    cursor.ack_individual(owner.positions[1:])
    await cursor.flush()
    await ledger.open_cursor("late", "latest")
    await cursor.set_properties({"k": "w"})
    await ledger.update_properties({"owner": "team"})
    await ledger.delete_cursor("late")
    await ledger.close()


@pytest.mark.parametrize("takes_effect", [True, False])
async def test_a_crash_at_any_write_loses_no_entry_and_no_acknowledgement(
    world: LedgerWorld, form: RecordForm, takes_effect: bool
) -> None:
    """The process dies at its first write, its second, and so on, until it completes its life."""
    for dies_at in range(60):
        topic = TopicName.parse(f"persistent://tenant/space/t{dies_at}")
        first = await world.open(1, topic=topic, form=form)
        cursor = await first.ledger.open_cursor("all", "earliest", {"k": "v"})
        await first.append("a", "b", "c")
        cursor.ack_individual([first.positions[1]])
        await first.ledger.close()

        life = Life(dies_at, takes_effect)
        store = cast(MetadataStore, MortalStore(world.connect(), life))
        durable: list[Any] = []
        with suppress(LedgerError):
            mortal = await world.open(2, topic=topic, form=form, store=store)
            with suppress(LedgerError):
                await live(mortal)
            durable = [text for text, _ in mortal.durable]
        died, life.is_over = life.is_over, True

        later = await world.open(3, topic=topic, form=form, closed=CLOSED)
        assert (await later.texts())[: 3 + len(durable)] == ["a", "b", "c", *durable], life.steps
        acked = later.ledger.cursors["all"]
        assert acked.is_acked(first.positions[1]), life.steps
        assert acked.mark_delete == EARLIEST, life.steps
        assert acked.properties in ({"k": "v"}, {"k": "w"}), life.steps
        await later.append("z")
        await later.ledger.close()
        again = await world.open(4, topic=topic, form=form)
        assert (await again.texts())[-1] == "z"
        if not died:
            assert again.ledger.properties == {"owner": "team"}
            assert acked.acked_ranges[-1] == (*mortal.positions[-1], mortal.positions[-1].entry_id)
            break
        await again.ledger.delete()
        assert not await world.connect().children("/managed-ledgers/tenant/space/persistent"), life.steps
    assert 6 < dies_at < 59, "so many writes a life has at least"


async def test_a_former_owner_writes_no_record_after_a_later_one_took_over(
    world: LedgerWorld, form: RecordForm
) -> None:
    former = await world.open(1, form=form)
    cursor = await former.ledger.open_cursor("all", "earliest")
    await former.append("a")
    later = await world.open(2, form=form)
    with pytest.raises(LedgerFencedError):
        await former.ledger.update_properties({"k": "v"})
    with pytest.raises(LedgerFencedError):
        await cursor.store()
    assert later.ledger.properties == {}
    await later.append("b")
    assert await later.texts() == ["a", "b"]


async def test_a_topic_that_was_deleted_has_no_owner(world: LedgerWorld, form: RecordForm) -> None:
    former = await world.open(1, form=form)
    later = await world.open(2, form=form)
    await later.ledger.delete()
    with pytest.raises(LedgerFencedError, match="deleted"):
        await former.ledger.update_properties({"k": "v"})


async def test_a_terminated_topic_stays_so(world: LedgerWorld, form: RecordForm) -> None:
    owner = await world.open(1, form=form)
    (end,) = await owner.append("a")
    assert await owner.ledger.terminate() == end
    await owner.ledger.close()
    assert (await world.open(2, form=form)).ledger.terminated_at == end


class CountingStorage(MemoryLedgerStorage):
    """Counts the ledgers that are made, also those that are deleted unused."""

    made = 0

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> MemoryLedgerWriter:
        self.made += 1
        return await super().create(ledger_id, epoch=epoch, on_durable=on_durable)


async def test_only_a_form_that_lists_a_ledger_ahead_makes_one(world: LedgerWorld, form: RecordForm) -> None:
    """In Pulsar's form the last ledger of the former owner counts as open, so that none may follow it yet."""
    former = await world.open(1, form=form)
    await former.append("a")
    await former.ledger.close()
    storage = CountingStorage(world.disk)
    later = await world.open(2, form=form, closed=CLOSED, storage=storage)
    await later.settle()
    assert storage.made == (1 if form is RECORDS_WITH_EPOCHS else 0)
    assert len(await later.append("b")) == 1
