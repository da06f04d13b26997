"""Five idle brokers get other loads than in `load_starts`, under AvgShedder."""

from pulsar_barycenter.replay.experiments.experiment import AVG, THRESHOLD, Experiment, seen
from pulsar_barycenter.replay.experiments.load_starts import IDLE, starting

EXPERIMENT = Experiment(
    "load-starts-by-pairs",
    "Five idle brokers with 24 bundles in use get 45, 90, 52, 105 and 82 MiB/s in: CPU of 39, 49, 46, 63 and 54 %.",
    "Practical Optimization of Apache Pulsar, 5.5.2; apache/pulsar#22946",
    (AVG, THRESHOLD),
    lambda seed: starting((45.4, 89.5, 52.2, 105, 82.3), (38.5, 49.4, 45.6, 63.0, 54.0), 22, 24, seed),
    since=IDLE,
    observed=(
        seen(AVG, "operations", "<=", 2, "one operation", "a pair is balanced at once"),
        seen(AVG, "unloads", "<=", 8, "3 bundles", "it moves half the difference of the pair"),
        seen(AVG, "firstMinute", ">=", 7, "after 8 checks", "a gap of 24 points must last for eight rounds"),
        seen(AVG, "cpuRange", "<", 15, "within 15 points", "the pair is balanced, and the others nearly were"),
    ),
)
