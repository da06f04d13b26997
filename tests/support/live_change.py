"""A cluster of processes that is changed while clients write, and what clients must not notice."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pulsar_barycenter.standalone.cluster import StandaloneCluster
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import Admin, running_cluster
from support.serving_intervals import conflicts, read_terms

_TOPICS = [f"persistent://public/moves/topic-{number}" for number in range(4)]


@asynccontextmanager
async def cluster_under_traffic(
    folder: Path, configuration: Mapping[str, str]
) -> AsyncIterator[tuple[StandaloneCluster, Admin, list[str]]]:
    """Run three brokers and write numbers to four topics while the block lasts; `configuration` is read at each start.

    On leaving it checks that every message was acknowledged and arrived in order, and that bundles moved without two
    brokers serving one at a time.
    """
    async with running_cluster(folder, configuration=configuration) as (cluster, admin):
        await admin.create_namespace("public/moves", 4)
        client = stock_client(cluster.service_url)
        producers: list[NumberedProducer] = []
        try:
            for topic in _TOPICS:
                subscribe_before_sending(client, topic)
            producers += [NumberedProducer(client, topic) for topic in _TOPICS]
            sending = [asyncio.create_task(asyncio.to_thread(each.send, 100_000, pause_s=0.005)) for each in producers]
            yield cluster, admin, _TOPICS
            for producer in producers:
                producer.stop()
            await asyncio.gather(*sending)
            for producer in producers:
                await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=60)
                assert producer.failures == []
            for topic, producer in zip(_TOPICS, producers, strict=True):
                numbers = await asyncio.to_thread(receive_all, client, topic, producer.sent)
                assert list(dict.fromkeys(numbers)) == list(range(producer.sent))
        finally:
            for producer in producers:
                producer.stop()
            client.close()
        logs = [broker.log for broker in cluster.brokers]
    terms = [term for term in read_terms(logs) if str(term.bundle.namespace) == "public/moves"]
    assert len(terms) >= 12
    assert conflicts(terms) == []
