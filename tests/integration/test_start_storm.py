"""All clients come at once, to brokers that admit few look-ups and few loads of topics at a time."""

from pathlib import Path

import pytest

from support.running_cluster import QUICK, running_cluster
from support.start_storm import Storm, sessions_lost, start_storm, topic_in_each_bundle

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

CLIENTS, NAMESPACES, BUNDLES = 60, 4, 4
FEW = {"maxConcurrentLookupRequest": "2", "maxConcurrentTopicLoadRequest": "1"}


async def test_all_are_served_though_few_are_admitted_at_a_time(tmp_path: Path) -> None:
    """To a new cluster, and after all brokers died: who is refused comes again, one broker serves each topic, and no
    broker loses its session over it."""
    async with running_cluster(tmp_path, brokers=2, configuration=QUICK | FEW) as (cluster, admin):
        names = [f"public/storm-{number}" for number in range(NAMESPACES)]
        for name in names:
            await admin.create_namespace(name, BUNDLES)
        topics = [topic for name in names for topic in topic_in_each_bundle(name, BUNDLES)]
        ports = [broker.broker_port for broker in cluster.brokers]

        async def check(storm: Storm) -> None:
            assert set(storm.served_s) == set(topics)
            assert "TooManyRequests" in storm.refusals
            # The owner of a bundle may change between the look-up and the producer while ownership settles.
            assert set(storm.refusals) <= {"TooManyRequests", "ServiceNotReady"}
            owners = [await admin.owner(topic, broker=number % 2) for number, topic in enumerate(topics)]
            assert {topic: owner.broker_port for topic, owner in zip(topics, owners, strict=True)} == storm.owners
            assert sessions_lost(broker.log for broker in cluster.brokers) == 0

        await check(await start_storm(ports, topics, CLIENTS))
        for broker in cluster.brokers:
            await cluster.kill_broker(broker)
        await cluster.start_brokers(cluster.brokers)
        await check(await start_storm(ports, topics, CLIENTS))
