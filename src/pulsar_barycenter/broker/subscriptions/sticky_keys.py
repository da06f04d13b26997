"""Maps keys to consumers (Key_Shared), by hash.

A key is hashed to a slot, and a selector gives the consumer of the slot. With AUTO_SPLIT the broker divides the slots
among the consumers, in one of two ways:

- by a consistent-hash ring (`HashRing`): a consumer that joins or leaves moves only its own share. How large a share is
  depends on the names of the consumers.
- by ranges that are halved (`HalvedRanges`): 2, 4, 8, … consumers have equal shares.

With STICKY each consumer states the ranges of slots that it wants (`StickyRangeSelector`).

No key has slot 0. A ring has 65,535 slots and the ranges 65,536, as in Pulsar.

Source: Pulsar's `Murmur3_32Hash`, `StickyKeyConsumerSelectorUtils`, `ConsistentHashingStickyKeyConsumerSelector`,
`HashRangeAutoSplitStickyKeyConsumerSelector` and `HashRangeExclusiveStickyKeyConsumerSelector`.
"""

import base64
import binascii
import struct
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from crc32c import crc32c

from pulsar_barycenter.broker.errors import ConsumerAssignError
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

RANGE_SIZE: Final = 65536
"""The number of slots that are divided by ranges: 0 ≤ slot < 65536. No key has slot 0."""

RING_SIZE: Final = RANGE_SIZE - 1
"""The number of slots of a ring: 1 ≤ slot ≤ 65535."""

LONGEST_KEY: Final = 512
"""The maximum length in bytes of a key that is hashed directly."""

POINTS_PER_CONSUMER: Final = 100
"""The number of points that a consumer has on a ring, unless the configuration says otherwise."""

_MASK: Final = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return Murmur3 (x86, 32 bit, seed 0) of `data` without its top bit: 0 ≤ hash < 2^31."""
    return _murmur3_behind(0, 0, data)


def point_hashes(text: str, numbers: range) -> list[int]:
    """Return a list of Murmur3 hashes, one for each number: the hash of `text` with the number's decimal digits at the
    end.
    """
    data = text.encode()
    whole = len(data) & ~3
    state = _with_blocks(0, data[:whole])
    rest = data[whole:]
    return [_murmur3_behind(state, whole, rest + b"%d" % number) for number in numbers]


def _murmur3_behind(state: int, before: int, data: bytes) -> int:
    """Continue the computation of a Murmur3 hash. `before` is the number of bytes hashed so far, a multiple of 4, and
    `state` the hash state after them. `data` are the remaining bytes. Return the hash of all bytes.
    """
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
    """Return the slot of a key for selectors that divide the slots into ranges: 1 ≤ slot < 65536."""
    return _hash_of_key(key) % RANGE_SIZE or 1


def ring_slot_of(key: bytes) -> int:
    """Return the slot of a key for the selector with a consistent-hash ring: 1 ≤ slot ≤ 65535."""
    return _hash_of_key(key) % RING_SIZE + 1


def _hash_of_key(key: bytes) -> int:
    """Return the hash from which the slot of a key is computed: the Murmur3 hash of the key.

    For a key of more than LONGEST_KEY bytes it is the Murmur3 hash of the key's CRC32C. Hashing such a key itself, as
    Pulsar does, would block the event loop, and caching it would fill the memory.
    """
    return _cached_murmur3(key if len(key) <= LONGEST_KEY else crc32c(key).to_bytes(4, "big"))


_cached_murmur3 = lru_cache(maxsize=65536)(murmur3)


def sticky_key(metadata: MessageMetadata) -> bytes:
    """Return the key by which an entry is assigned to a slot: the ordering key; if there is none, the partition key; if
    there is none either, a key made of producer name and sequence id, so that messages without a key are distributed
    over all slots.
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
    """The attributes of a consumer from which a selector decides its slots. `hash_ranges` are the ranges of slots that
    its client requested (STICKY mode), both ends inclusive.
    """

    @property
    def name(self) -> str: ...

    @property
    def priority_level(self) -> int: ...

    @property
    def hash_ranges(self) -> Sequence[tuple[int, int]]: ...


