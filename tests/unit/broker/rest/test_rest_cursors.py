"""Cursors over REST: skipping, clearing, expiring and resetting, with a client of the binary protocol beside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent://public/ns/t"
PATH = "/admin/v2/persistent/public/ns/t"
SUB = f"{PATH}/subscription/a"
EARLIEST = {"ledgerId": -1, "entryId": -1}


@asynccontextmanager
async def one_topic(entries: int = 6) -> AsyncIterator[tuple[RestCluster, WireClient, list[tuple[int, int]]]]:
    """A topic with so many entries and the subscription `a` at its beginning; yield the positions, too."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", SUB, EARLIEST)
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce(TOPIC)
        places = await client.send_all(entries)
        yield cluster, client, places
        client.close()


async def backlog(cluster: RestCluster, name: str = "a") -> int:
    stats: Any = (await cluster.expect(200, "GET", f"{PATH}/stats")).json
    count: int = stats["subscriptions"][name]["msgBacklog"]
    return count


async def mark(cluster: RestCluster, name: str = "a") -> str:
    internal: Any = (await cluster.expect(200, "GET", f"{PATH}/internalStats")).json
    text: str = internal["cursors"][name]["markDeletePosition"]
    return text


async def got(client: WireClient, count: int) -> list[tuple[int, int]]:
    """Return the positions of the next `count` messages that the client gets."""
    found = [message.message_id for message, _ in await client.messages(count)]
    return [(place.ledgerId, place.entryId) for place in found]


def acknowledge(client: WireClient, *places: tuple[int, int]) -> None:
    client.write(
        client_commands.ack(1, [api.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in places])
    )


def text_of(place: tuple[int, int]) -> str:
    return f"{place[0]}:{place[1]}"


def body_of(place: tuple[int, int], **more: Any) -> dict[str, Any]:
    return {"ledgerId": place[0], "entryId": place[1], **more}


async def test_skipped_entries_stay_skipped_after_an_unload() -> None:
    async with one_topic() as (cluster, _, places):
        await cluster.expect(204, "POST", f"{SUB}/skip/2")
        assert await backlog(cluster) == 4
        await cluster.expect(204, "POST", f"{SUB}/skip/0")
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        assert (await backlog(cluster), await mark(cluster)) == (4, text_of(places[1]))
        await cluster.expect(204, "POST", f"{SUB}/skip/2147483647")
        assert await backlog(cluster) == 0


async def test_a_batch_is_skipped_as_one_entry() -> None:
    async with one_topic(1) as (cluster, client, _):
        client.send(1, batch=10)
        await client.expect(api.BaseCommand.SEND_RECEIPT)
        assert await backlog(cluster) == 11
        await cluster.expect(204, "POST", f"{SUB}/skip/1")
        assert await backlog(cluster) == 10
        await cluster.expect(204, "POST", f"{SUB}/skip/1")
        assert await backlog(cluster) == 0


async def test_what_was_acknowledged_is_not_counted_when_entries_are_skipped() -> None:
    async with one_topic() as (cluster, client, places):
        await client.subscribe(TOPIC, "a", permits=6, sub_type=api.CommandSubscribe.Shared)
        await got(client, 6)
        acknowledge(client, places[1], places[2])
        await client.settled()
        await cluster.expect(204, "POST", f"{SUB}/skip/2")
        assert (await backlog(cluster), await mark(cluster)) == (2, text_of(places[3]))


@pytest.mark.parametrize("kind", [api.CommandSubscribe.Exclusive, api.CommandSubscribe.Shared])
async def test_consumers_stay_and_get_what_follows(kind: Any) -> None:
    async with one_topic() as (cluster, client, places):
        await client.subscribe(TOPIC, "a", sub_type=kind, permits=2)
        assert await got(client, 2) == places[:2]
        await cluster.expect(204, "POST", f"{SUB}/skip/4")
        client.write(client_commands.flow(1, 10))
        assert await got(client, 2) == places[4:]
        unacked = (await cluster.expect(200, "GET", f"{PATH}/stats")).json["subscriptions"]["a"]["unackedMessages"]
        assert unacked == (2 if kind == api.CommandSubscribe.Shared else 0)


async def test_a_backlog_is_cleared() -> None:
    async with one_topic() as (cluster, client, places):
        await client.subscribe(TOPIC, "a", permits=10, sub_type=api.CommandSubscribe.Shared)
        await got(client, 6)
        acknowledge(client, places[2])
        await cluster.expect(204, "POST", f"{SUB}/skip_all")
        assert (await backlog(cluster), await mark(cluster)) == (0, text_of(places[5]))
        assert await client.send_all(1, first=6) == await got(client, 1)


