"""LeastResourceUsageWithWeight: a random broker with a smoothed usage below the mean by at least a threshold.

Worked example (threshold 10 points): smoothed usages of 10 %, 25 % and 85 % have the mean 40 %. The first two brokers
are at 30 % or below, and share new bundles at random.

When to use it: brokers of different strength, together with the ThresholdShedder, which uses the same usage.
When not: many bundles are placed at once (after a broker left, or at a start): they all go to the few brokers below
the limit, since a placement does not raise a broker's usage before its next report.

Source: Pulsar's `LeastResourceUsageWithWeight` of the modular load manager (4.x). Where we differ: the histories of
brokers that left are dropped at once.
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.placement.below_average import DIFFERENCE_KEY, draw_below_average
from pulsar_barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastResourceUsageWithWeight"
_KEYS: Final = (DIFFERENCE_KEY, "loadBalancerHistoryResourcePercentage")


class LeastResourceUsageMemory(msgspec.Struct, frozen=True, eq=False):
    """The smoothed usage (a moving average, as a fraction) of each broker of `names`, in the same order; NaN: the
    broker has none yet. If `is_whole` is True, no usage is NaN.
    """

    names: tuple[str, ...] = ()
    usage: Floats = msgspec.field(default_factory=lambda: np.zeros(0))
    is_whole: bool = False

    def of(self, brokers: BrokerTable) -> Self:
        """Return this memory for the brokers of the table: a broker keeps its smoothed usage, a new broker has none
        (NaN), and other brokers are left out.
        """
        if self.names is brokers.names or self.names == brokers.names:
            return self
        known = dict(zip(self.names, self.usage.tolist(), strict=True))
        return type(self)(brokers.names, np.array([known.get(name, np.nan) for name in brokers.names], float))


@dataclass(frozen=True, slots=True)
class LeastResourceUsageWithWeight(Placer[LeastResourceUsageMemory]):
    """Places a bundle on a random broker whose smoothed usage (a moving average) is at least `difference` below the
    mean. `difference` and `history_weight` are fractions; `history_weight` is the weight of the previous average at
    each update.
    """

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
        """Choose at random among the candidates whose smoothed usage c has `c + difference <= mean`; if there are none,
        among all candidates.

        Before the choice, the smoothed usage of each candidate becomes `old * h + (1 - h) * usage`, where `old` is its
        smoothed usage before this call and h is `history_weight`. It becomes `usage` itself for a broker that had no
        smoothed usage, has no bundles or has no messages.
        """
        if not np.count_nonzero(candidates):
            return no_choice(NAME), memory
        before = memory.of(snapshot.brokers)
        past = before.usage
        usage, part, idle = self._usage(snapshot.brokers)
        scores: Floats = past * self.history_weight
        scores += part
        if len(idle):
            scores[idle] = usage[idle]
        if not before.is_whole:
            scores = np.where(np.isnan(past), usage, scores)
        np.putmask(scores, ~candidates, past)
        is_whole = before.is_whole or not np.isnan(scores).any()
        choice = draw_below_average(
            snapshot.brokers, candidates, scores, self.difference, rng, strategy=NAME, settings=_KEYS
        )
        return choice, LeastResourceUsageMemory(snapshot.brokers.names, scores, is_whole)

    def _usage(self, brokers: BrokerTable) -> tuple[Floats, Floats, Integers]:
        """Return for each broker its usage, and its usage times `1 - history_weight`. Also return the rows of the
        brokers without bundles or without messages, whose smoothed usage is their present usage.
        """
        found: tuple[Floats, Floats, Integers] | None = brokers.memo.get((NAME, self))
        if found is None:
            usage, latest = brokers.weighted_usage(self.weights), brokers.latest
            idle = (brokers.bundle_count == 0) | ((latest.rate_in == 0) & (latest.rate_out == 0))
            found = brokers.memo[NAME, self] = usage, (1 - self.history_weight) * usage, idle.nonzero()[0]
        return found
