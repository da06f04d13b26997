"""The consumers of one topic alternately pause and read for a minute."""

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
    # the source names the topic whose consumers pause without partitions: it is a single topic, in one bundle
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
    # messages from the pause are read together with those produced after it
    out[~paused, waving] *= 2.0
    cluster, events = cluster_of(BROKERS, LOADS, (50, 46, 46, 46), 3)
    return Setup(traffic(rates, owners, mib_out=out), cluster, events)


EXPERIMENT = Experiment(
    "consumers-pause",
    "Four brokers with 188 MiB/s in together. The consumers of one topic, which has a quarter of the"
    " load, alternately read and pause for a minute.",
    "Practical Optimization of Apache Pulsar, 4.1.3 and 5.5.1.2; apache/pulsar#22946",
    (UNIFORM, AVG),
    make,
    since=0,
    observed=(
        seen(UNIFORM, "unloads", ">=", 20, "43 bundles in 59 minutes", "it follows momentary rates"),
        seen(UNIFORM, "lastMinute", ">=", 50, "never settles", "the alternation does not end"),
        seen(AVG, "unloads", "==", 0, "0 in 46 minutes", "the gap never lasts for eight rounds"),
    ),
)
