"""Two of five brokers were shut down, and the other three got their load."""

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
from pulsar_barycenter.replay.scenario import Setup

BROKERS = ("b206:8080", "b32:8080", "b83:8080")
LOADS = (144, 104, 60.6)


def make(seed: int) -> Setup:
    # the source does not say how the bundles moved to the three; their scores had shown the load for ten minutes
    sizes, owners = carrying(BROKERS, LOADS, 16, seed)
    cluster, events = cluster_of(BROKERS, LOADS, (84, 73, 48), 24)
    return Setup(traffic(steadily(sizes, 60, seed), owners), cluster, events)


EXPERIMENT = Experiment(
    "two-of-five-stop",
    "Two of five brokers with 16 bundles were shut down; the other three have 144, 104 and 61 MiB/s in,"
    " at 84, 73 and 48 % CPU.",
    "Practical Optimization of Apache Pulsar, 4.2.3; apache/pulsar#22946",
    (THRESHOLD, AVG),
    make,
    since=0,
    observed=(
        seen(
            THRESHOLD,
            "unloads",
            ">=",
            3,
            "4 in the first wave, 17 in three waves",
            "for minutes it sheds load that has already left; the later waves occur only with some seeds",
        ),
        seen(THRESHOLD, "leftPercent", "<=", 80, "52 % of the mean", "too much load leaves the fullest broker"),
        seen(THRESHOLD, "wrongPercent", ">=", 30, "most went to a broker that was loaded", "it assigns at random"),
        seen(AVG, "leftPercent", ">", 80, "not tried", "it moves half of the present difference"),
    ),
)
