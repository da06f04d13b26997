"""A fifth broker joins four balanced brokers."""

from pulsar_barycenter.replay.events import BrokerAdded
from pulsar_barycenter.replay.experiments.experiment import (
    AVG,
    THRESHOLD,
    Experiment,
    carrying,
    cluster_of,
    seen,
    steadily,
    traffic,
)
from pulsar_barycenter.replay.scenario import Setup, minutes

BROKERS = ("b161:8080", "b206:8080", "b32:8080", "b83:8080")
LOADS = (91, 75, 69, 70)
JOIN = 15


def make(seed: int) -> Setup:
    sizes, owners = carrying(BROKERS, LOADS, 64, seed)
    cluster, slowed = cluster_of(BROKERS, LOADS, (68.6, 65.8, 62.4, 64.8), 3)
    return Setup(traffic(steadily(sizes, 60, seed), owners), cluster, (*slowed, BrokerAdded(minutes(JOIN), "b87:8080")))


EXPERIMENT = Experiment(
    "broker-joins",
    "Four brokers with 69 to 91 MiB/s in, 62 to 69 % CPU; an empty one joins.",
    "Practical Optimization of Apache Pulsar, 5.5.2.2; apache/pulsar#22946",
    (AVG, THRESHOLD),
    make,
    since=JOIN,
    observed=(
        seen(AVG, "firstMinute", "<=", 3, "within 2 minutes", "a gap of 57 points must last for only two rounds"),
        seen(
            AVG,
            "operations",
            "<=",
            4,
            "one, and a second one due",
            "a pair is balanced at once, and again if necessary",
        ),
        seen(
            AVG,
            "cpuRange",
            "<",
            25,
            "25 to 30 points before the second step",
            "the new broker has half of the load of its pair",
        ),
    ),
)
