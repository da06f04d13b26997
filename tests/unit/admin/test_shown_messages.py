"""Messages of a broker as `topics peek-messages` prints them."""

import asyncio
from pathlib import Path

from click.testing import CliRunner
from structlog.testing import capture_logs

from pulsar_barycenter.admin.commands.shown_messages import hex_dump
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

PATH = "/admin/v2/persistent/public/ns/t"
PRINTED = """\
Message ID: {0}
Publish time: 1234
Event time: 0
Properties:
{{
  "Key" : "v",
  "a b" : "%"
}}
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 68 65 6c 6c 6f 0a                               |hello.          |
+--------+-------------------------------------------------+----------------+
-------------------------------------------------------------------------

Batch Message ID: {1}:0
Publish time: 1700000000000
Event time: 99
Properties:
{{
  "k" : "v"
}}
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 6f 6e 65                                        |one             |
+--------+-------------------------------------------------+----------------+
-------------------------------------------------------------------------

Batch Message ID: {1}:1
Publish time: 1700000000000
Event time: 0
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 74 77 6f                                        |two             |
+--------+-------------------------------------------------+----------------+
"""


def in_batch(payload: bytes, **metadata: object) -> bytes:
    told = api.SingleMessageMetadata(payload_size=len(payload), **metadata).SerializeToString()  # type: ignore[arg-type]
    return len(told).to_bytes(4, "big") + told + payload


async def printed(cluster: RestCluster, *words: str) -> tuple[str, str]:
    line = ["admin", "--admin-url", str(cluster.brokers[0].urls.web_url), "topics", *words]
    with capture_logs():
        result = await asyncio.to_thread(CliRunner().invoke, main, line)
    return result.stdout, result.stderr


async def test_messages_are_printed_one_by_one_also_those_of_a_batch(tmp_path: Path) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/subscription/s", {"ledgerId": -1, "entryId": -1})
        client = await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))
        await client.produce("persistent://public/ns/t")
        properties = [api.KeyValue(key="a b", value="%"), api.KeyValue(key="Key", value="v")]
        client.send(0, b"hello\n", publish_time=1234, properties=properties)
        pair = [api.KeyValue(key="k", value="v")]
        client.send(1, in_batch(b"one", properties=pair, event_time=99) + in_batch(b"two") + in_batch(b"3"), batch=3)
        client.send(2, b"not a batch", batch=3)
        ids = [(await client.expect(api.BaseCommand.SEND_RECEIPT)).message_id for _ in range(3)]
        places = [f"{place.ledgerId}:{place.entryId}" for place in ids]
        client.close()
        expected = PRINTED.format(*places)
        assert await printed(cluster, "peek-messages", "public/ns/t", "-s", "s", "-n", "3") == (expected, "")
        first = expected.partition("-" * 73)[0]
        by_id = ["-l", str(ids[0].ledgerId), "-e", str(ids[0].entryId)]
        assert await printed(cluster, "get-message-by-id", "public/ns/t", *by_id) == (first, "")
        examined = ["-i", "earliest", "-m", "1"]
        assert await printed(cluster, "examine-messages", "public/ns/t", *examined) == (first, "")
        out, refused = await printed(cluster, "peek-messages", "public/ns/t", "-s", "nobody")
        assert (out, "'nobody'" in refused) == ("", True)
        out, refused = await printed(cluster, "examine-messages", "public/ns/t")
        assert out == ""
        assert "cannot be shown" in refused


def test_a_dump_has_rows_of_sixteen_bytes() -> None:
    rows = hex_dump(bytes(range(60, 80))).splitlines()
    assert rows[3] == "|00000000| 3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b |<=>?@ABCDEFGHIJK|"
    assert rows[4] == "|00000010| 4c 4d 4e 4f                                     |LMNO            |"
    assert hex_dump(b"") == ""
