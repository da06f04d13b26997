"""Consumers stop for a minute and run for a minute, for ever; production is constant."""

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


def waves(seed: int, usage: float, part: float) -> Setup:
    """Return four like brokers of that usage, evenly; on the first one this part of the reading comes and goes."""
    share, names = sizes(64, seed), broker_names(4)
    rates = steady(share, rate_of_usage(usage, brokers=4), 120, seed)
    owners = balanced(share, names)
    out = rates.copy()
    waving = np.array([owner == names[0] for owner in owners])
    off = np.arange(len(rates)) % 2 == 1
    # what was produced in a pause is read together with what is produced after it
    out[np.ix_(off, waving)] *= 1 - part
    out[np.ix_(~off, waving)] *= 1 + part
    return Setup(of_rates(rates, owners, rate_out=out), like_brokers(4))


def make(seed: int) -> Setup:
    return waves(seed, 0.3, 0.9)


CASE = Case(
    "consumers-on-and-off",
    "Four brokers at 30 %, evenly; on one of them nine tenths of the consumers read for a minute and pause for a"
    " minute, which takes it up and down by 14 points.",
    make,
    (
        Expected("AvgShedder", "unloads", "==", 0, "a gap of less than 15 points does not count"),
        Expected(
            "UniformLoadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            5,
            "a threshold on rates of one moment follows the wave",
        ),
        Expected("LeastDisturbance", "unloads", "==", 0, "what comes and goes never settles"),
    ),
)
