"""Three brokers of the extensible load manager, out of balance for four cycles in a row."""

from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.transfer_plan import TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import TransferMemory, TransferShedder
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot

MEGABYTE = 1_000_000
usages = {"b1": 0.8, "b2": 0.4, "b3": 0.1}
megabytes = {"b1": (90, 90, 90, 90, 440), "b2": (400,), "b3": (20, 80)}  # a second, by bundle, the lightest first

bundles = {
    broker: {
        f"public/{broker}-{number}/0x00000000_0xffffffff": NamespaceBundleStats(msg_throughput_in=each * MEGABYTE)
        for number, each in enumerate(figures)
    }
    for broker, figures in megabytes.items()
}
snapshot = build_extensible_snapshot(
    {
        broker: BrokerLoadData(
            weighted_max_ema=usage,
            msg_throughput_in=sum(megabytes[broker]) * MEGABYTE,
            msg_throughput_ema=sum(megabytes[broker]) * MEGABYTE,
            updated_at=1,
        )
        for broker, usage in usages.items()
    },
    {
        broker: TopBundlesLoadData(tuple(BundleLoadData(name, stats) for name, stats in held.items()))
        for broker, held in bundles.items()
    },
    {broker: BrokerLookupData() for broker in usages},
    {name: broker for broker, held in bundles.items() for name in held},
    taken_at_ms=1,
)

memory = TransferMemory()
for cycle in range(1, 5):
    plan, memory = TransferShedder(TransferShedderSettings()).decide(snapshot, memory)
    print(f"cycle {cycle}: {render(plan.reason)}")
    for unload in plan:
        print(f"  {unload.bundle} goes from {unload.source} to {unload.destination}")
