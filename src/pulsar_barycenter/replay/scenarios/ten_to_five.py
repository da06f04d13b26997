"""A cluster is halved."""

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
    "Ten brokers at 35 % with 100 bundles, evenly; five are shut down after ten minutes. Even would be 70 % each.",
    make,
    (
        Expected(EVERY, "assignments", ">=", 40, "half of the bundles have to go somewhere"),
        Expected(
            "LeastDisturbance",
            "regret",
            "<=",
            1,
            "placement knows what bundles carry",
            than="AvgShedder",
        ),
    ),
)
