"""Compaction of a topic on either ledger storage: what is kept, what readers see, and that no crash loses any of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from barycenter.broker.compaction.compactor import Compacted, Compactor, KeepsEarlier
from barycenter.broker.compaction.compression import MOST_UNCOMPRESSED
from barycenter.ledger.errors import LedgerClosedError, LedgerCorruptedError, LedgerError, LedgerFencedError
from barycenter.ledger.files.file_storage import FileLedgerStorage
from barycenter.ledger.files.folder import ledger_files
from barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR, LEDGER_PROPERTY, KeptEntry
from barycenter.ledger.managed.managed_ledger import ManagedLedger, managed_ledger_path
from barycenter.ledger.managed.records import ManagedLedgerRecord, decode
from barycenter.ledger.position import EARLIEST, Position
from barycenter.ledger.settings import LedgerSettings
from barycenter.ledger.storage import LedgerStorage
from barycenter.naming.topic import TopicName
from barycenter.protocol import pulsar_api_pb2 as api
from barycenter.protocol.frames import split_entry
from support.compaction_cases import (
    Life,
    Message,
    MortalStorage,
    MortalStore,
    Place,
    batch,
    chunks,
    compacted_entries,
    compacted_places,
    newest_of,
    publish_entry,
    single,
    table_of,
)
from support.ledger_world import TOPIC, FixedClock, LedgerWorld, Owner

SMALL = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0)


@dataclass
class There:
    """A world on one kind of storage, which ledgers have files there, and how the last entry of one gets damaged."""

    world: LedgerWorld
    ledger_ids: Callable[[], set[int]]
    damage: Callable[[Position], None]


@pytest.fixture(params=["memory", "file"])
async def there(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[There]:
    if request.param == "memory":
        world = LedgerWorld()
        place = There(world, lambda: set(world.disk._ledgers), lambda position: world.disk.damage(*position))
    else:
        root = tmp_path / "ledgers"
        world = LedgerWorld(lambda: FileLedgerStorage(root))
        place = There(world, lambda: set(dict(ledger_files(str(root)))), lambda position: flip_last(root, position))
    yield place
    await world.close()


def flip_last(root: Path, position: Position) -> None:
    path = Path(dict(ledger_files(str(root)))[position.ledger_id])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


async def publish(owner: Owner, *entries: bytes, messages: int = 1) -> None:
    """Append entries one by one, so that ledgers roll where they are full."""
    for entry in entries:
        await publish_entry(owner, entry, messages)
        await owner.settle()


async def open_topic(there: There, epoch: int = 1) -> Owner:
    """Open the topic, of which nothing is trimmed that was not compacted."""
    owner = await there.world.open(epoch, settings=SMALL)
    await owner.ledger.compacted.open_cursor()
    return owner


async def compact(
    owner: Owner, *, retain_null_key: bool = False, keeps_earlier: KeepsEarlier | None = None
) -> Compacted | None:
    compactor = Compactor(owner.ledger, retain_null_key=retain_null_key, keeps_earlier=keeps_earlier)
    done = await compactor.run()
    await owner.settle()
    return done


def keyed(*pairs: tuple[str | None, bytes | None]) -> list[bytes]:
    return [single(Message(key, value)) for key, value in pairs]


async def values(ledger: ManagedLedger) -> list[tuple[str | None, bytes | None]]:
    return [(place.key, place.value) for place in await compacted_places(ledger)]


async def record_of_topic(world: LedgerWorld, topic: TopicName = TOPIC) -> ManagedLedgerRecord:
    path = managed_ledger_path(topic)
    found = await world.connect().get(path)
    assert found is not None
    return decode(path, found.value, ManagedLedgerRecord)


# ------------------------------------------------------------------------------------------------ what is kept


async def test_the_newest_message_of_each_key_is_kept_in_order_and_at_its_position(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("b", b"1"), ("a", b"2"), ("c", b"1"), ("b", b"2"), ("d", b"1")))
    done = await compact(owner)
    assert done is not None
    assert (done.messages_read, done.messages_kept, done.removed, done.entries) == (6, 4, 2, 4)
    expected = [("a", b"2", 2), ("c", b"1", 3), ("b", b"2", 4), ("d", b"1", 5)]
    places = await compacted_places(owner.ledger)
    assert places == [Place(owner.positions[at], -1, key, value) for key, value, at in expected]
    assert owner.ledger.compacted.horizon == owner.positions[5]


async def test_what_is_written_after_a_compaction_follows_what_it_kept(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("a", b"2")))
    await compact(owner)
    await publish(owner, *keyed(("b", b"1"), ("a", b"3")))
    assert await values(owner.ledger) == [("a", b"2"), ("b", b"1"), ("a", b"3")]
    await compact(owner)
    assert await values(owner.ledger) == [("b", b"1"), ("a", b"3")]


async def test_null_values_and_empty_ones_delete_their_keys(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("b", b"1"), ("c", b"1"), ("a", None), ("b", b""), ("z", None)))
    await compact(owner)
    assert await values(owner.ledger) == [("c", b"1")]
    await publish(owner, *keyed(("a", b"2"), ("c", None)))
    await compact(owner)
    assert await values(owner.ledger) == [("a", b"2")]


async def test_a_topic_of_which_nothing_is_kept_has_an_empty_compacted_ledger(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("a", None)))
    await compact(owner)
    assert await values(owner.ledger) == []
    assert await owner.ledger.compacted.last_entry() is None
    await owner.ledger.close()
    later = await open_topic(there, 2)
    assert later.ledger.compacted.current is not None
    await publish(later, *keyed(("b", b"1")))
    await compact(later)
    assert await values(later.ledger) == [("b", b"1")]


@pytest.mark.parametrize("retain", [False, True])
async def test_messages_without_a_key_are_kept_only_if_that_is_wanted(there: There, retain: bool) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed((None, b"1"), ("a", b"1"), (None, b"2"), ("a", b"2")))
    await publish(owner, batch([Message(None, b"3"), Message("a", b"3")]), messages=2)
    for _ in range(2):
        await compact(owner, retain_null_key=retain)
        without = [(None, b"1"), (None, b"2"), (None, b"3")] if retain else []
        assert await values(owner.ledger) == [*without, ("a", b"3")]
        await publish(owner, *keyed(("a", b"3")))


async def test_an_empty_topic_and_one_without_news_are_left_alone(there: There) -> None:
    owner = await open_topic(there)
    assert await compact(owner) is None
    await publish(owner, *keyed(("a", b"1")))
    assert await compact(owner) is not None
    before = there.ledger_ids()
    assert await compact(owner) is None
    assert there.ledger_ids() == before


@pytest.mark.parametrize("kind", [api.NONE, api.LZ4, api.ZLIB, api.ZSTD, api.SNAPPY])
async def test_of_a_batch_the_others_are_marked_and_those_kept_stay_where_they_are(there: There, kind: int) -> None:
    owner = await open_topic(there)
    first = batch([Message("a", b"1"), Message("b", b"1" * 1000), Message("a", b"2"), Message(None, b"x")], kind)
    await publish(owner, first, batch([Message("c", b"1"), Message("c", b"2")], kind), messages=4)
    await publish(owner, batch([Message("c", b"3"), Message("a", None)], kind), messages=2)
    done = await compact(owner)
    assert done is not None
    assert (done.messages_read, done.messages_kept, done.entries) == (8, 2, 2)
    entries = await compacted_entries(owner.ledger)
    assert [entry.num_messages for entry in entries] == [4, 2], "permits count as they did"
    assert await compacted_places(owner.ledger) == [
        Place(owner.positions[0], 1, "b", b"1" * 1000),
        Place(owner.positions[2], 0, "c", b"3"),
    ]
    assert [entry.kept for entry in entries if isinstance(entry, KeptEntry)] == [(0b10,), (0b1,)]
    last = await owner.ledger.compacted.last_entry()
    assert last is not None
    assert (last.position, last.last_kept) == (owner.positions[2], 0)
    await publish(owner, *keyed(("c", b"4")))
    await compact(owner)
    assert await values(owner.ledger) == [("b", b"1" * 1000), ("c", b"4")]


async def test_a_batch_of_which_all_is_kept_is_the_same_bytes(there: There) -> None:
    owner = await open_topic(there)
    entry = batch([Message("a", b"1"), Message("b", b"1")], api.ZSTD)
    await publish(owner, entry, messages=2)
    await compact(owner)
    (kept,) = await compacted_entries(owner.ledger)
    assert isinstance(kept, KeptEntry)
    assert (kept.data, kept.kept, kept.last_kept) == (entry, (), None)


async def test_which_messages_of_a_large_batch_are_kept_is_said_again_by_the_next_compaction(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, batch([Message(f"k{n % 140}", b"%d" % n) for n in range(200)]), messages=200)
    for _ in range(2):
        await compact(owner)
        entry = (await compacted_entries(owner.ledger))[0]
        assert isinstance(entry, KeptEntry)
        words = entry.kept
        assert sum(word << at * 64 for at, word in enumerate(words)) == (1 << 200) - (1 << 60)
        assert (len(words), entry.last_kept) == (4, 199)
        await publish(owner, *keyed(("other", b"1")))


async def test_batches_that_cannot_be_read_are_kept_whole(there: There) -> None:
    """Encrypted, damaged, of a size that nobody opens, or shorter than they say."""
    owner = await open_topic(there)
    message = [Message("a", b"1"), Message("b", b"1")]
    encrypted = batch(message, encryption_keys=[api.EncryptionKeys(key="k", value=b"v")])
    damaged = batch(message, api.ZSTD)[:-7]
    short = batch(message)[:-1]
    huge = batch(message, api.LZ4, uncompressed_size=MOST_UNCOMPRESSED + 1)
    await publish(owner, encrypted, damaged, short, huge, *keyed(("a", b"2"), ("b", None)), messages=2)
    done = await compact(owner)
    assert done is not None
    assert [entry.data for entry in await compacted_entries(owner.ledger)][:4] == [encrypted, damaged, short, huge]
    assert done.entries == 5
    await publish(owner, *keyed(("a", b"3")))
    await compact(owner)
    assert len(await compacted_entries(owner.ledger)) == 5


@pytest.mark.parametrize("kind", [api.LZ4, api.ZLIB, api.ZSTD, api.SNAPPY])
@pytest.mark.parametrize("wrong", [-1, 1, 1000])
async def test_a_batch_that_lies_about_its_size_is_kept_whole(there: There, kind: int, wrong: int) -> None:
    """What lies behind its end in memory must not become part of it."""
    owner = await open_topic(there)
    messages = [Message("a", b"1" * 100), Message("b", b"1")]
    size = split_entry(batch(messages))[0].uncompressed_size
    await publish(owner, batch(messages, kind, uncompressed_size=size + wrong), *keyed(("a", b"2")), messages=2)
    done = await compact(owner)
    assert done is not None
    assert (done.messages_read, done.removed) == (3, 0)


async def test_a_message_in_chunks_is_kept_with_all_of_them(there: There) -> None:
    owner = await open_topic(there)
    old, new = (chunks(Message("a", number * 30), f"p-{number!r}", 3) for number in (b"1", b"2"))
    unfinished = chunks(Message("b", b"3" * 30), "p-3", 3)
    await publish(owner, old[0], new[0], old[1], *keyed(("b", b"1")), old[2], new[1], unfinished[0], new[2])
    await compact(owner)
    kept = [entry.data for entry in await compacted_entries(owner.ledger)]
    assert kept == [new[0], *keyed(("b", b"1")), new[1], unfinished[0], new[2]]
    await publish(owner, *unfinished[1:])
    await compact(owner)
    kept = [entry.data for entry in await compacted_entries(owner.ledger)]
    assert kept == [new[0], new[1], unfinished[0], new[2], *unfinished[1:]]
    await publish(owner, *keyed(("a", b"4")))
    await compact(owner)
    assert [entry.data for entry in await compacted_entries(owner.ledger)] == [*unfinished, *keyed(("a", b"4"))]


async def test_what_no_client_can_read_is_dropped(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, b"nothing", *keyed(("a", b"1")), b"\0\0\0\x05abc")
    await compact(owner)
    assert await values(owner.ledger) == [("a", b"1")]


# ------------------------------------------------------------------------------------------------ strategies


def keeps_higher(earlier: bytes, later: bytes | None) -> bool:
    """The higher number is valid; a tombstone counts where the number is even."""
    return int(earlier) % 2 == 1 if later is None else int(later) <= int(earlier)


@pytest.mark.parametrize("batched", [False, True])
async def test_with_a_strategy_the_valid_message_is_kept_and_not_the_newest(there: There, batched: bool) -> None:
    owner = await open_topic(there)
    messages = [
        Message(key, value)
        for key, value in [
            ("a", b"1"), ("a", b"3"), ("a", b"2"), ("a", None), ("b", b"2"), ("b", None), ("b", b"1"), ("c", b"4"),
            ("c", None),
        ]
    ]  # fmt: skip
    if batched:
        await publish(owner, batch(messages, api.ZSTD), messages=len(messages))
    else:
        await publish(owner, *(single(message, api.LZ4) for message in messages))
    await compact(owner, keeps_earlier=keeps_higher)
    assert await values(owner.ledger) == [("a", b"3"), ("b", b"1")]
    await publish(owner, *keyed(("a", b"2"), ("b", b"5"), ("b", b"4")))
    await compact(owner, keeps_earlier=keeps_higher)
    assert await values(owner.ledger) == [("a", b"3"), ("b", b"5")]


# ------------------------------------------------------------------------------------------------ readers and cursors


async def test_reading_begins_anywhere(there: There) -> None:
    """A position between two that were kept begins with the later one, in ledgers of any size."""
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 11}", b"%d" % n) for n in range(40))))
    await compact(owner)
    everything = await compacted_places(owner.ledger)
    assert len(everything) == 11
    for start in [EARLIEST, *owner.positions]:
        found = await compacted_entries(owner.ledger, start)
        assert [entry.position for entry in found] == [p.position for p in everything if p.position >= start]


async def test_other_cursors_get_everything(there: There) -> None:
    owner = await open_topic(there)
    cursor = await owner.ledger.open_cursor("all", "earliest")
    await publish(owner, *keyed(*(("a", b"%d" % n) for n in range(20))))
    await compact(owner)
    read = [p for ledger in owner.ledger.stats.ledgers for p in owner.positions if p.ledger_id == ledger.ledger_id]
    assert (cursor.first_unacked, cursor.backlog.messages, read) == (owner.positions[0], 20, owner.positions)
    assert await values(owner.ledger) == [("a", b"19")]


async def test_entries_are_trimmed_once_they_are_compacted_and_not_before(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 3}", b"%d" % n) for n in range(12))))
    assert owner.ledger.stats.entries == 12, "nobody else needs them"
    await compact(owner)
    assert owner.ledger.stats.entries <= 4
    assert table_of(await compacted_places(owner.ledger)) == {"k0": b"9", "k1": b"10", "k2": b"11"}
    assert there.ledger_ids() == {f.ledger_id for f in owner.ledger.stats.ledgers} | {current_id(owner)}


def current_id(owner: Owner) -> int:
    assert owner.ledger.compacted.current is not None
    return owner.ledger.compacted.current.segment.ledger_id


async def test_the_cursor_carries_the_ledger_and_the_horizon_to_the_next_owner(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 3}", b"%d" % n) for n in range(12))))
    await compact(owner)
    before = await compacted_places(owner.ledger)
    ledger_id = current_id(owner)
    await owner.ledger.close()
    later = await open_topic(there, 2)
    cursor = later.ledger.cursors[COMPACTION_CURSOR]
    assert cursor.properties == {LEDGER_PROPERTY: str(ledger_id)}
    assert cursor.mark_delete == later.ledger.compacted.horizon == owner.positions[-1]
    assert await compacted_places(later.ledger) == before
    await publish(later, *keyed(("k0", b"x")))
    await compact(later)
    assert table_of(await compacted_places(later.ledger)) == {"k0": b"x", "k1": b"10", "k2": b"11"}
    assert ledger_id not in there.ledger_ids()


async def test_a_reader_in_the_midst_of_the_former_ledger_goes_on_in_the_next(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n}", b"1") for n in range(9))))
    await compact(owner)
    entries, position = await owner.ledger.compacted.read(EARLIEST, 4, 1 << 20)
    await publish(owner, *keyed(("k1", b"2"), ("k5", b"2"), ("k7", None)))
    await compact(owner)
    rest = await compacted_entries(owner.ledger, position)
    assert [e.position for e in entries + rest] == [owner.positions[n] for n in (0, 1, 2, 3, 4, 6, 8, 9, 10)]


async def test_deleting_a_topic_deletes_its_compacted_ledger(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 3}", b"%d" % n) for n in range(12))))
    await compact(owner)
    await owner.ledger.delete()
    assert there.ledger_ids() == set()


async def test_a_topic_may_forget_that_it_was_compacted(there: There) -> None:
    owner = await open_topic(there)
    await owner.ledger.open_cursor("all", "earliest")
    await publish(owner, *keyed(("a", b"1"), ("a", b"2")))
    await compact(owner)
    ledger_id = current_id(owner)
    await owner.ledger.compacted.forget()
    assert await values(owner.ledger) == [("a", b"1"), ("a", b"2")]
    assert ledger_id not in there.ledger_ids()
    assert (await record_of_topic(there.world)).compacted_ledgers == ()


# ------------------------------------------------------------------------------------------------ damage


async def test_damage_ends_a_compaction_and_loses_nothing(there: There) -> None:
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("b", b"1")))
    await compact(owner)
    await publish(owner, *keyed(("a", b"2"), ("a", b"3")))
    before = there.ledger_ids()
    there.damage(owner.positions[3])
    owner.ledger._tail.clear()
    with pytest.raises(LedgerCorruptedError):
        await compact(owner)
    assert there.ledger_ids() == before
    assert len((await owner.ledger.compacted.read(EARLIEST, 9, 1 << 20))[0]) == 2


# ------------------------------------------------------------------------------------------------ ends and crashes


async def test_a_topic_that_closes_ends_its_compaction_and_keeps_nothing_of_it(there: There) -> None:
    owner = await open_topic(there)
    await owner.ledger.open_cursor("all", "earliest")
    await publish(owner, *keyed(*((f"k{n}", b"1") for n in range(600))))
    before = there.ledger_ids()
    ended: list[asyncio.Task[None]] = []
    begun = asyncio.Event()

    async def work() -> None:
        original = owner.ledger.compacted.begin

        compactor = Compactor(owner.ledger)
        begin = await original()  # the ledger exists when the topic closes
        begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException:
            await owner.ledger.compacted.give_up(begin)
            raise
        await compactor.run()

    owner.ledger.compacted.start(work(), ended.append)
    await begun.wait()
    assert len(there.ledger_ids()) == len(before) + 1
    await owner.ledger.close()
    assert [task.cancelled() for task in ended] == [True]
    assert there.ledger_ids() == before
    record = await record_of_topic(there.world)
    assert (record.compacted_ledgers, record.open) == ((), False)
    with pytest.raises(LedgerClosedError):
        owner.ledger.compacted.start(work(), ended.append)


async def test_a_later_owner_deletes_what_a_compaction_of_the_former_one_writes(there: There) -> None:
    """The former owner goes on for a while; it cannot put its ledger in force."""
    owner = await open_topic(there)
    await publish(owner, *keyed(("a", b"1"), ("a", b"2")))
    begun = await owner.ledger.compacted.begin()
    later = await open_topic(there, 2)
    await later.settle()
    assert begun.segment.ledger_id not in there.ledger_ids()
    await begun.finish()
    with pytest.raises(LedgerFencedError):
        await owner.ledger.compacted.put_in_force(begun, owner.positions[-1])
    assert later.ledger.compacted.current is None
    assert await values(later.ledger) == [("a", b"1"), ("a", b"2")]


@pytest.mark.parametrize("takes_effect", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_crash_at_any_step_loses_nothing_and_leaves_no_ledger_behind(
    there: There, takes_effect: bool, is_first: bool
) -> None:
    """The process dies at its first step, its second, and so on, until it lives to the end of a compaction; after each
    death another owner finds the same messages, no ledger that the topic does not list, and compacts."""
    for dies_at in range(100):
        topic = TopicName.parse(f"persistent://tenant/space/t{dies_at}")
        published: list[Place] = []
        owner = await there.world.open(1, settings=SMALL, topic=topic)
        await owner.ledger.open_cursor("all" if is_first else COMPACTION_CURSOR, "earliest")
        await publish_numbers(owner, published)
        if not is_first:
            await compact(owner)
            await publish_numbers(owner, published)
        await owner.ledger.close()
        life = Life(dies_at, takes_effect)
        mortal, storage = await open_mortal(there.world, topic, life)
        with suppress(LedgerError):
            await Compactor(mortal.ledger).run()
        await mortal.settle()
        died, life.is_over = life.is_over, True

        later = await there.world.open(3, settings=SMALL, topic=topic)
        await later.settle()
        places = await compacted_places(later.ledger)
        assert table_of(places) == table_of(published), life.steps
        record = await record_of_topic(there.world, topic)
        assert there.ledger_ids() == {one.ledger_id for one in (*record.ledgers, *record.compacted_ledgers)}, life.steps
        assert len(record.compacted_ledgers) <= 1, life.steps
        await publish_numbers(later, published)
        await compact(later)
        assert await compacted_places(later.ledger) == newest_of(published), life.steps
        await later.ledger.delete()
        assert there.ledger_ids() == set()
        await storage.close()
        if not died:
            break
    assert 6 < dies_at < 99, "so many steps a compaction has at least"


async def publish_numbers(owner: Owner, published: list[Place]) -> None:
    """Publish the next numbers, the first three under keys of their own, the others under four, one of seven as a
    tombstone."""
    for number in range(len(published), len(published) + 6):
        key = f"once {number}" if number < 3 else f"k{number % 4}"
        value = None if number % 7 == 6 else b"%d" % number
        await publish(owner, *keyed((key, value)))
        published.append(Place(owner.positions[-1], -1, key, value))


async def open_mortal(world: LedgerWorld, topic: TopicName, life: Life) -> tuple[Owner, LedgerStorage]:
    """Open the topic in a process whose life begins to count when the topic is open."""
    owner = Owner()
    storage = world.new_storage()
    dies_at, life.dies_at = life.dies_at, -1
    owner.ledger = await ManagedLedger.open(
        MortalStore(world.connect(), life),  # type: ignore[arg-type]
        MortalStorage(storage, life),  # type: ignore[arg-type]
        topic,
        epoch=2,
        clock=FixedClock(),
        settings=SMALL,
        on_durable=owner.on_durable,
        on_failed=owner.on_failed,
        on_fenced=owner.on_fenced,
    )
    await owner.settle()
    life.steps.clear()
    life.dies_at = dies_at
    return owner, storage


async def test_positions_of_a_compacted_ledger_are_those_of_the_topic(there: There) -> None:
    """Not those that its entries have in the ledger they lie in."""
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 5}", b"%d" % n) for n in range(15))))
    await compact(owner)
    entries = await compacted_entries(owner.ledger)
    assert {entry.position.ledger_id for entry in entries} <= {position.ledger_id for position in owner.positions}
    assert all(isinstance(entry.position, Position) for entry in entries)
    assert [entry.publish_time_ms for entry in entries] == [1_700_000_000_000] * 5
