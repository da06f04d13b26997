"""One empty broker among a hundred full ones."""

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
    share = sizes(1_000, seed, 0.4)
    rates = steady(share, rate_of_usage(0.8, brokers=99), 60, seed)
    return Setup(of_rates(rates, balanced(share, broker_names(99))), like_brokers(100))


CASE = Case(
    "one-empty-of-hundred",
    "99 brokers at 80 % each, and one that is empty. The mean is still 79.2 %.",
    make,
    (
        Expected(
            "ThresholdShedder+LeastResourceUsageWithWeight",
            "unloads",
            "==",
            0,
            "no broker is ten points above the mean, so the empty broker stays empty",
        ),
        Expected("AvgShedder", "unloads", ">=", 1, "it pairs the fullest with the emptiest"),
        Expected(
            "LeastDisturbance", "unloads", ">=", 1, "an empty broker is filled even if no broker is outside of the band"
        ),
    ),
)
