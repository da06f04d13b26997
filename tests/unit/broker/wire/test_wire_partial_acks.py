"""Acknowledging parts of batches over the wire: what is delivered again, and what permits and counts say."""

from typing import Any

import pytest

from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.wire.bounds import ACK_SET_WORDS, IDS_AT_ONCE
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient
from support.wire_consumer import FAILOVER, KEY_SHARED, SHARED, TOPIC, assert_no_message, ids, place

EXCLUSIVE = api.CommandSubscribe.Exclusive
EVERY_TYPE = pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])


def subscription_of(broker: OneBroker) -> PersistentSubscription:
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    return topic.subscriptions["s"]


async def delivered(client: WireClient, *sizes: int) -> list[tuple[int, int]]:
    """Publish batches of these sizes and wait until they have come; return their positions."""
    for number, size in enumerate(sizes):
        client.send(number, b"%d" % number, batch=size)
    return [place(message) for message, _ in await client.messages(len(sizes))]


async def again(client: WireClient, count: int) -> list[tuple[tuple[int, int], list[int]]]:
    """Wait for entries; return position and ack set of each."""
    return [(place(message), list(message.ack_set)) for message, _ in await client.messages(count)]


async def stats(client: WireClient) -> tuple[int, int]:
    """Return the permits and the unacknowledged messages of the consumer."""
    frame = client_requests.consumer_stats(client.request_id(), 1)
    answer = (await client.ask(frame, TYPE.CONSUMER_STATS_RESPONSE))[1]
    return answer.availablePermits, answer.unackedMessages


@EVERY_TYPE
async def test_only_what_is_not_acknowledged_comes_again(client: WireClient, sub_type: Any) -> None:
    """After a redelivery, and to a consumer that comes later; other entries have no ack set."""
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    first, second, third = await delivered(client, 3, 2, 70)
    client.write(client_commands.ack(1, [*ids(first, ack_set=(0b101,)), *ids(third, ack_set=(1, 1 << 5))]))
    client.write(client_requests.redeliver(1))
    assert await again(client, 3) == [(first, [0b101]), (second, []), (third, [1, 1 << 5])]
    client.write(client_commands.ack(1, [*ids(first, ack_set=(0b110,)), *ids(second)]))
    await client.ask(commands.close_consumer(1, client.request_id()), TYPE.SUCCESS)
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    assert await again(client, 2) == [(first, [0b100]), (third, [1, 1 << 5])]


@EVERY_TYPE
async def test_parts_outlive_an_unload(broker: OneBroker, client: WireClient, sub_type: Any) -> None:
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    first, second = await delivered(client, 3, 2)
    client.write(client_commands.ack(1, ids(first, ack_set=(0b010,))))
    await client.settled()
    await broker.unload()
    await client.expect(TYPE.CLOSE_CONSUMER)
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    assert await again(client, 2) == [(first, [0b010]), (second, [])]


async def test_a_cumulative_part_covers_the_entries_before(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=100)
    first, second, third = await delivered(client, 3, 3, 3)
    client.write(client_commands.ack(1, ids(second, ack_set=(0b100,)), cumulative=True))
    client.write(client_requests.redeliver(1))
    assert await again(client, 2) == [(second, [0b100]), (third, [])]
    assert subscription_of(broker).cursor.mark_delete == first
    client.write(client_commands.ack(1, ids(second, ack_set=(0b110,)), cumulative=True))  # an earlier one, late
    client.write(client_requests.redeliver(1))
    assert await again(client, 2) == [(second, [0b100]), (third, [])]


@EVERY_TYPE
async def test_parts_that_leave_nothing_acknowledge_the_entry(
    broker: OneBroker, client: WireClient, sub_type: Any
) -> None:
    """A client that got a part of the batch may never know that all is acknowledged; the broker does."""
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    (batch,) = await delivered(client, 3)
    for left in (0b101, 0b110, 0b011):
        client.write(client_commands.ack(1, ids(batch, ack_set=(left,))))
    await client.settled()
    cursor = subscription_of(broker).cursor
    assert (cursor.backlog_entries, cursor.mark_delete, cursor.partly_acked) == (0, batch, {})
    assert (await stats(client))[1] == 0


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
async def test_permits_and_unacknowledged_messages_count_what_is_left(client: WireClient, sub_type: Any) -> None:
    await client.subscribe(TOPIC, permits=15, sub_type=sub_type)
    first, second = await delivered(client, 3, 5)
    assert await stats(client) == (7, 8)
    client.write(client_commands.ack(1, [*ids(first, ack_set=(0b001,)), *ids(second, ack_set=(0b11110,))]))
    assert await stats(client) == (7, 5)
    client.write(client_requests.redeliver(1))
    await client.messages(2)
    assert await stats(client) == (2, 5)
    client.write(client_commands.ack(1, ids(second)))
    assert await stats(client) == (2, 1)


async def test_permits_of_an_exclusive_consumer_count_what_is_left(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10)
    (batch,) = await delivered(client, 5)
    client.write(client_commands.ack(1, ids(batch, ack_set=(0b11000,))))
    client.write(client_requests.redeliver(1))
    await client.messages(1)
    assert (await stats(client))[0] == 3


