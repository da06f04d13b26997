"""Consumers over the wire: permits, acknowledgement, redelivery, types of subscription, seek, readers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from barycenter.broker.subscriptions.sticky_keys import slot_of
from barycenter.broker.topics.persistent_topic import PersistentTopic
from barycenter.config.broker_config import BrokerConfig
from barycenter.naming.topic import TopicName
from barycenter.protocol import client_commands, commands
from barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of

TOPIC = "persistent://public/default/t"
EARLIEST = api.CommandSubscribe.Earliest
SHARED = api.CommandSubscribe.Shared
FAILOVER = api.CommandSubscribe.Failover
KEY_SHARED = api.CommandSubscribe.Key_Shared


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    config = BrokerConfig(
        connection_liveness_check_timeout_millis=100,
        active_consumer_failover_delay_time_millis=0,
        max_unacked_messages_per_consumer=20,
    )
    running = await OneBroker(config).start()
    yield running
    await running.stop()


@pytest.fixture
async def client(broker: OneBroker) -> WireClient:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    return client


def subscription_of(broker: OneBroker, name: str = "s") -> PersistentSubscription:
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    return topic.subscriptions[name]


def ids(*positions: tuple[int, int], ack_set: tuple[int, ...] = ()) -> list[api.MessageIdData]:
    return [commands.message_id(ledger, entry, ack_set=ack_set) for ledger, entry in positions]


def place(message: Any) -> tuple[int, int]:
    return message.message_id.ledgerId, message.message_id.entryId


async def payloads(client: WireClient, count: int) -> list[int]:
    return [int(entry[10 + int.from_bytes(entry[6:10], "big") :]) for _, entry in await client.messages(count)]


async def assert_no_message(client: WireClient) -> None:
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == []


# ------------------------------------------------------------------------------------------------ permits


async def test_nothing_is_sent_without_permits(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    await client.send_all(5)
    await assert_no_message(client)
    client.write(client_commands.flow(1, 3))
    assert await payloads(client, 3) == [0, 1, 2]
    await assert_no_message(client)
    client.write(client_commands.flow(1, 0) + client_commands.flow(99, 5) + client_commands.flow(1, 1))
    assert await payloads(client, 1) == [3]
    await assert_no_message(client)


@pytest.mark.parametrize("sub_type", [api.CommandSubscribe.Exclusive, SHARED, KEY_SHARED])
async def test_permits_count_messages_and_a_batch_may_overdraw_them(client: WireClient, sub_type: Any) -> None:
    """An entry goes whole as soon as one permit is left; what is overdrawn is paid back before the next."""
    await client.subscribe(TOPIC, permits=5, sub_type=sub_type)
    for number in range(4):
        client.send(number, b"%d" % number, batch=4)
    assert await payloads(client, 2) == [0, 1]
    await assert_no_message(client)
    client.write(client_commands.flow(1, 3))
    await assert_no_message(client)
    client.write(client_commands.flow(1, 1))
    assert await payloads(client, 1) == [2]


async def test_a_message_names_its_partition(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC + "-partition-3")
    await client.subscribe(TOPIC + "-partition-3", permits=1)
    await client.send_all(1)
    assert (await client.messages(1))[0][0].message_id.partition == 3


# ------------------------------------------------------------------------------------------------ acknowledgement


async def test_an_acknowledged_message_does_not_come_again(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10)
    sent = await client.send_all(5)
    await client.messages(5)
    client.write(client_commands.ack(1, ids(sent[0], sent[3])))
    client.write(client_requests.redeliver(1))
    assert await payloads(client, 3) == [1, 2, 4]
    assert subscription_of(broker).cursor.backlog_entries == 3


async def test_an_acknowledgement_with_a_request_id_is_answered(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10)
    sent = await client.send_all(1)
    answer = await client.ask(client_commands.ack(1, ids(sent[0]), request_id=8), TYPE.ACK_RESPONSE)
    assert (answer[1].request_id, answer[1].HasField("error")) == (8, False)
    unknown = await client.ask(client_commands.ack(55, ids(sent[0]), request_id=9), TYPE.ACK_RESPONSE)
    assert unknown[1].error == api.ConsumerNotFound


async def test_a_cumulative_acknowledgement_of_entry_minus_one_covers_the_ledgers_before(
    broker: OneBroker, client: WireClient
) -> None:
    """That is what the C++ client makes of an acknowledgement inside the first batch of a ledger."""
    await client.subscribe(TOPIC, permits=10)
    sent = await client.send_all(2)
    client.write(client_commands.ack(1, ids((sent[0][0], -1)), cumulative=True))
    await client.settled()
    assert subscription_of(broker).cursor.backlog_entries == 2
    client.write(client_commands.ack(1, ids((sent[0][0] + 1, -1)), cumulative=True))
    await client.settled()
    assert subscription_of(broker).cursor.backlog_entries == 0


async def test_part_of_a_batch_is_not_an_acknowledged_entry(broker: OneBroker, client: WireClient) -> None:
    """A set bit is a message that is not acknowledged yet; with none left the entry is done."""
    await client.subscribe(TOPIC, permits=10)
    for number in range(2):
        client.send(number, batch=3)
    sent = [place(message) for message, _ in await client.messages(2)]
    client.write(client_commands.ack(1, ids(sent[0], ack_set=(0b101,))))
    client.write(client_commands.ack(1, ids(sent[1], ack_set=(0b100,)), cumulative=True))
    await client.settled()
    assert subscription_of(broker).cursor.backlog_entries == 1
    client.write(client_commands.ack(1, ids(sent[1], ack_set=(0,))))
    await client.settled()
    assert subscription_of(broker).cursor.backlog_entries == 0


async def test_a_shared_subscription_takes_no_cumulative_acknowledgement(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10, sub_type=SHARED)
    sent = await client.send_all(2)
    answer = await client.ask(client_commands.ack(1, ids(sent[1]), cumulative=True, request_id=8), TYPE.ACK_RESPONSE)
    assert answer[1].error == api.NotAllowedError
    assert subscription_of(broker).cursor.backlog_entries == 2


# ------------------------------------------------------------------------------------------------ shared


async def test_shared_consumers_take_turns_and_priorities_come_first(client: WireClient) -> None:
    """A consumer of a lower priority gets messages only when those of the best have no permits."""
    await client.subscribe(TOPIC, "s", 1, permits=30, sub_type=SHARED)
    await client.subscribe(TOPIC, "s", 2, permits=30, sub_type=SHARED)
    await client.subscribe(TOPIC, "s", 3, permits=30, sub_type=SHARED, priority_level=1)
    await client.send_all(90)
    taken = [message.consumer_id for message, _ in await client.messages(55)]
    assert taken.count(1) <= 30
    assert taken.count(2) <= 30
    first_of_third = taken.index(3)
    assert set(taken[:first_of_third]) == {1, 2}


async def test_redelivered_messages_come_first_and_are_counted(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=4, sub_type=SHARED)
    await client.send_all(6)
    first = await client.messages(4)
    client.write(client_requests.redeliver(1, ids(place(first[1][0]), place(first[2][0]))))
    client.write(client_commands.flow(1, 4))
    again = await client.messages(4)
    assert [(place(m), m.redelivery_count) for m, _ in again] == [
        (place(first[1][0]), 1),
        (place(first[2][0]), 1),
        (again[2][0].message_id.ledgerId, 0) and (place(again[2][0]), 0),
        (place(again[3][0]), 0),
    ]
    assert place(again[2][0]) > place(first[3][0])


async def test_what_a_lost_consumer_held_goes_to_the_others(broker: OneBroker, client: WireClient) -> None:
    lost = await WireClient.connect(broker.port)
    await lost.subscribe(TOPIC, "s", 1, permits=10, sub_type=SHARED)
    sent = await client.send_all(5)
    await lost.messages(5)
    lost.write(client_commands.ack(1, ids(sent[2])))
    await lost.settled()
    await client.subscribe(TOPIC, "s", 7, permits=10, sub_type=SHARED)
    lost.close()
    assert await payloads(client, 4) == [0, 1, 3, 4]


async def test_too_many_unacknowledged_messages_block_a_shared_consumer(broker: OneBroker, client: WireClient) -> None:
    """It gets more once half the limit (20) is left."""
    await client.subscribe(TOPIC, permits=100, sub_type=SHARED)
    sent = await client.send_all(30)
    await client.messages(21)
    await assert_no_message(client)
    client.write(client_commands.ack(1, ids(*sent[:10])))
    await assert_no_message(client)
    client.write(client_commands.ack(1, ids(*sent[10:11])))
    assert await payloads(client, 9) == list(range(21, 30))


async def test_another_type_is_refused_while_consumers_are_connected(client: WireClient) -> None:
    await client.subscribe(TOPIC, "s", 1, sub_type=SHARED)
    assert (await client.subscribe(TOPIC, "s", 2, sub_type=FAILOVER)).error == api.ConsumerBusy
    await client.ask(commands.close_consumer(1, 50), TYPE.SUCCESS)
    assert not hasattr(await client.subscribe(TOPIC, "s", 2, sub_type=FAILOVER), "error")


# ------------------------------------------------------------------------------------------------ exclusive, failover


async def test_an_exclusive_consumer_that_is_dead_gives_way(broker: OneBroker, client: WireClient) -> None:
    dead = await WireClient.connect(broker.port)
    dead.answers_pings = False
    await dead.subscribe(TOPIC)
    assert not hasattr(await client.subscribe(TOPIC), "error")
    await dead.expect_closed()
    alive = await WireClient.connect(broker.port)
    assert (await alive.subscribe(TOPIC)).error == api.ConsumerBusy


async def test_failover_tells_everyone_who_is_active(client: WireClient) -> None:
    """Partition 1 of two consumers in order of name: the second; and when it goes, the first."""
    topic = TOPIC + "-partition-1"
    for consumer_id, name in ((1, "a"), (2, "b"), (3, "low")):
        priority = 5 if name == "low" else 0
        await client.subscribe(topic, "f", consumer_id, sub_type=FAILOVER, consumer_name=name, priority_level=priority)
    await client.settled()
    state: dict[int, bool] = {}
    for change in client.pending(TYPE.ACTIVE_CONSUMER_CHANGE):
        state[change.consumer_id] = change.is_active
    assert state == {1: False, 2: True, 3: False}
    client.received.clear()
    await client.ask(commands.close_consumer(2, 60), TYPE.SUCCESS)
    await client.settled()
    changes = {c.consumer_id: c.is_active for c in client.pending(TYPE.ACTIVE_CONSUMER_CHANGE)}
    assert changes == {1: True, 3: False}


async def test_a_consumer_epoch_is_echoed_after_a_redelivery(client: WireClient) -> None:
    """Clients that send one drop what was under way before."""
    await client.subscribe(TOPIC, permits=10, consumer_epoch=4)
    await client.send_all(2)
    assert [message.consumer_epoch for message, _ in await client.messages(2)] == [4, 4]
    client.write(client_requests.redeliver(1, epoch=5))
    assert [message.consumer_epoch for message, _ in await client.messages(2)] == [5, 5]


# ------------------------------------------------------------------------------------------------ key-shared


async def send_keys(client: WireClient, keys: list[str]) -> None:
    for number, key in enumerate(keys):
        client.write(client_commands.send(1, number, entry_of(b"%d" % number, sequence_id=number, key=key)))
    for _ in keys:
        await client.expect(TYPE.SEND_RECEIPT)


def half(lower: bool) -> api.KeySharedMeta:
    meta = api.KeySharedMeta(keySharedMode=api.KeySharedMeta.STICKY)
    meta.hashRanges.add(start=0 if lower else 32768, end=32767 if lower else 65535)
    return meta


async def test_sticky_ranges_decide_who_gets_a_key(client: WireClient) -> None:
    await client.subscribe(TOPIC, "k", 1, permits=100, sub_type=KEY_SHARED, key_shared=half(True))
    await client.subscribe(TOPIC, "k", 2, permits=100, sub_type=KEY_SHARED, key_shared=half(False))
    conflict = await client.subscribe(TOPIC, "k", 3, sub_type=KEY_SHARED, key_shared=half(True))
    assert conflict.error == api.ConsumerAssignError
    keys = [f"key-{n}" for n in range(15)]
    await send_keys(client, keys)
    by_payload = {
        int(entry[10 + int.from_bytes(entry[6:10], "big") :]): message.consumer_id
        for message, entry in await client.messages(15)
    }
    assert by_payload == {n: 1 if slot_of(key.encode()) < 32768 else 2 for n, key in enumerate(keys)}


async def test_a_key_waits_until_its_former_consumer_has_acknowledged(client: WireClient) -> None:
    """A consumer joins and takes keys over: it gets their next messages only after the acknowledgement of the old."""
    await client.subscribe(TOPIC, "k", 1, permits=100, sub_type=KEY_SHARED, consumer_name="first")
    keys = [f"key-{n}" for n in range(8)]
    await send_keys(client, keys)
    held = [place(message) for message, _ in await client.messages(8)]
    await client.subscribe(TOPIC, "k", 2, permits=100, sub_type=KEY_SHARED, consumer_name="second")
    await send_keys(client, keys)
    await client.settled()
    early = client.pending(TYPE.MESSAGE)
    assert {message.consumer_id for message in early} == {1}, "the newcomer got a key that is still held"
    assert 0 < len(early) < 8, "some keys move to the newcomer, some stay"
    client.write(client_commands.ack(1, ids(*held)))
    messages = await client.messages(8)
    assert {message.consumer_id for message, _ in messages} == {1, 2}


async def test_keys_keep_their_order_when_a_consumer_leaves(client: WireClient) -> None:
    """What it held comes first, then what waited behind it."""
    await client.subscribe(TOPIC, "k", 1, permits=3, sub_type=KEY_SHARED, consumer_name="first")
    await send_keys(client, ["same"] * 6)
    await client.messages(3)
    await client.subscribe(TOPIC, "k", 2, permits=100, sub_type=KEY_SHARED, consumer_name="second")
    await client.ask(commands.close_consumer(1, 70), TYPE.SUCCESS)
    assert await payloads(client, 6) == [0, 1, 2, 3, 4, 5]


async def test_a_slow_consumer_holds_up_its_own_keys_alone(client: WireClient) -> None:
    await client.subscribe(TOPIC, "k", 1, permits=0, sub_type=KEY_SHARED, key_shared=half(True))
    await client.subscribe(TOPIC, "k", 2, permits=100, sub_type=KEY_SHARED, key_shared=half(False))
    keys = [f"key-{n}" for n in range(15)]
    upper = [n for n, key in enumerate(keys) if slot_of(key.encode()) >= 32768]
    await send_keys(client, keys)
    assert await payloads(client, len(upper)) == upper
    await assert_no_message(client)
    client.write(client_commands.flow(1, 100))
    assert await payloads(client, 15 - len(upper)) == [n for n in range(15) if n not in upper]


# ------------------------------------------------------------------------------------------------ refusals, unload


async def test_a_first_subscribe_that_must_be_repeated_is_closed_with_its_error(
    broker: OneBroker, client: WireClient
) -> None:
    """An ERROR alone would leave a C++ client hanging for 30 s."""
    broker.authority.term(TopicName.parse("persistent://other/ns/t")).active = False
    client.write(client_commands.subscribe(40, 9, "persistent://other/ns/t", "s"))
    assert (await client.expect(TYPE.CLOSE_CONSUMER)).consumer_id == 9
    error = await client.expect(TYPE.ERROR)
    assert (error.request_id, error.error) == (40, api.ServiceNotReady)


async def test_an_unload_closes_consumers_and_ignores_what_they_still_say(
    broker: OneBroker, client: WireClient
) -> None:
    await client.subscribe(TOPIC, permits=10)
    sent = await client.send_all(3)
    await client.messages(3)
    await broker.unload()
    assert (await client.expect(TYPE.CLOSE_CONSUMER)).consumer_id == 1
    client.write(client_commands.ack(1, ids(sent[0])) + client_commands.flow(1, 10) + client_requests.redeliver(1))
    await client.settled()
    await client.subscribe(TOPIC, permits=10)
    assert await payloads(client, 3) == [0, 1, 2]


async def test_acknowledgements_outlive_an_unload(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10)
    sent = await client.send_all(5)
    client.write(client_commands.ack(1, ids(sent[0], sent[1], sent[3])))
    await client.settled()
    await broker.unload()
    await client.subscribe(TOPIC, permits=10)
    await client.expect(TYPE.CLOSE_CONSUMER)
    client.received.clear()
    client.write(client_requests.redeliver(1))
    assert await payloads(client, 2) == [2, 4]


async def test_subscribing_twice_with_one_id_is_confirmed_twice(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    assert not hasattr(await client.subscribe(TOPIC), "error")


async def test_a_topic_that_must_exist_is_not_created(client: WireClient) -> None:
    absent = await client.subscribe("persistent://public/default/absent", force_topic_creation=False)
    assert absent.error == api.TopicNotFound


async def test_unsubscribe_needs_the_only_consumer(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, "s", 1, sub_type=SHARED)
    await client.subscribe(TOPIC, "s", 2, sub_type=SHARED)
    refused = await client.ask(client_requests.unsubscribe(31, 1), TYPE.SUCCESS, TYPE.ERROR)
    assert refused[1].error == api.ConsumerBusy
    await client.ask(commands.close_consumer(2, 32), TYPE.SUCCESS)
    done = await client.ask(client_requests.unsubscribe(33, 1), TYPE.SUCCESS, TYPE.ERROR)
    assert done[0] == TYPE.SUCCESS
    again = await client.ask(client_requests.unsubscribe(34, 1), TYPE.SUCCESS, TYPE.ERROR)
    assert again[1].error == api.MetadataError


# ------------------------------------------------------------------------------------------------ seek, readers


async def seek(client: WireClient, request_id: int, **where: Any) -> list[int]:
    """Seek and return the types of what was said until SUCCESS or ERROR, that included."""
    client.write(client_requests.seek(request_id, 1, **where))
    said = []
    while not said or said[-1] not in (TYPE.SUCCESS, TYPE.ERROR):
        said.append((await client.take(lambda number, _: number != TYPE.MESSAGE))[0])
    client.received.clear()
    return said


async def test_seek_closes_the_consumer_first_and_delivers_the_message_sought(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=100)
    sent = await client.send_all(10)
    await client.messages(10)
    assert await seek(client, 20, position=commands.message_id(*sent[6])) == [TYPE.CLOSE_CONSUMER, TYPE.SUCCESS]
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 4) == [6, 7, 8, 9]
    await seek(client, 21, position=client_commands.EARLIEST)
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 10) == list(range(10))
    await seek(client, 22, position=client_commands.LATEST)
    await client.subscribe(TOPIC, permits=100)
    await assert_no_message(client)
    await seek(client, 23, publish_time_ms=1)
    await client.subscribe(TOPIC, permits=100)
    assert await payloads(client, 10) == list(range(10))


async def test_a_seek_without_a_place_is_refused(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    assert await seek(client, 20) == [TYPE.ERROR]


async def read_from(client: WireClient, position: Any) -> None:
    await client.subscribe(TOPIC, "reader-x", 1, permits=100, durable=False, start_message_id=position)


async def test_a_reader_gets_its_start_first_and_is_forgotten_when_it_goes(
    broker: OneBroker, client: WireClient
) -> None:
    sent = await client.send_all(5)
    await read_from(client, commands.message_id(*sent[2]))
    assert await payloads(client, 3) == [2, 3, 4]
    client.write(client_commands.ack(1, ids(sent[4]), cumulative=True))
    await client.ask(commands.close_consumer(1, 80), TYPE.SUCCESS)
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert topic is not None
    assert topic.subscription_count == 0
    await read_from(client, commands.message_id(*sent[3]))
    assert await payloads(client, 2) == [3, 4]


async def test_a_reader_sought_by_time_keeps_that_place_whatever_start_it_brings(client: WireClient) -> None:
    sent = await client.send_all(5)
    await read_from(client, commands.message_id(*sent[4]))
    await client.messages(1)
    await seek(client, 20, publish_time_ms=1)
    await read_from(client, commands.message_id(*sent[4]))
    assert await payloads(client, 5) == [0, 1, 2, 3, 4]


async def test_the_last_message_id_of_an_empty_topic_is_minus_one(client: WireClient) -> None:
    await client.subscribe(TOPIC)
    answer = (await client.ask(client_commands.get_last_message_id(5, 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE))[1]
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == (2**64 - 1, 2**64 - 1)
    client.send(0, batch=3)
    await client.expect(TYPE.SEND_RECEIPT)
    answer = (await client.ask(client_commands.get_last_message_id(6, 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE))[1]
    assert (answer.last_message_id.entryId, answer.last_message_id.batch_index) == (0, 2)


async def test_consumer_statistics_are_told(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10, sub_type=SHARED)
    await client.send_all(3)
    await client.messages(3)
    stats = (await client.ask(client_requests.consumer_stats(5, 1), TYPE.CONSUMER_STATS_RESPONSE))[1]
    assert (stats.availablePermits, stats.unackedMessages, stats.msgBacklog, stats.type) == (7, 3, 3, "Shared")
    unknown = (await client.ask(client_requests.consumer_stats(6, 9), TYPE.CONSUMER_STATS_RESPONSE))[1]
    assert unknown.error_code == api.ConsumerNotFound


# ------------------------------------------------------------------------------------------------ non-persistent


async def test_non_persistent_messages_without_a_ready_consumer_are_gone(broker: OneBroker) -> None:
    topic = "non-persistent://public/default/t"
    client = await WireClient.connect(broker.port)
    await client.produce(topic)
    await client.subscribe(topic, permits=2)
    await client.send_all(5)
    assert await payloads(client, 2) == [0, 1]
    client.write(client_commands.flow(1, 10))
    await assert_no_message(client)
    assert await seek(client, 20, position=client_commands.EARLIEST) == [TYPE.ERROR]
    assert (await client.ask(client_commands.get_last_message_id(5, 1), TYPE.ERROR))[1].error == api.NotAllowedError
    await client.ask(commands.close_consumer(1, 80), TYPE.SUCCESS)
    found = broker.registry.get_loaded(TopicName.parse(topic))
    assert found is not None
    assert found.subscription_count == 0


async def test_names_that_cannot_be_are_refused_for_good(client: WireClient) -> None:
    """An error that clients retry would cost them their whole operation timeout."""
    for name in ("s" * 1_001, "s" * 2_000_000, "a\0b"):
        assert (await client.subscribe(TOPIC, name, 7)).error == api.NotAllowedError
        assert (await client.subscribe(TOPIC, "s", 8, consumer_name=name)).error == api.NotAllowedError
        assert (await client.produce(TOPIC, 9, producer_name=name)).error == api.NotAllowedError
    assert (await client.subscribe(TOPIC, "s" * 1_000, 7)).request_id
