"""Producers over the wire: names, receipts, damaged messages, fences, and what an unload sends and drops."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker(BrokerConfig(connection_liveness_check_timeout_millis=100)).start()
    yield running
    await running.stop()


def topic_of(broker: OneBroker) -> PersistentTopic:
    found = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(found, PersistentTopic)
    return found


async def stored(client: WireClient, count: int) -> list[bytes]:
    """Return the first `count` payloads of the topic."""
    await client.subscribe(TOPIC, f"check-{count}", 900, permits=1000, initial_position=api.CommandSubscribe.Earliest)
    messages = await client.messages(count)
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == [], "more was stored than expected"
    return [commands_payload(entry) for _, entry in messages]


def commands_payload(entry: bytes) -> bytes:
    size = int.from_bytes(entry[6:10], "big")
    return entry[10 + size :]


def many_alike(producer_id: int, first: int, count: int) -> list[bytes]:
    """Return SENDs of one size, with their numbers as payloads; `first` + `count` is at most 100."""
    numbers = range(first, first + count)
    return [client_commands.send(producer_id, n, entry_of(b"%02d" % n, sequence_id=n)) for n in numbers]


async def test_generated_names_are_unique_and_kept_on_reconnect(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    first = await client.produce(TOPIC, 1)
    second = await client.produce(TOPIC, 2)
    assert first.producer_name != second.producer_name
    assert first.last_sequence_id == -1
    other = await WireClient.connect(broker.port)
    again = await other.produce(TOPIC, 1, producer_name=first.producer_name, user_provided_name=False, epoch=1)
    assert again.producer_name == first.producer_name


async def test_receipts_come_in_order_and_carry_positions_that_grow(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    positions = await client.send_all(500)
    assert positions == sorted(positions)
    assert len(set(positions)) == 500


async def test_no_receipt_before_the_entry_is_durable() -> None:
    """The disk is held up: neither receipt nor message; both come once it is done."""
    delay = [30.0]
    storage = MemoryLedgerStorage(MemoryDisk(), durability_delay_s=lambda: delay[0])
    running = await OneBroker(ledgers=storage).start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC, permits=10)
    client.send(0)
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.MESSAGE) == []
    topic = topic_of(running)
    topic.write_durable([(next(iter(topic.producers.values())), 0, 0, 1, 10, 0)], topic.ledger.last_position)
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 0
    running.server.abort()


async def test_a_damaged_message_fails_alone_and_in_its_turn(broker: OneBroker) -> None:
    """Its error comes between the receipts of its neighbours, which are stored."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    damaged = bytearray(entry_of(b"1", sequence_id=1))
    damaged[-1] ^= 1
    client.write(
        client_commands.send(1, 0, entry_of(b"0"))
        + client_commands.send(1, 1, bytes(damaged))
        + client_commands.send(1, 2, entry_of(b"2", sequence_id=2))
    )
    answers = []
    for _ in range(3):
        number, message, _ = await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR))
        answers.append((number == TYPE.SEND_RECEIPT, message.sequence_id))
        if number == TYPE.SEND_ERROR:
            assert message.error == api.ChecksumError
    assert answers == [(True, 0), (False, 1), (True, 2)]
    assert await stored(client, 2) == [b"0", b"2"]


async def test_damaged_messages_between_those_of_two_producers_fail_alone_and_in_their_turn(broker: OneBroker) -> None:
    """One read has messages of both producers, in turns and in rows; the answers of each keep its order."""
    client = await WireClient.connect(broker.port)
    for producer_id in (1, 2):
        await client.produce(TOPIC, producer_id)
    damaged = {(1, 0), (1, 3), (2, 4), (2, 5), (1, 9)}
    order = [1, 2, 1, 1, 2, 2, 2, 1, 2, 1]
    data = b""
    for sequence_id, producer_id in enumerate(order):
        entry = entry_of(b"%d" % sequence_id, sequence_id=sequence_id)
        if (producer_id, sequence_id) in damaged:
            entry = entry[:-1] + b"?"
        data += client_commands.send(producer_id, sequence_id, entry)
    client.write(data)
    answers: list[tuple[int, int, bool]] = []
    while len(answers) < len(order):
        number, message, _ = await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR))
        answers.append((message.producer_id, message.sequence_id, number == TYPE.SEND_ERROR))
    assert {(producer, sequence) for producer, sequence, failed in answers if failed} == damaged
    for producer_id in (1, 2):
        sent = [sequence_id for sequence_id, producer in enumerate(order) if producer == producer_id]
        assert [sequence_id for producer, sequence_id, _ in answers if producer == producer_id] == sent
    kept = [b"%d" % n for n, producer_id in enumerate(order) if (producer_id, n) not in damaged]
    assert await stored(client, len(kept)) == kept


