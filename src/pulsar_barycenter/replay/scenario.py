"""Defines a scenario of `balance-bench`: a cluster, its demand and events drawn from a seed, and the expectations."""

import importlib
import operator
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.capacity import Capacity
from pulsar_barycenter.replay.delivery import PERFECT, Delivery
from pulsar_barycenter.replay.demand import Demand
from pulsar_barycenter.replay.events import Event
from pulsar_barycenter.replay.grid import settings_of
from pulsar_barycenter.replay.measures import Measures, measure
from pulsar_barycenter.replay.outcome import Outcome
from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.simulator import Cluster, replay
from pulsar_barycenter.replay.synthetic.demand import START_MS, broker_names, bundle_names

MINUTE_MS: Final = 60_000
EVERY: Final = "every strategy"
NONE: Final = "no-op"
OURS: Final = "LeastDisturbance"

BENCHED: Final = (
    NONE,
    "ThresholdShedder+LeastResourceUsageWithWeight",
    "UniformLoadShedder+LeastLongTermMessageRate",
    "OverloadShedder+LeastLongTermMessageRate",
    "RangeThresholdShedder+LeastResourceUsageWithWeight",
    "DeviationShedder+LeastLongTermMessageRate",
    "AvgShedder",
    OURS,
    "extensible",
    "simple",
)
"""The strategies that the bench compares, each with its usual placement strategy."""

