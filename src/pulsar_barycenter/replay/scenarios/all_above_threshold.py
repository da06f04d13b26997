"""Every broker is overloaded, and there is nowhere to go."""

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
    "Five brokers at 92 %, evenly. Every move disturbs clients and helps nobody.",
    make,
    (
        Expected(
            "OverloadShedder+LeastLongTermMessageRate",
            "unloads",
            ">=",
            20,
            "it sheds from whoever is above 85 %, to others that are, too, without end",
        ),
        Expected("AvgShedder", "unloads", "==", 0, "brokers are alike"),
        Expected("ThresholdShedder+LeastResourceUsageWithWeight", "unloads", "==", 0, "nobody is above the mean by 10"),
        Expected("LeastDisturbance", "unloads", "==", 0, "nobody lies above what can be reached"),
    ),
)