async def test_a_damaged_message_among_many_alike_fails_alone_and_in_its_turn(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    written = many_alike(1, 0, 60)
    written[30] = written[30][:-1] + b"?"
    client.write(b"".join(written))
    answers = []
    while len(answers) < 60:
        number, message, _ = await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR))
        answers.append((message.sequence_id, number == TYPE.SEND_ERROR))
    assert answers == [(number, number == 30) for number in range(60)]
    assert await stored(client, 59) == [b"%02d" % number for number in range(60) if number != 30]


async def test_many_messages_alike_are_stored_once_each_and_in_their_order(broker: OneBroker) -> None:
    """Those of two producers in one read, with a request between them."""
    client = await WireClient.connect(broker.port)
    for producer_id in (1, 2):
        await client.produce(TOPIC, producer_id)
    ping = commands.PING
    client.write(b"".join([*many_alike(1, 0, 20), *many_alike(2, 20, 20), ping, *many_alike(1, 40, 20)]))
    receipts = [await client.expect(TYPE.SEND_RECEIPT) for _ in range(60)]
    sent = [(1 if number < 20 or number >= 40 else 2, number) for number in range(60)]
    assert [(receipt.producer_id, receipt.sequence_id) for receipt in receipts] == sent
    assert [receipt.message_id.entryId for receipt in receipts] == list(range(60))
    assert await stored(client, 60) == [b"%02d" % number for number in range(60)]
    topic = topic_of(broker)
    assert [producer.rates.messages for producer in topic.producers.values()] == [40, 20]
    assert topic.in_rates.bytes == sum(len(entry_of(b"%02d" % n, sequence_id=n)) for n in range(60))


async def test_many_messages_alike_of_no_producer_end_the_connection(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    client.write(b"".join(many_alike(1, 0, 20)))
    await client.expect_closed()


async def test_a_message_of_a_negative_number_of_messages_ends_the_connection_and_leaves_nothing_pending(
    broker: OneBroker,
) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    client.write(client_commands.send(1, 0, entry_of(b"0"), num_messages=-1))
    await client.expect_closed()
    assert topic_of(broker).pending == 0


async def test_an_entry_without_metadata_fails_alone(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    client.write(client_commands.send(1, 0, b"\x00\x00"))
    assert (await client.expect(TYPE.SEND_ERROR)).error == api.ChecksumError
    assert len(await client.send_all(1, first=1)) == 1


async def test_closing_a_producer_waits_for_its_receipts(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    for number in range(10):
        client.send(number)
    client.write(commands.close_producer(1, 77))
    seen = []
    while TYPE.SUCCESS not in seen:
        number, _, _ = await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.SUCCESS))
        seen.append(number)
    assert seen == [TYPE.SEND_RECEIPT] * 10 + [TYPE.SUCCESS]
    assert not topic_of(broker).producers
    assert (await client.ask(commands.close_producer(1, 78), TYPE.SUCCESS))[1].request_id == 78


async def test_a_name_is_taken_while_its_holder_answers(broker: OneBroker) -> None:
    holder = await WireClient.connect(broker.port)
    await holder.produce(TOPIC, producer_name="mine")
    other = await WireClient.connect(broker.port)
    assert (await other.produce(TOPIC, producer_name="mine")).error == api.ProducerBusy


async def test_a_holder_that_gives_no_sign_of_life_loses_its_name(broker: OneBroker) -> None:
    holder = await WireClient.connect(broker.port)
    holder.answers_pings = False
    await holder.produce(TOPIC, producer_name="mine")
    other = await WireClient.connect(broker.port)
    assert (await other.produce(TOPIC, producer_name="mine")).producer_name == "mine"
    await holder.expect_closed()


async def test_the_same_producer_asked_for_twice_is_confirmed_twice(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    first = await client.produce(TOPIC, producer_name="mine")
    second = await client.produce(TOPIC, producer_name="mine")
    assert first.producer_name == second.producer_name == "mine"
    assert len(topic_of(broker).producers) == 1


async def test_a_bundle_that_is_not_served_refuses_producers(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    broker.authority.term(TopicName.parse(TOPIC)).active = False
    assert (await client.produce(TOPIC)).error == api.ServiceNotReady


async def test_an_unload_answers_what_was_written_then_closes_and_drops_the_rest(broker: OneBroker) -> None:
    """Receipts first, then CLOSE_PRODUCER; what is sent afterwards is dropped silently and sent again later."""
    client = await WireClient.connect(broker.port)
    name = (await client.produce(TOPIC)).producer_name
    for number in range(20):
        client.send(number, b"%d" % number)
    await client.settled()
    assert await broker.unload() == 1
    seen = []
    while TYPE.CLOSE_PRODUCER not in seen:
        number, _, _ = await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.CLOSE_PRODUCER))
        seen.append(number)
    assert seen == [TYPE.SEND_RECEIPT] * 20 + [TYPE.CLOSE_PRODUCER]
    client.send(20, b"20")
    client.write(b"".join(many_alike(1, 21, 20)))
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.SEND_ERROR) == []
    await client.produce(TOPIC, producer_name=name, user_provided_name=False, epoch=1)
    await client.send_all(1, first=20)
    assert await stored(client, 21) == [b"%d" % number for number in range(21)]


