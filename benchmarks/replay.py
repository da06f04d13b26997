"""CPU time of replays: a day of 100 brokers with 10,000 bundles at steps of a minute, by each load manager.

`python -m benchmarks replay` measures CPU seconds of this process, so that others on the machine disturb them less, and
by how much its largest resident size grows over that before, the demand included (some 320 bytes a bundle and step at
most, of which the four figures take 32). `--brokers`, `--bundles` and `--hours` choose another size.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.machine import peak_growth_mib, print_table
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import Shape, broker_names, generated

STRATEGIES = (
    "no-op",
    "AvgShedder",
    "ThresholdShedder+LeastResourceUsageWithWeight",
    "UniformLoadShedder+LeastLongTermMessageRate",
    "extensible",
)
USAGE = 0.5


@dataclass(frozen=True, slots=True)
class Size:
    brokers: int
    bundles: int
    hours: float


def replayed(size: Size, strategy: str) -> tuple[float, Outcome]:
    """Return the CPU seconds of a replay, without those of making its demand, and its outcome."""
    cluster = Cluster(dict.fromkeys(broker_names(size.brokers), Capacity()))
    shape = Shape(
        brokers=size.brokers,
        bundles=size.bundles,
        namespaces=max(1, size.bundles // 100),
        steps=round(size.hours * 60),
        rate=USAGE * size.brokers * 800 / (2 * cluster.model.cpu_per_message),
        swing=0.4,
    )
    owners = tuple(name for name in broker_names(size.brokers) for _ in range(-(-size.bundles // size.brokers)))
    demand = generated(shape, 1, owners=owners[: size.bundles])
    config = with_overrides(BrokerConfig(), settings_of(strategy, {}))
    before = time.process_time()
    outcome = replay(demand, cluster, config, seed=1)
    return time.process_time() - before, outcome


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay")
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--strategy", action="append", default=None)
    asked = parser.parse_args()
    size = Size(asked.brokers, asked.bundles, asked.hours)
    rows = []
    for strategy in asked.strategy or STRATEGIES:
        memory: list[float] = []
        growth = peak_growth_mib(lambda strategy=strategy: replayed(size, strategy))  # type: ignore[misc]
        memory.append(growth)
        cpu_s, outcome = replayed(size, strategy)
        rows.append(
            (
                strategy,
                f"{cpu_s:.1f}",
                f"{cpu_s / len(outcome.at_ms) * 1000:.1f}",
                f"{memory[0]:.0f}",
                str(len(outcome.moves)),
                str(len(outcome.splits)),
                f"{float(np.mean(outcome.usage.max(axis=1))) * 100:.1f}",
            )
        )
    title = f"{size.brokers} brokers, {size.bundles} bundles, {size.hours:g} h at steps of a minute"
    print_table(title, ("strategy", "CPU s", "ms a step", "MiB", "moves", "splits", "mean of max usage, %"), rows)


if __name__ == "__main__":
    main()
