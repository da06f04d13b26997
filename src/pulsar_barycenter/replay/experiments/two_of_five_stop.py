"""Two of five brokers were shut down, and what they had came to the other three."""

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
    # how the bundles came to the three was not published; their scores had told of it for ten minutes
    sizes, owners = carrying(BROKERS, LOADS, 16, seed)
    cluster, events = cluster_of(BROKERS, LOADS, (84, 73, 48), 24)
    return Setup(traffic(steadily(sizes, 60, seed), owners), cluster, events)


EXPERIMENT = Experiment(
    "two-of-five-stop",
    "Two of five brokers of 16 bundles were shut down; the other three have 144, 104 and 61 MiB/s in, which makes 84,"
    " 73 and 48 % CPU.",
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
            "it sheds for minutes what is shed already; the later waves come with some seeds alone",
        ),
        seen(THRESHOLD, "leftPercent", "<=", 80, "52 % of the mean", "too much leaves the fullest broker"),
        seen(THRESHOLD, "wrongPercent", ">=", 30, "most went to a broker that was loaded", "it places at random"),
        seen(AVG, "leftPercent", ">", 80, "not tried", "what it moves is half of what differs now"),
    ),
)
