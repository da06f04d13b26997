"""Measures the failures that clients see while a running cluster changes its load manager and changes it back.

Three brokers are restarted one after the other with the extensible load manager, then again with the modular one. A
producer writes to each of some topics all the while, and each topic is looked up every 50 ms at a broker that runs,
over HTTP and following redirects. A failure lasts from when a look-up that failed was sent to the first answer to a
later one of the same topic.
"""

import argparse
import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import pulsar

from benchmarks.cluster import running_cluster
from benchmarks.machine import percentile, print_table
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.standalone.cluster import StandaloneCluster

_EVERY_S: Final = 0.05
_KEY: Final = "loadManagerClassName"
_MIGRATION: Final = "/admin/v2/brokers/configuration/loadManagerMigrationEnabled"
_CHANNEL: Final = "org.apache.pulsar.broker.loadbalance.extensions.channel"
_PLACES: Final = {
    "topic": f"{_CHANNEL}.ServiceUnitStateTableViewImpl",
    "store": f"{_CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl",
}


@dataclass(slots=True)
class LookUps:
    """The look-ups of one direction of the change-over."""

    took_s: list[float] = field(default_factory=list)
    failures_s: list[float] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        took = sorted(self.took_s)
        longest = max(self.failures_s, default=0.0)
        figures = [percentile(took, 50), percentile(took, 99), took[-1], longest]
        return [name, f"{len(took):,}", f"{len(self.failures_s):,}", *(f"{each * 1000:.0f}" for each in figures)]


class Watch:
    """Looks topics up at brokers that are not being restarted."""

    def __init__(self, session: aiohttp.ClientSession, cluster: StandaloneCluster, topics: list[str]) -> None:
        self.restarting: int | None = None
        self.current = LookUps()
        self._session = session
        self._cluster = cluster
        self._tasks = [asyncio.create_task(self._watch(topic)) for topic in topics]

    async def _watch(self, topic: str) -> None:
        failed_at: float | None = None
        for number in itertools.count():
            broker = self._cluster.brokers[number % len(self._cluster.brokers)]
            if broker.index == self.restarting:
                continue
            at = time.perf_counter()
            try:
                url = f"{broker.web_url}/lookup/v2/topic/{topic.replace('://', '/')}"
                async with self._session.get(url) as answer:
                    is_answered = answer.status == 200
            except aiohttp.ClientError:
                is_answered = False
            now = time.perf_counter()
            if is_answered:
                self.current.took_s.append(now - at)
                if failed_at is not None:
                    self.current.failures_s.append(now - failed_at)
                failed_at = None
            elif failed_at is None:
                failed_at = at
            await asyncio.sleep(_EVERY_S)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def produce(producer: Any, stop: asyncio.Event) -> int:
    """Send a message every 5 ms until `stop`; return how many, all of them acknowledged."""
    loop, pending = asyncio.get_running_loop(), []
    while not stop.is_set():
        done: asyncio.Future[None] = loop.create_future()

        def receipt(result: Any, _: Any, done: asyncio.Future[None] = done) -> None:
            assert result == pulsar.Result.Ok, result
            loop.call_soon_threadsafe(done.set_result, None)

        producer.send_async(b"x", receipt)
        pending.append(done)
        await asyncio.sleep(0.005)
    await asyncio.gather(*pending)
    return len(pending)


async def change_over(place: str, topic_count: int) -> list[list[str]]:
    configuration = {
        "loadManagerServiceUnitStateTableViewClassName": _PLACES[place],
        "loadBalancerSheddingEnabled": "false",
        "defaultNumberOfNamespaceBundles": "16",
    }
    rows = []
    async with running_cluster(3, configuration) as cluster, aiohttp.ClientSession() as session:
        settings = cluster.settings.configuration
        assert isinstance(settings, dict)
        topics = [f"persistent://public/default/topic-{number}" for number in range(topic_count)]
        client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        stop = asyncio.Event()
        makers = [asyncio.to_thread(client.create_producer, topic, send_timeout_millis=0) for topic in topics]
        producing = [asyncio.create_task(produce(producer, stop)) for producer in await asyncio.gather(*makers)]
        watch = Watch(session, cluster, topics)
        (await session.post(f"{cluster.brokers[0].web_url}{_MIGRATION}/true")).raise_for_status()
        for kind in (ManagerKind.EXTENSIBLE, ManagerKind.MODULAR):
            settings[_KEY] = kind.class_name
            watch.current = LookUps()
            for broker in cluster.brokers:
                watch.restarting = broker.index
                await broker.terminate(timeout_s=60)
                await cluster.start_brokers([broker])
                watch.restarting = None
                await asyncio.sleep(1)  # the next one is restarted when clients have used this one
            rows.append(watch.current.row(f"to the {kind}, records in the {place}"))
        stop.set()
        sent = sum(await asyncio.gather(*producing))
        await watch.close()
        client.close()
    print(f"records in the {place}: {sent:,} messages sent, all acknowledged")
    return rows


async def main() -> None:
    parser = argparse.ArgumentParser(prog="change_over")
    parser.add_argument("--topics", type=int, default=12, help="how many topics are written to and looked up")
    options = parser.parse_args()
    rows = [row for place in _PLACES for row in await change_over(place, options.topics)]
    print_table(
        "Change-over of a live cluster",
        ["change-over", "look-ups", "failed", "p50 ms", "p99 ms", "max ms", "longest failure ms"],
        rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
