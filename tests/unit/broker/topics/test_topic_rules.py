"""What the policies of a topic do to its clients: limits, rates, refusals. Attached clients follow changes at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import ResourceGroup
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.upkeep import TopicUpkeep
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
VOLATILE = "non-persistent://public/default/t"
SHARED, KEY_SHARED = api.CommandSubscribe.Shared, api.CommandSubscribe.Key_Shared
EVERY_TYPE = (
    api.CommandSubscribe.Exclusive,
    api.CommandSubscribe.Failover,
    SHARED,
    KEY_SHARED,
)
DEADLINE_S = 30


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    running = await OneBroker().start()
    yield running
    await running.stop()


async def follow(broker: OneBroker, **settings: Any) -> None:
    """Let all topics follow other settings, as after a change of policies."""
    broker.policies.config = replace(broker.policies.config, **settings)
    await broker.registry.apply_policies()


def topic_of(broker: OneBroker, name: str = TOPIC) -> PersistentTopic:
    found = broker.registry.get_loaded(TopicName.parse(name))
    assert isinstance(found, PersistentTopic)
    return found


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not done():
            await asyncio.sleep(0.001)


# ---- what is refused ----


@pytest.mark.parametrize("name", [TOPIC, VOLATILE])
async def test_only_allowed_types_of_subscriptions(broker: OneBroker, name: str) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(name)
    await follow(broker, subscription_types_enabled=("Shared", "Failover"))
    for number, sub_type in enumerate(EVERY_TYPE, 1):
        answer = await client.subscribe(name, f"s{number}", number, sub_type=sub_type)
        if sub_type in (SHARED, api.CommandSubscribe.Failover):
            assert not hasattr(answer, "error")
        else:
            assert answer.error == api.NotAllowedError
            assert "doesn't support" in answer.message


@pytest.mark.parametrize("name", [TOPIC, VOLATILE])
async def test_a_consumer_may_attach_so_often_in_a_period(broker: OneBroker, name: str) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(name)
    rate = {"subscribe_throttling_rate_per_consumer": 2, "subscribe_rate_period_per_consumer_in_second": 100_000}
    await follow(broker, **rate)
    for refused in (False, False, True, True):
        answer = await client.subscribe(name)
        assert hasattr(answer, "error") is refused
        if refused:
            assert answer.error == api.NotAllowedError
            assert "subscribe rate limit per consumer" in answer.message
        else:
            await client.ask(commands.close_consumer(1, client.request_id()), TYPE.SUCCESS)
    assert not hasattr(await client.subscribe(name, consumer_id=2), "error"), "another consumer"
    await follow(broker, subscribe_throttling_rate_per_consumer=0)
    assert not hasattr(await client.subscribe(name, consumer_id=1, subscription="x"), "error")


async def test_a_message_that_waits_too_long_is_refused_and_the_next_is_stored(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, delayed_delivery_max_delay_in_millis=60_000)
    now_ms = broker.clock.now_ms()
    client.send(0, deliver_at_time=now_ms + 3_600_000)
    client.send(1, deliver_at_time=now_ms + 30_000)
    refused = await client.expect(TYPE.SEND_ERROR)
    assert (refused.sequence_id, refused.error) == (0, api.NotAllowedError)
    assert "Exceed max allowed delivery delay of 60000 milliseconds" in refused.message
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 1


async def test_answers_to_refused_messages_keep_the_order(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, delayed_delivery_max_delay_in_millis=1)
    late = broker.clock.now_ms() + 3_600_000
    for number in range(20):
        client.send(number, **({"deliver_at_time": late} if number % 3 == 1 else {}))
    answers = [await client.take(lambda number, _: number in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR)) for _ in range(20)]
    assert [message.sequence_id for _, message, _ in answers] == list(range(20))
    assert [number == TYPE.SEND_ERROR for number, _, _ in answers] == [number % 3 == 1 for number in range(20)]


# ---- what consumers get ----


@pytest.mark.parametrize("sub_type", EVERY_TYPE)
@pytest.mark.parametrize("whose", ["topic", "subscription"])
async def test_deliveries_keep_a_rate_and_go_on_when_it_is_lifted(broker: OneBroker, sub_type: Any, whose: str) -> None:
    """The next message of 60 a minute would take a second; the rate is changed before."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    key = f"dispatch_throttling_rate_per_{whose}_in_msg"
    await follow(broker, **{key: 3})
    for number in range(30):
        client.send(number, key=str(number))
    await client.subscribe(TOPIC, sub_type=sub_type, permits=1000, initial_position=api.CommandSubscribe.Earliest)
    await client.messages(3)
    await client.settled()
    dispatcher = topic_of(broker).subscriptions["s"].dispatcher
    assert dispatcher is not None
    assert dispatcher._throttle_timer is not None, "the rest waits"
    await follow(broker, **{key: 0})
    await client.messages(27)


