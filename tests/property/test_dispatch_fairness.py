"""Fairness of dispatch: how far apart two consumers that can both take messages may come.

Shared, on both kinds of topic:

- Two consumers of one priority differ by one turn: `TURN_MESSAGES` - 1 messages and the largest entry.
- Over a period that begins at any moment they differ by two turns, whatever other consumers do.
- A lower priority gets nothing while a consumer of a higher one can take messages.

Key_Shared:

- Each consumer has a share of the slots between half and twice the even one.
- Of the entries that wait for one consumer the oldest comes first.

Failover: two consumers of the best priority are active in numbers of partitions that differ by one.

`tests/unit/broker/wire/test_wire_bounds.py` has the turns of the dispatchers that share a connection.
"""

import asyncio
from collections.abc import Coroutine
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.subscriptions.failover_choice import FailoverChoice
from pulsar_barycenter.broker.subscriptions.sticky_keys import (
    RANGE_SIZE,
    HashRing,
)
from pulsar_barycenter.broker.subscriptions.turns import TURN_MESSAGES
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import SubscribeRequest
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.fairness import Candidate, consumer_name
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.short_forms import examples
from support.wire_client import entry_of

LARGEST_BATCH = 7
ONE_TURN = TURN_MESSAGES - 1 + LARGEST_BATCH
PERSISTENT = "persistent://public/default/t"
NON_PERSISTENT = "non-persistent://public/default/t"


class Group:
    """Consumers of one subscription, each on its own link, and a producer."""

    def __init__(self, topic: str, kind: SubscriptionType = SubscriptionType.SHARED) -> None:
        self.broker = OneBroker(BrokerConfig(active_consumer_failover_delay_time_millis=0))
        self.name = TopicName.parse(topic)
        self.kind = kind
        self.links: dict[Consumer, RecordingLink] = {}
        self.granted: dict[Consumer, int] = {}
        self.published = 0
        self.joined = 0
        self.topic: PersistentTopic | NonPersistentTopic
        self.producer: Producer
        self.link = RecordingLink()

    async def open(self) -> None:
        topic = await self.broker.registry.get_or_create(self.name)
        assert isinstance(topic, PersistentTopic | NonPersistentTopic)
        self.topic = topic
        self.producer = await topic.add_producer(self.link, 1, ProducerOptions("p"))

    async def join(self, permits: int, priority: int = 0) -> Consumer:
        link, options = RecordingLink(), ConsumerOptions(f"c{self.joined}", priority)
        self.joined += 1
        request = SubscribeRequest(self.joined, "s", self.kind, options, KeySharedMode.AUTO_SPLIT, from_earliest=True)
        consumer = await self.topic.subscribe(link, request)
        consumer.subscription.attached(consumer)
        self.links[consumer], self.granted[consumer] = link, 0
        self.flow(consumer, permits)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        del self.links[consumer], self.granted[consumer]
        consumer.subscription.detach(consumer)

    def flow(self, consumer: Consumer, permits: int) -> None:
        self.granted[consumer] += permits
        consumer.flow(permits)

    async def publish(self, *batches: int, key: str | None = None) -> None:
        """Publish entries of these many messages, at once."""
        entries, sends = [], []
        for batch in batches:
            entry = entry_of(b"x", sequence_id=self.published, batch=batch, **({} if key is None else {"key": key}))
            entries.append((entry, batch, 0))
            sends.append((self.producer, self.published, 0, batch, len(entry), 0))
            self.published += 1
        self.topic.publish(sends, entries)
        await self.topic.wait_drained()
        await asyncio.sleep(0)

    def taken(self, consumer: Consumer) -> int:
        """The messages that were delivered to a consumer."""
        return self.granted[consumer] - consumer.permits

    def is_able(self, consumer: Consumer) -> bool:
        return consumer.permits > 0 and self.links[consumer].writable


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


batches = st.integers(1, LARGEST_BATCH)
bursts = st.lists(st.lists(batches, min_size=1, max_size=60), min_size=1, max_size=12)
topics = st.sampled_from([PERSISTENT, NON_PERSISTENT])


# ------------------------------------------------------------------------------------------------------------ Shared


@settings(max_examples=60, deadline=None)
@given(topic=topics, consumers=st.integers(2, 6), messages=st.integers(1, 90))
def test_messages_sent_one_at_a_time_go_round(topic: str, consumers: int, messages: int) -> None:
    """Each consumer has taken at most one more than any other, for even and odd numbers of consumers."""

    async def play() -> None:
        group = Group(topic)
        await group.open()
        for _ in range(consumers):
            await group.join(1000)
        for _ in range(messages):
            await group.publish(1)
        taken = sorted(map(group.taken, group.links))
        await group.broker.stop()
        assert sum(taken) == messages
        assert taken[-1] - taken[0] <= 1

    run(play())


