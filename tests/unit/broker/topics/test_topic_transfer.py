"""A bundle transferred in two phases: its topics in each phase, and the information of the next owner."""

import asyncio
from itertools import product
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.subscriptions.types import SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TRANSITIONS, TopicEvent, TopicState, after
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.naming.topic import TopicName
from support.recording_link import RecordingLink
from support.transferred_topic import LOOSE, TOPIC, attach_consumer, attach_producer, ledgers_of, open_topic, publish
from support.two_brokers import BUNDLE, TwoBrokers, running_topics, turns

ELSEWHERE = TopicName.parse("persistent://public/other/t")


def test_every_state_and_event_is_in_the_table_or_refused() -> None:
    """No event leads out of CLOSED, nor back to OPEN, and every state that can be closed can end."""
    for state, event in product(TopicState, TopicEvent):
        if (state, event) in TRANSITIONS:
            assert after(state, event) is not TopicState.OPEN
            assert state is not TopicState.CLOSED or after(state, event) is TopicState.CLOSED
        else:
            with pytest.raises(AssertionError):
                after(state, event)
    for state in TopicState:
        assert after(after(state, TopicEvent.CLOSE), TopicEvent.END) is TopicState.CLOSED


async def test_the_first_phase_answers_what_was_written_lets_the_ledger_go_and_keeps_the_clients(
    cluster: TwoBrokers,
) -> None:
    link = RecordingLink()
    topic = await open_topic(cluster.a)
    assert isinstance(topic, PersistentTopic)
    consumer = await attach_consumer(topic, link, permits=100)
    producer = await attach_producer(topic, link)
    publish(topic, producer, 0, 20)
    await open_topic(cluster.a, ELSEWHERE)
    topic_of_another_bundle = cluster.a.registry.get_loaded(ELSEWHERE)

    assert await cluster.begin(cluster.a) == 1
    assert [sequence_id for sequence_id, _ in link.receipts] == list(range(20))
    assert topic.state is TopicState.TRANSFERRED
    assert cluster.a.registry.get_loaded(TOPIC) is None
    assert link.closed == []
    assert (list(topic.producers.values()), list(topic.consumers())) == ([producer], [consumer])
    assert topic_of_another_bundle is not None
    assert topic_of_another_bundle.state is TopicState.OPEN
    later = await ManagedLedger.open(cluster.b.store, cluster.b.ledgers, TOPIC, epoch=50, clock=cluster.b.clock)
    assert later.stats.entries == 20
    await later.close()
    assert running_topics() == []


async def test_nothing_is_dispatched_and_nothing_taken_from_consumers_in_transfer(held: TwoBrokers) -> None:
    """Entries that become durable in the first phase get receipts, and go to no consumer here."""
    for kind in SubscriptionType:
        link = RecordingLink()
        topic = await open_topic(held.a)
        assert isinstance(topic, PersistentTopic)
        consumer = await attach_consumer(topic, link, kind, permits=5)
        producer = await attach_producer(topic, link)
        publish(topic, producer, 0, 3)
        await topic.wait_drained()
        delivered = list(link.delivered)
        ledgers_of(held).held = True
        publish(topic, producer, 3, 2)
        begun = asyncio.create_task(held.begin(held.a))
        await turns(2)
        assert topic.state is TopicState.TRANSFERRING
        assert consumer.closed
        ledgers_of(held).let_go()
        await begun
        assert [sequence_id for sequence_id, _ in link.receipts] == list(range(5))
        assert link.delivered == delivered
        await held.a.registry.finish_transfer(BUNDLE, None, reason="test")
        await held.take(held.a)
        await held.a.registry.delete_topic(TOPIC, force=True)


