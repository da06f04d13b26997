"""How long a client's topic gives no receipt when its bundle is unloaded, and when its broker is killed.

One producer sends a message each 5 ms without waiting; the gap of an event is the longest time around it in
which messages were under way and no receipt came.
"""

import argparse
import asyncio
import threading
import time
from typing import Any

import aiohttp
import pulsar

from barycenter.standalone.cluster import StandaloneCluster
from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table

_TOPIC = "persistent://public/gap/topic"
_LOOKUP = "/lookup/v2/topic/persistent/public/gap/topic"
_EVERY_S = 0.005


class Pulse:
    """Send steadily and keep the time of each receipt."""

    def __init__(self, client: Any) -> None:
        self.receipts: list[tuple[float, float]] = []
        self._producer = client.create_producer(_TOPIC, send_timeout_millis=0, max_pending_messages=50_000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            sent_at = time.perf_counter()
            self._producer.send_async(b"x", lambda result, _, sent_at=sent_at: self._receipt(sent_at))

    def _receipt(self, sent_at: float) -> None:
        self.receipts.append((sent_at, time.perf_counter()))

    def longest_gap_s(self, from_s: float, until_s: float) -> float:
        gaps, last = [0.0], from_s
        for sent_at, at in self.receipts:
            if from_s <= at <= until_s:
                gaps.append(at - max(last, sent_at))
                last = at
        return max(gaps)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


async def owner_index(session: aiohttp.ClientSession, cluster: StandaloneCluster, ask: int = 0) -> int:
    async with session.get(cluster.brokers[ask].web_url + _LOOKUP) as answer:
        url = (await answer.json(content_type=None))["brokerUrl"]
    return next(broker.index for broker in cluster.brokers if broker.service_url == url)


async def measure(unloads: int, session_ms: int) -> None:
    configuration = {"loadBalancerSheddingEnabled": "false", "metadataStoreSessionTimeoutMillis": str(session_ms)}
    async with running_cluster(3, configuration) as cluster, aiohttp.ClientSession() as session:
        url = cluster.brokers[0].web_url
        async with session.put(f"{url}/admin/v2/namespaces/public/gap", json={"bundles": {"numBundles": 1}}) as answer:
            assert answer.status == 204, await answer.text()
        client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        pulse = await asyncio.to_thread(Pulse, client)
        await asyncio.sleep(1)
        gaps = []
        for _ in range(unloads):
            start = time.perf_counter()
            target = cluster.brokers[(await owner_index(session, cluster) + 1) % 3]
            path = "/admin/v2/namespaces/public/gap/0x00000000_0xffffffff/unload"
            async with session.put(f"{url}{path}", params={"destinationBroker": target.broker_id}) as answer:
                assert answer.status == 204, await answer.text()
            await asyncio.sleep(1.0)
            gaps.append(pulse.longest_gap_s(start, time.perf_counter()))
        killed = await owner_index(session, cluster)
        start = time.perf_counter()
        await cluster.kill_broker(cluster.brokers[killed])
        await asyncio.sleep(session_ms / 1000 + 5)
        recovery_s = pulse.longest_gap_s(start, time.perf_counter())
        await asyncio.to_thread(pulse.close)
        await asyncio.to_thread(client.close)
    print_table(
        "Client-visible gap",
        ["event", "times", "p50 ms", "p99 ms", "max ms"],
        [
            ["unload to a given broker", unloads, *(1000 * percentile(gaps, p) for p in (50, 99, 100))],
            [f"owner killed (session {session_ms} ms)", 1, 1000 * recovery_s, 1000 * recovery_s, 1000 * recovery_s],
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unloads", type=int, default=50)
    parser.add_argument("--session-ms", type=int, default=10_000)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.unloads, arguments.session_ms))


if __name__ == "__main__":
    main()
