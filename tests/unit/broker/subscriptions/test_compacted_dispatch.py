"""Consumers and readers of a compacted topic: what they get, acknowledge and seek, and the last message."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import Entry, Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import message_id
from support import client_requests
from support.compaction_cases import Message, batch, messages_in, single
from support.one_broker import OneBroker
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
EARLIEST = api.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
FROM_START = {"initial_position": api.CommandSubscribe.Earliest, "read_compacted": True}
READER = {"durable": False, "start_message_id": EARLIEST, "read_compacted": True}


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    config = BrokerConfig(
        managed_ledger_max_entries_per_ledger=4,
        active_consumer_failover_delay_time_millis=0,
        broker_service_compaction_threshold_in_bytes=1 << 40,  # so that nothing is trimmed before it is compacted
    )
    running = await OneBroker(config).start()
    yield running
    await running.stop()


async def topic_of(broker: OneBroker) -> PersistentTopic:
    found = await broker.registry.get_or_create(TopicName.parse(TOPIC))
    assert isinstance(found, PersistentTopic)
    return found


async def settle(broker: OneBroker) -> PersistentTopic:
    """Wait for what the topic does in the background: rolling, trimming, compaction."""
    topic = await topic_of(broker)
    await topic.ledger.settled()
    return topic


async def compact(broker: OneBroker) -> PersistentTopic:
    topic = await settle(broker)
    await topic.compact()
    await settle(broker)
    assert topic.compactions.status == "SUCCESS", topic.compactions.last_error
    return await settle(broker)


class Publisher:
    """A producer of keyed messages, each an entry of its own unless it is a list."""

    def __init__(self, broker: OneBroker, client: WireClient) -> None:
        self._broker = broker
        self._client = client
        self._next = 0

    @staticmethod
    async def of(broker: OneBroker) -> "Publisher":
        client = await WireClient.connect(broker.port)
        await client.produce(TOPIC)
        return Publisher(broker, client)

    async def publish(self, *texts: str) -> list[Position]:
        """Publish `key=value` each, `key` alone being a null value, `a=1 b=2` a batch; return their positions."""
        found = []
        for text in texts:
            messages = [_message(part) for part in text.split()]
            entry = single(messages[0]) if len(messages) == 1 else batch(messages)
            count = None if len(messages) == 1 else len(messages)
            self._client.write(client_commands.send(1, self._next, entry, num_messages=count))
            self._next += 1
            receipt = (await self._client.expect(TYPE.SEND_RECEIPT)).message_id
            found.append(Position(receipt.ledgerId, receipt.entryId))
            await settle(self._broker)
        return found


def _message(text: str) -> Message:
    key, _, value = text.partition("=")
    return Message(key, value.encode() if value else None)


async def received(client: WireClient, count: int) -> list[tuple[Position, str]]:
    """Wait for so many entries; return position and messages of each."""
    found = []
    for message, data in await client.messages(count):
        position = Position(message.message_id.ledgerId, message.message_id.entryId)
        places = await messages_in(Entry(position, data, 1, 0))
        found.append((position, " ".join(f"{place.key}={(place.value or b'').decode()}" for place in places)))
    return found


async def texts(client: WireClient, count: int) -> list[str]:
    return [text for _, text in await received(client, count)]


def id_of(position: Position) -> api.MessageIdData:
    return message_id(*position)


async def ack(client: WireClient, *positions: Position, cumulative: bool = False) -> None:
    frame = client_commands.ack(1, [id_of(p) for p in positions], cumulative=cumulative, request_id=client.request_id())
    await client.ask(frame, TYPE.ACK_RESPONSE)


async def last_id(client: WireClient) -> tuple[Position, int]:
    _, answer = await client.ask(
        client_commands.get_last_message_id(client.request_id(), 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE
    )
    last = answer.last_message_id
    if last.ledgerId == 2**64 - 1:
        return Position(-1, -1), -1
    return Position(last.ledgerId, last.entryId), last.batch_index


@pytest.mark.parametrize("how", [FROM_START, READER], ids=["consumer", "reader"])
async def test_what_was_kept_comes_first_and_then_what_was_written_since(
    broker: OneBroker, how: dict[str, Any]
) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish("a=1", "b=1", "a=2", "c=1 b=2 a=3", "d=1", "d")
    await compact(broker)
    places += await publisher.publish("b=3")
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **how)
    assert await received(client, 2) == [(places[3], "c=1 b=2 a=3"), (places[6], "b=3")]
    await publisher.publish("e=1")
    assert await texts(client, 1) == ["e=1"]
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == []


async def test_others_get_everything(broker: OneBroker) -> None:
    publisher = await Publisher.of(broker)
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, initial_position=api.CommandSubscribe.Earliest)
    await publisher.publish("a=1", "a=2", "a")
    await compact(broker)
    client.write(client_commands.flow(1, 10))
    assert await texts(client, 3) == ["a=1", "a=2", "a="]


async def test_what_was_trimmed_is_read_from_the_compacted_ledger(broker: OneBroker) -> None:
    """A subscription that is made later than the trimming gets what the topic itself no longer has."""
    publisher = await Publisher.of(broker)
    places = await publisher.publish(*(f"k{n % 5}={n}" for n in range(22)))
    topic = await compact(broker)
    assert topic.ledger.stats.entries < 5
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    assert await received(client, 5) == [(places[n], f"k{n % 5}={n}") for n in range(17, 22)]


@pytest.mark.parametrize("cumulative", [False, True])
async def test_a_subscription_that_acknowledged_everything_has_no_backlog(broker: OneBroker, cumulative: bool) -> None:
    """What was compacted away counts as acknowledged, trimmed or not, at the end of the topic too."""
    publisher = await Publisher.of(broker)
    await publisher.publish(*(f"k{n % 3}={n}" for n in range(10)), "gone=1", "gone")
    await compact(broker)
    await publisher.publish("k0=x", "k1=y")
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    positions = [position for position, _ in await received(client, 5)]
    await ack(client, *([positions[-1]] if cumulative else reversed(positions)), cumulative=cumulative)
    cursor = (await topic_of(broker)).subscriptions["s"].cursor
    assert (cursor.mark_delete, cursor.backlog) == (positions[-1], (0, 0))


async def test_after_the_last_that_was_kept_the_rest_up_to_the_horizon_counts_as_acknowledged(
    broker: OneBroker,
) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish("a=1", "b=1", "b")
    await compact(broker)
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    (kept,) = await received(client, 1)
    assert (await topic_of(broker)).subscriptions["s"].cursor.mark_delete == Position(-1, -1)
    await ack(client, kept[0])
    assert (await topic_of(broker)).subscriptions["s"].cursor.mark_delete == places[-1]


async def test_what_is_not_acknowledged_comes_again_though_later_ones_are(broker: OneBroker) -> None:
    """The topic no longer has the first: the cursor must not pass it when a later one is acknowledged."""
    publisher = await Publisher.of(broker)
    places = await publisher.publish("once=1", *(f"k{n % 2}={n}" for n in range(12)))
    await compact(broker)
    places += await publisher.publish("k0=x")
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    got = [position for position, _ in await received(client, 4)]
    assert got == [places[0], places[11], places[12], places[13]]
    await ack(client, got[1], got[3])
    client.write(client_requests.redeliver(1))
    assert [position for position, _ in await received(client, 2)] == [got[0], got[2]]
    await ack(client, got[0])
    client.close()
    await client.expect_closed()
    again = await WireClient.connect(broker.port)
    await again.subscribe(TOPIC, permits=100, **FROM_START)
    assert await texts(again, 1) == ["k1=11"]
    await again.settled()
    assert again.pending(TYPE.MESSAGE) == []


async def test_a_compaction_while_a_consumer_reads_does_not_lose_what_it_has_not_acknowledged(
    broker: OneBroker,
) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish("a=1", "b=1", "c=1")
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=2, **FROM_START)
    assert await texts(client, 2) == ["a=1", "b=1"]
    places += await publisher.publish("c=2", "d=1", "d")
    await compact(broker)
    client.write(client_commands.flow(1, 10))
    assert await received(client, 1) == [(places[3], "c=2")]
    await ack(client, places[3])
    client.write(client_requests.redeliver(1))
    assert await texts(client, 2) == ["a=1", "b=1"]
    await ack(client, places[0], places[1])
    assert (await topic_of(broker)).subscriptions["s"].cursor.mark_delete == places[-1]


async def test_an_unload_in_between_brings_the_same_again(broker: OneBroker) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish(*(f"k{n % 3}={n}" for n in range(10)))
    await compact(broker)
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    assert await texts(client, 3) == ["k1=7", "k2=8", "k0=9"]
    await ack(client, places[7])
    await broker.unload()
    await client.expect(TYPE.CLOSE_CONSUMER)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    assert await received(client, 2) == [(places[8], "k2=8"), (places[9], "k0=9")]


@pytest.mark.parametrize(("how", "sent"), [(FROM_START, [0b101]), (READER, [0b100])], ids=["consumer", "reader"])
async def test_of_a_kept_batch_only_what_is_not_acknowledged_comes_again(
    broker: OneBroker, how: dict[str, Any], sent: list[int]
) -> None:
    """A reader gets nothing of what compaction removed, either."""
    publisher = await Publisher.of(broker)
    places = await publisher.publish("a=1 b=1 c=1", "a=2")
    await compact(broker)
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, permits=100, **how)
    await client.messages(2)
    client.write(client_commands.ack(1, [message_id(*places[0], ack_set=(0b101,))]))
    client.write(client_requests.redeliver(1))
    assert [list(message.ack_set) for message, _ in await client.messages(2)] == [sent, []]
    client.write(client_commands.ack(1, [message_id(*places[0], ack_set=(0b010,))]))
    await client.settled()
    assert (await topic_of(broker)).subscriptions["s"].cursor.mark_delete == places[0]


async def test_a_seek_goes_to_what_was_kept(broker: OneBroker) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish(*(f"k{n % 3}={n}" for n in range(10)))
    await compact(broker)
    for position, expected in [
        (EARLIEST, ["k1=7", "k2=8", "k0=9"]),
        (id_of(places[2]), ["k1=7", "k2=8", "k0=9"]),
        (id_of(places[8]), ["k2=8", "k0=9"]),
    ]:
        client = await WireClient.connect(broker.port)
        await client.subscribe(TOPIC, **FROM_START)
        await client.ask(client_requests.seek(client.request_id(), 1, position=position), TYPE.SUCCESS)
        await client.subscribe(TOPIC, permits=100, **FROM_START)
        assert await texts(client, len(expected)) == expected
        client.close()
        await settled_without_consumers(broker)


async def settled_without_consumers(broker: OneBroker) -> None:
    topic = await topic_of(broker)
    async with asyncio.timeout(30):
        while topic.consumer_count:
            await asyncio.sleep(0)


async def test_a_seek_to_a_time_finds_what_was_kept_of_what_was_trimmed(broker: OneBroker) -> None:
    publisher = await Publisher.of(broker)
    await publisher.publish("once=1", *(f"k{n % 3}={n}" for n in range(12)))
    topic = await compact(broker)
    assert topic.ledger.stats.entries < 5
    client = await WireClient.connect(broker.port)
    await client.subscribe(TOPIC, **FROM_START)
    seek = client_requests.seek(client.request_id(), 1, publish_time_ms=1_600_000_000_000)
    await client.ask(seek, TYPE.SUCCESS)
    await client.subscribe(TOPIC, permits=100, **FROM_START)
    assert await texts(client, 4) == ["once=1", "k0=9", "k1=10", "k2=11"]


async def test_the_last_message_is_the_last_that_was_kept(broker: OneBroker) -> None:
    """Otherwise a reader would wait for one that never comes; others get the topic's own last message."""
    publisher = await Publisher.of(broker)
    places = await publisher.publish("a=1", "x=1 b=1 a=2 b", "c=1", "c")
    await compact(broker)
    reader, other = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await reader.subscribe(TOPIC, "r", **READER)
    await other.subscribe(TOPIC, "o")
    assert await last_id(reader) == (places[1], 2)
    assert await last_id(other) == (places[3], -1)
    places += await publisher.publish("d=1")
    assert await last_id(reader) == (places[4], -1)
    await publisher.publish("d", "a", "x")
    await compact(broker)
    assert await last_id(reader) == (Position(-1, -1), -1)