C = TypeVar("C", bound=Candidate)


class NamesakePlaces(Generic[C]):
    """Gives each consumer a number that distinguishes it from other consumers of the same name, counted from 0. A
    consumer keeps its number until it leaves. A new consumer gets the lowest number that is free for its name.
    """

    __slots__ = ("_free", "_next", "_taken")

    def __init__(self) -> None:
        self._next: Counter[str] = Counter()
        self._free: dict[str, list[int]] = {}
        self._taken: dict[int, int] = {}
        """The number of each consumer; the keys are the `id()` of the consumers."""

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


class StickySelector(Protocol[C]):
    """Selects the consumer of each slot."""

    def add(self, consumer: C) -> None:
        """Add a consumer, and give it slots.

        Raises:
            ConsumerAssignError: no slots can be given to it. The selector is unchanged.
        """
        ...

    def remove(self, consumers: Collection[C]) -> None:
        """Remove consumers. Idempotent."""
        ...

    def slot_of(self, key: bytes) -> int:
        """Return the slot of a key."""
        ...

    def select(self, slot: int) -> C | None:
        """Return the consumer of a slot, None if no consumer has it."""
        ...


AutoSplit: TypeAlias = Callable[[], StickySelector[Any]]
"""Makes the selector of a subscription whose slots are divided by the broker."""


class HashRing(Generic[C]):
    """A selector that uses a consistent-hash ring. Each consumer has up to `points` points on the ring, computed from
    its name. A slot belongs to the consumer with the first point that is equal to or higher than the slot; after the
    highest point, the lowest one follows.

    A point that several consumers have belongs to the one that joined first. The time to add or remove a consumer does
    not depend on the number of other consumers.
    """

    __slots__ = ("_claims", "_members", "_places", "_points", "_points_per_consumer")

    slot_of = staticmethod(ring_slot_of)

    def __init__(self, points: int = POINTS_PER_CONSUMER) -> None:
        self._points_per_consumer = range(points)
        self._places: NamesakePlaces[C] = NamesakePlaces()
        self._members: dict[int, tuple[C, array[int]]] = {}
        """The consumers and their points, by `id()` of the consumers, in the order in which they joined."""
        self._points = array("H")
        self._claims: dict[int, list[C]] = {}
        """The consumers that have each point, in the order in which they joined."""

    def add(self, consumer: C) -> None:
        text = f"{consumer.name}\0{self._places.take(consumer)}\0"
        hashes = point_hashes(text, self._points_per_consumer)
        points = array("H", {hash_ % RING_SIZE + 1 for hash_ in hashes})
        self._members[id(consumer)] = consumer, points
        for point in points:
            if self._claim(point, consumer):
                insort(self._points, point)

    def remove(self, consumers: Iterable[C]) -> None:
        leaving = [found for leaver in consumers if (found := self._members.pop(id(leaver), None)) is not None]
        for consumer, _ in leaving:
            self._places.give_back(consumer)
        if len(leaving) > len(self._members):
            self._claims.clear()
            for consumer, points in self._members.values():
                for point in points:
                    self._claim(point, consumer)
            self._points = array("H", sorted(self._claims))
            return
        freed = [point for consumer, points in leaving for point in points if self._give_up(point, consumer)]
        if len(leaving) > 1:
            self._points = array("H", sorted(self._claims))
            return
        for point in freed:
            del self._points[bisect_left(self._points, point)]

    def _claim(self, point: int, consumer: C) -> bool:
        """Record that `consumer`, too, has this point of the ring. Return True if no other consumer had it before."""
        claims = self._claims.setdefault(point, [])
        claims.append(consumer)
        return len(claims) == 1

    def _give_up(self, point: int, consumer: C) -> bool:
        """Remove the record that `consumer` has this point of the ring. Return True if no consumer has it any more."""
        claims = self._claims[point]
        del claims[next(index for index, claimant in enumerate(claims) if claimant is consumer)]
        if not claims:
            del self._claims[point]
        return not claims

    def select(self, slot: int) -> C | None:
        if not self._points:
            return None
        point = self._points[bisect_left(self._points, slot) % len(self._points)]
        return self._claims[point][0]


