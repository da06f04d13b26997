"""The reports of one broker are lost while its load grows."""

import numpy as np

from pulsar_barycenter.replay.events import ReportsLost
from pulsar_barycenter.replay.scenario import (
    Case,
    Expected,
    Setup,
    balanced,
    like_brokers,
    minutes,
    of_rates,
    rate_of_usage,
    sizes,
    steady,
)
from pulsar_barycenter.replay.synthetic.demand import broker_names


def make(seed: int) -> Setup:
    share, names = sizes(64, seed), broker_names(5)
    rates = steady(share, rate_of_usage(0.45, brokers=5), 120, seed)
    owners = balanced(share, names)
    quiet = np.array([owner == names[0] for owner in owners])
    rates[:10, quiet] *= 0.2
    rates[10:, quiet] *= 1.7
    lost = ReportsLost(minutes(5), names[0], minutes(60))
    return Setup(of_rates(rates, owners), like_brokers(5), (lost,))


CASE = Case(
    "reports-stale-and-missing",
    "Five brokers. One seems nearly idle because its reports are lost for 55 minutes, but its usage is"
    " 76 %. A strategy that uses the stale report gives it even more load.",
    make,
    (
        Expected("AvgShedder", "overloaded_s", ">=", 60, "it pairs the fullest with the broker that seems to be idle"),
        Expected("LeastDisturbance", "overloaded_s", "==", 0, "a broker whose reports are old takes nothing"),
        Expected(
            "LeastDisturbance", "regret", "<", 0.6, "the load is balanced after the first new report", than="no-op"
        ),
    ),
)
