"""Appending, rolling, reading, trimming and closing of managed ledgers, on memory and on files."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerNotFoundError, LedgerUnavailableError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.position import EARLIEST, EntryInfo, Position
from pulsar_barycenter.ledger.storage import Later
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName
from support.ledger_world import CLOSED, DEADLINE_S, TOPIC, LedgerWorld
from support.ledgers_on_bookies import world_on_bookies

SMALL = LedgerSettings(max_entries_per_ledger=10, mark_delete_per_second=0)


@pytest.fixture(params=["memory", "file", "bookies"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LedgerWorld]:
    if request.param == "bookies":
        async with world_on_bookies() as world:
            yield world
        return
    world = LedgerWorld() if request.param == "memory" else LedgerWorld(lambda: FileLedgerStorage(tmp_path))
    yield world
    await world.close()


async def test_appends_are_reported_in_order_with_their_contexts(world: LedgerWorld) -> None:
    """Each context comes back once, in order, with a position that grows."""
    owner = await world.open(1)
    for n in range(500):
        owner.ledger.append(b"%d" % n, 1, n, n)
        if n % 50 == 0:
            await asyncio.sleep(0)
    await owner.until(lambda: len(owner.durable) == 500)
    assert [context for context, _ in owner.durable] == list(range(500))
    assert owner.positions == sorted(set(owner.positions))
    assert owner.ledger.last_position == owner.positions[-1]
    assert owner.ledger.next_valid(EARLIEST) == owner.positions[0]


async def test_a_topic_that_was_never_written_has_no_ledger(world: LedgerWorld) -> None:
    """Ledgers are made at the first append; until then there is nothing to read and no position."""
    owner = await world.open(1)
    assert owner.ledger.stats.ledgers == ()
    assert owner.ledger.last_position == EARLIEST
    assert owner.ledger.read_cached(EARLIEST, 10, 100) == []
    assert await owner.ledger.read(EARLIEST, 10, 100) == []
    assert owner.ledger.segments.entries_between(EARLIEST, owner.ledger.last_position) == 0


async def test_the_next_owner_can_have_a_ledger_made_ahead_of_the_append(world: LedgerWorld) -> None:
    """Only where something was written before; one that stays empty leaves nothing behind."""
    first = await world.open(1, closed=CLOSED)
    assert first.ledger.stats.ledgers == ()
    (written,) = await first.append("x")
    await first.ledger.close()

    second = await world.open(2, closed=CLOSED)
    made = [ledger.ledger_id for ledger in second.ledger.stats.ledgers]
    assert len(made) == 2
    assert second.ledger.last_position == written
    await second.ledger.close()
    third = await world.open(3, closed=CLOSED)
    ahead = [ledger.ledger_id for ledger in third.ledger.stats.ledgers]
    assert ahead[0] == written.ledger_id
    (position,) = await third.append("y")
    assert position.ledger_id == ahead[1] > made[-1]
    assert await third.texts() == ["x", "y"]


async def test_ledgers_roll_while_appends_go_on(world: LedgerWorld) -> None:
    """A ledger that reached its limit is followed by another; no entry is lost or moved by that."""
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("keep", "earliest")
    for n in range(200):
        owner.ledger.append(b"%d" % n, 1, n, n)
        await asyncio.sleep(0)
        if n % 20 == 19:
            await owner.until(lambda: len(owner.durable) > 15)
            await owner.settle()
    await owner.until(lambda: len(owner.durable) == 200)
    assert [context for context, _ in owner.durable] == list(range(200))
    assert owner.positions == sorted(owner.positions)
    assert len(owner.ledger.stats.ledgers) > 1
    assert await owner.texts() == [str(n) for n in range(200)]


async def test_a_ledger_rolls_by_its_size(world: LedgerWorld) -> None:
    """Bytes are a limit as entries are."""
    owner = await world.open(1, settings=LedgerSettings(max_bytes_per_ledger=100, mark_delete_per_second=0))
    await owner.ledger.open_cursor("keep", "earliest")
    first = await owner.append("x" * 200)
    await owner.settle()
    (second,) = await owner.append("y")
    assert second.ledger_id > first[0].ledger_id


async def test_ids_that_a_lost_counter_gives_again_are_passed_over(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions of a topic grow; with a counter far below, appends fail until it has come up, and none waits."""
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("keep", "earliest")
    (first,) = await owner.append("0")
    drawn, draw = iter([0, first.ledger_id]), owner.storage.new_id

    async def lost_counter(store: MetadataStore, later: Later) -> int:
        lower = next(drawn, -1)
        return lower if lower >= 0 else await draw(store, later)

    monkeypatch.setattr(owner.storage, "new_id", lost_counter)
    await owner.append(*(str(n) for n in range(1, 10)))
    await owner.settle()
    (second,) = await owner.append("10")
    assert second.ledger_id > first.ledger_id

    drawn = iter([0] * 1000)
    await owner.append(*(str(n) for n in range(11, 30)))
    await owner.ledger.close()
    later = await world.open(2, settings=SMALL)
    monkeypatch.setattr(later.storage, "new_id", lost_counter)
    later.ledger.append(b"lost", 1, 0, "lost")
    await later.until(lambda: bool(later.failed))
    assert "the counter was deleted" in str(later.failed[0][1])
    await later.ledger.close()


