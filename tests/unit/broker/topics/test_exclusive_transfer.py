"""Exclusive producers while their topic is transferred: the epoch goes along, and no producer waits for ever."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions
from pulsar_barycenter.broker.errors import ProducerFencedError, TopicFencedError
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerFencedError
from support.recording_link import RecordingLink
from support.transferred_topic import open_topic
from support.two_brokers import BUNDLE, TwoBrokers, turns


@pytest.fixture
async def cluster() -> AsyncIterator[TwoBrokers]:
    running = await TwoBrokers().start()
    yield running
    await running.stop()


async def attach(topic: Topic, name: str, mode: AccessMode, epoch: int | None = None) -> Producer:
    return await topic.add_producer(RecordingLink(), 1, ProducerOptions(name, epoch=1, access_mode=mode), epoch)


async def displaced(topic: Topic) -> None:
    """A had the topic under epoch 0; B has it under epoch 1."""
    await attach(topic, "a", AccessMode.EXCLUSIVE)
    await attach(topic, "b", AccessMode.EXCLUSIVE_WITH_FENCING)
    assert topic.producer_epoch == 1


async def test_the_epoch_goes_along_with_a_transfer(cluster: TwoBrokers) -> None:
    await displaced(await open_topic(cluster.a))
    await cluster.transfer(cluster.a)
    topic = await open_topic(cluster.b)
    with pytest.raises(ProducerFencedError):
        await attach(topic, "a", AccessMode.EXCLUSIVE, 0)
    back = await attach(topic, "b", AccessMode.EXCLUSIVE, 1)
    assert (list(topic.producers.values()), topic.producer_epoch) == ([back], 1)


async def test_the_epoch_goes_along_with_a_topic_that_was_opened_ahead(cluster: TwoBrokers) -> None:
    """The next owner opens the ledger before the lock is its own; it reads the record when the former has closed."""
    topic = await open_topic(cluster.a)
    await attach(topic, "a", AccessMode.EXCLUSIVE)
    epoch = cluster.number()
    cluster.b.registry.prepare(BUNDLE, [str(topic.name)], epoch, are_closed=False)
    await turns(5)
    await attach(topic, "b", AccessMode.EXCLUSIVE_WITH_FENCING)
    await cluster.begin(cluster.a)
    cluster.b.registry.prepare(BUNDLE, [str(topic.name)], epoch, are_closed=True)
    await cluster.take(cluster.b, epoch)
    await cluster.a.registry.finish_transfer(BUNDLE, cluster.urls(cluster.b), reason="test")
    with pytest.raises(ProducerFencedError):
        await attach(await open_topic(cluster.b), "a", AccessMode.EXCLUSIVE, 0)


async def test_the_epoch_stays_through_a_split(cluster: TwoBrokers) -> None:
    """A topic stays open, under the term of its new bundle."""
    topic = await open_topic(cluster.a)
    await displaced(topic)
    authority = cluster.authority(cluster.a)
    authority.terms[BUNDLE] = OwnedBundle(BUNDLE, authority.epochs(), cluster.a.clock.now_ms())
    assert cluster.a.registry.refresh_bundles() == 1
    with pytest.raises(ProducerFencedError):
        await attach(topic, "a", AccessMode.EXCLUSIVE, 0)


@pytest.mark.parametrize("leaves", [True, False], ids=["the holder leaves meanwhile", "the holder stays"])
async def test_who_waits_at_a_topic_in_transfer_is_sent_on(cluster: TwoBrokers, leaves: bool) -> None:
    """The former owner admits no producer any more, not even one whose turn comes then."""
    topic = await open_topic(cluster.a)
    holder = await attach(topic, "holder", AccessMode.EXCLUSIVE)
    waiting = asyncio.create_task(attach(topic, "waits", AccessMode.WAIT_FOR_EXCLUSIVE))
    await turns(2)
    assert topic.waiting_producers == 1
    await cluster.begin(cluster.a)
    if leaves:
        topic.forget_producer(holder)
    await cluster.take(cluster.b)
    await cluster.a.registry.finish_transfer(BUNDLE, cluster.urls(cluster.b), reason="test")
    with pytest.raises(TopicFencedError):
        await waiting
    assert topic.waiting_producers == 0
    assert (await attach(await open_topic(cluster.b), "waits", AccessMode.WAIT_FOR_EXCLUSIVE)).name == "waits"


async def test_a_broker_that_lost_the_topic_without_knowing_admits_nobody(cluster: TwoBrokers) -> None:
    """The record is another broker's by now: the write of the epoch finds out, though nothing else did."""
    stale = await open_topic(cluster.a)
    first = await attach(stale, "a", AccessMode.EXCLUSIVE)
    await cluster.take(cluster.b)
    await attach(await open_topic(cluster.b), "b", AccessMode.EXCLUSIVE_WITH_FENCING)
    stale.forget_producer(first)
    with pytest.raises(LedgerFencedError):
        await attach(stale, "a", AccessMode.EXCLUSIVE, 0)
    assert not stale.producers
