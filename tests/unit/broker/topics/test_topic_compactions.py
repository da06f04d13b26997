"""Compactions of a broker: how they end, what a topic that moves leaves, which strategies topics have."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from pulsar_barycenter.broker.compaction.compactor import KeepsEarlier
from pulsar_barycenter.broker.compaction.topic_compactions import MOST_AT_ONCE
from pulsar_barycenter.broker.errors import CompactionRunningError, TopicFencedError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.registry import TopicRegistry
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.naming.topic import TopicName
from support.compaction_cases import Message, compacted_places, single
from support.one_broker import OneBroker

TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = OneBroker(BrokerConfig(broker_service_compaction_threshold_in_bytes=1 << 40))
    yield running
    await running.stop()


async def topic_of(broker: OneBroker, name: TopicName = TOPIC) -> PersistentTopic:
    found = await broker.registry.get_or_create(name)
    assert isinstance(found, PersistentTopic)
    return found


async def published(broker: OneBroker, *messages: Message, name: TopicName = TOPIC) -> PersistentTopic:
    """Put messages into the topic's ledger, as if they had been sent."""
    topic = await topic_of(broker, name)
    durable = asyncio.Event()
    topic.ledger.on_durable = lambda contexts, first: durable.set()
    for message in messages:
        durable.clear()
        topic.ledger.append(single(message), 1, 0, None)
        await durable.wait()
    return topic


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def succeeded(topic: PersistentTopic) -> None:
    await until(lambda: topic.compactions.status == "SUCCESS")


async def test_a_topic_that_moves_ends_its_compaction_and_the_next_owner_begins_anew(broker: OneBroker) -> None:
    topic = await published(broker, Message("a", b"1"), Message("a", b"2"))
    async with broker.registry.compactions.limit, broker.registry.compactions.limit:
        await topic.compact()
        await broker.unload()
    assert (topic.compactions.status, topic.compactions.last_error) == ("ERROR", "the topic was closed")
    with pytest.raises(TopicFencedError):
        await topic.compact()
    later = await topic_of(broker)
    assert (later.compactions.status, later.ledger.compacted.current) == ("NOT_RUN", None)
    await later.compact()
    await until(lambda: later.compactions.status == "SUCCESS")
    assert [(place.key, place.value) for place in await compacted_places(later.ledger)] == [("a", b"2")]


async def test_a_topic_that_is_deleted_ends_its_compaction(broker: OneBroker) -> None:
    topic = await published(broker, Message("a", b"1"))
    async with broker.registry.compactions.limit, broker.registry.compactions.limit:
        await topic.compact()
        await broker.registry.delete_topic(TOPIC, force=True)
    assert topic.compactions.status == "ERROR"
    assert broker.disk.ledger_ids == set()


async def test_only_so_many_compactions_run_at_once(broker: OneBroker) -> None:
    """The others wait for their turn, and all run at last; one per topic at a time."""
    names = [TopicName.parse(f"persistent://public/default/t{n}") for n in range(2 * MOST_AT_ONCE + 1)]
    topics = [await published(broker, Message("a", b"1"), name=name) for name in names]
    at_once = 0
    for topic in topics:
        await topic.compact()
        with pytest.raises(CompactionRunningError):
            await topic.compact()
    while any(topic.ledger.compacted.is_running for topic in topics):
        begun = [len(topic.ledger._ledgers.compacted) for topic in topics if topic.ledger.compacted.is_running]
        at_once = max(at_once, sum(begun))
        await asyncio.sleep(0)
    assert at_once <= MOST_AT_ONCE
    assert [topic.compactions.successes for topic in topics] == [1] * len(topics)


async def test_a_compaction_that_fails_says_why_and_the_next_one_may_succeed(broker: OneBroker) -> None:
    topic = await published(broker, Message("a", b"1"), Message("a", b"2"))
    broker.disk.capacity_bytes = broker.disk.used_bytes
    await topic.compact()
    await until(lambda: topic.compactions.status == "ERROR")
    assert "no space left" in topic.compactions.last_error
    assert (topic.compactions.failures, topic.compactions.failed_at_ms > 0) == (1, True)
    broker.disk.capacity_bytes = None
    await topic.compact()
    await until(lambda: topic.compactions.status == "SUCCESS")
    assert (topic.compactions.last_error, topic.compactions.removed) == ("", 1)


async def test_a_topic_has_the_strategy_that_the_registry_was_given_for_it(broker: OneBroker) -> None:
    def keeps_first(earlier: bytes, later: bytes | None) -> bool:
        return later is not None

    other = TopicName.parse("persistent://public/default/other")
    strategies: dict[TopicName, KeepsEarlier] = {TOPIC: keeps_first}
    broker.registry = TopicRegistry(broker.config, broker.env, broker.authority, broker.policies, strategies)
    values = {}
    for name in (TOPIC, other):
        messages = [Message("a", b"1"), Message("a", b"2"), Message("b", b"1"), Message("b", None)]
        topic = await published(broker, *messages, name=name)
        await topic.compact()
        await succeeded(topic)
        values[name] = [(place.key, place.value) for place in await compacted_places(topic.ledger)]
    assert values == {TOPIC: [("a", b"1")], other: [("a", b"2")]}


async def test_messages_that_come_while_a_topic_is_compacted_do_not_wait(broker: OneBroker) -> None:
    """The loop has its turn between any 256 messages or so; what comes meanwhile is left to the next compaction."""
    topic = await published(broker, *(Message(f"k{n % 50}", b"%d" % n) for n in range(3000)))
    turns = 0
    await topic.compact()
    while topic.ledger.compacted.is_running:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 2 * 3000 / 256