async def test_old_messages_expire() -> None:
    async with one_topic(0) as (cluster, client, _):
        now_ms = cluster.brokers[0].registry.clock.now_ms()
        ages_s = [500, 400, 300, 1, 350]
        for number, age in enumerate(ages_s):
            client.send(number, publish_time=now_ms - age * 1000)
            await client.expect(api.BaseCommand.SEND_RECEIPT)
        await cluster.expect(204, "PUT", f"{PATH}/subscription/b", EARLIEST)
        await cluster.expect(204, "POST", f"{SUB}/expireMessages/0")
        await cluster.expect(204, "POST", f"{SUB}/expireMessages/600")
        assert await backlog(cluster) == 5
        await cluster.expect(204, "POST", f"{SUB}/expireMessages/350")
        assert await backlog(cluster) == 3
        await cluster.expect(204, "POST", f"{PATH}/all_subscription/expireMessages/200")
        assert (await backlog(cluster), await backlog(cluster, "b")) == (2, 2)  # the one of 1 s, and the one behind it
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        assert (await backlog(cluster), await backlog(cluster, "b")) == (2, 2)
        await cluster.expect(204, "POST", f"{SUB}/skip_all")
        assert "no backlog" in (await cluster.expect(409, "POST", f"{SUB}/expireMessages/1")).reason
        await cluster.expect(409, "POST", f"{PATH}/all_subscription/expireMessages/600")
        await client.subscribe(TOPIC, "b")
        assert (
            "a small backlog" in (await cluster.expect(409, "POST", f"{PATH}/subscription/b/expireMessages/600")).reason
        )


async def test_messages_expire_up_to_a_position() -> None:
    async with one_topic() as (cluster, _, places):
        where = f"{SUB}/expireMessages"
        await cluster.expect(204, "POST", where, body_of(places[2], partitionIndex=-1))
        assert (await backlog(cluster), await mark(cluster)) == (3, text_of(places[2]))
        await cluster.expect(204, "POST", where, body_of(places[0]))
        assert await backlog(cluster) == 3
        after = (places[5][0], places[5][1] + 1)
        assert "after the last message" in (await cluster.expect(409, "POST", where, body_of(after))).reason
        assert (
            "partitionIndex" in (await cluster.expect(412, "POST", where, body_of(places[3], partitionIndex=3))).reason
        )
        assert "excluded" in (await cluster.expect(400, "POST", where, body_of(places[3], excluded=True))).reason
        assert "empty" in (await cluster.expect(400, "POST", where)).reason
        await cluster.expect(400, "POST", where, body_of(places[3], surprise=1))
        assert await backlog(cluster) == 3


async def test_a_cursor_is_reset_to_a_position() -> None:
    async with one_topic() as (cluster, client, places):
        await cluster.expect(204, "POST", f"{SUB}/skip_all")
        await client.subscribe(TOPIC, "a")
        await cluster.expect(204, "POST", f"{SUB}/resetcursor", body_of(places[2]))
        await client.expect(api.BaseCommand.CLOSE_CONSUMER)
        assert await backlog(cluster) == 4
        await cluster.expect(204, "POST", f"{SUB}/resetcursor", body_of(places[2], excluded=True))
        assert await backlog(cluster) == 3
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        assert await backlog(cluster) == 3
        await cluster.expect(204, "POST", f"{SUB}/resetcursor", EARLIEST)
        assert await backlog(cluster) == 6
        await cluster.expect(204, "POST", f"{SUB}/resetcursor", body_of((2**63 - 1, 2**63 - 1)))
        assert await backlog(cluster) == 0
        assert (
            "properties"
            in (await cluster.expect(400, "POST", f"{SUB}/resetcursor", {**EARLIEST, "properties": {"a": "b"}})).reason
        )


async def test_a_cursor_is_reset_to_a_message_of_a_batch() -> None:
    """Messages of the batch before it count as acknowledged, also after an unload."""
    async with one_topic(1) as (cluster, client, _):
        client.send(1, batch=3)
        receipt = await client.expect(api.BaseCommand.SEND_RECEIPT)
        place = (receipt.message_id.ledgerId, receipt.message_id.entryId)
        await client.send_all(1, first=2)
        cases = [(0, False, []), (1, False, [0b110]), (0, True, [0b110]), (2, False, [0b100]), (9, True, None)]
        for index, excluded, ack_set in cases:
            await cluster.expect(204, "POST", f"{SUB}/resetcursor", body_of(place, batchIndex=index, excluded=excluded))
            await cluster.expect(204, "PUT", f"{PATH}/unload")
            await client.subscribe(TOPIC, "a", permits=10)
            message = (await client.messages(1))[0][0]
            at = (message.message_id.ledgerId, message.message_id.entryId)
            if ack_set is None:
                assert at == (place[0], place[1] + 1)
            else:
                assert (at, list(message.ack_set)) == (place, ack_set)
            await cluster.expect(204, "PUT", f"{PATH}/unload")
            await client.settled()
            client.received.clear()
        refused = await cluster.expect(400, "POST", f"{SUB}/expireMessages", body_of(place, batchIndex=1))
        assert "within a batch" in refused.reason
        await cluster.expect(204, "POST", f"{SUB}/expireMessages", body_of(place, batchIndex=2))


