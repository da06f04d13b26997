"""Where 1,000 bundles would go, by the usage that brokers smoothed themselves; one of them reported nothing yet."""

import random
from collections import Counter

import numpy as np

from pulsar_barycenter.load.placement.least_resource_usage_with_weight_extensible import (
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot


def share(**usages: float) -> dict[str, int]:
    """Return how many bundles each broker gets, nobody reporting in between."""
    snapshot = build_extensible_snapshot(
        {broker: BrokerLoadData(weighted_max_ema=usage) for broker, usage in usages.items()},
        {},
        {broker: BrokerLookupData() for broker in ("b1", "b2", "b3", "silent")},
        {},
        taken_at_ms=0,
    )
    everyone, rng = np.ones(len(snapshot.brokers), bool), random.Random(1)
    settings = LeastResourceUsageWithWeight(difference=0.1)
    chosen = Counter(settings.decide(snapshot, everyone, "", rng, None)[0].broker for _ in range(1000))
    return {broker: chosen[row] for row, broker in enumerate(snapshot.brokers.names)}


print("10 %, 30 % and 80 %:", share(b1=0.1, b2=0.3, b3=0.8))
print("40 % each:          ", share(b1=0.4, b2=0.4, b3=0.4))
