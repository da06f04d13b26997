"""LeastLongTermMessageRate: the broker whose bundles have the lowest long-term message rate.

Worked example: two brokers at 100 and 110 msg/s get two bundles of 20 msg/s. The first bundle goes to broker 1, whose
score is then 120, because the bundle counts as preallocated. So the second goes to broker 2, although no report came in
between.

When to use it: equal brokers and similar messages. When not: unequal brokers (it compares rates, not capacities), or
together with a shedder that compares usages, which may undo its placements.

Source: Pulsar's `LeastLongTermMessageRate` (4.x: weighted usage in the overload test).
"""

import math
import random
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
import numpy as np

from pulsar_barycenter.load.decisions import OVERLOAD_KEY
from pulsar_barycenter.load.placement.placer import Figures, PlacementChoice, Placer, no_choice
from pulsar_barycenter.load.placement.score_order import ScoreOrder
from pulsar_barycenter.load.reasons import MAX_ALTERNATIVES, Alternative, Code, Compared, of_figures
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.snapshot.load_snapshot import BrokerTable, Flags, Floats, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "LeastLongTermMessageRate"
_KEYS: Final = (OVERLOAD_KEY,)


@dataclass(frozen=True, slots=True)
class LeastLongTermMessageRate(Placer[None]):
    """Places a bundle on the broker with the lowest score (see `scores`). `overload_limit` is a usage as a fraction."""

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
        """Return each broker's score in msg/s: the long-term rate of the broker, plus the long-term rates of the
        bundles that are on their way to it. The broker with the lowest score is chosen.

        A rate is in + out. If the usage of the broker is above the overload limit, the score is infinite. Short-term
        data and the bundle to be placed do not change the scores.
        """
        return self._known(snapshot.brokers).scores(snapshot)

    def _known(self, brokers: BrokerTable) -> "_Known":
        found: _Known | None = brokers.memo.get((NAME, self))
        if found is None:
            usage = brokers.weighted_usage(self.weights)
            reported = np.where(usage > self.overload_limit, np.inf, brokers.long.rate)
            found = brokers.memo[NAME, self] = _Known(reported)
        return found

    def decide(
        self, snapshot: LoadSnapshot, candidates: Flags, bundle: str, rng: random.Random, memory: None
    ) -> tuple[PlacementChoice, None]:
        """Choose the candidate with the lowest score, at random among equal scores. All overloaded candidates count as
        equal.
        """
        count = int(np.count_nonzero(candidates))
        if not count:
            return no_choice(NAME), memory
        known = self._known(snapshot.brokers)
        scores = known.scores(snapshot)
        ranked = known.ranked(scores, candidates, count)
        values = list(map(scores.item, ranked))
        least, equal = values[0], values.count(values[0])
        if equal < len(values):
            chosen = ranked[rng.randrange(equal) if equal > 1 else 0]
        else:  # more brokers may have this score than a reason names
            best = (candidates & (scores == least)).nonzero()[0]
            chosen = best.item(rng.randrange(len(best)) if len(best) > 1 else 0)
        place = ranked.index(chosen) if chosen in ranked else -1
        del ranked[place], values[place]
        choice = PlacementChoice(
            chosen,
            NAME,
            Code.ALL_OVERLOADED if least == math.inf else Code.LEAST_LONG_TERM_RATE,
            count - 1,
            _KEYS,
            _Ranked(self, snapshot.brokers, chosen, least, tuple(ranked), tuple(values)),
        )
        return choice, memory


class _Ranked(msgspec.Struct, frozen=True, gc=False):
    """Builds the numbers that explain a choice. `others` are the brokers with the lowest scores that were not chosen,
    `scores` are their scores.
    """

    strategy: LeastLongTermMessageRate
    brokers: BrokerTable
    chosen: int
    least: float
    others: tuple[int, ...]
    scores: tuple[float, ...]

    def __call__(self) -> Figures:
        scores, others, least = self.scores, self.others, self.least
        equal = scores.count(least)
        below_limit = len(others) - (0 if least == math.inf else scores.count(math.inf))
        higher = of_figures("long-term message rate", scores[equal:below_limit], ">", "lowest rate", least, "msg/s")
        overloaded = self._of_limits(others[below_limit:], ">")
        codes = [Code.EQUAL] * equal + [Code.HIGHER_RATE] * len(higher) + [Code.OVERLOADED] * len(overloaded)
        names = map(self.brokers.names.__getitem__, others)
        rejected = map(Alternative, names, codes, [*repeat(None, equal), *higher, *overloaded])
        return Figures((self._compared(),), tuple(rejected))

    def _compared(self) -> Compared:
        if self.least == math.inf:
            return self._of_limits((self.chosen,), ">")[0]
        if not self.others or self.scores[0] == math.inf:
            return self._of_limits((self.chosen,), "<=")[0]
        against = f"rate of {self.brokers.names[self.others[0]]}"
        return Compared("long-term message rate", self.least, "<=", against, self.scores[0], "msg/s")

    def _of_limits(self, rows: tuple[int, ...], relation: str) -> list[Compared]:
        usage, limit = self.brokers.weighted_usage(self.strategy.weights), self.strategy.overload_limit
        return of_figures("usage", map(usage.item, rows), relation, "overload limit", limit, "%")


class _Known:
    """Data about a table of brokers that is kept from one choice of a broker to the next choice.

    It has the long-term rate of each broker (msg/s), to which `scores` adds the rates of bundles on their way, and the
    order in which the previous choice sorted the brokers by score.
    """

    def __init__(self, reported: Floats) -> None:
        self._reported = reported
        self._orders: list[ScoreOrder] = []

    def scores(self, snapshot: LoadSnapshot) -> Floats:
        return self._reported + snapshot.preallocated_long_rate

    def ranked(self, scores: Floats, candidates: Flags, count: int) -> list[int]:
        """Return the rows of the candidates with the lowest scores, lowest first: at most MAX_ALTERNATIVES + 1, the
        broker to choose and those that a reason names. `count` is the number of candidates.
        """
        if self._orders:
            order = self._orders.pop()  # so that no other call changes it meanwhile
            order.follow(scores)
        else:
            order = ScoreOrder(scores)
        found = order.least(candidates, count, MAX_ALTERNATIVES + 1)
        self._orders = [order]
        return found
