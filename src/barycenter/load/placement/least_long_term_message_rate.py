"""LeastLongTermMessageRate: the broker whose bundles carry the least long-term message rate.

Worked example: two brokers at 100 and 110 msg/s get two bundles of 20 msg/s. The first goes to broker 1, whose score is
120 from then on because the bundle counts as preallocated; the second goes to broker 2, although no report came
in between.

When to use it: like brokers, alike messages. When not: unlike brokers (it knows rates, not capacity), or together
with a shedder that goes by usage, which may undo what it does.

Source: Pulsar's `LeastLongTermMessageRate` (4.x: weighted usage in the overload test).
"""

import math
import random
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np

from barycenter.load.placement.placer import PlacementChoice, Placer, no_choice
from barycenter.load.placement.score_order import ScoreOrder
from barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared, of_figures
from barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from barycenter.load.reports.weights import resource_weights
from barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastLongTermMessageRate"
_KEYS: Final = ("loadBalancerBrokerOverloadedThresholdPercentage",)


@dataclass(frozen=True, slots=True)
class LeastLongTermMessageRate(Placer[None]):
    """`overload_limit` is a fraction."""

    name: ClassVar[str] = NAME
    overload_limit: float = 0.85
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(
            overload_limit=config.load_balancer_broker_overloaded_threshold_percentage / 100.0,
            weights=resource_weights(config),
        )

    def start(self) -> None:
        return None

    def scores(self, snapshot: LoadSnapshot) -> Floats:
        """Return each broker's score, msg/s, of which the least wins: its long-term rate, preallocated bundles added.

        The rate is in + out, infinite above the overload limit (strict). Neither short-term data nor the bundle to be
        placed play a part.
        """
        memo, key = snapshot.brokers.memo, (NAME, self)
        reported: Floats | None = memo.get(key)
        if reported is None:
            usage = snapshot.brokers.weighted_usage(self.weights)
            reported = memo[key] = np.where(usage > self.overload_limit, np.inf, snapshot.brokers.long.rate)
        return reported + snapshot.preallocated_long_rate

    def _ranked(self, snapshot: LoadSnapshot, scores: Floats, candidates: Flags) -> list[int]:
        """Return the best candidates, best first; one more than a reason names."""
        memo, key = snapshot.brokers.memo, (f"{NAME} order", self)
        order: ScoreOrder | None = memo.pop(key, None)  # nobody else changes it meanwhile
        if order is None:
            order = ScoreOrder(scores)
        else:
            order.follow(scores)
        found = order.least(candidates, MAX_ALTERNATIVES + 1)
        memo[key] = order
        return found

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: None
    ) -> tuple[PlacementChoice, None]:
        """Choose among the candidates with the least score, at random between equals; all overloaded are equal, too."""
        count = int(np.count_nonzero(candidates))
        if not count:
            return no_choice(NAME), memory
        scores = self.scores(snapshot)
        ranked = self._ranked(snapshot, scores, candidates)
        figures = list(map(scores.item, ranked))
        least, equal = figures[0], figures.count(figures[0])
        best = ranked[:equal] if equal < len(figures) else (candidates & (scores == least)).nonzero()[0].tolist()
        chosen = best[rng.randrange(len(best)) if len(best) > 1 else 0]
        place = ranked.index(chosen) if chosen in ranked else -1
        del ranked[place], figures[place]
        choice = PlacementChoice(
            broker=chosen,
            strategy=NAME,
            code=Code.ALL_OVERLOADED if least == math.inf else Code.LEAST_LONG_TERM_RATE,
            compared=(self._compared(snapshot, chosen, least, ranked, figures),),
            rejected=self._rejected(snapshot, ranked, figures, least),
            rejected_count=count - 1,
            settings=_KEYS,
        )
        return choice, memory

    def _compared(
        self, snapshot: LoadSnapshot, chosen: int, least: float, others: list[int], figures: list[float]
    ) -> Compared:
        if least == math.inf:
            return self._of_limit(snapshot, chosen, ">")
        if not others or figures[0] == math.inf:
            return self._of_limit(snapshot, chosen, "<=")
        against = f"that of {snapshot.brokers.names[others[0]]}"
        return Compared("long-term rate", least, "<=", against, figures[0], "msg/s")

    def _of_limit(self, snapshot: LoadSnapshot, broker: int, relation: str) -> Compared:
        return self._of_limits(snapshot, [broker], relation)[0]

    def _of_limits(self, snapshot: LoadSnapshot, brokers: list[int], relation: str) -> list[Compared]:
        usage = snapshot.brokers.weighted_usage(self.weights)
        return of_figures("usage", map(usage.item, brokers), relation, "overload limit", self.overload_limit, "%")

    def _rejected(
        self, snapshot: LoadSnapshot, rows: list[int], figures: list[float], least: float
    ) -> tuple[Alternative, ...]:
        equal = figures.count(least)
        below_limit = len(rows) - (0 if least == math.inf else figures.count(math.inf))
        higher = of_figures("long-term rate", figures[equal:below_limit], ">", "least", least, "msg/s")
        overloaded = self._of_limits(snapshot, rows[below_limit:], ">")
        codes = [Code.EQUAL] * equal + [Code.HIGHER_RATE] * len(higher) + [Code.OVERLOADED] * len(overloaded)
        names = map(snapshot.brokers.names.__getitem__, rows)
        return tuple(map(Alternative, names, codes, [*repeat(None, equal), *higher, *overloaded]))
