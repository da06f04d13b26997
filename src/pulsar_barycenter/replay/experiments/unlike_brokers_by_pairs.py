"""The cluster of `unlike_brokers_by_rates`, in the state in which AvgShedder left it."""

from pulsar_barycenter.replay.experiments.experiment import AVG, UNIFORM, Experiment, seen
from pulsar_barycenter.replay.experiments.unlike_brokers_by_rates import unlike

EXPERIMENT = Experiment(
    "unlike-brokers-by-pairs",
    "The same cluster with 11.9, 37.9, 41.4 and, on the strong broker, 139 MiB/s in: 58, 56, 63 and 27 % CPU.",
    "Practical Optimization of Apache Pulsar, 5.5.1.1; apache/pulsar#22946",
    (AVG, UNIFORM),
    lambda seed: unlike((11.9, 37.9, 41.4, 139), (57.6, 56.1, 62.8, 27.3), 50, seed),
    since=0,
    observed=(
        seen(
            AVG,
            "unloads",
            "==",
            0,
            "none",
            "half the difference in traffic is negative, so nothing moves to the stronger broker",
        ),
        seen(AVG, "throughputRatio", ">", 5, "8.2 to 11.4", "the strong broker keeps the most traffic"),
        seen(AVG, "cpuRange", ">", 25, "35.5 points", "it stops although the gap is above its threshold"),
        seen(
            UNIFORM, "unloads", ">=", 3, "not tried", "it takes bundles from the strong broker, which has free capacity"
        ),
    ),
)
