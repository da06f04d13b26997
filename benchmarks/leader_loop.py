"""`python -m benchmarks leader_loop`: how long the leader's duties keep the event loop busy that serves clients.

One broker's control plane with the modular load manager, on a store in memory that holds the reports of all others. A
task that runs in every turn of the loop measures the longest turn of each duty. Commands to owners of bundles are
answered at once.
"""

import argparse
import asyncio
import gc
import random
import sys
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.machine import print_table
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.control.parts import control_parts, metadata_writing
from pulsar_barycenter.broker.control_plane import ControlPlane
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment, in_a_thread
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    encode_report,
    with_stats,
)
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.standalone.scheduling import take_short_turns

_BUNDLES_OF_NAMESPACE: Final = 64


class AnsweringPeers:
    """Owners that do in the next turn of the loop what they are told."""

    async def unload_bundle(
        self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int | None
    ) -> None:
        await asyncio.sleep(0)

    async def split_bundle(
        self, broker_url: str, bundle: Bundle, *, algorithm: str, unload: bool, epoch: int | None
    ) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        pass


class Turns:
    """Measures the longest turn of the loop, from one run of `watch` to its next."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            self.longest_s, before = max(self.longest_s, now - before), now


def report_of(broker: int, each: int, sequence: int, rng: np.random.Generator) -> LocalBrokerData:
    traffic = rng.pareto(2.0, each) * 20 * 1_048_576 / each
    first = broker * each
    stats = {
        bundle_text(first + row): NamespaceBundleStats(
            msg_rate_in=load / 1000,
            msg_rate_out=load / 1000,
            msg_throughput_in=load,
            msg_throughput_out=load,
            topics=10,
        )
        for row, load in enumerate(traffic.tolist())
    }
    data = LocalBrokerData(
        broker_id=f"10.0.0.{broker}:8080",
        web_service_url=f"http://10.0.0.{broker}:8080",
        pulsar_service_url=f"pulsar://10.0.0.{broker}:6650",
        cpu=ResourceUsage(90.0 if broker % 10 == 0 else 50.0, 100.0),
        load_manager_class_name=ManagerKind.MODULAR.class_name,
        broker_version_string="1.0.0",
        last_update=1_700_000_000_000 + sequence,
        incarnation="a",
        sequence=sequence,
    )
    return with_stats(data, stats)


def bundle_text(row: int) -> str:
    namespace, number = divmod(row, _BUNDLES_OF_NAMESPACE)
    width = 2**32 // _BUNDLES_OF_NAMESPACE
    upper = min((number + 1) * width, 2**32 - 1)
    return f"t/ns-{namespace:06}/0x{number * width:08x}_0x{upper:08x}"


async def measure(brokers: int, bundles: int, rounds: int) -> list[list[object]]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.control_cluster import FakeDirectory, FakeTopics

    backend, each, rng = MemoryBackend(), bundles // brokers, np.random.default_rng(1)
    changes = {
        COMPATIBILITY_KEY: "4.x",
        "loadBalancerBundleUnloadMinThroughputThreshold": "0",
        "loadBalancerSheddingGracePeriodMinutes": "0",
        "loadBalancerSheddingIntervalMinutes": "10000",
    }
    config = ConfigHolder(with_overrides(BrokerConfig(), changes))
    store = backend.connect(SystemClock(), 600_000)
    environment = Environment(store, None, SystemClock(), random.Random(1), AnsweringPeers())  # type: ignore[arg-type]

    def factory(context: LoadManagerContext) -> ModularLoadManager:
        environment = replace(LoadManagerEnvironment.in_memory(context), offload=in_a_thread)  # as a broker does
        return ModularLoadManager(context, environment)

    parts = control_parts(
        config,
        environment,
        directory=FakeDirectory(),
        load_manager=factory,
        administration=store,
        writing=metadata_writing(config.current, environment),
    )
    plane = ControlPlane(parts)
    topics = FakeTopics()
    plane.attach(topics, dict, topics.topic_loads)
    await plane.start()
    urls = ServiceUrls.of_ports("127.0.0.1", 6650, 8080)
    plane.set_identity(urls)
    await plane.join()
    manager: Any = plane.load_manager
    while not plane.leadership.is_leader():  # noqa: ASYNC110 (there is no event to wait for)
        await asyncio.sleep(0.01)

    turns = Turns()
    found: dict[str, list[tuple[float, float]]] = {}
    watch = asyncio.create_task(turns.watch(), name="turns")

    async def timed(duty: str, work: Awaitable[object]) -> None:
        gc.collect()
        await asyncio.sleep(0)
        turns.longest_s = 0.0
        started = time.perf_counter()
        await work
        await asyncio.sleep(0)
        found.setdefault(duty, []).append((turns.longest_s * 1000, (time.perf_counter() - started) * 1000))

    async def reported(sequence: int) -> None:
        for broker in range(1, brokers):
            data = encode_report(report_of(broker, each, sequence, rng))
            await store.put(f"/loadbalance/brokers/10.0.0.{broker}:8080", data)
            await asyncio.sleep(0)

    async def all_folded(sequence: int) -> None:
        def behind() -> bool:
            reports = manager.load_data.fold.reports
            return len(reports) < brokers or any(
                report.sequence < sequence for name, report in reports.items() if name != urls.broker_id
            )

        while behind():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    for sequence in range(1, rounds + 1):
        await reported(sequence)
        await timed("fold the reports of all brokers", all_folded(sequence))
        await timed("first placement after that", manager.select_broker(Bundle.parse(bundle_text(bundles + sequence))))
        await timed("another placement", manager.select_broker(Bundle.parse(bundle_text(bundles + 900 + sequence))))
        await timed("shed", manager.shed())
        await timed("split check", manager.check_splits())
        await timed("store bundle data and averages", manager.write_resource_quotas())
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    await manager.stop()
    # the first round builds everything; what a leader lives with are the others
    return [
        [duty, max(hold for hold, _ in times[1:]), times[0][0], median(took for _, took in times[1:])]
        for duty, times in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    take_short_turns()  # as a broker does
    rows = asyncio.run(measure(arguments.brokers, arguments.bundles, max(2, arguments.rounds)))
    title = f"Longest hold of the leader's event loop, {arguments.brokers:,} × {arguments.bundles:,}"
    print_table(title, ["duty", "longest turn, ms", "in the first round, ms", "whole duty, ms"], rows)


if __name__ == "__main__":
    main()
