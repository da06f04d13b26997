"""Consumed ledgers are kept for the time and the size of retention, and no longer."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.ledger_settings import NO_RETENTION, LedgerSettings, Retention
from pulsar_barycenter.ledger.managed.retention import released
from pulsar_barycenter.ledger.managed.segments import Segment, Segments
from pulsar_barycenter.ledger.position import EARLIEST
from support.ledger_world import FixedClock, LedgerWorld, Owner

START_MS = FixedClock().now_ms()
NUMBERS = [str(n) for n in range(10)] * 3
"""What `written` appends: three ledgers of ten entries of one byte."""


class MovedClock:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


@pytest.fixture(params=["memory", "file"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld() if request.param == "memory" else LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    yield world
    await world.close()


def keeping(time_ms: int, size: int) -> LedgerSettings:
    return LedgerSettings(max_entries_per_ledger=10, mark_delete_per_second=0, retention=Retention(time_ms, size))


async def written(world: LedgerWorld, settings: LedgerSettings, *, cursor: bool = False) -> Owner:
    """Return a topic with three full ledgers and an empty one; nothing has read it."""
    owner = await world.open(1, settings=settings)
    if cursor:
        await owner.ledger.open_cursor("s", "earliest")
    for _ in range(3):
        await owner.append_numbers(10)
    await owner.settle()
    return owner


async def after(owner: Owner, ms: int) -> list[str]:
    """Return what can be read `ms` after the start, when the check was made then."""
    owner.ledger.clock = MovedClock(START_MS + ms)
    owner.ledger.trim()
    await owner.settle()
    return await owner.texts()


async def test_without_retention_consumed_ledgers_are_deleted(world: LedgerWorld) -> None:
    owner = await written(world, keeping(*NO_RETENTION))
    assert await owner.texts() == NUMBERS[20:], "the ledger of the last entry stays"


async def test_ledgers_are_kept_for_a_time_after_their_end(world: LedgerWorld) -> None:
    owner = await written(world, keeping(60_000, -1))
    assert await after(owner, 60_000) == NUMBERS
    assert await owner.texts(EARLIEST) == NUMBERS, "a reader of the earliest message gets them"
    assert await after(owner, 60_001) == NUMBERS[20:]


async def test_the_end_of_a_ledger_outlives_its_owner(world: LedgerWorld) -> None:
    first = await written(world, keeping(60_000, -1))
    await first.ledger.close()
    second = await world.open(2, settings=keeping(60_000, -1))
    await second.settle()
    assert await after(second, 60_000) == NUMBERS
    assert await after(second, 60_001) == NUMBERS[20:]


async def test_ledgers_are_kept_up_to_a_size_of_the_topic(world: LedgerWorld) -> None:
    """The oldest ledger goes when the rest still has the size; 30 bytes are written, 10 to a ledger."""
    assert await (await written(world, keeping(-1, 21))).texts() == NUMBERS
    other = LedgerWorld()
    try:
        assert await (await written(other, keeping(-1, 20))).texts() == NUMBERS[10:]
    finally:
        await other.close()


async def test_a_smaller_retention_deletes_at_once_and_no_limit_never(world: LedgerWorld) -> None:
    owner = await written(world, keeping(-1, -1))
    assert await after(owner, 10**12) == NUMBERS
    owner.ledger.settings = replace(owner.ledger.settings, retention=NO_RETENTION)
    assert await after(owner, 0) == NUMBERS[20:]


async def test_what_a_cursor_needs_is_kept_beyond_retention(world: LedgerWorld) -> None:
    owner = await written(world, keeping(1_000, -1), cursor=True)
    assert await after(owner, 10**9) == NUMBERS
    cursor = owner.ledger.cursors["s"]
    cursor.ack_cumulative(owner.positions[9])
    await owner.settle()
    assert await owner.texts() == NUMBERS[10:], "the move of the cursor is noticed"
    cursor.ack_individual(owner.positions[10:19])
    await owner.settle()
    assert await owner.texts() == NUMBERS[10:]
    cursor.ack_individual(owner.positions[19:20])
    await owner.settle()
    assert await owner.texts() == NUMBERS[20:], "also within one ledger"


async def test_a_ledger_ends_when_the_next_one_begins(world: LedgerWorld) -> None:
    """After an unload the next ledger begins with the next message; until then the last one stays in any case."""
    settings = keeping(60_000, -1)
    first = await world.open(1, settings=settings)
    await first.append("x")
    await first.ledger.close()
    second = await world.open(2, settings=settings)
    assert await after(second, 10**9) == ["x"]
    await second.append("y")
    assert await after(second, 10**9 + 60_000) == ["x", "y"]
    assert await after(second, 10**9 + 60_001) == ["y"]


async def test_a_ledger_of_a_slow_topic_ends_by_its_age(world: LedgerWorld) -> None:
    settings = replace(keeping(60_000, -1), max_ledger_age_ms=240_000)
    owner = await world.open(1, settings=settings)
    await owner.append("x")

    async def checked(ms: int) -> int:
        owner.ledger.clock = MovedClock(START_MS + ms)
        owner.ledger.roll_if_old()
        await owner.settle()
        return len(owner.ledger.stats.ledgers)

    assert await checked(240_000) == 1
    assert await checked(240_001) == 2
    assert await checked(10**9) == 2, "the new one has no entry yet"
    await owner.append("y")
    assert await owner.texts() == ["x", "y"], "written on in the new one"
    assert await after(owner, 300_002) == ["y"]


LEDGER = st.tuples(st.integers(0, 50), st.integers(0, 30))
"""Bytes of a ledger, 0 for one without entries, and the time from its begin to its end."""


@given(
    st.lists(LEDGER, max_size=6), st.integers(0, 60), st.integers(-1, 100), st.integers(-1, 120), st.integers(0, 150)
)
def test_released_ledgers_are_those_before_the_first_that_both_limits_keep(
    ledgers: list[tuple[int, int]], rest: int, time_ms: int, size: int, now_ms: int
) -> None:
    """`rest` is the size of the ledger that is being written."""
    listed, begun_ms, ended_ms = Segments(), 1, []
    for number, (bytes_, lasts_ms) in enumerate([*ledgers, (rest, 0)]):
        segment = Segment(number, created_at_ms=begun_ms)
        segment.size, segment.entries = bytes_, 1 if bytes_ else 0
        listed.append(segment)
        begun_ms += lasts_ms
        ended_ms.append(begun_ms)
    consumed = list(listed)[:-1]
    gone = released(consumed, listed, Retention(time_ms, size), now_ms)
    assert gone == consumed[: len(gone)]

    def is_kept(segment: Segment) -> bool:
        left = sum(other.size for other in listed if other.ledger_id > segment.ledger_id)
        in_time = time_ms < 0 or now_ms - ended_ms[segment.ledger_id] <= time_ms
        return segment.entries > 0 and in_time and (size < 0 or left < size)

    assert len(gone) == next((at for at, segment in enumerate(consumed) if is_kept(segment)), len(consumed))
