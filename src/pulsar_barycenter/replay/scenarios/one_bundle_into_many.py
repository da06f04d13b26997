"""A namespace has one bundle, whose load needs more than a hundred bundles."""

import numpy as np

from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.scenario import (
    EVERY,
    MINUTE_MS,
    Case,
    Expected,
    Setup,
    like_brokers,
    rate_of_usage,
    steady,
)
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names


def make(seed: int) -> Setup:
    rates = steady(np.ones(1), rate_of_usage(0.5, brokers=10), 120, seed)
    demand = Demand.of_bundles(
        START_MS, MINUTE_MS, bundle_names(1), rates, topics=np.full(1, 5_000, np.int64), owners=broker_names(1)
    )
    settings = {
        "loadBalancerAutoBundleSplitEnabled": "true",
        "loadBalancerNamespaceBundleMaxMsgRate": "20000",
        "loadBalancerNamespaceMaximumBundles": "128",
    }
    return Setup(demand, like_brokers(10), settings=settings)


CASE = Case(
    "one-bundle-into-many",
    "Ten brokers, and one bundle of 5,000 topics with the load of five of them. A bundle may have 20,000"
    " msg/s, so it must become 128 bundles, in seven generations of splits.",
    make,
    (
        Expected(EVERY, "splits", "==", 127, "each split adds one bundle, until the namespace has its maximum"),
        Expected(
            "LeastDisturbance",
            "regret",
            "<=",
            1,
            "it counts a part with its share of the load before the split",
            than="AvgShedder",
        ),
    ),
)