COMMON: Final[Mapping[str, str]] = {
    "loadBalancerDistributeBundlesEvenlyEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
"""The settings of all scenarios, unless a scenario overrides them.

Distribution by count is off: on a small cluster it leaves a placement strategy only one candidate, so strategies would
not differ. Splits are off, because only some scenarios are about them.
"""

_RELATIONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """An expectation: the measure `figure` of a strategy, as the median over the seeds, is in the relation `relation`
    to `value`, for the reason `why`.

    `strategy` may be EVERY: all strategies except the no-op strategy and the reference balancers. If `than` names a
    strategy, the measure is compared with `value` times the same measure of that strategy instead of `value`.
    """

    strategy: str
    figure: str
    relation: str
    value: float
    why: str
    than: str = ""

    def holds(self, of: Mapping[str, Mapping[str, float]]) -> bool:
        """Return whether the expectation is met. `of` has the medians of the measures, by strategy and measure.

        An expectation about a strategy that is not in `of` counts as met.
        """
        if self.than and self.than not in of:
            return True
        compare = _RELATIONS[self.relation]
        limit = self.value * of[self.than][self.figure] if self.than else self.value
        return all(compare(of[name][self.figure], limit) for name in self.strategies(of))

    def strategies(self, of: Iterable[str]) -> list[str]:
        """Return those of the strategies in `of` that this expectation is about."""
        if self.strategy == EVERY:
            return [name for name in of if name not in {NONE, *REFERENCES}]
        return [name for name in of if name == self.strategy]


@dataclass(frozen=True)
class Setup:
    """The input of a replay. `settings` are keys of broker.conf that the scenario sets for all strategies; `delivery`
    says which reports arrive late or not at all.
    """

    demand: Demand
    cluster: Cluster
    events: tuple[Event, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = PERFECT


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario: `about` says what happens in it, `make` returns its input for a seed, and `expected` are its
    expectations.
    """

    name: str
    about: str
    make: Callable[[int], Setup]
    expected: tuple[Expected, ...] = ()


def catalogue() -> dict[str, Case]:
    """Return all scenarios, keyed by name. Each is a file in `replay/scenarios`."""
    package = importlib.import_module("pulsar_barycenter.replay.scenarios")
    modules = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    cases = [importlib.import_module(f"{package.__name__}.{name}").CASE for name in modules]
    return {case.name: case for case in cases}


def run_case(case: Case, strategy: str, seed: int) -> Measures:
    """Replay a scenario with a strategy or a reference balancer; return the measures.

    `strategy` is its name, which settings may follow: NAME key=value. Settings of the scenario take precedence over
    these. If `strategy` is a reference balancer, bundles without an owner are assigned by LeastDisturbance.
    """
    return measure(run_setup(case.make(seed), strategy, seed))


def run_setup(setup: Setup, strategy: str, seed: int) -> Outcome:
    """Replay the input `setup` with a strategy or a reference balancer, given as in `run_case`; return the outcome."""
    reference = REFERENCES.get(strategy)
    name, *sets = strategy.split()
    chosen = settings_of(OURS if reference else name, {}) | dict(each.split("=", 1) for each in sets)
    config = with_overrides(BrokerConfig(), {**COMMON, **chosen, **setup.settings})
    return replay(
        setup.demand,
        setup.cluster,
        config,
        setup.events,
        seed=seed,
        reference=reference,
        delivery=setup.delivery,
    )


# ---- the parts of scenarios ----


def minutes(count: float) -> int:
    """Return the time (epoch ms) that is `count` minutes after the start of all scenarios (START_MS)."""
    return START_MS + round(count * MINUTE_MS)


def sizes(count: int, seed: int, spread: float = 0.6) -> Floats:
    """Return the share of each bundle in all traffic. The shares are log-normal, with `spread` as the standard
    deviation of their logarithm. No share is much more than three times the mean, so that no single bundle decides the
    result.
    """
    drawn = np.minimum(np.random.default_rng([seed, 2]).lognormal(0.0, spread, count), 3.0 * np.exp(spread**2 / 2))
    found: Floats = drawn / drawn.sum()
    return found


def rate_of_usage(usage: float, cores: float = 8.0, brokers: int = 1) -> float:
    """Return the total msg/s in (the msg/s out are the same) at which `brokers` brokers with `cores` cores each have
    the CPU usage `usage` (a fraction), idle CPU included.
    """
    model = Cluster({}).model
    return (usage * cores * 100 - model.idle_cpu) / (2 * model.cpu_per_message) * brokers


def steady(share: Floats, rate: float, steps: int, seed: int, noise: float = 0.03) -> Floats:
    """Return the msg/s in of each bundle (column) at each step (row): its share of `rate`, with random noise. `noise`
    is the standard deviation of its logarithm.
    """
    found: Floats = np.random.default_rng([seed, 3]).lognormal(0.0, noise, (steps, len(share))) * share * rate
    return found


def balanced(share: Floats, brokers: Iterable[str], strength: Mapping[str, float] | None = None) -> tuple[str, ...]:
    """Return an owner for each bundle, such that the brokers are balanced: the largest bundle is assigned first, each
    one to the broker that has the least load so far. `strength` is how many times as strong as usual a broker is (1 if
    it is not given).
    """
    load = dict.fromkeys(brokers, 0.0)
    owners = [""] * len(share)
    for row in np.argsort(-share, kind="stable").tolist():
        least = min(load, key=lambda name: (load[name] / (strength or {}).get(name, 1.0), name))
        owners[row] = least
        load[least] += float(share[row])
    return tuple(owners)


def like_brokers(count: int, capacity: Capacity | None = None) -> Cluster:
    """Return a cluster of `count` brokers with equal capacities; `capacity` None: the default one."""
    return Cluster(dict.fromkeys(broker_names(count), capacity or Capacity()))


def of_rates(rates: Floats, owners: tuple[str, ...], *, rate_out: Floats | None = None, topics: int = 20) -> Demand:
    """Return the demand of bundles of one namespace. `rates` and `rate_out` (msg/s in and out) have one row per minute
    and one column per bundle; `rate_out` None: as many as in. Each bundle has `topics` topics.
    """
    count = rates.shape[1]
    return Demand.of_bundles(
        START_MS,
        MINUTE_MS,
        bundle_names(count),
        rates,
        rate_out=rate_out,
        owners=owners,
        topics=np.full(count, topics, np.int64),
    )
