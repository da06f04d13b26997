"""Publishing: receipts, order, repeated sends, and how a publish ends without a receipt."""

import asyncio

import pytest

from pulsar_barycenter.broker.system_topics.entries import MessageId, read_entry
from pulsar_barycenter.broker.system_topics.errors import (
    ClosedError,
    MessageTooLargeError,
    NotPublishedError,
    PublishOutcomeUnknownError,
    RefusedError,
)
from pulsar_barycenter.broker.system_topics.publisher import UNKNOWN_PLACE
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.scripted_broker import TYPE, Scene, ScriptedEnd, in_a_scene

TOPIC = "persistent://pulsar/system/t"
SMALL = ClientSettings(max_in_flight=3, max_value_bytes=10, max_key_bytes=10)


def receipt(producer: api.CommandProducer, sequence_id: int, entry_id: int) -> bytes:
    return commands.send_receipt(producer.producer_id, sequence_id, 7, entry_id, 0)


def contents(sends: list[tuple[int, bytes]]) -> list[tuple[int, str | None, bytes | None]]:
    return [(number, *read_entry(entry).messages[0][1:]) for number, entry in sends]


async def attached(scene: Scene) -> tuple[ScriptedEnd, api.CommandProducer]:
    end = await scene.broker.connection()
    return end, await end.accept_producer()


def test_a_publish_returns_where_the_message_is_stored() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", value)) for value in (b"1", None)]
        end, producer = await attached(scene)
        assert contents(await end.sends(2)) == [(0, "k", b"1"), (1, "k", None)]
        end.write(receipt(producer, 0, 5), receipt(producer, 1, 6))
        assert await asyncio.gather(*publishing) == [MessageId(7, 5), MessageId(7, 6)]

    in_a_scene(test)


def test_what_the_broker_stored_before_has_an_unknown_place() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = asyncio.create_task(publisher.publish("k", b"1"))
        end, producer = await attached(scene)
        await end.sends(1)
        nowhere = commands.NO_REQUEST
        end.write(commands.send_receipt(producer.producer_id, 0, nowhere, nowhere, 0))
        assert await publishing == UNKNOWN_PLACE

    in_a_scene(test)


@pytest.mark.parametrize("how", ["lost", "closed"])
def test_what_has_no_receipt_is_sent_again_in_order_by_the_same_name(how: str) -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(4)]
        end, first = await attached(scene)
        sent = await end.sends(4)
        end.write(receipt(first, 0, 0))
        await publishing[0]
        if how == "lost":
            end.close()
            end = await scene.broker.connection()
        else:
            end.write(commands.close_producer(first.producer_id))
        second = await end.accept_producer()
        assert (second.producer_name, second.user_provided_producer_name) == (first.producer_name, False)
        assert second.epoch > first.epoch
        assert await end.sends(3) == sent[1:]
        end.write(*(receipt(second, number, number) for number in (1, 2, 3)))
        await asyncio.gather(*publishing)

    in_a_scene(test)


def test_at_most_so_many_are_in_flight_and_callers_wait_in_order() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(6)]
        end, producer = await attached(scene)
        assert [number for number, _ in await end.sends(3)] == [0, 1, 2]
        await asyncio.sleep(5)
        assert end.received == []
        for number in range(3):
            end.write(receipt(producer, number, number))
            assert contents(await end.sends(1)) == [(number + 3, "k", b"%d" % (number + 3))]
        end.write(*(receipt(producer, number, number) for number in (3, 4, 5)))
        await asyncio.gather(*publishing)

    in_a_scene(test, SMALL)


def test_without_a_broker_a_publish_is_known_not_to_be_published() -> None:
    async def test(scene: Scene) -> None:
        scene.owner = None
        publisher = scene.client.publisher(TOPIC)
        began = scene.loop.time()
        with pytest.raises(NotPublishedError):
            await publisher.publish("k", b"v", timeout_s=3)
        assert scene.loop.time() - began == pytest.approx(3)
        scene.owner = scene.broker.url
        end, producer = await attached(scene)
        publishing = asyncio.create_task(publisher.publish("k", b"later"))
        assert contents(await end.sends(1)) == [(1, "k", b"later")]
        end.write(receipt(producer, 1, 0))
        await publishing

    in_a_scene(test)


