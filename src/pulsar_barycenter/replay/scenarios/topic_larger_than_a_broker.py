"""A single topic has more load than a broker can carry."""

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Integers
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.scenario import (
    EVERY,
    MINUTE_MS,
    Case,
    Expected,
    Setup,
    balanced,
    like_brokers,
    rate_of_usage,
    sizes,
    steady,
)
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names


def make(seed: int) -> Setup:
    count, names = 32, bundle_names(32)
    share = sizes(count, seed)
    rates = steady(share, rate_of_usage(0.3, brokers=5), 90, seed)
    hot = np.random.default_rng([seed, 4]).lognormal(np.log(rate_of_usage(1.2)), 0.02, (90, 1))
    every = np.hstack((rates, hot))
    within = Bundle.parse(names[3]).range
    hashes: Integers = np.full(count + 1, -1, np.int64)
    hashes[count] = within.lower + within.width // 3
    topics = np.full(count + 1, 20, np.int64)
    topics[count] = 1
    owners = balanced(share, broker_names(5))
    demand = Demand(
        START_MS,
        MINUTE_MS,
        names,
        np.append(np.arange(count), 3),
        hashes,
        every,
        every,
        every * 1024,
        every * 1024,
        topics * 2,
        topics,
        owners,
    )
    settings = {"loadBalancerAutoBundleSplitEnabled": "true", "loadBalancerNamespaceMaximumBundles": "64"}
    return Setup(demand, like_brokers(5), settings=settings)


CASE = Case(
    "topic-larger-than-a-broker",
    "Five brokers at 30 %, and one topic that needs 120 % of a broker. The best result is a broker with"
    " this topic alone. Splitting its bundle never helps.",
    make,
    (
        Expected(EVERY, "overloaded_s", ">=", 90 * 60, "no strategy can solve it: the topic must be partitioned"),
        Expected(EVERY, "splits", "<=", 32, "the namespace may have at most 64 bundles"),
        Expected("LeastDisturbance", "flaps", "==", 0, "a bundle rests for half an hour"),
    ),
)
