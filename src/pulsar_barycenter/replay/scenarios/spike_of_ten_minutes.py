"""The bundles of one broker have twice the load for ten minutes."""

import numpy as np

from pulsar_barycenter.replay.scenario import (
    Case,
    Expected,
    Setup,
    balanced,
    like_brokers,
    of_rates,
    rate_of_usage,
    sizes,
    steady,
)
from pulsar_barycenter.replay.synthetic.demand import broker_names


def make(seed: int) -> Setup:
    share, names = sizes(64, seed), broker_names(5)
    rates = steady(share, rate_of_usage(0.4, brokers=5), 90, seed)
    owners = balanced(share, names)
    spiked = np.array([owner == names[0] for owner in owners])
    rates[20:30, spiked] *= 2.0
    return Setup(of_rates(rates, owners), like_brokers(5))


CASE = Case(
    "spike-of-ten-minutes",
    "Five brokers at 40 % each. The bundles of one have twice the load for ten minutes, then the load"
    " from before. Bundles that move during the spike are too much for their new broker after it.",
    make,
    (
        Expected("OverloadShedder+LeastLongTermMessageRate", "unloads", "==", 0, "80 % is below its limit of 85 %"),
        Expected("LeastDisturbance", "unloads", "<=", 8, "its budget is one bundle in two minutes"),
    ),
)
