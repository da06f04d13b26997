"""A bundle of the extensible load manager that is too large, minute after minute."""

from pulsar_barycenter.load.reasons import render
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot
from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy
from pulsar_barycenter.load.splitting.request import SplitRequest
from pulsar_barycenter.naming.bundle import Bundle

NAME = "public/default/0x00000000_0x40000000"


def boundaries(bundle: str) -> tuple[int, ...]:
    return split_algorithm("range_equally_divide")(SplitRequest(Bundle.parse(bundle).range))


hits: dict[str, int] = {}
for minute, rate in enumerate((40_000, 40_000, 20_000, 40_000, 40_000, 40_000, 40_000), 1):
    stats = NamespaceBundleStats(msg_rate_in=rate, topics=5)
    snapshot = build_extensible_snapshot(
        {"b1": BrokerLoadData(msg_rate_in=rate, updated_at=1)},
        {"b1": TopBundlesLoadData((BundleLoadData(NAME, stats),))},
        {"b1": BrokerLookupData()},
        {NAME: "b1"},
        taken_at_ms=1,
    )
    plan, after = DefaultSplitStrategy().decide(snapshot, {"public/default": 4}, boundaries, hits)
    hits = dict(after)
    print(f"minute {minute}, {rate} msg/s: counted {hits.get(NAME, 0)}")
    for split in plan:
        print(f"  split at {', '.join(map(hex, boundaries(split.bundle)))}: {render(split.reason)}")
