"""Half of the brokers are shut down."""

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
    share, names = sizes(100, seed), broker_names(10)
    rates = steady(share, rate_of_usage(0.35, brokers=10), 120, seed)
    events = tuple(BrokerRemoved(minutes(10), name) for name in names[5:])
    return Setup(of_rates(rates, balanced(share, names)), like_brokers(10), events)


CASE = Case(
    "ten-to-five",
    "Ten brokers at 35 % each, with 100 bundles; five are shut down after ten minutes. Balanced, each has 70 %.",
    make,
    (
        Expected(EVERY, "assignments", ">=", 40, "half of the bundles need a new owner"),
        Expected(
            "LeastDisturbance",
            "regret",
            "<=",
            1,
            "its placement knows the load of bundles",
            than="AvgShedder",
        ),
    ),
)
