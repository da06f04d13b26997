"""For any actions of consumers in any order: every message reaches a consumer, and none gets one that another holds."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.subscriptions.key_shared_dispatch import KeySharedDispatcher
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.subscriptions.shared_dispatch import SharedDispatcher
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryLedgerStorage
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.short_forms import examples
from support.wire_client import entry_of

TOPIC = TopicName.parse("persistent://public/default/t")
KEYS = 4

steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12), st.integers(1, 3)),
        st.tuples(st.just("join"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("leave"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("flow"), st.integers(0, 5), st.integers(1, 10)),
        st.tuples(st.just("ack"), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("part"), st.integers(0, 5), st.integers(0, 7)),
        st.tuples(st.just("redeliver"), st.integers(0, 5), st.integers(0, 5)),
        st.tuples(st.just("stray"), st.integers(0, 5), st.integers(0, 40)),
        st.tuples(st.just("stall"), st.just(0), st.just(0)),
        st.tuples(st.just("drain"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.just(0)),
    ),
    max_size=30,
)


class World:
    """One subscription, a model of which consumer holds what, and the steps."""

    def __init__(self, kind: SubscriptionType, tail_bytes: int) -> None:
        config = BrokerConfig(managed_ledger_max_entries_per_ledger=10, active_consumer_failover_delay_time_millis=0)
        self.broker = OneBroker(config, ledgers=MemoryLedgerStorage(caches=Caches.of(tail_bytes=tail_bytes)))
        self.kind = kind
        self.link = RecordingLink()
        self.members: list[Consumer] = []
        self.published = 0
        self.key_of: dict[Position, str] = {}
        self.sizes: list[int] = []
        self.size_of: dict[Position, int] = {}
        self.left: dict[Position, int] = {}
        self.held: dict[Position, Consumer] = {}
        self.acked: set[Position] = set()
        self.first_delivered: list[Position] = []
        self.seen = 0
        self.topic: PersistentTopic
        self.producer: Producer
        self.subscription: PersistentSubscription

    async def open(self) -> None:
        topic = await self.broker.registry.get_or_create(TOPIC)
        assert isinstance(topic, PersistentTopic)
        self.topic = topic
        self.producer = await topic.add_producer(self.link, 1, ProducerOptions("p"))
        self.subscription = await topic.create_subscription("s", EARLIEST)

    async def do(self, step: tuple[str, int, int]) -> None:
        name, a, b = step
        await getattr(self, f"do_{name}")(a, b)
        self.observe()

    async def do_publish(self, count: int, batch: int) -> None:
        for _ in range(count):
            key = f"key-{self.published % KEYS}"
            entry = entry_of(b"x", sequence_id=self.published, key=key, batch=batch)
            self.topic.publish([(self.producer, self.published, 0, batch, len(entry), 0)], [(entry, batch, 0)])
            self.published += 1
            self.sizes.append(batch)
        await self.topic.wait_drained()
        for sequence_id, position in self.link.receipts:
            self.key_of[position] = f"key-{sequence_id % KEYS}"
            self.size_of[position] = self.sizes[sequence_id]

    async def do_join(self, number: int, priority: int) -> None:
        if len(self.members) >= 4:
            return
        consumer = self.subscription.attach(
            self.link,
            self.seen * 10 + number,
            self.kind,
            ConsumerOptions(f"c{number}", priority),
            KeySharedMode.AUTO_SPLIT,
        )
        self.members.append(consumer)
        self.subscription.attached(consumer)

    def pick(self, number: int) -> Consumer | None:
        return self.members[number % len(self.members)] if self.members else None

    async def do_leave(self, number: int, _: int) -> None:
        consumer = self.pick(number)
        if consumer is not None:
            self.members.remove(consumer)
            self.release(consumer)
            self.subscription.detach(consumer)

    def release(self, consumer: Consumer, positions: Sequence[Position] | None = None) -> None:
        for position in [p for p, holder in self.held.items() if holder is consumer]:
            if positions is None or position in positions:
                del self.held[position]

    async def do_flow(self, number: int, permits: int) -> None:
        consumer = self.pick(number)
        if consumer is not None:
            consumer.flow(permits)

    def held_by(self, consumer: Consumer) -> list[Position]:
        return [position for position, holder in self.held.items() if holder is consumer]

    async def do_ack(self, number: int, which: int) -> None:
        consumer = self.pick(number)
        if consumer is not None and (held := self.held_by(consumer)):
            chosen = held[which % len(held) :][: which + 1]
            for position in chosen:
                del self.held[position]
            self.acked.update(chosen)
            self.subscription.ack_individual(consumer, chosen)

    async def do_part(self, number: int, bits: int) -> None:
        """A consumer acknowledges messages of the batch that it has held longest, perhaps the last of them."""
        consumer = self.pick(number)
        held = [] if consumer is None else self.held_by(consumer)
        if consumer is not None and held:
            position = held[0]
            left = self.left.get(position, self.all_of(position)) & bits
            if left:
                self.left[position] = left
            else:
                del self.held[position]
                self.acked.add(position)
            self.subscription.ack_parts(consumer, [(position, bits & self.all_of(position))])

    def all_of(self, position: Position) -> int:
        return (1 << self.size_of[position]) - 1

    async def do_stray(self, number: int, which: int) -> None:
        """A consumer acknowledges a message that no consumer holds: it waits for delivery, perhaps not the first."""
        consumer = self.pick(number)
        idle = [position for position in self.key_of if position not in self.held and position not in self.acked]
        if consumer is not None and idle:
            self.acked.add(idle[which % len(idle)])
            self.subscription.ack_individual(consumer, [idle[which % len(idle)]])

    async def do_redeliver(self, number: int, which: int) -> None:
        consumer = self.pick(number)
        if consumer is None:
            return
        positions = self.held_by(consumer)[: which + 1] if which else None
        if not self.kind.is_shared:
            positions = None
        self.release(consumer, positions)
        self.subscription.redeliver(consumer, positions, None)

    async def do_stall(self, _: int, __: int) -> None:
        self.link.writable = False

    async def do_drain(self, _: int, __: int) -> None:
        self.link.drain()

    async def do_wait(self, turns: int, _: int) -> None:
        for _ in range(turns + 1):
            await asyncio.sleep(0)

    def observe(self) -> None:
        """Check what was delivered since the last time, one message after the other."""
        delivered = zip(self.link.delivered[self.seen :], self.link.ack_sets[self.seen :], strict=True)
        for (consumer, position, _), ack_set in delivered:
            assert position not in self.acked, f"{position} was acknowledged before"
            left = self.left.get(position, self.all_of(position))
            assert ack_set == (() if left == self.all_of(position) else (left,))
            holder = self.held.get(position)
            assert holder is None or not self.kind.is_shared, f"{position} is held by {holder} already"
            if self.kind is SubscriptionType.KEY_SHARED:
                key = self.key_of[position]
                others = {h for p, h in self.held.items() if self.key_of[p] == key and h is not consumer}
                assert not others, f"{key} is still held by another consumer"
                for earlier, its_key in self.key_of.items():
                    if its_key == key and earlier < position and earlier not in self.acked:
                        assert self.held.get(earlier) is consumer, f"{position} came before {earlier} of {key}"
            self.held[position] = consumer
        self.seen = len(self.link.delivered)
        if isinstance(dispatcher := self.subscription.dispatcher, SharedDispatcher):
            for consumer in self.members:
                assert consumer.unacked == sum(self.left_of(position) for position in self.held_by(consumer))
            assert dispatcher.unacked == sum(consumer.unacked for consumer in self.members)
        if isinstance(dispatcher, KeySharedDispatcher):
            assert not self.overdue(dispatcher), "entries wait that could be sent"

    def left_of(self, position: Position) -> int:
        """Return the number of messages of an entry that are not acknowledged."""
        return self.left.get(position, self.all_of(position)).bit_count()

    def overdue(self, dispatcher: KeySharedDispatcher) -> list[Position]:
        """Return the entries that wait although they are the oldest of their slot, and nothing holds them back."""
        heads = [(slot, entries[0].position) for slot, entries in dispatcher._waiting.items()]
        return [
            position
            for slot, position in heads
            if slot not in dispatcher._replay_slots
            and (dispatcher._available_owner(slot) is not None or self.subscription.cursor.is_acked(position))
        ]

    async def finish(self) -> None:
        """The present consumers, or one new one, take and acknowledge everything until nothing is left."""
        self.link.drain()
        if not self.members:
            await self.do_join(0, 0)
        for consumer in list(self.members):
            consumer.flow(1_000_000)
        for _ in range(2000):
            self.observe()
            for consumer in self.members:
                held = self.held_by(consumer)
                for position in held:
                    del self.held[position]
                self.acked.update(held)
                self.subscription.ack_individual(consumer, held)
                self.observe()
            if len(self.acked) == self.published:
                break
            await asyncio.sleep(0)
        assert self.acked == set(self.key_of), "not everything was delivered"
        assert self.subscription.cursor.backlog_entries == 0


async def play(kind: SubscriptionType, tail_bytes: int, script: list[tuple[str, int, int]]) -> None:
    world = World(kind, tail_bytes)
    await world.open()
    try:
        for step in script:
            if kind is SubscriptionType.EXCLUSIVE and step[0] == "join" and world.members:
                continue
            await world.do(step)
        await world.finish()
    finally:
        await world.broker.stop()


def run(kind: SubscriptionType, tail_bytes: int, script: list[Any]) -> None:
    asyncio.run(play(kind, tail_bytes, script))


@settings(max_examples=examples(80), deadline=None)
@given(tail_bytes=st.sampled_from([0, 1 << 20]), script=steps)
def test_shared(tail_bytes: int, script: list[Any]) -> None:
    """From the cache and from the ledger."""
    run(SubscriptionType.SHARED, tail_bytes, script)


@settings(max_examples=examples(80), deadline=None)
@given(tail_bytes=st.sampled_from([0, 1 << 20]), script=steps)
def test_key_shared(tail_bytes: int, script: list[Any]) -> None:
    """In addition, a key is with one consumer at a time, and in order."""
    run(SubscriptionType.KEY_SHARED, tail_bytes, script)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([SubscriptionType.FAILOVER, SubscriptionType.EXCLUSIVE]),
    tail_bytes=st.sampled_from([0, 1 << 20]),
    script=steps,
)
def test_one_active_consumer(kind: SubscriptionType, tail_bytes: int, script: list[Any]) -> None:
    """Everything from the first unacknowledged message on goes to the active consumer."""
    run(kind, tail_bytes, script)
