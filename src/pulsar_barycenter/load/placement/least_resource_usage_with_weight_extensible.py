"""LeastResourceUsageWithWeight of the extensible load manager: by the smoothed usage that brokers report themselves.

Worked example (threshold 10 points): brokers at 10 %, 30 % and 80 %, and one that reported nothing yet. The mean of the
three is 40 %, so the first two share what is placed. Were all three at 40 %, nobody would lie 10 points below, and all
four, the silent one too, would share it.

When to use it: the extensible load manager, whose only placement it is; it goes by the same figure as the
TransferShedder. When not: nothing else can be had there. Beware of many bundles at once (after a broker left, or at a
start): they all go to the few brokers below the line, since a placement raises a broker's usage with its next report
only.

Unlike the modular one of that name it remembers nothing: each broker smooths its usage and reports it as
`weightedMaxEMA`. Needs a snapshot with `extensible`; without, nobody's load is known.

Source: Pulsar's `extensions.strategy.LeastResourceUsageWithWeight` (3.0 and newer).
"""

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from pulsar_barycenter.load.placement.below_average import DIFFERENCE_KEY, draw_below_average
from pulsar_barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastResourceUsageWithWeight"


@dataclass(frozen=True, slots=True)
class LeastResourceUsageWithWeight(Placer[None]):
    """`difference` (to the mean) is a fraction."""

    name: ClassVar[str] = NAME
    difference: float = 0.1

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(config.load_balancer_average_resource_usage_difference_threshold_percentage / 100.0)

    def start(self) -> None:
        return None

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: None
    ) -> tuple[PlacementChoice, None]:
        """Choose at random among the candidates of usage u with `u + difference <= mean`, or among all without one.

        The mean is that of the candidates whose load is known.
        """
        if not np.count_nonzero(candidates):
            return no_choice(NAME), memory
        keys = (DIFFERENCE_KEY,)
        choice = draw_below_average(
            snapshot.brokers, candidates, _usage(snapshot), self.difference, rng, strategy=NAME, settings=keys
        )
        return choice, memory


def _usage(snapshot: LoadSnapshot) -> Floats:
    load = snapshot.extensible
    if load is None:
        return np.full(len(snapshot.brokers), np.nan)
    return np.where(load.has_load, load.weighted_max_ema, np.nan)
