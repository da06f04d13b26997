"""Acknowledging parts of batches: what is left of them, its bounds, and its stored form."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed import partial_acks
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.managed.partial_acks import ALL, PartialAcks, bits_of, words_of
from pulsar_barycenter.ledger.managed.records import CursorRecord, OwnedRecord
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.ledger_world import TOPIC, LedgerWorld, Owner

AT_ONCE = LedgerSettings(max_entries_per_ledger=5, mark_delete_per_second=0)
RECORD = f"{managed_ledger_path(TOPIC)}/sub"


class RecordOfBefore(OwnedRecord, frozen=True, rename="camel"):
    """What brokers that acknowledge whole batches only know of a cursor's record."""

    mark_delete: tuple[int, int] = (-1, -1)
    ranges: tuple[tuple[int, int, int], ...] = ()


@pytest.fixture
async def world() -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld()
    yield world
    await world.close()


async def batches(world: LedgerWorld, count: int = 8, settings: LedgerSettings = AT_ONCE) -> tuple[Owner, Cursor]:
    """Return an owner of a topic with batches of three messages, and a cursor before them."""
    owner = await world.open(1, settings=settings)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    for _ in range(count):
        await owner.append("x", messages=3)
        await owner.settle()
    return owner, cursor


async def stored(world: LedgerWorld) -> bytes:
    found = await world.connect().get(RECORD)
    assert found is not None
    return found.value


def test_words_are_those_of_the_wire() -> None:
    """Bit 0 of the first word is the first message; words may come signed."""
    assert bits_of([0b101]) == 0b101
    assert bits_of([-1, 0b1]) == (1 << 65) - 1
    assert words_of((1 << 65) - 1) == (2**64 - 1, 1)
    assert words_of(1 << 63) == (1 << 63,)


async def test_messages_of_a_batch_are_acknowledged_in_any_order(world: LedgerWorld) -> None:
    """Each part takes messages away; with none left the caller acknowledges the entry."""
    owner, cursor = await batches(world)
    place = owner.positions[0]
    assert cursor.ack_part(place, 0b101) == 0b101
    assert cursor.ack_part(place, 0b110) == 0b100
    assert cursor.ack_part(place, 0b110) == 0b100
    assert cursor.partly_acked == {place: 0b100}
    assert not cursor.is_acked(place)
    assert cursor.backlog_entries == 8
    assert cursor.ack_part(place, 0b011) == 0
    assert cursor.partly_acked == {}
    assert cursor.ack_individual([place]) == 1
    assert cursor.mark_delete == place


async def test_a_part_that_cannot_be_changes_nothing(world: LedgerWorld) -> None:
    """Acknowledged entries, unknown ones, bits beyond the batch, and bit sets that acknowledge nothing."""
    owner, cursor = await batches(world)
    first, second, third = owner.positions[:3]
    cursor.ack_individual([first, third])
    last = owner.positions[-1]
    strange = [first, third, Position(last.ledger_id, last.entry_id + 1), Position(10**9, 0), Position(2**64 - 1, 0)]
    assert [cursor.ack_part(place, 0b1) for place in strange] == [ALL] * 5
    assert cursor.ack_part(second, 0b1001) == ALL
    assert cursor.ack_part(second, 1 << 100_000) == ALL
    assert cursor.ack_part(second, 0b111) == ALL
    assert cursor.partly_acked == {}


async def test_acknowledging_the_entry_forgets_its_parts(world: LedgerWorld) -> None:
    """One by one, also behind a gap, up to a position, and by a reset."""
    owner, cursor = await batches(world)
    places = owner.positions
    for place in places[:6]:
        cursor.ack_part(place, 0b1)
    cursor.ack_individual([places[0], places[3]])
    assert set(cursor.partly_acked) == {places[1], places[2], places[4], places[5]}
    cursor.ack_cumulative(places[2])
    assert set(cursor.partly_acked) == {places[4], places[5]}
    await cursor.reset(places[4])
    assert cursor.partly_acked == {}
    assert b"partial" not in await stored(world)


async def test_delivery_in_runs_stops_before_a_batch_that_is_partly_acknowledged(world: LedgerWorld) -> None:
    owner, cursor = await batches(world)
    places = owner.positions
    assert cursor.is_unacked_from(places[2])
    cursor.ack_part(places[3], 0b1)
    assert not cursor.is_unacked_from(places[2])
    assert not cursor.is_unacked_from(places[3])
    assert cursor.is_unacked_from(places[4])


async def test_parts_outlive_a_crash_and_a_close(world: LedgerWorld) -> None:
    """The next owner takes over while the former one still runs, and after one that has closed."""
    owner, cursor = await batches(world)
    first, second = owner.positions[:2]
    cursor.ack_part(second, 0b110)
    await owner.settle()
    after_crash = (await world.open(2, settings=AT_ONCE)).ledger.cursors["sub"]
    assert after_crash.partly_acked == {second: 0b110}
    after_crash.ack_part(first, 0b100)
    await world.owners[-1].ledger.close()
    last = (await world.open(3, settings=AT_ONCE)).ledger.cursors["sub"]
    assert last.partly_acked == {first: 0b100, second: 0b110}
    last.ack_cumulative(first)
    await world.owners[-1].ledger.close()
    assert (await world.open(4, settings=AT_ONCE)).ledger.cursors["sub"].partly_acked == {second: 0b110}