async def test_readers_are_told_which_messages_of_a_batch_were_kept(broker: OneBroker) -> None:
    """Consumers of durable subscriptions are not: clients acknowledge a batch once they got all of it."""
    publisher = await Publisher.of(broker)
    await publisher.publish("a=1 b=1 a=2 b=2 c=1", "d=1 e=1")
    await compact(broker)
    sets = []
    for how in (READER, FROM_START):
        client = await WireClient.connect(broker.port)
        await client.subscribe(TOPIC, f"s{len(sets)}", permits=100, **how)
        sets.append([list(message.ack_set) for message, _ in await client.messages(2)])
    assert sets == [[[0b11100], []], [[], []]]


async def test_only_one_consumer_at_a_time_may_read_the_compacted_topic(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    for kind in (api.CommandSubscribe.Shared, api.CommandSubscribe.Key_Shared):
        refusal = await client.subscribe(TOPIC, sub_type=kind, **FROM_START)
        assert (refusal.error, refusal.message) == (
            api.NotAllowedError,
            "readCompacted only allowed on failover or exclusive subscriptions",
        )
    refusal = await client.subscribe("non-persistent://public/default/t", **FROM_START)
    assert (refusal.error, refusal.message) == (
        api.NotAllowedError,
        "readCompacted only valid on persistent topics",
    )


async def test_the_brokers_own_subscription_is_nobody_elses(broker: OneBroker) -> None:
    client = await WireClient.connect(broker.port)
    refusal = await client.subscribe(TOPIC, "__compaction")
    assert (refusal.error, "reserved for a subscription" in refusal.message) == (api.NotAllowedError, True)


async def test_a_failover_subscription_goes_on_with_the_next_consumer(broker: OneBroker) -> None:
    publisher = await Publisher.of(broker)
    places = await publisher.publish(*(f"k{n % 3}={n}" for n in range(10)))
    await compact(broker)
    failover = {"sub_type": api.CommandSubscribe.Failover, **FROM_START}
    first, second = await WireClient.connect(broker.port), await WireClient.connect(broker.port)
    await first.subscribe(TOPIC, permits=100, priority_level=0, **failover)
    await second.subscribe(TOPIC, permits=100, priority_level=1, **failover)
    plain = await WireClient.connect(broker.port)
    refusal = await plain.subscribe(TOPIC, sub_type=api.CommandSubscribe.Failover)
    assert (refusal.error, "read the compacted topic" in refusal.message) == (api.ConsumerBusy, True)
    assert await texts(first, 3) == ["k1=7", "k2=8", "k0=9"]
    await ack(first, places[7])
    first.close()
    assert await texts(second, 2) == ["k2=8", "k0=9"]
