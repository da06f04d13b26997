"""The consumer of a key: the hash, the ring, ranges."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.errors import ConsumerAssignError
from pulsar_barycenter.broker.subscriptions import sticky_keys
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    POINTS_PER_CONSUMER,
    RANGE_SIZE,
    AutoSplitSelector,
    StickyRangeSelector,
    murmur3,
    point_hashes,
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


@given(st.text(max_size=40), st.integers(0, 12_345))
def test_hashes_of_points_are_those_of_their_texts(text: str, first: int) -> None:
    numbers = range(first, first + POINTS_PER_CONSUMER)
    assert point_hashes(text, first) == [murmur3(f"{text}{number}".encode()) for number in numbers]


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
    selector.remove([third])
    assert [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)] == before


def test_consumers_of_one_name_share_the_slots() -> None:
    """Consumers of several topics at once have no name."""
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    members = [Member(""), Member("")]
    for member in members:
        selector.add(member)
    owners = [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)]
    assert {id(owner) for owner in owners} == {id(member) for member in members}


def owner_by_the_book(names: Sequence[str], slot: int) -> str:
    """Return whose the first point at or after `slot` is; the smaller name has one that two claim."""
    points: dict[int, str] = {}
    for name in sorted(names):
        for i in range(POINTS_PER_CONSUMER):
            points.setdefault(murmur3(f"{name}\0{i}".encode()) % RANGE_SIZE, name)
    ring = sorted(points)
    return points[ring[bisect_left(ring, slot) % len(ring)]]


@given(st.lists(st.integers(0, 11), min_size=1, max_size=40))
def test_comings_and_goings_leave_the_ring_of_those_that_are_there(script: list[int]) -> None:
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            selector.remove([here.pop(number)])
        else:
            here[number] = Member(f"c{number}")
            selector.add(here[number])
    names = [member.name for member in here.values()]
    for slot in range(0, RANGE_SIZE, 4_099):
        owner = selector.select(slot)
        assert (owner and owner.name) == (owner_by_the_book(names, slot) if names else None)


@given(st.integers(1, 12), st.data())
def test_those_that_leave_together_leave_the_ring_of_the_rest(count: int, data: st.DataObject) -> None:
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    members = [Member(f"c{number}") for number in range(count)]
    for member in members:
        selector.add(member)
    leaving = data.draw(st.lists(st.sampled_from(members), unique=True))
    selector.remove(leaving)
    selector.remove(leaving)
    names = [member.name for member in members if member not in leaving]
    for slot in range(0, RANGE_SIZE, 4_099):
        owner = selector.select(slot)
        assert (owner and owner.name) == (owner_by_the_book(names, slot) if names else None)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_namesakes_that_come_and_go_leave_nothing_behind(script: list[int]) -> None:
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            selector.remove([here.pop(number)])
        else:
            here[number] = Member("", priority_level=number)
            selector.add(here[number])
        owners = {id(selector.select(slot)) for slot in range(0, RANGE_SIZE, 13)}
        assert owners == ({id(member) for member in here.values()} or {id(None)})


def test_one_of_many_consumers_costs_its_own_points_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(text: str, first: int) -> list[int]:
        hashed.append(text)
        return point_hashes(text, first)

    monkeypatch.setattr(sticky_keys, "point_hashes", counted)
    selector: AutoSplitSelector[Member] = AutoSplitSelector()
    members = [Member(f"c{number}") for number in range(50)]
    for member in members:
        selector.add(member)
    for member in members:
        selector.remove([member])
    assert len(hashed) == len(members)


def test_sticky_ranges_are_inclusive_and_leave_gaps() -> None:
    selector: StickyRangeSelector[Member] = StickyRangeSelector()
    member = Member("a", hash_ranges=((0, 9), (20, 29)))
    selector.add(member)
    assert [selector.select(slot) for slot in (0, 9, 20, 29)] == [member] * 4
    assert [selector.select(slot) for slot in (10, 19, 30)] == [None] * 3
    selector.remove([member])
    assert selector.select(5) is None


@pytest.mark.parametrize("ranges", [(), ((5, 4),), ((-1, 3),), ((0, 65536),), ((40, 50), (50, 60)), ((9, 12),)])
def test_ranges_that_make_no_sense_or_are_taken_are_refused(ranges: Sequence[tuple[int, int]]) -> None:
    """And change nothing."""
    selector: StickyRangeSelector[Member] = StickyRangeSelector()
    selector.add(Member("holder", hash_ranges=((0, 9),)))
    with pytest.raises(ConsumerAssignError):
        selector.add(Member("newcomer", hash_ranges=ranges))
    assert selector.select(45) is None
