"""Reading a topic: where it continues, what is skipped, permits, and when it has caught up."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.system_topics.entries import MessageId, encode_message
from pulsar_barycenter.broker.system_topics.errors import ClosedError
from pulsar_barycenter.broker.system_topics.reader import Start
from pulsar_barycenter.broker.system_topics.repeats import PUBLISHER_PREFIX
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import signed
from support.scripted_broker import TYPE, Scene, ScriptedEnd, in_a_scene

TOPIC = "persistent://pulsar/system/t"
NON_PERSISTENT = "non-persistent://pulsar/system/t"
FEW = ClientSettings(permits=4)
LAST = 2**63 - 1


class Log:
    """What a reader delivered."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.all: list[tuple[str | None, bytes | None, MessageId, int]] = []

    def __call__(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        self.values.append(value)
        self.all.append((key, value, message_id, publish_time_ms))


def entry(value: bytes, *, producer: str = "p", sequence_id: int = 0) -> bytes:
    return encode_message(producer, sequence_id, 9, "k", value)


def start_of(subscribe: api.CommandSubscribe) -> tuple[int, int]:
    return signed(subscribe.start_message_id.ledgerId), signed(subscribe.start_message_id.entryId)


def test_it_delivers_key_value_place_and_time() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 1))
        assert start_of(consumer) == (-1, -1)
        assert not consumer.durable
        assert not consumer.read_compacted
        end.message(consumer, (7, 0), entry(b"0"))
        end.message(consumer, (7, 1), encode_message("p", 1, 9, "k", None))
        await asyncio.sleep(1)
        assert got.all == [("k", b"0", MessageId(7, 0), 9), ("k", None, MessageId(7, 1), 9)]

    in_a_scene(test)


def test_compacted_reading_is_asked_for() -> None:
    async def test(scene: Scene) -> None:
        scene.client.reader(TOPIC, Log(), read_compacted=True)
        assert (await (await scene.broker.connection()).accept_consumer()).read_compacted

    in_a_scene(test)


@pytest.mark.parametrize("how", ["lost", "closed"])
def test_it_goes_on_behind_the_last_entry_that_it_delivered(how: str) -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        first = await end.accept_consumer((7, 2))
        end.message(first, (7, 0), entry(b"0"))
        end.message(first, (7, 1), entry(b"1"))
        await asyncio.sleep(1)
        if how == "lost":
            end.close()
            end = await scene.broker.connection()
        else:
            end.write(commands.close_consumer(first.consumer_id))
        second = await end.accept_consumer((8, 0))
        assert start_of(second) == (7, 1)
        assert second.subscription != first.subscription
        end.message(first, (7, 1), entry(b"of a consumer that is no more"))
        for place, value in [((7, 1), b"1"), ((7, 2), b"2"), ((8, 0), b"3")]:
            end.message(second, place, entry(value))
        await asyncio.sleep(1)
        assert got.values == [b"0", b"1", b"2", b"3"]

    in_a_scene(test)


def test_from_the_latest_it_starts_where_the_topic_ended_when_it_first_attached() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(TOPIC, got, start=Start.LATEST)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 5))
        assert start_of(consumer) == (LAST, LAST)
        await reader.caught_up()
        end.message(consumer, (7, 5), entry(b"came while it attached"))
        end.close()
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 6))
        assert start_of(consumer) == (7, 5)
        assert not reader.is_caught_up
        end.message(consumer, (7, 5), entry(b"came while it attached"))
        end.message(consumer, (7, 6), entry(b"new"))
        await reader.caught_up()
        assert got.values == [b"new"]

    in_a_scene(test)


def test_a_non_persistent_topic_is_read_from_the_latest_each_time_and_any_place_is_new() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(NON_PERSISTENT, got)
        for _ in range(2):
            end = await scene.broker.connection()
            request, _ = await end.take(TYPE.SUBSCRIBE)
            assert start_of(request) == (LAST, LAST)
            end.write(commands.success(request.request_id))
            await end.take(TYPE.FLOW)
            question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
            await asyncio.sleep(1)
            assert not reader.is_caught_up
            end.write(commands.error(question.request_id, api.NotAllowedError, "it keeps none"))
            await reader.caught_up()
            for value in (b"a", b"b"):
                end.message(request, (0, 0), entry(value))
            await asyncio.sleep(1)
            end.close()
        assert got.values == [b"a", b"b", b"a", b"b"]

    in_a_scene(test)


