"""Transfers in any order with everything else that happens to a topic: nothing is lost, duplicated or left behind."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.errors import TopicFencedError
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerFencedError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol.frames import split_entry
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.short_forms import examples
from support.two_brokers import BUNDLE, HeldLedgers, TwoBrokers, running_topics, turns
from support.wire_client import entry_of

TOPIC = TopicName.parse("persistent://public/default/t")
REFUSED = (NotServedError, TopicFencedError)

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "send",
                "send",
                "ack",
                "flow",
                "detach",
                "attach",
                "attach",
                "begin",
                "finish",
                "finish_without_owner",
                "close_topic",
                "close_bundle",
                "hand_over",
                "take_back",
                "hold",
                "let_go",
                "wait",
            ]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


class World:
    """A producer that sends unacknowledged messages again, and a consumer, at two brokers that transfer a topic."""

    def __init__(self) -> None:
        self.source: OneBroker
        self.links: list[RecordingLink] = []
        self.pushed: dict[RecordingLink, int] = {}
        self.producer: Producer | None = None
        self.consumer: Consumer | None = None
        self.sent = 0
        self.confirmed = 0
        self.work: list[asyncio.Task[Any]] = []
        self.topics: dict[Topic, None] = {}
        self.clients: list[Producer | Consumer] = []
        self.detached: set[object] = set()

    async def open(self, deduplicates: bool) -> None:
        config = BrokerConfig(
            managed_ledger_max_entries_per_ledger=10,
            broker_deduplication_enabled=deduplicates,
            default_retention_time_in_minutes=-1,  # `check_stored` reads what was consumed, too
            default_retention_size_in_mb=-1,
        )
        self.cluster = await TwoBrokers(config, storage=HeldLedgers).start()
        self.source = self.cluster.a

    def spawn(self, work: Any) -> None:
        self.work.append(asyncio.create_task(work))

    def observe(self) -> None:
        """A receipt comes once, in the order of the sends; a client that was sent away gets that once and nothing
        more."""
        for link in self.links:
            ids = [sequence_id for sequence_id, _ in link.receipts]
            assert ids == sorted(set(ids))
            assert len(link.closed) == len(set(link.closed))
            if ids:
                self.confirmed = max(self.confirmed, ids[-1] + 1)
        for topic in self.topics:
            assert isinstance(topic, PersistentTopic)
            if topic.state.is_transfer:
                clients = [*topic.producers.values(), *topic.consumers()]
                assert all(client.closed for client in clients), "one is still served"
                assert not told(self.links).intersection(clients), "one was told and is still there"
                assert all(each.dispatcher is None for each in topic.subscriptions.values())
            if topic.state in (TopicState.TRANSFERRED, TopicState.CLOSED):
                with pytest.raises((LedgerClosedError, LedgerFencedError)):
                    topic.ledger.check_open()

    async def do(self, step: str, number: int) -> None:
        await getattr(self, f"do_{step}")(number)
        self.observe()

    def is_gone(self, client: Producer | Consumer) -> bool:
        return client in self.detached or client in told(self.links)

    async def do_attach(self, _: int) -> None:
        """Both clients attach at the owner, if they are not attached; the producer sends again."""
        owner = self.cluster.owner
        if owner is None or any(ledgers.held for ledgers in map(ledgers_of, self.cluster.brokers)):
            return
        try:
            topic = await owner.registry.get_or_create(TOPIC)
            self.topics[topic] = None
            if self.producer is None or self.is_gone(self.producer):
                link = RecordingLink()
                self.links.append(link)
                options = ProducerOptions("p", epoch=len(self.links), user_provided_name=False)
                self.producer = await topic.add_producer(link, len(self.links), options)
                self.clients.append(self.producer)
                self.pushed[link] = self.confirmed
                self.push()
            if self.consumer is None or self.is_gone(self.consumer):
                link = RecordingLink()
                self.links.append(link)
                request = SubscribeRequest(
                    1,
                    "s",
                    SubscriptionType.EXCLUSIVE,
                    ConsumerOptions("c"),
                    KeySharedMode.AUTO_SPLIT,
                    from_earliest=True,
                )
                self.consumer = await topic.subscribe(link, request)
                self.clients.append(self.consumer)
                self.consumer.subscription.attached(self.consumer)
        except REFUSED:
            pass

    def push(self) -> None:
        """Send what has no receipt and was not sent on this link, as the connection does: nothing to a closed
        client."""
        producer = self.producer
        if producer is None or self.is_gone(producer):
            return
        link = producer.link
        assert isinstance(link, RecordingLink)
        for sequence_id in range(self.pushed[link], self.sent):
            self.pushed[link] = sequence_id + 1
            if producer.closed:
                producer.topic.sends_dropped(1)
            else:
                entry = entry_of(b"%d" % sequence_id, sequence_id=sequence_id)
                producer.topic.publish([(producer, sequence_id, 0, 1, len(entry), 0)], [(entry, 1, 0)])

    async def do_send(self, number: int) -> None:
        self.sent += number
        self.push()

    async def do_ack(self, number: int) -> None:
        consumer = self.consumer
        if consumer is not None and not consumer.closed:
            delivered = [position for who, position, _ in consumer.link.delivered if who is consumer]  # type: ignore[attr-defined]
            consumer.subscription.ack_individual(consumer, delivered[:number])

    async def do_flow(self, number: int) -> None:
        if self.consumer is not None and not self.consumer.closed:
            self.consumer.flow(number)

    async def do_detach(self, number: int) -> None:
        if number % 2 and self.consumer is not None:
            self.consumer.subscription.detach(self.consumer)
            self.detached.add(self.consumer)
        elif self.producer is not None:
            self.producer.topic.forget_producer(self.producer)
            self.detached.add(self.producer)

    async def do_begin(self, _: int) -> None:
        self.spawn(self.cluster.begin(self.source))

    async def do_hand_over(self, _: int) -> None:
        """The other broker owns from here on, with or without the first phase."""
        await self.leave()
        self.source = self.cluster.other(self.source)
        await self.cluster.take(self.source)

    async def leave(self) -> None:
        self.cluster.authority(self.source).leave()
        await turns(1)

    async def do_take_back(self, _: int) -> None:
        await self.leave()
        await self.cluster.take(self.source)

    async def do_finish(self, _: int) -> None:
        for broker in self.cluster.brokers:
            if broker is not self.cluster.owner:
                owner = self.cluster.owner
                urls = self.cluster.urls(owner) if owner is not None else None
                self.spawn(broker.registry.finish_transfer(BUNDLE, urls, reason="test"))

    async def do_finish_without_owner(self, _: int) -> None:
        for broker in self.cluster.brokers:
            self.spawn(broker.registry.finish_transfer(BUNDLE, None, reason="test"))

    async def do_close_topic(self, number: int) -> None:
        self.spawn(self.cluster.brokers[number % 2].registry.close_topic(TOPIC))

    async def do_close_bundle(self, number: int) -> None:
        broker = self.cluster.brokers[number % 2]
        if broker is not self.cluster.owner:
            self.spawn(broker.registry.close_bundle(BUNDLE, reason="test"))

    async def do_hold(self, number: int) -> None:
        ledgers_of(self.cluster.brokers[number % 2]).held = True

    async def do_let_go(self, _: int) -> None:
        for broker in self.cluster.brokers:
            ledgers_of(broker).let_go()

    async def do_wait(self, number: int) -> None:
        await turns(number * 3)

    async def finish(self) -> None:
        """After anything before: all faults end, the clients come back, and the topic has every message."""
        await self.do_let_go(0)
        for broker in self.cluster.brokers:
            self.cluster.authority(broker).leave()
        await self.do_finish_without_owner(0)
        await asyncio.wait_for(asyncio.gather(*self.work), 30)
        assert [topic for broker in self.cluster.brokers for topic in broker.registry.loaded()] == []
        assert running_topics() == []
        for broker in self.cluster.brokers:
            assert not broker.ledgers.caches.open_paths, "a ledger is left"
        self.observe()
        assert [client for client in self.clients if not self.is_gone(client)] == [], "some were told nothing"
        await self.cluster.take(self.source)
        await self.do_attach(0)
        topic = self.source.registry.get_loaded(TOPIC)
        assert isinstance(topic, PersistentTopic)
        await topic.wait_drained()
        self.observe()
        assert self.confirmed == self.sent
        await self.check_stored(topic)

    async def check_stored(self, topic: PersistentTopic) -> None:
        """The first copy of each message is after those before it; with deduplication, there is one copy."""
        stored: list[int] = []
        position = topic.ledger.next_valid(topic.ledger.last_position._replace(ledger_id=-1, entry_id=-1))
        while entries := await topic.ledger.read(position, 100, 1 << 20):
            stored += [int(split_entry(entry.data)[1]) for entry in entries]
            position = topic.ledger.next_valid(entries[-1].position)
        first_time = list(dict.fromkeys(stored))
        assert first_time == list(range(self.sent))
        if topic.deduplicates:
            assert stored == first_time


def told(links: list[RecordingLink]) -> set[object]:
    return {client for link in links for client in link.closed}


def ledgers_of(broker: OneBroker) -> HeldLedgers:
    assert isinstance(broker.ledgers, HeldLedgers)
    return broker.ledgers


async def play(script: list[tuple[str, int]], deduplicates: bool) -> None:
    world = World()
    await world.open(deduplicates)
    try:
        for step, number in script:
            await world.do(step, number)
        await world.finish()
    finally:
        await world.cluster.stop()


@settings(max_examples=examples(200), deadline=None)
@given(script=steps, deduplicates=st.booleans())
def test_transfers_among_all_else(script: list[tuple[str, int]], deduplicates: bool) -> None:
    """Phases in any order and number, with closes, losses of ownership, slow disks and clients that join and leave."""
    asyncio.run(play(script, deduplicates))
