"""One broker has twice the cores of the others, and the same traffic."""

from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.scenario import Case, Expected, Setup, balanced, of_rates, rate_of_usage, sizes, steady
from pulsar_barycenter.replay.simulator import Cluster
from pulsar_barycenter.replay.synthetic.demand import broker_names


def make(seed: int) -> Setup:
    share, names = sizes(64, seed), broker_names(4)
    rates = steady(share, rate_of_usage(0.7, brokers=4), 120, seed)
    cluster = Cluster({name: Capacity(cores=16 if name == names[-1] else 8) for name in names})
    return Setup(of_rates(rates, balanced(share, names)), cluster)


CASE = Case(
    "one-twice-as-strong",
    "Three brokers with 8 cores at 70 %, and one with 16 at 35 %, all with the same traffic. Balanced, each has 56 %.",
    make,
    (
        Expected(
            "UniformLoadShedder+LeastLongTermMessageRate",
            "unloads",
            "==",
            0,
            "message rates are equal, which is its goal, and the wrong one here",
        ),
        Expected(
            "AvgShedder",
            "unloads",
            "<=",
            3,
            "it moves half the difference in message rates, which is almost zero",
        ),
        Expected(
            "ThresholdShedder+LeastResourceUsageWithWeight",
            "regret",
            "<=",
            1,
            "it uses usage, which differs by 35 points",
            than="no-op",
        ),
        Expected(
            "LeastDisturbance",
            "regret",
            "<",
            0.4,
            "it learns how much CPU traffic takes on each broker",
            than="UniformLoadShedder+LeastLongTermMessageRate",
        ),
    ),
)
