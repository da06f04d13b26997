"""A compacted topic on either ledger storage: what its readers and cursors see, and which ledgers are left."""

from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR, LEDGER_PROPERTY
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.compacted_topic import There, compact, keyed, open_topic, publish, record_of_topic, values
from support.compaction_cases import compacted_entries, compacted_places, table_of
from support.ledger_world import Owner


async def test_reading_begins_anywhere(there: There) -> None:
    """A start position between two kept messages begins with the later one, in ledgers of any size."""
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


async def test_positions_of_a_compacted_ledger_are_those_of_the_topic(there: There) -> None:
    """Not the positions of the entries in the compacted ledger."""
    owner = await open_topic(there)
    await publish(owner, *keyed(*((f"k{n % 5}", b"%d" % n) for n in range(15))))
    await compact(owner)
    entries = await compacted_entries(owner.ledger)
    assert {entry.position.ledger_id for entry in entries} <= {position.ledger_id for position in owner.positions}
    assert all(isinstance(entry.position, Position) for entry in entries)
    assert [entry.publish_time_ms for entry in entries] == [1_700_000_000_000] * 5