@settings(max_examples=60, deadline=None)
@given(topic=topics, consumers=st.integers(2, 5), published=bursts, unequal=st.booleans())
def test_consumers_with_permits_stay_within_one_turn(
    topic: str, consumers: int, published: list[list[int]], unequal: bool
) -> None:
    """For any bursts and batches, and any number of permits, as long as none runs out."""

    async def play() -> None:
        group = Group(topic)
        await group.open()
        for number in range(consumers):
            await group.join(100_000 if unequal and number else 10_000)
        for burst in published:
            await group.publish(*burst)
            taken = sorted(map(group.taken, group.links))
            assert taken[-1] - taken[0] <= ONE_TURN
        assert sum(map(group.taken, group.links)) == sum(map(sum, published))
        await group.broker.stop()

    run(play())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(batches, min_size=1, max_size=60)),
        st.tuples(st.just("join"), st.tuples(st.sampled_from([0, 3, 30, 10_000]), st.integers(0, 1))),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("flow"), st.tuples(st.integers(0, 9), st.sampled_from([1, 25, 10_000]))),
        st.tuples(st.just("stall"), st.integers(0, 9)),
        st.tuples(st.just("drain"), st.integers(0, 9)),
        st.tuples(st.just("redeliver"), st.integers(0, 9)),
    ),
    max_size=30,
)


