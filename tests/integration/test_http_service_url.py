"""The stock client with an `http://` service URL: it looks topics and partitions up over REST."""

import asyncio

import pytest

from support.rest_cluster import rest_cluster
from support.stock_client import connect

pytestmark = pytest.mark.integration

PLAIN = "persistent://public/ns/plain topic+1"
PARTS = "persistent://public/ns/parts"


def talk(url: str) -> tuple[list[bytes], list[bytes], list[str]]:
    """Send ten messages to either topic and receive them; return both, and the partitions that the client sees."""
    client = connect(url, operation_timeout_seconds=20)
    try:
        received = []
        for topic in (PLAIN, PARTS):
            consumer = client.subscribe(topic, "s")
            producer = client.create_producer(topic)
            for number in range(10):
                producer.send(str(number).encode())
            messages = [consumer.receive(20_000) for _ in range(10)]
            for message in messages:
                consumer.acknowledge(message)
            received.append(sorted(message.data() for message in messages))
            consumer.close()
        return received[0], received[1], client.get_topic_partitions(PARTS)
    finally:
        client.close()


async def test_a_client_finds_its_topics_over_http_from_any_broker() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=8)
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/parts/partitions", 4)
        for broker in cluster.brokers:
            plain, parts, partitions = await asyncio.to_thread(talk, str(broker.urls.web_url))
            assert plain == parts == [str(number).encode() for number in range(10)]
            assert partitions == [f"{PARTS}-partition-{index}" for index in range(4)]
