"""One of five brokers that AvgShedder balanced leaves the cluster."""

from pulsar_barycenter.replay.events import BrokerRemoved, Event
from pulsar_barycenter.replay.experiments.experiment import (
    AVG,
    Experiment,
    carrying,
    cluster_of,
    seen,
    steadily,
    traffic,
)
from pulsar_barycenter.replay.experiments.load_starts import BROKERS
from pulsar_barycenter.replay.scenario import Setup, minutes

LOADS = (80, 66, 65, 66, 78)
LEAVE = 15


def make(seed: int) -> Setup:
    sizes, owners = carrying(BROKERS, LOADS, 64, seed)
    cluster, slowed = cluster_of(BROKERS, LOADS, (55, 51, 50, 54, 59), 22)
    events: tuple[Event, ...] = (*slowed, BrokerRemoved(minutes(LEAVE), BROKERS[0]))
    return Setup(traffic(steadily(sizes, 40, seed), owners), cluster, events)


EXPERIMENT = Experiment(
    "broker-leaves",
    "Five brokers with 65 to 80 MiB/s in; the one with 80 leaves, and its bundles are assigned to others at random.",
    "Practical Optimization of Apache Pulsar, 5.5.2.1; apache/pulsar#22946",
    (AVG,),
    make,
    since=LEAVE,
    observed=(
        seen(
            AVG,
            "throughputRatio",
            "<",
            1.8,
            "71 to 107 MiB/s: 1.5",
            "random assignment distributes the bundles, but not evenly",
        ),
        seen(AVG, "operations", "<=", 1, "0: the gap never lasts for 8 rounds", "the four brokers are nearly balanced"),
    ),
)