async def test_reads_obey_their_limits(world: LedgerWorld) -> None:
    """A read gives one entry at least, then keeps within entries and bytes and stops when enough messages are in it."""
    owner = await world.open(1)
    places = await owner.append(*("12345" for _ in range(10)), messages=4)
    ledger = owner.ledger

    async def count(max_entries: int, max_bytes: int, max_messages: int | None = None) -> list[int]:
        cached = ledger.read_cached(places[2], max_entries, max_bytes, max_messages)
        read = await ledger.read(places[2], max_entries, max_bytes, max_messages)
        run = ledger.cached_run(places[2], max_entries, max_bytes, max_messages)
        assert cached == read
        assert run is not None
        assert (run.ledger_id, run.first, list(run.data)) == (*read[0].position, [entry.data for entry in read])
        assert (run.num_messages, run.size) == (sum(e.num_messages for e in read), sum(len(e.data) for e in read))
        return [entry.position.entry_id for entry in read]

    assert await count(3, 1000) == [2, 3, 4]
    assert await count(100, 1) == [2]
    assert await count(100, 14) == [2, 3]
    assert await count(100, 1000, 1) == [2]
    assert await count(100, 1000, 5) == [2, 3]
    assert await count(100, 1000) == list(range(2, 10))
    behind = Position(places[-1].ledger_id, 10)
    assert ledger.read_cached(behind, 100, 1000) == []
    assert ledger.cached_run(behind, 100, 1000) is None


async def test_an_entry_carries_what_was_appended_beside_it(world: LedgerWorld) -> None:
    """Size, message count and publish time come with each entry, and from `info` alone."""
    owner = await world.open(1)
    (place,) = await owner.append("four", messages=3, time_ms=99)
    (entry,) = await owner.ledger.read(place, 1, 100)
    assert entry.info == EntryInfo(4, 3, 99)
    assert (entry.num_messages, entry.publish_time_ms, entry.data) == (3, 99, b"four")
    assert await owner.ledger.info(place) == EntryInfo(4, 3, 99)
    assert await owner.ledger.info(Position(place.ledger_id, 1)) is None


async def test_what_left_the_cache_is_read_from_the_ledger(world: LedgerWorld) -> None:
    """Beyond the cache's budget a cached read is a miss, and a read gives the same entries from storage."""
    owner = await world.open(1)
    owner.storage.caches.tail.capacity_bytes = 2000
    texts = [f"{n:0100}" for n in range(100)]
    for first in range(0, 100, 10):
        await owner.append(*texts[first : first + 10])
    assert owner.ledger.read_cached(owner.positions[0], 10, 1 << 20) is None
    assert owner.ledger.read_cached(owner.positions[99], 10, 1 << 20) is not None
    cached = [place for place in owner.positions if owner.ledger.read_cached(place, 1, 1 << 20) is not None]
    assert 100 * len(cached) <= 2000
    assert await owner.texts() == texts


async def test_a_topic_goes_on_after_close_and_reopening(world: LedgerWorld) -> None:
    """Entries, positions and columns are the same for the next owner, which appends after them."""
    first = await world.open(1, settings=SMALL)
    await first.ledger.open_cursor("keep", "earliest")
    await first.append_numbers(33)
    await first.ledger.close()
    second = await world.open(2, settings=SMALL)
    assert second.ledger.last_position == first.positions[-1]
    assert second.ledger.segments.entries_between(EARLIEST, second.ledger.last_position) == 33
    await second.append("33")
    assert await second.texts() == [str(n) for n in range(34)]
    assert second.positions[0] > first.positions[-1]


async def test_the_same_epoch_may_reopen_what_it_closed(world: LedgerWorld) -> None:
    """A topic closed in order is opened again under the same epoch, as when it was idle."""
    first = await world.open(4)
    await first.append("a")
    await first.ledger.close()
    again = await world.open(4)
    await again.append("b")
    assert await again.texts() == ["a", "b"]


