"""Compaction of a topic on each ledger storage: which messages are kept, by which strategy."""

import pytest

from pulsar_barycenter.broker.compaction.compression import MOST_UNCOMPRESSED
from pulsar_barycenter.ledger.managed.compacted_topic import KeptEntry
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import split_entry
from support.compacted_topic import There, compact, keyed, open_topic, publish, values
from support.compaction_cases import Message, Place, batch, chunks, compacted_entries, compacted_places, single

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
    """Encrypted, damaged, too large to open, or shorter than their metadata says."""
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
    """Bytes after its end in memory must not become part of it."""
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
    """Keep the earlier message if its number is not lower, or odd and followed by a tombstone."""
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
