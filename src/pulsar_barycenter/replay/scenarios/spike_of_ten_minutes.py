"""The bundles of one broker carry twice as much for ten minutes."""

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
    "Five brokers at 40 %, evenly; the bundles of one carry twice as much for ten minutes, then as before. What moves"
    " at the height of it is a burden after it.",
    make,
    (
        Expected("OverloadShedder+LeastLongTermMessageRate", "unloads", "==", 0, "80 % is below its limit of 85 %"),
        Expected("LeastDisturbance", "unloads", "<=", 8, "its budget is a bundle in two minutes"),
    ),
)
