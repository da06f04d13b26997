"""Topics that the next owner of a bundle opens before its term begins, and their end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.clients.producer import Producer, ProducerOptions
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerFencedError
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.naming.topic import TopicName
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.two_brokers import BUNDLE, TwoBrokers, running_topics
from support.wire_client import entry_of

TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def cluster() -> AsyncIterator[TwoBrokers]:
    running = await TwoBrokers().start()
    yield running
    await running.stop()
    assert running_topics() == []


async def written(broker: OneBroker, name: TopicName = TOPIC) -> Topic:
    """Return a topic that a producer is attached to and has written to."""
    topic = await broker.registry.get_or_create(name)
    send(topic, await topic.add_producer(RecordingLink(), 1, ProducerOptions("p")), 0)
    await topic.wait_drained()
    return topic


def send(topic: Topic, producer: Producer, sequence_id: int) -> None:
    entry = entry_of(b"x", sequence_id=sequence_id)
    topic.publish([(producer, sequence_id, 0, 1, len(entry), 0)], [(entry, 1, 0)])


async def open_ahead(broker: OneBroker, epoch: int, *names: str) -> None:
    """Have topics opened ahead, and wait until they are, with all that is begun in them."""
    broker.registry.prepare(BUNDLE, names or (str(TOPIC),), epoch, are_closed=True)
    while tasks := [task for task in asyncio.all_tasks() if task.get_name().startswith(("prepare-", "begin-ledger"))]:
        await asyncio.wait(tasks)


async def test_a_topic_is_opened_before_the_term_and_loaded_in_it_without_the_store(cluster: TwoBrokers) -> None:
    await written(cluster.a)
    assert cluster.a.registry.written_topics(BUNDLE) == [str(TOPIC)]
    await cluster.begin(cluster.a)
    assert cluster.a.registry.written_topics(BUNDLE) == [str(TOPIC)]
    number = cluster.number()
    await open_ahead(cluster.b, number, *cluster.a.registry.written_topics(BUNDLE))
    assert cluster.b.registry.get_loaded(TOPIC) is None
    assert list(cluster.b.registry.loaded()) == []
    with pytest.raises(NotServedError):
        await cluster.b.registry.get_or_create(TOPIC)

    await cluster.take(cluster.b, number)
    stored = await cluster.b.store.get(f"/managed-ledgers/{TOPIC.persistence_name}")
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert isinstance(topic, PersistentTopic)
    assert topic.owned is cluster.b.authority.served(TOPIC)
    assert (topic.owned.epoch, topic.ledger.epoch) == (number, number)
    link = RecordingLink()
    send(topic, await topic.add_producer(link, 1, ProducerOptions("p")), 1)
    await topic.wait_drained()
    assert [sequence_id for sequence_id, _ in link.receipts] == [1]
    assert len(topic.ledger.stats.ledgers) == 2
    assert await cluster.b.store.get(f"/managed-ledgers/{TOPIC.persistence_name}") == stored


async def made_ahead(cluster: TwoBrokers, epoch: int) -> None:
    """Have the ledger to write to made, while the topic is open elsewhere."""
    before = cluster.disk.ledger_ids
    cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], epoch, are_closed=False)
    while cluster.disk.ledger_ids == before:
        await asyncio.sleep(0)


async def test_the_next_ledger_is_made_while_the_topic_is_written_to_elsewhere(cluster: TwoBrokers) -> None:
    source = await written(cluster.a)
    number = cluster.number()
    await made_ahead(cluster, number)
    made = cluster.disk.ledger_ids - {each.ledger_id for each in source.ledger.stats.ledgers}
    assert len(made) == 1
    link = RecordingLink()
    producer = await source.add_producer(link, 2, ProducerOptions("q"))
    send(source, producer, 1)
    await source.wait_drained()
    assert [sequence_id for sequence_id, _ in link.receipts] == [1]
    await cluster.begin(cluster.a)
    await open_ahead(cluster.b, number)
    await cluster.take(cluster.b, number)
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert topic.ledger.stats.entries == 2
    assert made == cluster.disk.ledger_ids - {topic.ledger.stats.ledgers[0].ledger_id}


async def test_a_client_that_comes_before_the_topic_is_known_to_be_closed_opens_it(cluster: TwoBrokers) -> None:
    """Its own broker serves it, so no other does."""
    await written(cluster.a)
    number = cluster.number()
    await made_ahead(cluster, number)
    await cluster.begin(cluster.a)
    await cluster.take(cluster.b, number)
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert topic.ledger.stats.entries == 1


async def test_a_ledger_made_for_a_transfer_that_came_to_nothing_is_deleted(
    cluster: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_barycenter.broker.topics.preparations.KEPT_S", 0.0)
    await written(cluster.a)
    before = cluster.disk.ledger_ids
    await made_ahead(cluster, cluster.number())
    ends = ("prepare-topic", "close-prepared", "undo-ledger")
    while tasks := [task for task in asyncio.all_tasks() if task.get_name().startswith(ends)]:
        await asyncio.wait(tasks)
    assert cluster.disk.ledger_ids == before


async def test_a_topic_that_is_fenced_while_it_is_opened_is_left_to_whoever_opens_it(cluster: TwoBrokers) -> None:
    source = await written(cluster.a)
    topic, error = PersistentTopic(TOPIC, source.owned, cluster.a.registry), LedgerFencedError("t", 1, 2)
    before = running_topics()
    topic.fenced(error)
    assert running_topics() == before, "nothing is closed that is not open"
    source.ledger.fenced(error)
    with pytest.raises(LedgerFencedError):
        await topic.opened(source.ledger, deduplicate=False)


async def test_whoever_asks_while_a_topic_is_being_opened_gets_that_one(cluster: TwoBrokers) -> None:
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], number, are_closed=True)
    await cluster.take(cluster.b, number)
    one, other = await asyncio.gather(*(cluster.b.registry.get_or_create(TOPIC) for _ in range(2)))
    assert one is other
    assert cluster.b.registry.get_loaded(TOPIC) is one


@pytest.mark.parametrize("is_opened", [True, False], ids=["opened", "being opened"])
async def test_a_term_of_another_number_opens_the_topic_anew(cluster: TwoBrokers, *, is_opened: bool) -> None:
    """The number of the claim that was published first is not that of the term that began."""
    await written(cluster.a)
    await cluster.begin(cluster.a)
    if is_opened:
        await open_ahead(cluster.b, cluster.number())
    else:
        cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], cluster.number(), are_closed=True)
    await cluster.take(cluster.b)
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert isinstance(topic, PersistentTopic)
    assert topic.ledger.epoch == topic.owned.epoch
    assert cluster.b.authority.losses == []
    assert topic.ledger.stats.entries == 1


async def test_what_no_client_asks_for_is_closed_and_opened_when_somebody_does(
    cluster: TwoBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_barycenter.broker.topics.preparations.KEPT_S", 0.0)
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], number, are_closed=True)
    while running_topics():
        await asyncio.sleep(0)
    later = await ManagedLedger.open(cluster.a.store, cluster.a.ledgers, TOPIC, epoch=number, clock=cluster.a.clock)
    await later.close()
    await cluster.take(cluster.b, number)
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert isinstance(topic, PersistentTopic)
    assert topic.ledger.stats.entries == 1


async def test_who_asks_while_an_unused_topic_is_closed_waits_for_that(cluster: TwoBrokers) -> None:
    """Both have one number: opened in parallel, the second would be refused as the term's end."""
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    await open_ahead(cluster.b, number)
    await cluster.take(cluster.b, number)
    closing = cluster.b.registry._preparations.drop(BUNDLE)
    topic = await cluster.b.registry.get_or_create(TOPIC)
    assert [task.done() for task in closing] == [True]
    assert cluster.b.authority.losses == []
    assert isinstance(topic, PersistentTopic)
    assert topic.ledger.epoch == number


