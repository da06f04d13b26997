"""Numbered messages through a topic whose brokers change, and what brokers report about what was acknowledged.

Some messages are held: their consumer acknowledges them later than those after them, so that subscriptions have gaps.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pulsar

from support.numbered_messages import NumberedProducer, subscribe_before_sending
from support.running_cluster import eventually

SUBSCRIPTION: Final = "work"
KINDS: Final = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "shared": pulsar.ConsumerType.Shared,
    "key-shared": pulsar.ConsumerType.KeyShared,
}
STORED_WITHIN_S: Final = 10.0
"""After this time an acknowledgement that a broker reported is stored: ten times the interval of brokers' writes."""
_IN_ORDER: Final = ("exclusive", "failover")
_SEVERAL_CONSUMERS: Final = ("shared", "key-shared")
_KEYS: Final = 16
_PAUSE_S: Final = 0.02
_HELD_EVERY: Final = 13
_HELD_AT_MOST: Final = 300
"""When a further message is held, the oldest is acknowledged. Of the acknowledged entries that follow one that is not
acknowledged, a Java broker stores about 10,000 (`managedLedgerMaxUnackedRangesToPersist`, which counts entries here,
not ranges); the next owner delivers the others again.
"""
_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(-?\d+)\]")

Position: TypeAlias = tuple[int, int]
"""Ledger and entry."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a subscription has acknowledged: the first `count` entries of the topic, and further ranges of entries by
    their numbers in the topic, the ends exclusive.
    """

    count: int
    ranges: tuple[tuple[int, int], ...]

    def includes(self, other: "Acknowledged") -> bool:
        """Return whether everything that `other` has acknowledged is acknowledged here."""
        return other.count <= self.count and all(
            end <= self.count or any(begin_here <= begin and end <= end_here for begin_here, end_here in self.ranges)
            for begin, end in other.ranges
        )


@dataclass(frozen=True, slots=True)
class Content:
    """What internal stats of a broker report about a topic, in a form that is equal for every owner: the number of
    entries in each ledger that has some, and what its subscriptions have acknowledged.
    """

    entries: Mapping[int, int]
    acknowledged: Mapping[str, Acknowledged]

    def includes(self, other: "Content") -> bool:
        """Return whether the entries are those of `other`, and each of its subscriptions has acknowledged at least as
        much.
        """
        return self.entries == other.entries and all(
            name in self.acknowledged and self.acknowledged[name].includes(before)
            for name, before in other.acknowledged.items()
        )


def content_of(stats: Mapping[str, Any]) -> Content:
    """Return the content of a topic by its internal stats.

    Owners give the same position as the last entry of a ledger or as the one before the first of the next; both have
    one number here.
    """
    ledgers: list[tuple[int, int]] = [(ledger["ledgerId"], ledger["entries"]) for ledger in stats["ledgers"]]
    if ledgers:
        ledgers[-1] = ledgers[-1][0], stats["currentLedgerEntries"]
    starts = list(accumulate((entries for _, entries in ledgers), initial=0))

    def number(ledger: int, entry: int) -> int:
        """Return how many entries there are up to a position, inclusive."""
        before = sum(1 for ledger_id, _ in ledgers if ledger_id < ledger)
        is_listed = before < len(ledgers) and ledgers[before][0] == ledger
        return starts[before] + (entry + 1 if is_listed else 0)

    acknowledged = {}
    for name, cursor in stats["cursors"].items():
        count = number(*map(int, cursor["markDeletePosition"].split(":")))
        ranges: list[tuple[int, int]] = []
        for found in _RANGE.findall(cursor["individuallyDeletedMessages"]):
            begin, end = number(int(found[0]), int(found[1])), number(int(found[2]), int(found[3]))
            if begin <= count:
                count = max(count, end)
            elif ranges and ranges[-1][1] == begin:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((begin, end))
        acknowledged[name] = Acknowledged(count, tuple(ranges))
    return Content({ledger: entries for ledger, entries in ledgers if entries}, acknowledged)


