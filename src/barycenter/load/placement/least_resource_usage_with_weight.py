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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from barycenter.load.placement.below_average import DIFFERENCE_KEY, draw_below_average
from barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from barycenter.load.reports.weights import resource_weights
from barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastResourceUsageWithWeight"
_KEYS: Final = (DIFFERENCE_KEY, "loadBalancerHistoryResourcePercentage")


@dataclass(frozen=True)
class LeastResourceUsageMemory:
    """Smoothed usage (a fraction) of each broker of `names`; NaN: none."""

    names: tuple[str, ...] = ()
    usage: Floats = field(default_factory=lambda: np.zeros(0))

    def of(self, brokers: BrokerTable) -> Floats:
        """Return one usage for each of `brokers`."""
        if self.names is brokers.names or self.names == brokers.names:
            return self.usage
        known = dict(zip(self.names, self.usage.tolist(), strict=True))
        return np.array([known.get(name, np.nan) for name in brokers.names], float)


@dataclass(frozen=True, slots=True)
class LeastResourceUsageWithWeight(Placer[LeastResourceUsageMemory]):
    """`difference` (to the mean) and `history_weight` are fractions."""

    name: ClassVar[str] = NAME
    difference: float = 0.1
    history_weight: float = 0.9
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            difference=config.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0,
            history_weight=config.load_balancer_history_resource_percentage,
            weights=resource_weights(config),
        )

    def start(self) -> LeastResourceUsageMemory:
        return LeastResourceUsageMemory()

    def decide(
        self,
        snapshot: LoadSnapshot,
        candidates: Flags,
        bundle: str,
        rng: random.Random,
        memory: LeastResourceUsageMemory,
    ) -> tuple[PlacementChoice, LeastResourceUsageMemory]:
        """Choose at random among the candidates of history c with `c + difference <= mean`, or among all without one.

        Each call takes the candidates' histories one step: `history * h + (1 - h) * usage`, or the usage itself for a
        broker without history, without bundles or without messages.
        """
        rows = candidates.nonzero()[0]
        if not len(rows):
            return no_choice(NAME), memory
        past = memory.of(snapshot.brokers)
        usage, part, idle = self._usage(snapshot.brokers)
        smoothed = np.where(np.isnan(past) | idle, usage, past * self.history_weight + part)
        scores = np.where(candidates, smoothed, past)
        choice = draw_below_average(snapshot, rows, scores, self.difference, rng, strategy=NAME, settings=_KEYS)
        return choice, LeastResourceUsageMemory(snapshot.brokers.names, scores)

    def _usage(self, brokers: BrokerTable) -> tuple[Floats, Floats, Flags]:
        """Return each broker's usage, that times `1 - history_weight`, and which take it for their history at once."""
        found: tuple[Floats, Floats, Flags] | None = brokers.memo.get((NAME, self))
        if found is None:
            usage, latest = brokers.weighted_usage(self.weights), brokers.latest
            idle = (brokers.bundle_count == 0) | ((latest.rate_in == 0) & (latest.rate_out == 0))
            found = brokers.memo[NAME, self] = usage, (1 - self.history_weight) * usage, idle
        return found
