"""Every broker is overloaded, so no broker can take load."""

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
    share = sizes(64, seed)
    rates = steady(share, rate_of_usage(0.92, brokers=5), 90, seed)
    return Setup(of_rates(rates, balanced(share, broker_names(5))), like_brokers(5))


CASE = Case(
    "all-above-threshold",
    "Five brokers at 92 % each. Every move disturbs clients and helps no broker.",
    make,
    (
        Expected(
            "OverloadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            20,
            "it sheds from each broker above 85 % to others that are also above, without end",
        ),
        Expected("AvgShedder", "unloads", "==", 0, "all brokers have the same load"),
        Expected(
            "ThresholdShedder+LeastResourceUsageWithWeight", "unloads", "==", 0, "no broker is 10 points above the mean"
        ),
        Expected("LeastDisturbance", "unloads", "==", 0, "no broker is above the reachable usage"),
    ),
)
