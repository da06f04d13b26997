"""Acknowledging, backlog, reset and persistence of cursors."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.cursor import Backlog
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.managed.records import CursorRecord
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.ledger_world import TOPIC, LedgerWorld, Owner

SMALL = LedgerSettings(max_entries_per_ledger=5, mark_delete_per_second=0)


@pytest.fixture
async def world() -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld()
    yield world
    await world.close()


async def three_ledgers(world: LedgerWorld) -> tuple[Owner, list[Position]]:
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("keep", "earliest")
    for _ in range(13):
        await owner.append("x", messages=2)
        await owner.settle()
    return owner, owner.positions


async def test_where_a_cursor_begins(world: LedgerWorld) -> None:
    """Earliest gives all there is, latest nothing of it, a position that entry and those after it."""
    owner, places = await three_ledgers(world)
    ledger = owner.ledger
    assert (await ledger.open_cursor("e", "earliest")).first_unacked == places[0]
    assert (await ledger.open_cursor("p", places[6])).first_unacked == places[6]
    latest = await ledger.open_cursor("l", "latest")
    assert latest.backlog == Backlog(0, 0)
    (next_place,) = await owner.append("new")
    assert latest.first_unacked == next_place
    assert latest.backlog_entries == 1
    assert await ledger.open_cursor("l", "earliest") is latest


async def test_latest_on_an_empty_topic_sees_what_comes(world: LedgerWorld) -> None:
    """A cursor made before the first append has all of it to deliver."""
    owner = await world.open(1)
    cursor = await owner.ledger.open_cursor("sub", "latest")
    places = await owner.append("a", "b")
    assert cursor.first_unacked == places[0]
    assert cursor.backlog == Backlog(2, 2)


async def test_individual_acknowledgements_move_the_mark_when_the_gap_closes(world: LedgerWorld) -> None:
    """Entries acknowledged out of order wait in ranges; across ledgers too."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    assert cursor.ack_individual(places[1:9]) == 8
    assert cursor.mark_delete == EARLIEST
    assert cursor.backlog == Backlog(len(places) - 8, 2 * (len(places) - 8))
    assert cursor.is_acked(places[1])
    assert not cursor.is_acked(places[0])
    assert cursor.ack_individual([places[3]]) == 0
    assert cursor.ack_individual([places[0], places[0]]) == 1
    assert cursor.mark_delete == places[8]
    assert cursor.acked_ranges == []
    assert cursor.first_unacked == places[9]


async def test_acknowledging_in_order_makes_no_ranges(world: LedgerWorld) -> None:
    """The mark-delete position follows, and notifies its listener, across ledger boundaries to the end."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    marks: list[Position] = []
    cursor.on_mark_delete = marks.append
    for place in places:
        cursor.ack_individual([place])
        assert cursor.acked_ranges == []
    assert marks == places
    assert cursor.backlog == Backlog(0, 0)


async def test_cumulative_acknowledgement(world: LedgerWorld) -> None:
    """Everything up to the position goes, ranges that touch it too; going back changes nothing."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    cursor.ack_individual([places[4], places[5], places[7]])
    assert cursor.ack_cumulative(places[3])
    assert cursor.mark_delete == places[5]
    assert not cursor.ack_cumulative(places[2])
    assert cursor.acked_ranges == [(places[7].ledger_id, places[7].entry_id, places[7].entry_id)]
    assert cursor.ack_cumulative(Position(10**9, 0))
    assert cursor.mark_delete == places[-1]


async def test_entry_minus_one_is_everything_before_its_ledger(world: LedgerWorld) -> None:
    """Clients acknowledge the entry before a ledger's first as entry -1."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    second = next(place for place in places if place.ledger_id != places[0].ledger_id)
    assert cursor.ack_cumulative(Position(second.ledger_id, -1))
    assert cursor.first_unacked == second
    assert cursor.backlog_entries == len(places) - places.index(second)
    assert not cursor.ack_cumulative(Position(places[0].ledger_id, -1))
    cursor.ack_individual([second])
    assert cursor.mark_delete == second


async def test_acknowledging_what_does_not_exist_is_ignored(world: LedgerWorld) -> None:
    """Positions beyond the end, of no ledger, or between ledgers count for nothing."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    strange = [
        Position(places[-1].ledger_id, places[-1].entry_id + 1),
        Position(10**9, 0),
        Position(-5, 3),
        Position(places[0].ledger_id, 5000),
        Position(places[0].ledger_id, -1),
    ]
    assert cursor.ack_individual(strange) == 0
    assert cursor.acked_ranges == []