class Interruptions:
    """When brokers were killed or paused (monotonic time, s)."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    def begin(self) -> None:
        self.times_s.append(time.monotonic())

    def may_have_undone(self, reported_s: float) -> bool:
        """Return whether an acknowledgement that a broker reported at this time may not be stored."""
        return any(at - STORED_WITHIN_S < reported_s <= at for at in self.times_s)


class Flow:
    """Numbered messages through one topic, and what its consumers got."""

    def __init__(self, client: Any, namespace: str, kind: str, interruptions: Interruptions) -> None:
        self.kind = kind
        self.topic = f"persistent://{namespace}/{kind}"
        self.path = f"/admin/v2/persistent/{namespace}/{kind}"
        self.arrived: list[int] = []
        self.seen: set[int] = set()
        self.came_again = 0
        """Deliveries of messages whose acknowledgement was sent, and not known to be stored."""
        self.wrongly_again: list[int] = []
        """The numbers of messages that came again although their acknowledgement was stored."""
        self._interruptions = interruptions
        # By position: a producer that gets no receipt sends again, so that a number may be stored twice.
        self._held: dict[Position, tuple[Any, Any]] = {}
        self._holds = True
        self._acknowledged: set[Position] = set()
        self._reported: list[tuple[float, set[Position]]] = []
        """The entries that a broker reported as acknowledged, by the time of the report (monotonic, s)."""
        self._taking = threading.Lock()
        self._sending = threading.Lock()
        self._is_ended = threading.Event()
        subscribe_before_sending(client, self.topic)
        self._consumers = [
            client.subscribe(
                self.topic,
                SUBSCRIPTION,
                KINDS[kind],
                consumer_name=f"{kind}-{number}",
                initial_position=pulsar.InitialPosition.Earliest,
                message_listener=self._take,
            )
            for number in range(2 if kind in _SEVERAL_CONSUMERS else 1)
        ]
        self.producer = NumberedProducer(client, self.topic, batching=False, keys=_KEYS)

    def run(self) -> None:
        """Send messages until `end`."""
        while not self._is_ended.is_set():
            with self._sending:
                self.producer.send(1)
            self._is_ended.wait(_PAUSE_S)

    def end(self) -> None:
        self._is_ended.set()

    @asynccontextmanager
    async def silence(self) -> AsyncIterator[None]:
        """Send nothing meanwhile."""
        await asyncio.to_thread(self._sending.acquire)
        try:
            yield
        finally:
            self._sending.release()

    @property
    def held(self) -> int:
        with self._taking:
            return len(self._held)

    def acknowledge_held(self) -> None:
        """Acknowledge the messages that are held."""
        with self._taking:
            held = list(self._held.items())
            self._held.clear()
            self._acknowledged.update(position for position, _ in held)
        for _, (consumer, message) in held:
            consumer.acknowledge(message)

    def hold_no_more(self) -> None:
        with self._taking:
            self._holds = False
        self.acknowledge_held()

    def note_reported(self) -> None:
        """Note that the owner has just reported each acknowledgement that was sent."""
        with self._taking:
            sure = [(at, entries) for at, entries in self._reported if not self._interruptions.may_have_undone(at)]
            known: set[Position] = set().union(*(entries for _, entries in sure))
            self._reported = [*sure, (time.monotonic(), self._acknowledged - known)]

    def _take(self, consumer: Any, message: Any) -> None:
        number = int(message.data())
        position = message.message_id().ledger_id(), message.message_id().entry_id()
        with self._taking:
            self.arrived.append(number)
            self.seen.add(number)
            if position in self._acknowledged:
                self._came_again(number, position)
            elif self._holds and number % _HELD_EVERY == 5 and not self._may_block_others(position):
                self._held[position] = consumer, message
                if len(self._held) <= _HELD_AT_MOST:
                    return
                position = next(iter(self._held))
                consumer, message = self._held.pop(position)
            self._held.pop(position, None)
            self._acknowledged.add(position)
        consumer.acknowledge(message)

    def _may_block_others(self, position: Position) -> bool:
        """Return whether a message that was held at an earlier owner must not be held again. Of two consumers the one
        that attaches first gets messages of all keys. The other one gets none of a key before all those are
        acknowledged that the first one has of this key.
        """
        return self.kind == "key-shared" and position in self._held

    def _came_again(self, number: int, position: Position) -> None:
        self.came_again += 1
        for at, entries in self._reported:
            if position in entries and not self._interruptions.may_have_undone(at):
                self.wrongly_again.append(number)

    def check(self) -> None:
        """Check that each message that has a receipt arrived, and in order, where the subscription keeps it."""
        assert not self.producer.failures
        assert self.producer.acknowledged <= self.seen
        assert not self.wrongly_again, (self.kind, self.wrongly_again[:20])
        if self.kind in _IN_ORDER:
            firsts = list(dict.fromkeys(self.arrived))
            assert firsts == sorted(firsts)

    async def has_all(self) -> None:
        """Wait until each message that was sent has a receipt, and arrived."""
        await asyncio.to_thread(self.producer.wait_acknowledged, self.producer.sent, within_s=300)

        async def arrived() -> bool:
            return self.producer.acknowledged <= self.seen

        await eventually(arrived, within_s=300, what=f"all messages of {self.topic} arrive")

    async def goes_on(self) -> None:
        """Wait until a message arrives that is sent from here on."""
        sent, had = self.producer.sent, len(self.arrived)

        async def has_newer() -> bool:
            return len(self.arrived) > had and max(self.arrived[had:]) >= sent

        await eventually(has_newer, within_s=300, what=f"messages of {self.topic} arrive")
