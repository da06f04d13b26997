"""Consumers over the wire: permits, acknowledgement, redelivery, statistics, refusals, unloads."""

from typing import Any

import pytest

from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient
from support.wire_consumer import KEY_SHARED, SHARED, TOPIC, assert_no_message, ids, payloads, place


def subscription_of(broker: OneBroker, name: str = "s") -> PersistentSubscription:
    topic = broker.registry.get_loaded(TopicName.parse(TOPIC))
    assert isinstance(topic, PersistentTopic)
    return topic.subscriptions[name]


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


async def test_a_consumer_epoch_is_echoed_after_a_redelivery(client: WireClient) -> None:
    """Clients that send one drop what was under way before."""
    await client.subscribe(TOPIC, permits=10, consumer_epoch=4)
    await client.send_all(2)
    assert [message.consumer_epoch for message, _ in await client.messages(2)] == [4, 4]
    client.write(client_requests.redeliver(1, epoch=5))
    assert [message.consumer_epoch for message, _ in await client.messages(2)] == [5, 5]


async def test_consumer_statistics_are_told(client: WireClient) -> None:
    await client.subscribe(TOPIC, permits=10, sub_type=SHARED)
    await client.send_all(3)
    await client.messages(3)
    stats = (await client.ask(client_requests.consumer_stats(5, 1), TYPE.CONSUMER_STATS_RESPONSE))[1]
    assert (stats.availablePermits, stats.unackedMessages, stats.msgBacklog, stats.type) == (7, 3, 3, "Shared")
    unknown = (await client.ask(client_requests.consumer_stats(6, 9), TYPE.CONSUMER_STATS_RESPONSE))[1]
    assert unknown.error_code == api.ConsumerNotFound


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


async def test_names_that_cannot_be_are_refused_for_good(client: WireClient) -> None:
    """An error that clients retry would cost them their whole operation timeout."""
    for name in ("s" * 1_001, "s" * 2_000_000, "a\0b"):
        assert (await client.subscribe(TOPIC, name, 7)).error == api.NotAllowedError
        assert (await client.subscribe(TOPIC, "s", 8, consumer_name=name)).error == api.NotAllowedError
        assert (await client.produce(TOPIC, 9, producer_name=name)).error == api.NotAllowedError
    assert (await client.subscribe(TOPIC, "s" * 1_000, 7)).request_id
