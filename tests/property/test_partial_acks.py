"""A cursor with acknowledgements of parts, whole entries and everything before, resets and reopenings in any order
leaves exactly those messages unacknowledged that a model leaves.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.partial_acks import ALL, PartialAcks
from pulsar_barycenter.ledger.position import Position
from support.ledger_world import LedgerWorld, Owner
from support.short_forms import examples

SIZES = (3, 1, 5, 2, 70, 3, 4, 2)
AT_ONCE = LedgerSettings(max_entries_per_ledger=3, mark_delete_per_second=0)

ENTRIES = st.integers(0, len(SIZES) - 1)
BITS = st.one_of(st.integers(0, 31), st.integers(0, (1 << 70) - 1))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("part"), ENTRIES, BITS),
        st.tuples(st.just("through"), ENTRIES, st.integers(0, 70)),
        st.tuples(st.just("whole"), ENTRIES, st.just(0)),
        st.tuples(st.just("reset"), ENTRIES, st.just(0)),
        st.tuples(st.sampled_from(["close", "crash"]), st.just(0), st.just(0)),
    ),
    max_size=25,
)


class World:
    """A topic of batches, a cursor, and the messages that the model leaves of each batch."""

    def __init__(self) -> None:
        self.world = LedgerWorld()
        self.epoch = 0
        self.places: list[Position] = []
        self.left = [(1 << size) - 1 for size in SIZES]
        self.owner: Owner
        self.cursor: Cursor

    async def open(self) -> None:
        self.epoch += 1
        self.owner = await self.world.open(self.epoch, settings=AT_ONCE)
        await self.owner.ledger.open_cursor("keep", "earliest")  # so that a reset finds every ledger
        self.cursor = await self.owner.ledger.open_cursor("sub", "earliest")

    async def fill(self) -> None:
        for size in SIZES:
            self.places += await self.owner.append("x", messages=size)
            await self.owner.settle()

    def ack_part(self, number: int, bits: int) -> None:
        """What a subscription does with a part."""
        if self.cursor.ack_part(self.places[number], bits) == 0:
            assert self.cursor.ack_individual([self.places[number]]) == 1

    async def do(self, step: str, number: int, value: int) -> None:
        if step == "part":
            bits = value & ((1 << SIZES[number]) - 1)
            self.ack_part(number, bits)
            self.left[number] &= bits
        elif step == "through":
            # The first messages of a batch, and all before it: what a cumulative acknowledgement says.
            bits = ((1 << SIZES[number]) - 1) >> value << value
            place = self.places[number]
            self.cursor.ack_cumulative(Position(place.ledger_id, place.entry_id - 1))
            self.ack_part(number, bits)
            self.left[:number] = [0] * number
            self.left[number] &= bits
        elif step == "whole":
            self.cursor.ack_individual([self.places[number]])
            self.left[number] = 0
        elif step == "reset":
            await self.cursor.reset(self.places[number])
            self.left = [0] * number + [(1 << size) - 1 for size in SIZES[number:]]
        else:
            if step == "close":
                await self.owner.ledger.close()
            await self.owner.settle()  # what was acknowledged has reached the store
            await self.open()

    def check(self) -> None:
        for place, size, left in zip(self.places, SIZES, self.left, strict=True):
            assert self.cursor.is_acked(place) == (left == 0)
            if left:
                assert self.cursor.partly_acked.get(place, ALL) & ((1 << size) - 1) == left
            else:
                assert place not in self.cursor.partly_acked
        assert self.cursor.backlog_entries == sum(left != 0 for left in self.left)


async def play(steps: list[tuple[str, int, int]]) -> None:
    world = World()
    try:
        await world.open()
        await world.fill()
        for step in steps:
            await world.do(*step)
            world.check()
    finally:
        await world.world.close()


@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS)
def test_a_cursor_leaves_what_the_model_leaves(steps: list[tuple[str, int, int]]) -> None:
    asyncio.run(play(steps))


@given(
    st.integers(0, 4),
    st.lists(
        st.tuples(st.sampled_from(["ack", "remove", "through", "clear"]), st.integers(0, 6), st.integers(0, 7)),
        max_size=40,
    ),
)
def test_parts_are_a_bounded_map_of_bit_sets(most: int, steps: list[tuple[str, int, int]]) -> None:
    """Parts behave as a dictionary with a most number of entries, and are stored in order."""
    parts, model = PartialAcks(most), dict[Position, int]()
    for step, number, bits in steps:
        place = Position(number % 2, number)
        if step == "ack":
            known = place in model
            expected = model[place] & bits if known else bits if len(model) < most or not bits else ALL
            assert parts.acknowledge(place, bits) == expected
            if expected > 0:
                model[place] = expected
            elif known:
                del model[place]
        elif step == "remove":
            parts.remove([place, Position(9, 9)])
            model.pop(place, None)
        elif step == "through":
            parts.remove_through(place)
            model = {known: left for known, left in model.items() if known > place}
        else:
            parts.clear()
            model.clear()
        assert dict(parts.left) == model
        assert [Position(ledger, entry) for ledger, entry, _ in parts.stored()] == sorted(model)
        assert all(parts.has_from(p) == any(k >= p for k in model) for p in map(Position, (0, 1) * 7, range(14)))
