"""Who a key or a topic belongs to: the hash, the ring, ranges, and the choice of failover."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pulsar_barycenter.broker.errors import ConsumerAssignError
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    RANGE_SIZE,
    AutoSplitSelector,
    StickyRangeSelector,
    active_consumer,
    murmur3,
    slot_of,
    sticky_key,
)
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata


@dataclass(frozen=True)
class Member:
    name: str
    priority_level: int = 0
    hash_ranges: Sequence[tuple[int, int]] = ()


@pytest.mark.parametrize(
    ("key", "hashed", "slot"),
    [
        (b"k1", 2110152746, 24618),
        (b"user-12345", 685934240, 34464),
        (b"NONE_KEY", 504741539, 48803),
        (b"", 0, 0),
    ],
)
def test_the_hash_is_that_of_pulsar(key: bytes, hashed: int, slot: int) -> None:
    """Vectors of the reference, for every length of the tail."""
    assert murmur3(key) == hashed
    assert slot_of(key) == slot


def test_the_ordering_key_wins_over_the_partition_key() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=4, publish_time=1)
    assert sticky_key(metadata) == b"p-4"
    metadata.partition_key = "aGVsbG8="
    assert sticky_key(metadata) == b"aGVsbG8="
    metadata.partition_key_b64_encoded = True
    assert sticky_key(metadata) == b"hello"
    metadata.ordering_key = b"first"
    assert sticky_key(metadata) == b"first"


def test_a_key_that_is_not_base64_although_it_says_so_is_taken_as_it_is() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=4, publish_time=1, partition_key="?")
    metadata.partition_key_b64_encoded = True
    assert sticky_key(metadata) == b"?"


def test_partitions_spread_over_the_consumers_of_the_best_priority() -> None:
    members = [Member("c"), Member("a"), Member("b"), Member("spare", priority_level=1)]
    chosen = [active_consumer(members, "t", index) for index in range(4)]
    assert [member.name for member in chosen if member] == ["a", "b", "c", "a"]
    assert active_consumer([], "t", 0) is None


def test_the_choice_for_a_topic_does_not_depend_on_the_order_of_joining() -> None:
    members = [Member(f"c{n}") for n in range(5)]
    for topic in (f"persistent://a/b/{n}" for n in range(20)):
        assert active_consumer(members, topic, -1) is active_consumer(members[::-1], topic, -1)


def test_topics_without_partitions_spread_too() -> None:
    members = [Member(f"c{n}") for n in range(3)]
    chosen = {active_consumer(members, f"persistent://a/b/{n}", -1) for n in range(100)}
    assert chosen == set(members)


def test_a_newcomer_takes_slots_and_moves_no_others() -> None:
    """What does not go to the newcomer stays where it was; when it leaves everything is as before."""
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    assert selector.select(1) is None
    first, second, third = (Member(f"c{n}") for n in range(3))
    selector.add(first)
    selector.add(second)
    before = [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)]
    selector.add(third)
    after = [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)]
    assert all(new in (old, third) for old, new in zip(before, after, strict=True))
    assert 0 < after.count(third) < len(after)
    selector.remove(third)
    assert [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)] == before


def test_consumers_of_one_name_share_the_slots() -> None:
    """Consumers of several topics at once have no name."""
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    members = [Member(""), Member("")]
    for member in members:
        selector.add(member)
    owners = [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)]
    assert {id(owner) for owner in owners} == {id(member) for member in members}


def test_sticky_ranges_are_inclusive_and_leave_gaps() -> None:
    selector: StickyRangeSelector[Member] = StickyRangeSelector()
    member = Member("a", hash_ranges=((0, 9), (20, 29)))
    selector.add(member)
    assert [selector.select(slot) for slot in (0, 9, 20, 29)] == [member] * 4
    assert [selector.select(slot) for slot in (10, 19, 30)] == [None] * 3
    selector.remove(member)
    assert selector.select(5) is None


@pytest.mark.parametrize("ranges", [(), ((5, 4),), ((-1, 3),), ((0, 65536),), ((40, 50), (50, 60)), ((9, 12),)])
def test_ranges_that_make_no_sense_or_are_taken_are_refused(ranges: Sequence[tuple[int, int]]) -> None:
    """And change nothing."""
    selector: StickyRangeSelector[Member] = StickyRangeSelector()
    selector.add(Member("holder", hash_ranges=((0, 9),)))
    with pytest.raises(ConsumerAssignError):
        selector.add(Member("newcomer", hash_ranges=ranges))
    assert selector.select(45) is None
