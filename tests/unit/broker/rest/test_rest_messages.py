"""Messages over REST: peeked, read by id or place, found by time; their metadata in headers."""

from typing import Any

import pytest

from pulsar_barycenter.broker.compaction.compression import compress
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent://public/ns/t"
PATH = "/admin/v2/persistent/public/ns/t"
EARLIEST = {"ledgerId": -1, "entryId": -1}


async def stored(client: WireClient, number: int, payload: bytes, **metadata: Any) -> str:
    """Send a message, and return its position as text."""
    client.send(number, payload, **metadata)
    place = (await client.expect(api.BaseCommand.SEND_RECEIPT)).message_id
    return f"{place.ledgerId}:{place.entryId}"


async def client_of(cluster: RestCluster) -> WireClient:
    await cluster.create_namespace()
    await cluster.expect(204, "PUT", f"{PATH}/subscription/a", EARLIEST)
    client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
    await client.produce(TOPIC)
    return client


def where(place: str) -> str:
    ledger, entry = place.split(":")
    return f"{PATH}/ledger/{ledger}/entry/{entry}"


async def test_messages_are_peeked_by_their_place_in_the_backlog() -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        places = [await stored(client, number, b"m%d" % number) for number in range(4)]
        await client.subscribe(TOPIC, "a", permits=4, sub_type=api.CommandSubscribe.Shared)
        acked = (await client.messages(4))[1][0].message_id
        client.write(client_commands.ack(1, [acked]))
        await client.settled()
        for number, expected in [(1, 0), (2, 2), (3, 3)]:
            answer = await cluster.expect(200, "GET", f"{PATH}/subscription/a/position/{number}")
            assert (answer.body, answer.headers["X-Pulsar-Message-ID"]) == (b"m%d" % expected, places[expected])
        refused = await cluster.expect(404, "GET", f"{PATH}/subscription/a/position/4")
        assert refused.reason == "Message not found: the backlog has 3 entries, so it has no message 4"
        await cluster.expect(400, "GET", f"{PATH}/subscription/a/position/0")
        await cluster.expect(404, "GET", f"{PATH}/subscription/b/position/1")
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        await cluster.expect(200, "GET", where(places[1]))
        client.close()


async def test_the_metadata_of_a_message_is_in_headers() -> None:
    metadata = {
        "producer": "p1",
        "event_time": 1_500,
        "deliver_at_time": 2_500,
        "key": "k ü",
        "uuid": "u",
        "ordering_key": b"\x00\xff",
        "schema_version": b"\x01",
        "replicate_to": ["x", "y"],
        "properties": [api.KeyValue(key="a b", value="1\r\n2"), api.KeyValue(key="plain", value="v")],
    }
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        place = await stored(client, 7, b"hello", publish_time=1_234, **metadata)
        answer = await cluster.expect(200, "GET", where(place))
        found = {name.lower(): value for name, value in answer.headers.items() if name.startswith("X-Pulsar-")}
        assert answer.body == b"hello"
        assert answer.headers.getall("X-Pulsar-replicated-to") == ["x", "y"]
        found.pop("x-pulsar-replicated-to")
        assert found == {
            "x-pulsar-message-id": place,
            "x-pulsar-property-a%20b": "1%0D%0A2",
            "x-pulsar-property-plain": "v",
            "x-pulsar-publish-time": "1970-01-01T00:00:01.234Z",
            "x-pulsar-event-time": "1970-01-01T00:00:01.500Z",
            "x-pulsar-deliver-at-time": "1970-01-01T00:00:02.500Z",
            "x-pulsar-is-encrypted": "false",
            "x-pulsar-producer-name": "p1",
            "x-pulsar-sequence-id": "7",
            "x-pulsar-partition-key": "k ü",
            "x-pulsar-uuid": "u",
            "x-pulsar-base64-ordering-key": "AP8=",
            "x-pulsar-base64-schema-version": "AQ==",
        }
        batch = await stored(client, 8, b"12345", batch=3)
        answer = await cluster.expect(200, "GET", where(batch))
        assert answer.headers["X-Pulsar-num-batch-message"] == "3"
        large = await stored(client, 9, b"", properties=[api.KeyValue(key="k", value="v" * 70_000)])
        assert "70" in (await cluster.expect(412, "GET", where(large))).reason
        client.close()


