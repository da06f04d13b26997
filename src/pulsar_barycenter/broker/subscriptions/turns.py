"""Decides which consumer of a Shared subscription is next.

Consumers of one priority level take turns in the order in which they joined. A turn is up to `TURN_MESSAGES` messages.
Turns differ in length: one may have a single message, the next a burst. So that the shares stay even, a consumer that
has got more messages than others of its level waits until they have caught up.

Each level has a mark. A consumer may take a turn while it has got no more messages than the mark. If no able consumer
may take a turn, the mark rises to the lowest number that an able consumer has got. (Able: it has permits, and its
connection takes more.) So consumers that stay able differ by at most one turn: `TURN_MESSAGES` - 1 messages and one
entry. A consumer that joins, or was not able for a while, continues at the mark: it gets no compensation for what it
missed.

A lower priority level gets a turn only if no consumer of a higher one is able.

Source: `getNextConsumer` of Pulsar's `AbstractDispatcherMultipleConsumers`. That one does not balance turns of
different lengths, and restarts the order of a level after a turn of a higher level.
"""

from bisect import insort
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

TURN_MESSAGES: Final = 20
"""The number of messages of a turn: the default of Pulsar's `dispatcherMaxRoundRobinBatchSize`."""


class Ranked(Protocol):
    @property
    def priority_level(self) -> int:
        """The priority level; 0 is the highest priority."""
        ...


C = TypeVar("C", bound=Ranked)


class ConsumerTurns(Generic[C]):
    """The consumers of one Shared subscription, by priority level. Within a level they take turns to get messages."""

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: list[_Level[C]] = []

    def add(self, consumer: C) -> None:
        level = self._level_of(consumer)
        if level is None:
            level = _Level(consumer.priority_level)
            insort(self._levels, level, key=lambda level: level.priority)
        level.add(consumer)

    def remove(self, consumer: C) -> None:
        level = self._level_of(consumer)
        if level is not None:
            level.remove(consumer)
            if not level.members:
                self._levels.remove(level)

    def clear(self) -> None:
        self._levels.clear()

    def next(self, is_able: Callable[[C], bool]) -> C | None:
        """Return the consumer that gets the next messages: among the consumers for which `is_able` is true, those with
        the best priority level take turns. None if `is_able` is false for all consumers.

        A call does not change whose turn it is: the result stays the same until `took` is called, consumers are added
        or removed, or `is_able` gives another result.
        """
        for level in self._levels:
            consumer = level.next(is_able)
            if consumer is not None:
                return consumer
        return None

    def took(self, consumer: C, messages: int) -> None:
        """Record that `messages` messages were sent to `consumer`. The next turn in its priority level is that of the
        consumer after it.
        """
        level = self._level_of(consumer)
        if level is not None:
            level.took(consumer, messages)

    def _level_of(self, consumer: C) -> "_Level[C] | None":
        priority = consumer.priority_level
        return next((level for level in self._levels if level.priority == priority), None)


class _Level(Generic[C]):
    """The consumers of one priority level (`members`), in the order of their turns.

    `taken` has the number of messages that each consumer got. A consumer whose number exceeds `mark` waits until the
    others that are able have reached it; then `mark` is raised. `next_index` is the index in `members` of the consumer
    whose turn is next.
    """

    __slots__ = ("mark", "members", "next_index", "priority", "taken")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.members: list[C] = []
        self.taken: dict[C, int] = {}
        self.mark = 0
        self.next_index = 0

    def add(self, consumer: C) -> None:
        # It gets the last turn of the round, so that a client that joins again and again is not always next.
        self.members.insert(self.next_index, consumer)
        self.taken[consumer] = self.mark
        self.next_index = (self.next_index + 1) % len(self.members)

    def remove(self, consumer: C) -> None:
        if consumer not in self.taken:
            return
        index = self.members.index(consumer)
        del self.members[index], self.taken[consumer]
        if index < self.next_index:
            self.next_index -= 1
        self.next_index %= max(1, len(self.members))

    def next(self, is_able: Callable[[C], bool]) -> C | None:
        members, taken, first, mark = self.members, self.taken, self.next_index, self.mark
        ahead = []
        for index in range(first, first + len(members)):
            consumer = members[index % len(members)]
            if taken[consumer] > mark:
                ahead.append(consumer)
            elif is_able(consumer):
                return consumer
        able = [consumer for consumer in ahead if is_able(consumer)]
        if not able:
            return None
        chosen = min(able, key=taken.__getitem__)
        self.mark = taken[chosen]
        return chosen

    def took(self, consumer: C, messages: int) -> None:
        if consumer in self.taken:
            self.taken[consumer] = max(self.taken[consumer], self.mark) + messages
            self.next_index = (self.members.index(consumer) + 1) % len(self.members)
