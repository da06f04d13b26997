"""Compactions that end early, on each ledger storage: damage, closing, a later owner or a crash loses no message."""

import asyncio
from contextlib import suppress

import pytest

from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerCorruptedError, LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.naming.topic import TopicName
from support.compacted_topic import SMALL, There, compact, keyed, open_topic, publish, record_of_topic, values
from support.compaction_cases import Life, MortalStorage, MortalStore, Place, compacted_places, newest_of, table_of
from support.ledger_world import FixedClock, LedgerWorld, Owner


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
    """The former owner continues for a while; it cannot activate its ledger."""
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


@pytest.mark.drawn(6)
@pytest.mark.parametrize("takes_effect", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_crash_at_any_step_loses_nothing_and_leaves_no_ledger_behind(
    there: There, takes_effect: bool, is_first: bool
) -> None:
    """The process dies at its first step, its second, and so on, until it completes a compaction. After each death
    another owner finds the same messages and no ledger that the topic does not list, and compacts."""
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
    """Publish the next numbers: the first three under their own keys, the others under four keys, one of seven as a
    tombstone."""
    for number in range(len(published), len(published) + 6):
        key = f"once {number}" if number < 3 else f"k{number % 4}"
        value = None if number % 7 == 6 else b"%d" % number
        await publish(owner, *keyed((key, value)))
        published.append(Place(owner.positions[-1], -1, key, value))


async def open_mortal(world: LedgerWorld, topic: TopicName, life: Life) -> tuple[Owner, LedgerStorage]:
    """Open the topic in a process whose steps are counted from when the topic is open."""
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
