"""A bundle handed over in two phases: what its topics do between them, and how each transfer ends."""

import asyncio
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions
from barycenter.broker.cluster.lookup_answers import ListenerUrls
from barycenter.broker.cluster.service_urls import ServiceUrls
from barycenter.broker.errors import TopicFencedError
from barycenter.broker.ownership.serving import NotServedError
from barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from barycenter.broker.topics.non_persistent_topic import NonPersistentTopic
from barycenter.broker.topics.persistent_topic import PersistentTopic
from barycenter.broker.topics.states import TRANSITIONS, TopicEvent, TopicState, after
from barycenter.broker.topics.topic import SubscribeRequest, Topic
from barycenter.config.broker_config import BrokerConfig
from barycenter.ledger.errors import LedgerFencedError
from barycenter.ledger.managed.managed_ledger import ManagedLedger
from barycenter.ledger.position import EARLIEST
from barycenter.naming.topic import TopicName
from barycenter.protocol import client_commands, commands
from barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.recording_link import RecordingLink
from support.two_brokers import BUNDLE, HeldLedgers, TwoBrokers, running_topics, turns
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = TopicName.parse("persistent://public/default/t")
LOOSE = TopicName.parse("non-persistent://public/default/t")
ELSEWHERE = TopicName.parse("persistent://public/other/t")


@pytest.fixture
async def cluster() -> AsyncIterator[TwoBrokers]:
    running = await TwoBrokers().start()
    yield running
    await running.stop()


@pytest.fixture
async def held() -> AsyncIterator[TwoBrokers]:
    """The ledgers of broker A make nothing durable until they are let go."""
    running = await TwoBrokers(storage=HeldLedgers).start()
    yield running
    ledgers_of(running).let_go()
    await running.stop()


def ledgers_of(cluster: TwoBrokers) -> HeldLedgers:
    assert isinstance(cluster.a.ledgers, HeldLedgers)
    return cluster.a.ledgers


async def open_topic(broker: OneBroker, name: TopicName = TOPIC) -> Topic:
    return await broker.registry.get_or_create(name)


async def attach_producer(topic: Topic, link: RecordingLink, name: str = "p", number: int = 1) -> Producer:
    return await topic.add_producer(link, number, ProducerOptions(name))


async def attach_consumer(
    topic: Topic, link: RecordingLink, kind: SubscriptionType = SubscriptionType.EXCLUSIVE, permits: int = 0
) -> Consumer:
    request = SubscribeRequest(
        1, "s", kind, ConsumerOptions("c"), KeySharedMode.AUTO_SPLIT, from_earliest=True, start=EARLIEST
    )
    consumer = await topic.subscribe(link, request)
    consumer.subscription.attached(consumer)
    consumer.flow(permits)
    return consumer


def publish(topic: Topic, producer: Producer, first: int, number: int) -> None:
    for sequence_id in range(first, first + number):
        entry = entry_of(b"%d" % sequence_id, sequence_id=sequence_id)
        topic.publish([(producer, sequence_id, 0, 1, len(entry))], [(entry, 1, 0)])


def test_every_state_and_event_is_in_the_table_or_refused() -> None:
    """Nothing leads out of CLOSED, nor back to OPEN, and whatever can be closed can end."""
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
    """Entries that become durable in the first phase get receipts, and go to nobody here."""
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


@pytest.mark.parametrize("is_done", [True, False], ids=["after the first phase", "during the first phase"])
@pytest.mark.parametrize("way", ["close_bundle", "close_topic", "close", "ledger_fenced"])
async def test_any_close_ends_a_transfer(held: TwoBrokers, way: str, is_done: bool) -> None:
    """Clients are told to look the topic up, once; no task, no topic and no ledger is left."""
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
    assert not held.a.ledgers.caches._open


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


async def test_a_non_persistent_topic_stops_and_sends_its_clients_on(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port)
    await client.produce(str(LOOSE))
    await client.subscribe(str(LOOSE), permits=10)
    await client.send_all(1)
    await client.messages(1)
    assert await cluster.begin(cluster.a) == 1
    assert isinstance(next(iter(cluster.a.registry.loaded())), NonPersistentTopic)
    client.send(1)
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.MESSAGE) == []
    await cluster.a.registry.finish_transfer(BUNDLE, cluster.urls(cluster.b), reason="test")
    for kind in (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER):
        assert (await client.expect(kind)).assignedBrokerServiceUrl == cluster.b.lookup.url


# ---- on the wire ----


async def test_what_clients_say_during_a_transfer_is_dropped_and_counted(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC), permits=2)
    ids = [commands.message_id(*position) for position in await client.send_all(3)]
    await client.messages(2)
    await cluster.begin(cluster.a)
    client.send(3)
    client.send(4, batch=10)
    client.write(client_commands.flow(1, 100))
    client.write(client_commands.ack(1, ids[:2]))
    client.write(client_requests.redeliver(1))
    await client.settled()
    assert client.received == []
    _, answer = await client.ask(client_commands.ack(1, ids[:1], request_id=99), TYPE.ACK_RESPONSE)
    assert answer.error == api.ConsumerNotFound
    for question in (
        client_requests.unsubscribe(client.request_id(), 1),
        client_requests.seek(client.request_id(), 1, position=ids[0]),
    ):
        _, answer = await client.ask(question, TYPE.ERROR)
        assert answer.error == api.MetadataError
    assert (await client.produce(str(TOPIC), 2)).error == api.ServiceNotReady
    assert (await client.subscribe(str(TOPIC), "other", 2)).error == api.ServiceNotReady
    counters = cluster.a.registry.counters
    assert (counters.dropped_sends, counters.dropped_acks) == (11, 3)
    await cluster.a.registry.finish_transfer(BUNDLE, None, reason="test")
    client.send(5)
    client.write(client_commands.ack(1, ids[:2]))
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.SEND_ERROR) == []
    assert (counters.dropped_sends, counters.dropped_acks) == (11, 3)
    topic = await later_state(cluster)
    assert topic.subscriptions["s"].cursor.backlog.entries == 3


