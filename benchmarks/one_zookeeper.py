"""Compares Apache Pulsar and Barycenter, two brokers each, on the same ZooKeeper: hand-over, fail-over, a start storm.

The ZooKeeper is Pulsar's, as it starts it; Barycenter's cluster has a folder of its own there. Both sync what they
acknowledge, Pulsar by one bookie, and both have the modular load manager and sessions of one length. The clusters are
measured one after the other, because each would take the cores from the other; the table has the order.

- *Hand-over*: the longest time without a receipt around an unload to the other broker, under a running client.
- *Fail-over*: the same around the owner's death by SIGKILL.
- *All served*: a topic in each bundle, looked up and produced to by clients that come at once: to the cluster as it is,
  and after both brokers were killed and started again.

Needs Maven and a JDK, 17 or newer; without them it says so and measures nothing.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table
from benchmarks.start_storm import make_namespaces
from benchmarks.unload_gap import GIVEN, Cluster, Kill, gaps_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.apache_pulsar import DURABLE, MODULAR, ApachePulsar, apache_pulsar
from support.maven import PeerUnavailableError
from support.start_storm import Storm, start_storm

_BROKERS: Final = 2
_BUNDLES_OF_NAMESPACE: Final = 16

Restart = Callable[[], Awaitable[None]]
"""Kills all brokers at once and starts them again; returns when they are ready."""
Rows = dict[str, float]


async def measure(cluster: Cluster, kill: Kill, restart: Restart, given: argparse.Namespace) -> Rows:
    """Return the figures of one cluster by their names."""
    namespaces = max(1, given.bundles // _BUNDLES_OF_NAMESPACE)
    topics = await make_namespaces(cluster.brokers[0].web_url, namespaces, _BUNDLES_OF_NAMESPACE)
    ports = [urlsplit(broker.service_url).port or 0 for broker in cluster.brokers]
    found = _storm("first storm", await start_storm(ports, topics, given.clients))
    began = time.perf_counter()
    await restart()
    found["brokers ready after the kill s"] = time.perf_counter() - began
    found |= _storm("storm after the restart", await start_storm(ports, topics, given.clients))
    gaps, verdict = await gaps_of(cluster, kill, [GIVEN] * given.unloads, given.session_ms)
    print(verdict, file=sys.stderr, flush=True)
    for event, times in gaps.items():
        found |= {f"{event}, gap p{p} ms": 1000 * percentile(times, p) for p in ((50, 99) if len(times) > 1 else (50,))}
    return found


def _storm(name: str, storm: Storm) -> Rows:
    served = sorted(storm.served_s.values())
    refused = float(sum(storm.refusals.values()))
    return {f"{name}: all served s": served[-1], f"{name}: p50 s": percentile(served, 50), f"{name}: refused": refused}


async def of_pulsar(pulsar: ApachePulsar, given: argparse.Namespace) -> Rows:
    async def kill(place: int) -> None:
        await asyncio.to_thread(pulsar.brokers[place].kill)

    async def restart() -> None:
        for broker in pulsar.brokers:
            broker.kill()
        await asyncio.to_thread(pulsar.restart, *pulsar.brokers)

    return await measure(pulsar, kill, restart, given)


async def of_barycenter(url: str, given: argparse.Namespace) -> Rows:
    keys = {"loadBalancerSheddingEnabled": "false", "loadBalancerAutoBundleSplitEnabled": "false"}
    keys |= {"metadataStoreSessionTimeoutMillis": str(given.session_ms), "loadManagerClassName": MODULAR}
    async with running_cluster(_BROKERS, keys, metadata_store_url=url) as cluster:

        async def restart() -> None:
            await asyncio.gather(*map(cluster.kill_broker, cluster.brokers))
            await cluster.start_brokers(cluster.brokers)

        return await measure(cluster, lambda place: cluster.kill_broker(cluster.brokers[place]), restart, given)


@contextmanager
def running_pulsar(given: argparse.Namespace) -> Iterator[ApachePulsar]:
    keys = {"metadataStoreSessionTimeoutMillis": str(given.session_ms), "loadManagerClassName": MODULAR}
    with (
        tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder,
        apache_pulsar(Path(folder), brokers=_BROKERS, configuration=keys, deployment=DURABLE) as pulsar,
    ):
        yield pulsar


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=1_008)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--unloads", type=int, default=50)
    parser.add_argument("--session-ms", type=int, default=10_000)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with running_pulsar(given) as pulsar:
            theirs = asyncio.run(of_pulsar(pulsar, given))
            ours = asyncio.run(of_barycenter(f"{pulsar.metadata_url}/barycenter", given))
    except PeerUnavailableError as error:
        sys.exit(f"Nothing was measured: Apache Pulsar comes from Maven, and that cannot be had here. {error}")
    rows = [[name, theirs[name], ours[name], ours[name] / theirs[name] if theirs[name] else "–"] for name in theirs]
    print_table("On one ZooKeeper", ["figure", "Pulsar", "Barycenter", "Barycenter / Pulsar"], rows)


if __name__ == "__main__":
    main()
