"""One owner at a time: what happens to the former owner, and to its unfinished work."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.broker.namespaces.records import delete_tree
from pulsar_barycenter.ledger.errors import (
    LedgerDeletedError,
    LedgerFencedError,
    LedgerFullError,
    LedgerNotFoundError,
    LedgerUnavailableError,
)
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.ledger.storage import LEDGER_ID_COUNTER
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from pulsar_barycenter.metadata.store import Stat
from support.ledger_world import CLOSED, TOPIC, LedgerWorld
from support.ledgers_on_bookies import world_on_bookies
from support.memory_ledgers import MemoryLedgerStorage
from support.simulation.loop import VirtualTimeLoop

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


async def test_the_former_owners_appends_fail(world: LedgerWorld) -> None:
    """After a takeover the former owner gets no entry reported, is notified once, and refuses further appends."""
    old = await world.open(1)
    await old.append("a")
    new = await world.open(2)
    old.ledger.append(b"late", 1, 0, "late")
    await old.until(lambda: bool(old.fenced))
    assert [(context, type(error)) for context, error in old.failed] == [("late", LedgerFencedError)]
    assert len(old.fenced) == 1
    with pytest.raises(LedgerFencedError):
        old.ledger.append(b"later", 1, 0, "later")
    await new.append("b")
    assert await new.texts() == ["a", "b"]
    await old.ledger.close()
    assert len(old.fenced) == 1


async def test_a_former_owner_without_a_ledger_cannot_begin_one(world: LedgerWorld) -> None:
    """Where there was nothing to fence, the record's epoch stops the former owner's first append."""
    old = await world.open(1)
    new = await world.open(2)
    old.ledger.append(b"late", 1, 0, "late")
    await old.until(lambda: bool(old.failed))
    assert isinstance(old.failed[0][1], LedgerFencedError)
    assert len(old.fenced) == 1
    await new.append("a")
    assert await new.texts() == ["a"]


async def test_the_former_owners_cursor_writes_are_refused(world: LedgerWorld) -> None:
    """Acknowledgements that reach the former owner after a takeover do not change the cursor."""
    old = await world.open(1)
    cursor = await old.ledger.open_cursor("sub", "earliest")
    places = await old.append("a", "b", "c")
    new = await world.open(2)
    cursor.ack_individual(places)
    await old.until(lambda: bool(old.fenced))
    newest = await world.open(3)
    assert newest.ledger.cursors["sub"].backlog_entries == 3
    assert not new.fenced
    with pytest.raises(LedgerFencedError):
        await new.ledger.update_properties({"a": "b"})


async def test_a_former_owner_makes_no_cursor(world: LedgerWorld) -> None:
    """A subscription made at the former owner, which the later one would not know of, is refused."""
    old = await world.open(1)
    await world.open(2)
    with pytest.raises(LedgerFencedError):
        await old.ledger.open_cursor("sub", "latest")
    assert len(old.fenced) == 1


async def test_what_a_living_former_owner_does_to_cursors_until_the_topic_is_taken_over_is_seen(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cursors are read while the record is; until that is written the former owner makes, moves and deletes them."""
    old = await world.open(1)
    places = await old.append("a", "b", "c")
    for name in ("moved", "gone"):
        await old.ledger.open_cursor(name, "earliest")
    put = MemoryStore.put

    async def put_late(store: MemoryStore, path: str, *arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        old.ledger.cursors["moved"].ack_cumulative(places[1])
        await old.ledger.cursors["moved"].flush()
        await old.ledger.delete_cursor("gone")
        await old.ledger.open_cursor("made", "latest")
        return await put(store, path, *arguments, **options)

    monkeypatch.setattr(MemoryStore, "put", put_late)
    new = await world.open(2)
    assert not old.fenced
    marks = {name: cursor.mark_delete for name, cursor in new.ledger.cursors.items()}
    assert marks == {"moved": places[1], "made": places[2]}
    old.ledger.cursors["made"].ack_cumulative(places[2])
    with pytest.raises(LedgerFencedError):
        await old.ledger.cursors["moved"].store()


async def is_there(world: LedgerWorld, ledger_id: int) -> bool:
    try:
        (await world.new_storage().open(ledger_id, entry_count=0)).close()
    except LedgerNotFoundError:
        return False
    return True


async def test_a_ledger_made_ahead_is_not_listed_behind_a_later_one(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living former owner begins another while the topic is taken over: the one made ahead has the lower number."""
    old = await world.open(1, settings=replace(SMALL, max_entries_per_ledger=1))
    await old.ledger.open_cursor("keep", "earliest")
    (first,) = await old.append("a")
    await old.settle()
    put = MemoryStore.put
    numbers = []
    closed = asyncio.Event()

    async def put_before(store: MemoryStore, path: str, *arguments: Any, **options: Any) -> Stat:
        stat = await put(store, path, *arguments, **options)
        if path.startswith((LEDGER_ID_COUNTER, "/ledgers/idgen/")):
            monkeypatch.undo()
            numbers.append(int(stat.path.removeprefix(path)))
            await old.append("b")
            await old.settle()
            closed.set()
        return stat

    monkeypatch.setattr(MemoryStore, "put", put_before)
    new = await world.open(2, closed=closed)
    await new.settle()
    assert numbers[0] not in [ledger.ledger_id for ledger in new.ledger.stats.ledgers]
    assert not await is_there(world, numbers[0])
    (position,) = await new.append("c")
    assert position.ledger_id > numbers[0] > first.ledger_id
    assert await new.texts() == ["a", "b", "c"]


async def test_a_ledger_made_ahead_of_a_takeover_that_is_refused_goes_again(world: LedgerWorld) -> None:
    owner = await world.open(5)
    (position,) = await owner.append("a")
    with pytest.raises(LedgerFencedError):
        await world.open(4, closed=CLOSED)
    while tasks := [task for task in asyncio.all_tasks() if "ledger" in task.get_name()]:
        await asyncio.wait(tasks)
    assert not await is_there(world, position.ledger_id + 1)
    assert not owner.fenced


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_ledger_made_ahead_that_may_be_listed_is_there_for_the_next_owner(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    """A listed ledger without a file would mean a lost entry."""
    first = await world.open(1)
    (position,) = await first.append("a")
    await first.ledger.close()
    put = MemoryStore.put

    async def put_without_answer(store: MemoryStore, path: str, *arguments: Any, **options: Any) -> Stat:
        if not path.startswith("/managed-ledgers/"):
            return await put(store, path, *arguments, **options)
        if is_written:
            await put(store, path, *arguments, **options)
        raise StoreUnavailableError(path, "no answer")

    monkeypatch.setattr(MemoryStore, "put", put_without_answer)
    with pytest.raises(LedgerUnavailableError):
        await world.open(2, closed=CLOSED)
    monkeypatch.undo()
    while tasks := [task for task in asyncio.all_tasks() if "ledger" in task.get_name()]:
        await asyncio.wait(tasks)
    assert await is_there(world, position.ledger_id + 1)
    third = await world.open(3)
    assert third.ledger.damaged_ledgers == []
    assert await third.texts() == ["a"]


async def test_a_ledger_made_ahead_is_let_go_when_the_rest_cannot_be_recovered(world: LedgerWorld) -> None:
    former = await world.open(1)
    (position,) = await former.append("a")
    storage = world.new_storage()
    (await storage.fence(position.ledger_id, epoch=9)).close()
    with pytest.raises(LedgerFencedError):
        await world.open(2, closed=CLOSED, storage=storage)
    while tasks := [task for task in asyncio.all_tasks() if "ledger" in task.get_name()]:
        await asyncio.wait(tasks)
    assert not storage._writers  # type: ignore[attr-defined]
    await storage.close()


def test_a_topic_is_opened_and_closed_in_few_rounds_of_the_store() -> None:
    """Independent requests are sent at once: each round takes a second here, whatever is in it.

    To open: the list and the cursors' names are read while the next ledger gets its number; the list is written with
    that one, while the cursors' records are read; these are written. To close: one round.
    """

    async def rounds() -> tuple[float, float, float]:
        loop = asyncio.get_running_loop()
        world = LedgerWorld()
        owner = await world.open(1)
        first, _ = await owner.append("a", "b")
        for number in range(10):
            await owner.ledger.open_cursor(f"c{number}", "earliest")
        await owner.ledger.close()
        world.backend.latency = lambda name, path: 0.5
        began = loop.time()
        later = await world.open(2, closed=CLOSED)
        opened = loop.time()
        await later.append("c")
        written = loop.time()
        for cursor in later.ledger.cursors.values():
            cursor.ack_cumulative(first)
        closing = loop.time()
        await later.ledger.close()
        closed = loop.time()
        world.backend.latency = None
        await world.close()
        return opened - began, written - began, closed - closing

    loop = VirtualTimeLoop()  # type: ignore[abstract]
    try:
        assert loop.run_until_complete(rounds()) == (3, 3, 1)
    finally:
        loop.tear_down()


async def test_epochs_must_rise(world: LedgerWorld) -> None:
    """An owner with an epoch that is not higher than the present owner's is refused and changes nothing."""
    owner = await world.open(5)
    await owner.append("a")
    for epoch in (4, 5):
        with pytest.raises(LedgerFencedError) as refused:
            await world.open(epoch)
        assert refused.value.fenced_by == 5
    await owner.append("b")


async def test_an_opening_that_was_cut_short_is_tried_again(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same process may open under the same epoch again when it has the topic open no longer, another may not."""
    first = await world.open(1)
    await first.append("a")
    storage = world.new_storage()
    with monkeypatch.context() as patch:
        patch.setattr(storage, "fence", failing_fence)
        with pytest.raises(LedgerFullError):
            await world.open(2, storage=storage)
    with pytest.raises(LedgerFencedError):
        await world.open(2)
    second = await world.open(2, storage=storage)
    assert await second.texts() == ["a"]
    with pytest.raises(LedgerFencedError):
        await world.open(2, storage=storage)
    await second.append("b")


async def failing_fence(ledger_id: int, *, epoch: int) -> object:
    raise LedgerFullError("no space")


async def test_what_was_reported_survives_a_crash(world: LedgerWorld) -> None:
    """The next owner has every reported entry in order, and after them at most some that were queued."""
    old = await world.open(1, settings=SMALL)
    await old.ledger.open_cursor("keep", "earliest")
    for n in range(300):
        old.ledger.append(b"%d" % n, 1, 0, n)
        if n % 7 == 0:
            await asyncio.sleep(0)
    if isinstance(old.storage, MemoryLedgerStorage):
        old.storage.crash(survivors=lambda queued: queued // 2)
    reported = list(old.durable)
    new = await world.open(2, settings=SMALL)
    texts = await new.texts()
    assert len(texts) >= len(reported)
    assert texts == [str(n) for n in range(len(texts))]
    assert new.ledger.segments.entries_between(Position(-1, -1), new.ledger.last_position) == len(texts)
    for context, position in reported:
        (entry,) = await new.ledger.read(position, 1, 100)
        assert entry.data == b"%d" % context  # type: ignore[str-bytes-safe]


async def test_takeovers_in_turn_keep_one_row(world: LedgerWorld) -> None:
    """Owners that come and go without closing leave one row of entries, each written by the owner of its time."""
    owners = []
    for epoch in range(1, 6):
        owner = await world.open(epoch, settings=SMALL)
        await owner.ledger.open_cursor("keep", "earliest")
        for n in range(13):
            await owner.append(f"{epoch}/{n}")
            await owner.settle()
        owners.append(owner)
    assert await owners[-1].texts() == [f"{epoch}/{n}" for epoch in range(1, 6) for n in range(13)]
    assert all(not owner.failed for owner in owners)


async def test_an_unavailable_store_fails_the_appends_that_need_it() -> None:
    """Without the metadata store the first append fails and may be tried again; the order is kept meanwhile."""
    world = LedgerWorld()
    owner = await world.open(1)
    store = world.connect()
    failures = {"left": 1}

    async def put(path: str, *args: object, **kwargs: object) -> object:
        if failures["left"]:
            failures["left"] -= 1
            raise StoreUnavailableError(path, "no answer")
        return await original(path, *args, **kwargs)  # type: ignore[arg-type]

    original = owner.store.put
    owner.store.put = put  # type: ignore[method-assign, assignment]
    owner.ledger.append(b"a", 1, 0, "a")
    owner.ledger.append(b"b", 1, 0, "b")
    await owner.until(lambda: len(owner.failed) == 2)
    assert [context for context, _ in owner.failed] == ["a", "b"]
    assert isinstance(owner.failed[0][1], LedgerUnavailableError)
    assert not owner.fenced
    await owner.append("c")
    assert await owner.texts() == ["c"]
    await store.close()
    await world.close()


async def test_a_write_of_unknown_outcome_is_not_mistaken_for_a_takeover() -> None:
    """A put that took effect although it failed leaves this owner the owner."""
    world = LedgerWorld()
    owner = await world.open(1)
    original = owner.store.put
    failures = {"left": 1}

    async def put(path: str, *args: object, **kwargs: object) -> object:
        stat = await original(path, *args, **kwargs)  # type: ignore[arg-type]
        if path.startswith("/managed-ledgers") and failures["left"]:
            failures["left"] -= 1
            raise StoreUnavailableError(path, "no answer")
        return stat

    owner.store.put = put  # type: ignore[method-assign, assignment]
    owner.ledger.append(b"a", 1, 0, "a")
    await owner.until(lambda: bool(owner.failed))
    await owner.append("b")
    assert not owner.fenced
    successor = await world.open(2)
    assert await successor.texts() == ["b"]
    await world.close()


async def test_a_topic_whose_record_is_gone_is_reported_as_deleted(world: LedgerWorld) -> None:
    """Not as taken over by an owner that never existed, at the first write or later."""
    owner = await world.open(5)
    await owner.append("a")
    await delete_tree(world.connect(), "/managed-ledgers")
    with pytest.raises(LedgerDeletedError) as refused:
        await owner.ledger.update_properties({"key": "value"})
    with pytest.raises(LedgerDeletedError) as later:
        owner.ledger.check_open()
    for error in (refused.value, later.value, *owner.fenced):
        assert "deleted" in str(error)
        assert "taken over" not in str(error)
    assert len(owner.fenced) == 1


async def test_a_cursor_whose_record_is_gone_is_reported_as_deleted(world: LedgerWorld) -> None:
    owner = await world.open(5)
    await owner.append("a")
    cursor = await owner.ledger.open_cursor("s", "earliest")
    await delete_tree(world.connect(), "/managed-ledgers")
    with pytest.raises(LedgerDeletedError, match="deleted"):
        await cursor.set_properties({"key": "value"})


async def test_a_ledger_that_the_stored_list_has_is_not_deleted_while_a_topic_closes() -> None:
    """A closing topic takes its empty ledger off the list while a trim deletes others. If the store refuses the list
    without the empty ledger, the next owner has to find it.
    """
    world = LedgerWorld()
    owner = await world.open(1, settings=SMALL)
    await owner.ledger.open_cursor("all", "earliest")
    await owner.append_numbers(15)
    await owner.ledger.close()
    owner = await world.open(2, settings=SMALL, closed=CLOSED)
    original = owner.store.put
    saving, release = asyncio.Event(), asyncio.Event()

    async def put(path: str, *args: object, **kwargs: object) -> object:
        if path != managed_ledger_path(TOPIC):
            return await original(path, *args, **kwargs)  # type: ignore[arg-type]
        if saving.is_set():
            raise StoreUnavailableError(path, "the store is read-only")
        saving.set()
        await release.wait()
        return await original(path, *args, **kwargs)  # type: ignore[arg-type]

    owner.store.put = put  # type: ignore[method-assign, assignment]
    owner.ledger.cursors["all"].ack_cumulative(owner.ledger.last_position)
    await saving.wait()
    closing = asyncio.create_task(owner.ledger.close())
    for _ in range(20):  # until it waits for the trim's write of the list
        await asyncio.sleep(0)
    release.set()
    await closing
    successor = await world.open(3, settings=SMALL)
    await successor.append("next")
    assert await successor.texts(successor.positions[0]) == ["next"]
    for figures in successor.ledger.stats.ledgers:
        await successor.storage.open(figures.ledger_id, entry_count=0)
    await world.close()
