"""One broker joins a loaded cluster."""

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
    share = sizes(64, seed)
    rates = steady(share, rate_of_usage(0.7, brokers=4), 120, seed)
    demand = of_rates(rates, balanced(share, broker_names(4)))
    return Setup(demand, like_brokers(4), (BrokerAdded(minutes(10), "broker-0005:8080"),))


CASE = Case(
    "broker-added",
    "Four brokers at 70 % each; a fifth joins after ten minutes. Balanced, each has 56 %.",
    make,
    (
        Expected("OverloadShedder+LeastLongTermMessageRate", "unloads", "==", 0, "no broker is above 85 %"),
        Expected(
            "AvgShedder", "regret", "<", 0.6, "the fullest broker gives half of the gap to the new one", than="no-op"
        ),
        Expected(
            "ThresholdShedder+LeastResourceUsageWithWeight",
            "wrong_placements",
            ">=",
            5,
            "its scores lag, so the new broker gets more after it has enough",
        ),
        Expected(
            "LeastDisturbance",
            "regret",
            "<",
            0.3,
            "the new broker is filled in its first round",
            than="AvgShedder",
        ),
        Expected(
            "LeastDisturbance", "unloads", "<=", 1, "it moves large bundles, and none of them twice", than="AvgShedder"
        ),
    ),
)