async def test_the_second_phase_sends_all_clients_to_the_owner_and_forgets_the_topics(cluster: TwoBrokers) -> None:
    link = RecordingLink()
    owner = ServiceUrls("b:8080", "pulsar://b:6650")
    clients: list[Any] = []
    for name in (TOPIC, LOOSE):
        topic = await open_topic(cluster.a, name)
        clients += [await attach_producer(topic, link), await attach_consumer(topic, link)]
    await open_topic(cluster.a, ELSEWHERE)
    await cluster.begin(cluster.a)
    assert await cluster.a.registry.finish_transfer(BUNDLE, owner, reason="test") == 2
    assert set(link.closed) == set(clients)
    assert link.owners == [owner] * 4
    assert [topic.name for topic in cluster.a.registry.loaded()] == [ELSEWHERE]
    assert await cluster.a.registry.finish_transfer(BUNDLE, owner, reason="test") == 0
    assert len(link.closed) == 4
    assert cluster.a.registry.counters.transfers == 2


async def test_a_first_phase_that_was_begun_again_is_the_same(held: TwoBrokers) -> None:
    topic = await open_topic(held.a)
    producer = await attach_producer(topic, RecordingLink())
    ledgers_of(held).held = True
    publish(topic, producer, 0, 1)
    both = [asyncio.create_task(held.begin(held.a)) for _ in range(2)]
    await turns(3)
    ledgers_of(held).let_go()
    assert await asyncio.gather(*both) == [1, 1]
    assert await held.begin(held.a) == 1
    assert held.a.registry.counters.transfers == 1


async def test_clients_are_told_at_once_though_the_first_phase_is_not_done(held: TwoBrokers) -> None:
    """The caller ran out of time: receipts of what was under way come nonetheless if the term allows it."""
    link = RecordingLink()
    topic = await open_topic(held.a)
    producer = await attach_producer(topic, link)
    ledgers_of(held).held = True
    publish(topic, producer, 0, 3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await held.begin(held.a)
    assert topic.state is TopicState.TRANSFERRING
    owner = held.urls(held.b)
    finished = asyncio.create_task(held.a.registry.finish_transfer(BUNDLE, owner, reason="test"))
    await turns(2)
    assert (link.closed, link.owners) == ([producer], [owner])
    assert topic.state is TopicState.CLOSING
    ledgers_of(held).let_go()
    assert await finished == 1
    assert topic.state is TopicState.CLOSED
    assert len(link.receipts) == 3
    assert not held.a.registry.loaded()
    assert running_topics() == []


async def test_a_transfer_that_was_never_begun_is_finished_all_the_same(cluster: TwoBrokers) -> None:
    link = RecordingLink()
    topic = await open_topic(cluster.a)
    await attach_producer(topic, link)
    cluster.a.authority.leave()  # type: ignore[attr-defined]
    owner = cluster.urls(cluster.b)
    assert await cluster.a.registry.finish_transfer(BUNDLE, owner, reason="test") == 1
    assert link.owners == [owner]
    assert topic.state is TopicState.CLOSED


async def test_what_was_acknowledged_and_sent_before_is_known_to_the_next_owner() -> None:
    """Cursors and the deduplication's snapshot are stored: nothing comes twice, nothing is stored twice."""
    cluster = await TwoBrokers(BrokerConfig(broker_deduplication_enabled=True)).start()
    link = RecordingLink()
    topic = await open_topic(cluster.a)
    consumer = await attach_consumer(topic, link, SubscriptionType.SHARED, permits=100)
    producer = await attach_producer(topic, link)
    publish(topic, producer, 0, 10)
    await topic.wait_drained()
    consumer.subscription.ack_individual(consumer, [position for _, position in link.receipts[:4]])
    await cluster.transfer(cluster.a)

    after_it = RecordingLink()
    there = await open_topic(cluster.b)
    assert isinstance(there, PersistentTopic)
    assert there.last_sequence_id("p") == 9
    dedup = there.ledger.cursors["pulsar.dedup"]
    assert dedup.mark_delete == there.ledger.last_position
    await attach_consumer(there, after_it, SubscriptionType.SHARED, permits=100)
    again = await attach_producer(there, after_it)
    publish(there, again, 8, 4)
    await there.wait_drained()
    assert [position for _, position, _ in after_it.delivered[:6]] == [position for _, position in link.receipts[4:]]
    assert there.ledger.stats.entries == 12
    await cluster.stop()
