"""Termination over REST: producers are refused, consumers read to the end and get REACHED_END_OF_TOPIC."""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.ledger.managed.ledger_list import LedgerList
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent://public/ns/t"
PATH = "/admin/v2/persistent/public/ns/t"
END = api.BaseCommand.REACHED_END_OF_TOPIC


async def client_of(cluster: RestCluster, topic: str = "persistent/public/ns/t") -> WireClient:
    owner = await cluster.owner(topic)
    return await WireClient.connect(int(str(owner.urls.broker_url).rpartition(":")[2]))


def acknowledge(client: WireClient, *places: tuple[int, int], consumer: int = 1) -> None:
    ids = [api.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in places]
    client.write(client_commands.ack(consumer, ids))


async def test_a_terminated_topic_refuses_producers_also_after_an_unload() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.produce(TOPIC)
        ledger, entry = (await client.send_all(3))[-1]
        last = {"ledgerId": ledger, "entryId": entry, "partitionIndex": -1}
        assert (await cluster.expect(200, "POST", f"{PATH}/terminate")).json == last
        await client.expect(api.BaseCommand.CLOSE_PRODUCER)
        for _ in range(2):
            refused = await client.produce(TOPIC, producer_id=2)
            assert (refused.error, "was terminated" in refused.message) == (api.TopicTerminatedError, True)
            exclusive = await client.produce(TOPIC, producer_id=3, access_mode=api.Exclusive)
            assert exclusive.error == api.TopicTerminatedError
            assert (await cluster.expect(200, "GET", f"{PATH}/lastMessageId")).json == last
            await cluster.expect(204, "PUT", f"{PATH}/unload")
        assert (await cluster.expect(200, "POST", f"{PATH}/terminate")).json == last
        client.close()


async def test_a_message_that_comes_while_the_end_is_stored_gets_no_answer_but_the_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a SEND_ERROR with this reason the client for Go forgets the producer, and would miss the close."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.produce(TOPIC)
        await client.send_all(1)
        topic: Any = next(each for each in cluster.brokers[0].registry.loaded() if str(each.name) == TOPIC)
        save, reached, allowed = LedgerList.save, asyncio.Event(), asyncio.Event()

        async def held(ledgers: LedgerList, *, is_open: bool = True) -> None:
            reached.set()
            await allowed.wait()
            await save(ledgers, is_open=is_open)

        monkeypatch.setattr(LedgerList, "save", held)
        termination = asyncio.create_task(cluster.expect(200, "POST", f"{PATH}/terminate"))
        await reached.wait()
        client.send(1)
        client.send(2)
        await client.settled()
        assert not client.received
        assert topic.pending == 0
        allowed.set()
        await termination
        await client.expect(api.BaseCommand.CLOSE_PRODUCER)
        client.send(3)
        await client.settled()
        assert not client.received
        assert topic.ledger.stats.entries == 1
        assert (await client.produce(TOPIC)).error == api.TopicTerminatedError
        client.close()


@pytest.mark.parametrize("kind", list(api.CommandSubscribe.SubType.values()))
async def test_consumers_get_the_end_once_all_is_acknowledged(kind: Any) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.subscribe(TOPIC, "s", permits=100, sub_type=kind)
        await client.produce(TOPIC)
        places = await client.send_all(3)
        await cluster.expect(200, "POST", f"{PATH}/terminate")
        await client.messages(3)
        acknowledge(client, places[2], places[0])
        await client.settled()
        assert not client.pending(END)
        acknowledge(client, places[1])
        assert (await client.expect(END)).consumer_id == 1
        acknowledge(client, places[1])
        await client.settled()
        assert not client.pending(END)
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        await client.expect(api.BaseCommand.CLOSE_CONSUMER)
        await client.subscribe(TOPIC, "s", 2, permits=100, sub_type=kind)
        assert (await client.expect(END)).consumer_id == 2
        client.close()


async def test_consumers_without_a_backlog_get_the_end_at_once_and_after_a_skip() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.produce(TOPIC)
        places = await client.send_all(2)
        await client.subscribe(TOPIC, "new")
        await cluster.expect(204, "PUT", f"{PATH}/subscription/old", {"ledgerId": -1, "entryId": -1})
        await client.subscribe(TOPIC, "old", 2, permits=100)
        await cluster.expect(200, "POST", f"{PATH}/terminate")
        assert (await client.expect(END)).consumer_id == 1
        await client.messages(2)
        await cluster.expect(204, "POST", f"{PATH}/subscription/old/skip_all")
        assert (await client.expect(END)).consumer_id == 2
        await cluster.expect(
            204, "POST", f"{PATH}/subscription/old/resetcursor", {"ledgerId": places[1][0], "entryId": places[1][1]}
        )
        await client.expect(api.BaseCommand.CLOSE_CONSUMER)
        await client.subscribe(TOPIC, "old", 3, permits=100)
        await client.messages(1)
        assert not client.pending(END)
        acknowledge(client, places[1], consumer=3)
        assert (await client.expect(END)).consumer_id == 3
        client.close()


async def test_a_producer_that_waits_for_the_topic_is_refused_when_it_ends() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.produce(TOPIC, access_mode=api.Exclusive)
        waiting = await client.produce(TOPIC, producer_id=2, access_mode=api.WaitForExclusive)
        assert not waiting.producer_ready
        await cluster.expect(200, "POST", f"{PATH}/terminate")
        await client.expect(api.BaseCommand.ERROR)
        assert (await client.produce(TOPIC, producer_id=2)).error == api.TopicTerminatedError
        client.close()


async def test_all_partitions_end() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/partitions", 2)
        client = await client_of(cluster, "persistent/public/ns/t-partition-1")
        await client.produce(f"{TOPIC}-partition-1")
        ledger, entry = (await client.send_all(1))[0]
        assert "t-partition-0" in (await cluster.expect(405, "POST", f"{PATH}/terminate")).reason
        for _ in range(2):
            assert (await cluster.expect(200, "POST", f"{PATH}/terminate/partitions")).json == {
                "0": {"ledgerId": -1, "entryId": -1, "partitionIndex": 0},
                "1": {"ledgerId": ledger, "entryId": entry, "partitionIndex": 1},
            }
        assert (await client.produce(f"{TOPIC}-partition-1", producer_id=2)).error == api.TopicTerminatedError
        client.close()


async def test_what_cannot_be_terminated_is_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(404, "POST", f"{PATH}/terminate")
        await cluster.expect(204, "PUT", PATH)
        assert "use terminate" in (await cluster.expect(405, "POST", f"{PATH}/terminate/partitions")).reason
        other = PATH.replace("/persistent", "/non-persistent")
        assert "non-persistent" in (await cluster.expect(405, "POST", f"{other}/terminate")).reason
        system = "/admin/v2/persistent/pulsar/system/loadbalancer-service-unit-state/terminate"
        assert "system topic" in (await cluster.expect(405, "POST", system)).reason
