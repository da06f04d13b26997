"""Maps keys to consumers (Key_Shared), by hash.

A key is hashed to one of 65,536 slots. With AUTO_SPLIT a consistent-hash ring divides the slots, so that a consumer
that joins or leaves moves only its own share. With STICKY each consumer states the ranges of slots that it wants.

Source: Pulsar's `Murmur3_32Hash`, `ConsistentHashingStickyKeyConsumerSelector` and
`HashRangeExclusiveStickyKeyConsumerSelector`.
"""

import base64
import binascii
import struct
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeVar

from crc32c import crc32c

from pulsar_barycenter.broker.errors import ConsumerAssignError
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

RANGE_SIZE: Final = 65536
"""The number of slots of a Key_Shared subscription: 0 ≤ slot < 65536."""

LONGEST_KEY: Final = 512
"""The maximum length in bytes of a key that is hashed directly."""

POINTS_PER_CONSUMER: Final = 100

_MASK: Final = 0xFFFFFFFF
_RANK: Final = itemgetter(0, 1)


def murmur3(data: bytes) -> int:
    """Return Murmur3 (x86, 32 bit, seed 0) of `data` without its top bit: 0 ≤ hash < 2^31."""
    return _murmur3_behind(0, 0, data)


def point_hashes(text: str, first: int) -> list[int]:
    """Return the Murmur3 hashes of `text` followed by each of the POINTS_PER_CONSUMER numbers from `first` on. The
    common beginning is hashed once, because a name may be long.
    """
    data = text.encode()
    whole = len(data) & ~3
    state = _with_blocks(0, data[:whole])
    rest = data[whole:]
    return [_murmur3_behind(state, whole, rest + b"%d" % i) for i in range(first, first + POINTS_PER_CONSUMER)]


def _murmur3_behind(state: int, before: int, data: bytes) -> int:
    """Return the hash of `before` bytes (whole blocks, whose hash state is `state`) followed by `data`."""
    whole = len(data) & ~3
    h = _with_blocks(state, data[:whole])
    tail = data[whole:]
    if tail:
        h ^= _mixed(int.from_bytes(tail, "little"))
    h ^= before + len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return (h ^ (h >> 16)) & 0x7FFFFFFF


def _with_blocks(h: int, blocks: bytes) -> int:
    for (k,) in struct.iter_unpack("<I", blocks):
        h ^= _mixed(k)
        h = ((h << 13) | (h >> 19)) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    return h


