"""Four brokers, one of which is much stronger than the others, under strategies that balance rates."""

from collections.abc import Sequence

from pulsar_barycenter.replay.experiments.experiment import (
    AVG,
    UNIFORM,
    Experiment,
    carrying,
    cluster_of,
    seen,
    steadily,
    traffic,
)
from pulsar_barycenter.replay.scenario import Setup

BROKERS = ("b161:8080", "b32:8080", "b83:8080", "c34:8080")
"""The strong broker is the last one."""
STRENGTH = {BROKERS[-1]: 3.5}


def unlike(mib_in: Sequence[float], cpu_percent: Sequence[float], idle_percent: float, seed: int) -> Setup:
    """Return the input of a replay of three equal brokers and one STRENGTH times as strong (the last one). `mib_in`
    (MiB/s) and `cpu_percent` are the traffic and the CPU of each broker; `idle_percent` is the CPU without traffic.
    """
    sizes, owners = carrying(BROKERS, mib_in, 64, seed)
    cluster, events = cluster_of(BROKERS, mib_in, cpu_percent, idle_percent, strength=STRENGTH)
    return Setup(traffic(steadily(sizes, 60, seed), owners), cluster, events)


EXPERIMENT = Experiment(
    "unlike-brokers-by-rates",
    "Three equal brokers with 28, 55 and 46 MiB/s in, and the same out, and one several times as strong"
    " with 66, at 57, 66, 59 and 19 % CPU. The load is steady.",
    "Practical Optimization of Apache Pulsar, 4.1.1 to 4.1.2; apache/pulsar#22946",
    (UNIFORM, AVG),
    lambda seed: unlike((28, 55, 46, 66), (57, 66, 59, 19), 40, seed),
    since=0,
    observed=(
        seen(
            UNIFORM,
            "throughputRatio",
            "<",
            1.5,
            "1.2, from 2.0 to 2.75",
            "the ratio of rates falls below 1.5, which is its goal",
        ),
        seen(UNIFORM, "unloads", "<=", 6, "4 bundles, one a minute", "rates are soon balanced"),
        seen(UNIFORM, "lastMinute", "<=", 8, "within 5 minutes", "rates are soon balanced"),
        seen(
            UNIFORM,
            "cpuRange",
            ">",
            35,
            "42.9 points: 17 against 56 to 60 %",
            "usage stays uneven, because its goal is the wrong one",
        ),
        seen(
            UNIFORM,
            "strongCpuBelowMean",
            ">",
            25,
            "30.8: it gave load away",
            "the broker is nearly idle, but still gives bundles away",
        ),
    ),
)
