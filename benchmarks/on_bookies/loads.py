"""The loads that `benchmarks.pulsar` does not have: topics loaded from bookies, and moves between two brokers."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from benchmarks.cluster import running_cluster
from benchmarks.on_bookies.systems import Store
from benchmarks.pulsar.loads import CpuMeter, Figures, admin
from benchmarks.pulsar.systems import System, quiet_client
from benchmarks.unload_gap import GIVEN, gaps_of

_BUNDLES: Final = 16
_CONNECTING: Final = 32
"""Producers that connect at the same time."""
_MOVES: Final = [GIVEN] * 8


def topics_loaded(system: System, *, topics: int, scale: float) -> Figures:
    """Topics of one message each are created, unloaded, and loaded again by producers. A topic is created once its
    message is acknowledged: Apache Pulsar creates the first ledger with the topic, Barycenter with its first message.
    """
    count = int(topics * scale)
    namespace = f"public/many-{time.time_ns()}"
    admin(system, "PUT", f"/admin/v2/namespaces/{namespace}", b'{"bundles": {"numBundles": %d}}' % _BUNDLES)
    client = quiet_client(system.url)
    names = [f"persistent://{namespace}/topic-{number}" for number in range(count)]
    producers, first_s = _connect(client, names, first=b"x")
    mib = system.resident_mib()
    for producer in producers:
        producer.close()
    admin(system, "PUT", f"/admin/v2/namespaces/{namespace}/unload", b"")
    meter = CpuMeter(system)
    _, loaded_s = _connect(client, names)
    cpu = meter.each(count)
    client.close()
    return {"created/s": count / first_s, "loaded/s": count / loaded_s, **cpu, "MiB": mib}


def _connect(client: Any, names: list[str], *, first: bytes = b"") -> tuple[list[Any], float]:
    """Return a producer of each topic, and the seconds until all were there and each had sent the message `first`, if
    that is not empty.
    """

    def connect(name: str) -> Any:
        producer = client.create_producer(name)
        if first:
            producer.send(first)
        return producer

    start = time.perf_counter()
    with ThreadPoolExecutor(_CONNECTING) as threads:
        return list(threads.map(connect, names)), time.perf_counter() - start


def moves_of_pulsar(store: Store) -> tuple[dict[str, list[float]], str]:
    """Return the gaps in seconds of moves between two brokers of Apache Pulsar and of their owner's death, and what
    became of the messages. The broker that was killed runs again afterwards.
    """

    async def kill(number: int) -> None:
        await asyncio.to_thread(store.cluster.brokers[number].kill)
        killed.append(store.cluster.brokers[number])

    killed: list[Any] = []
    found = asyncio.run(gaps_of(store.cluster, kill, _MOVES, store.session_ms))
    store.cluster.restart(*killed)
    return found


def moves_of_barycenter(store: Store) -> tuple[dict[str, list[float]], str]:
    """Return the same of two brokers of Barycenter, which are started for this."""

    async def run() -> tuple[dict[str, list[float]], str]:
        keys = dict(store.configuration())
        url = keys.pop("metadataStoreUrl")
        async with running_cluster(2, keys, metadata_store_url=url) as cluster:
            return await gaps_of(
                cluster, lambda number: cluster.kill_broker(cluster.brokers[number]), _MOVES, store.session_ms
            )

    return asyncio.run(run())