@pytest.mark.parametrize("way", ["transfer", "close", "stop"])
async def test_what_was_opened_ahead_and_not_used_leaves_with_its_bundle(cluster: TwoBrokers, way: str) -> None:
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    await open_ahead(cluster.b, number)
    if way == "transfer":
        assert await cluster.b.registry.begin_transfer(BUNDLE, reason="test") == 0
    elif way == "close":
        assert await cluster.b.registry.close_bundle(BUNDLE, reason="test") == 0
    else:
        await cluster.b.registry.close()
    later = await ManagedLedger.open(cluster.a.store, cluster.a.ledgers, TOPIC, epoch=number, clock=cluster.a.clock)
    assert [ledger.entries for ledger in later.stats.ledgers] == [1]
    await later.close()


async def test_a_registry_that_is_closed_opens_nothing(cluster: TwoBrokers) -> None:
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], number, are_closed=True)
    await cluster.b.registry.close()
    assert running_topics() == []
    cluster.b.registry.prepare(BUNDLE, [str(TOPIC)], number, are_closed=True)
    assert running_topics() == []


async def test_a_later_term_elsewhere_takes_what_was_opened_ahead(cluster: TwoBrokers) -> None:
    """The claim was refused, and the bundle went to another; nothing is acknowledged by the former number."""
    await written(cluster.a)
    await cluster.begin(cluster.a)
    number = cluster.number()
    await open_ahead(cluster.b, number)
    await cluster.take(cluster.a)
    topic = await cluster.a.registry.get_or_create(TOPIC)
    send(topic, await topic.add_producer(RecordingLink(), 1, ProducerOptions("p")), 1)
    await topic.wait_drained()
    assert cluster.a.authority.losses == []

    await cluster.take(cluster.b, number)  # as if it knew nothing of that
    link = RecordingLink()
    stale = await cluster.b.registry.get_or_create(TOPIC)
    send(stale, await stale.add_producer(link, 1, ProducerOptions("p")), 2)
    await stale.wait_drained()
    assert link.receipts == []
    assert len(cluster.b.authority.losses) == 1
    assert cluster.a.authority.losses == []


async def test_names_that_are_no_topics_of_the_bundle_are_passed_over(cluster: TwoBrokers) -> None:
    await written(cluster.a)
    await cluster.begin(cluster.a)
    names = (
        "",
        "t",
        "non-persistent://public/default/t",
        "persistent://public/other/t",
        "persistent://public/default/a",
    )
    await open_ahead(cluster.b, cluster.number(), *names, str(TOPIC), str(TOPIC))
    await cluster.take(cluster.b)
    assert cluster.b.authority.losses == []
    assert await cluster.a.store.children("/managed-ledgers/public/default/persistent") == ["t"]


async def test_the_busiest_topics_that_producers_are_attached_to_are_named_first(cluster: TwoBrokers) -> None:
    registry = cluster.a.registry
    names = [TopicName.parse(f"persistent://public/default/{name}") for name in ("idle", "quiet", "busy")]
    for count, name in enumerate(names):
        topic = await written(cluster.a, name)
        topic.published(next(iter(topic.producers.values())), 100 * count, 100)
    await registry.get_or_create(TopicName.parse("persistent://public/default/empty"))
    loose = await registry.get_or_create(TopicName.parse("non-persistent://public/default/loose"))
    await loose.add_producer(RecordingLink(), 1, ProducerOptions("p"))
    registry.update_rates(cluster.a.clock.now_ms() + 60_000)
    assert registry.written_topics(BUNDLE) == [str(name) for name in reversed(names)]
