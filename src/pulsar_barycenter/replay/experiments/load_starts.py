"""Five idle brokers get load all at once."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.events import BrokerSlowed
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

BROKERS = ("b161:8080", "b206:8080", "b32:8080", "b83:8080", "b87:8080")
MINUTES = 75
BUSY = BROKERS[1]
IDLE = 15
"""The minutes for which the brokers are idle before the load starts. Their histories contain nothing else."""


def starting(
    mib_in: Sequence[float], cpu_percent: Sequence[float], idle_percent: float, bundles: int, seed: int
) -> Setup:
    """Return the input of a replay of five idle brokers with `bundles` bundles. After IDLE minutes, the load of each
    broker grows within two minutes to its value in `mib_in` (MiB/s) and `cpu_percent`.

    `idle_percent` is the CPU of a broker without traffic in the linear model. While the brokers are idle, one has 20 %
    CPU and the others 3 %, as the published scores say.
    """
    sizes, owners = carrying(BROKERS, mib_in, bundles, seed)
    rates: Floats = steadily(sizes, MINUTES, seed)
    rates *= np.clip((np.arange(MINUTES) - IDLE + 1) / 2, 0.0, 1.0)[:, None]
    cluster, loaded = cluster_of(BROKERS, mib_in, cpu_percent, idle_percent)
    idle = (BrokerSlowed(minutes(0), name, (20 if name == BUSY else 3) / idle_percent) for name in BROKERS)
    return Setup(traffic(rates, owners), cluster, (*idle, *(replace(each, at_ms=minutes(IDLE)) for each in loaded)))


EXPERIMENT = Experiment(
    "load-starts",
    "Five idle brokers with 16 bundles get 343 MiB/s in within two minutes, and the same out: CPU of 42,"
    " 69, 61, 62 and 35 %.",
    "Practical Optimization of Apache Pulsar, 4.2.1 to 4.2.2; apache/pulsar#22946",
    (THRESHOLD, AVG),
    lambda seed: starting((39, 106, 88, 90, 20), (41.9, 68.5, 61.4, 62.0, 34.5), 26.5, 16, seed),
    since=IDLE,
    observed=(
        seen(
            THRESHOLD,
            "firstMinute",
            "<=",
            4,
            "after 2 minutes",
            "the busier broker is ten points above the mean at once",
        ),
        seen(THRESHOLD, "wrongPercent", ">=", 30, "the first went to the second fullest", "it assigns at random"),
        seen(
            THRESHOLD,
            "unloads",
            ">=",
            2,
            "8 bundles in 22 minutes",
            "it sheds by a score that lags; in this replay the scores come within ten points sooner, so it stops"
            " earlier",
        ),
        seen(THRESHOLD, "cpuRange", ">=", 15, "34 points at first", "the load is still uneven when it stops"),
        seen(AVG, "cpuRange", "<", 15, "not tried", "pairs are balanced until they are within its threshold"),
    ),
)
