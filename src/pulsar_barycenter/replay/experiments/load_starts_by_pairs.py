"""The start of load with other loads, under AvgShedder."""

from pulsar_barycenter.replay.experiments.experiment import AVG, THRESHOLD, Experiment, seen
from pulsar_barycenter.replay.experiments.load_starts import IDLE, starting

EXPERIMENT = Experiment(
    "load-starts-by-pairs",
    "Five idle brokers of 24 bundles in use get 45, 90, 52, 105 and 82 MiB/s in: CPU of 39, 49, 46, 63 and 54 %.",
    "Practical Optimization of Apache Pulsar, 5.5.2; apache/pulsar#22946",
    (AVG, THRESHOLD),
    lambda seed: starting((45.4, 89.5, 52.2, 105, 82.3), (38.5, 49.4, 45.6, 63.0, 54.0), 22, 24, seed),
    since=IDLE,
    observed=(
        seen(AVG, "operations", "<=", 2, "one operation", "a pair is evened out at once"),
        seen(AVG, "unloads", "<=", 8, "3 bundles", "half the difference of the pair"),
        seen(AVG, "firstMinute", ">=", 7, "after 8 checks", "a gap of 24 points has to last"),
        seen(AVG, "cpuRange", "<", 15, "within 15 points", "the pair is even, and the others were nearly"),
    ),
)