async def test_reset_moves_both_ways_and_forgets_ranges(world: LedgerWorld) -> None:
    """The position of a reset is the next to deliver; beyond either end it is that end."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    cursor.ack_individual([places[9]])
    await cursor.reset(places[6])
    assert cursor.first_unacked == places[6]
    assert cursor.acked_ranges == []
    first_of_second = next(place for place in places if place.ledger_id != places[0].ledger_id)
    await cursor.reset(first_of_second)
    assert cursor.first_unacked == first_of_second
    await cursor.reset(EARLIEST)
    assert cursor.first_unacked == places[0]
    await cursor.reset(Position(10**9, 0))
    assert cursor.backlog_entries == 0
    (place,) = await owner.append("new")
    assert cursor.first_unacked == place


async def test_a_cursor_survives_closing(world: LedgerWorld) -> None:
    """Mark, ranges, properties and odd names are there for the next owner."""
    owner, places = await three_ledgers(world)
    cursor = await owner.ledger.open_cursor("a/b c~ü", "earliest", {"k": "v"})
    cursor.ack_individual([places[0], places[2], places[3], places[6]])
    ranges = cursor.acked_ranges
    await owner.ledger.close()
    again = (await world.open(2, settings=SMALL)).ledger.cursors["a/b c~ü"]
    assert again.mark_delete == places[0]
    assert again.acked_ranges == ranges
    assert again.properties == {"k": "v"}
    assert again.backlog == Backlog(len(places) - 4, 2 * (len(places) - 4))
    assert again.ack_individual([places[1]]) == 1
    assert again.mark_delete == places[3]


async def test_writes_are_throttled_and_the_last_state_is_written(world: LedgerWorld) -> None:
    """Many acknowledgements make few writes; closing writes what the throttle held back."""
    owner = await world.open(1, settings=LedgerSettings(mark_delete_per_second=0.001))
    cursor = await owner.ledger.open_cursor("sub", "earliest")
    places = await owner.append(*(str(n) for n in range(50)))
    store = world.connect()
    path = f"{managed_ledger_path(TOPIC)}/sub"
    for place in places:
        cursor.ack_individual([place])
        await asyncio.sleep(0)
    found = await store.get(path)
    assert found is not None
    assert found.stat.version <= 2
    await owner.ledger.close()
    found = await store.get(path)
    assert found is not None
    assert msgspec.json.decode(found.value, type=CursorRecord).mark_delete == places[-1]


async def test_a_non_durable_cursor_leaves_no_trace(world: LedgerWorld) -> None:
    """It moves and counts like any other, is not stored, and keeps no ledger from being trimmed."""
    owner, places = await three_ledgers(world)
    cursor = owner.ledger.new_non_durable_cursor(places[4])
    assert cursor.first_unacked == places[4]
    assert not cursor.is_durable
    cursor.ack_cumulative(places[7])
    assert cursor.first_unacked == places[8]
    await cursor.reset(places[2])
    assert cursor.first_unacked == places[2]
    assert set(owner.ledger.cursors) == {"keep"}


async def test_deleting_a_cursor_deletes_its_record(world: LedgerWorld) -> None:
    """The next owner does not know it; deleting it again is no error."""
    owner = await world.open(1)
    await owner.ledger.open_cursor("sub", "latest")
    await owner.ledger.delete_cursor("sub")
    await owner.ledger.delete_cursor("sub")
    await owner.ledger.close()
    assert (await world.open(2)).ledger.cursors == {}


async def test_message_backlog_is_exact_for_single_messages_without_columns(world: LedgerWorld) -> None:
    """Where entries are single messages the count needs no columns in memory."""
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("sub", "earliest")
    places = await owner.append(*("x" for _ in range(12)))
    await owner.ledger.close()
    cursor = (await world.open(2)).ledger.cursors["sub"]
    cursor.ack_cumulative(places[2])
    assert cursor.backlog == Backlog(9, 9)
