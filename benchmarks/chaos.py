"""Measures how evenly brokers are loaded at the end of each round of chaos, in which all load is new.

`python -m benchmarks chaos` plays 1,000 rounds of each kind of hot bundle by LeastDisturbance and, to compare with, by
AvgShedder (`replay.experiments.chaos` says what a round is). The results are percentiles of (largest load - mean) and
(mean - smallest load) in percent of what a broker can carry, the unloads of a round, what part of all traffic they
moved, and CPU seconds. `--rounds`, `--seed` and `--strategy` choose others.
"""

import argparse
import time

import numpy as np

from benchmarks.machine import print_table
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.experiments.chaos import Hot, chaos, evenness, settings_of_chaos
from pulsar_barycenter.replay.simulator import replay

PARTS = (0.1, 0.5, 0.9, 0.95, 0.99, 1.0)


def percentiles(figures: Floats) -> str:
    """Return sorted values at the places `int((n - 1) * part)`, in percent."""
    ordered = np.sort(figures)
    return " / ".join(f"{100 * ordered[int((len(ordered) - 1) * part)]:.3g}" for part in PARTS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks chaos")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--strategy", action="append", default=None)
    options = parser.parse_args()
    rows = []
    for strategy in options.strategy or ("LeastDisturbance", "AvgShedder"):
        config = with_overrides(BrokerConfig(), settings_of_chaos(strategy))
        for hot in Hot:
            case = chaos(options.rounds, hot, options.seed)
            before = time.process_time()
            found = evenness(replay(case.demand, case.cluster, config, case.events, seed=options.seed))
            seconds = time.process_time() - before
            figures = [percentiles(found.over), percentiles(found.under)]
            costs = [f"{found.moves.mean():.1f}", f"{found.load.mean():.2f}", f"{seconds:.1f}"]
            rows.append([strategy, str(hot), *figures, *costs])
    header = ["strategy", "hot bundle", "over, p10/50/90/95/99/100 in %", "under in %"]
    header += ["unloads a round", "traffic moved a round", "CPU s"]
    print_table(f"{options.rounds} rounds of chaos, seed {options.seed}", header, rows)


if __name__ == "__main__":
    main()
