"""The rule that compares configurations: their cost, and the noise of a gain; docs/advise.md explains it.

    cost = 100 × regret + price × disturbed

`regret` is how much fuller the fullest broker was than necessary (docs/measures.md), `disturbed` how often per day the
average client was disturbed: sessions disturbed / sessions / days. So `price` is the number of percentage points of a
broker that are worth one disturbance less per client and day.

Worked example: regret 0.08, 300 of 1 000 sessions disturbed in half a day, price 5: 8 + 5 × 0.6 = 11 points.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, TypeVar

import msgspec
import numpy as np

from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.advice.parts import Trial
from pulsar_barycenter.replay.measures import Measures

_T = TypeVar("_T")

PRICES: Final = {"balance": 1.0, "both": 5.0, "calm": 25.0}
LEAST_GAIN: Final = 1.0
"""A gain of fewer points of cost is not worth a change."""
NOISES: Final = 2.0
"""A gain counts only if it is more than this many standard errors."""
TIE: Final = 0.25
"""Configurations whose costs differ by fewer points are equally good."""


class Weights(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The constants that turn measures into a cost: the price of a disturbance (points of cost for one disturbance per
    day of the average client), the numbers of sessions and bundles of the cluster, and the length in hours of each part
    of the history.
    """

    price: float
    sessions: int
    bundles: int
    choosing_hours: tuple[float, ...]
    telling_hours: tuple[float, ...]

    def disturbed_a_day(self, measures: Measures, hours: float) -> float:
        """Return how often per day the average client was disturbed in a part of the history that is `hours` long. If
        the number of sessions is not known, return how often the average bundle was.
        """
        if self.sessions:
            return measures.sessions_disturbed / self.sessions * 24 / hours
        return (measures.unloads + measures.splits + measures.assignments) / self.bundles * 24 / hours

    def cost(self, measures: Measures, hours: float) -> float:
        return 100 * measures.regret + self.price * self.disturbed_a_day(measures, hours)

    def choosing(self, trials: Sequence[Trial]) -> Floats:
        """Return the costs of a configuration on the parts of the history used for choosing: one row per seed, one
        column per part. `trials` are its replays, one per seed.
        """
        return self._costs([each.choosing for each in trials], self.choosing_hours)

    def telling(self, trials: Sequence[Trial]) -> Floats:
        """Return the costs of a configuration on the held-out parts of the history: one row per seed, one column per
        part. `trials` are its replays, one per seed.
        """
        return self._costs([each.telling for each in trials], self.telling_hours)

    def _costs(self, runs: Sequence[Sequence[Measures]], hours: Sequence[float]) -> Floats:
        rows = [[self.cost(each, of) for each, of in zip(run, hours, strict=True)] for run in runs]
        return np.array(rows, float)


class Gain(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How much lower the cost of one configuration is than that of another, in points; negative if it is higher. Up to
    `noise` points may be due to chance.
    """

    points: float
    noise: float

    @property
    def counts(self) -> bool:
        return self.points >= LEAST_GAIN and self.points > self.noise


def gain(before: Floats, after: Floats) -> Gain:
    """Return how much lower the costs `after` are than the costs `before`. Both have a row for each seed and a column
    for each part of the history, in the same order.

    The noise is twice the standard error of the mean saving. The error is computed twice: from the means of each part
    over the seeds, and from the means of each seed over the parts. The greater of the two counts.

    Worked example: two parts with savings of 3 and 5 points (means over the seeds), two seeds with 4 and 4 points
    (means over the parts): the gain is 4 points; the noise is 2 × sqrt(2) / sqrt(2) = 2 points.
    """
    saved = before - after
    errors = (_error(saved.mean(axis=0)), _error(saved.mean(axis=1)))
    return Gain(points=float(saved.mean()), noise=NOISES * max(errors))


def _error(values: Floats) -> float:
    """Return the standard error of the mean of `values`; 0 for a single value, whose error is unknown."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """The key by which configurations are ranked: the mean cost in points. Among configurations with equally good
    costs, the one with the smaller `unloads`, then `changed_keys`, then `title` is better.
    """

    cost: float
    unloads: float
    changed_keys: int
    title: str


def weighed(weights: Weights, trials: Sequence[Trial], changed_keys: int) -> Weighed:
    """Return the ranking key of a configuration, for the parts of the history used for choosing. `trials` are its
    replays, one per seed; `unloads` of the result is their mean. `changed_keys` is the number of keys that differ from
    the present configuration.
    """
    unloads = fmean(sum(each.unloads for each in trial.choosing) for trial in trials)
    cost = float(weights.choosing(trials).mean())
    return Weighed(cost=cost, unloads=unloads, changed_keys=changed_keys, title=trials[0].scenario.title)


def least(candidates: Sequence[_T], weigh: Callable[[_T], Weighed]) -> _T:
    """Return the best candidate. Candidates whose cost is less than TIE points above the least cost are equally good:
    of these, the one with the fewest unloads is returned, then with the fewest changed keys, then with the first title.
    `weigh` returns the ranking key of a candidate. `candidates` must not be empty.
    """
    of = [weigh(each) for each in candidates]
    lowest = min(each.cost for each in of)
    equal = [place for place, each in enumerate(of) if each.cost < lowest + TIE]
    best = min(equal, key=lambda place: (of[place].unloads, of[place].changed_keys, of[place].title))
    return candidates[best]
