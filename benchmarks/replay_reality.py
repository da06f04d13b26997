"""Compares the simulator with reality: runs demos of a real cluster, and replays the load that each demo recorded.

`python -m benchmarks replay_reality` runs `barycenter demo` without a fault (`--runs` 3 of them, each `--seconds` 300
of load, with a seed of its own), replays each from its own data folder by the settings of its brokers, in steps of a
second, and prints the values of both side by side, from the moment at which the last broker had reported:

- usage, the greatest over the mean: of the real cluster by the last report of each broker at each second, of the
  replay by what brokers carried;
- unloads by the leader's rounds in the whole run, and when the last of them was.

The data of a demo are thrown away, but for `--keep FOLDER`.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.machine import print_table
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.lab.inputs import Input, InputSpec, read_input
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.pipeline.history import History
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.replay.simulator import replay

STEP_MS = 1_000


@dataclass(frozen=True, slots=True)
class Balance:
    """The mean of greatest usage over mean usage, unloads by rounds, and the second of the last one."""

    max_over_mean: float
    unloads: int
    last_s: float


def demo(folder: Path, seed: int, seconds: int) -> Path:
    """Run a demo and return its data folder."""
    words = ["--duration", f"{seconds}s", "--seed", str(seed), "--no-chaos", "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "pulsar_barycenter", "demo", *words], check=True, stdout=sys.stderr)
    return folder / "data"


def recorded(data: Path, found: Input) -> tuple[Balance, int]:
    """Return how the real cluster fared, and from which step on all of its brokers had reported."""
    history = History(PipelineLayout.of(data), since_ms=0, until_ms=2**60)
    rows = history.rows("broker_usage", ("broker", "reported_at", "weighted_usage"))
    start_ms, steps = found.demand.start_ms, found.demand.steps
    brokers = sorted(set(rows.column("broker").to_pylist()))
    usage: Floats = np.full((steps, len(brokers)), np.nan)
    at_ms = rows.column("reported_at").cast("int64").to_numpy() // 1000
    for place in np.argsort(at_ms, kind="stable").tolist():
        step = max(0, (int(at_ms[place]) - start_ms) // STEP_MS)
        usage[step:, brokers.index(rows.column("broker")[place].as_py())] = rows.column("weighted_usage")[place].as_py()
    first = int(np.argmax(~np.isnan(usage).any(axis=1)))
    times = sorted(
        record.at
        for file in (data / "decisions").glob("*.jsonl")
        for record in (msgspec.json.decode(line, type=DecisionRecord) for line in file.read_bytes().splitlines())
        if record.kind == "unload" and record.strategy
    )
    return Balance(_ratio(usage[first:]), len(times), (times[-1] - start_ms) / 1000 if times else 0.0), first


def replayed(found: Input, first: int) -> Balance:
    """Return how the replay of a recorded cluster fared."""
    config = with_overrides(BrokerConfig(), dict(found.settings))
    outcome = replay(found.demand, found.cluster, config, found.events)
    times = [move.at_ms for move in outcome.moves if move.kind == "unload"]
    last_s = (times[-1] - found.demand.start_ms) / 1000 if times else 0.0
    return Balance(_ratio(outcome.usage[first:]), len(times), last_s)


def _ratio(usage: Floats) -> float:
    mean = usage.mean(axis=1)
    return float((usage.max(axis=1)[mean > 0] / mean[mean > 0]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks replay_reality")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--keep", type=Path, help="keep the demos in this folder")
    options = parser.parse_args()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(1, options.runs + 1):
            data = demo((options.keep or Path(scratch)) / f"demo-{seed}", seed, options.seconds)
            found = read_input(InputSpec(paths=(str(data),), step_ms=STEP_MS))
            real, first = recorded(data, found)
            again = replayed(found, first)
            apart = 100 * (again.max_over_mean / real.max_over_mean - 1)
            rows.append(
                [
                    seed,
                    real.max_over_mean,
                    again.max_over_mean,
                    f"{apart:+.1f} %",
                    real.unloads,
                    again.unloads,
                    real.last_s,
                    again.last_s,
                ]
            )
    titles = ["seed", "usage max / mean, real", "replayed", "apart", "unloads, real", "replayed", "last at s, real"]
    print_table("Simulator against reality", [*titles, "replayed"], rows)


if __name__ == "__main__":
    main()