def _mixed(k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    return (k * 0x1B873593) & _MASK


def slot_of(key: bytes) -> int:
    """Return the Key_Shared slot of a key, 0 ≤ slot < 65536.

    A key of more than LONGEST_KEY bytes has the slot of its CRC32C. Hashing it as Pulsar does would block the event
    loop, and caching it would fill the memory.
    """
    return _slot_of(key if len(key) <= LONGEST_KEY else crc32c(key).to_bytes(4, "big"))


@lru_cache(maxsize=65536)
def _slot_of(key: bytes) -> int:
    return murmur3(key) % RANGE_SIZE


def sticky_key(metadata: MessageMetadata) -> bytes:
    """Return the key of an entry: the ordering key, else the partition key, else one made of producer and sequence id.

    With the last kind of key, messages without a key are distributed over all slots.
    """
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key: str | bytes = metadata.partition_key  # bytes if it is not UTF-8
        plain = key if isinstance(key, bytes) else key.encode()
        if metadata.partition_key_b64_encoded:
            with suppress(binascii.Error, ValueError):
                return base64.b64decode(plain, validate=True)
        return plain
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode()


class Candidate(Protocol):
    """The fields of a consumer that decide about its slots. `hash_ranges` are the slots that it wants, both ends
    inclusive.
    """

    @property
    def name(self) -> str: ...

    @property
    def priority_level(self) -> int: ...

    @property
    def hash_ranges(self) -> Sequence[tuple[int, int]]: ...


C = TypeVar("C", bound=Candidate)


class NamesakePlaces(Generic[C]):
    """Numbers the consumers of one name from 0 on. (Several consumers may have the same name, or none.) A consumer
    keeps its number; a new one gets the lowest free number.
    """

    __slots__ = ("_free", "_next", "_taken")

    def __init__(self) -> None:
        self._next: Counter[str] = Counter()
        self._free: dict[str, list[int]] = {}
        self._taken: dict[int, int] = {}
        """The place of each consumer; the keys are the `id()` of the consumers."""

    def take(self, consumer: C) -> int:
        free = self._free.get(consumer.name)
        if free:
            place = heappop(free)
        else:
            place = self._next[consumer.name]
            self._next[consumer.name] += 1
        self._taken[id(consumer)] = place
        return place

    def give_back(self, consumer: C) -> None:
        name = consumer.name
        free = self._free.setdefault(name, [])
        heappush(free, self._taken.pop(id(consumer)))
        if len(free) == self._next[name]:
            del self._free[name], self._next[name]


class HashRing(Generic[C]):
    """A consistent-hash ring over consumers by name. A key belongs to the first point at or after its hash.

    The time to add or remove a consumer does not depend on the number of other consumers.
    """

    __slots__ = ("_claims", "_members", "_places", "_points")

    def __init__(self) -> None:
        self._places: NamesakePlaces[C] = NamesakePlaces()
        self._members: dict[int, tuple[tuple[str, int, C], array[int]]] = {}
        self._points = array("H")
        self._claims: dict[int, list[tuple[str, int, C]]] = {}
        """Who claims a point. The smaller name has one that two claim, so the order of joining changes nothing."""

    def add(self, consumer: C) -> None:
        member = (consumer.name, self._places.take(consumer), consumer)
        hashes = point_hashes(f"{consumer.name}\0", member[1] * POINTS_PER_CONSUMER)
        points = array("H", {hash_ % RANGE_SIZE for hash_ in hashes})
        self._members[id(consumer)] = member, points
        for point in points:
            if self._claim(point, member):
                insort(self._points, point)

    def remove(self, consumers: Iterable[C]) -> None:
        """Remove consumers. Idempotent."""
        leaving = [found for leaver in consumers if (found := self._members.pop(id(leaver), None)) is not None]
        for (_, _, consumer), _ in leaving:
            self._places.give_back(consumer)
        if len(leaving) > len(self._members):
            self._claims.clear()
            for member, points in self._members.values():
                for point in points:
                    self._claim(point, member)
            self._points = array("H", sorted(self._claims))
            return
        freed = [point for member, points in leaving for point in points if self._give_up(point, member)]
        if len(leaving) > 1:
            self._points = array("H", sorted(self._claims))
            return
        for point in freed:
            del self._points[bisect_left(self._points, point)]

    def _claim(self, point: int, member: tuple[str, int, C]) -> bool:
        """Record that a member has the point of the ring with this hash. Return whether no other member has the same
        point.
        """
        claims = self._claims.setdefault(point, [])
        insort(claims, member, key=_RANK)
        return len(claims) == 1

    def _give_up(self, point: int, member: tuple[str, int, C]) -> bool:
        """Remove the record that a member has a point of the ring. Return whether no member has this point any more."""
        claims = self._claims[point]
        del claims[bisect_left(claims, _RANK(member), key=_RANK)]
        if not claims:
            del self._claims[point]
        return not claims

    def owner(self, value: int) -> C | None:
        if not self._points:
            return None
        point = self._points[bisect_left(self._points, value) % len(self._points)]
        return self._claims[point][0][2]


class StickySelector(Protocol[C]):
    """Selects the consumer of each hash slot."""

    def add(self, consumer: C) -> None: ...

    def remove(self, consumers: Collection[C]) -> None: ...

    def select(self, slot: int) -> C | None: ...


class AutoSplitSelector(Generic[C]):
    """Divides the slots by a consistent-hash ring: a consumer that joins or leaves moves only its own share."""

    __slots__ = ("_ring",)

    def __init__(self) -> None:
        self._ring: HashRing[C] = HashRing()

    def add(self, consumer: C) -> None:
        self._ring.add(consumer)

    def remove(self, consumers: Collection[C]) -> None:
        self._ring.remove(consumers)

    def select(self, slot: int) -> C | None:
        return self._ring.owner(slot)


class StickyRangeSelector(Generic[C]):
    """Selects consumers by the ranges of slots that each of them states. Messages of slots without a consumer wait."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, C]] = []

    def add(self, consumer: C) -> None:
        """Add a consumer, and assign to it the ranges of slots that it states.

        Raises:
            ConsumerAssignError: the consumer has no ranges, one is not within 0..65535, or its ranges overlap each
                other or those of a connected consumer.
        """
        if not consumer.hash_ranges:
            raise ConsumerAssignError("Ranges for KeyShared policy must not be empty")
        wanted: list[tuple[int, int, C]] = []
        for lower, upper in consumer.hash_ranges:
            if not 0 <= lower <= upper < RANGE_SIZE:
                raise ConsumerAssignError(f"Range [{lower}, {upper}] is not within [0, {RANGE_SIZE - 1}]")
            wanted.append((lower, upper, consumer))
        ranges = sorted(self._ranges + wanted, key=itemgetter(0, 1))
        for (_, taken_upper, owner), (lower, upper, other) in pairwise(ranges):
            if lower <= taken_upper:
                raise ConsumerAssignError(
                    f"Range [{lower}, {upper}] of {other.name!r} conflicts with [.., {taken_upper}] of {owner.name!r}"
                )
        self._ranges = ranges

    def remove(self, consumers: Collection[C]) -> None:
        leaving = {id(consumer) for consumer in consumers}
        self._ranges = [entry for entry in self._ranges if id(entry[2]) not in leaving]

    def select(self, slot: int) -> C | None:
        index = bisect_right(self._ranges, slot, key=itemgetter(0)) - 1
        if index >= 0 and slot <= self._ranges[index][1]:
            return self._ranges[index][2]
        return None
