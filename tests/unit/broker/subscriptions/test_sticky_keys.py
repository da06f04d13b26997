"""The consumer of a key: the hash, the ring, halved ranges, stated ranges."""

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
    RING_SIZE,
    AutoSplit,
    HalvedRanges,
    HashRing,
    StickyRangeSelector,
    murmur3,
    point_hashes,
    ring_slot_of,
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
    ("key", "hashed", "slot", "ring_slot"),
    [
        (b"k1", 2110152746, 24618, 56817),
        (b"user-12345", 685934240, 34464, 44931),
        (b"NONE_KEY", 504741539, 48803, 56505),
        (b"", 0, 1, 1),
    ],
)
def test_the_hash_is_that_of_pulsar(key: bytes, hashed: int, slot: int, ring_slot: int) -> None:
    """Vectors of the reference, for every length of the tail. No key has slot 0."""
    assert murmur3(key) == hashed
    assert (slot_of(key), ring_slot_of(key)) == (slot, ring_slot)


@given(st.text(max_size=40), st.integers(0, 12_345))
def test_hashes_of_points_are_those_of_their_texts(text: str, first: int) -> None:
    numbers = range(first, first + POINTS_PER_CONSUMER)
    assert point_hashes(text, numbers) == [murmur3(f"{text}{number}".encode()) for number in numbers]


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
    selector: HashRing[Member] = HashRing()
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


@pytest.mark.parametrize("auto_split", [HashRing, HalvedRanges])
def test_consumers_of_one_name_share_the_slots(auto_split: AutoSplit) -> None:
    """Consumers of several topics at once have no name."""
    selector = auto_split()
    members = [Member(""), Member("")]
    for member in members:
        selector.add(member)
    owners = [selector.select(slot) for slot in range(0, RANGE_SIZE, 97)]
    assert {id(owner) for owner in owners} == {id(member) for member in members}


def owner_by_the_book(names: Sequence[str], slot: int, points: int = POINTS_PER_CONSUMER) -> str:
    """Return the name with the first point at or after `slot`; one that several have belongs to the first of `names`,
    which are in the order of joining.
    """
    owners: dict[int, str] = {}
    for name in names:
        for number in range(points):
            owners.setdefault(murmur3(f"{name}\x000\0{number}".encode()) % RING_SIZE + 1, name)
    ring = sorted(owners)
    return owners[ring[bisect_left(ring, slot) % len(ring)]]


@given(st.lists(st.integers(0, 11), min_size=1, max_size=40))
def test_comings_and_goings_leave_the_ring_of_those_that_are_there(script: list[int]) -> None:
    selector: HashRing[Member] = HashRing()
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            selector.remove([here.pop(number)])
        else:
            here[number] = Member(f"c{number}")
            selector.add(here[number])
    names = [member.name for member in here.values()]
    for slot in range(1, RANGE_SIZE, 4_099):
        owner = selector.select(slot)
        assert (owner and owner.name) == (owner_by_the_book(names, slot) if names else None)


@given(st.integers(1, 12), st.data())
def test_those_that_leave_together_leave_the_ring_of_the_rest(count: int, data: st.DataObject) -> None:
    selector: HashRing[Member] = HashRing()
    members = [Member(f"c{number}") for number in range(count)]
    for member in members:
        selector.add(member)
    leaving = data.draw(st.lists(st.sampled_from(members), unique=True))
    selector.remove(leaving)
    selector.remove(leaving)
    names = [member.name for member in members if member not in leaving]
    for slot in range(1, RANGE_SIZE, 4_099):
        owner = selector.select(slot)
        assert (owner and owner.name) == (owner_by_the_book(names, slot) if names else None)