def test_who_waits_for_room_until_the_end_is_not_published() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(3)]
        end, producer = await attached(scene)
        await end.sends(3)
        with pytest.raises(NotPublishedError):
            await publisher.publish("k", b"3", timeout_s=1)
        end.write(*(receipt(producer, number, number) for number in range(3)))
        await asyncio.gather(*publishing)
        await asyncio.sleep(1)
        assert [number for number, *_ in end.received if number == TYPE.SEND] == []

    in_a_scene(test, SMALL)


def test_a_message_that_was_sent_and_has_no_receipt_in_time_is_not_sent_again() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [
            asyncio.create_task(publisher.publish("k", b"0", timeout_s=5)),
            asyncio.create_task(publisher.publish("k", b"1", timeout_s=60)),
        ]
        end, first = await attached(scene)
        await end.sends(2)
        with pytest.raises(PublishOutcomeUnknownError):
            await publishing[0]
        end.close()
        end, second = await attached(scene)
        assert contents(await end.sends(1)) == [(1, "k", b"1")]
        end.write(receipt(second, 0, 0), receipt(second, 1, 1))
        assert await publishing[1] == MessageId(7, 1)
        assert first.producer_name == second.producer_name

    in_a_scene(test)


def test_a_publish_that_is_cancelled_is_not_sent_again() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(2)]
        end, _ = await attached(scene)
        await end.sends(2)
        publishing[0].cancel()
        end.close()
        end, producer = await attached(scene)
        assert [number for number, _ in await end.sends(1)] == [1]
        end.write(receipt(producer, 1, 0))
        await publishing[1]

    in_a_scene(test)


def test_a_receipt_out_of_turn_is_a_fault_of_the_connection() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(2)]
        end, producer = await attached(scene)
        await end.sends(2)
        end.write(receipt(producer, 1, 0))
        await end.expect_closed()
        end, producer = await attached(scene)
        await end.sends(2)
        end.write(receipt(producer, 0, 0), receipt(producer, 1, 1))
        await asyncio.gather(*publishing)

    in_a_scene(test)


def test_a_damaged_message_fails_alone() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(2)]
        end, producer = await attached(scene)
        await end.sends(2)
        end.write(commands.send_error(producer.producer_id, 0, api.ChecksumError, "damaged"), receipt(producer, 1, 0))
        assert await publishing[1] == MessageId(7, 0)
        with pytest.raises(RefusedError, match="ChecksumError: damaged"):
            await publishing[0]
        assert not end.is_closed

    in_a_scene(test)


def test_after_any_other_refusal_all_is_sent_again_on_another_connection() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(2)]
        end, producer = await attached(scene)
        await end.sends(2)
        end.write(commands.send_error(producer.producer_id, 0, api.PersistenceError, "full"))
        await end.expect_closed()
        end, producer = await attached(scene)
        await end.sends(2)
        end.write(receipt(producer, 0, 0), receipt(producer, 1, 1))
        await asyncio.gather(*publishing)

    in_a_scene(test)


def test_what_is_too_long_is_refused_at_once() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        with pytest.raises(MessageTooLargeError, match="value has 11 bytes"):
            await publisher.publish("k", b"v" * 11)
        with pytest.raises(MessageTooLargeError, match="key has 12 bytes"):
            await publisher.publish("ä" * 6, b"v")

    in_a_scene(test, SMALL)


def test_closing_tells_those_who_wait_whether_their_message_was_sent() -> None:
    async def test(scene: Scene) -> None:
        sent, unsent = scene.client.publisher(TOPIC), scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(each.publish("k", b"v")) for each in (sent, unsent)]
        end = await scene.broker.connection()
        await end.accept_producer()
        await end.sends(1)
        for publisher in (sent, unsent):
            await publisher.close()
        with pytest.raises(PublishOutcomeUnknownError):
            await publishing[0]
        with pytest.raises(ClosedError):
            await publishing[1]

    in_a_scene(test)


def test_those_who_wait_for_room_of_a_publisher_that_closes_are_turned_away() -> None:
    async def test(scene: Scene) -> None:
        publisher = scene.client.publisher(TOPIC)
        publishing = [asyncio.create_task(publisher.publish("k", b"%d" % number)) for number in range(5)]
        end, _ = await attached(scene)
        await end.sends(3)
        await publisher.close()
        found = await asyncio.gather(*publishing, return_exceptions=True)
        assert [type(each) for each in found] == [PublishOutcomeUnknownError] * 3 + [ClosedError] * 2

    in_a_scene(test, SMALL)
