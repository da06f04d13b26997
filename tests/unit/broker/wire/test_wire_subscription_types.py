"""Types of subscription over the wire: which of several consumers gets a message, and which is refused."""

from pulsar_barycenter.broker.subscriptions.sticky_keys import slot_of
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient, entry_of
from support.wire_consumer import FAILOVER, KEY_SHARED, SHARED, TOPIC, assert_no_message, ids, payloads, place

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
    keys = [f"key-{n}" for n in range(10, 18)]
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
