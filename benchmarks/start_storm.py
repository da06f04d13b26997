"""Measures how long it takes until all clients are served that connect at once: to a new or a restarted cluster.

Each client looks its topics up, follows redirects and has a producer of each, in every bundle one topic. Then all
brokers are killed at once and started again, and as soon as they are ready all clients come back. A store on a network
is named by `--url`, as `zk:127.0.0.1:2181/storm` or `etcd:http://127.0.0.1:2379/storm`; without, it is SQLite's file.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
import psutil

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table
from pulsar_barycenter.standalone.cluster import StandaloneCluster

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.start_storm import Storm, sessions_lost, start_storm, topic_in_each_bundle

HEADER: Final = (
    *("clients come", "bundles", "clients", "brokers ready s", "all served s", "p50 s", "p99 s"),
    *("refused, came again", "sessions lost", "largest RSS MiB"),
)
_TENANT: Final = "public"
_AT_ONCE: Final = 16
"""Namespaces that are made at once, before anything is timed."""


async def make_namespaces(web_url: str, count: int, bundles: int) -> list[str]:
    """Make so many namespaces by the admin REST and return a topic for each of their bundles."""
    limit = asyncio.Semaphore(_AT_ONCE)
    names = [f"{_TENANT}/storm-{number}" for number in range(count)]
    async with aiohttp.ClientSession() as session:

        async def make(name: str) -> None:
            url = f"{web_url}/admin/v2/namespaces/{name}"
            async with limit, session.put(url, json={"bundles": {"numBundles": bundles}}) as answer:
                assert answer.status == 204, await answer.text()

        await asyncio.gather(*map(make, names))
    return [topic for name in names for topic in topic_in_each_bundle(name, bundles)]


def resident_mib(cluster: StandaloneCluster) -> float:
    """Return what the largest broker holds in memory now."""
    return max(psutil.Process(broker.pid).memory_info().rss / 2**20 for broker in cluster.brokers)


async def restart_all(cluster: StandaloneCluster) -> float:
    """Kill all brokers at once and start them again; return how many seconds passed until all are ready."""
    began = time.perf_counter()
    await asyncio.gather(*(cluster.kill_broker(broker) for broker in cluster.brokers))
    await cluster.start_brokers(cluster.brokers)
    return time.perf_counter() - began


def row(name: str, storm: Storm, clients: int, ready_s: float | None, cluster: StandaloneCluster) -> list[object]:
    served = sorted(storm.served_s.values())
    refused = ", ".join(f"{count:,} {what}" for what, count in storm.refusals.most_common()) or "none"
    times = [served[-1], percentile(served, 50), percentile(served, 99)]
    ready = "" if ready_s is None else ready_s
    lost = sessions_lost(broker.log for broker in cluster.brokers)
    return [name, len(served), clients, ready, *times, refused, lost, resident_mib(cluster)]


async def measure(
    brokers: int, namespaces: int, bundles: int, clients: int, url: str, configuration: dict[str, str]
) -> list[Sequence[object]]:
    """Return the rows of both storms."""
    keys = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"} | configuration
    async with running_cluster(brokers, keys, metadata_store_url=url) as cluster:
        topics = await make_namespaces(cluster.brokers[0].web_url, namespaces, bundles)
        ports = [broker.broker_port for broker in cluster.brokers]
        rows: list[Sequence[object]] = [
            row("to a new cluster", await start_storm(ports, topics, clients), clients, None, cluster)
        ]
        ready_s = await restart_all(cluster)
        rows.append(row("after a restart", await start_storm(ports, topics, clients), clients, ready_s, cluster))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--namespaces", type=int, default=1_000)
    parser.add_argument("--bundles", type=int, default=16, help="of each namespace")
    parser.add_argument("--clients", type=int, default=5_000)
    parser.add_argument("--url", default="", help="metadataStoreUrl; a file of its own unless given")
    parser.add_argument("--key", action="append", default=[], metavar="NAME=TEXT", help="a key of broker.conf")
    given = parser.parse_args()
    keys = dict(each.split("=", 1) for each in given.key)
    rows = asyncio.run(measure(given.brokers, given.namespaces, given.bundles, given.clients, given.url, keys))
    print_table(f"All clients at once, {given.brokers} brokers", HEADER, rows)


if __name__ == "__main__":
    main()