async def test_an_absent_topic_is_opened_only_to_create_it(world: LedgerWorld) -> None:
    """Without `create` an absent topic is an error, and leaves nothing behind."""
    with pytest.raises(LedgerNotFoundError):
        await world.open(1, create=False)
    store = world.connect()
    assert not await store.exists(managed_ledger_path(TOPIC))


async def test_a_record_made_by_others_is_a_topic(world: LedgerWorld) -> None:
    """An empty record, as the REST interface writes for a new topic, opens as an empty topic."""
    store = world.connect()
    for topic, value in (("persistent://t/n/a", b""), ("persistent://t/n/b", b"{}")):
        name = TopicName.parse(topic)
        await store.put(managed_ledger_path(name), value)
        owner = await world.open(1, create=False, topic=name)
        await owner.append("x")


@pytest.mark.parametrize("ledgers", ['{"ledgerId":5},{"ledgerId":4}', '{"ledgerId":-1}', '{"ledgerId":1,"entries":-1}'])
async def test_a_record_with_an_impossible_list_is_refused_and_left_alone(world: LedgerWorld, ledgers: str) -> None:
    store, value = world.connect(), f'{{"epoch":1,"ledgers":[{ledgers}]}}'.encode()
    await store.put(managed_ledger_path(TOPIC), value)
    with pytest.raises(LedgerUnavailableError, match="ids must increase"):
        await world.open(2)
    found = await store.get(managed_ledger_path(TOPIC))
    assert found is not None
    assert found.value == value


async def test_closing_reports_what_was_appended_and_refuses_more(world: LedgerWorld) -> None:
    """close() waits for pending appends, and for those that still wait for their first ledger."""
    owner = await world.open(1)
    for n in range(20):
        owner.ledger.append(b"x", 1, 0, n)
    await owner.ledger.close()
    assert [context for context, _ in owner.durable] == list(range(20))
    with pytest.raises(LedgerClosedError):
        owner.ledger.append(b"x", 1, 0, 0)
    await owner.ledger.close()


async def test_a_negative_message_count_is_refused(world: LedgerWorld) -> None:
    """It is an error of the caller's alone: other appends go on."""
    owner = await world.open(1)
    with pytest.raises(ValueError, match="negative"):
        owner.ledger.append(b"x", -1, 0, "x")
    await owner.append("y")
    assert await owner.texts() == ["y"]


async def test_ledgers_that_all_cursors_have_left_are_deleted(world: LedgerWorld) -> None:
    """A ledger goes when the last durable cursor has acknowledged its last entry; the last ledger stays."""
    owner = await world.open(1, settings=SMALL)
    slow = await owner.ledger.open_cursor("slow", "earliest")
    fast = await owner.ledger.open_cursor("fast", "earliest")
    await owner.append_numbers(45)
    ledgers = [figures.ledger_id for figures in owner.ledger.stats.ledgers]
    assert len(ledgers) >= 4
    fast.ack_cumulative(owner.positions[-1])
    await owner.ledger.close()
    owner = await world.open(2, settings=SMALL)
    assert [figures.ledger_id for figures in owner.ledger.stats.ledgers] == ledgers
    slow = owner.ledger.cursors["slow"]
    slow.ack_cumulative(Position(ledgers[2], -1))
    await owner.ledger.close()
    owner = await world.open(3, settings=SMALL)
    assert [figures.ledger_id for figures in owner.ledger.stats.ledgers] == ledgers[2:]
    with pytest.raises(LedgerNotFoundError):
        await owner.storage.open(ledgers[0], entry_count=0)


async def test_without_cursors_only_the_last_ledger_is_kept(world: LedgerWorld) -> None:
    """With no subscription there is no retention."""
    owner = await world.open(1, settings=SMALL)
    await owner.append_numbers(45)
    await owner.ledger.close()
    again = await world.open(2, settings=SMALL)
    await again.ledger.close()
    final = await world.open(3, settings=SMALL)
    assert len(final.ledger.stats.ledgers) == 1
    assert final.ledger.last_position == owner.positions[-1]


async def test_find_by_publish_time(world: LedgerWorld) -> None:
    """The first entry published then or later, over all ledgers, cached or not; none if all are older."""
    first = await world.open(1, settings=SMALL)
    await first.ledger.open_cursor("keep", "earliest")
    for n in range(25):
        await first.append(str(n), time_ms=1000 + 10 * n)
    await first.ledger.close()
    owner = await world.open(2)
    assert await owner.ledger.find_by_publish_time(0) == first.positions[0]
    assert await owner.ledger.find_by_publish_time(1100) == first.positions[10]
    assert await owner.ledger.find_by_publish_time(1101) == first.positions[11]
    assert await owner.ledger.find_by_publish_time(1240) == first.positions[24]
    assert await owner.ledger.find_by_publish_time(1241) is None