async def test_a_batch_whose_size_is_not_in_memory_takes_parts(world: LedgerWorld) -> None:
    """A client acknowledges what the former owner delivered, before this one has read the ledger."""
    owner, _ = await batches(world)
    place = owner.positions[0]
    await owner.ledger.close()
    cursor = (await world.open(2, settings=AT_ONCE)).ledger.cursors["sub"]
    assert cursor.ack_part(place, 0b101) == 0b101
    assert cursor.ack_part(place, 0b010) == 0


async def test_records_of_other_versions_open(world: LedgerWorld) -> None:
    """A record without parts has the form of before. A broker of before reads one with parts without them, and what it
    writes is read here.
    """
    owner, cursor = await batches(world)
    places = owner.positions
    cursor.ack_individual([places[2]])
    await owner.settle()
    assert set(msgspec.json.decode(await stored(world))) == {"epoch", "markDelete", "ranges", "properties"}
    cursor.ack_part(places[0], 0b100)
    await owner.settle()
    value = await stored(world)
    assert msgspec.json.decode(value)["partial"] == [[*places[0], [0b100]]]
    by_the_other = msgspec.json.decode(value, type=RecordOfBefore)
    assert by_the_other.ranges == ((*places[2], places[2].entry_id),)
    again = msgspec.json.decode(msgspec.json.encode(by_the_other), type=CursorRecord)
    assert again.partial_acks == ()


async def test_stored_parts_that_do_not_fit_the_topic_are_ignored(world: LedgerWorld) -> None:
    """Of acknowledged or unknown entries, and without a set bit."""
    owner, cursor = await batches(world)
    first, second, third, fourth = owner.positions[:4]
    strange = [(*first, (1,)), (*second, (0,)), (*third, ()), (10**9, 0, (1,)), (-1, -1, (1,)), (*fourth, (2, 0))]
    cursor.restore(CursorRecord(mark_delete=first, partial=()))
    cursor.ack_individual([first])
    cursor.restore(CursorRecord(mark_delete=first, partial=tuple(strange)))
    assert cursor.partly_acked == {fourth: 2}


async def test_with_no_entries_allowed_a_batch_is_acknowledged_as_a_whole(world: LedgerWorld) -> None:
    """Parts that another configuration stored are ignored, too."""
    owner, cursor = await batches(world)
    first, second = owner.positions[:2]
    cursor.ack_part(first, 0b1)
    await owner.ledger.close()
    whole = LedgerSettings(max_partly_acked_entries=0, mark_delete_per_second=0)
    cursor = (await world.open(2, settings=whole)).ledger.cursors["sub"]
    assert cursor.partly_acked == {}
    assert cursor.ack_part(second, 0b1) == ALL
    assert cursor.partly_acked == {}


async def test_a_cursor_keeps_parts_of_a_bounded_number_of_entries(world: LedgerWorld) -> None:
    """Known entries go on; there is room again when one is done."""
    owner, cursor = await batches(world, settings=LedgerSettings(max_partly_acked_entries=2, mark_delete_per_second=0))
    first, second, third = owner.positions[:3]
    assert [cursor.ack_part(place, 0b11) for place in (first, third, second)] == [0b11, 0b11, ALL]
    assert cursor.ack_part(third, 0b10) == 0b10
    cursor.ack_individual([first])
    assert cursor.ack_part(second, 0b11) == 0b11


def test_the_bits_of_a_cursor_are_bounded_in_memory_and_in_its_record() -> None:
    """What is stored are the oldest entries."""
    parts = PartialAcks(10_000)
    places = [Position(1, number) for number in range(400)]
    large = 1 << 99_999
    kept = [place for place in places if parts.acknowledge(place, large) == large]
    assert len(kept) == partial_acks.MAX_WORDS // 1563
    written = list(parts.stored())
    assert [Position(ledger, entry) for ledger, entry, _ in written] == kept[: partial_acks.MAX_STORED_WORDS // 1563]
    parts.remove_through(kept[-2])
    assert parts.acknowledge(places[-1], large) == large
    parts.clear()
    assert [parts.acknowledge(place, 1) for place in places] == [1] * 400
    assert parts.has_from(EARLIEST)


def test_a_full_record_fits_the_metadata_stores() -> None:
    """Every word as long as it can be."""
    parts = PartialAcks(10_000)
    for number in range(10_000):
        parts.acknowledge(Position(1 << 40, number), (1 << 64) - 1)
    written = list(parts.stored())
    assert len(written) == 10_000
    assert len(msgspec.json.encode(written)) < 500_000
