"""Whose turn it is among the consumers of a Shared subscription.

A turn is up to `TURN_MESSAGES` messages. Consumers of one priority level take turns in the order in which they
joined. A consumer that has taken more messages than others of its level waits until they have caught up, so that
short turns (one message was there) and long ones (a burst) do not add up to an uneven share.

Each level has a mark. A consumer may take a turn while it has taken no more messages than the mark. When none that
is able may, the mark rises to the least that an able consumer has taken. So the consumers that stay able differ by one
turn at most: `TURN_MESSAGES` - 1 messages and one entry. A consumer that joins, or was not able for a while, goes on
at the mark: it has no claim on what was given out meanwhile.

A lower level gets a turn when no consumer of a higher one is able.

Source: `getNextConsumer` of Pulsar's `AbstractDispatcherMultipleConsumers`, which does not even out turns of different
lengths, and begins a level anew after a turn of a higher one.
"""

from bisect import insort
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

TURN_MESSAGES: Final = 20
"""Messages after which the next consumer has its turn. The default of Pulsar's `dispatcherMaxRoundRobinBatchSize`."""


class Ranked(Protocol):
    @property
    def priority_level(self) -> int:
        """0 comes first."""
        ...


C = TypeVar("C", bound=Ranked)


class ConsumerTurns(Generic[C]):
    """The consumers of one subscription, by priority level."""

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
        """Return the consumer whose turn it is among those of the best priority that are able; None if none is.

        Asking takes no turn away: the answer stays the same until `took` is called or consumers change.
        """
        for level in self._levels:
            consumer = level.next(is_able)
            if consumer is not None:
                return consumer
        return None

    def took(self, consumer: C, messages: int) -> None:
        """Account for messages that were given to a consumer, and pass the turn on to the one after it."""
        level = self._level_of(consumer)
        if level is not None:
            level.took(consumer, messages)

    def _level_of(self, consumer: C) -> "_Level[C] | None":
        priority = consumer.priority_level
        return next((level for level in self._levels if level.priority == priority), None)


class _Level(Generic[C]):
    """The consumers of one priority; `taken` has the messages that each took, `at` is whose turn comes first."""

    __slots__ = ("at", "mark", "members", "priority", "taken")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.members: list[C] = []
        self.taken: dict[C, int] = {}
        self.mark = 0
        self.at = 0

    def add(self, consumer: C) -> None:
        # Behind the last in line, so that a client that joins again and again does not always come first.
        self.members.insert(self.at, consumer)
        self.taken[consumer] = self.mark
        self.at = (self.at + 1) % len(self.members)

    def remove(self, consumer: C) -> None:
        if consumer not in self.taken:
            return
        place = self.members.index(consumer)
        del self.members[place], self.taken[consumer]
        if place < self.at:
            self.at -= 1
        self.at %= max(1, len(self.members))

    def next(self, is_able: Callable[[C], bool]) -> C | None:
        members, taken, at, mark = self.members, self.taken, self.at, self.mark
        ahead = []
        for place in range(at, at + len(members)):
            consumer = members[place % len(members)]
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
            self.at = (self.members.index(consumer) + 1) % len(self.members)
