"""Consumers alternately pause and read for a minute, while production is constant."""

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
    """Return the input of a replay of four equal brokers that have the same usage `usage` (a fraction).

    On the first broker, the fraction `part` of the consumers pauses in every second minute. In the next minute it reads
    the messages of both minutes.
    """
    share, names = sizes(64, seed), broker_names(4)
    rates = steady(share, rate_of_usage(usage, brokers=4), 120, seed)
    owners = balanced(share, names)
    out = rates.copy()
    waving = np.array([owner == names[0] for owner in owners])
    off = np.arange(len(rates)) % 2 == 1
    # messages from a pause are read together with those produced after it
    out[np.ix_(off, waving)] *= 1 - part
    out[np.ix_(~off, waving)] *= 1 + part
    return Setup(of_rates(rates, owners, rate_out=out), like_brokers(4))


def make(seed: int) -> Setup:
    return waves(seed, 0.3, 0.9)


CASE = Case(
    "consumers-on-and-off",
    "Four brokers at 30 % each. On one of them nine tenths of the consumers alternately read and pause"
    " for a minute, so its usage rises and falls by 14 points.",
    make,
    (
        Expected("AvgShedder", "unloads", "==", 0, "a gap of less than 15 points does not count"),
        Expected(
            "UniformLoadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            5,
            "a threshold on momentary rates follows the wave",
        ),
        Expected("LeastDisturbance", "unloads", "==", 0, "load that comes and goes never counts as settled"),
    ),
)
