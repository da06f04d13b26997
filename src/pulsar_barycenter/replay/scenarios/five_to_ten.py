"""The number of brokers doubles."""

from pulsar_barycenter.replay.events import BrokerAdded
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
    share, names = sizes(100, seed), broker_names(10)
    rates = steady(share, rate_of_usage(0.7, brokers=5), 120, seed)
    events = tuple(BrokerAdded(minutes(10), name) for name in names[5:])
    return Setup(of_rates(rates, balanced(share, names[:5])), like_brokers(5), events)


CASE = Case(
    "five-to-ten",
    "Five brokers at 70 % each, with 100 bundles; five more join after ten minutes. Balanced, each has 35 %.",
    make,
    (
        Expected("AvgShedder", "regret", "<", 0.5, "all pairs of a full and an empty broker act at once", than="no-op"),
        Expected(
            "LeastDisturbance", "unloads", "<=", 1.1, "it moves bundles to all five in one round", than="AvgShedder"
        ),
        Expected("LeastDisturbance", "flaps", "==", 0, "a bundle rests for half an hour"),
    ),
)