def test_a_point_of_two_consumers_belongs_to_the_first_and_then_to_the_other() -> None:
    """With one point each, and so many names that some have the same."""
    by_point: dict[int, list[str]] = {}
    for number in range(2_000):
        by_point.setdefault(murmur3(f"c{number}\x000\x000".encode()) % RING_SIZE + 1, []).append(f"c{number}")
    point, names = next(found for found in by_point.items() if len(found[1]) > 1)
    selector: HashRing[Member] = HashRing(points=1)
    first, second = members = [Member(name) for name in reversed(names[:2])]
    for member in members:
        selector.add(member)
    assert selector.select(point) is first
    selector.remove([first])
    assert selector.select(point) is second


@pytest.mark.parametrize("auto_split", [HashRing, HalvedRanges])
@given(script=st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_namesakes_that_come_and_go_leave_nothing_behind(auto_split: AutoSplit, script: list[int]) -> None:
    selector = auto_split()
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            selector.remove([here.pop(number)])
        else:
            here[number] = Member("", priority_level=number)
            selector.add(here[number])
        owners = {id(selector.select(slot)) for slot in range(1, RANGE_SIZE, 13)}
        assert owners == ({id(member) for member in here.values()} or {id(None)})


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_halved_ranges_are_at_most_twice_as_large_as_others(count: int) -> None:
    selector: HalvedRanges[Member] = HalvedRanges()
    members = [Member(f"c{number}") for number in range(count)]
    for member in members:
        selector.add(member)
    owners = [selector.select(slot) for slot in range(1, RANGE_SIZE)]
    shares = [owners.count(member) for member in members]
    assert max(shares) - 1 <= 2 * min(shares) + 1
    if count in (1, 2, 4, 8):
        assert max(shares) - min(shares) <= 1


def halved_by_the_book(script: Sequence[int]) -> dict[int, int]:
    """Return the members by the ends of their ranges, after each member of `script` joined, or left if it was there."""
    members: dict[int, int] = {}
    for number in script:
        ends = sorted(members)
        if number not in members.values():
            sizes = [(end - lower, -end) for lower, end in zip([0, *ends], ends, strict=False)]
            size, end = max(sizes, default=(0, -RANGE_SIZE))
            members[-end - (size >> 1)] = number
            continue
        end = next(end for end, member in members.items() if member == number)
        del members[end]
        if end == RANGE_SIZE and members:
            members[RANGE_SIZE] = members.pop(ends[-2])
    return members


@given(st.lists(st.integers(0, 11), max_size=60))
def test_comings_and_goings_leave_the_halved_ranges_of_pulsar(script: list[int]) -> None:
    selector: HalvedRanges[Member] = HalvedRanges()
    here: dict[int, Member] = {}
    for number in script:
        if number in here:
            selector.remove([here[number]])
            selector.remove([here.pop(number)])
        else:
            here[number] = Member(f"{number}")
            selector.add(here[number])
    expected = halved_by_the_book(script)
    ends = sorted(expected)
    for slot in {1, RANGE_SIZE - 1, *ends[:-1], *(end + 1 for end in ends[:-1])}:
        owner = selector.select(slot)
        assert (owner and owner.name) == (str(expected[ends[bisect_left(ends, slot)]]) if ends else None)


def test_more_consumers_than_slots_are_refused_and_change_nothing() -> None:
    selector: HalvedRanges[Member] = HalvedRanges()
    members = [Member(f"c{number}") for number in range(RANGE_SIZE)]
    for member in members:
        selector.add(member)
    with pytest.raises(ConsumerAssignError, match="No more range"):
        selector.add(Member("one more"))
    owners = {id(selector.select(slot)) for slot in range(1, RANGE_SIZE)}
    assert owners < {id(member) for member in members}
    selector.remove(members[:-1])
    assert selector.select(1) is selector.select(RANGE_SIZE - 1) is members[-1]


def test_one_of_many_consumers_costs_its_own_points_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(text: str, numbers: range) -> list[int]:
        hashed.append(text)
        return point_hashes(text, numbers)

    monkeypatch.setattr(sticky_keys, "point_hashes", counted)
    selector: HashRing[Member] = HashRing()
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