@pytest.mark.parametrize("kind", [api.ZLIB, api.LZ4, api.ZSTD, api.SNAPPY])
async def test_a_compressed_payload_is_shown_decompressed(kind: Any) -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        text = b"again " * 100
        packed = await compress(kind, text)
        place = await stored(client, 0, packed, compression=kind, uncompressed_size=len(text))
        answer = await cluster.expect(200, "GET", where(place))
        assert (answer.body, answer.headers["X-Pulsar-uncompressed-size"]) == (text, "600")
        damaged = await stored(client, 1, b"nonsense", compression=kind, uncompressed_size=600)
        assert "cannot be shown" in (await cluster.expect(412, "GET", where(damaged))).reason
        keys = [api.EncryptionKeys(key="k", value=b"v")]
        sealed = await stored(client, 2, b"sealed", compression=kind, uncompressed_size=600, encryption_keys=keys)
        answer = await cluster.expect(200, "GET", where(sealed))
        assert (answer.body, answer.headers["X-Pulsar-Is-Encrypted"]) == (b"sealed", "true")
        client.close()


async def test_messages_are_examined_from_both_ends() -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        assert "has none" in (await cluster.expect(412, "GET", f"{PATH}/examinemessage")).reason
        for number in range(3):
            await stored(client, number, b"m%d" % number)
        for side, place, expected in [
            ("latest", 1, 2), ("latest", 3, 0), ("latest", 9, 0), ("earliest", 1, 0), ("earliest", 2, 1),
            ("earliest", 9, 2), ("earliest", 0, 0), ("", "", 2),
        ]:  # fmt: skip
            answer = await cluster.expect(
                200, "GET", f"{PATH}/examinemessage", initialPosition=side, messagePosition=place
            )
            assert answer.body == b"m%d" % expected
        await cluster.expect(400, "GET", f"{PATH}/examinemessage", initialPosition="middle")
        client.close()


async def test_message_ids_are_found_by_time_and_at_the_end() -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        assert (await cluster.expect(200, "GET", f"{PATH}/lastMessageId")).json == {**EARLIEST, "partitionIndex": -1}
        await cluster.expect(404, "GET", f"{PATH}/messageid/0")
        places = [await stored(client, number, b"m", publish_time=1_000 + number) for number in range(3)]

        async def at(time_ms: int) -> str:
            found = (await cluster.expect(200, "GET", f"{PATH}/messageid/{time_ms}")).json
            assert found["partitionIndex"] == -1
            return f"{found['ledgerId']}:{found['entryId']}"

        ledger, entry = places[2].split(":")
        assert [await at(time_ms) for time_ms in (0, 1_001, 1_002)] == places
        assert await at(1_003) == f"{ledger}:{int(entry) + 1}"
        batch = await stored(client, 3, b"b", batch=4)
        last = (await cluster.expect(200, "GET", f"{PATH}/lastMessageId")).json
        assert (f"{last['ledgerId']}:{last['entryId']}", last["batchIndex"]) == (batch, 3)
        client.close()


async def test_the_size_of_a_backlog_is_shown() -> None:
    async with rest_cluster() as cluster:
        client = await client_of(cluster)
        places = [await stored(client, number, b"x" * 100) for number in range(3)]
        total = (await cluster.expect(200, "PUT", f"{PATH}/backlogSize", EARLIEST)).json
        ledger, entry = map(int, places[0].split(":"))
        left = (await cluster.expect(200, "PUT", f"{PATH}/backlogSize", {"ledgerId": ledger, "entryId": entry})).json
        assert left == total * 2 // 3 > 200
        client.close()


async def test_messages_of_other_topics_are_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/partitions", 2)
        paths = ["subscription/a/position/1", "ledger/1/entry/1", "examinemessage", "messageid/1", "lastMessageId"]
        for path in paths:
            assert "t-partition-0" in (await cluster.expect(405, "GET", f"{PATH}/{path}")).reason
            await cluster.expect(405, "GET", f"{PATH.replace('/persistent', '/non-persistent')}/{path}")
            await cluster.expect(404, "GET", f"{PATH}x/{path}")
        await cluster.expect(404, "GET", f"{PATH}-partition-0/ledger/1/entry/1")
        await cluster.expect(400, "GET", f"{PATH}-partition-0/ledger/x/entry/1")
        assert (await cluster.expect(200, "GET", f"{PATH}-partition-1/lastMessageId")).json["partitionIndex"] == 1
