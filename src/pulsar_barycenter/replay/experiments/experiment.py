"""Defines a published experiment: its cluster, its load, the published observations, and what a replay must satisfy.

The sources have the loads of brokers and the numbers of unloads, but not the loads of bundles. So the sizes of bundles
are drawn from the seed, such that each broker starts with its published load, and values are medians over seeds. CPU is
a linear function of traffic through the published points. So a replay must satisfy inequalities, not exact minutes.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.capacity import Capacity, CapacityModel
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.events import BrokerSlowed
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.outcome import Moved, Outcome
from pulsar_barycenter.replay.scenario import MINUTE_MS, Expected, Setup
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import START_MS, bundle_names

MIB: Final = 1024.0 * 1024.0
THRESHOLD: Final = "ThresholdShedder+LeastResourceUsageWithWeight"
UNIFORM: Final = "UniformLoadShedder+LeastLongTermMessageRate"
AVG: Final = "AvgShedder"

COMMON: Final[Mapping[str, str]] = {
    "barycenterPulsarCompatibility": "4.x",
    "loadBalancerDistributeBundlesEvenlyEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerMemoryResourceWeight": "0",
    "loadBalancerDirectMemoryResourceWeight": "0",
}
"""The settings of all experiments. Other settings have Pulsar's defaults."""
OF_AVG_SHEDDER: Final[Mapping[str, str]] = {
    "maxUnloadPercentage": "0.5",
    "minUnloadMessage": "10000",
    "minUnloadMessageThroughput": str(10 * 1024 * 1024),
}