def test_it_has_caught_up_when_what_was_there_was_delivered() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(TOPIC, got)
        waiting = asyncio.create_task(reader.caught_up())
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 1))
        end.message(consumer, (7, 0), entry(b"0"))
        await asyncio.sleep(1)
        assert not waiting.done()
        end.message(consumer, (7, 1), entry(b"1"))
        await waiting
        assert got.values == [b"0", b"1"]
        end.close()
        await asyncio.sleep(0.01)
        assert not reader.is_caught_up
        await (await scene.broker.connection()).accept_consumer((7, 1))
        await reader.caught_up()

    in_a_scene(test)


def test_an_empty_topic_is_caught_up_with() -> None:
    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        await (await scene.broker.connection()).accept_consumer()
        await reader.caught_up()

    in_a_scene(test)


def test_a_last_message_that_goes_does_not_keep_it_from_catching_up() -> None:
    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 1))
        end.message(consumer, (7, 0), entry(b"0"))
        question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
        end.write(commands.last_message_id(question.request_id, commands.message_id(7, 0)))
        await reader.caught_up()

    in_a_scene(test)


def test_a_last_message_that_the_broker_cannot_tell_does_not_keep_it_from_reading() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        consumer, _ = await end.take(TYPE.SUBSCRIBE)
        end.write(commands.success(consumer.request_id))
        for _ in range(2):
            question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
            end.write(commands.error(question.request_id, api.PersistenceError, "damaged"))
        await end.take(TYPE.FLOW)
        end.message(consumer, (7, 0), entry(b"0"))
        question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
        assert got.values == [b"0"]
        assert not reader.is_caught_up
        end.write(commands.last_message_id(question.request_id, commands.message_id(7, 0)))
        await reader.caught_up()

    in_a_scene(test)


async def answer_last(end: ScriptedEnd, *last: int) -> None:
    """Take the request for the last message, and answer it."""
    question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
    end.write(commands.last_message_id(question.request_id, commands.message_id(*last)))


def test_the_end_is_that_of_now_not_that_of_when_it_attached() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 0))
        end.message(consumer, (7, 0), entry(b"0"))
        await reader.caught_up()
        for number in (1, 2):
            reaching = asyncio.create_task(reader.reach_end())
            await answer_last(end, 7, number)
            await asyncio.sleep(1)
            assert not reaching.done()
            end.message(consumer, (7, number), entry(b"%d" % number))
            await reaching
        reaching = asyncio.create_task(reader.reach_end())
        await answer_last(end, 7, 2)
        await reaching
        assert got.values == [b"0", b"1", b"2"]

    in_a_scene(test)


def test_an_answer_to_what_was_asked_before_does_not_say_where_the_end_is() -> None:
    """Something may have been written between that answer and the call."""

    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        consumer, _ = await end.take(TYPE.SUBSCRIBE)
        end.write(commands.success(consumer.request_id))
        question, _ = await end.take(TYPE.GET_LAST_MESSAGE_ID)
        reaching = asyncio.create_task(reader.reach_end())
        await asyncio.sleep(1)
        end.write(commands.last_message_id(question.request_id, commands.message_id(-1, -1)))
        await reader.caught_up()
        await answer_last(end, 7, 0)
        await asyncio.sleep(1)
        assert not reaching.done()
        end.message(consumer, (7, 0), entry(b"0"))
        await reaching

    in_a_scene(test)


def test_the_end_is_asked_for_anew_where_it_attaches_next() -> None:
    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        await end.accept_consumer()
        await reader.caught_up()
        reaching = [asyncio.create_task(reader.reach_end()) for _ in range(2)]
        await end.take(TYPE.GET_LAST_MESSAGE_ID)
        end.close()
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 0))
        await asyncio.sleep(1)
        assert not any(task.done() for task in reaching)
        end.message(consumer, (7, 0), entry(b"0"))
        await asyncio.gather(*reaching)

    in_a_scene(test)