async def test_a_blocked_consumer_goes_on_after_parts(client: WireClient) -> None:
    """It is blocked above 20 unacknowledged messages, and gets more at 10."""
    await client.subscribe(TOPIC, permits=100, sub_type=SHARED)
    first, second = await delivered(client, 12, 12)
    client.send(2, b"2", batch=3)
    await assert_no_message(client)
    client.write(client_commands.ack(1, ids(first, ack_set=(0b1,))))
    await assert_no_message(client)
    client.write(client_commands.ack(1, ids(second, ack_set=(0b111111111,))))
    await client.messages(1)


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
async def test_a_consumer_may_acknowledge_parts_that_another_one_holds(
    broker: OneBroker, client: WireClient, sub_type: Any
) -> None:
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    (batch,) = await delivered(client, 3)
    other = await WireClient.connect(broker.port)
    await other.subscribe(TOPIC, "s", 1, sub_type=sub_type)
    other.write(client_commands.ack(1, ids(batch, ack_set=(0b100,))))
    await other.settled()
    assert (await stats(client))[1] == 1
    assert (await stats(other))[1] == 0


async def test_an_ack_set_that_cannot_be_is_refused_and_changes_nothing(broker: OneBroker, client: WireClient) -> None:
    """Longer than for any batch: refused. Longer than this batch: ignored, as an unknown entry is."""
    await client.subscribe(TOPIC, permits=100)
    first, second = await delivered(client, 3, 3)
    too_long = ids(second, ack_set=(1,) * (ACK_SET_WORDS + 1))
    for message_ids, cumulative in (([*ids(first), *too_long], False), (too_long, True)):
        frame = client_commands.ack(1, message_ids, cumulative=cumulative, request_id=client.request_id())
        assert (await client.ask(frame, TYPE.ACK_RESPONSE))[1].error == api.NotAllowedError
    for ack_set in ((0b1001,), (1, 1), (-1,), (1,) * ACK_SET_WORDS):
        client.write(client_commands.ack(1, ids(first, ack_set=ack_set)))
    await client.settled()
    cursor = subscription_of(broker).cursor
    assert (cursor.backlog_entries, cursor.partly_acked) == (2, {})


async def test_a_large_ack_takes_parts_in_steps(broker: OneBroker, client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=100)
    (batch,) = await delivered(client, 3)
    unknown = ids(*((batch[0], 1000 + number) for number in range(IDS_AT_ONCE)))
    frame = client_commands.ack(1, [*unknown, *ids(batch, ack_set=(0b10,))], request_id=client.request_id())
    assert not (await client.ask(frame, TYPE.ACK_RESPONSE))[1].HasField("error")
    assert subscription_of(broker).cursor.partly_acked == {batch: 0b10}


@EVERY_TYPE
async def test_a_seek_forgets_parts_and_may_begin_inside_a_batch(client: WireClient, sub_type: Any) -> None:
    await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
    first, second = await delivered(client, 3, 3)
    client.write(client_commands.ack(1, ids(first, ack_set=(0b100,))))
    for ack_set, sent in (((), []), ((0,), []), ((0b110,), [0b110]), ((0b1000,), [])):
        (target,) = ids(first, ack_set=ack_set)
        await client.ask(client_requests.seek(client.request_id(), 1, position=target), TYPE.SUCCESS)
        await client.expect(TYPE.CLOSE_CONSUMER)
        await client.subscribe(TOPIC, permits=100, sub_type=sub_type)
        assert await again(client, 2) == [(first, sent), (second, [])]
    (target,) = ids(first, ack_set=(1,) * (ACK_SET_WORDS + 1))
    refused = await client.ask(client_requests.seek(client.request_id(), 1, position=target), TYPE.SUCCESS, TYPE.ERROR)
    assert refused[1].error == api.NotAllowedError


async def test_a_bit_set_that_the_batch_does_not_have_is_not_sent(broker: OneBroker, client: WireClient) -> None:
    """The broker did not know the size of the batch when it took the part: what the batch has counts."""
    await client.subscribe(TOPIC, permits=100)
    first, second = await delivered(client, 3, 3)
    subscription_of(broker).cursor._partial.restore(Position(*first), 0b1000)
    subscription_of(broker).cursor._partial.restore(Position(*second), 0b1001)
    client.write(client_requests.redeliver(1))
    assert await again(client, 2) == [(first, []), (second, [0b1])]


async def test_with_the_key_off_a_batch_is_acknowledged_as_a_whole() -> None:
    broker = await OneBroker(BrokerConfig(acknowledgment_at_batch_index_level_enabled=False)).start()
    try:
        client = await WireClient.connect(broker.port)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, permits=100, sub_type=SHARED)
        first, second = await delivered(client, 3, 3)
        client.write(client_commands.ack(1, ids(first, ack_set=(0b100,))))
        assert (await stats(client))[1] == 6
        client.write(client_requests.redeliver(1))
        assert await again(client, 2) == [(first, []), (second, [])]
    finally:
        await broker.stop()
