"""A terminated topic: no append follows, for any owner, and its last position stays."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.ledger.errors import LedgerFencedError, LedgerTerminatedError, LedgerUnavailableError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from support.ledger_world import CLOSED, LedgerWorld, Owner

SMALL = LedgerSettings(max_entries_per_ledger=3, mark_delete_per_second=0)


@pytest.fixture
async def world() -> AsyncIterator[LedgerWorld]:
    world = LedgerWorld()
    yield world
    await world.close()


def refuses(owner: Owner) -> bool:
    try:
        owner.ledger.append(b"x", 1, 0, "x")
    except LedgerTerminatedError:
        return True
    return False


async def test_entries_under_way_are_stored_and_no_entry_follows(world: LedgerWorld) -> None:
    owner = await world.open(1, settings=SMALL)
    for number in range(8):
        owner.ledger.append(b"%d" % number, 1, 0, number)
    end = await owner.ledger.terminate()
    assert [context for context, _ in owner.durable] == list(range(8))
    assert end == owner.positions[-1] == owner.ledger.last_position == owner.ledger.terminated_at
    assert refuses(owner)
    assert len(owner.durable) == 8
    assert await owner.ledger.terminate() == end


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
async def test_the_next_owner_finds_the_end(world: LedgerWorld, is_closed: bool) -> None:
    first = await world.open(1, settings=SMALL)
    await first.ledger.open_cursor("sub", "earliest")
    places = await first.append_numbers(7)
    await first.ledger.terminate()
    if is_closed:
        await first.ledger.close()
    for epoch in (2, 3):
        later = await world.open(epoch, settings=SMALL, closed=CLOSED)
        assert later.ledger.terminated_at == places[-1]
        assert refuses(later)
        assert await later.texts() == [str(number) for number in range(7)]
        assert await later.ledger.terminate() == places[-1]


async def test_the_end_stays_when_all_is_consumed(world: LedgerWorld) -> None:
    first = await world.open(1, settings=SMALL)
    cursor = await first.ledger.open_cursor("sub", "earliest")
    places = await first.append_numbers(9)
    await first.ledger.terminate()
    cursor.ack_cumulative(places[-1])
    await first.settle()
    await first.ledger.close()
    later = await world.open(2, settings=SMALL)
    assert (later.ledger.terminated_at, later.ledger.last_position) == (places[-1], places[-1])
    assert later.ledger.cursors["sub"].backlog_entries == 0


async def test_a_topic_that_was_never_written_ends_before_its_first_entry(world: LedgerWorld) -> None:
    owner = await world.open(1)
    assert await owner.ledger.terminate() == EARLIEST
    assert refuses(owner)
    await owner.ledger.close()
    later = await world.open(2)
    assert later.ledger.terminated_at == EARLIEST
    assert refuses(later)


async def test_an_end_that_may_be_stored_is_kept(world: LedgerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store does not answer, no entry may follow: the next owner would not know of it."""
    owner = await world.open(1)
    places = await owner.append("a")

    async def no_answer(path: str, *_: object, **__: object) -> None:
        raise StoreUnavailableError(path, "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(owner.store, "put", no_answer)
        with pytest.raises(LedgerUnavailableError):
            await owner.ledger.terminate()
    assert refuses(owner)
    assert await owner.ledger.terminate() == places[-1]
    later = await world.open(2)
    assert later.ledger.terminated_at == places[-1]


async def test_a_former_owner_cannot_terminate(world: LedgerWorld) -> None:
    first = await world.open(1)
    await first.append("a")
    later = await world.open(2)
    with pytest.raises(LedgerFencedError):
        await first.ledger.terminate()
    assert later.ledger.terminated_at is None
    await later.append("b")


async def test_a_topic_may_be_terminated_while_its_ledger_is_rolled(world: LedgerWorld) -> None:
    owner = await world.open(1, settings=SMALL)
    await owner.append("a", "b", "c")  # the ledger is full: its successor is being created
    async with asyncio.timeout(30):
        end = await owner.ledger.terminate()
    assert end == owner.positions[-1]
    await owner.ledger.close()
    later = await world.open(2, settings=SMALL)
    assert await later.texts() == ["a", "b", "c"]
    assert later.ledger.terminated_at == end
