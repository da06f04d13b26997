"""Whatever part of a topic is damaged or absent, every other entry is delivered, and subscriptions reach their end."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.ledger.errors import LedgerCorruptedError, LedgerNotFoundError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from support.ledger_world import LedgerWorld, Owner
from support.short_forms import examples

ENTRIES = 24
STOP = LedgerSettings(max_entries_per_ledger=5, mark_delete_per_second=0)
SKIP = replace(STOP, skip_non_recoverable=True)


async def written(world: LedgerWorld) -> list[Position]:
    owner = await world.open(1, settings=STOP)
    await owner.ledger.open_cursor("reader", "earliest")
    return await owner.append_numbers(ENTRIES)


async def checked(damaged: set[int], absent: set[int], order: list[int], crash: bool) -> None:
    """Damage the entries and ledgers by number, open the topic again, read and acknowledge in `order`."""
    world = LedgerWorld()
    try:
        positions = await written(world)
        ledgers = sorted({position.ledger_id for position in positions})
        if not crash:
            await world.owners[0].ledger.close()
        for number in damaged:
            world.disk.damage(*positions[number])
        for number in absent:
            world.disk.remove(ledgers[number % len(ledgers)])
        gone = {ledgers[number % len(ledgers)] for number in absent}
        left = [n for n in range(ENTRIES) if n not in damaged and positions[n].ledger_id not in gone]
        await _stops_before_each(await world.open(2, settings=STOP), positions, left)
        owner = await world.open(3, settings=SKIP)
        assert await owner.texts() == [str(n) for n in left]
        cursor = owner.ledger.cursors["reader"]
        assert cursor.backlog_entries == len(left)
        for n in sorted(left, key=lambda n: order[n % len(order)]):
            assert cursor.ack_individual([positions[n]]) == 1
        assert (cursor.backlog.entries, cursor.acked_ranges) == (0, [])
        assert owner.ledger.last_position == (positions[left[-1]] if left else EARLIEST)
        (more,) = await owner.append("more")
        assert [entry.position for entry in await owner.ledger.read(cursor.first_unacked, 9, 99)] == [more]
    finally:
        await world.close()


async def _stops_before_each(owner: Owner, positions: list[Position], left: list[int]) -> None:
    """Without skipping: each intact entry is read at its position, each other one is an error."""
    for number, position in enumerate(positions):
        found: list[Entry] = []
        with suppress(LedgerCorruptedError, LedgerNotFoundError):
            found = await owner.ledger.read(position, 1, 100)
        # Of an absent ledger that was never closed nobody knows how many entries it had: the next is found then.
        at_its_place = [entry.data.decode() for entry in found if entry.position == position]
        assert at_its_place == ([str(number)] if number in left else [])


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sets(st.integers(0, ENTRIES - 1)),
    st.sets(st.integers(0, 4), max_size=2),
    st.lists(st.integers(0, 99), min_size=1, max_size=ENTRIES),
    st.booleans(),
)
@example(set(), {0, 4}, [0], True)  # what is found when the topic is opened trims nothing before cursors are loaded
def test_all_that_is_whole_is_delivered_and_acknowledged(
    damaged: set[int], absent: set[int], order: list[int], crash: bool
) -> None:
    asyncio.run(checked(damaged, absent, order, crash))
