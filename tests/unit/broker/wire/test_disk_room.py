"""Producers of a topic whose last write found no room are held until there is some, and refused after a while."""

import asyncio

import pytest

from pulsar_barycenter.broker.wire.admission.disk_room import ASK_S, HOLD_S, DiskRoom
from pulsar_barycenter.ledger.disk_full import FIRST_PAUSE_S, MAX_PAUSE_S, DiskFullState
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFullError
from support.virtual_time import World, on_virtual_time

FULL = LedgerFullError("no space left")


class Disk:
    """Has room from a time on; `asked` is when it was asked."""

    def __init__(self, room_at_s: float) -> None:
        self.room_at_s = room_at_s
        self.asked: list[float] = []

    async def has_room(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        self.asked.append(now_s)
        return now_s >= self.room_at_s


def failed() -> DiskFullState:
    room = DiskFullState()
    room.write_failed(FULL, asyncio.get_running_loop().time())
    return room


def test_only_the_lack_of_room_counts() -> None:
    room = DiskFullState()
    room.write_failed(LedgerError("input/output error"), 5.0)
    assert not room.is_full
    room.write_failed(FULL, 5.0)
    assert room.is_full
    room.write_succeeded()
    assert not room.is_full


def test_the_pause_grows_to_a_bound_with_each_that_was_let_in_in_vain() -> None:
    room, pauses = DiskFullState(), []
    for _ in range(50):
        room.write_failed(FULL, 100.0)
        pauses.append(room.retry_at_s - 100.0)
        room.producer_admitted()
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == MAX_PAUSE_S
    room.write_succeeded()
    room.write_failed(FULL, 100.0)
    assert room.retry_at_s == 100.0 + FIRST_PAUSE_S


def test_producers_that_were_attached_before_and_fail_too_prolong_nothing() -> None:
    room = DiskFullState()
    for number in range(100):
        room.write_failed(FULL, 100.0 + number)
    assert room.retry_at_s == 100.0 + FIRST_PAUSE_S


def test_a_topic_that_can_be_written_asks_nothing() -> None:
    async def test(world: World) -> None:
        disk = Disk(room_at_s=1e9)
        await DiskRoom(disk.has_room).require("t", DiskFullState())
        assert disk.asked == []

    on_virtual_time(test)


def test_a_producer_is_let_in_soon_after_there_is_room() -> None:
    async def test(world: World) -> None:
        begin = world.loop.time()
        disk = Disk(room_at_s=begin + 7.5)
        await DiskRoom(disk.has_room).require("t", failed())
        assert 7.5 <= world.loop.time() - begin <= 7.5 + 2 * ASK_S

    on_virtual_time(test)


def test_without_room_a_producer_is_refused_before_its_client_gives_up() -> None:
    async def test(world: World) -> None:
        begin = world.loop.time()
        disk = Disk(room_at_s=begin + 1e9)
        with pytest.raises(LedgerFullError, match=r"^persistent://t/n/x: the disk"):
            await DiskRoom(disk.has_room).require("persistent://t/n/x", failed())
        assert world.loop.time() - begin == pytest.approx(HOLD_S)

    on_virtual_time(test)


def test_where_small_files_fit_and_messages_do_not_the_rounds_grow_rarer() -> None:
    """Each producer that is let in has its write fail."""

    async def test(world: World) -> None:
        begin = world.loop.time()
        disk_room, room, tries = DiskRoom(Disk(room_at_s=0).has_room), failed(), 0
        while world.loop.time() - begin < 600:
            try:
                await disk_room.require("t", room)
            except LedgerFullError:
                continue
            tries += 1
            room.write_failed(FULL, world.loop.time())
        assert 10 <= tries <= 20

    on_virtual_time(test)


def test_many_that_wait_ask_the_disk_as_often_as_one() -> None:
    async def test(world: World) -> None:
        begin = world.loop.time()
        disk = Disk(room_at_s=begin + 5)
        disk_room = DiskRoom(disk.has_room)
        rooms = [failed() for _ in range(500)]
        await asyncio.gather(*(disk_room.require("t", room) for room in rooms))
        assert len(disk.asked) <= 5 / ASK_S + 2

    on_virtual_time(test)


def test_a_write_that_succeeds_lets_those_in_that_wait() -> None:
    async def test(world: World) -> None:
        room = failed()
        waiting = asyncio.ensure_future(DiskRoom(Disk(room_at_s=1e9).has_room).require("t", room))
        await asyncio.sleep(2)
        room.write_succeeded()
        await asyncio.sleep(ASK_S)
        assert waiting.done()
        await waiting

    on_virtual_time(test)