class HalvedRanges(Generic[C]):
    """Divides the slots into one range for each consumer: a newcomer gets the lower half of the largest range; if
    several are equally large, of the lowest of these. The range of a consumer that leaves goes to the consumer with the
    next higher range; the highest range goes to the consumer with the next lower range.

    The time to add or remove a consumer grows with the logarithm of the number of consumers.
    """

    __slots__ = ("_ends", "_ends_of", "_largest", "_owners")

    slot_of = staticmethod(slot_of)

    def __init__(self) -> None:
        self._ends: list[int] = []
        """The upper ends of the ranges, inclusive, in ascending order. A range begins after the end before it."""
        self._owners: dict[int, C] = {}
        self._ends_of: dict[int, int] = {}
        """The end of the range of each consumer; the keys are the `id()` of the consumers."""
        self._largest: list[tuple[int, int]] = []
        """A heap of the ranges: minus the size, and the end. Items whose range does not exist any more, or has another
        size, are removed when they reach the top."""

    def add(self, consumer: C) -> None:
        """Give the consumer the lower half of the largest range; the first consumer gets all slots.

        Raises:
            ConsumerAssignError: no range has two slots.
        """
        upper = self._largest_end() if self._ends else RANGE_SIZE
        end = upper - (self._size_of(upper) >> 1)
        if end in self._owners:
            raise ConsumerAssignError(
                f"No more range can assigned to new consumer, assigned consumers {len(self._ends)}"
            )
        insort(self._ends, end)
        self._give(end, consumer)
        self._push(end)
        self._push(upper)

    def remove(self, consumers: Collection[C]) -> None:
        for consumer in consumers:
            end = self._ends_of.pop(id(consumer), None)
            if end is None:
                continue
            index = bisect_left(self._ends, end)
            if end == RANGE_SIZE and index:
                heir = self._owners[self._ends[index - 1]]
                del self._owners[self._ends.pop(index - 1)]
                self._give(RANGE_SIZE, heir)
                self._push(RANGE_SIZE)
                continue
            del self._ends[index], self._owners[end]
            if self._ends:
                self._push(self._ends[index])

    def select(self, slot: int) -> C | None:
        return self._owners[self._ends[bisect_left(self._ends, slot)]] if self._ends else None

    def _give(self, end: int, consumer: C) -> None:
        self._owners[end] = consumer
        self._ends_of[id(consumer)] = end

    def _size_of(self, end: int) -> int:
        """Return the number of slots of the range whose upper end (inclusive) is `end`; 0 if there is no such range."""
        index = bisect_left(self._ends, end)
        if end not in self._owners:
            return 0
        return end - (self._ends[index - 1] if index else 0)

    def _push(self, end: int) -> None:
        """Add the range whose upper end is `end` to the heap with its present size. Items of the heap with a former
        size are dropped later.
        """
        if len(self._largest) > 2 * len(self._ends) + 8:
            self._largest = [(-self._size_of(present), present) for present in self._ends]
            heapify(self._largest)
        else:
            heappush(self._largest, (-self._size_of(end), end))

    def _largest_end(self) -> int:
        while -self._largest[0][0] != self._size_of(self._largest[0][1]):
            heappop(self._largest)
        return self._largest[0][1]


class StickyRangeSelector(Generic[C]):
    """A selector for STICKY mode: each consumer gets the ranges of slots that its client requested. Messages of a slot
    that no consumer has are not delivered until a consumer has it.
    """

    __slots__ = ("_ranges",)

    slot_of = staticmethod(slot_of)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, C]] = []

    def add(self, consumer: C) -> None:
        """Add a consumer, and give it the ranges of slots in its `hash_ranges`.

        Raises:
            ConsumerAssignError: the consumer has no ranges, one of them is not within 0..65535 (inclusive), or one
                overlaps another of them or a range of a connected consumer.
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
