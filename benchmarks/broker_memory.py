"""Measures the memory of a broker process: idle and leading, idle and not leading, and with many loaded topics."""

import argparse
import asyncio

import psutil
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import print_table
from pulsar_barycenter.admin.client import AdminClient

_LEADER = "/admin/v2/brokers/leaderBroker"


def _mib(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20


def _load(service_url: str, topics: int) -> list[pulsar.Producer]:
    """Create a producer for each topic and send one message, so that each has a ledger, then close them."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    for number in range(topics):
        producer = client.create_producer(f"persistent://public/default/memory-{number}")
        producer.send(b"x")
        producer.close()
    client.close()
    return []


async def _of_idle_two() -> tuple[float, float]:
    """Return the MiB of the leader of two idle brokers, and of the other one."""
    async with running_cluster(2) as cluster:
        client = AdminClient()
        leader = (await client.call("GET", cluster.brokers[0].web_url, _LEADER))["brokerId"]
        await client.close()
        await asyncio.sleep(3)
        leads, follows = sorted(cluster.brokers, key=lambda broker: broker.broker_id != leader)
        assert leads.pid is not None
        assert follows.pid is not None
        return _mib(leads.pid), _mib(follows.pid)


async def measure(topics: int) -> None:
    leads, follows = await _of_idle_two()
    async with running_cluster(1, {"brokerDeleteInactiveTopicsEnabled": "false"}) as cluster:
        pid = cluster.brokers[0].pid
        assert pid is not None
        await asyncio.sleep(3)
        idle = _mib(pid)
        await asyncio.to_thread(_load, cluster.brokers[0].service_url, topics)
        await asyncio.sleep(3)
        loaded = _mib(pid)
    print_table(
        "Memory of a broker",
        ["state", "RSS MiB"],
        [
            ["idle, leads two", leads],
            ["idle, the other of the two", follows],
            ["idle, alone", idle],
            [f"{topics:,} loaded topics, alone", loaded],
            ["KiB a topic", (loaded - idle) * 1024 / topics],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    asyncio.run(measure(parser.parse_args().topics))


if __name__ == "__main__":
    main()