END_STEPS: Final = 10
"""Values at the end of a run are means over this many minutes."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A published result: the value of a measure under a strategy as text, and the inequality that a replay must
    satisfy.
    """

    published: str
    expected: Expected


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that other authors published with its results. `make` returns the input of its replay for a seed.
    Times in the results are counted from the minute `since` of the replay.
    """

    name: str
    about: str
    source: str
    strategies: tuple[str, ...]
    make: Callable[[int], Setup]
    since: int
    observed: tuple[Observed, ...] = field(default=())


FIGURES: Final[Mapping[str, str]] = {
    "unloads": "bundles that rounds moved",
    "operations": "rounds that moved at least one bundle",
    "firstMinute": "the first of these rounds, in minutes after the event",
    "lastMinute": "the last of these rounds, in minutes after the event",
    "wrongPercent": "moves after which the destination's usage was above the mean, %",
    "cpuRange": "CPU of the most loaded broker minus that of the least loaded one over the last ten minutes, points",
    "strongCpuBelowMean": "mean CPU of all brokers minus that of the last one over the last ten minutes, points",
    "throughputRatio": "greatest traffic of a broker divided by the least, over the last ten minutes",
    "leftPercent": "the least traffic of a broker up to ten minutes after it lost a bundle, in % of the mean",
}


def figures_of(outcome: Outcome, since: int) -> dict[str, float]:
    """Return the values of the measures in FIGURES for a run, keyed by the names there. `since` is the minute from
    which times are counted. If no bundle moved, the minutes of the first and the last move are infinite.
    """
    begun_ms = START_MS + since * MINUTE_MS
    unloads = [move for move in outcome.moves if move.kind == "unload"]
    times = sorted({move.at_ms for move in unloads})
    live = outcome.live[-1]
    cpu = 100 * outcome.cpu[-END_STEPS:, live].mean(axis=0)
    traffic = outcome.throughput[-END_STEPS:, live].mean(axis=0)
    wrong = sum(move.misplaced for move in unloads)
    return {
        "unloads": float(len(unloads)),
        "operations": float(len(times)),
        "firstMinute": (times[0] - begun_ms) / MINUTE_MS if times else np.inf,
        "lastMinute": (times[-1] - begun_ms) / MINUTE_MS if times else np.inf,
        "wrongPercent": 100 * wrong / len(unloads) if unloads else 0.0,
        "cpuRange": float(cpu.max() - cpu.min()),
        "strongCpuBelowMean": float(cpu.mean() - cpu[-1]),
        "throughputRatio": float(traffic.max() / traffic.min()) if traffic.min() > 0 else np.inf,
        "leftPercent": _left(outcome, unloads),
    }


def _left(outcome: Outcome, unloads: Sequence[Moved]) -> float:
    mean = outcome.throughput.sum(axis=1) / np.maximum(outcome.live.sum(axis=1), 1)
    least = np.inf
    for move in unloads:
        first = int(np.searchsorted(outcome.at_ms, move.at_ms)) + 1
        column = outcome.throughput[first : first + END_STEPS, outcome.brokers.index(move.source)]
        least = min(least, float((column / mean[first : first + END_STEPS]).min(initial=np.inf)))
    return 100 * least


def run_experiment(experiment: Experiment, strategy: str, seed: int) -> dict[str, float]:
    """Replay an experiment with a strategy and a seed. Return the values of the measures in FIGURES, keyed by the names
    there.
    """
    setup = experiment.make(seed)
    own = OF_AVG_SHEDDER if strategy == AVG else {}
    texts = {**COMMON, **settings_of(strategy, COMMON), **own, **setup.settings}
    config = with_overrides(BrokerConfig(), texts)
    return figures_of(replay(setup.demand, setup.cluster, config, setup.events, seed=seed), experiment.since)


def experiments() -> dict[str, Experiment]:
    """Return all experiments, keyed by name. Each is a file in `replay/experiments`."""
    package = importlib.import_module("pulsar_barycenter.replay.experiments")
    modules = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    loaded = (importlib.import_module(f"{package.__name__}.{name}") for name in modules)
    found: list[Experiment] = [module.EXPERIMENT for module in loaded if hasattr(module, "EXPERIMENT")]
    return {each.name: each for each in found}


# ---- the parts of experiments ----


def carrying(
    brokers: Sequence[str], mib_in: Sequence[float], bundles: int, seed: int
) -> tuple[Floats, tuple[str, ...]]:
    """Generate `bundles` bundles such that those of each broker together have its MiB/s in, which `mib_in` gives.
    Return the MiB/s in and the owner of each bundle.

    The number of a broker's bundles is proportional to its load, and at least one. The sizes of a broker's bundles are
    log-normal.
    """
    rng = np.random.default_rng([seed, 7])
    part = np.array(mib_in) / sum(mib_in) * bundles
    counts = np.maximum(1, np.floor(part)).astype(int)
    while counts.sum() < bundles:
        counts[np.argmax(part - counts)] += 1
    while counts.sum() > bundles:
        counts[np.argmax(counts - part)] -= 1
    sizes, owners = [], []
    for broker, count, total in zip(brokers, counts.tolist(), mib_in, strict=True):
        drawn = np.minimum(rng.lognormal(0.0, 0.4, count), 2.5)
        sizes.append(drawn / drawn.sum() * total)
        owners += [broker] * count
    order = rng.permutation(bundles)
    return np.concatenate(sizes)[order], tuple(owners[row] for row in order.tolist())


def traffic(mib_in: Floats, owners: tuple[str, ...], *, mib_out: Floats | None = None) -> Demand:
    """Return the demand of bundles of one namespace. `mib_in` and `mib_out` (MiB/s) have one row per minute and one
    column per bundle; `mib_out` None: the traffic out is the traffic in. Messages have 1 KiB.
    """
    return Demand.of_bundles(
        START_MS,
        MINUTE_MS,
        bundle_names(mib_in.shape[1]),
        mib_in * 1024,
        rate_out=None if mib_out is None else mib_out * 1024,
        owners=owners,
    )


def steadily(mib_in: Floats, minutes: int, seed: int, noise: float = 0.02) -> Floats:
    """Return the MiB/s in of each bundle in each of `minutes` minutes (rows): `mib_in` with random noise. `noise` is
    the standard deviation of its logarithm.
    """
    found: Floats = np.random.default_rng([seed, 8]).lognormal(0.0, noise, (minutes, len(mib_in))) * mib_in
    return found


def cluster_of(
    brokers: Sequence[str],
    mib_in: Sequence[float],
    cpu_percent: Sequence[float],
    idle_percent: float,
    *,
    strength: Mapping[str, float] = {},
) -> tuple[Cluster, tuple[BrokerSlowed, ...]]:
    """Return a cluster, and the events that give each broker its `cpu_percent` at the traffic `mib_in` (MiB/s).

    A broker has 8 cores times its `strength` (1 if it is not given). It sends as many bytes as it receives. CPU grows
    linearly with the bytes, from `idle_percent` percent of eight cores. If the published CPU of a broker is not on this
    line, its event makes the broker slower or faster.
    """
    cores = np.array([8.0 * strength.get(name, 1.0) for name in brokers])
    wanted, moved, idle = np.array(cpu_percent) * cores, 2 * MIB * np.array(mib_in), 8 * idle_percent
    per_byte = (wanted - idle).sum() / moved.sum()
    model = CapacityModel(idle_cpu=idle, cpu_per_message=0.0, cpu_per_byte=float(per_byte))
    cluster = Cluster({name: Capacity(cores=each) for name, each in zip(brokers, cores.tolist(), strict=True)}, model)
    factors = zip(brokers, (wanted / (idle + per_byte * moved)).tolist(), strict=True)
    return cluster, tuple(BrokerSlowed(START_MS, name, factor) for name, factor in factors)


def seen(strategy: str, figure: str, relation: str, value: float, published: str, why: str) -> Observed:
    """Return a published result: `published` is its text, and a replay with `strategy` must satisfy the inequality
    `figure` `relation` `value`, for the reason `why`.
    """
    return Observed(published, Expected(strategy, figure, relation, value, why))
