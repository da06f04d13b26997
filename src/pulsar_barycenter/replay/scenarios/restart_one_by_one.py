"""All brokers are restarted, one after the other."""

from pulsar_barycenter.replay.events import BrokerAdded, BrokerRemoved, Event
from pulsar_barycenter.replay.scenario import (
    NONE,
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
    rates = steady(share, rate_of_usage(0.5, brokers=5), 150, seed)
    events: list[Event] = []
    for number, name in enumerate(names):
        events += [BrokerRemoved(minutes(10 + 10 * number), name), BrokerAdded(minutes(12 + 10 * number), name)]
    return Setup(of_rates(rates, balanced(share, names)), like_brokers(5), tuple(events))


CASE = Case(
    "restart-one-by-one",
    "Five brokers at 50 % each; every ten minutes another one is shut down for two minutes. The last one"
    " comes back empty.",
    make,
    (
        Expected("AvgShedder", "regret", "<", 1, "the empty broker is paired with the fullest", than=NONE),
        Expected("OverloadShedder+LeastLongTermMessageRate", "unloads", "<=", 20, "it acts only above 85 %"),
        Expected(
            "LeastDisturbance",
            "flaps",
            "==",
            0,
            "a bundle that came to a broker recently stays there, for whatever reason it came",
        ),
    ),
)
