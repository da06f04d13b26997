"""Chooses which consumer of a failover subscription gets the messages.

Source: Pulsar's `AbstractDispatcherSingleActiveConsumer`.
"""

from bisect import bisect_left, insort
from operator import itemgetter
from typing import Final, Generic, TypeAlias, TypeVar

from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    POINTS_PER_CONSUMER,
    Candidate,
    NamesakePlaces,
    murmur3,
    point_hashes,
)

C = TypeVar("C", bound=Candidate)

_Rank: TypeAlias = tuple[int, str, int]
"""The order among consumers of one priority: distance on the hash ring, name, and a number that distinguishes consumers
of the same name.
"""

_RANK: Final = itemgetter(0)
_RING: Final = 2**31


class FailoverChoice(Generic[C]):
    """Chooses the active consumer among the consumers of one subscription of one topic.

    Only consumers with the best priority (the lowest level) can be chosen. For partition k of a topic, these consumers
    are sorted by name, and the one at index (k modulo their number) is chosen; so the partitions are spread over the
    consumers. For a topic without partitions, each consumer has points on a consistent-hash ring, and the consumer with
    the first point at or after the hash of the topic's name is chosen.
    """

    __slots__ = ("_joined", "_levels", "_partition", "_places", "_ranks", "_topic_hash")

    def __init__(self, topic: str, partition_index: int) -> None:
        """`partition_index` is the index of the partition that the topic is, -1 for a topic that is no partition."""
        self._partition = partition_index
        self._topic_hash = murmur3(topic.encode())
        self._places: NamesakePlaces[C] = NamesakePlaces()
        self._joined = 0
        self._levels: dict[int, list[tuple[_Rank, C]]] = {}
        self._ranks: dict[int, _Rank] = {}

    @property
    def active(self) -> C | None:
        """The active consumer, which gets the messages; None if the subscription has no consumers."""
        if not self._levels:
            return None
        best = self._levels[min(self._levels)]
        return best[max(0, self._partition) % len(best)][1]

    def add(self, consumer: C) -> None:
        rank = self._ranks[id(consumer)] = self._rank_of(consumer)
        insort(self._levels.setdefault(consumer.priority_level, []), (rank, consumer), key=_RANK)

    def remove(self, consumer: C) -> None:
        """Remove a consumer. Idempotent."""
        rank = self._ranks.pop(id(consumer), None)
        if rank is None:
            return
        level = self._levels[consumer.priority_level]
        del level[bisect_left(level, rank, key=_RANK)]
        if not level:
            del self._levels[consumer.priority_level]
        if self._partition < 0:
            self._places.give_back(consumer)

    def clear(self) -> None:
        self._levels.clear()
        self._ranks.clear()
        self._places = NamesakePlaces()

    def _rank_of(self, consumer: C) -> _Rank:
        if self._partition >= 0:
            self._joined += 1
            return 0, consumer.name, self._joined
        place = self._places.take(consumer)
        first = place * POINTS_PER_CONSUMER
        points = point_hashes(consumer.name, range(first, first + POINTS_PER_CONSUMER))
        return min((point - self._topic_hash) % _RING for point in points), consumer.name, place