class Watched:
    """The messages of two consumers at the start of the period in which both could take messages."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.since: dict[tuple[Consumer, Consumer], tuple[int, int]] = {}

    def look(self) -> None:
        group = self.group
        able = [consumer for consumer in group.links if group.is_able(consumer)]
        pairs = {pair for pair in combinations(able, 2) if pair[0].priority_level == pair[1].priority_level}
        self.since = {pair: before for pair, before in self.since.items() if pair in pairs}
        for one, other in pairs:
            taken = group.taken(one), group.taken(other)
            before = self.since.setdefault((one, other), taken)
            apart = abs((taken[0] - before[0]) - (taken[1] - before[1]))
            assert apart <= 2 * ONE_TURN, f"{one.name} and {other.name} are {apart} messages apart"


@settings(max_examples=examples(150), deadline=None)
@given(topic=topics, script=steps)
def test_two_able_consumers_stay_within_two_turns_whatever_others_do(topic: str, script: list[Any]) -> None:
    """Joins, leaves, stalled links, few permits and redeliveries; and priority levels are respected."""

    async def play() -> None:
        group = Group(topic)
        await group.open()
        await group.join(10_000)
        watched = Watched(group)
        for name, value in script:
            members = list(group.links)
            better = {c: group.taken(c) for c in members if c.priority_level == 1}
            was_able = any(group.is_able(c) for c in members if c.priority_level == 0)
            if name == "publish":
                await group.publish(*value)
            elif name == "join":
                await group.join(*value)
            elif members:
                number = value[0] if name == "flow" else value
                consumer = members[number % len(members)]
                if name == "leave":
                    group.leave(consumer)
                elif name == "flow":
                    group.flow(consumer, value[1])
                elif name == "stall":
                    group.links[consumer].writable = False
                elif name == "drain":
                    group.links[consumer].drain()
                else:
                    consumer.subscription.redeliver(consumer, None, None)
            still_able = any(group.is_able(c) for c in group.links if c.priority_level == 0)
            if was_able and still_able and name not in ("flow", "drain", "join"):
                assert all(group.taken(c) == taken for c, taken in better.items() if c in group.links)
            watched.look()
        await group.broker.stop()

    run(play())


def test_a_consumer_that_comes_back_does_not_catch_up() -> None:
    """It was slow for a while: it gets its share from then on, and not everything until it has the same number as
    the others."""

    async def play() -> None:
        group = Group(PERSISTENT)
        await group.open()
        slow, fast = await group.join(0), await group.join(10_000)
        await group.publish(*[1] * 500)
        group.flow(slow, 10_000)
        await group.publish(*[1] * 200)
        await group.broker.stop()
        assert abs(group.taken(slow) - 100) <= TURN_MESSAGES
        assert abs(group.taken(fast) - 600) <= TURN_MESSAGES

    run(play())


def test_what_a_leaving_consumer_held_is_shared_by_all_others() -> None:
    """Redeliveries go round as new messages do."""

    async def play() -> None:
        group = Group(PERSISTENT)
        await group.open()
        first = await group.join(400)
        await group.publish(*[1] * 400)
        others = [await group.join(10_000) for _ in range(4)]
        group.leave(first)
        await group.broker.stop()
        assert [group.taken(other) for other in others] == [100] * 4

    run(play())


# -------------------------------------------------------------------------------------------- Key_Shared and Failover


@settings(max_examples=50, deadline=None)
@given(names=st.lists(st.text("abcdefgh0123456789-", min_size=1, max_size=12), min_size=2, max_size=10, unique=True))
def test_slots_are_shared_evenly(names: list[str]) -> None:
    """Each consumer of a Key_Shared subscription has between half and twice the even share, for any names."""
    selector: HashRing[Candidate] = HashRing()
    for name in names:
        selector.add(Candidate(name))
    slots = dict.fromkeys(names, 0)
    for slot in range(0, RANGE_SIZE, 16):
        owner = selector.select(slot)
        assert owner is not None
        slots[owner.name] += 1
    even = RANGE_SIZE / 16 / len(names)
    assert min(slots.values()) >= even / 2
    assert max(slots.values()) <= even * 2


@settings(max_examples=40, deadline=None)
@given(keys=st.lists(st.integers(0, 5), min_size=1, max_size=60), permits=st.lists(st.integers(1, 5), max_size=40))
def test_what_waits_for_one_consumer_comes_to_it_oldest_first(keys: list[int], permits: list[int]) -> None:
    """A key with many messages does not overtake another key of the same consumer."""

    async def play() -> None:
        group = Group(PERSISTENT, SubscriptionType.KEY_SHARED)
        await group.open()
        slow, fast = await group.join(0), await group.join(10_000)
        for key, more in zip(keys, permits + [0] * len(keys), strict=False):
            await group.publish(1, key=f"key-{key}")
            group.flow(slow, more if more > 3 else 0)
        for more in permits:
            group.flow(slow, more)
        await group.broker.stop()
        for consumer in (slow, fast):
            positions = [position for _, position, _ in group.links[consumer].delivered]
            assert positions == sorted(positions)

    run(play())


def test_a_slow_consumer_does_not_hold_up_the_keys_of_others() -> None:
    """Every message of the other consumer's keys arrives, while fewer than the look-ahead wait for the slow one."""

    async def play() -> None:
        group = Group(PERSISTENT, SubscriptionType.KEY_SHARED)
        await group.open()
        slow, fast = await group.join(0), await group.join(10_000)
        keys = [f"key-{number % 50}" for number in range(1000)]
        for key in keys:
            await group.publish(1, key=key)
        subscription = group.topic.subscriptions["s"]
        selector = subscription.dispatcher.selector  # type: ignore[union-attr]
        due = sum(selector.select(selector.slot_of(key.encode())) is fast for key in keys)
        await group.broker.stop()
        assert 0 < due < 1000
        assert group.taken(fast) == due
        assert group.taken(slow) == 0

    run(play())


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(st.tuples(consumer_name, st.integers(0, 2)), min_size=1, max_size=8),
    partitions=st.integers(1, 40),
)
def test_partitions_are_shared_evenly_by_the_consumers_of_the_best_priority(
    members: list[tuple[str, int]], partitions: int
) -> None:
    """Failover: no two of them are active in numbers of partitions that differ by more than one; others in none."""
    consumers = [Candidate(name, priority) for name, priority in members]
    active = dict.fromkeys(consumers, 0)
    for partition in range(partitions):
        choice: FailoverChoice[Candidate] = FailoverChoice("t", partition)
        for consumer in consumers:
            choice.add(consumer)
        chosen = choice.active
        assert chosen is not None
        active[chosen] += 1
    best = min(consumer.priority_level for consumer in consumers)
    of_best = [count for consumer, count in active.items() if consumer.priority_level == best]
    assert max(of_best) - min(of_best) <= 1
    assert sum(of_best) == partitions


def test_joining_and_leaving_keeps_partitions_shared_evenly() -> None:
    """The choice of a real failover subscription after each change, over eight partitions."""

    async def play() -> None:
        partitions = [Group(f"{PERSISTENT}-partition-{index}", SubscriptionType.FAILOVER) for index in range(8)]
        for group in partitions:
            await group.open()

        def active() -> list[int]:
            by_name: dict[str, int] = {}
            for group in partitions:
                for consumer in group.links:
                    by_name.setdefault(consumer.name, 0)
                subscription = group.topic.subscriptions["s"]
                assert subscription.active_consumer is not None
                by_name[subscription.active_consumer.name] += 1
            return sorted(by_name.values())

        shares = []
        for _ in range(4):
            for group in partitions:
                await group.join(1000)
            shares.append(active())
        for group in partitions:
            group.leave(next(iter(group.links)))
        shares.append(active())
        for group in partitions:
            await group.broker.stop()
        assert shares == [[8], [4, 4], [2, 3, 3], [2, 2, 2, 2], [2, 3, 3]]

    run(play())