async def test_a_cursor_is_reset_to_a_time() -> None:
    async with one_topic(0) as (cluster, client, _):
        for number in range(4):
            client.send(number, publish_time=1_000 + number)
            await client.expect(api.BaseCommand.SEND_RECEIPT)
        for time_ms, left in [(1_002, 2), (0, 4), (2**62, 0), (1_003, 1), (-5, 4)]:
            await cluster.expect(204, "POST", f"{SUB}/resetcursor/{time_ms}")
            assert await backlog(cluster) == left
        assert "timestamp" in (await cluster.expect(400, "POST", f"{SUB}/resetcursor/yesterday")).reason


async def test_partitioned_topics_are_moved_partition_by_partition() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/partitions", 2)
        await cluster.expect(204, "PUT", SUB, EARLIEST)
        for part in range(2):
            owner = await cluster.owner(f"persistent/public/ns/t-partition-{part}")
            client = await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))
            await client.produce(f"{TOPIC}-partition-{part}")
            await client.send_all(3)
            client.close()

        async def left() -> int:
            stats: Any = (await cluster.expect(200, "GET", f"{PATH}/partitioned-stats")).json
            count: int = stats["subscriptions"]["a"]["msgBacklog"]
            return count

        for path in ("skip/1", "resetcursor"):
            body = EARLIEST if path == "resetcursor" else None
            assert "t-partition-0" in (await cluster.expect(405, "POST", f"{SUB}/{path}", body)).reason
        await cluster.expect(204, "POST", f"{PATH}-partition-1/subscription/a/skip/1")
        assert await left() == 5
        await cluster.expect(204, "POST", f"{SUB}/skip_all")
        assert await left() == 0
        await cluster.expect(204, "POST", f"{SUB}/resetcursor/0")
        assert await left() == 6
        await cluster.expect(204, "POST", f"{SUB}/expireMessages/2000000000")
        assert await left() == 6
        await cluster.expect(204, "POST", f"{PATH}/all_subscription/expireMessages/100")
        assert await left() == 0
        assert "0 of 2 were expired" in (await cluster.expect(409, "POST", f"{SUB}/expireMessages/100")).reason
        await cluster.expect(404, "POST", f"{PATH}/subscription/nobody/skip_all")


async def test_what_cannot_be_moved_is_refused() -> None:
    async with one_topic() as (cluster, _, __):
        for verb in ("skip/1", "skip_all", "expireMessages/1", "resetcursor/1"):
            await cluster.expect(404, "POST", f"{PATH}/subscription/nobody/{verb}")
            await cluster.expect(404, "POST", f"{PATH}x/subscription/a/{verb}")
            refused = await cluster.expect(405, "POST", f"{SUB.replace('/persistent', '/non-persistent')}/{verb}")
            assert "non-persistent topic is not allowed" in refused.reason
            refused = await cluster.expect(405, "POST", f"{PATH}/subscription/__compaction/{verb}")
            assert "reserved" in refused.reason
        for verb in ("skip/-1", "skip/2147483648", "skip/x", "expireMessages/-5"):
            assert "must be a whole number" in (await cluster.expect(400, "POST", f"{SUB}/{verb}")).reason
        assert await backlog(cluster) == 6


async def test_what_was_answered_holds_though_the_topic_is_unloaded_meanwhile() -> None:
    async with one_topic(1) as (cluster, client, _):
        for round_ in range(12):
            await cluster.expect(204, "POST", f"{SUB}/resetcursor", EARLIEST)
            before = await backlog(cluster)
            verbs = {"skip_all": 0, "skip/1": before - 1, "expireMessages/60": 0, "resetcursor/99999999999999": 0}
            verb, left = list(verbs.items())[round_ % len(verbs)]
            unloaded, answer = await asyncio.gather(
                cluster.call("PUT", f"{PATH}/unload"), cluster.call("POST", f"{SUB}/{verb}")
            )
            assert unloaded.status == 204
            assert answer.status in (204, 503), (verb, answer.body)
            if answer.status == 204:
                assert await backlog(cluster) == left, verb
            await client.produce(TOPIC)
            await client.send_all(1, first=round_ + 1)