async def test_positions_between_ledgers(world: LedgerWorld) -> None:
    """Counting and stepping cross from ledger to ledger; a read from a gap begins at the next entry."""
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("keep", "earliest")
    await owner.append_numbers(30)
    places, ledger = owner.positions, owner.ledger
    at = next(n for n in range(30) if places[n + 1].ledger_id != places[n].ledger_id)
    assert ledger.next_valid(places[at]) == places[at + 1]
    assert ledger.next_valid(EARLIEST) == places[0]
    beyond = Position(places[-1].ledger_id, places[-1].entry_id + 1)
    assert ledger.next_valid(places[-1]) == beyond
    assert ledger.segments.entries_between(places[0], places[29]) == 29
    assert ledger.segments.entries_between(places[at], places[at + 1]) == 1
    assert ledger.segments.entries_between(places[5], places[5]) == 0
    gap = Position(places[at].ledger_id, places[at].entry_id + 1)
    assert (await ledger.read(gap, 1, 100))[0].position == places[at + 1]
    assert await ledger.read(beyond, 1, 100) == []


async def test_delete_leaves_nothing(world: LedgerWorld) -> None:
    """Record, cursors and ledgers are gone; the topic can be created again."""
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("a/b c", "earliest")
    await owner.append_numbers(25)
    ledgers = [figures.ledger_id for figures in owner.ledger.stats.ledgers]
    await owner.ledger.delete()
    store = world.connect()
    assert not await store.exists(managed_ledger_path(TOPIC))
    assert await store.children(managed_ledger_path(TOPIC)) == []
    for ledger_id in ledgers:
        with pytest.raises(LedgerNotFoundError):
            await owner.storage.open(ledger_id, entry_count=0)
    again = await world.open(2, settings=SMALL)
    assert again.ledger.cursors == {}
    assert await again.texts() == []


async def test_properties_are_kept(world: LedgerWorld) -> None:
    """A topic's properties are the next owner's too."""
    owner = await world.open(1)
    await owner.ledger.update_properties({"a": "b"})
    await owner.ledger.close()
    assert (await world.open(2)).ledger.properties == {"a": "b"}


async def test_closing_writes_all_that_the_store_is_to_keep_at_once(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that writes in groups is waited for once: none of the writes begins after another has ended."""
    owner = await world.open(1)
    positions = await owner.append("a", "b")
    for number in range(3):
        cursor = await owner.ledger.open_cursor(f"c{number}", "earliest")
        cursor.ack_cumulative(positions[0])
    await owner.settle()
    events: list[str] = []
    put = MemoryStore.put

    async def watched_put(*arguments: Any, **options: Any) -> Any:
        events.append("begun")
        result = await put(*arguments, **options)
        events.append("ended")
        return result

    for number in range(3):
        owner.ledger.cursors[f"c{number}"].ack_cumulative(positions[1])
    monkeypatch.setattr(MemoryStore, "put", watched_put)
    await owner.ledger.close()
    waits = 1 + list(pairwise(events)).count(("ended", "begun"))
    closes_ledger = isinstance(owner.storage, BookKeeperStorage)  # by a write of its own, before the list
    assert (events.count("begun"), waits) == ((5, 2) if closes_ledger else (4, 1))
    monkeypatch.undo()
    later = await world.open(2)
    assert {cursor.mark_delete for cursor in later.ledger.cursors.values()} == {positions[1]}


async def test_a_task_of_a_topic_that_fails_by_a_fault_is_logged_and_does_not_hold_up_its_close(
    world: LedgerWorld,
) -> None:
    owner = await world.open(1)

    async def broken() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with capture_logs() as logs:
        owner.ledger.start(broken(), "broken")
        await owner.ledger.settled()
    assert [(line["event"], line["task"]) for line in logs] == [("managed_ledger_task_failed", "broken")]
    await owner.ledger.close()


async def test_appends_go_on_after_a_fault_in_making_a_ledger(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends without a ledger fail; those beside a roll do not. Neither waits, and the topic can be closed."""
    owner = await world.open(1, settings=SMALL)

    async def broken(store: MetadataStore, later: Later) -> int:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(owner.storage, "new_id", broken)
        owner.ledger.append(b"x", 1, 0, "x")
        await owner.until(lambda: bool(owner.failed))
    await owner.append("0")
    with monkeypatch.context() as patched:
        patched.setattr(owner.storage, "new_id", broken)
        await owner.append(*(str(n) for n in range(1, 15)))
        await owner.settle()
    async with asyncio.timeout(DEADLINE_S):
        await owner.ledger.close()
    assert [context for context, _ in owner.failed] == ["x"]