async def test_bytes_are_limited_too_and_both_subscriptions_share_the_rate_of_the_topic(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, dispatch_throttling_rate_per_topic_in_byte=1)
    for name in ("a", "b"):
        await client.subscribe(TOPIC, name, ord(name), permits=1000)
    await client.send_all(2)
    await client.messages(1)
    waiting = [subscription.dispatcher for subscription in topic_of(broker).subscriptions.values()]
    await until(lambda: all(each is not None and each._throttle_timer is not None for each in waiting))
    await follow(broker, dispatch_throttling_rate_per_topic_in_byte=0)
    await client.messages(3)


async def test_what_subscriptions_took_in_advance_returns_when_they_are_removed(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, dispatch_throttling_rate_per_topic_in_msg=6_400)
    for number in range(3):
        await client.subscribe(TOPIC, f"s{number}", number, permits=10)
    await client.send_all(1)
    await client.messages(3)
    topic = topic_of(broker)
    throttle = topic._dispatch
    assert throttle is not None
    later_s = asyncio.get_running_loop().time() + 1_000
    assert throttle.allowance(later_s) < 6_400
    for subscription in list(topic.subscriptions.values()):
        topic.remove_subscription(subscription)
    assert throttle.allowance(later_s + 1_000) == 6_400


async def test_what_a_topic_took_in_advance_returns_to_its_group_when_it_is_unloaded(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    broker.policies.group = ResourceGroup(publish_rate_in_msgs=6_400)
    await broker.registry.apply_policies()
    await client.send_all(1)
    throttle = broker.registry.throttle_of(topic_of(broker).rules.group_rate)
    assert throttle is not None
    later_s = asyncio.get_running_loop().time() + 1_000
    assert throttle.allowance(later_s) < 6_400
    await broker.unload()
    assert throttle.allowance(later_s + 1_000) == 6_400


async def test_a_raised_limit_of_unacknowledged_messages_is_used_at_once(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, max_unacked_messages_per_consumer=2)
    await client.subscribe(TOPIC, sub_type=SHARED, permits=1000)
    await client.send_all(10)
    await client.messages(3)
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == []
    await follow(broker, max_unacked_messages_per_consumer=0)
    await client.messages(7)


async def test_without_delayed_delivery_messages_do_not_wait(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, delayed_delivery_enabled=False)
    await client.subscribe(TOPIC, sub_type=SHARED, permits=10)
    client.send(0, deliver_at_time=broker.clock.now_ms() + 3_600_000)
    await client.messages(1)


async def test_deliveries_wait_until_acknowledgements_can_be_stored(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, dispatcher_pause_on_ack_state_persistent_enabled=True)
    topic = topic_of(broker)
    topic.ledger.settings = LedgerSettings(max_persisted_ranges=1)
    await client.subscribe(TOPIC, sub_type=SHARED, permits=1000)
    positions = await client.send_all(6)
    await client.messages(6)
    for ledger_id, entry_id in positions[1::2]:
        client.write(client_commands.ack(1, [commands.message_id(ledger_id, entry_id)]))
    await client.settled()
    await client.send_all(1, first=6)
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == [], "three ranges are acknowledged, and one is stored"
    for ledger_id, entry_id in positions:
        client.write(client_commands.ack(1, [commands.message_id(ledger_id, entry_id)]))
    await client.messages(1)


# ---- what producers may send ----


async def test_a_connection_is_not_read_while_its_producer_is_over_the_rate(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, max_publish_rate_per_topic_in_messages=1)
    client.send(0, batch=10_000)
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 0
    (connection,) = broker.server.connections
    assert isinstance(connection, Connection)
    assert not connection.is_reading, "a batch is stored as a whole, and these were the messages of 10,000 seconds"
    client.send(1)
    await follow(broker, max_publish_rate_per_topic_in_messages=0)
    assert (await client.expect(TYPE.SEND_RECEIPT)).sequence_id == 1
    assert connection.is_reading


async def test_a_connection_waits_for_the_rate_of_the_group_that_another_one_used_up(broker: OneBroker) -> None:
    client, other = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await other.produce(f"{TOPIC}-other")
    broker.policies.group = ResourceGroup(publish_rate_in_msgs=1)
    await broker.registry.apply_policies()
    client.send(0, batch=10_000)
    await client.expect(TYPE.SEND_RECEIPT)
    other.send(0)
    await other.expect(TYPE.SEND_RECEIPT)
    held = [connection for connection in broker.server.connections if isinstance(connection, Connection)]
    assert [connection.is_reading for connection in held] == [False, False]
    other.send(1)
    broker.policies.group = ResourceGroup(publish_rate_in_msgs=1_000_000)
    await broker.registry.apply_policies()
    assert (await other.expect(TYPE.SEND_RECEIPT)).sequence_id == 1


async def test_other_connections_are_read(broker: OneBroker) -> None:
    client, other = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    await follow(broker, max_publish_rate_per_topic_in_bytes=1)
    await client.send_all(1)
    await other.produce(f"{TOPIC}-other")
    await other.send_all(10)


# ---- what is deleted ----


async def test_topics_whose_subscriptions_have_no_backlog_are_deleted_if_the_policy_says_so(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    for number, name in enumerate(("caught-up", "behind")):
        topic = f"{TOPIC}-{name}"
        await client.produce(topic, number)
        await client.subscribe(topic, consumer_id=number, permits=10)
        ((ledger_id, entry_id),) = await client.send_all(1, producer_id=number)
        if name == "caught-up":
            client.write(client_commands.ack(number, [commands.message_id(ledger_id, entry_id)]))
        await client.ask(commands.close_consumer(number, client.request_id()), TYPE.SUCCESS)
        await client.ask(commands.close_producer(number, client.request_id()), TYPE.SUCCESS)
    upkeep, now_ms = TopicUpkeep(broker.registry), broker.clock.now_ms() + 3_600_000
    assert await upkeep.delete_inactive(now_ms) == 0
    mode = {"broker_delete_inactive_topics_mode": "delete_when_subscriptions_caught_up"}
    await follow(broker, **mode, broker_delete_inactive_topics_max_inactive_duration_seconds=7_200)
    assert await upkeep.delete_inactive(now_ms) == 0
    await follow(broker, broker_delete_inactive_topics_max_inactive_duration_seconds=60)
    assert await upkeep.delete_inactive(now_ms) == 1
    assert [topic.name.local_name for topic in broker.registry.loaded()] == ["t-behind"]


async def test_subscriptions_without_consumers_are_deleted_after_their_time(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    for number, name in enumerate(("used", "unused")):
        await client.subscribe(TOPIC, name, number)
    await client.ask(commands.close_consumer(1, client.request_id()), TYPE.SUCCESS)
    upkeep, now_ms = TopicUpkeep(broker.registry), broker.clock.now_ms() + 600_000
    assert await upkeep.expire_subscriptions(now_ms) == 0
    await follow(broker, subscription_expiration_time_minutes=20)
    assert await upkeep.expire_subscriptions(now_ms) == 0
    await follow(broker, subscription_expiration_time_minutes=9)
    assert await upkeep.expire_subscriptions(now_ms) == 1
    assert topic_of(broker).subscriptions.keys() == {"used"}
