"""Consumers of one topic stop for a minute and run for a minute, for ever."""

import numpy as np

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

BROKERS = ("b161:8080", "b32:8080", "b83:8080", "b87:8080")
LOADS = (47, 43, 43, 43)
MINUTES = 60


def make(seed: int) -> Setup:
    sizes, owners = carrying(BROKERS, LOADS, 33, seed)
    # the topic whose readers pause has no number of partitions in its name: it is one, on one bundle
    first = np.array([owner == BROKERS[0] for owner in owners])
    waving = int(np.argmax(first))
    others = first.copy()
    others[waving] = False
    sizes[waving] = 47.0
    sizes[others] *= 12 / sizes[others].sum()
    rates = steadily(sizes, MINUTES, seed)
    out = rates.copy()
    paused = np.arange(MINUTES) % 2 == 1
    out[paused, waving] = 0.0
    # what was produced in the pause is read together with what is produced after it
    out[~paused, waving] *= 2.0
    cluster, events = cluster_of(BROKERS, LOADS, (50, 46, 46, 46), 3)
    return Setup(traffic(rates, owners, mib_out=out), cluster, events)


EXPERIMENT = Experiment(
    "consumers-pause",
    "Four brokers with 188 MiB/s in together. The consumers of one topic, a quarter of it all, read for a minute and"
    " pause for one.",
    "Practical Optimization of Apache Pulsar, 4.1.3 and 5.5.1.2; apache/pulsar#22946",
    (UNIFORM, AVG),
    make,
    since=0,
    observed=(
        seen(UNIFORM, "unloads", ">=", 20, "43 bundles in 59 minutes", "it follows rates of one moment"),
        seen(UNIFORM, "lastMinute", ">=", 50, "never settles", "the wave does not end"),
        seen(AVG, "unloads", "==", 0, "0 in 46 minutes", "the gap never lasts for eight rounds"),
    ),
)