async def test_nothing_is_acknowledged_once_the_term_is_revoked() -> None:
    """The entry may be durable, but this broker may no longer acknowledge it."""
    storage = MemoryLedgerStorage(MemoryDisk(), durability_delay_s=lambda: 0.01)
    running = await OneBroker(ledgers=storage).start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC)
    await client.send_all(1)
    topic = topic_of(running)
    client.send(1)
    await client.settled()
    topic.owned.revoked = True
    await topic.wait_drained()
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == []
    assert topic.owned.acknowledged_entries == 1
    await running.stop()


async def test_a_fenced_ledger_ends_the_term_without_a_receipt(broker: OneBroker) -> None:
    """Another owner opens the topic; our next write finds out, and clients are asked to look it up again."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC)
    await client.send_all(3)
    later_owner = await ManagedLedger.open(
        broker.store, MemoryLedgerStorage(broker.disk), TopicName.parse(TOPIC), epoch=99, clock=broker.clock
    )
    client.send(3)
    await client.expect(TYPE.CLOSE_PRODUCER)
    await client.expect(TYPE.CLOSE_CONSUMER)
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == client.pending(TYPE.SEND_ERROR) == []
    assert len(broker.authority.losses) == 1
    assert later_owner.last_position.entry_id == 2
    await later_owner.close()


async def test_a_full_disk_refuses_in_order_and_recovers(broker: OneBroker) -> None:
    """All that was under way fails, later sends of that producer are dropped, and a new producer starts afresh."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC, producer_name="mine")
    await client.send_all(2)
    broker.disk.capacity_bytes = broker.disk.used_bytes
    for number in range(2, 5):
        client.send(number, b"%d" % number)
    error = await client.expect(TYPE.SEND_ERROR)
    assert (error.sequence_id, error.error) == (2, api.PersistenceError)
    await client.expect(TYPE.CLOSE_PRODUCER)
    broker.disk.capacity_bytes = None
    client.send(5)
    await client.settled()
    assert client.pending(TYPE.SEND_RECEIPT) == []
    await client.produce(TOPIC, producer_name="mine", epoch=1)
    await client.send_all(4, first=2)
    assert await stored(client, 6) == [b"%d" % number for number in range(6)]


