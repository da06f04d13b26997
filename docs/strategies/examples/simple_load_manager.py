"""Three brokers of the simple load manager: where two new bundles go, by each placement, and what is shed."""

import random

import msgspec

from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Reason, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.placement import SimpleMemory, rank, select_broker
from pulsar_barycenter.load.simple.quotas import Quotas, update_quotas
from pulsar_barycenter.load.simple.shedding import SimpleShedder
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings, SimpleStrategy
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.snapshot.simple_snapshot import build_simple_snapshot


def reported(**brokers: tuple[float, dict[str, float]]) -> LoadSnapshot:
    """Return the snapshot of brokers at so much CPU (%), with bundles of so many messages a second."""
    return build_simple_snapshot(
        {
            name: complete(
                LoadReport(
                    name=name,
                    timestamp=1,
                    system_resource_usage=SystemResourceUsage(
                        cpu=ResourceUsage(cpu, 100),
                        memory=ResourceUsage(100, 4096),
                        bandwidth_in=ResourceUsage(0, 1_000_000),
                        bandwidth_out=ResourceUsage(0, 1_000_000),
                    ),
                    bundle_stats={
                        f"public/{bundle}/0x00000000_0xffffffff": NamespaceBundleStats(msg_rate_in=rate, topics=2)
                        for bundle, rate in rates.items()
                    },
                )
            )
            for name, (cpu, rates) in brokers.items()
        }
    )


def place(snapshot: LoadSnapshot, strategy: SimpleStrategy) -> None:
    settings, quotas, memory = SimpleSettings(strategy), update_quotas(snapshot, Quotas()), SimpleMemory()
    ranking, memory = rank(snapshot, quotas, memory, settings)
    for namespace in ("new", "newer"):
        request = PlacementRequest(f"public/{namespace}/0x00000000_0xffffffff")
        placement, ranking, memory = select_broker(
            ranking, request, settings, quotas, snapshot.brokers.names, random.Random(1), memory
        )
        print(f"  {namespace} to {brief(placement.reason)}")


def brief(reason: Reason) -> str:
    return render(msgspec.structs.replace(reason, alternatives=(), settings=(), strategy="", cause=None))


calm = reported(b1=(30, {"a": 100}), b2=(60, {"b": 400}), b3=(0, {}))
busy = reported(b1=(55, {"a": 100}), b2=(60, {"b": 400}), b3=(0, {}))
for title, snapshot in (("b1 at 30 %, b2 at 60 %, b3 idle", calm), ("b1 at 55 %", busy)):
    print(f"{title}, leastLoadedServer:")
    place(snapshot, SimpleStrategy.LEAST_LOADED_SERVER)
for strategy in (SimpleStrategy.LEAST_MSG_PER_SECOND, SimpleStrategy.WEIGHTED_RANDOM_SELECTION):
    print(f"b1 at 30 %, b2 at 60 %, b3 idle, {strategy}:")
    place(calm, strategy)

print("b1 at 90 %, b2 at 40 %:")
hot = reported(b1=(90, {"a": 100, "b": 300, "c": 200}), b2=(40, {"d": 100}))
for unload in SimpleShedder(SimpleSettings()).decide(hot, None)[0]:
    print(f"  {unload.bundle} leaves {unload.source}: {brief(unload.reason)}")
