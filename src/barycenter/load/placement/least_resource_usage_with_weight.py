"""LeastResourceUsageWithWeight: a broker whose smoothed usage lies below the candidates' mean by a threshold or more.

Worked example (threshold 10 points): smoothed usages 10 %, 25 % and 85 % have the mean 40 %. The first two lie at
30 % or below and share what is placed, drawn at random.

When to use it: unlike brokers, together with the ThresholdShedder, which goes by the same usage. When not: many
bundles at once (after a broker left, or at a start) all go to the few brokers below the line, since a placement does
not raise a broker's usage before its next report.

Source: Pulsar's `LeastResourceUsageWithWeight` of the modular load manager (4.x). Where we differ: the histories of
brokers that left are dropped at once.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from barycenter.load.placement.below_average import DIFFERENCE_KEY, below_average, draw_below_average
from barycenter.load.placement.choice import PlacementChoice, no_choice
from barycenter.load.placement.drawing import draws
from barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from barycenter.load.reports.weights import resource_weights
from barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats, Indices, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastResourceUsageWithWeight"


@dataclass(frozen=True, slots=True)
class LeastResourceUsageSettings:
    """`difference` (to the mean) and `history_weight` are fractions."""

    difference: float = 0.1
    history_weight: float = 0.9
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @staticmethod
    def of(config: "BrokerConfig") -> "LeastResourceUsageSettings":
        return LeastResourceUsageSettings(
            difference=config.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0,
            history_weight=config.load_balancer_history_resource_percentage,
            weights=resource_weights(config),
        )


@dataclass(frozen=True)
class LeastResourceUsageMemory:
    """Smoothed usage (a fraction) of each broker of `names`; NaN: none."""

    names: tuple[str, ...] = ()
    usage: Floats = field(default_factory=lambda: np.zeros(0))

    def of(self, brokers: BrokerTable) -> Floats:
        """Return one usage for each of `brokers`."""
        if self.names == brokers.names:
            return self.usage
        known = dict(zip(self.names, self.usage.tolist(), strict=True))
        return np.array([known.get(name, np.nan) for name in brokers.names], float)


def least_resource_usage_with_weight(
    snapshot: LoadSnapshot,
    candidates: Flags,
    settings: LeastResourceUsageSettings,
    rng: random.Random,
    memory: LeastResourceUsageMemory,
) -> tuple[PlacementChoice, LeastResourceUsageMemory]:
    """Choose at random among the candidates of history c with `c + difference <= mean`, or among all if there are none.

    Each call takes the candidates' histories one step: `history * h + (1 - h) * usage`, or the usage itself for a
    broker without history, without bundles or without messages.
    """
    rows = np.flatnonzero(candidates)
    if not len(rows):
        return no_choice(NAME), memory
    scores = _stepping(snapshot, candidates, settings)(memory.of(snapshot.brokers))
    keys = (DIFFERENCE_KEY, "loadBalancerHistoryResourcePercentage")
    choice = draw_below_average(snapshot, rows, scores, settings.difference, rng, strategy=NAME, settings=keys)
    return choice, LeastResourceUsageMemory(snapshot.brokers.names, scores)


def place_all(
    snapshot: LoadSnapshot,
    candidates: Flags,
    count: int,
    settings: LeastResourceUsageSettings,
    rng: random.Random,
    memory: LeastResourceUsageMemory,
) -> tuple[Indices, LeastResourceUsageMemory]:
    """Place `count` bundles and return their brokers' rows: the same as so many single choices, draws included.

    Since nothing but the histories changes from one to the next, and these come to rest after some hundred steps, the
    others are drawn at once. All -1 without candidates.
    """
    rows = np.flatnonzero(candidates)
    placed = np.full(count, -1, np.int32)
    if not len(rows) or not count:
        return placed, memory
    step = _stepping(snapshot, candidates, settings)
    past = memory.of(snapshot.brokers)
    for position in range(count):
        scores = step(past)
        best, _ = below_average(rows, scores, settings.difference)
        drawn_from = best if len(best) else rows
        at_rest = np.array_equal(scores[rows], past[rows])
        times = count - position if at_rest else 1
        numbers = draws(rng, len(drawn_from), times) if len(drawn_from) > 1 else np.zeros(times, np.int64)
        placed[position : position + times] = drawn_from[numbers]
        past = scores
        if at_rest:
            break
    return placed, LeastResourceUsageMemory(snapshot.brokers.names, past)


def _stepping(
    snapshot: LoadSnapshot, candidates: Flags, settings: LeastResourceUsageSettings
) -> Callable[[Floats], Floats]:
    """Return what takes histories one step."""
    brokers, latest = snapshot.brokers, snapshot.brokers.latest
    usage, weight = brokers.weighted_usage(settings.weights), settings.history_weight
    idle = (brokers.bundle_count == 0) | ((latest.rate_in == 0) & (latest.rate_out == 0))
    share = (1 - weight) * usage

    def step(past: Floats) -> Floats:
        smoothed = np.where(np.isnan(past) | idle, usage, past * weight + share)
        return np.where(candidates, smoothed, past)

    return step