async def test_reading_stops_while_too_much_is_unanswered() -> None:
    """With the disk held up the broker takes no more than its limit and a read's worth, and goes on afterwards."""
    delay = [0.05]
    storage = MemoryLedgerStorage(MemoryDisk(), durability_delay_s=lambda: delay[0])
    config = BrokerConfig(max_pending_publish_requests_per_connection=10)
    running = await OneBroker(config, ledgers=storage).start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC)
    assert len(await client.send_all(2000)) == 2000
    await running.stop()


async def test_terms_count_what_they_acknowledged(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await client.send_all(7)
    owned = topic_of(broker).owned
    assert owned.acknowledged_entries == 7
    assert owned.first_acknowledged_at_ms is not None
    assert owned.last_acknowledged_at_ms is not None


async def test_a_producer_that_waits_for_its_turn_is_told_so_and_told_again_when_it_has_the_topic(
    broker: OneBroker,
) -> None:
    first, second = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await first.produce(TOPIC, producer_name="first", access_mode=api.Exclusive)
    waiting = await second.produce(TOPIC, producer_name="second", access_mode=api.WaitForExclusive)
    assert (waiting.producer_ready, waiting.producer_name, waiting.schema_version) == (False, "second", b"")
    assert not waiting.HasField("topic_epoch")
    await second.settled()
    assert second.pending(TYPE.PRODUCER_SUCCESS) == []

    await first.ask(commands.close_producer(1, first.request_id()), TYPE.SUCCESS)
    ready = await second.expect(TYPE.PRODUCER_SUCCESS)
    assert (ready.producer_ready, ready.request_id, ready.topic_epoch) == (True, waiting.request_id, 1)


async def test_a_producer_that_need_not_wait_is_told_once(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    ready = await client.produce(TOPIC, access_mode=api.WaitForExclusive)
    assert (ready.producer_ready, ready.topic_epoch) == (True, 0)
    await client.settled()
    assert client.pending(TYPE.PRODUCER_SUCCESS) == []


async def test_an_initial_subscription_is_not_created_where_none_are_created_by_use() -> None:
    """Pulsar 14458. One that exists is no obstacle; on a non-persistent topic nothing is created anyway."""
    running = await OneBroker(BrokerConfig(allow_auto_subscription_creation=False)).start()
    client = await WireClient.connect(running.port)
    refused = await client.produce(TOPIC, 1, initial_subscription_name="dead")
    assert refused.error == api.NotAllowedError
    assert "'dead'" in refused.message
    assert not topic_of(running).producers
    assert not topic_of(running).subscriptions
    async with topic_of(running).lock:
        await topic_of(running).create_subscription("dead", EARLIEST)
    assert (await client.produce(TOPIC, 1, producer_name="p", initial_subscription_name="dead")).producer_name == "p"
    volatile = TOPIC.replace("persistent", "non-persistent")
    assert (await client.produce(volatile, 2, producer_name="n", initial_subscription_name="dead")).producer_name == "n"
    await running.stop()


async def test_an_initial_subscription_is_created_before_the_first_message() -> None:
    running = await OneBroker().start()
    client = await WireClient.connect(running.port)
    await client.produce(TOPIC, 1, initial_subscription_name="dead")
    await client.send_all(1)
    assert topic_of(running).subscriptions["dead"].cursor.backlog.messages == 1
    await running.stop()


@pytest.mark.parametrize("kind", ["persistent", "non-persistent"])
async def test_topics_of_either_kind_are_not_created_by_use_where_that_is_not_allowed(kind: str) -> None:
    running = await OneBroker(BrokerConfig(allow_auto_topic_creation=False)).start()
    client = await WireClient.connect(running.port)
    topic = f"{kind}://public/default/t"
    for answer in (await client.produce(topic), await client.subscribe(topic)):
        assert answer.error == api.TopicNotFound
    assert not running.registry.loaded()
    await running.registry.create(TopicName.parse(topic))
    assert (await client.produce(topic, producer_name="p")).producer_name == "p"
    await running.stop()


async def test_who_only_asks_for_a_non_persistent_topic_does_not_create_it(broker: OneBroker) -> None:
    topic = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(TopicNotFoundError):
        await broker.registry.get_or_create(topic, create=False)
    assert not broker.registry.loaded()