@pytest.mark.parametrize("attached", [False, True])
def test_closing_ends_the_wait_for_catching_up(attached: bool) -> None:
    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        if attached:
            await (await scene.broker.connection()).accept_consumer()
            await reader.caught_up()
        waiting = asyncio.create_task(reader.reach_end())
        await asyncio.sleep(1)
        await reader.close()
        with pytest.raises(ClosedError):
            await waiting

    in_a_scene(test)


def test_what_cannot_be_read_is_told_once_and_skipped() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        reader = scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 3))
        for place, data in enumerate([b"absurd", entry(b"1")[:-1] + b"!", b"absurd", entry(b"3")]):
            end.message(consumer, (7, place), data)
        await reader.caught_up()
        assert got.values == [b"3"]
        assert reader.skipped == 3
        end.close()
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 3))
        assert start_of(consumer) == (7, 3)

    with capture_logs() as lines:
        in_a_scene(test)
    skipped = [line for line in lines if line["event"] == "system_topic_entry_skipped"]
    assert [line["entry"] for line in skipped] == ["7:0", "7:1"]


def test_a_last_entry_that_cannot_be_read_is_caught_up_with() -> None:
    async def test(scene: Scene) -> None:
        reader = scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        end.message(await end.accept_consumer((7, 0)), (7, 0), b"absurd")
        await reader.caught_up()

    in_a_scene(test)


def test_permits_are_topped_up_at_half_by_messages() -> None:
    async def test(scene: Scene) -> None:
        scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 9))
        end.message(consumer, (7, 0), entry(b"0"))
        await asyncio.sleep(0.5)
        assert [number for number, *_ in end.received if number == TYPE.FLOW] == []
        end.message(consumer, (7, 1), b"absurd")
        flow, _ = await end.take(TYPE.FLOW)
        assert flow.messagePermits == 2

    in_a_scene(test, FEW)


def test_it_acknowledges_what_it_delivered_after_a_while() -> None:
    async def test(scene: Scene) -> None:
        scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 9))
        for number in range(3):
            end.message(consumer, (7, number), entry(b"0"))
        ack, _ = await end.take(TYPE.ACK)
        assert (ack.ack_type, ack.message_id[0].entryId) == (api.CommandAck.Cumulative, 2)
        await asyncio.sleep(5)
        assert [number for number, *_ in end.received if number == TYPE.ACK] == []

    in_a_scene(test)


def test_what_a_publisher_of_ours_sent_twice_is_delivered_once() -> None:
    async def test(scene: Scene) -> None:
        got = Log()
        scene.client.reader(TOPIC, got)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 9))
        for place, number in enumerate([0, 1, 2, 1, 2, 3]):
            value = b"%d" % number
            end.message(consumer, (7, place), entry(value, producer=PUBLISHER_PREFIX + "x", sequence_id=number))
        for place in (6, 7):
            end.message(consumer, (7, place), entry(b"foreign"))
        await asyncio.sleep(1)
        assert got.values == [b"0", b"1", b"2", b"3", b"foreign", b"foreign"]

    in_a_scene(test)


def test_what_the_callback_raises_is_logged_and_the_next_message_delivered() -> None:
    async def test(scene: Scene) -> None:
        got: list[Any] = []

        def fail_first(key: str | None, value: bytes | None, *_: Any) -> None:
            got.append(value)
            if len(got) == 1:
                raise RuntimeError("a bug")

        reader = scene.client.reader(TOPIC, fail_first)
        end = await scene.broker.connection()
        consumer = await end.accept_consumer((7, 1))
        for number in range(2):
            end.message(consumer, (7, number), entry(b"%d" % number))
        await reader.caught_up()
        assert got == [b"0", b"1"]

    with capture_logs() as lines:
        in_a_scene(test)
    assert [line["event"] for line in lines].count("system_topic_message_failed") == 1


def test_a_refused_attempt_is_withdrawn_and_repeated_under_another_id() -> None:
    async def test(scene: Scene) -> None:
        scene.client.reader(TOPIC, Log())
        end = await scene.broker.connection()
        request, _ = await end.take(TYPE.SUBSCRIBE)
        withdrawn, _ = await end.take(TYPE.CLOSE_CONSUMER)  # no answer in time
        assert withdrawn.consumer_id == request.consumer_id
        again = await end.accept_consumer()
        assert again.consumer_id != request.consumer_id

    in_a_scene(test)
