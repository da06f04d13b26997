"""LeastResourceUsageWithWeight of the extensible load manager: by the smoothed usage that brokers report.

Worked example (threshold 10 points): three brokers are at 10 %, 30 % and 80 %, and a fourth has not reported yet. The
mean of the three is 40 %, so the first two share new bundles. If all three were at 40 %, no broker would be 10 points
below the mean, and all four would share new bundles, including the one without a report.

When to use it: with the extensible load manager, which has no other placement. It uses the same usage as the
TransferShedder. When not: there is no alternative with this load manager. If many bundles are placed at once (after a
broker left, or at a start), they all go to the few brokers below the limit, since a placement raises a broker's usage
only with its next report.

Unlike the modular strategy of this name it has no memory: each broker smooths its usage and reports it as
`weightedMaxEMA`. It needs a snapshot with `extensible`; without it the load of all brokers is unknown.

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
    """Places a bundle on a random broker whose reported usage is at least `difference`, a fraction, below the mean."""

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
        """Choose at random among the candidates whose usage u has `u + difference <= mean`; if there are none, among
        all candidates.

        The mean is over the candidates whose load is known.
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