async def test_readers_are_told_the_last_message_during_a_transfer(held: TwoBrokers) -> None:
    """In both states of the first phase; else every reader that looks whether there is more would fail."""
    client = await WireClient.connect(held.a.port)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC))
    positions = await client.send_all(2)
    ledgers_of(held).held = True
    client.send(2, batch=7)
    await client.settled()
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    question = client_commands.get_last_message_id(client.request_id(), 1)
    _, answer = await client.ask(question, TYPE.GET_LAST_MESSAGE_ID_RESPONSE)
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == positions[1]
    ledgers_of(held).let_go()
    await begun
    _, answer = await client.ask(question, TYPE.GET_LAST_MESSAGE_ID_RESPONSE)
    assert (answer.last_message_id.entryId, answer.last_message_id.batch_index) == (2, 6)
    await held.a.registry.finish_transfer(BUNDLE, None, reason="test")


async def later_state(cluster: TwoBrokers) -> PersistentTopic:
    await cluster.take(cluster.b)
    topic = await open_topic(cluster.b)
    assert isinstance(topic, PersistentTopic)
    return topic


LISTENERS = {
    "inside": ListenerUrls("pulsar://inside:6650", "pulsar+ssl://inside:6651"),
    "outside": ListenerUrls("pulsar://outside:6650"),
}
MANY = ServiceUrls("b:8080", "pulsar://b:6650", "pulsar+ssl://b:6651", listeners=LISTENERS)
ONE = ServiceUrls("b:8080", "pulsar://b:6650", "pulsar+ssl://b:6651")


@pytest.mark.parametrize(
    ("owner", "asked", "told"),
    [
        pytest.param(ONE, None, ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="one address, no look-up here"),
        pytest.param(ONE, "", ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="the default listener"),
        pytest.param(MANY, "", ("pulsar://b:6650", "pulsar+ssl://b:6651"), id="the default one of many"),
        pytest.param(MANY, "inside", ("pulsar://inside:6650", "pulsar+ssl://inside:6651"), id="a listener"),
        pytest.param(MANY, "outside", ("pulsar://outside:6650", None), id="a listener without TLS"),
        pytest.param(MANY, None, (None, None), id="many, and not known which"),
        pytest.param(MANY, "unknown", (None, None), id="a listener that the owner has not"),
        pytest.param(ONE, "inside", (None, None), id="a listener, and the owner has none"),
        pytest.param(None, "inside", (None, None), id="no owner"),
        pytest.param(MANY.owner(is_local=False, epoch=3), "outside", ("pulsar://outside:6650", None), id="an Owner"),
    ],
)
async def test_a_client_is_sent_to_the_listener_for_which_it_looked_up(
    cluster: TwoBrokers, owner: ServiceUrls | None, asked: str | None, told: tuple[str | None, str | None]
) -> None:
    client = await WireClient.connect(cluster.a.port)
    if asked is not None:
        question = client_requests.lookup(client.request_id(), str(TOPIC), listener=asked)
        await client.ask(question, TYPE.LOOKUP_RESPONSE)
    await client.produce(str(TOPIC))
    await client.subscribe(str(TOPIC))
    await cluster.begin(cluster.a)
    await cluster.a.registry.finish_transfer(BUNDLE, owner, reason="test")
    for kind in (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER):
        close = await client.expect(kind)
        fields = ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls")
        assert tuple(getattr(close, name) if close.HasField(name) else None for name in fields) == told


async def test_a_client_that_knows_no_close_from_a_broker_loses_its_connection(cluster: TwoBrokers) -> None:
    client = await WireClient.connect(cluster.a.port, version=4)
    await client.produce(str(TOPIC))
    await cluster.transfer(cluster.a)
    await client.expect_closed()


async def test_closing_a_producer_during_a_transfer_is_confirmed(held: TwoBrokers) -> None:
    client = await WireClient.connect(held.a.port)
    await client.produce(str(TOPIC))
    ledgers_of(held).held = True
    client.send(0)
    await client.settled()
    begun = asyncio.create_task(held.begin(held.a))
    await turns(2)
    client.write(commands.close_producer(1, 77))
    await client.settled()
    assert client.pending(TYPE.SUCCESS) == []
    ledgers_of(held).let_go()
    await begun
    await client.expect(TYPE.SEND_RECEIPT)
    assert (await client.expect(TYPE.SUCCESS)).request_id == 77
    await held.a.registry.finish_transfer(BUNDLE, None, reason="test")
    await client.settled()
    assert client.pending(TYPE.CLOSE_PRODUCER) == []
