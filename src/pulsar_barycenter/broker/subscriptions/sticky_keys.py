"""Maps keys to consumers (Key_Shared) and topics to active consumers (Failover), by hash.

A key is hashed to one of 65,536 slots. With AUTO_SPLIT a consistent-hash ring divides the slots, so that a consumer
that joins or leaves moves only its own share. With STICKY each consumer brings the ranges of slots that it wants.
Source: Pulsar's `Murmur3_32Hash`, `ConsistentHashingStickyKeyConsumerSelector`,
`HashRangeExclusiveStickyKeyConsumerSelector`, and `AbstractDispatcherSingleActiveConsumer` for failover.
"""

import base64
import binascii
import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeVar

from crc32c import crc32c

from pulsar_barycenter.broker.errors import ConsumerAssignError
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata

RANGE_SIZE: Final = 65536
"""The number of slots of a Key_Shared subscription: 0 ≤ slot < 65536."""

LONGEST_KEY: Final = 512
"""The longest key that is hashed directly, in bytes."""

POINTS_PER_CONSUMER: Final = 100

_MASK: Final = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return the Murmur3 hash (x86, 32 bit, seed 0) of `data` without its top bit: 0 ≤ hash < 2^31."""
    h = 0
    whole = len(data) & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        h ^= _mixed(k)
        h = ((h << 13) | (h >> 19)) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    tail = data[whole:]
    if tail:
        h ^= _mixed(int.from_bytes(tail, "little"))
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return (h ^ (h >> 16)) & 0x7FFFFFFF


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

    The last one spreads messages without a key over all slots.
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
    """The part of a consumer that decides about slots. `hash_ranges`: the slots that it wants, both ends inclusive."""

    @property
    def name(self) -> str: ...

    @property
    def priority_level(self) -> int: ...

    @property
    def hash_ranges(self) -> Sequence[tuple[int, int]]: ...


C = TypeVar("C", bound=Candidate)


class HashRing(Generic[C]):
    """A consistent-hash ring of consumers, by name. A hash belongs to the first point at or after it."""

    __slots__ = ("_owners", "_points")

    def __init__(self, consumers: Sequence[C], separator: str, modulus: int) -> None:
        points: dict[int, C] = {}
        namesakes: Counter[str] = Counter()
        for consumer in sorted(consumers, key=lambda c: c.name):
            # Several consumers may have one name, for example the empty name of multi-topic consumers. Each gets
            # points of its own.
            first = namesakes[consumer.name] * POINTS_PER_CONSUMER
            namesakes[consumer.name] += 1
            for i in range(first, first + POINTS_PER_CONSUMER):
                # If two consumers have the same point, the smaller name gets it, whichever joined first.
                points.setdefault(murmur3(f"{consumer.name}{separator}{i}".encode()) % modulus, consumer)
        self._points = sorted(points)
        self._owners = [points[point] for point in self._points]

    def owner(self, value: int) -> C | None:
        if not self._points:
            return None
        return self._owners[bisect_left(self._points, value) % len(self._points)]


def active_consumer(consumers: Sequence[C], topic: str, partition_index: int) -> C | None:
    """Return the consumer of a failover subscription that gets the messages, None if there is no consumer.

    Only consumers of the best priority (the lowest level) count. For partition k it is the one at index k modulo their
    number, in order of name, so that the partitions spread over the consumers. For a topic that is no partition it is
    the owner of the topic's hash on the ring.
    """
    if not consumers:
        return None
    best = min(consumer.priority_level for consumer in consumers)
    candidates = sorted((c for c in consumers if c.priority_level == best), key=lambda c: c.name)
    if partition_index >= 0:
        return candidates[partition_index % len(candidates)]
    if len(candidates) == 1:
        return candidates[0]
    return HashRing(candidates, "", 2**31).owner(murmur3(topic.encode()))


class StickySelector(Protocol[C]):
    """Selects the consumer of a slot."""

    def add(self, consumer: C) -> None: ...

    def remove(self, consumer: C) -> None: ...

    def select(self, slot: int) -> C | None: ...


class AutoSplitSelector(Generic[C]):
    """Divides the slots by a consistent-hash ring: a consumer that joins or leaves moves only its own share."""

    __slots__ = ("_consumers", "_ring")

    def __init__(self) -> None:
        self._consumers: list[C] = []
        self._ring: HashRing[C] = HashRing((), "", RANGE_SIZE)

    def add(self, consumer: C) -> None:
        self._consumers.append(consumer)
        self._ring = HashRing(self._consumers, "\0", RANGE_SIZE)

    def remove(self, consumer: C) -> None:
        self._consumers.remove(consumer)
        self._ring = HashRing(self._consumers, "\0", RANGE_SIZE)

    def select(self, slot: int) -> C | None:
        return self._ring.owner(slot)


class StickyRangeSelector(Generic[C]):
    """Each consumer brings the ranges of slots that it wants. Messages of slots without a consumer wait."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, C]] = []

    def add(self, consumer: C) -> None:
        """Assign its ranges to a consumer.

        Raises:
            ConsumerAssignError: it has no ranges, one is not within 0..65535, or they overlap each other or those of a
                connected consumer.
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

    def remove(self, consumer: C) -> None:
        self._ranges = [entry for entry in self._ranges if entry[2] is not consumer]

    def select(self, slot: int) -> C | None:
        index = bisect_right(self._ranges, slot, key=itemgetter(0)) - 1
        if index >= 0 and slot <= self._ranges[index][1]:
            return self._ranges[index][2]
        return None
