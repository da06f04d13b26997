"""A transfer that ends differently, and events meanwhile: closes, loads, deletions, other owners."""

import asyncio

import pytest

from pulsar_barycenter.broker.clients.producer import AccessMode, ProducerOptions
from pulsar_barycenter.broker.errors import TopicFencedError
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerFencedError
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.transferred_topic import LOOSE, TOPIC, attach_consumer, attach_producer, ledgers_of, open_topic, publish
from support.two_brokers import BUNDLE, TwoBrokers, running_topics, turns


@pytest.mark.parametrize("is_done", [True, False], ids=["after the first phase", "during the first phase"])
@pytest.mark.parametrize("way", ["close_bundle", "close_topic", "close", "ledger_fenced"])
async def test_any_close_ends_a_transfer(held: TwoBrokers, way: str, is_done: bool) -> None:
    """Clients are asked to look the topic up, once; no task, no topic and no ledger is left."""
    link = RecordingLink()
    topic = await open_topic(held.a)
    producer = await attach_producer(topic, link)
    consumer = await attach_consumer(topic, link)
    ledgers_of(held).held = True
    publish(topic, producer, 0, 2)
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    if is_done:
        ledgers_of(held).let_go()
        await begun
    registry = held.a.registry
    ends = {
        "close_bundle": lambda: registry.close_bundle(BUNDLE, reason="test"),
        "close_topic": lambda: registry.close_topic(TOPIC),
        "close": registry.close,
        "ledger_fenced": lambda: fence(held.a, topic),
    }
    ended = asyncio.create_task(ends[way]())
    await turns(2)
    assert set(link.closed) == {producer, consumer}
    ledgers_of(held).let_go()
    await asyncio.gather(begun, ended)
    assert await registry.finish_transfer(BUNDLE, held.urls(held.b), reason="test") == 0
    assert link.owners == [None, None]
    assert topic.state is TopicState.CLOSED
    assert not registry.loaded()
    assert running_topics() == []
    assert not held.a.ledgers.caches.open_paths


async def fence(broker: OneBroker, topic: Topic) -> None:
    assert isinstance(topic, PersistentTopic)
    topic.fenced(LedgerFencedError("test", 1, 2))
    await closed(topic)


async def test_a_later_owner_that_did_not_wait_fences_the_first_phase(held: TwoBrokers) -> None:
    """What was under way is not acknowledged here, and the term is reported lost."""
    link = RecordingLink()
    topic = await open_topic(held.a)
    producer = await attach_producer(topic, link)
    publish(topic, producer, 0, 1)
    await topic.wait_drained()
    ledgers_of(held).held = True
    publish(topic, producer, 1, 2)
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    later = await ManagedLedger.open(held.b.store, held.b.ledgers, TOPIC, epoch=50, clock=held.b.clock)
    ledgers_of(held).let_go()
    await begun
    await closed(topic)
    assert [sequence_id for sequence_id, _ in link.receipts] == [0]
    assert link.closed == [producer]
    assert len(held.a.authority.losses) == 1
    assert later.stats.entries == 1
    await later.close()


async def closed(topic: Topic) -> None:
    async with asyncio.timeout(30):
        while topic.state is not TopicState.CLOSED:
            await asyncio.sleep(0)


async def test_a_topic_in_transfer_is_not_loaded_again_while_the_term_is_inactive(cluster: TwoBrokers) -> None:
    topic = await open_topic(cluster.a)
    await cluster.begin(cluster.a)
    for ask in (cluster.a.registry.get_or_create, cluster.a.registry.create):
        with pytest.raises(NotServedError):
            await ask(TOPIC)
    with pytest.raises(TopicFencedError):
        await attach_producer(topic, RecordingLink())
    with pytest.raises(TopicFencedError):
        await attach_consumer(topic, RecordingLink())


@pytest.mark.parametrize("create", [True, False], ids=["create", "get_or_create"])
async def test_a_transfer_that_was_given_up_ends_when_its_topic_is_asked_for_again(
    cluster: TwoBrokers, create: bool
) -> None:
    """The bundle came back before anybody finished; to finish late does nothing to what was loaded since."""
    link = RecordingLink()
    registry = cluster.a.registry
    before = await open_topic(cluster.a)
    await attach_producer(before, link)
    await cluster.begin(cluster.a)
    await cluster.take(cluster.a)
    loaded = await (registry.create(TOPIC) if create else registry.get_or_create(TOPIC))
    assert loaded is not before
    assert link.owners == [None]
    assert loaded.owned.epoch > before.owned.epoch
    assert await registry.finish_transfer(BUNDLE, None, reason="test") == 0
    assert loaded.state is TopicState.OPEN
    assert registry.get_loaded(TOPIC) is loaded


async def test_a_load_under_way_is_waited_for_and_undone(cluster: TwoBrokers) -> None:
    load = asyncio.create_task(open_topic(cluster.a))
    await turns(1)
    assert await cluster.begin(cluster.a) == 0
    with pytest.raises(NotServedError):
        await load
    assert not cluster.a.registry.loaded()


async def test_a_topic_that_is_being_deleted_is_waited_for(cluster: TwoBrokers) -> None:
    await open_topic(cluster.a)
    deleted = asyncio.create_task(cluster.a.registry.delete_topic(TOPIC, force=True))
    await turns(3)
    assert await cluster.begin(cluster.a) <= 1
    await deleted
    assert not cluster.a.registry.loaded()


async def test_clients_that_leave_during_a_transfer_are_gone(cluster: TwoBrokers) -> None:
    for name in (TOPIC, LOOSE):
        link = RecordingLink()
        topic = await open_topic(cluster.a, name)
        producer, consumer = await attach_producer(topic, link), await attach_consumer(topic, link)
        await cluster.begin(cluster.a)
        topic.forget_producer(producer)
        consumer.subscription.detach(consumer)
        assert (dict(topic.producers), list(topic.consumers())) == ({}, [])
        await cluster.a.registry.finish_transfer(BUNDLE, None, reason="test")
        assert link.closed == []
        await cluster.take(cluster.a)


async def test_a_producer_that_waits_for_its_turn_waits_no_longer_once_the_topic_has_gone(cluster: TwoBrokers) -> None:
    topic = await open_topic(cluster.a)
    await topic.add_producer(RecordingLink(), 1, ProducerOptions("first", access_mode=AccessMode.EXCLUSIVE))
    second = ProducerOptions("second", access_mode=AccessMode.WAIT_FOR_EXCLUSIVE)
    waiting = asyncio.create_task(topic.add_producer(RecordingLink(), 2, second))
    await turns(2)
    await cluster.begin(cluster.a)
    assert not waiting.done()
    await cluster.a.registry.finish_transfer(BUNDLE, None, reason="test")
    with pytest.raises(TopicFencedError):
        await waiting
