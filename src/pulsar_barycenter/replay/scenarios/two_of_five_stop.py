"""Two of five brokers are shut down."""

from pulsar_barycenter.replay.events import BrokerRemoved
from pulsar_barycenter.replay.scenario import (
    EVERY,
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
    demand = of_rates(rates, balanced(share, names))
    return Setup(demand, like_brokers(5), tuple(BrokerRemoved(minutes(10), name) for name in names[3:]))


CASE = Case(
    "two-of-five-stop",
    "Five brokers at 45 % each; two are shut down after ten minutes. Balanced, each of the other three has 75 %.",
    make,
    (
        Expected(EVERY, "assignments", ">=", 20, "each bundle of the two needs a new owner"),
        Expected("LeastDisturbance", "unloads", "==", 0, "placement alone balances the load"),
    ),
)
